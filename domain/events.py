"""The facts of a job: one class per event, each doing one whole thing.

An event says what happened and when; which job, which sequence, which command caused it and the digest before it stand
on its record (``jobledger.domain.history``). Fields are plain JSON once stored; a new shape is a new version with an
upcaster.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta  # pydantic resolves the annotations when it reads stored events
from enum import StrEnum
from typing import Any, ClassVar, Final, Literal

from jobledger.domain.values import Body, Stored  # as above

STORED_SHAPE: Final = {
    "extra": "forbid",
    "strict": True,
    "allow_inf_nan": False,
    "ser_json_timedelta": "iso8601",
}


class Outcome(StrEnum):
    """How a job ended."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    FAILED = "failed"
    UNAVAILABLE = "unavailable"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A fact; ``at`` is the store's time, never before the event before it."""

    __pydantic_config__: ClassVar[Any] = STORED_SHAPE
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a job comes from: a rerun or fork of a job at a sequence, or an occurrence of a schedule at an instant.

    ``of`` is the job's id, or the schedule's name.
    """

    __pydantic_config__: ClassVar[Any] = STORED_SHAPE
    how: Literal["rerun", "fork", "occurrence"]
    of: str
    sequence: int = 0
    by: str = ""
    reason: str = ""
    from_checkpoint: bool = False
    instant: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedEffect:
    """A compare-and-set write that was committed: the resource, the version it now has, and its value."""

    __pydantic_config__: ClassVar[Any] = STORED_SHAPE
    resource: str
    version: int
    value: Body


@dataclass(frozen=True, slots=True, kw_only=True)
class Created(Event):
    """A job was accepted; nobody works on it yet."""

    job_id: str
    namespace: str
    owner: str
    kind: str
    payload: Body
    fingerprint: str
    key: str | None = None
    policy: str = "default"
    policy_changes: dict[str, Stored] = field(default_factory=dict[str, Any])
    controls: tuple[str, ...] = ()
    queue: str = "default"
    priority: int = 0
    ready_at: datetime
    labels: dict[str, str] = field(default_factory=dict[str, str])
    submission: str | None = None
    traceparent: str | None = None
    origin: Origin | None = None
    checkpoint: Body | None = None
    units: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed(Event):
    """A worker took the next generation under a lease."""

    generation: int
    worker: str
    group: str
    epoch: int
    lease: timedelta
    expires_at: datetime
    token_digest: str
    respects_hold: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRenewedLate(Event):
    """A lease that had run out was renewed, because nobody had taken the job over."""

    generation: int
    late_by: timedelta
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpointed(Event):
    """Application state was saved; the next attempt starts from it."""

    generation: int
    state: Body
    effects: tuple[AppliedEffect, ...] = ()
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRecorded(Event):
    """A bounded piece of work was proved done; it is not run again."""

    generation: int
    unit: str
    receipt: Body
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressReported(Event):
    """How far the attempt says it is; 100 % is still running."""

    generation: int
    done: int | float
    total: int | float | None = None
    message: str | None = None
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted(Event):
    """An attempt whose lease was not live was ended by somebody else; the job is parked until the next claim."""

    generation: int
    expires_at: datetime
    cause: Literal["lease_expired", "epoch_advanced"]
    by: str = "engine"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed(Event):
    """The attempt reported a failure; the job waits for its next try."""

    generation: int
    error: str
    retry_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused(Event):
    """The attempt stopped at a boundary and gave its lease back."""

    generation: int
    cause: Literal["hold", "drain", "deferred"]
    ready_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldPlaced(Event):
    """A stop sign was placed; what is not running is paused by it."""

    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldReleased(Event):
    """The stop sign was taken away, and the budget renewed."""

    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(Event):
    """A paused job that was never leased went back to its queue."""

    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRequested(Event):
    """The job was made due now, with a new budget."""

    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested(Event):
    """Somebody asked the running attempt to stop for good at its next boundary."""

    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled(Event):
    """The job ended by cancellation; what was completed stays as evidence.

    ``generation`` is ``None`` when no lease was open. The boundary is the checkpoint's sequence and the units recorded,
    and what the worker had to say about it.
    """

    generation: int | None = None
    by: str
    reason: str
    checkpoint_sequence: int | None = None
    units: int = 0
    boundary: Body | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed(Event):
    """The current attempt published the terminal outcome, with its effects."""

    generation: int
    outcome: Outcome
    result: Body | None = None
    error: str | None = None
    effects: tuple[AppliedEffect, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived(Event):
    """The events before this one were taken out of the log; it stands for them.

    ``digest`` is over their digests, in order, and ``place`` names the bundle that they were written to (empty: none).
    ``state`` is what they folded to, and ``effects`` the resources as they left them, each value by its digest. An
    event without a state (none was ever written by a store) stands in a stream whose events are still there.
    """

    digest: str
    place: str
    by: str = "engine"
    state: dict[str, Stored] | None = None
    effects: tuple[AppliedEffect, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased(Event):
    """Bodies were erased on request; their digests stay."""

    digests: tuple[str, ...]
    by: str
    reason: str


JobEvent = (
    Created
    | Claimed
    | LeaseRenewedLate
    | Checkpointed
    | UnitRecorded
    | ProgressReported
    | Interrupted
    | AttemptFailed
    | Paused
    | HoldPlaced
    | HoldReleased
    | Resumed
    | RetryRequested
    | CancelRequested
    | Cancelled
    | Completed
    | Archived
    | Erased
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochAdvanced(Event):
    """A worker group moved on: leases of older epochs are not live from now on."""

    epoch: int
    by: str
    reason: str
