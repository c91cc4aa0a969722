"""The facts of a schedule: when it was given which definition, and what became of each of its instants."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta  # pydantic resolves the annotations when it reads stored events
from typing import Any, ClassVar, Final, Literal

from jobledger.domain.events import STORED_SHAPE, Event
from jobledger.domain.values import Body  # as above

Overlap = Literal["skip", "queue", "allow"]
CatchUp = Literal["none", "one", "all"]
How = Literal["due", "caught_up", "triggered", "backfilled"]
Reason = Literal[
    "held",  # an operator's hold was in force when it was due
    "missed",  # nobody settled it in time, and the schedule does not catch up
    "coalesced",  # nobody settled it in time, and a newer instant stands for it
    "out_of_window",  # it came too late for its window
    "overlap",  # the occurrence before it had not ended
    "refused",  # its job was refused, as the detail says
    "fired_before",  # its job was there already
    "key_taken",  # somebody else's job has its key
    "changed",  # it waited when the schedule was given another definition
    "removed",  # it waited when the schedule was removed
]

EVERY_MIN: Final = timedelta(seconds=1)
JITTER_MAX: Final = timedelta(days=1)
WINDOW: Final = timedelta(days=31)
"""How far back an instant may lie and still be fired, where a schedule does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What a schedule is: its instants, and the job that each of them makes.

    Either ``cron`` and ``zone`` or ``every`` and ``anchor`` give the instants, from ``start`` to ``end`` inclusive.
    """

    __pydantic_config__: ClassVar[Any] = STORED_SHAPE
    owner: str
    kind: str
    payload: Body
    policy: str = "default"
    queue: str = "default"
    priority: int = 0
    controls: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict[str, str])
    cron: str | None = None
    zone: str = "UTC"
    every: timedelta | None = None
    anchor: datetime | None = None
    start: datetime | None = None
    end: datetime | None = None
    jitter: timedelta = timedelta(0)
    overlap: Overlap = "skip"
    catch_up: CatchUp = "one"
    window: timedelta = WINDOW

    def is_same(self, other: Definition) -> bool:
        """Whether both say the same, their payloads byte for byte."""
        return self.payload.is_same(other.payload) and replace(self, payload=other.payload) == other


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleCreated(Event):
    """A schedule began: every instant of its definition after this moment is fired, or recorded as skipped."""

    namespace: str
    name: str
    definition: Definition
    by: str
    next_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleChanged(Event):
    """A schedule was given another definition, for instants after this moment only."""

    definition: Definition
    by: str
    next_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleHeld(Event):
    """A stop sign was placed: nothing fires until it is released."""

    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleReleased(Event):
    """The stop sign was taken away; instants after this moment fire again."""

    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFired(Event):
    """One instant made its job; ``next_at`` is the instant that is planned next, of those that no operator asked for.

    ``by`` and ``reason`` are those of an operator who triggered or backfilled it.
    """

    instant: datetime
    job_id: str
    how: How
    next_at: datetime | None
    by: str = "engine"
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSkipped(Event):
    """A run of ``count`` instants from ``first`` to ``last`` made no job, all for one reason.

    ``job_id`` is the job that stood in their way, if one did; ``detail`` is the refusal of the job, if it was refused.
    """

    first: datetime
    last: datetime
    count: int
    reason: Reason
    next_at: datetime | None
    job_id: str | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRemoved(Event):
    """A schedule ended; its history stays, and its name may be used again."""

    by: str
    reason: str


ScheduleEvent = (
    ScheduleCreated
    | ScheduleChanged
    | ScheduleHeld
    | ScheduleReleased
    | ScheduleFired
    | ScheduleSkipped
    | ScheduleRemoved
)
