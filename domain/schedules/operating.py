"""Decisions of operators about a schedule: put, hold, release, remove, trigger, backfill."""

from __future__ import annotations

from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final

from jobledger.domain.errors import (
    HoldInForceError,
    InvalidRequestError,
    NotHeldError,
    ScheduleBusyError,
    SequenceMovedError,
    UnknownScheduleError,
)
from jobledger.domain.schedule_events import (
    Definition,
    ScheduleChanged,
    ScheduleCreated,
    ScheduleEvent,
    ScheduleFired,
    ScheduleHeld,
    ScheduleReleased,
    ScheduleRemoved,
)
from jobledger.domain.schedules.definition import require_firing
from jobledger.domain.schedules.timing import EPOCH, instants

if TYPE_CHECKING:
    from datetime import datetime

    from jobledger.domain.schedules.firing import Before
    from jobledger.domain.schedules.state import ScheduleState
    from jobledger.domain.schedules.timing import Calendar

BACKFILL_MAX: Final = 1_000
"""How many instants one backfill covers."""


def put(
    state: ScheduleState | None,
    definition: Definition,
    calendar: Calendar,
    *,
    namespace: str,
    name: str,
    by: str,
    now: datetime,
) -> list[ScheduleEvent]:
    """Begin a schedule, or change it for instants after this moment (an empty list: it says just that already).

    Raises:
        InvalidRequestError: it would never fire, or its owner changed.
    """
    if state is not None and not state.is_removed and state.definition.is_same(definition):
        return []
    if state is not None and state.definition.owner != definition.owner:
        problem = f"its jobs belong to {state.definition.owner!r}, and a schedule keeps its owner; choose another name"
        raise InvalidRequestError("Schedule.owner", problem)
    after = max(now, state.settled_at) if state else now
    next_at = require_firing(definition, calendar, after)
    if state is None or state.is_removed:
        created = ScheduleCreated(at=now, namespace=namespace, name=name, definition=definition, by=by, next_at=next_at)
        return [created]
    return [ScheduleChanged(at=now, definition=definition, by=by, next_at=next_at)]


def hold_schedule(
    state: ScheduleState, *, by: str, reason: str, now: datetime, expected_sequence: int | None = None
) -> list[ScheduleEvent]:
    """Place a stop sign: nothing fires until it is released (an empty list: the same operator holds it already).

    Raises:
        HoldInForceError: somebody else holds it; SequenceMovedError: somebody acted on it meanwhile.
    """
    _require_expected(state, expected_sequence)
    if state.hold is not None and state.hold.by == by:
        return []
    require_unheld(state)
    return [ScheduleHeld(at=now, by=by, reason=reason)]


def release_schedule(
    state: ScheduleState, *, by: str, reason: str, now: datetime, expected_sequence: int | None = None
) -> list[ScheduleEvent]:
    """Take the stop sign away (an empty list: the same operator released it last).

    Raises:
        NotHeldError: no hold is in force; SequenceMovedError: somebody acted on it meanwhile.
    """
    _require_expected(state, expected_sequence)
    if state.hold is None:
        if state.released_by != by:
            raise NotHeldError(state.stream)
        return []
    return [ScheduleReleased(at=now, by=by, reason=reason)]


def remove_schedule(
    state: ScheduleState, *, by: str, reason: str, now: datetime, expected_sequence: int | None = None
) -> list[ScheduleEvent]:
    """End a schedule; its jobs and its history stay.

    Raises:
        SequenceMovedError: somebody acted on it meanwhile.
    """
    _require_expected(state, expected_sequence)
    return [ScheduleRemoved(at=now, by=by, reason=reason)]


def require_triggerable(state: ScheduleState, before: Before | None) -> None:
    """Require that an occurrence may be made now.

    Raises:
        HoldInForceError: it is held.
        ScheduleBusyError: the occurrence before has not ended, and the definition allows no overlap.
    """
    require_unheld(state)
    if before is not None and before.ended_at is None and state.definition.overlap != "allow":
        raise ScheduleBusyError(state.name, before.job_id, state.definition.overlap)


def triggered(
    state: ScheduleState, *, instant: datetime, job_id: str, by: str, reason: str, now: datetime
) -> ScheduleFired:
    """An occurrence beside the plan, which stays as it is."""
    return ScheduleFired(
        at=now, instant=instant, job_id=job_id, how="triggered", next_at=state.next_at, by=by, reason=reason
    )


def backfilled(
    state: ScheduleState, *, instant: datetime, job_id: str, by: str, reason: str, now: datetime
) -> ScheduleFired:
    """An occurrence of an instant that was settled already; the plan stays as it is."""
    return ScheduleFired(
        at=now, instant=instant, job_id=job_id, how="backfilled", next_at=state.next_at, by=by, reason=reason
    )


def backfill_range(
    definition: Definition, calendar: Calendar, *, first: datetime, last: datetime, now: datetime
) -> list[datetime]:
    """The instants of a definition from ``first`` to ``last``, both included.

    Raises:
        InvalidRequestError: the range is empty, lies in the future, or has more than ``BACKFILL_MAX`` instants.
    """
    if last < first:
        raise InvalidRequestError("last", f"it lies before {first.isoformat()}; give the earlier instant first")
    if last > now:
        raise InvalidRequestError("last", f"it lies in the future; what comes after {now.isoformat()} fires by itself")
    behind = max(first, EPOCH + first.resolution) - first.resolution
    found = takewhile(lambda instant: instant <= last, instants(definition, calendar, behind))
    wanted = list(islice(found, BACKFILL_MAX + 1))
    if not wanted:
        raise InvalidRequestError("first", "no instant of the schedule lies in this range")
    if len(wanted) > BACKFILL_MAX:
        problem = f"more than {BACKFILL_MAX:,} instants lie in this range; backfill it in parts"
        raise InvalidRequestError("first", problem)
    return wanted


def require_schedule(state: ScheduleState | None, name: str) -> ScheduleState:
    """Require a schedule that was put and not removed since.

    Raises:
        UnknownScheduleError: there is none.
    """
    if state is None or state.is_removed:
        raise UnknownScheduleError(name)
    return state


def require_unheld(state: ScheduleState) -> None:
    """Require that no hold is in force.

    Raises:
        HoldInForceError: names the holder.
    """
    if state.hold is not None:
        raise HoldInForceError(state.stream, state.hold.by, state.hold.reason)


def _require_expected(state: ScheduleState, expected: int | None) -> None:
    if expected is not None and state.control_sequence != expected:
        raise SequenceMovedError(state.stream, expected, state.control_sequence)
