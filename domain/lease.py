"""The fence: the one rule that decides whether an attempt may still write.

A generation ends by an event, never by a clock; but an expired lease can write nothing until it is renewed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta  # public annotations that tools resolve at run time
from typing import Final

from jobledger.domain.bounds import INTEGER_MAX, require_integer, require_text
from jobledger.domain.errors import (
    AlreadyTerminalError,
    InvalidError,
    InvalidRequestError,
    LeaseExpiredError,
    OutOfOrderError,
    StaleEpochError,
    StaleFenceError,
)
from jobledger.domain.job import Attempt, Job
from jobledger.domain.steps import Steps

FENCE_TOKEN_CHARACTERS_MAX: Final = 8_000


@dataclass(frozen=True, slots=True)
class Fence:
    """What a worker presents with every write: job, generation, group, epoch, and the secret token of its claim.

    Two fences are equal when these five are; the step counter goes along and is no part of the identity.
    """

    job_id: str
    generation: int
    group: str
    epoch: int
    token: str = field(repr=False)
    steps: Steps = field(default_factory=Steps, repr=False, compare=False)

    def to_token(self) -> str:
        """The fence as text for a worker in another process; it is a secret and carries its last step."""
        parts = [self.job_id, self.generation, self.group, self.epoch, self.token, self.steps.last]
        return base64.urlsafe_b64encode(json.dumps(parts, ensure_ascii=False, separators=(",", ":")).encode()).decode()

    @classmethod
    def from_token(cls, text: str) -> Fence:
        """Read a fence back.

        Raises:
            InvalidRequestError: the text is no fence (it is never repeated in the message).
        """
        mistaken = InvalidRequestError(
            "fence", "the text is no fence token; pass the text of Fence.to_token() unchanged"
        )
        if not isinstance(text, str) or len(text) > FENCE_TOKEN_CHARACTERS_MAX:
            raise mistaken
        try:
            job_id, generation, group, epoch, token, last = json.loads(
                base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
            )
            require_text("fence", job_id)
            require_text("fence", group)
            require_text("fence", token)
            for number in (generation, epoch, last):
                require_integer("fence", number, 0, INTEGER_MAX)
        except (ValueError, TypeError, RecursionError, binascii.Error, InvalidError):
            raise mistaken from None
        return cls(job_id, generation, group, epoch, token, Steps(last))


def token_digest(token: str) -> str:
    """What is stored of a fence's token: reading it gives nobody the worker's authority."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """The liveness of the open generation, which renewals move without an event; ``step`` is the last one accepted."""

    generation: int
    expires_at: datetime
    step: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """A job as it stands under its lock: its state, its lease row, its group's epoch, and the store's time.

    ``epoch`` is the current epoch of the open attempt's group (0 where no attempt is open). ``now`` was read after the
    job was locked and is never before the job's last event.
    """

    job: Job
    lease: LeaseRow | None
    epoch: int
    now: datetime

    @property
    def is_live(self) -> bool:
        """Whether the open attempt's lease is live: not expired, and of its group's current epoch."""
        return self.lease is not None and self.now < self.lease.expires_at and not self.is_epoch_stale

    @property
    def is_epoch_stale(self) -> bool:
        """Whether the open attempt belongs to an older epoch of its group."""
        return self.job.attempt is not None and self.job.attempt.epoch != self.epoch

    @property
    def expires_at(self) -> datetime | None:
        """When the open lease ends, as renewals moved it; ``None`` when no attempt is open."""
        return self.lease.expires_at if self.lease else None


def require_fence(standing: Standing, fence: Fence, step: int | None = None, *, late: bool = False) -> Attempt:
    """Require that this fence may write now; answers the open attempt.

    The order of the checks is the order in which a worker learns why it was refused.

    Args:
        standing: the job, read under its lock.
        fence: what the worker presents.
        step: the number of this write; ``None`` for a renewal, which can undo nothing.
        late: accept a lease that ran out (renewals only).

    Raises:
        StaleFenceError: a newer generation owns the job, the token is wrong, or this generation was ended.
        AlreadyTerminalError: the job has ended.
        StaleEpochError: the worker group moved on.
        LeaseExpiredError: the lease ran out; renew it, or claim again.
        OutOfOrderError: a newer write of this attempt was accepted before.
    """
    job = standing.job
    if fence.generation != job.generation or token_digest(fence.token) != job.last_token_digest:
        raise StaleFenceError(job.id, fence.generation, job.generation)
    if job.is_terminal:
        raise AlreadyTerminalError(job.id, job.state.value)
    if job.attempt is None or standing.lease is None:
        raise StaleFenceError(job.id, fence.generation, job.generation, job.ended_by)
    if (fence.group, fence.epoch) != (job.attempt.group, job.attempt.epoch):
        raise StaleFenceError(job.id, fence.generation, job.generation)
    if standing.is_epoch_stale:
        raise StaleEpochError(job.attempt.group, job.attempt.epoch, standing.epoch)
    if not late and not standing.is_live:
        raise LeaseExpiredError(job.id, job.generation, standing.lease.expires_at)
    if step is not None and step <= standing.lease.step:
        raise OutOfOrderError(job.id, step, standing.lease.step)
    return job.attempt


def extended_expiry(standing: Standing, span: timedelta) -> datetime:
    """The expiry after an accepted write: a full span from now, never earlier than it was."""
    expiry = standing.now + span
    return max(expiry, standing.lease.expires_at) if standing.lease else expiry
