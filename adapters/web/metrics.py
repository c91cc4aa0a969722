"""What Prometheus reads: numbers about the store, alike from every process, and about this process's own answers."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response

from jobledger.adapters.web.access import Reader
from jobledger.adapters.web.refusing import HttpProblemError
from jobledger.adapters.web.service import Face, Service
from jobledger.domain.errors import JobledgerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobledger.adapters.web.access import Principal

routes = APIRouter(tags=["health"], include_in_schema=False)


@routes.get("/metrics")
def metrics(request: Request, face: Face, caller: Reader) -> Response:
    """Everything that is counted, as Prometheus reads it; a token of one owner sees its owner's jobs."""
    if find_spec("prometheus_client") is None:
        raise HttpProblemError("not_found", "the extra is not installed here: pip install 'jobledger[metrics]'")
    return _exposed(request, face, caller)


def _exposed(request: Request, face: Service, caller: Principal) -> Response:
    from prometheus_client import CollectorRegistry, exposition  # noqa: PLC0415  # the extra need not be installed

    registry = CollectorRegistry()
    registry.register(_StoreNumbers(face, caller))
    encode, kind = exposition.choose_encoder(request.headers.get("accept", ""))
    return Response(encode(registry), media_type=kind)


class _StoreNumbers:
    """Reads the store when it is asked, so that any number of processes tell the same and none has to remember."""

    def __init__(self, face: Service, caller: Principal) -> None:
        self._face, self._caller = face, caller

    def describe(self) -> Iterator[Any]:
        """Nothing beforehand: registering must not read the store."""
        return iter(())

    def collect(self) -> Iterator[Any]:
        """Every number, read now."""
        from prometheus_client.core import (  # noqa: PLC0415  # the extra need not be installed
            CounterMetricFamily,
            GaugeMetricFamily,
        )

        up = GaugeMetricFamily("jobledger_store_up", "Whether the store answered (1) or not (0).")
        try:
            yield from self._store(GaugeMetricFamily)
            up.add_metric([], 1)
        except JobledgerError:
            up.add_metric([], 0)
        yield up
        streams = GaugeMetricFamily("jobledger_web_streams", "Open event streams of this process.")
        streams.add_metric([], self._face.hub.listening)
        yield streams
        answers = CounterMetricFamily(
            "jobledger_web_answers", "Answers of this process by the class of their status.", labels=["status"]
        )
        for status, count in sorted(self._face.answers.items()):
            answers.add_metric([f"{status}xx"], count)
        yield answers

    def _store(self, gauge: Any) -> Iterator[Any]:
        owner = self._caller.owner
        jobs = gauge("jobledger_jobs", "Jobs by state.", labels=["state"])
        for state, count in self._face.store.counts(owner=owner).items():
            jobs.add_metric([state.value], count)
        yield jobs
        held = gauge("jobledger_jobs_held", "Jobs under a hold, counted up to 10,000.")
        held.add_metric([], self._face.store.jobs(owner=owner, held=True, limit=1).total_at_least)
        yield held
        if owner is None:
            survey = self._face.store.survey()
            abandoned = gauge("jobledger_leases_abandoned", "Running jobs that their workers abandoned.")
            abandoned.add_metric([], survey.abandoned)
            yield abandoned
