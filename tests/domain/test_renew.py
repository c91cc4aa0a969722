"""Renewals: the expiry moves on, the fence stays, and only what came late is put on record."""

from datetime import timedelta

import pytest

from jobledger.domain.decisions.working import renewed_expiry
from jobledger.domain.errors import StaleFenceError
from jobledger.domain.events import JobEvent, LeaseRenewedLate
from jobledger.domain.job import evolve
from tests.domain import when
from tests.domain.given import (
    EXPIRY,
    HOUR,
    LEASE,
    NOON,
    SECOND,
    cancel_requested,
    checkpointed,
    claimed,
    created,
    fence,
    hold_placed,
    interrupted,
    renewed_late,
    replay,
    standing,
)

OPEN = [created(), claimed(1)]


def test_a_renewal_in_time_is_no_event() -> None:
    """Liveness is not history: a job that runs for a month adds nothing to its stream by being alive."""
    now = standing(OPEN, now=NOON + SECOND)

    assert when.renew(now) == []
    assert renewed_expiry(now) == NOON + SECOND + LEASE


def test_a_renewal_never_moves_the_expiry_back() -> None:
    """A lease that was granted until later stays granted."""
    now = standing(OPEN, lease=NOON + HOUR)

    assert renewed_expiry(now) == NOON + HOUR


def test_a_renewal_grants_the_span_of_the_claim() -> None:
    """Not that of the policy: the claim may have asked for another."""
    now = standing([created(), claimed(1, lease=10 * LEASE)], now=NOON + LEASE)

    assert renewed_expiry(now) == NOON + 11 * LEASE


@pytest.mark.parametrize("late", [0 * SECOND, SECOND / 1_000_000, 2 * HOUR], ids=["just", "little", "much"])
def test_a_late_renewal_is_accepted_and_put_on_record(late: timedelta) -> None:
    """An outage longer than a lease does not throw away every running attempt; when it may write again is known."""
    now = standing(OPEN, now=EXPIRY + late)

    renewed = when.only(when.renew(now), LeaseRenewedLate)

    assert (renewed.generation, renewed.late_by, renewed.at) == (1, late, EXPIRY + late)
    assert renewed.expires_at == EXPIRY + late + LEASE
    job = evolve(now.job, renewed)
    assert job.attempt is not None
    assert job.attempt.expires_at == renewed.expires_at
    assert job.generation == 1


def test_how_late_is_counted_from_where_renewals_had_moved_the_expiry() -> None:
    """The lease row is asked, not the last event."""
    renewed = when.only(when.renew(standing(OPEN, now=NOON + HOUR + SECOND, lease=NOON + HOUR)), LeaseRenewedLate)

    assert renewed.late_by == SECOND


def test_each_late_renewal_is_put_on_record() -> None:
    """Also the second one of the same attempt."""
    facts = [*OPEN, renewed_late(1, at=EXPIRY)]

    assert when.names(when.renew(standing(facts, now=EXPIRY + LEASE))) == ["LeaseRenewedLate"]


@pytest.mark.parametrize(
    "since", [[interrupted(1)], [interrupted(1), claimed(2, worker="w2")]], ids=["parked", "taken over"]
)
def test_a_late_renewal_after_the_generation_was_ended_is_refused(since: list[JobEvent]) -> None:
    """A generation ends by an event: once that is in the log, nothing brings it back."""
    with pytest.raises(StaleFenceError):
        when.renew(standing([*OPEN, *since], now=EXPIRY))


@pytest.mark.parametrize("asked", [hold_placed(), cancel_requested()], ids=["hold", "cancel"])
def test_requests_do_not_stop_a_renewal(asked: JobEvent) -> None:
    """The attempt hears of them by the answer, and needs its lease to reach its boundary."""
    facts = [*OPEN, asked]

    assert when.renew(standing(facts)) == []
    assert when.names(when.renew(standing(facts, now=EXPIRY))) == ["LeaseRenewedLate"]


def test_a_late_renewal_is_no_progress() -> None:
    """It costs no budget and renews none."""
    facts = [created(), claimed(1), interrupted(1), claimed(2)]

    before, after = replay(facts), replay([*facts, renewed_late(2)])

    assert (after.interrupts, after.failures) == (before.interrupts, before.failures) == (1, 0)


@pytest.mark.parametrize("write", when.REPORTS.values(), ids=when.REPORTS)
def test_every_write_of_an_attempt_renews_its_lease(write: when.Write) -> None:
    """A worker that reports need not renew too; the expiry it now has is in the event."""
    now = standing(OPEN, now=NOON + 10 * SECOND)

    job = evolve(now.job, write(now)[0])

    assert job.attempt is not None
    assert job.attempt.expires_at == NOON + 10 * SECOND + LEASE


@pytest.mark.parametrize("write", when.REPORTS.values(), ids=when.REPORTS)
def test_a_write_never_moves_the_expiry_back(write: when.Write) -> None:
    """Also not when a renewal had moved it further than a full span from now."""
    now = standing(OPEN, lease=NOON + HOUR)

    job = evolve(now.job, write(now)[0])

    assert job.attempt is not None
    assert job.attempt.expires_at == NOON + HOUR


def test_a_renewal_keeps_the_fence() -> None:
    """The worker presents what it presented before."""
    facts = [*OPEN, renewed_late(1), checkpointed(1, at=EXPIRY)]

    assert when.names(when.checkpoint(standing(facts, now=EXPIRY), fence(1))) == ["Checkpointed"]
