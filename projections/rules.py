"""The rules that one event of a history can break: each a question about the state before it and after it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from jobledger.domain import events
from jobledger.domain.decisions.creating import job_id_of
from jobledger.domain.events import JobEvent, Outcome
from jobledger.domain.job import ENGINE, Job, State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jobledger.domain.history import RecordedEvent
    from jobledger.domain.queues.state import QueueState
    from jobledger.domain.schedules.state import ScheduleState
    from jobledger.domain.values import Body


@dataclass(frozen=True, slots=True)
class Problem:
    """One rule that a history breaks, at which sequence (0: in the rows beside it)."""

    sequence: int
    rule: str
    text: str


PROBLEMS_MAX: Final = 100


@dataclass(slots=True)
class Walk:
    """What a verification of one stream has seen so far.

    ``kind`` is the first word of its topics, ``position`` and ``at`` those of its last event, ``leading`` that event
    with its cause, ``commands`` the ids of all causes, ``owed`` what the same command has to record next. ``job`` and
    what follows are of a job's stream, ``epoch`` of a group's, ``schedule`` and ``occurrences`` (the sequences by the
    jobs that were made) of a schedule's, ``queue`` of a queue's. ``is_stored``: it may begin with an event that stands
    for archived ones, which is in no bundle; ``behind`` is its sequence.
    """

    stream: str
    is_stored: bool = False
    kind: str = ""
    head: str = ""
    count: int = 0
    position: int = 0
    at: datetime | None = None
    problems: list[Problem] = field(default_factory=list[Problem])
    leading: RecordedEvent | None = None
    commands: set[str] = field(default_factory=set[str])
    owed: Owed | None = None
    job: Job | None = None
    behind: int = 0
    units: dict[str, Body] = field(default_factory=dict[str, "Body"])
    effects: dict[str, events.AppliedEffect] = field(default_factory=dict[str, events.AppliedEffect])
    epoch: int = 1
    schedule: ScheduleState | None = None
    occurrences: dict[str, int] = field(default_factory=dict[str, int])
    queue: QueueState | None = None

    def report(self, sequence: int, rule: str, text: str) -> None:
        """Note a problem, up to ``PROBLEMS_MAX``."""
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(Problem(sequence, rule, text))


@dataclass(frozen=True, slots=True)
class Owed:
    """What an event leaves to be recorded by the same command, and why."""

    sequence: int
    kinds: tuple[type[events.Event], ...]
    text: str


@dataclass(slots=True)  # not frozen: one is made for each event, at three times the price
class Step:
    """One event of a job on its way; ``leading`` is the event before it of the same command, if any.

    Each rule is asked about the kinds of events that it speaks of, so that it knows what ``event`` is.
    """

    walk: Walk
    before: Job | None
    recorded: RecordedEvent
    after: Job
    leading: events.Event | None
    event: Any

    @property
    def expiry(self) -> datetime | None:
        """The last expiry of the open attempt that an event recorded."""
        return self.before.attempt.expires_at if self.before is not None and self.before.attempt is not None else None


ANY: Final[tuple[type[events.Event], ...]] = ()
WRITES: Final = (events.Checkpointed, events.UnitRecorded, events.ProgressReported)
STOPS: Final = (events.Paused, events.AttemptFailed)
FENCED: Final = (*WRITES, *STOPS, events.LeaseRenewedLate, events.Interrupted, events.Completed, events.Cancelled)
GRANTS: Final = (*WRITES, events.LeaseRenewedLate)
CONTROL_OF: Final[Mapping[type[events.Event], str]] = {
    events.HoldPlaced: "pause",
    events.Resumed: "pause",
    events.CancelRequested: "cancel",
    events.RetryRequested: "retry",
}
NOTHING: Final = timedelta(0)


# The log --------------------------------------------------------------------------------------------------------------


def _is_created_once(step: Step) -> str | None:
    is_created = isinstance(step.event, events.Created)
    if is_created and step.event.job_id != step.recorded.stream:
        return "it was created under another id"
    is_first = step.before is None and not step.walk.count
    return None if is_created == is_first else "a job is created once, by its first event"


def _is_named_by_its_key(step: Step) -> str | None:
    event = step.event
    if event.key is not None and event.job_id != job_id_of(event.namespace, event.owner, event.key):
        return "its id does not follow from its namespace, owner and key"
    return None


def _ends_once(step: Step) -> str | None:
    before = step.before
    if before is None or not before.is_terminal or isinstance(step.event, events.Archived | events.Erased):
        return None
    return f"the job had ended as {before.state}"


def _stands_for_what_ended(step: Step) -> str | None:
    """What stands for others stands alone, and tells the end of this very job."""
    before, event = step.before, step.event
    if event.state is None:
        return None
    if step.walk.behind != step.recorded.sequence:
        return "the events that it stands for are still there"
    if before is None or (before.id, before.sequence) != (step.recorded.stream, step.recorded.sequence - 1):
        return "the state that it tells is that of another job or sequence"
    return None if before.is_terminal and not before.archived else "only what ended is archived, and once"


# Generations and leases -----------------------------------------------------------------------------------------------


def _generations_count(step: Step) -> str | None:
    before = step.before
    if before is None:
        return None
    if before.attempt is not None:
        return f"generation {before.generation} was still open"
    if step.event.generation != before.generation + 1:
        return f"generation {step.event.generation} follows {before.generation}"
    return None


def _only_the_open_one_writes(step: Step) -> str | None:
    before, generation = step.before, step.event.generation
    if before is None or generation is None:
        return None
    if before.attempt is None or generation != before.generation:
        return f"generation {generation} writes while {before.generation or 'none'} is the current one"
    return None


def _live_leases_are_kept(step: Step) -> str | None:
    event = step.event
    if event.cause == "lease_expired" and event.at < event.expires_at:
        return f"the lease that was interrupted lived until {event.expires_at.isoformat()}"
    if step.expiry is not None and event.expires_at < step.expiry:
        return f"it saw an expiry before the recorded one, {step.expiry.isoformat()}"
    return None


def _grants_lie_ahead(step: Step) -> str | None:
    event, before = step.event, step.before
    if event.expires_at <= event.at:
        return "it grants a lease that has ended already"
    attempt = before.attempt if before is not None else None
    span = event.lease if isinstance(event, events.Claimed) else attempt.lease if attempt is not None else NOTHING
    if event.expires_at < event.at + span:
        return f"it grants less than the lease's span of {span}"
    if step.expiry is not None and not isinstance(event, events.Claimed) and event.expires_at < step.expiry:
        return "it shortens a lease"
    return None


def _late_renewals_were_late(step: Step) -> str | None:
    event = step.event
    if event.late_by < NOTHING:
        return "a renewal in time is no event"
    if step.expiry is not None and event.at - event.late_by < step.expiry:
        return f"it names an expiry before the recorded one, {step.expiry.isoformat()}"
    return None


def _claims_are_allowed(step: Step) -> str | None:
    before, event = step.before, step.event
    if before is None:
        return None
    if before.cancel is not None:
        return "a cancel request was pending"
    if before.hold is not None and (event.respects_hold or before.hold.by == ENGINE):
        return f"a hold of {before.hold.by!r} was in force"
    if before.interrupts >= before.policy.interrupts_max:
        return f"its budget of {before.policy.interrupts_max} interruptions was used up"
    if before.ready_at > event.at and not isinstance(step.leading, events.Interrupted):
        return f"the job was not due before {before.ready_at.isoformat()}"
    return None if event.token_digest else "it records no digest of a token"


def _recovery_goes_on(step: Step) -> str | None:
    """What has to follow in the same command is owed; what must not follow is wrong at once."""
    before, after, sequence = step.before, step.after, step.recorded.sequence
    if before is None:
        return None
    if before.cancel is not None:
        text = "a cancel was pending, and whoever recovered the job did not record its end"
        step.walk.owed = Owed(sequence, (events.Cancelled,), text)
    elif after.interrupts >= after.policy.interrupts_max and after.hold is None:
        text = "the budget of interruptions was used up, and the job was not held for an operator"
        step.walk.owed = Owed(sequence, (events.HoldPlaced, events.RetryRequested), text)
    return None


# Outcomes -------------------------------------------------------------------------------------------------------------


def _states_are_honest(step: Step) -> str | None:
    after, before = step.after, step.before
    if after.hold and not after.is_terminal and after.state not in (State.RUNNING, State.PAUSED):
        return "held, but neither running nor paused"
    between = isinstance(step.event, events.Interrupted) and before is not None and before.cancel is not None
    if after.cancel and after.state is not State.RUNNING and not between:
        return "a cancel request is pending, but nothing runs"
    if (after.attempt is not None) != (after.state is State.RUNNING):
        return "an attempt is open exactly while the job runs"
    return None


def _outcomes_are_whole(step: Step) -> str | None:
    event = step.event
    if isinstance(step.leading, events.Interrupted):
        return "recovery never decides on an outcome"
    if event.outcome is Outcome.CANCELLED:
        return "a completion cannot cancel"
    if event.outcome in (Outcome.FAILED, Outcome.UNAVAILABLE):
        if event.error is None:
            return f"the outcome {event.outcome} names no error"
        if event.result is not None or event.effects:
            return f"the outcome {event.outcome} has a result or effects"
    elif event.outcome is Outcome.COMPLETE and event.error is not None:
        return "the outcome complete names an error"
    return None


def _stops_go_on(step: Step) -> str | None:
    before, event = step.before, step.event
    if before is None:
        return None
    if before.cancel is not None:
        return "the attempt stopped, a cancel was pending, and the job goes on"
    if isinstance(event, events.AttemptFailed):
        limit = before.policy.failures_max
        return (
            f"{before.failures + 1} failures in a row, at most {limit} are tried"
            if step.after.failures >= limit
            else None
        )
    if event.cause != "deferred" and (event.cause == "hold") != (before.hold is not None):
        return f"paused for a {event.cause}, while {'a' if before.hold else 'no'} hold was in force"
    expected = {"hold": before.ready_at, "drain": event.at}.get(event.cause, event.ready_at)
    return None if event.ready_at == expected else "it is due at another time than such a pause leaves"


def _cancellations_were_asked_for(step: Step) -> str | None:
    before, event = step.before, step.event
    if before is None:
        return None
    asked = before.cancel
    if event.generation is None and before.state is State.RUNNING:
        return "what runs is cancelled by its worker, or after its attempt was interrupted"
    if event.generation is not None and asked is None:
        return "nobody had asked for it"
    if asked is not None and (event.by, event.reason) != (asked.by, asked.reason):
        return "it names another operator or reason than the request"
    if event.checkpoint_sequence != before.checkpoint_sequence or event.units != before.units:
        return "it names another boundary than the one that was reached"
    return None


# Operators ------------------------------------------------------------------------------------------------------------


def _controls_fit_the_state(step: Step) -> str | None:  # noqa: PLR0911  # one answer for each control
    before = step.before
    if before is None:
        return None
    match step.event:
        case events.HoldPlaced() if before.hold is not None:
            return f"a hold of {before.hold.by!r} was in force already"
        case events.HoldReleased() if before.hold is None:
            return "no hold was in force"
        case events.Resumed() if before.state is not State.PAUSED or before.generation > 0 or before.hold is not None:
            return "only a paused job that was never leased and is not held is resumed"
        case events.CancelRequested() if before.state is not State.RUNNING or before.cancel is not None:
            return "a cancel is requested once, of what runs"
        case events.RetryRequested() if (before.attempt, before.hold, before.cancel) != (None, None, None):
            return "the job was running, held, or about to be cancelled"
        case _:
            return None


def _controls_gate(step: Step) -> str | None:
    before, event = step.before, step.event
    needed = next((control for kind, control in CONTROL_OF.items() if isinstance(event, kind)), None)
    if before is None or getattr(event, "by", "") == ENGINE:
        return None
    if isinstance(event, events.Cancelled) and event.generation is None:
        needed = None if isinstance(step.leading, events.Interrupted) else "cancel"
    return f"the job was created without the control {needed!r}" if needed and needed not in before.controls else None


def _the_engine_has_its_reasons(step: Step) -> str | None:
    before = step.before
    if before is None or step.event.by != ENGINE:
        return None
    if not isinstance(step.leading, events.Interrupted):
        return "the engine holds only what it has just recovered"
    if before.interrupts < before.policy.interrupts_max:
        return "the engine holds a job that still has a budget"
    return None


# Receipts and effects -------------------------------------------------------------------------------------------------


def _units_are_unique(step: Step) -> str | None:
    if step.event.unit in step.walk.units:
        return f"unit {step.event.unit!r} was recorded before"
    return None


def _effects_are_steps(step: Step) -> str | None:
    names: set[str] = set()
    for effect in step.event.effects:
        known = step.walk.effects.get(effect.resource)
        if effect.resource in names:
            return f"two effects on resource {effect.resource!r} in one step"
        if effect.version < 1 or (known is not None and effect.version <= known.version):
            return f"an effect makes resource {effect.resource!r} version {effect.version}, which it had before"
        names.add(effect.resource)
    return None


RULES: Final[Sequence[tuple[str, tuple[type[events.Event], ...], Callable[[Step], str | None]]]] = (
    ("created", ANY, _is_created_once),
    ("identity", (events.Created,), _is_named_by_its_key),
    ("terminal", ANY, _ends_once),
    ("archive", (events.Archived,), _stands_for_what_ended),
    ("generation", (events.Claimed,), _generations_count),
    ("fence", FENCED, _only_the_open_one_writes),
    ("live_lease", (events.Interrupted,), _live_leases_are_kept),
    ("expiry", (events.Claimed, *GRANTS), _grants_lie_ahead),
    ("late", (events.LeaseRenewedLate,), _late_renewals_were_late),
    ("claim", (events.Claimed,), _claims_are_allowed),
    ("recovery", (events.Interrupted,), _recovery_goes_on),
    ("outcome", (events.Completed,), _outcomes_are_whole),
    ("stop", STOPS, _stops_go_on),
    ("cancel", (events.Cancelled,), _cancellations_were_asked_for),
    (
        "control",
        (events.HoldPlaced, events.HoldReleased, events.Resumed, events.CancelRequested, events.RetryRequested),
        _controls_fit_the_state,
    ),
    ("gate", (*CONTROL_OF, events.Cancelled), _controls_gate),
    ("engine", (events.HoldPlaced,), _the_engine_has_its_reasons),
    ("unit", (events.UnitRecorded,), _units_are_unique),
    ("effect", (events.Checkpointed, events.Completed), _effects_are_steps),
    ("state", ANY, _states_are_honest),
)
"""Every rule that one event can break: the name under which it is reported, the events it speaks of, the question."""


def _by_event() -> Mapping[type[events.Event], Sequence[tuple[str, Callable[[Step], str | None]]]]:
    rules: dict[type[events.Event], list[tuple[str, Callable[[Step], str | None]]]] = defaultdict(list)
    for event in JobEvent.__args__:
        for name, kinds, rule in RULES:
            if not kinds or event in kinds:
                rules[event].append((name, rule))
    return rules


RULES_OF: Final = _by_event()
"""The rules that speak of each kind of event."""
