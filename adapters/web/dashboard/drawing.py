"""The geometry of a job's course: attempts and waits as bars on one axis of time, checkpoints and units as ticks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from jobledger.adapters.terminal.texts import span

if TYPE_CHECKING:
    from jobledger.projections.timeline import AttemptSpan, Mark, Timeline

WIDTH: Final = 1_000.0
BAR_MIN: Final = 3.0
TICKS_MAX: Final = 200
ROWS_MAX: Final = 60


@dataclass(frozen=True, slots=True)
class Bar:
    """A span on the axis: where it stands, how long it is, what kind it is, and what it says."""

    x: float
    width: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A moment on the axis."""

    x: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class Row:
    """One attempt, or all waits."""

    label: str
    note: str
    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """The whole course; ``left_out`` is how many older attempts are not drawn."""

    rows: tuple[Row, ...]
    start: datetime
    end: datetime
    length: str
    left_out: int


def chart(timeline: Timeline, now: datetime) -> Chart:
    """Draw a job's course up to its end, or up to now."""
    start = timeline.created_at
    end = max(timeline.ended_at or now, start + timedelta(milliseconds=1))
    axis = _Axis(start, end)
    waits = tuple(
        axis.bar(wait.start, wait.end, f"wait-{wait.state}", f"{wait.state.replace('_', ' ')}")
        for wait in timeline.waits
    )
    attempts = timeline.attempts[-ROWS_MAX:]
    rows = [Row("waits", "", waits)] if waits else []
    rows += [_attempt_row(attempt, axis) for attempt in attempts]
    return Chart(tuple(rows), start, end, span(end - start), len(timeline.attempts) - len(attempts))


@dataclass(frozen=True, slots=True)
class _Axis:
    start: datetime
    end: datetime

    def x(self, at: datetime) -> float:
        share = (at - self.start) / (self.end - self.start)
        return round(min(1.0, max(0.0, share)) * WIDTH, 2)

    def bar(self, start: datetime, end: datetime | None, kind: str, what: str) -> Bar:
        left = self.x(start)
        right = self.x(end or self.end)
        width = max(BAR_MIN, right - left)
        return Bar(min(left, WIDTH - width), round(width, 2), kind, f"{what}, {span((end or self.end) - start)}")


def _attempt_row(attempt: AttemptSpan, axis: _Axis) -> Row:
    kind = "running" if attempt.ended_by is None else attempt.ended_by.partition(" ")[0]
    outcome = attempt.ended_by or "running"
    bar = axis.bar(
        attempt.start, attempt.end, f"attempt-{kind}", f"attempt {attempt.generation} by {attempt.worker}: {outcome}"
    )
    ticks = [
        *(_tick(axis, mark, "checkpoint") for mark in attempt.checkpoints[-TICKS_MAX:]),
        *(_tick(axis, mark, "unit") for mark in attempt.units[-TICKS_MAX:]),
    ]
    return Row(f"attempt {attempt.generation}", f"{attempt.worker} · {outcome}", (bar,), tuple(ticks))


def _tick(axis: _Axis, mark: Mark, kind: str) -> Tick:
    name = f" {mark.name}" if mark.name else ""
    return Tick(axis.x(mark.at), kind, f"{kind}{name} at event {mark.sequence}")
