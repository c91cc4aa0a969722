"""What Prometheus reads: numbers about the store, alike from every process, and about this process's own answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Request, Response

from jobledger.adapters.web.access import Reader
from jobledger.adapters.web.refusing import HttpProblemError
from jobledger.adapters.web.service import Face, Service
from jobledger.domain.bounds import PAGE_MAX
from jobledger.domain.errors import JobledgerError, ProjectionBusyError
from jobledger.domain.job import State
from jobledger.projections.histograms import BOUNDS, Histogram

if TYPE_CHECKING:
    from jobledger.adapters.web.access import Principal
    from jobledger.projections.totals import Total

routes = APIRouter(tags=["health"], include_in_schema=False)

WORK: Final = ("queue", "kind")
"""What totals are told by; no job's own name or owner is ever a label, so that there are few of them."""


@routes.get("/metrics")
def metrics(request: Request, face: Face, caller: Reader) -> Response:
    """Everything that is counted, as Prometheus reads it; a token of one owner sees its owner's jobs."""
    if find_spec("prometheus_client") is None:
        raise HttpProblemError("not_found", "the extra is not installed here: pip install 'jobledger[metrics]'")
    return _exposed(request, face, caller)


def _exposed(request: Request, face: Service, caller: Principal) -> Response:
    from prometheus_client import CollectorRegistry, exposition  # noqa: PLC0415  # the extra need not be installed

    registry = CollectorRegistry()
    registry.register(_Numbers(face, caller))
    encode, kind = exposition.choose_encoder(request.headers.get("accept", ""))
    return Response(encode(registry), media_type=kind)


@dataclass(frozen=True, slots=True)
class _Shapes:
    """The three shapes of numbers that Prometheus knows and we have."""

    gauge: Any
    counter: Any
    histogram: Any

    @classmethod
    def known(cls) -> _Shapes:
        from prometheus_client import core  # noqa: PLC0415  # the extra need not be installed

        return cls(core.GaugeMetricFamily, core.CounterMetricFamily, core.HistogramMetricFamily)


class _Numbers:
    """Reads the store when it is asked, so that any number of processes tell the same and none has to remember."""

    def __init__(self, face: Service, caller: Principal) -> None:
        self._face, self._caller = face, caller
        self._shapes = _Shapes.known()

    def describe(self) -> Iterator[Any]:
        """Nothing beforehand: registering must not read the store."""
        return iter(())

    def collect(self) -> Iterator[Any]:
        """Every number, read now."""
        up = self._shapes.gauge("jobledger_store_up", "Whether the store answered (1) or not (0).")
        try:
            yield from self._standing()
            yield from self._totals()
            yield from self._projections()
            up.add_metric([], 1)
        except JobledgerError:
            up.add_metric([], 0)
        yield up
        yield from self._process()

    def _standing(self) -> Iterator[Any]:
        """What stands where, by the status rows: exact, and of this moment."""
        store, owner = self._face.store, self._caller.owner
        jobs = self._shapes.gauge("jobledger_jobs", "Jobs by state.", labels=["state"])
        for state, count in store.counts(owner=owner).items():
            jobs.add_metric([state.value], count)
        yield jobs
        held = self._shapes.gauge("jobledger_jobs_held", "Jobs under a hold, counted up to 10,000.")
        held.add_metric([], store.jobs(owner=owner, held=True, limit=1).total_at_least)
        yield held
        if owner is None:
            abandoned = self._shapes.gauge("jobledger_leases_abandoned", "Running jobs that their workers abandoned.")
            abandoned.add_metric([], store.survey().abandoned)
            yield abandoned

    def _totals(self) -> Iterator[Any]:
        """What happened, as far as the totals have read; ``jobledger_projection_lag_seconds`` says how far that is."""
        try:
            page = self._face.store.totals(owner=self._caller.owner, limit=PAGE_MAX)
        except ProjectionBusyError:
            return  # they are being rebuilt, and nothing true can be told of them meanwhile
        yield from _counted(self._shapes, page.totals)
        yield from _standing_by_queue(self._shapes, page.totals)
        for name, told in _DURATIONS.items():
            family = self._shapes.histogram(f"jobledger_{name}_seconds", told, labels=WORK)
            for each in page.totals:
                durations: Histogram = getattr(each, name)
                family.add_metric([each.queue, each.kind], _buckets(durations), durations.total.total_seconds())
            yield family

    def _projections(self) -> Iterator[Any]:
        """How far the projections have read; they are of the whole store."""
        if self._caller.owner is not None:
            return
        lag = self._shapes.gauge("jobledger_projection_lag_seconds", "Age of what is unread.", labels=["projection"])
        events = self._shapes.gauge("jobledger_projection_lag_events", "Events that are unread.", labels=["projection"])
        parked = self._shapes.gauge(
            "jobledger_projection_parked", "Whether it waits at an event that it cannot fold.", labels=["projection"]
        )
        for each in self._face.store.projections():
            lag.add_metric([each.name], each.lag.total_seconds())
            events.add_metric([each.name], each.lag_events)
            parked.add_metric([each.name], each.trouble is not None)
        yield from (lag, events, parked)

    def _process(self) -> Iterator[Any]:
        """What only this process knows; Prometheus sums it over all that it reads."""
        streams = self._shapes.gauge("jobledger_web_streams", "Open event streams of this process.")
        streams.add_metric([], self._face.hub.listening)
        yield streams
        answers = self._shapes.counter(
            "jobledger_web_answers", "Answers of this process by the class of their status.", labels=["status"]
        )
        for status, count in sorted(self._face.answers.items()):
            answers.add_metric([f"{status}xx"], count)
        yield answers
        refusals = self._shapes.counter(
            "jobledger_web_refusals", "Refusals that this process answered, by their code.", labels=["code"]
        )
        for code, count in sorted(self._face.refusals.items()):
            refusals.add_metric([code], count)
        yield refusals


