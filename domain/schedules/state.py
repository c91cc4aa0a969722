"""The state of one schedule, folded from its events."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta  # pydantic resolves the annotations when it reads stored state
from typing import TYPE_CHECKING, Any, ClassVar, Final, assert_never

from jobledger.domain.bounds import INSTANT_MAX, INSTANT_MIN, SPAN_MAX
from jobledger.domain.errors import HistoryCorruptError
from jobledger.domain.events import STORED_SHAPE
from jobledger.domain.job import Request
from jobledger.domain.schedule_events import (
    EVERY_MIN,
    JITTER_MAX,
    Definition,
    ScheduleChanged,
    ScheduleCreated,
    ScheduleEvent,
    ScheduleFired,
    ScheduleHeld,
    ScheduleReleased,
    ScheduleRemoved,
    ScheduleSkipped,
)
from jobledger.domain.values import sha256_hex

if TYPE_CHECKING:
    from jobledger.domain.history import RecordedEvent

SNAPSHOT_EVERY: Final = 100
"""At each multiple of this sequence the folded state is kept, so that time travel folds no more events than that."""

_MICROSECOND: Final = timedelta(microseconds=1)


def schedule_stream(namespace: str, name: str) -> str:
    """The name of a schedule's own stream; the length keeps two pairs of names from meeting in one."""
    return f"schedule:{len(namespace)}:{namespace}:{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleState:
    """Everything that the rules of one schedule look at, as of its ``sequence``.

    Every instant up to ``settled_at`` has fired or was recorded as skipped; ``next_at`` is the one that comes next
    (``None``: there is none), as it was planned when the last one was settled.
    """

    __pydantic_config__: ClassVar[Any] = STORED_SHAPE

    namespace: str
    name: str
    definition: Definition
    created_at: datetime
    updated_at: datetime
    sequence: int
    control_sequence: int
    settled_at: datetime
    next_at: datetime | None = None
    hold: Request | None = None
    released_by: str | None = None
    is_removed: bool = False
    last_instant: datetime | None = None
    last_job_id: str | None = None
    fired: int = 0
    skipped: int = 0

    @property
    def stream(self) -> str:
        """The name of its stream."""
        return schedule_stream(self.namespace, self.name)

    @property
    def offset(self) -> timedelta:
        """How long after its nominal instant each of its jobs is made: always the same, drawn from its name.

        Schedules of one instant are so spread over their ``jitter``, and each keeps its distance from instant to
        instant.
        """
        if not self.definition.jitter:
            return self.definition.jitter
        span = self.definition.jitter // _MICROSECOND
        drawn = int(sha256_hex(b"jitter", self.namespace.encode(), self.name.encode())[:16], 16)
        return drawn % (span + 1) * _MICROSECOND

    @property
    def due_at(self) -> datetime | None:
        """When the next instant has to be settled; ``None``: nothing is due before an operator asks for it."""
        if self.next_at is None or self.hold is not None or self.is_removed:
            return None
        return self.next_at + self.offset

    @property
    def waits_for(self) -> str | None:
        """The job that has to end before the next instant can fire, where the definition says that it waits."""
        return self.last_job_id if self.definition.overlap == "queue" else None


def evolve_schedule(state: ScheduleState | None, event: ScheduleEvent) -> ScheduleState:
    """Fold one fact into the state. Never refuses: facts have already happened."""
    if isinstance(event, ScheduleCreated):
        return _created(state, event)
    if state is None:
        msg = f"a schedule's history starts with ScheduleCreated, not {type(event).__name__}"
        raise LookupError(msg)
    return _evolve(_stamped(state, event), event)


def advance_schedule(state: ScheduleState | None, event: RecordedEvent) -> ScheduleState:
    """Fold one recorded event.

    Raises:
        HistoryCorruptError: it cannot follow the state.
    """
    if not isinstance(event.event, ScheduleEvent):
        problem = f"a {event.name} is no event of a schedule"
        raise HistoryCorruptError(event.stream, event.sequence, problem)
    try:
        after = evolve_schedule(state, event.event)
    except LookupError as error:
        raise HistoryCorruptError(event.stream, event.sequence, str(error)) from error
    return require_sound(after, event.stream)


def require_sound(state: ScheduleState, stream: str) -> ScheduleState:
    """Require a state whose instants can be counted with; nothing of jobledger stored another one.

    Raises:
        HistoryCorruptError: a span or an instant of it is out of its range.
    """
    definition = state.definition
    every = definition.every
    told = (definition.anchor, definition.start, definition.end, state.settled_at, state.next_at, state.last_instant)
    is_timed = (definition.cron is None) != (every is None)
    has_spans = timedelta(0) <= definition.jitter <= JITTER_MAX and timedelta(0) <= definition.window <= SPAN_MAX
    has_spans = has_spans and (every is None or EVERY_MIN <= every <= SPAN_MAX)
    if not (is_timed and has_spans and all(INSTANT_MIN <= at <= INSTANT_MAX for at in told if at is not None)):
        raise HistoryCorruptError(stream, state.sequence, "a span or an instant of its definition is out of its range")
    return state


def _created(state: ScheduleState | None, event: ScheduleCreated) -> ScheduleState:
    """A schedule begins; one that was removed begins again, behind everything that it settled before."""
    sequence = state.sequence + 1 if state else 1
    return ScheduleState(
        namespace=event.namespace,
        name=event.name,
        definition=event.definition,
        created_at=event.at,
        updated_at=event.at,
        sequence=sequence,
        control_sequence=sequence,
        settled_at=max(event.at, state.settled_at) if state else event.at,
        next_at=event.next_at,
        last_instant=state.last_instant if state else None,
        last_job_id=state.last_job_id if state else None,
        fired=state.fired if state else 0,
        skipped=state.skipped if state else 0,
    )


def _stamped(state: ScheduleState, event: ScheduleEvent) -> ScheduleState:
    """Count the event; ``control_sequence`` passes over what the engine settles."""
    sequence = state.sequence + 1
    is_settled = isinstance(event, ScheduleFired | ScheduleSkipped)
    control = state.control_sequence if is_settled else sequence
    return replace(state, sequence=sequence, updated_at=event.at, control_sequence=control)


def _evolve(state: ScheduleState, event: ScheduleEvent) -> ScheduleState:  # noqa: PLR0911  # one return for each event
    match event:
        case ScheduleFired():
            return _fired(state, event)
        case ScheduleSkipped():
            settled_at = max(state.settled_at, event.last)
            return replace(state, settled_at=settled_at, next_at=event.next_at, skipped=state.skipped + event.count)
        case ScheduleChanged():
            settled_at = max(state.settled_at, event.at)
            return replace(state, definition=event.definition, next_at=event.next_at, settled_at=settled_at)
        case ScheduleHeld():
            return replace(state, hold=Request(by=event.by, reason=event.reason, at=event.at))
        case ScheduleReleased():
            return replace(state, hold=None, released_by=event.by)
        case ScheduleRemoved():
            return replace(state, is_removed=True, hold=None, next_at=None)
        case ScheduleCreated():
            return state
        case _:
            assert_never(event)


def _fired(state: ScheduleState, event: ScheduleFired) -> ScheduleState:
    """A backfilled instant lies in the past and stands beside the others; all else is the newest occurrence."""
    fired = replace(state, fired=state.fired + 1, next_at=event.next_at)
    if event.how == "backfilled":
        return fired
    latest = replace(fired, last_instant=event.instant, last_job_id=event.job_id)
    if event.how == "triggered":
        return latest
    return replace(latest, settled_at=max(state.settled_at, event.instant))
