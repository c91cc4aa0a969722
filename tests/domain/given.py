"""Facts to start a test from, with defaults for all that the test does not speak of.

They are all of the type ``JobEvent``, so that a list of some is a history.
Every fact happens at noon unless it is told otherwise; a lease lives for half a minute from then.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal

from jobledger.domain.events import (
    AppliedEffect,
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
from jobledger.domain.job import Job, fold
from jobledger.domain.lease import Fence, LeaseRow, Standing, token_digest
from jobledger.domain.policies import Policy
from jobledger.domain.values import Body, Json, fingerprint, keep

if TYPE_CHECKING:
    from collections.abc import Iterable

NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
LEASE: Final = timedelta(seconds=30)
EXPIRY: Final = NOON + LEASE
"""The first instant at which a lease that was claimed at noon is not live."""
SECOND: Final = timedelta(seconds=1)
HOUR: Final = timedelta(hours=1)

JOB_ID: Final = "01890a5d-ac96-774b-bcce-b302099a8057"
EVERY_CONTROL: Final = ("pause", "cancel", "retry")


def body(value: Json) -> Body:
    """A value as it stands in an event."""
    return keep("value", value).body


def token(generation: int) -> str:
    """The secret of a generation's claim."""
    return f"secret of claim {generation}"


def fence(generation: int = 1, *, secret: str | None = None, group: str = "default", epoch: int = 1) -> Fence:
    """What the worker of a generation presents."""
    return Fence(JOB_ID, generation, group, epoch, secret if secret is not None else token(generation))


def created(
    *,
    at: datetime = NOON,
    policy: Policy | None = None,
    kind: str = "rebuild",
    key: str | None = "rebuild-42",
    payload: Json = None,
    controls: tuple[str, ...] = EVERY_CONTROL,
    ready_at: datetime | None = None,
    submission: str | None = None,
    origin: Origin | None = None,
    checkpoint: Body | None = None,
    units: int = 0,
) -> Created:
    """A job was accepted."""
    return Created(
        at=at,
        job_id=JOB_ID,
        namespace="default",
        owner="team-a",
        kind=kind,
        key=key,
        payload=body(payload),
        fingerprint=fingerprint(kind, payload, None),
        policy_changes=policy.changes() if policy else {},
        controls=controls,
        ready_at=ready_at or at,
        submission=submission,
        origin=origin,
        checkpoint=checkpoint,
        units=units,
    )


def claimed(
    generation: int = 1,
    *,
    worker: str = "w1",
    at: datetime = NOON,
    lease: timedelta = LEASE,
    group: str = "default",
    epoch: int = 1,
    respects_hold: bool = True,
) -> JobEvent:
    """A worker took a generation."""
    return Claimed(
        at=at,
        generation=generation,
        worker=worker,
        group=group,
        epoch=epoch,
        lease=lease,
        expires_at=at + lease,
        token_digest=token_digest(token(generation)),
        respects_hold=respects_hold,
    )


def renewed_late(generation: int = 1, *, at: datetime = EXPIRY, late_by: timedelta = timedelta(0)) -> JobEvent:
    """A lease that had run out was renewed."""
    return LeaseRenewedLate(at=at, generation=generation, late_by=late_by, expires_at=at + LEASE)


def checkpointed(
    generation: int = 1, state: Json = 4, *, at: datetime = NOON, effects: tuple[AppliedEffect, ...] = ()
) -> JobEvent:
    """Application state was saved."""
    return Checkpointed(at=at, generation=generation, state=body(state), effects=effects, expires_at=at + LEASE)


def unit_recorded(
    generation: int = 1, unit: str = "batch-1", receipt: Json = "done", *, at: datetime = NOON
) -> JobEvent:
    """A piece of work was proved done."""
    return UnitRecorded(at=at, generation=generation, unit=unit, receipt=body(receipt), expires_at=at + LEASE)


def progress_reported(
    generation: int = 1, done: float = 1, total: float | None = None, *, at: datetime = NOON
) -> JobEvent:
    """An attempt said how far it is."""
    return ProgressReported(at=at, generation=generation, done=done, total=total, expires_at=at + LEASE)


