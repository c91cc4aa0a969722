"""The decision to start a new attempt, and the question which jobs a claim may take."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from jobledger.domain.decisions.archiving import archive_at
from jobledger.domain.decisions.operating import (
    interrupted,
    is_budget_used,
    require_dead_lease,
)
from jobledger.domain.errors import (
    AlreadyTerminalError,
    BudgetExhaustedError,
    CancelPendingError,
    HoldInForceError,
    NotReadyError,
    StaleEpochError,
)
from jobledger.domain.events import Claimed, JobEvent
from jobledger.domain.job import ENGINE, Job, State

if TYPE_CHECKING:
    from datetime import timedelta

    from jobledger.domain.lease import Standing


class Claimable(StrEnum):
    """How a job stands to claims that respect holds, and to retention; a store keeps this beside the job, to find it.

    ``FINISHED``: no claim may take it ever again, and it is archived once its policy's ``keep_finished`` is over.
    """

    NEVER = "never"
    FINISHED = "finished"
    WHEN_READY = "when_ready"
    WHEN_DEAD = "when_dead"
    WHEN_FENCED = "when_fenced"


def claimable(job: Job) -> Claimable:
    """What has to come true before a claim can take this job.

    ``WHEN_READY``: its time has come. ``WHEN_DEAD``: its lease ran out, or its group's epoch advanced.
    ``WHEN_FENCED``: only the latter, since one more expiry would use up its budget. ``NEVER``: an operator is needed,
    or it ended. ``FINISHED``: it ended, and is not kept for ever.
    """
    if archive_at(job) is not None:
        return Claimable.FINISHED
    if job.is_terminal or job.hold is not None or job.cancel is not None:
        return Claimable.NEVER
    if job.interrupts >= job.policy.interrupts_max:
        return Claimable.NEVER
    if job.state is not State.RUNNING:
        return Claimable.WHEN_READY
    return Claimable.WHEN_FENCED if job.interrupts + 1 >= job.policy.interrupts_max else Claimable.WHEN_DEAD


def claim(
    standing: Standing,
    *,
    worker: str,
    lease: timedelta,
    group: str,
    epoch: int,
    current_epoch: int,
    token_digest: str,
    respect_hold: bool = True,
) -> list[JobEvent]:
    """Start the next generation; a running attempt whose lease is not live is interrupted by it.

    Args:
        standing: the job under its lock.
        worker: a name for people; a restarted worker is another one, whatever its name.
        lease: how long the lease lives without a renewal.
        group: the worker's group.
        epoch: the epoch that the worker belongs to.
        current_epoch: the epoch that its group is at.
        token_digest: of the secret that the worker will present.
        respect_hold: false to work in spite of an operator's hold; an engine hold binds every claim.

    Raises:
        AlreadyTerminalError, StaleEpochError, LeaseLiveError, CancelPendingError, HoldInForceError,
        BudgetExhaustedError, NotReadyError: in this order; nothing is appended.
    """
    job = standing.job
    if job.is_terminal:
        raise AlreadyTerminalError(job.id, job.state.value)
    if epoch != current_epoch:
        raise StaleEpochError(group, epoch, current_epoch)
    require_dead_lease(standing)
    if job.cancel is not None:
        raise CancelPendingError(job.id, job.cancel.by)
    if job.hold is not None and (respect_hold or job.hold.by == ENGINE):
        raise HoldInForceError(job.id, job.hold.by, job.hold.reason)
    if is_budget_used(standing):
        used = job.interrupts + (job.state is State.RUNNING)
        raise BudgetExhaustedError(job.id, used, job.policy.interrupts_max)
    if job.state is not State.RUNNING and job.ready_at > standing.now:
        raise NotReadyError(job.id, job.ready_at)
    claimed = Claimed(
        at=standing.now,
        generation=job.generation + 1,
        worker=worker,
        group=group,
        epoch=epoch,
        lease=lease,
        expires_at=standing.now + lease,
        token_digest=token_digest,
        respects_hold=respect_hold,
    )
    return [interrupted(standing), claimed] if job.state is State.RUNNING else [claimed]
