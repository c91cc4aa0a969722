"""Which dead leases maintenance recovers, and when it looks twice before it does: pure questions, no facts."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from jobledger.domain.decisions.claiming import Claimable, claimable

if TYPE_CHECKING:
    from jobledger.domain.lease import Standing

SUSPICIOUS_OF: Final = 10
SUSPICIOUS_SHARE: Final = 5
"""More than one of that many running leases, of at least so many, do not die at once unless a clock or a server did."""


class Dead(StrEnum):
    """Which of the running jobs whose lease is not live are meant.

    ``ALL``: every one. ``ABANDONED``: those that no claim took over within one ``renew_every``, and those that none may
    take. ``UNCLAIMABLE``: only the latter: held, cancel-pending, of an old epoch, or out of budget.
    """

    ALL = "all"
    ABANDONED = "abandoned"
    UNCLAIMABLE = "unclaimable"


def is_dead(standing: Standing, which: Dead) -> bool:
    """Whether a job's open attempt is over, in this sense of it."""
    attempt = standing.job.attempt
    if attempt is None or standing.is_live or standing.expires_at is None:
        return False
    if which is Dead.ALL or standing.is_epoch_stale or claimable(standing.job) is not Claimable.WHEN_DEAD:
        return True
    patience = standing.job.policy.renewal_of(attempt.lease)
    return which is Dead.ABANDONED and standing.now >= standing.expires_at + patience


def is_suspicious(abandoned: int, running: int) -> bool:
    """Whether so many of the running leases died that a clock or a server is likelier than so many workers."""
    return running >= SUSPICIOUS_OF and abandoned * SUSPICIOUS_SHARE > running