def interrupted(
    generation: int = 1,
    *,
    at: datetime = NOON,
    cause: Literal["lease_expired", "epoch_advanced"] = "lease_expired",
) -> JobEvent:
    """An attempt whose lease was not live was ended."""
    return Interrupted(at=at, generation=generation, expires_at=at, cause=cause)


def attempt_failed(
    generation: int = 1, error: str = "boom", *, at: datetime = NOON, retry_at: datetime | None = None
) -> JobEvent:
    """An attempt reported a failure."""
    return AttemptFailed(at=at, generation=generation, error=error, retry_at=retry_at or at)


def paused(
    generation: int = 1,
    cause: Literal["hold", "drain", "deferred"] = "drain",
    *,
    at: datetime = NOON,
    ready_at: datetime | None = None,
) -> JobEvent:
    """An attempt gave its lease back at a boundary."""
    return Paused(at=at, generation=generation, cause=cause, ready_at=ready_at or at)


def hold_placed(by: str = "ann", reason: str = "disk full", *, at: datetime = NOON) -> JobEvent:
    """A stop sign was placed."""
    return HoldPlaced(at=at, by=by, reason=reason)


def hold_released(by: str = "ann", reason: str = "disk grown", *, at: datetime = NOON) -> JobEvent:
    """The stop sign was taken away."""
    return HoldReleased(at=at, by=by, reason=reason)


def resumed(by: str = "ann", reason: str = "go on", *, at: datetime = NOON) -> JobEvent:
    """A job that was never leased went back to its queue."""
    return Resumed(at=at, by=by, reason=reason)


def retry_requested(by: str = "ann", reason: str = "mended", *, at: datetime = NOON) -> JobEvent:
    """The job was made due."""
    return RetryRequested(at=at, by=by, reason=reason)


def cancel_requested(by: str = "ann", reason: str = "not needed", *, at: datetime = NOON) -> JobEvent:
    """The running attempt was asked to stop for good."""
    return CancelRequested(at=at, by=by, reason=reason)


def cancelled(generation: int | None = None, *, at: datetime = NOON) -> JobEvent:
    """The job ended by cancellation."""
    return Cancelled(at=at, generation=generation, by="ann", reason="not needed")


def completed(
    generation: int = 1,
    outcome: Literal[Outcome.COMPLETE, Outcome.PARTIAL, Outcome.FAILED, Outcome.UNAVAILABLE] = Outcome.COMPLETE,
    *,
    at: datetime = NOON,
    result: Json = "indexed",
) -> JobEvent:
    """An attempt published the outcome that fits, with what belongs to it."""
    has_result = outcome in (Outcome.COMPLETE, Outcome.PARTIAL)
    return Completed(
        at=at,
        generation=generation,
        outcome=outcome,
        result=body(result) if has_result else None,
        error=None if has_result else "boom",
    )


def archived(*, at: datetime = NOON) -> JobEvent:
    """The older events were moved to an archive."""
    return Archived(at=at, digest="d" * 64, place="archive/1")


def erased(*, at: datetime = NOON) -> JobEvent:
    """Bodies were erased."""
    return Erased(at=at, digests=("d" * 64,), by="ann", reason="asked by its owner")


def replay(events: Iterable[JobEvent]) -> Job:
    """The job that these facts make."""
    job = fold(events)
    if job is None:
        raise LookupError("a history starts with Created")
    return job


def standing(
    events: Iterable[JobEvent], *, now: datetime = NOON, lease: datetime | None = None, epoch: int = 1, step: int = 0
) -> Standing:
    """The job that these facts make, as it stands at ``now``.

    ``lease`` is where renewals moved the expiry to (else the last one that an event recorded), ``epoch`` the one that
    the attempt's group is at, ``step`` the last one accepted of the attempt.
    """
    job = replay(events)
    row = LeaseRow(job.generation, lease or job.attempt.expires_at, step) if job.attempt else None
    return Standing(job, row, epoch if job.attempt else 0, now)
