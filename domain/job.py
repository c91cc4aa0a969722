"""The state of one job, folded from its events."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta  # pydantic resolves the annotations when it reads stored state
from enum import StrEnum
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, assert_never

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from jobledger.domain.events import (
    STORED_SHAPE,
    Archived,
    AttemptFailed,
    Cancelled,
    CancelRequested,
    Checkpointed,
    Claimed,
    Completed,
    Created,
    Erased,
    HoldPlaced,
    HoldReleased,
    Interrupted,
    JobEvent,
    LeaseRenewedLate,
    Origin,
    Outcome,
    Paused,
    ProgressReported,
    Resumed,
    RetryRequested,
    UnitRecorded,
)
from jobledger.domain.policies import Policy
from jobledger.domain.replacing import replace
from jobledger.domain.values import Body, Stored, encode_json  # as above

if TYPE_CHECKING:
    from collections.abc import Iterable

ENGINE: Final = "engine"
"""The reserved operator name under which the engine itself places holds."""


class State(StrEnum):
    """Where a job stands; the last five are terminal."""

    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETE = "complete"
    PARTIAL = "partial"
    FAILED = "failed"
    UNAVAILABLE = "unavailable"
    CANCELLED = "cancelled"


_REPORTS: Final = (Checkpointed, UnitRecorded, ProgressReported, LeaseRenewedLate)

TERMINAL: Final = frozenset({State.COMPLETE, State.PARTIAL, State.FAILED, State.UNAVAILABLE, State.CANCELLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A hold or a cancel request: who asked, why, and when."""

    __pydantic_config__: ClassVar[Any] = STORED_SHAPE
    by: str
    reason: str
    at: datetime


@dataclass(frozen=True, kw_only=True)  # without slots: it is copied at every event
class Attempt:
    """The lease under which the open generation works; ``expires_at`` is the last one that an event recorded."""

    __pydantic_config__: ClassVar[Any] = STORED_SHAPE
    worker: str
    group: str
    epoch: int
    lease: timedelta
    token_digest: str
    respects_hold: bool
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """The last progress that an attempt reported."""

    __pydantic_config__: ClassVar[Any] = STORED_SHAPE
    done: int | float
    total: int | float | None = None
    message: str | None = None


@dataclass(frozen=True, kw_only=True)  # without slots: it is copied at every event
class Job:
    """Everything that the rules of one job look at, as of its ``sequence``.

    Three things hold after every event: held and neither running nor terminal means paused; a cancel request is pending
    only while running; an attempt is open exactly while running.
    """

    __pydantic_config__: ClassVar[Any] = STORED_SHAPE

    id: str
    namespace: str
    owner: str
    kind: str
    payload: Body
    fingerprint: str
    key: str | None = None
    policy_name: str = "default"
    policy_changes: dict[str, Stored] = field(default_factory=dict[str, Any])
    controls: tuple[str, ...] = ()
    queue: str = "default"
    priority: int = 0
    labels: dict[str, str] = field(default_factory=dict[str, str])
    submission: str | None = None
    traceparent: str | None = None
    origin: Origin | None = None
    created_at: datetime
    updated_at: datetime
    sequence: int
    control_sequence: int

    state: State = State.QUEUED
    ready_at: datetime
    generation: int = 0
    attempt: Attempt | None = None
    last_token_digest: str = ""
    ended_by: str | None = None
    hold: Request | None = None
    released_by: str | None = None
    cancel: Request | None = None
    interrupts: int = 0
    failures: int = 0

    checkpoint: Body | None = None
    checkpoint_sequence: int | None = None
    kept: tuple[str, ...] = ()
    units: int = 0
    progress: Reported | None = None
    outcome: Outcome | None = None
    result: Body | None = None
    error: str | None = None
    archived: int = 0
    """The sequence of the event that stands for all before it, which were archived; 0: all are there."""

    @property
    def policy(self) -> Policy:
        """The limits that were resolved when the job was created."""
        return _policy_of(self.policy_changes)

    @property
    def is_terminal(self) -> bool:
        """Whether the job has ended."""
        return self.state in TERMINAL


_DEFAULT_POLICY: Final = Policy()


def _policy_of(changes: dict[str, Any]) -> Policy:
    return _stored_policy(encode_json(changes, sort_keys=True)) if changes else _DEFAULT_POLICY


@lru_cache(maxsize=1_000)
def _stored_policy(encoded: bytes) -> Policy:
    """A policy from its stored changes; it is asked for several times in every command, and never differs."""
    return Policy.of_changes(from_json(encoded))


def evolve(job: Job | None, event: JobEvent) -> Job:
    """Fold one fact into the state. Never refuses: facts have already happened."""
    if isinstance(event, Created):
        return _created(event)
    if job is None and isinstance(event, Archived) and event.state is not None:
        job = _restored(event.state)
    if job is None:
        msg = f"a history starts with Created, not {type(event).__name__}"
        raise LookupError(msg)
    return _evolve(_stamped(job, event), event)


def fold(events: Iterable[JobEvent], job: Job | None = None) -> Job | None:
    """Fold facts in their order, from the beginning or from a known state."""
    for event in events:
        job = evolve(job, event)
    return job


def state_before(event: Archived) -> Job | None:
    """What the events before this one folded to; ``None`` where they are still there to tell it themselves.

    Raises:
        LookupError: it holds no such state.
    """
    return None if event.state is None else _restored(event.state)


