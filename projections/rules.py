"""The rules that one event of a history can break: each a question about the state before it and after it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from jobledger.domain import events
from jobledger.domain.job import ENGINE, Job, State
from jobledger.domain.values import Body

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from jobledger.domain.history import RecordedEvent


@dataclass(frozen=True, slots=True)
class Problem:
    """One rule that a history breaks, at which sequence (0: in the rows beside it)."""

    sequence: int
    rule: str
    text: str


PROBLEMS_MAX: Final = 100


@dataclass(slots=True)
class Walk:
    """What a verification has seen so far."""

    job: Job | None = None
    head: str = ""
    count: int = 0
    units: dict[str, Body] = field(default_factory=dict[str, Body])
    effects: dict[str, events.AppliedEffect] = field(default_factory=dict[str, events.AppliedEffect])
    expiry: datetime | None = None
    problems: list[Problem] = field(default_factory=list[Problem])

    def report(self, sequence: int, rule: str, text: str) -> None:
        """Note a problem, up to ``PROBLEMS_MAX``."""
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(Problem(sequence, rule, text))


def _created_once(walk: Walk, before: Job | None, recorded: RecordedEvent, _: Job) -> str | None:
    is_created = isinstance(recorded.event, events.Created)
    if is_created and recorded.event.job_id != recorded.stream:  # type: ignore[attr-defined]  # a Created
        return "it was created under another id"
    return None if is_created == (before is None and not walk.count) else "a job is created once, by its first event"


def _time_grows(_walk: Walk, before: Job | None, recorded: RecordedEvent, _: Job) -> str | None:
    if before is not None and recorded.at < before.updated_at:
        return f"its time {recorded.at.isoformat()} lies before that of the event before it"
    return None


def _ends_once(_walk: Walk, before: Job | None, recorded: RecordedEvent, _: Job) -> str | None:
    if before is None or not before.is_terminal or isinstance(recorded.event, events.Archived | events.Erased):
        return None
    return f"the job had ended as {before.state}"


def _generations_count(_walk: Walk, before: Job | None, recorded: RecordedEvent, _: Job) -> str | None:
    if before is None or not isinstance(recorded.event, events.Claimed):
        return None
    if before.attempt is not None:
        return f"generation {before.generation} was still open"
    if recorded.event.generation != before.generation + 1:
        return f"generation {recorded.event.generation} follows {before.generation}"
    return None


def _only_the_open_one_writes(_walk: Walk, before: Job | None, recorded: RecordedEvent, _: Job) -> str | None:
    if before is None or isinstance(recorded.event, events.Claimed) or recorded.generation is None:
        return None
    if before.attempt is None or recorded.generation != before.generation:
        return f"generation {recorded.generation} writes while {before.generation or 'none'} is the current one"
    return None


def _live_leases_are_kept(walk: Walk, _before: Job | None, recorded: RecordedEvent, _: Job) -> str | None:
    event = recorded.event
    if not isinstance(event, events.Interrupted) or event.cause != "lease_expired":
        return None
    if event.at < event.expires_at:
        return f"the lease that was interrupted lived until {event.expires_at.isoformat()}"
    if walk.expiry is not None and event.expires_at < walk.expiry:
        return f"it saw an expiry before the recorded one, {walk.expiry.isoformat()}"
    return None


def _expiries_grow(walk: Walk, _before: Job | None, recorded: RecordedEvent, _: Job) -> str | None:
    event, expiry = recorded.event, getattr(recorded.event, "expires_at", None)
    if expiry is None or isinstance(event, events.Interrupted):
        return None
    if expiry <= event.at:
        return "it grants a lease that has ended already"
    if walk.expiry is not None and not isinstance(event, events.Claimed) and expiry < walk.expiry:
        return "it shortens a lease"
    return None


def _claims_are_allowed(_walk: Walk, before: Job | None, recorded: RecordedEvent, _: Job) -> str | None:
    event = recorded.event
    if before is None or not isinstance(event, events.Claimed):
        return None
    if before.cancel is not None:
        return "a cancel request was pending"
    if before.hold is not None and (event.respects_hold or before.hold.by == ENGINE):
        return f"a hold of {before.hold.by!r} was in force"
    if before.interrupts >= before.policy.interrupts_max:
        return f"its budget of {before.policy.interrupts_max} interruptions was used up"
    if before.ready_at > event.at:
        return f"the job was not due before {before.ready_at.isoformat()}"
    return None


def _controls_fit_the_state(  # noqa: PLR0911  # one answer for each control
    _walk: Walk, before: Job | None, recorded: RecordedEvent, _: Job
) -> str | None:
    if before is None:
        return None
    match recorded.event:
        case events.HoldPlaced() if before.hold is not None:
            return f"a hold of {before.hold.by!r} was in force already"
        case events.HoldReleased() if before.hold is None:
            return "no hold was in force"
        case events.Resumed() if before.state is not State.PAUSED or before.generation > 0:
            return "only a paused job that was never leased is resumed"
        case events.CancelRequested() if before.state is not State.RUNNING or before.cancel is not None:
            return "a cancel is requested once, of what runs"
        case events.Cancelled(generation=None) if before.state is State.RUNNING:
            return "what runs is cancelled by its worker, or after its attempt was interrupted"
        case events.Cancelled(generation=int()) if before.cancel is None:
            return "nobody had asked for it"
        case _:
            return None


def _units_are_unique(walk: Walk, _before: Job | None, recorded: RecordedEvent, _: Job) -> str | None:
    if isinstance(recorded.event, events.UnitRecorded) and recorded.event.unit in walk.units:
        return f"unit {recorded.event.unit!r} was recorded before"
    return None


def _states_are_honest(_walk: Walk, before: Job | None, recorded: RecordedEvent, after: Job) -> str | None:
    if after.hold and not after.is_terminal and after.state not in (State.RUNNING, State.PAUSED):
        return "held, but neither running nor paused"
    between = isinstance(recorded.event, events.Interrupted) and before is not None and before.cancel is not None
    if after.cancel and after.state is not State.RUNNING and not between:
        return "a cancel request is pending, but nothing runs"
    if (after.attempt is not None) != (after.state is State.RUNNING):
        return "an attempt is open exactly while the job runs"
    return None


RULES: Final[dict[str, Callable[[Walk, Job | None, RecordedEvent, Job], str | None]]] = {
    "created": _created_once,
    "time": _time_grows,
    "terminal": _ends_once,
    "generation": _generations_count,
    "fence": _only_the_open_one_writes,
    "live_lease": _live_leases_are_kept,
    "expiry": _expiries_grow,
    "claim": _claims_are_allowed,
    "control": _controls_fit_the_state,
    "unit": _units_are_unique,
    "state": _states_are_honest,
}
"""Every rule that one event can break, by the name under which a problem is reported."""
