"""What the explorer knows of a store: one job under its lock, with everything that only grows taken away.

The rules see real values. Before a ledger is compared with others its times become a few distances from now, its
generation and sequences become constants, and two values that merely took turns get their names back; so the histories
of any length that the rules cannot tell apart are one ledger.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from jobledger.domain.decisions.working import FirstReceipt
from jobledger.domain.job import Attempt, Job, Request, evolve
from jobledger.domain.lease import LeaseRow, Standing, token_digest
from jobledger.domain.policies import Policy
from tests.domain.given import HOUR, LEASE, NOON, body, created, token

if TYPE_CHECKING:
    from collections.abc import Hashable

NOW: Final = NOON
BACK: Final = LEASE / 2
"""How far behind now a job's last event is kept apart from now: as far as a clock is ever set back."""
LATER: Final = NOW + HOUR
LONG_AGO: Final = NOW - LEASE / 2
"""When every lease ended that ended some time ago; others end at this very instant, where a wrong comparison shows."""

GENERATION: Final = 5
"""The generation that every leased job is at; fences of earlier ones are 4, 3 …"""
SEQUENCE: Final = 100
CONTROL: Final = 90
EPOCH: Final = 2
"""The group's current epoch; an attempt of any older one is at 1."""
STEP: Final = 10
"""The last step accepted of the open attempt."""

STATE: Final = body("state x")
OTHER_STATE: Final = body("state y")
RECEIPT: Final = body("receipt a")
OTHER_RECEIPT: Final = body("receipt b")
UNIT: Final = "batch-1"
RESOURCE: Final = "index"
VERSION: Final = 3
"""The resource's version, before every command."""

POLICY: Final = Policy(interrupts_max=2, failures_max=2)

_FIXED: Final = frozenset({"policy_changes", "labels", "payload", "origin"})
_VARYING: Final = attrgetter(*(each.name for each in fields(Job) if each.name not in _FIXED))
_TOKEN: Final = token_digest(token(GENERATION))


@dataclass(frozen=True, slots=True)
class Ledger:
    """One job as a command finds it: its standing, and the receipt that its unit already has."""

    standing: Standing
    first: FirstReceipt | None = None

    @property
    def job(self) -> Job:
        """The job."""
        return self.standing.job

    @property
    def is_running(self) -> bool:
        """Whether a generation is open."""
        return self.standing.job.attempt is not None

    @property
    def key(self) -> Hashable:
        """What makes this ledger differ from others."""
        standing = self.standing
        return _VARYING(standing.job), standing.lease, standing.epoch, self.first is None


def first_ledger() -> Ledger:
    """A job that was just created, with every control, and a budget of two."""
    job = evolve(None, created(policy=POLICY))
    return normal(job, None, None).ledger


@dataclass(frozen=True, slots=True)
class Normal:
    """A ledger without what only grows, and the names that were given back on the way."""

    ledger: Ledger
    is_state_renamed: bool = False
    is_receipt_renamed: bool = False


def normal(job: Job, lease: LeaseRow | None, first: FirstReceipt | None) -> Normal:
    """Make a job, its lease row and its unit's receipt comparable."""
    is_leased = job.generation > 0
    is_known = job.last_token_digest == token_digest(token(job.generation))
    plain = replace(
        job,
        updated_at=min(max(job.updated_at, NOW - BACK), NOW),
        sequence=SEQUENCE,
        control_sequence=CONTROL,
        ready_at=LATER if job.ready_at > NOW else NOW,
        generation=GENERATION if is_leased else 0,
        attempt=_plain_attempt(job.attempt),
        last_token_digest=_TOKEN if is_known and is_leased else job.last_token_digest,
        ended_by=None,
        hold=_plain_request(job.hold),
        cancel=job.cancel and Request(by="ann", reason="", at=NOW),
        checkpoint=STATE if job.checkpoint else None,
        checkpoint_sequence=1 if job.checkpoint else None,
        progress=None,
        result=None,
        error=None,
    )
    row = lease and LeaseRow(GENERATION, _clamped(lease.expires_at), STEP)
    epoch = EPOCH if job.attempt else 0
    receipt = first and FirstReceipt(RECEIPT, RECEIPT.value, GENERATION - 1, 1)
    return Normal(
        Ledger(Standing(plain, row, epoch, NOW), receipt),
        is_state_renamed=job.checkpoint is not None and job.checkpoint.is_same(OTHER_STATE),
        is_receipt_renamed=first is not None and first.receipt.is_same(OTHER_RECEIPT),
    )


def moved(ledger: Ledger, span: timedelta) -> Ledger:
    """The ledger after the clock moved by a span: every distance from now shrinks by it."""
    job, row = ledger.job, ledger.standing.lease
    attempt = job.attempt and replace(job.attempt, expires_at=job.attempt.expires_at - span)
    moved_job = replace(job, updated_at=job.updated_at - span, ready_at=job.ready_at - span, attempt=attempt)
    return normal(moved_job, row and replace(row, expires_at=row.expires_at - span), ledger.first).ledger


def fresh(ledger: Ledger) -> Ledger:
    """The ledger under a clock that is never set back: how long ago the last event was says nothing."""
    standing = ledger.standing
    job = replace(standing.job, updated_at=NOW)
    return replace(ledger, standing=replace(standing, job=job))


def without_controls(ledger: Ledger) -> Ledger:
    """The ledger of a job that was created without any control."""
    return replace(ledger, standing=replace(ledger.standing, job=replace(ledger.job, controls=())))


def outdated(ledger: Ledger) -> Ledger:
    """The ledger after the open attempt's group advanced its epoch."""
    job = ledger.job
    attempt = job.attempt and replace(job.attempt, epoch=EPOCH - 1)
    return normal(replace(job, attempt=attempt), ledger.standing.lease, ledger.first).ledger


def _plain_attempt(attempt: Attempt | None) -> Attempt | None:
    return attempt and replace(attempt, worker="", expires_at=_clamped(attempt.expires_at))


def _plain_request(request: Request | None) -> Request | None:
    return request and Request(by=request.by, reason="", at=NOW)


def _clamped(expires_at: datetime) -> datetime:
    return max(expires_at, LONG_AGO)
