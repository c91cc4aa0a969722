"""OpenTelemetry: a create and each attempt are spans, joined by what the job keeps; without a provider, nothing is."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any, cast

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind, StatusCode
from opentelemetry.util._once import Once

from jobledger import AsyncJobContext, JobContext, JobRequest, JobStore, durable_job
from jobledger.adapters.remote import RemoteStore
from jobledger.adapters.web import create_app
from jobledger.adapters.worker.logs import JobLogJson
from tests.contracts.jobs import refuses
from tests.web.serving import serving
from tests.worker.hosting import PATIENCE, hosted

GIVEN = f"00-{'a' * 32}-{'b' * 16}-01"


@durable_job("index")
def index(job: JobContext, batches: int = 2) -> str:
    """Saves after each batch, and breaks where there are none."""
    if not batches:
        msg = "there is nothing to index"
        raise ValueError(msg)
    for number in range(batches):
        job.unit(f"batch-{number}", str, number)
        job.checkpoint(number)
    with trace.get_tracer("test").start_as_current_span("inside"):
        return "done"


@durable_job("later")
async def later(job: AsyncJobContext) -> str:
    """Saves once, on a loop."""
    await job.checkpoint(1)
    return "done"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """What this process traces while the test runs."""
    found = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(found))
    # The library sets a provider once for all; a test sets it for itself.
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    trace.set_tracer_provider(provider)
    yield found
    provider.shutdown()


def of(spans: InMemorySpanExporter, kind: SpanKind) -> list[ReadableSpan]:
    """The finished spans of a kind, in the order of their ends."""
    return [span for span in spans.get_finished_spans() if span.kind is kind]


def own(span: ReadableSpan) -> SpanContext:
    """Which span it is."""
    found: SpanContext | None = span.context
    assert found is not None
    return found


def said(span: ReadableSpan) -> dict[str, Any]:
    """The attributes of a span."""
    return dict(span.attributes or {})


def worked(store: JobStore, kind: str, payload: Any = None, key: str = "k", **fields: Any) -> str:
    """Make a job, and run it to its end."""
    job_id = store.create(JobRequest(owner="o", kind=kind, key=key, payload=payload, **fields)).job_id
    with hosted(store, index, later, name="host-1"):
        store.wait(job_id, PATIENCE)
    return job_id


def test_an_attempt_is_linked_to_the_create_that_asked_for_it(memory: JobStore, spans: InMemorySpanExporter) -> None:
    """It is no child of it: hours may lie between the two, and several attempts may follow."""
    job_id = worked(memory, "index", {"batches": 2}, queue="default")

    [send], [process] = of(spans, SpanKind.PRODUCER), of(spans, SpanKind.CONSUMER)
    assert (send.name, process.name) == ("send default", "process default")
    assert said(send)["messaging.message.id"] == said(process)["messaging.message.id"] == job_id
    assert said(process)["messaging.system"] == "jobledger"
    assert said(process)["jobledger.generation"] == 1
    assert said(process)["jobledger.ending.why"] == "complete"
    assert [link.context.span_id for link in process.links] == [own(send).span_id]
    assert process.parent is None
    assert [event.name for event in process.events] == ["unit", "checkpoint"] * 2
    assert process.status.status_code is StatusCode.UNSET


def test_spans_of_a_handler_belong_to_its_attempt(memory: JobStore, spans: InMemorySpanExporter) -> None:
    worked(memory, "index")

    [process] = of(spans, SpanKind.CONSUMER)
    [inside] = [span for span in spans.get_finished_spans() if span.name == "inside"]
    assert inside.parent is not None
    assert inside.parent.span_id == own(process).span_id


def test_an_async_handler_is_traced_alike(memory: JobStore, spans: InMemorySpanExporter) -> None:
    worked(memory, "later")

    [process] = of(spans, SpanKind.CONSUMER)
    assert [event.name for event in process.events] == ["checkpoint"]
    assert said(process)["jobledger.ending"] == "completed"


def test_a_failed_attempt_says_so_and_each_has_a_span(memory: JobStore, spans: InMemorySpanExporter) -> None:
    worked(memory, "index", {"batches": 0}, policy="twice")

    attempts = of(spans, SpanKind.CONSUMER)
    assert [said(each)["jobledger.generation"] for each in attempts] == [1, 2]
    assert {each.status.status_code for each in attempts} == {StatusCode.ERROR}
    assert {said(each)["error.type"] for each in attempts} == {"ValueError"}
    assert len({each.links[0].context.span_id for each in attempts}) == 1


def test_a_job_keeps_the_trace_that_it_was_asked_for_in(memory: JobStore, spans: InMemorySpanExporter) -> None:
    """One that the caller gives stands; a reused receipt changes nothing."""
    given = memory.create(JobRequest(owner="o", kind="index", key="given", traceparent=GIVEN)).job_id
    memory.create(JobRequest(owner="o", kind="index", key="given"))
    made = memory.create(JobRequest(owner="o", kind="index", key="made")).job_id

    reused, fresh = of(spans, SpanKind.PRODUCER)
    assert memory.status(given).traceparent == GIVEN
    trace_id, span_id = f"{own(fresh).trace_id:032x}", f"{own(fresh).span_id:016x}"
    assert str(memory.status(made).traceparent).startswith(f"00-{trace_id}-{span_id}-")
    assert (said(reused)["jobledger.reused"], said(fresh)["jobledger.reused"]) == (True, False)


def test_a_refused_create_names_its_code(memory: JobStore, spans: InMemorySpanExporter) -> None:
    memory.create(JobRequest(owner="o", kind="index", key="k", payload=1))
    refuses("payload_changed", memory.create, JobRequest(owner="o", kind="index", key="k", payload=2))

    assert said(of(spans, SpanKind.PRODUCER)[-1])["error.type"] == "payload_changed"


def test_jobs_made_together_share_a_span(memory: JobStore, spans: InMemorySpanExporter) -> None:
    requests: list[Any] = [JobRequest(owner="o", kind="index", key=f"k{number}") for number in range(3)]

    receipts = memory.create_many([*requests, cast("JobRequest", "no request")])

    [send] = of(spans, SpanKind.PRODUCER)
    assert said(send)["messaging.batch.message_count"] == 4
    traces = {memory.status(each.job_id).traceparent for each in receipts[:3]}  # type: ignore[union-attr]  # receipts
    assert len(traces) == 1
    assert f"{own(send).span_id:016x}" in str(traces)


def test_a_trace_travels_over_http(memory: JobStore, spans: InMemorySpanExporter) -> None:
    """In a job of a remote client, and in the header of whoever speaks plain HTTP; one that cannot be read is not."""
    with serving(create_app(memory)) as address, RemoteStore(address) as remote:
        job_id = remote.create(JobRequest(owner="o", kind="index", key="k")).job_id
        [send] = [each for each in of(spans, SpanKind.PRODUCER) if each.name == "send default"]
        assert f"{own(send).span_id:016x}" in str(remote.status(job_id).traceparent)
        for key, header, kept in (("a", GIVEN, GIVEN), ("b", "00-nonsense", None)):
            asked = {"Idempotency-Key": key, "traceparent": header}
            made = httpx.post(f"{address}/api/v1/jobs", json={"owner": "o", "kind": "index"}, headers=asked).json()
            found = memory.status(made["job_id"]).traceparent
            assert (found == kept) if kept else (found != header), found


def test_without_a_provider_nothing_is_traced(memory: JobStore) -> None:
    job_id = worked(memory, "index")

    assert memory.status(job_id).traceparent is None


@pytest.mark.parametrize("text", ["", "x", "00-" + "0" * 32 + "-" + "b" * 16 + "-01", GIVEN.upper(), f"{GIVEN}-more"])
def test_a_trace_that_nobody_could_follow_is_refused(memory: JobStore, text: str) -> None:
    refuses("invalid_request", memory.create, JobRequest(owner="o", kind="index", key="k", traceparent=text))


def test_a_line_of_the_log_names_its_trace(spans: InMemorySpanExporter) -> None:
    record = logging.LogRecord("jobledger.test", logging.INFO, __file__, 1, "said", None, None)

    with trace.get_tracer("test").start_as_current_span("inside") as span:
        line = json.loads(JobLogJson().format(record))

    assert line["trace_id"] == f"{span.get_span_context().trace_id:032x}"
    assert "trace_id" not in json.loads(JobLogJson().format(record))
    assert len(spans.get_finished_spans()) == 1