_DURATIONS: Final[Mapping[str, str]] = {
    "waited": "From due to claimed.",
    "ran": "Length of an attempt.",
    "took": "From created to ended.",
}


def _counted(shapes: _Shapes, totals: tuple[Total, ...]) -> Iterator[Any]:
    for field, name, told in (
        ("created", "jobledger_jobs_created", "Jobs that were created."),
        ("attempts", "jobledger_claims", "Attempts that were started."),
        ("failed", "jobledger_attempts_failed", "Attempts that ended with an error."),
        ("interrupted", "jobledger_leases_lost", "Attempts whose lease ran out or whose epoch was over."),
    ):
        family = shapes.counter(name, told, labels=WORK)
        for each in totals:
            family.add_metric([each.queue, each.kind], getattr(each, field))
        yield family
    finished = shapes.counter("jobledger_jobs_finished", "Jobs that ended, by outcome.", labels=[*WORK, "outcome"])
    for each in totals:
        for outcome, count in each.finished.items():
            finished.add_metric([each.queue, each.kind, outcome.value], count)
    yield finished


def _standing_by_queue(shapes: _Shapes, totals: tuple[Total, ...]) -> Iterator[Any]:
    waiting = shapes.gauge("jobledger_queue_jobs", "Open jobs by queue, kind and state.", labels=[*WORK, "state"])
    oldest = shapes.gauge(
        "jobledger_queue_oldest_ready_timestamp_seconds", "Since when the longest waiting job is due.", labels=WORK
    )
    for each in totals:
        for state in (State.QUEUED, State.RUNNING, State.PAUSED):
            waiting.add_metric([each.queue, each.kind, state.value], getattr(each, state.value))
        if each.oldest_ready_at is not None:
            oldest.add_metric([each.queue, each.kind], each.oldest_ready_at.timestamp())
    yield from (waiting, oldest)


def _buckets(durations: Histogram) -> list[tuple[str, float]]:
    """A histogram as Prometheus has it: each bucket counts all that is below its bound."""
    bounds = [*(str(bound.total_seconds()) for bound in BOUNDS), "+Inf"]
    return [(bound, float(count)) for bound, count in zip(bounds, accumulate(durations.counts), strict=True)]
