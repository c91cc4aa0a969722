"""What the feed was folded into, over HTTP: totals, paces, workers, the operators' log, and how projections stand."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Self

from jobledger.adapters.wire.base import Instant, Seconds, Wire
from jobledger.domain.events import Outcome
from jobledger.domain.tracking import Trouble
from jobledger.projections.histograms import Histogram
from jobledger.projections.operators import OperatorAction
from jobledger.projections.projected import (
    OperatorPage,
    Paces,
    TotalsPage,
    WorkerPage,
)
from jobledger.projections.standings import ProjectionState, ProjectionStatus
from jobledger.projections.totals import Pace, Total
from jobledger.projections.workers import HeldLease, LostLease, WorkerStatus


class TroubleOut(Wire):
    """The event that a projection is parked at, and why it could not be folded."""

    position: int
    stream: str
    sequence: int
    topic: str
    error: str
    at: Instant


class ProjectionOut(Wire):
    """How far a projection has read, and what is behind it; ``advice`` says what to do, if anything."""

    name: str
    version: int
    state: ProjectionState
    position: int
    lag_events: int
    lag_s: Seconds
    runner: str
    moved_at: Instant | None
    trouble: TroubleOut | None
    rebuilding: int | None
    advice: str

    @classmethod
    def of(cls, value: object) -> Self:
        """How a projection stands, as the store gives it."""
        status: Any = value
        trouble = TroubleOut.of(status.trouble) if status.trouble else None
        names = ("name", "version", "state", "position", "lag_events", "runner", "moved_at", "rebuilding", "advice")
        return cls(**{name: getattr(status, name) for name in names}, lag_s=status.lag.total_seconds(), trouble=trouble)

    def answer(self) -> ProjectionStatus:
        """How it stands, as the store gives it."""
        values: dict[str, Any] = dict(self)
        values["lag"] = timedelta(seconds=values.pop("lag_s"))
        values["trouble"] = Trouble(**dict(self.trouble)) if self.trouble else None
        return ProjectionStatus(**values)


class ProjectionsOut(Wire):
    """Every projection that follows the feed, by name."""

    projections: list[ProjectionOut]


class ProjectionIn(Wire):
    """The projection that is meant; null: every one."""

    projection: str | None = None


class HistogramOut(Wire):
    """Durations: one count for each of the bounds 0.1, 0.5, 1, 5, 15 s, 1, 5, 15 min, 1, 4, 24 h, and one beyond."""

    counts: list[int]
    total_s: Seconds

    @classmethod
    def of(cls, value: object) -> Self:
        """A histogram as the store gives it."""
        histogram: Any = value
        return cls(counts=list(histogram.counts), total_s=histogram.total.total_seconds())

    def answer(self) -> Histogram:
        """The histogram as the store gives it."""
        return Histogram(tuple(self.counts), timedelta(seconds=self.total_s))


_DURATIONS = ("waited", "ran", "took")


class TotalOut(Wire):
    """The jobs of one queue and kind: all that ever were, and how they stand."""

    queue: str
    kind: str
    created: int
    queued: int
    running: int
    paused: int
    finished: dict[Outcome, int]
    oldest_ready_at: Instant | None
    attempts: int
    failed: int
    interrupted: int
    waited: HistogramOut
    ran: HistogramOut
    took: HistogramOut

    @classmethod
    def of(cls, value: object) -> Self:
        """A total as the store gives it."""
        told: dict[str, Any] = {name: getattr(value, name) for name in cls.model_fields}
        told.update({name: HistogramOut.of(told[name]) for name in _DURATIONS})
        return cls(**told)

    def answer(self) -> Total:
        """The total as the store gives it."""
        values: dict[str, Any] = dict(self)
        values |= {name: values[name].answer() for name in _DURATIONS}
        return Total(**values)


class TotalsOut(Wire):
    """Totals by queue and kind, as of a place in the feed."""

    totals: list[TotalOut]
    next_cursor: str | None
    as_of: ProjectionOut

    @classmethod
    def of(cls, value: object) -> Self:
        """A page of totals as the store gives it."""
        page: Any = value
        told = [TotalOut.of(each) for each in page.totals]
        return cls(totals=told, next_cursor=page.next_cursor, as_of=ProjectionOut.of(page.as_of))

    def answer(self) -> TotalsPage:
        """The page as the store gives it."""
        return TotalsPage(tuple(each.answer() for each in self.totals), self.next_cursor, self.as_of.answer())


class PaceOut(Wire):
    """What happened within one minute or day."""

    start: Instant
    created: int
    attempts: int
    finished: dict[Outcome, int]


class PacesOut(Wire):
    """What happened in each minute or day in which anything did, the earliest first."""

    paces: list[PaceOut]
    as_of: ProjectionOut

    @classmethod
    def of(cls, value: object) -> Self:
        """Paces as the store gives them."""
        found: Any = value
        return cls(paces=[PaceOut.of(each) for each in found.paces], as_of=ProjectionOut.of(found.as_of))

    def answer(self) -> Paces:
        """The paces as the store gives them."""
        return Paces(tuple(Pace(**dict(each)) for each in self.paces), self.as_of.answer())


class HeldLeaseOut(Wire):
    """A job that a worker holds; the expiry is null where the attempt has ended meanwhile."""

    job_id: str
    generation: int
    owner: str
    queue: str
    kind: str
    since: Instant
    expires_at: Instant | None


class LostLeaseOut(Wire):
    """An attempt that somebody else ended."""

    job_id: str
    generation: int
    at: Instant
    cause: str


class WorkerOut(Wire):
    """A worker by its name: what it holds, and what became of its attempts."""

    worker: str
    group: str
    epoch: int
    first_seen_at: Instant
    last_seen_at: Instant
    holding: int
    held: list[HeldLeaseOut]
    attempts: int
    finished: dict[Outcome, int]
    failed: int
    paused: int
    lost: int
    fenced: int
    renewed_late: int
    last_lost: list[LostLeaseOut]

    def answer(self) -> WorkerStatus:
        """The worker as the store gives it."""
        values: dict[str, Any] = dict(self)
        values["held"] = tuple(HeldLease(**dict(each)) for each in self.held)
        values["last_lost"] = tuple(LostLease(**dict(each)) for each in self.last_lost)
        return WorkerStatus(**values)


class WorkersOut(Wire):
    """Workers, those that were seen last first."""

    workers: list[WorkerOut]
    next_cursor: str | None
    as_of: ProjectionOut

    @classmethod
    def of(cls, value: object) -> Self:
        """A page of workers as the store gives it."""
        page: Any = value
        told = [WorkerOut.of(each) for each in page.workers]
        return cls(workers=told, next_cursor=page.next_cursor, as_of=ProjectionOut.of(page.as_of))

    def answer(self) -> WorkerPage:
        """The page as the store gives it."""
        return WorkerPage(tuple(each.answer() for each in self.workers), self.next_cursor, self.as_of.answer())


class OperatorActionOut(Wire):
    """One thing that an operator asked for and got; ``name`` is that of a schedule or group."""

    at: Instant
    by: str
    asked: str
    reason: str
    stream: str
    sequence: int
    name: str
    owner: str


class OperatorsOut(Wire):
    """What operators asked, the newest first."""

    actions: list[OperatorActionOut]
    next_cursor: str | None
    as_of: ProjectionOut

    @classmethod
    def of(cls, value: object) -> Self:
        """A page of the log as the store gives it."""
        page: Any = value
        told = [OperatorActionOut.of(each) for each in page.actions]
        return cls(actions=told, next_cursor=page.next_cursor, as_of=ProjectionOut.of(page.as_of))

    def answer(self) -> OperatorPage:
        """The page as the store gives it."""
        told = tuple(OperatorAction(**dict(each)) for each in self.actions)
        return OperatorPage(told, self.next_cursor, self.as_of.answer())