def told_state(job: Job) -> dict[str, Any]:
    """A state as plain JSON values, for the event that stands for a whole history; what is at its default is left out.

    Such events stay for ever: a field of a state may be added with a default, and never changes its meaning.
    """
    told: dict[str, Any] = _states().dump_python(job, mode="json", exclude_defaults=True)
    return told


def _restored(told: dict[str, Any]) -> Job:
    try:
        return _states().validate_json(to_json(told))
    except ValueError as error:
        msg = f"its state cannot be read ({type(error).__name__})"
        raise LookupError(msg) from error


@cache
def _states() -> TypeAdapter[Job]:
    return TypeAdapter(Job)


def _created(event: Created) -> Job:
    return Job(
        id=event.job_id,
        namespace=event.namespace,
        owner=event.owner,
        kind=event.kind,
        payload=event.payload,
        fingerprint=event.fingerprint,
        key=event.key,
        policy_name=event.policy,
        policy_changes=event.policy_changes,
        controls=event.controls,
        queue=event.queue,
        priority=event.priority,
        labels=event.labels,
        submission=event.submission,
        traceparent=event.traceparent,
        origin=event.origin,
        created_at=event.at,
        updated_at=event.at,
        sequence=1,
        control_sequence=1,
        ready_at=event.ready_at,
        checkpoint=event.checkpoint,
        checkpoint_sequence=1 if event.checkpoint else None,
        kept=(event.checkpoint.digest,) if event.checkpoint and event.checkpoint.digest else (),
        units=event.units,
    )


def _stamped(job: Job, event: JobEvent) -> Job:
    """Count the event; ``control_sequence`` passes over what workers report while they run."""
    sequence = job.sequence + 1
    control_sequence = job.control_sequence if isinstance(event, _REPORTS) else sequence
    return replace(job, sequence=sequence, updated_at=event.at, control_sequence=control_sequence)


def _evolve(job: Job, event: JobEvent) -> Job:
    match event:
        case Claimed():
            return _claimed(job, event)
        case Completed():
            return _ended(job, event.outcome, result=event.result, error=event.error)
        case ProgressReported():
            progress = Reported(done=event.done, total=event.total, message=event.message)
            return replace(_extended(job, event.expires_at), progress=progress)
        case Checkpointed():
            return _checkpointed(_extended(job, event.expires_at), event.state)
        case UnitRecorded():
            return replace(_extended(job, event.expires_at), units=job.units + 1, interrupts=0, failures=0)
        case LeaseRenewedLate():
            return _extended(job, event.expires_at)
        case Interrupted(cause=cause):
            counts = cause == "lease_expired"
            return replace(_parked(job, cause), interrupts=job.interrupts + counts)
        case AttemptFailed():
            waiting = State.PAUSED if job.hold else State.QUEUED
            failed = replace(_parked(job, "attempt_failed"), failures=job.failures + 1, error=event.error)
            return replace(failed, state=waiting, ready_at=event.retry_at)
        case Paused():
            return replace(_parked(job, "paused"), ready_at=event.ready_at)
        case HoldPlaced():
            hold = Request(by=event.by, reason=event.reason, at=event.at)
            return replace(job, hold=hold, state=job.state if job.state is State.RUNNING else State.PAUSED)
        case HoldReleased():
            return replace(job, hold=None, released_by=event.by, interrupts=0, failures=0)
        case Resumed():
            return replace(job, state=State.QUEUED)
        case RetryRequested():
            return replace(job, ready_at=event.at, interrupts=0, failures=0)
        case CancelRequested():
            return replace(job, cancel=Request(by=event.by, reason=event.reason, at=event.at))
        case Cancelled():
            return _ended(job, Outcome.CANCELLED, result=None, error=event.error)
        case Archived():
            return job if event.state is None else replace(job, archived=job.sequence)
        case Erased() | Created():
            return job
        case _:
            assert_never(event)


def _extended(job: Job, expires_at: datetime) -> Job:
    attempt = job.attempt and replace(job.attempt, expires_at=expires_at)
    return replace(job, attempt=attempt)


def _checkpointed(job: Job, state: Body) -> Job:
    """Save the state; only one that differs from the one before counts as progress."""
    is_progress = not state.is_same(job.checkpoint)
    kept = job.kept
    if state.digest and (not kept or kept[-1] != state.digest):
        kept = (*(digest for digest in kept if digest != state.digest), state.digest)[-job.policy.checkpoints_keep :]
    return replace(
        job,
        checkpoint=state,
        checkpoint_sequence=job.sequence,
        kept=kept,
        interrupts=0 if is_progress else job.interrupts,
        failures=0 if is_progress else job.failures,
    )


def _claimed(job: Job, event: Claimed) -> Job:
    attempt = Attempt(
        worker=event.worker,
        group=event.group,
        epoch=event.epoch,
        lease=event.lease,
        token_digest=event.token_digest,
        respects_hold=event.respects_hold,
        expires_at=event.expires_at,
    )
    return replace(
        job,
        state=State.RUNNING,
        generation=event.generation,
        attempt=attempt,
        last_token_digest=event.token_digest,
        ended_by=None,
    )


def _parked(job: Job, ended_by: Literal["lease_expired", "epoch_advanced", "attempt_failed", "paused"]) -> Job:
    return replace(job, state=State.PAUSED, attempt=None, ended_by=ended_by)


def _ended(job: Job, outcome: Outcome, *, result: Body | None, error: str | None) -> Job:
    return replace(
        job,
        state=State(outcome.value),
        outcome=outcome,
        attempt=None,
        ended_by=outcome.value,
        hold=None,
        cancel=None,
        result=result,
        error=error if error is not None else job.error,
    )
