"""A job's attempts as spans, with checkpoints and units as marks: a pure fold of its events."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from jobledger.domain import events

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobledger.domain.history import RecordedEvent


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened within an attempt: a checkpoint (no name) or a unit."""

    at: datetime
    sequence: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class AttemptSpan:
    """One attempt: from its claim to the event that ended it (``None``: it is open)."""

    generation: int
    worker: str
    start: datetime
    end: datetime | None
    ended_by: str | None
    error: str | None
    checkpoints: tuple[Mark, ...]
    units: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class WaitSpan:
    """A time without an attempt; ``state`` is ``waiting``, ``parked``, ``held`` or ``backing_off``."""

    state: str
    start: datetime
    end: datetime | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """The whole course of a job; ``waits`` and ``attempts`` together cover it from its creation on."""

    job_id: str
    created_at: datetime
    ended_at: datetime | None
    attempts: tuple[AttemptSpan, ...]
    waits: tuple[WaitSpan, ...]


@dataclass(slots=True)
class _Open:
    """What is under way while the fold goes over the events."""

    attempt: events.Claimed | None = None
    wait: tuple[str, datetime] | None = None
    checkpoints: list[Mark] = field(default_factory=list[Mark])
    units: list[Mark] = field(default_factory=list[Mark])


ENDS: Final[dict[type[events.Event], str]] = {
    events.Interrupted: "interrupted",
    events.AttemptFailed: "failed",
    events.Paused: "paused",
    events.Cancelled: "cancelled",
    events.Completed: "completed",
}


def timeline(job_id: str, history: Iterable[RecordedEvent]) -> Timeline:
    """Fold a job's events into its course; marks beyond the first thousands are the caller's to page."""
    attempts: list[AttemptSpan] = []
    waits: list[WaitSpan] = []
    now = _Open()
    created_at = ended_at = None
    for recorded in history:
        event = recorded.event
        created_at = created_at or event.at
        _end(event, now, attempts, waits)
        match event:
            case events.Claimed():
                now.attempt = event
            case events.Checkpointed():
                now.checkpoints.append(Mark(event.at, recorded.sequence))
            case events.UnitRecorded():
                now.units.append(Mark(event.at, recorded.sequence, event.unit))
            case events.Cancelled() | events.Completed():
                ended_at = event.at
                now.wait = None
            case _:
                if state := _wait_state(event, now):
                    now.wait = (state, event.at)
    if now.attempt is not None:
        attempts.append(_span(now, None, None, None))
    if now.wait is not None:
        waits.append(WaitSpan(*now.wait, None))
    if created_at is None:
        msg = f"job {job_id} has no events"
        raise LookupError(msg)
    return Timeline(job_id, created_at, ended_at, tuple(attempts), tuple(waits))


def _end(event: events.Event, now: _Open, attempts: list[AttemptSpan], waits: list[WaitSpan]) -> None:
    """Close the attempt or the wait that this event ends."""
    ended_by = ENDS.get(type(event))
    if now.attempt is not None and ended_by is not None:
        cause = getattr(event, "cause", None) or getattr(event, "outcome", None)
        attempts.append(
            _span(now, event.at, f"{ended_by} ({cause})" if cause else ended_by, getattr(event, "error", None))
        )
        now.attempt, now.checkpoints, now.units = None, [], []
    changes_wait = isinstance(
        event, events.Claimed | events.HoldPlaced | events.HoldReleased | events.Resumed | events.RetryRequested
    )
    if now.wait is not None and (changes_wait or ended_by is not None):
        if now.wait[1] < event.at:
            waits.append(WaitSpan(*now.wait, event.at))
        now.wait = None


def _wait_state(event: events.Event, now: _Open) -> str | None:
    """Which wait begins with this event, if any."""
    if now.attempt is not None:
        return None
    match event:
        case events.HoldPlaced():
            return "held"
        case events.AttemptFailed():
            return "backing_off"
        case events.Interrupted() | events.Paused():
            return "parked"
        case events.Created() | events.HoldReleased() | events.Resumed() | events.RetryRequested():
            return "waiting"
        case _:
            return None


def _span(now: _Open, end: datetime | None, ended_by: str | None, error: str | None) -> AttemptSpan:
    claimed = now.attempt
    if claimed is None:
        msg = "no attempt is open"
        raise LookupError(msg)
    return AttemptSpan(
        claimed.generation,
        claimed.worker,
        claimed.at,
        end,
        ended_by,
        error,
        tuple(now.checkpoints),
        tuple(now.units),
    )
