"""Decisions of operators and of the engine's own upkeep: hold, release, resume, recover, cancel, retry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from jobledger.domain.errors import (
    AlreadyTerminalError,
    CancelPendingError,
    ControlUnavailableError,
    HoldInForceError,
    LeaseLiveError,
    NotHeldError,
    NothingToRecoverError,
    NotResumableError,
    SequenceMovedError,
)
from jobledger.domain.events import (
    Cancelled,
    CancelRequested,
    HoldPlaced,
    HoldReleased,
    Interrupted,
    JobEvent,
    Resumed,
    RetryRequested,
)
from jobledger.domain.job import ENGINE, Job, State

if TYPE_CHECKING:
    from jobledger.domain.lease import Standing

Cause = Literal["lease_expired", "epoch_advanced"]

CRASH_LOOP: Final = "interrupted too often without progress; look at it, then release this hold"


def hold(standing: Standing, *, by: str, reason: str, expected_sequence: int | None = None) -> list[JobEvent]:
    """Place a stop sign: what is not running is paused at once, what runs parks at its next boundary.

    An empty list: the same operator already holds it.

    Raises:
        AlreadyTerminalError, ControlUnavailableError, SequenceMovedError: as for every operator command.
        HoldInForceError: somebody else's hold is in force; names the holder.
    """
    job = require_controllable(standing.job, "pause", expected_sequence)
    if job.hold is not None and job.hold.by == by:
        return []
    require_unheld(job)
    return [HoldPlaced(at=standing.now, by=by, reason=reason)]


def release_hold(standing: Standing, *, by: str, reason: str, expected_sequence: int | None = None) -> list[JobEvent]:
    """Take the stop sign away and renew the budget; paused work is claimable once it is due.

    An empty list: the same operator released it last.

    Raises:
        AlreadyTerminalError, SequenceMovedError: as for every operator command.
        NotHeldError: no hold is in force.
    """
    job = require_controllable(standing.job, None, expected_sequence)
    if job.hold is None:
        if job.released_by != by:
            raise NotHeldError(job.id)
        return []
    return [HoldReleased(at=standing.now, by=by, reason=reason)]


def resume(standing: Standing, *, by: str, reason: str, expected_sequence: int | None = None) -> list[JobEvent]:
    """Put a paused job that was never leased back into its queue, releasing its hold.

    Raises:
        AlreadyTerminalError, ControlUnavailableError, SequenceMovedError: as for every operator command.
        NotResumableError: it is not paused, or was leased before (then release its hold and claim it).
    """
    job = require_controllable(standing.job, "pause", expected_sequence)
    if job.state is not State.PAUSED or job.generation > 0:
        raise NotResumableError(job.id, job.state.value, job.generation)
    resumed = Resumed(at=standing.now, by=by, reason=reason)
    if job.hold is None:
        return [resumed]
    return [HoldReleased(at=standing.now, by=by, reason=reason), resumed]


def recover(standing: Standing, *, by: str = ENGINE) -> list[JobEvent]:
    """Park an attempt whose lease is not live; never complete it.

    With a cancel request it is cancelled instead. When its budget is used up the engine holds it, unless an operator
    does.

    Raises:
        AlreadyTerminalError: the job has ended.
        NothingToRecoverError: no attempt is open.
        LeaseLiveError: the worker keeps its job.
    """
    job = require_controllable(standing.job, None, None)
    if job.state is not State.RUNNING:
        raise NothingToRecoverError(job.id, job.state.value)
    require_dead_lease(standing)
    events: list[JobEvent] = [interrupted(standing, by=by)]
    if job.cancel is not None:
        return [*events, cancelled(job, standing, by=job.cancel.by, reason=job.cancel.reason)]
    if is_budget_used(standing) and job.hold is None:
        events.append(HoldPlaced(at=standing.now, by=ENGINE, reason=CRASH_LOOP))
    return events


def request_cancel(standing: Standing, *, by: str, reason: str, expected_sequence: int | None = None) -> list[JobEvent]:
    """Cancel what is not running at once; ask what runs to stop at its next boundary.

    An empty list: a request is pending already.

    Raises:
        AlreadyTerminalError, ControlUnavailableError, SequenceMovedError: as for every operator command.
    """
    job = require_controllable(standing.job, "cancel", expected_sequence)
    if job.state is not State.RUNNING:
        return [cancelled(job, standing, by=by, reason=reason)]
    if job.cancel is not None:
        return []
    return [CancelRequested(at=standing.now, by=by, reason=reason)]


def retry(standing: Standing, *, by: str, reason: str, expected_sequence: int | None = None) -> list[JobEvent]:
    """Make waiting or parked work due now, with a new budget; a dead lease is interrupted first.

    An empty list: it is due already and its budget untouched.

    Raises:
        AlreadyTerminalError, ControlUnavailableError, SequenceMovedError: as for every operator command.
        LeaseLiveError, CancelPendingError, HoldInForceError: in this order.
    """
    job = require_controllable(standing.job, "retry", expected_sequence)
    require_dead_lease(standing)
    if job.cancel is not None:
        raise CancelPendingError(job.id, job.cancel.by)
    require_unheld(job)
    asked = RetryRequested(at=standing.now, by=by, reason=reason)
    if job.state is State.RUNNING:
        return [interrupted(standing), asked]
    is_due = job.ready_at <= standing.now
    return [] if is_due and job.interrupts == job.failures == 0 else [asked]


# Rules that more than one decision stands on --------------------------------------------------------------------------


def require_controllable(job: Job, control: str | None, expected_sequence: int | None) -> Job:
    """Require what every operator command requires, in the order in which it is refused.

    Raises:
        AlreadyTerminalError: the job has ended.
        ControlUnavailableError: the job was created without this control; lists those that it has.
        SequenceMovedError: somebody acted since the caller looked.
    """
    if job.is_terminal:
        raise AlreadyTerminalError(job.id, job.state.value)
    if control is not None and control not in job.controls:
        raise ControlUnavailableError(job.id, control, job.controls)
    if expected_sequence is not None and expected_sequence != job.control_sequence:
        raise SequenceMovedError(job.id, expected_sequence, job.control_sequence)
    return job


def require_unheld(job: Job) -> None:
    """Require that no hold is in force.

    Raises:
        HoldInForceError: names the holder and the reason.
    """
    if job.hold is not None:
        raise HoldInForceError(job.id, job.hold.by, job.hold.reason)


def require_dead_lease(standing: Standing) -> None:
    """Require that no live lease protects the job.

    Raises:
        LeaseLiveError: names the worker and the expiry.
    """
    job = standing.job
    if standing.is_live and job.attempt is not None and standing.lease is not None:
        raise LeaseLiveError(job.id, job.attempt.worker, standing.lease.expires_at)


def interrupted(standing: Standing, *, by: str = ENGINE) -> Interrupted:
    """The end of the open attempt, whose lease is not live; records the last expiry that was seen."""
    return Interrupted(
        at=standing.now,
        generation=standing.job.generation,
        expires_at=standing.lease.expires_at if standing.lease else standing.now,
        cause=end_cause(standing),
        by=by,
    )


def end_cause(standing: Standing) -> Cause:
    """Why the open lease is not live; an advanced epoch is nobody's failure and is named first."""
    return "epoch_advanced" if standing.is_epoch_stale else "lease_expired"


def is_budget_used(standing: Standing) -> bool:
    """Whether the budget of interruptions is used up, counting the open attempt's end if it is one now."""
    job = standing.job
    ends_now = job.state is State.RUNNING and not standing.is_live and end_cause(standing) == "lease_expired"
    return job.interrupts + ends_now >= job.policy.interrupts_max


def cancelled(job: Job, standing: Standing, *, by: str, reason: str) -> Cancelled:
    """The lease-free end by cancellation; completed work stays as evidence."""
    return Cancelled(
        at=standing.now, by=by, reason=reason, checkpoint_sequence=job.checkpoint_sequence, units=job.units
    )
