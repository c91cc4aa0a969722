"""Recovery: an attempt whose lease is not live is parked, never completed."""

import pytest

from jobledger.domain.errors import (
    AlreadyTerminalError,
    HoldInForceError,
    LeaseLiveError,
    NothingToRecoverError,
)
from jobledger.domain.events import Cancelled, HoldPlaced, Interrupted, JobEvent
from jobledger.domain.job import ENGINE, State, evolve
from jobledger.domain.policies import Policy
from tests.domain import when
from tests.domain.given import (
    EXPIRY,
    HOUR,
    LEASE,
    NOON,
    SECOND,
    attempt_failed,
    body,
    cancel_requested,
    cancelled,
    checkpointed,
    claimed,
    completed,
    created,
    hold_placed,
    interrupted,
    paused,
    renewed_late,
    replay,
    standing,
    unit_recorded,
)


def test_an_expired_attempt_is_parked_and_never_complete() -> None:
    """A restart is not mistaken for completion: what was saved is kept, and the job waits for its next claim."""
    facts = [created(), claimed(1), checkpointed(1, 4), unit_recorded(1)]

    events = when.recover(standing(facts, now=EXPIRY + HOUR))

    ended = when.only(events, Interrupted)
    assert (ended.generation, ended.cause, ended.at) == (1, "lease_expired", EXPIRY + HOUR)
    job = replay([*facts, ended])
    assert (job.state, job.outcome, job.attempt) == (State.PAUSED, None, None)
    assert job.checkpoint == body(4)
    assert (job.units, job.interrupts) == (1, 1)


def test_a_live_lease_keeps_its_worker() -> None:
    """Recovery refuses to interrupt it, up to the last microsecond; the refusal names worker and expiry."""
    facts = [created(), claimed(1, worker="w1")]

    with pytest.raises(LeaseLiveError) as refusal:
        when.recover(standing(facts, now=EXPIRY - SECOND / 1_000_000))

    assert (refusal.value.worker, refusal.value.expires_at) == ("w1", EXPIRY)
    assert when.names(when.recover(standing(facts, now=EXPIRY))) == ["Interrupted"]


def test_the_expiry_that_was_seen_is_recorded() -> None:
    """Renewals leave no event, so this field is how an auditor proves that no live lease was taken over."""
    renewed = NOON + 5 * LEASE

    with pytest.raises(LeaseLiveError):
        when.recover(standing([created(), claimed(1)], now=EXPIRY, lease=renewed))
    ended = when.only(when.recover(standing([created(), claimed(1)], now=renewed, lease=renewed)), Interrupted)

    assert ended.expires_at == renewed


def test_a_late_renewal_makes_the_lease_live_again() -> None:
    """What recovery would have parked a moment ago, it may not touch now."""
    facts = [created(), claimed(1), renewed_late(1, at=EXPIRY + SECOND)]

    with pytest.raises(LeaseLiveError):
        when.recover(standing(facts, now=EXPIRY + SECOND))


def test_an_attempt_of_an_older_epoch_is_parked_at_no_cost() -> None:
    """A deploy makes the lease not live at once, and counts as nobody's failure."""
    facts = [created(policy=Policy(interrupts_max=1)), claimed(1, epoch=1)]

    ended = when.only(when.recover(standing(facts, epoch=2)), Interrupted)

    assert ended.cause == "epoch_advanced"
    job = replay([*facts, ended])
    assert (job.state, job.interrupts, job.hold) == (State.PAUSED, 0, None)


def test_an_older_epoch_is_named_before_an_expiry() -> None:
    """A lease that is both costs no budget: the deploy may be why it was not renewed."""
    facts = [created(policy=Policy(interrupts_max=1)), claimed(1)]

    ended = when.only(when.recover(standing(facts, now=EXPIRY, epoch=2)), Interrupted)

    assert ended.cause == "epoch_advanced"


# With a cancel request ------------------------------------------------------------------------------------------------


