"""What must hold of one event of a schedule on its way: its instant, its time, its reason, and what stands around it.

Each predicate answers what is wrong, or nothing. Nothing here calls a rule that is under test: instants are counted in
whole microseconds from 1970.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from jobledger.domain.job import Request
from jobledger.domain.schedule_events import (
    ScheduleChanged,
    ScheduleCreated,
    ScheduleFired,
    ScheduleHeld,
    ScheduleReleased,
    ScheduleRemoved,
    ScheduleSkipped,
)
from jobledger.domain.schedules.state import ScheduleState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobledger.domain.schedule_events import Definition, ScheduleEvent

LATE: Final = timedelta(minutes=1)
FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
PLANNED: Final = ("due", "caught_up")
ASKED_FOR: Final = ("triggered", "backfilled")
GIVEN_UP: Final = ("changed", "removed")
SETTLED: Final = (ScheduleFired, ScheduleSkipped)
"""What settles instants; it moves no control sequence."""


@dataclass(slots=True)
class ScheduleStep:
    """One event of a schedule on its way: the state before and after it, and what its command knew.

    ``ended`` maps the jobs that were looked at to when they had ended (``None``: they had not); a job that is not in it
    was made by the same command. Without it nothing is said of jobs. ``is_put``: what is due was settled because the
    schedule is given another definition, and then no jitter is waited for.
    """

    before: ScheduleState | None
    event: ScheduleEvent
    after: ScheduleState
    ended: Mapping[str, datetime | None] | None = None
    is_put: bool = False

    @property
    def stood(self) -> ScheduleState:
        """The state before it, of an event that is not the first one."""
        return self.before if self.before is not None else self.after


def next_of(definition: Definition, after: datetime) -> datetime | None:
    """The first instant of an interval strictly after a moment, from its start to its end."""
    every = definition.every
    if every is None:
        return None
    anchor = definition.anchor or definition.start or FIRST
    behind = max(after, definition.start - MICROSECOND) if definition.start else after
    passed = (behind - anchor) // MICROSECOND // (every // MICROSECOND)
    instant = anchor + (passed + 1) * every
    return None if definition.end is not None and instant > definition.end else instant


def delay_of(state: ScheduleState) -> timedelta:
    """How long after its instant a schedule's job is due: drawn from its names, within its jitter."""
    if not state.definition.jitter:
        return timedelta(0)
    parts = [part.encode() for part in ("jitter", state.namespace, state.name)]
    drawn = sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).hexdigest()[:16]
    return int(drawn, 16) % (state.definition.jitter // MICROSECOND + 1) * MICROSECOND


def _is_due(step: ScheduleStep, instant: datetime) -> bool:
    return instant + (timedelta(0) if step.is_put else delay_of(step.stood)) <= step.event.at


# The plan -------------------------------------------------------------------------------------------------------------


def begins_once(step: ScheduleStep) -> str | None:
    is_there = step.before is not None and not step.before.is_removed
    if isinstance(step.event, ScheduleCreated) == is_there:
        return "it was created already" if is_there else f"there is no schedule for a {type(step.event).__name__}"
    return None


def time_never_runs_back(step: ScheduleStep) -> str | None:
    is_back = step.before is not None and step.event.at < step.before.updated_at
    return f"{step.event.at.isoformat()} lies before {step.stood.updated_at.isoformat()}" if is_back else None


def fires_what_is_planned(step: ScheduleStep) -> str | None:
    """The instant that was planned, and then the next one of the definition."""
    event, before = step.event, step.stood
    if isinstance(event, ScheduleFired):
        if event.how in ASKED_FOR:
            return None if event.next_at == before.next_at else "what an operator asks for moved the plan"
        first = last = event.instant
    elif isinstance(event, ScheduleSkipped):
        first, last = event.first, event.last
        if last != first + (event.count - 1) * (before.definition.every or timedelta(0)) or event.count < 1:
            return f"{event.count} instants do not lie from {first.isoformat()} to {last.isoformat()}"
    else:
        return None
    if first != before.next_at:
        return f"{first.isoformat()} was settled, planned was {before.next_at and before.next_at.isoformat()}"
    return _plans(event.next_at, next_of(before.definition, last))


def plans_the_first_instant(step: ScheduleStep) -> str | None:
    """A definition begins with its first instant that has not come, and that was not settled before."""
    event, before = step.event, step.before
    if not isinstance(event, ScheduleCreated | ScheduleChanged):
        return None
    return _plans(event.next_at, next_of(event.definition, max(event.at, before.settled_at) if before else event.at))


def _plans(planned: datetime | None, expected: datetime | None) -> str | None:
    return None if planned == expected else f"it plans {planned}, the next instant is {expected}"


def comes_when_it_is_due(step: ScheduleStep) -> str | None:
    event = step.event
    if isinstance(event, ScheduleFired) and event.how in ASKED_FOR:
        if event.how == "triggered" and event.instant != event.at:
            return "what was asked for now has another instant"
        return f"{event.instant.isoformat()} has not come" if event.instant > event.at else None
    last = event.instant if isinstance(event, ScheduleFired) else getattr(event, "last", None)
    if last is None:
        return None
    is_given_up = getattr(event, "reason", "") in GIVEN_UP
    is_due = last <= event.at if is_given_up else _is_due(step, last)
    return None if is_due else f"{last.isoformat()} was not due yet"


def leaves_nothing_behind(step: ScheduleStep) -> str | None:
    """A release, another definition and a removal find everything settled that was due before."""
    event, next_at = step.event, step.stood.next_at
    if not isinstance(event, ScheduleReleased | ScheduleChanged | ScheduleRemoved) or next_at is None:
        return None
    is_left = next_at + delay_of(step.stood) <= event.at if isinstance(event, ScheduleReleased) else next_at <= event.at
    return f"{next_at.isoformat()} was due, and is neither fired nor on record as skipped" if is_left else None


# What becomes of an instant -------------------------------------------------------------------------------------------


def fires_unless_held(step: ScheduleStep) -> str | None:
    is_held, event = step.stood.hold is not None, step.event
    if isinstance(event, ScheduleFired):
        return "a hold was in force" if is_held else None
    if not isinstance(event, ScheduleSkipped) or event.reason in GIVEN_UP:
        return None
    return None if (event.reason == "held") == is_held else f"{event.reason}, the hold: {step.stood.hold}"


def late_ones_are_caught_up_as_it_says(step: ScheduleStep) -> str | None:
    event = step.event
    if isinstance(event, ScheduleSkipped):
        return _why_skipped(step, event)
    return _why_fired(step, event) if isinstance(event, ScheduleFired) and event.how in PLANNED else None


def _why_fired(step: ScheduleStep, event: ScheduleFired) -> str | None:
    definition = step.stood.definition
    if _lateness(step, event.instant) > definition.window:
        return "it came too late for its window"
    is_late = _is_late(step, event.instant)
    if is_late is not None and is_late != (event.how == "caught_up"):
        return f"it is {event.how}, and {_lateness(step, event.instant)} late"
    if is_late and definition.catch_up == "none":
        return "it was caught up, and the schedule does not catch up"
    if is_late and definition.catch_up == "one" and event.next_at is not None and _is_due(step, event.next_at):
        return "it was caught up, and a newer one is due"
    return None


def _why_skipped(step: ScheduleStep, event: ScheduleSkipped) -> str | None:
    definition = step.stood.definition
    if event.reason in ("held", *GIVEN_UP):
        return None
    if event.reason == "out_of_window":
        return None if _lateness(step, event.last) > definition.window else "it came within its window"
    if _lateness(step, event.first) > definition.window:
        return f"it is {event.reason}, and came too late for its window"
    is_late = _is_late(step, event.last)
    if event.reason == "missed":
        return None if definition.catch_up == "none" and is_late is not False else "it is missed, and nothing was late"
    if event.reason == "coalesced":
        is_newer_due = event.next_at is not None and _is_due(step, event.next_at)
        is_right = definition.catch_up == "one" and is_late is not False and is_newer_due
        return None if is_right else "it is coalesced, and nothing newer stands for it"
    return f"it is {event.reason}, and late ones are passed over" if is_late and definition.catch_up == "none" else None


def _lateness(step: ScheduleStep, instant: datetime) -> timedelta:
    return step.event.at - instant - delay_of(step.stood)


def _is_late(step: ScheduleStep, instant: datetime) -> bool | None:
    """Whether it was late, not counting what it waited for another one; ``None``: that is not known here."""
    lateness, before = _lateness(step, instant), step.stood
    if before.definition.overlap == "queue" and before.last_job_id is not None and lateness > LATE:
        ended_at = (step.ended or {}).get(before.last_job_id)
        if ended_at is None:
            return None
        lateness = min(lateness, step.event.at - ended_at)
    return lateness > LATE


def occurrences_overlap_as_it_says(step: ScheduleStep) -> str | None:
    event, before = step.event, step.stood
    if isinstance(event, ScheduleSkipped) and event.reason == "overlap":
        if before.definition.overlap != "skip" or event.job_id != before.last_job_id or event.job_id is None:
            return f"job {event.job_id} stands in no instant's way here"
        has_ended = step.ended is not None and step.ended.get(event.job_id) is not None
        return f"job {event.job_id} had ended" if has_ended else None
    if not isinstance(event, ScheduleFired) or event.how == "backfilled" or step.ended is None:
        return None
    if before.definition.overlap == "allow" or before.last_job_id is None:
        return None
    is_open = step.ended.get(before.last_job_id) is None
    return f"the occurrence before it, {before.last_job_id}, had not ended" if is_open else None


# Controls and the fold ------------------------------------------------------------------------------------------------


def holds_alternate(step: ScheduleStep) -> str | None:
    is_held = step.stood.hold is not None
    if isinstance(step.event, ScheduleHeld) and is_held:
        return "a hold was in force already"
    return "no hold was in force" if isinstance(step.event, ScheduleReleased) and not is_held else None


def changes_what_it_speaks_of(step: ScheduleStep) -> str | None:
    expected = folded(step.before, step.event)
    if expected == step.after:
        return None
    names = [name for name in ScheduleState.__slots__ if getattr(expected, name) != getattr(step.after, name)]
    return f"{', '.join(names)} became something else"


def folded(before: ScheduleState | None, event: ScheduleEvent) -> ScheduleState:
    """What an event makes of a state, said a second time."""
    if isinstance(event, ScheduleCreated):
        number = before.sequence + 1 if before else 1
        kept: dict[str, Any] = {}
        if before is not None:
            kept = {name: getattr(before, name) for name in ("last_instant", "last_job_id", "fired", "skipped")}
        return ScheduleState(
            namespace=event.namespace,
            name=event.name,
            definition=event.definition,
            created_at=event.at,
            updated_at=event.at,
            sequence=number,
            control_sequence=number,
            settled_at=event.at if before is None else max(before.settled_at, event.at),
            next_at=event.next_at,
            **kept,
        )
    if before is None:
        msg = "no schedule is there"
        raise LookupError(msg)
    number = before.sequence + 1
    control = before.control_sequence if isinstance(event, SETTLED) else number
    stamped = replace(before, sequence=number, control_sequence=control, updated_at=event.at)
    return replace(stamped, **_changes_of(before, event))


def _changes_of(before: ScheduleState, event: ScheduleEvent) -> dict[str, Any]:
    match event:
        case ScheduleFired():
            is_newest, is_planned = event.how != "backfilled", event.how in PLANNED
            made = {"last_instant": event.instant, "last_job_id": event.job_id} if is_newest else {}
            reached = {"settled_at": max(before.settled_at, event.instant)} if is_planned else {}
            return {"fired": before.fired + 1, "next_at": event.next_at, **made, **reached}
        case ScheduleSkipped():
            reached = {"settled_at": max(before.settled_at, event.last)}
            return {"skipped": before.skipped + event.count, "next_at": event.next_at, **reached}
        case ScheduleChanged():
            reached = {"settled_at": max(before.settled_at, event.at)}
            return {"definition": event.definition, "next_at": event.next_at, **reached}
        case ScheduleHeld():
            return {"hold": Request(by=event.by, reason=event.reason, at=event.at)}
        case ScheduleReleased():
            return {"hold": None, "released_by": event.by}
        case _:
            return {"is_removed": True, "hold": None, "next_at": None}
