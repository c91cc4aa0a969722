"""Refusals around claims, leases and fences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobledger.domain.errors.families import RefusedError

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(eq=False, repr=False)
class LeaseLiveError(RefusedError):
    """A live lease protects its worker."""

    code = "lease_live"
    job_id: str
    worker: str
    expires_at: datetime

    def __str__(self) -> str:
        return (
            f"job {self.job_id} is leased to worker {self.worker!r} until {self.expires_at.isoformat()}; "
            "it keeps the job: wait for the lease to end, or ask for a hold or a cancel"
        )


@dataclass(eq=False, repr=False)
class StaleFenceError(RefusedError):
    """A worker reported under a lease that has ended; it drops its result."""

    code = "stale_fence"
    job_id: str
    presented: int
    current: int
    ended_by: str | None = None

    def __str__(self) -> str:
        how = f" (ended by {self.ended_by})" if self.ended_by else ""
        return (
            f"job {self.job_id}: the fence of generation {self.presented}{how} is stale, the current generation is "
            f"{self.current}; stop this attempt, its work is recorded up to its last checkpoint"
        )


@dataclass(eq=False, repr=False)
class StaleEpochError(RefusedError):
    """The worker group has moved on to a newer epoch."""

    code = "stale_epoch"
    group: str
    presented: int
    current: int

    def __str__(self) -> str:
        return (
            f"group {self.group!r} is at epoch {self.current}, this worker presented epoch {self.presented}; "
            "stop it and start one of the current epoch"
        )


@dataclass(eq=False, repr=False)
class LeaseExpiredError(RefusedError):
    """The lease ran out; nothing can be written under it until it is renewed."""

    code = "lease_expired"
    job_id: str
    generation: int
    expired_at: datetime

    def __str__(self) -> str:
        return (
            f"job {self.job_id}: the lease of generation {self.generation} ran out at {self.expired_at.isoformat()}; "
            "renew it first, or claim the job again"
        )


@dataclass(eq=False, repr=False)
class OutOfOrderError(RefusedError):
    """An older write of an attempt arrived after a newer one was accepted."""

    code = "out_of_order"
    job_id: str
    presented: int
    accepted: int

    def __str__(self) -> str:
        return (
            f"job {self.job_id}: step {self.presented} arrived after step {self.accepted} was accepted; "
            "drop it, the newer write stands"
        )


@dataclass(eq=False, repr=False)
class BudgetExhaustedError(RefusedError):
    """Too many attempts ended without progress."""

    code = "budget_exhausted"
    job_id: str
    interrupts: int
    interrupts_max: int

    def __str__(self) -> str:
        return (
            f"job {self.job_id} was interrupted {self.interrupts} times without progress (at most "
            f"{self.interrupts_max}); recover it, look at it, then release its hold or ask for a retry"
        )


@dataclass(eq=False, repr=False)
class NotReadyError(RefusedError):
    """The job waits for its time."""

    code = "not_ready"
    job_id: str
    ready_at: datetime

    def __str__(self) -> str:
        return (
            f"job {self.job_id} is not due before {self.ready_at.isoformat()}; wait, or ask for a retry to make it due"
        )