def test_a_cancel_request_is_carried_out_by_recovery() -> None:
    """The worker can no longer record its stop; what it had saved is the boundary, and stays as evidence."""
    facts = [created(), claimed(1), checkpointed(1, 4), unit_recorded(1), cancel_requested("bob")]

    events = when.recover(standing(facts, now=EXPIRY))

    assert when.names(events) == ["Interrupted", "Cancelled"]
    ended = events[1]
    assert isinstance(ended, Cancelled)
    assert (ended.generation, ended.by, ended.reason) == (None, "bob", "not needed")
    assert (ended.checkpoint_sequence, ended.units) == (3, 1)
    assert replay([*facts, *events]).state is State.CANCELLED


def test_a_cancelled_recovery_places_no_hold() -> None:
    """Even when the budget is used up too: the end, and nothing else."""
    facts = [created(policy=Policy(interrupts_max=1)), claimed(1), cancel_requested()]

    assert when.names(when.recover(standing(facts, now=EXPIRY))) == ["Interrupted", "Cancelled"]


# With a used budget ---------------------------------------------------------------------------------------------------


def test_interrupts_max_of_one_parks_at_the_first_expiry() -> None:
    """The strictest policy: an operator looks at every crash."""
    facts = [created(policy=Policy(interrupts_max=1)), claimed(1)]

    events = when.recover(standing(facts, now=EXPIRY))

    assert when.names(events) == ["Interrupted", "HoldPlaced"]
    placed = events[1]
    assert isinstance(placed, HoldPlaced)
    assert placed.by == ENGINE
    assert replay([*facts, *events]).state is State.PAUSED


@pytest.mark.parametrize("interrupts_max", [1, 2, 5])
def test_the_nth_unproductive_expiry_places_the_engines_hold_and_none_before(interrupts_max: int) -> None:
    """A crash loop ends parked before an operator's eyes, after exactly as many tries as the policy says."""
    facts: list[JobEvent] = [created(policy=Policy(interrupts_max=interrupts_max))]

    for generation in range(1, interrupts_max):
        facts += [claimed(generation), *when.recover(standing([*facts, claimed(generation)], now=EXPIRY))]
        assert replay(facts).hold is None
    last = when.recover(standing([*facts, claimed(interrupts_max)], now=EXPIRY))

    assert when.names(last) == ["Interrupted", "HoldPlaced"]


def test_an_operators_hold_stands_where_the_engine_would_hold() -> None:
    """There is one hold, and the operator is looking already."""
    facts = [created(policy=Policy(interrupts_max=1)), claimed(1), hold_placed("ann")]

    events = when.recover(standing(facts, now=EXPIRY))

    assert when.names(events) == ["Interrupted"]
    job = replay([*facts, *events])
    assert job.hold is not None
    assert job.hold.by == "ann"


def test_the_engines_hold_binds_every_claim() -> None:
    """Also those that do not respect an operator's hold."""
    facts = [created(policy=Policy(interrupts_max=1)), claimed(1)]
    parked = [*facts, *when.recover(standing(facts, now=EXPIRY))]

    with pytest.raises(HoldInForceError):
        when.claim(standing(parked, now=EXPIRY), respect_hold=False)


# Refusals -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "since",
    [
        [],
        [hold_placed()],
        [claimed(1), paused(1)],
        [claimed(1), interrupted(1)],
        [claimed(1), attempt_failed(1)],
    ],
    ids=["queued", "held", "paused", "interrupted", "failed"],
)
def test_without_an_open_attempt_there_is_nothing_to_recover(since: list[JobEvent]) -> None:
    """Two recoverers of one attempt park it once; the second is told so."""
    now = standing([created(), *since], now=EXPIRY + HOUR)

    with pytest.raises(NothingToRecoverError) as refusal:
        when.recover(now)

    assert refusal.value.state == now.job.state.value


@pytest.mark.parametrize("end", [[cancelled()], [claimed(1), completed(1)]], ids=["cancelled", "complete"])
def test_a_committed_completion_stays_what_it_is(end: list[JobEvent]) -> None:
    """A job that has ended is never parked, however late recovery comes."""
    with pytest.raises(AlreadyTerminalError):
        when.recover(standing([created(), *end], now=EXPIRY + HOUR))


def test_recovery_needs_no_control() -> None:
    """It is the engine's own upkeep."""
    now = standing([created(controls=()), claimed(1)], now=EXPIRY)

    job = evolve(now.job, when.only(when.recover(now), Interrupted))

    assert job.state is State.PAUSED
