"""OpenTelemetry: a span for each create, and one for each attempt, linked to the create by what the job keeps of it.

Nothing is measured, and nothing imported, where the process has no tracer provider: the program that wants spans sets
one up, as the OpenTelemetry SDK has it, and chooses where they go.
"""

from __future__ import annotations

import re
import sys
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, TypeVar

from jobledger.domain.decisions.creating import JobRequest
from jobledger.domain.errors import JobledgerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobledger.domain.answers import CreateReceipt, Lease

Answer = TypeVar("Answer")

API: Final = "opentelemetry.trace"
SYSTEM: Final = "jobledger"
DESCRIPTION_CHARACTERS_MAX: Final = 500
_TRACEPARENT: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_TYPE: Final = re.compile(r"[A-Za-z_][\w.]{0,79}")

# The conventions for messaging are still in development: their names stand here, in one place.
MESSAGING_SYSTEM: Final = "messaging.system"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
MESSAGE_ID: Final = "messaging.message.id"
BATCH_SIZE: Final = "messaging.batch.message_count"
CONSUMER_GROUP: Final = "messaging.consumer.group.name"
ERROR_TYPE: Final = "error.type"


@cache
def _version() -> str:
    return version("jobledger")


def _api() -> Any:
    """The API of OpenTelemetry, if somebody loaded it and gave it a provider; else ``None``."""
    trace: Any = sys.modules.get(API)
    if trace is None or isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None
    return trace


def traced_ids() -> dict[str, str]:
    """The ids of the span that the caller is in, for a line in a log; none outside of one."""
    trace: Any = sys.modules.get(API)
    found = None if trace is None else trace.get_current_span().get_span_context()
    if found is None or not found.is_valid:
        return {}
    return {"trace_id": f"{found.trace_id:032x}", "span_id": f"{found.span_id:016x}"}


# Creating -------------------------------------------------------------------------------------------------------------


def sent(request: JobRequest, create: Callable[[JobRequest], CreateReceipt]) -> CreateReceipt:
    """Create a job within a span of its own, which the job keeps; one that brings its ``traceparent`` keeps that."""
    trace = _api()
    if trace is None or not isinstance(request, JobRequest) or request.traceparent is not None:
        return create(request)
    with _sending(trace, f"send {request.queue}", {DESTINATION: request.queue}) as span:
        receipt = _answered(span, lambda: create(_within(request, span)))
        span.set_attribute(MESSAGE_ID, receipt.job_id)
        span.set_attribute("jobledger.reused", receipt.reused)
        return receipt


def sent_many(requests: Sequence[JobRequest], create: Callable[[Sequence[JobRequest]], Answer]) -> Answer:
    """Create many jobs within one span, which each of them keeps."""
    trace = _api()
    if trace is None or not isinstance(requests, list | tuple):
        return create(requests)
    with _sending(trace, "send", {BATCH_SIZE: len(requests)}) as span:
        return _answered(span, lambda: create([_within(each, span) for each in requests]))


def _sending(trace: Any, name: str, attributes: dict[str, Any]) -> AbstractContextManager[Any]:
    known = {MESSAGING_SYSTEM: SYSTEM, OPERATION_NAME: "send", OPERATION_TYPE: "send"} | attributes
    tracer = trace.get_tracer(SYSTEM, _version())
    began: AbstractContextManager[Any] = tracer.start_as_current_span(
        name, kind=trace.SpanKind.PRODUCER, attributes=known, record_exception=False
    )
    return began


def _answered(span: Any, call: Callable[[], Answer]) -> Answer:
    try:
        return call()
    except JobledgerError as error:
        span.set_attribute(ERROR_TYPE, error.code)
        raise


def _within(request: JobRequest, span: Any) -> JobRequest:
    found = span.get_span_context()
    if not isinstance(request, JobRequest) or request.traceparent is not None or not found.is_valid:
        return request
    text = f"00-{found.trace_id:032x}-{found.span_id:016x}-{int(found.trace_flags):02x}"
    return request.model_copy(update={"traceparent": text})


# Attempts -------------------------------------------------------------------------------------------------------------


class AttemptSpan:
    """The span of one attempt; where nobody traces, every method does nothing."""

    __slots__ = ("_span",)

    def __init__(self, span: Any | None = None) -> None:
        """Go on with a span; ``None``: nobody traces."""
        self._span = span

    @classmethod
    def begin(cls, lease: Lease, worker: str) -> AttemptSpan:
        """Begin one now: it is linked to the create and no child of it, since hours may lie between them."""
        trace = _api()
        if trace is None:
            return UNTRACED
        status = lease.status
        attributes = {
            MESSAGING_SYSTEM: SYSTEM,
            OPERATION_NAME: "process",
            OPERATION_TYPE: "process",
            DESTINATION: status.queue,
            MESSAGE_ID: lease.job_id,
            CONSUMER_GROUP: lease.fence.group,
            "jobledger.kind": status.kind,
            "jobledger.owner": status.owner,
            "jobledger.generation": lease.generation,
            "jobledger.worker": worker,
        }
        context: Any = sys.modules["opentelemetry.context"]
        span = trace.get_tracer(SYSTEM, _version()).start_span(
            f"process {status.queue}",
            context=context.Context(),
            kind=trace.SpanKind.CONSUMER,
            attributes=attributes,
            links=_links(trace, status.traceparent),
        )
        return cls(span)

    def current(self) -> AbstractContextManager[object]:
        """Within this block, spans and logs of the handler belong to the attempt."""
        if self._span is None:
            return nullcontext()
        trace: Any = sys.modules[API]
        entered: AbstractContextManager[object] = trace.use_span(self._span, end_on_exit=False, record_exception=False)
        return entered

    def event(self, name: str, **attributes: str | int) -> None:
        """Note that something was saved."""
        if self._span is not None:
            self._span.add_event(name, {f"jobledger.{key}": value for key, value in attributes.items()})

    def end(self, how: str, why: str, *, error: str | None = None) -> None:
        """End it: what became of the attempt, and the error if it failed."""
        if self._span is None:
            return
        trace: Any = sys.modules[API]
        self._span.set_attributes({"jobledger.ending": how, "jobledger.ending.why": why[:DESCRIPTION_CHARACTERS_MAX]})
        if error is not None:
            kind = error.partition(":")[0]
            self._span.set_attribute(ERROR_TYPE, kind if _TYPE.fullmatch(kind) else "_OTHER")
            self._span.set_status(trace.StatusCode.ERROR, error[:DESCRIPTION_CHARACTERS_MAX])
        self._span.end()
        self._span = None


UNTRACED: Final = AttemptSpan()
"""The span of every attempt that nobody traces."""


def _links(trace: Any, traceparent: str | None) -> list[Any]:
    found = _TRACEPARENT.fullmatch(traceparent or "")
    if found is None:
        return []
    flags = trace.TraceFlags(int(found[3], 16))
    context = trace.SpanContext(int(found[1], 16), int(found[2], 16), is_remote=True, trace_flags=flags)
    return [trace.Link(context)] if context.is_valid else []
