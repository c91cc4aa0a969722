"""What becomes of the instants of a schedule that have come: each is fired once, or recorded as skipped, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Final

from jobledger.domain.errors import JobledgerError
from jobledger.domain.schedule_events import How, Reason, ScheduleFired, ScheduleSkipped
from jobledger.domain.schedules.timing import instants

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from jobledger.domain.schedules.state import ScheduleState
    from jobledger.domain.schedules.timing import Calendar

ON_TIME: Final = timedelta(minutes=1)
"""An instant that is settled within this span of being due is no matter of catching up."""

FIRED_MAX: Final = 100
"""How many jobs one transaction makes of one schedule, so that it stays short after a long outage."""

SETTLED_MAX: Final = 20_000
"""How many instants one transaction settles of one schedule; the rest is left to the next."""


@dataclass(frozen=True, slots=True)
class Before:
    """The occurrence before: its job, and when that ended (``None``: it has not)."""

    job_id: str
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Made:
    """What came of trying to make the job of an instant.

    ``unmade`` says why none was made (``None``: it was); ``job_id`` is the job that was made, or stands in the way.
    """

    job_id: str | None
    unmade: Reason | None = None
    refusal: JobledgerError | None = None

    @property
    def detail(self) -> str:
        """The refusal's sentence, if it was refused."""
        return str(self.refusal) if self.refusal else ""


Make = Callable[["datetime", How], Made]
"""Makes the job of an instant, or says why there is none."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What was decided on: the facts in their order, and whether nothing more is due."""

    facts: tuple[ScheduleFired | ScheduleSkipped, ...]
    is_whole: bool


@dataclass(slots=True)
class _Run:
    """Neighbouring instants that are skipped for one reason."""

    first: datetime
    last: datetime
    count: int
    reason: Reason
    job_id: str | None
    detail: str

    def takes(self, reason: Reason, job_id: str | None, detail: str) -> bool:
        return (self.reason, self.job_id, self.detail) == (reason, job_id, detail)


@dataclass(frozen=True, slots=True)
class _Fire:
    instant: datetime
    how: How
    job_id: str


def settle(
    state: ScheduleState,
    calendar: Calendar,
    make: Make,
    *,
    before: Before | None,
    now: datetime,
    upto: datetime | None = None,
) -> Settled:
    """Settle the instants that are due, oldest first, as the definition says; nothing while it is held or was removed.

    An instant is *late* when it is settled more than a minute after it was due (or, where occurrences wait for each
    other, after the one before it had ended). Of late ones ``catch_up`` fires none, the newest if nothing newer is due,
    or all; of whatever is left, ``overlap`` skips those whose predecessor has not ended, or lets them wait.

    Args:
        state: the schedule, loaded under its lock.
        calendar: what its cron expression and its zone mean.
        make: makes the job of an instant that fires.
        before: the occurrence before the first of them.
        now: the store's clock, read under the schedule's lock.
        upto: settle the instants up to this one, whether or not their jitter has passed; ``None``: those due by now.
    """
    steps: list[_Run | _Fire] = []
    settled = fired = 0
    waiting = _waiting(state, calendar)
    instant = None if state.hold else next(waiting, None)
    while instant is not None and _is_due(state, instant, now, upto):
        if settled == SETTLED_MAX or fired == FIRED_MAX:
            return _settled(state, steps, instant, now, is_whole=False)
        following = next(waiting, None)
        is_last = following is None or not _is_due(state, following, now, upto)
        verdict = _verdict(state, instant, before, now, is_last=is_last)
        if verdict is None:
            break
        if not isinstance(verdict, _Run):
            made = make(instant, verdict)
            if made.unmade is None and made.job_id is not None:
                steps.append(_Fire(instant, verdict, made.job_id))
                before, fired = Before(made.job_id, None), fired + 1
            else:
                verdict = _Run(instant, instant, 1, made.unmade or "refused", made.job_id, made.detail)
        if isinstance(verdict, _Run):
            _skip(steps, verdict)
        settled, instant = settled + 1, following
    return _settled(state, steps, instant, now, is_whole=True)


def give_up(
    state: ScheduleState, calendar: Calendar, reason: Reason, *, now: datetime, upto: datetime | None = None
) -> Settled:
    """Record every instant that is due (or lies at or before ``upto``) as skipped for one reason."""
    steps: list[_Run | _Fire] = []
    for count, instant in enumerate(_waiting(state, calendar)):
        if not _is_due(state, instant, now, upto):
            return _settled(state, steps, instant, now, is_whole=True)
        if count == SETTLED_MAX:
            return _settled(state, steps, instant, now, is_whole=False)
        _skip(steps, _Run(instant, instant, 1, reason, None, ""))
    return _settled(state, steps, None, now, is_whole=True)


def _waiting(state: ScheduleState, calendar: Calendar) -> Iterator[datetime]:
    """The instants that are not settled yet, from the one that was planned on."""
    if state.next_at is None or state.is_removed:
        return iter(())
    return chain([state.next_at], instants(state.definition, calendar, state.next_at))


def _is_due(state: ScheduleState, instant: datetime, now: datetime, upto: datetime | None) -> bool:
    return instant <= upto if upto is not None else instant + state.offset <= now


def _verdict(
    state: ScheduleState, instant: datetime, before: Before | None, now: datetime, *, is_last: bool
) -> _Run | How | None:
    """What becomes of one instant that is due: skipped or fired; ``None``: it waits for the occurrence before it."""

    def skipped(reason: Reason, job_id: str | None = None) -> _Run:
        return _Run(instant, instant, 1, reason, job_id, "")

    definition, due_at = state.definition, instant + state.offset
    is_open = before is not None and before.ended_at is None
    if now - due_at > definition.window:
        return skipped("out_of_window")
    if definition.overlap == "queue" and is_open:
        return None
    waited_until = before.ended_at if before and before.ended_at and definition.overlap == "queue" else due_at
    is_late = now - max(due_at, waited_until) > ON_TIME
    if is_late and definition.catch_up == "none":
        return skipped("missed")
    if is_late and definition.catch_up == "one" and not is_last:
        return skipped("coalesced")
    if definition.overlap == "skip" and is_open and before:
        return skipped("overlap", before.job_id)
    return "caught_up" if is_late else "due"


def _skip(steps: list[_Run | _Fire], run: _Run) -> None:
    """Add to the run before it, or begin one."""
    if steps and isinstance(last := steps[-1], _Run) and last.takes(run.reason, run.job_id, run.detail):
        last.last, last.count = run.last, last.count + run.count
    else:
        steps.append(run)


def _settled(
    state: ScheduleState, steps: list[_Run | _Fire], following: datetime | None, now: datetime, *, is_whole: bool
) -> Settled:
    """The facts of the steps, each naming the instant that comes after it."""
    at = max(now, state.updated_at)
    beginnings = [step.first if isinstance(step, _Run) else step.instant for step in steps]
    nexts = [*beginnings, following][1:]
    facts: list[ScheduleFired | ScheduleSkipped] = []
    for step, next_at in zip(steps, nexts, strict=True):
        if isinstance(step, _Run):
            facts.append(
                ScheduleSkipped(
                    at=at,
                    first=step.first,
                    last=step.last,
                    count=step.count,
                    reason=step.reason,
                    next_at=next_at,
                    job_id=step.job_id,
                    detail=step.detail,
                )
            )
        else:
            facts.append(ScheduleFired(at=at, instant=step.instant, job_id=step.job_id, how=step.how, next_at=next_at))
    return Settled(tuple(facts), is_whole)
