"""Claims: the next generation under a new lease, and every reason why there is none."""

from datetime import timedelta

import pytest

from jobledger.domain.decisions import claimable
from jobledger.domain.decisions.claiming import Claimable
from jobledger.domain.errors import (
    AlreadyTerminalError,
    BudgetExhaustedError,
    CancelPendingError,
    HoldInForceError,
    LeaseLiveError,
    NotReadyError,
    StaleEpochError,
)
from jobledger.domain.events import Claimed, Interrupted, JobEvent, Outcome
from jobledger.domain.job import ENGINE, State, evolve
from jobledger.domain.lease import token_digest
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
    hold_released,
    interrupted,
    paused,
    renewed_late,
    replay,
    resumed,
    standing,
    token,
)

TAKEN: dict[str, list[JobEvent]] = {
    "queued": [],
    "released": [hold_placed(), hold_released()],
    "resumed": [hold_placed(), hold_released(), resumed()],
    "drained": [claimed(1), paused(1)],
    "parked for a hold and released": [claimed(1), hold_placed(), paused(1, "hold"), hold_released()],
    "deferred, its time has come": [claimed(1), paused(1, "deferred")],
    "interrupted": [claimed(1), interrupted(1)],
    "failed, its time has come": [claimed(1), attempt_failed(1)],
}


@pytest.mark.parametrize("since", TAKEN.values(), ids=TAKEN)
def test_what_waits_and_is_due_is_taken_by_the_next_generation(since: list[JobEvent]) -> None:
    """One event starts the attempt; generations count 1, 2, 3."""
    now = standing([created(), *since])

    taken = when.only(when.claim(now, worker="w2", lease=2 * LEASE), Claimed)

    assert (taken.generation, taken.worker, taken.at) == (now.job.generation + 1, "w2", NOON)
    assert (taken.lease, taken.expires_at) == (2 * LEASE, NOON + 2 * LEASE)
    job = evolve(now.job, taken)
    assert (job.state, job.generation) == (State.RUNNING, taken.generation)
    assert job.attempt is not None
    assert (job.attempt.worker, job.attempt.expires_at) == ("w2", NOON + 2 * LEASE)


def test_a_claim_is_pinned_to_its_group_and_epoch() -> None:
    """Both are recorded, so that advancing the epoch later fences this attempt off."""
    taken = when.only(when.claim(standing([created()]), group="gpu", epoch=7, current_epoch=7), Claimed)

    assert (taken.group, taken.epoch) == ("gpu", 7)


def test_only_the_digest_of_the_token_is_stored() -> None:
    """Reading events gives nobody a worker's authority."""
    taken = when.only(when.claim(standing([created()])), Claimed)

    assert taken.token_digest == token_digest(token(1))
    assert token(1) not in repr(taken)


def test_a_claim_keeps_what_was_saved() -> None:
    """The next attempt starts from the checkpoint; a fresh job starts from none."""
    fresh = evolve(standing([created()]).job, when.claim(standing([created()]))[0])
    facts = [created(), claimed(1), checkpointed(1, 4), interrupted(1)]

    continued = evolve(replay(facts), when.claim(standing(facts))[0])

    assert fresh.checkpoint is None
    assert continued.checkpoint == body(4)


# Take-over ------------------------------------------------------------------------------------------------------------


def test_an_expired_attempt_is_taken_over_in_one_step() -> None:
    """The new generation interrupts the old one; to its readers the job may stay running."""
    facts = [created(), claimed(1), checkpointed(1, 4)]

    events = when.claim(standing(facts, now=EXPIRY), worker="w2")

    assert when.names(events) == ["Interrupted", "Claimed"]
    ended, taken = events
    assert isinstance(ended, Interrupted)
    assert isinstance(taken, Claimed)
    assert (ended.generation, ended.cause, ended.expires_at) == (1, "lease_expired", EXPIRY)
    assert (taken.generation, taken.at) == (2, ended.at)
    job = replay([*facts, *events])
    assert (job.state, job.generation, job.interrupts) == (State.RUNNING, 2, 1)


def test_an_attempt_of_an_older_epoch_is_taken_over_at_once() -> None:
    """A deploy need not wait for the old leases to run out."""
    events = when.claim(standing([created(), claimed(1, epoch=1)], epoch=2), epoch=2)

    assert when.names(events) == ["Interrupted", "Claimed"]
    ended = events[0]
    assert isinstance(ended, Interrupted)
    assert ended.cause == "epoch_advanced"


def test_a_worker_of_another_group_takes_an_expired_attempt_over() -> None:
    """Whose epoch has to be current is the claiming group's."""
    events = when.claim(
        standing([created(), claimed(1, group="old", epoch=9)], now=EXPIRY, epoch=9),
        group="new",
        epoch=1,
        current_epoch=1,
    )

    assert when.names(events) == ["Interrupted", "Claimed"]


@pytest.mark.parametrize("worker", ["w1", "w2"])
def test_a_live_lease_protects_its_worker_also_from_its_own_name(worker: str) -> None:
    """A restarted worker is another one: whether the old process still runs, nobody knows."""
    with pytest.raises(LeaseLiveError) as refusal:
        when.claim(standing([created(), claimed(1, worker="w1")], now=EXPIRY - SECOND), worker=worker)

    assert (refusal.value.worker, refusal.value.expires_at) == ("w1", EXPIRY)


def test_a_renewed_lease_protects_beyond_the_recorded_expiry() -> None:
    """Liveness is the lease row's, not the event's."""
    facts = [created(), claimed(1)]

    with pytest.raises(LeaseLiveError):
        when.claim(standing(facts, now=EXPIRY + SECOND, lease=EXPIRY + HOUR))


def test_a_lease_that_was_renewed_late_protects_again() -> None:
    """Who comes after the late renewal has lost."""
    with pytest.raises(LeaseLiveError):
        when.claim(standing([created(), claimed(1), renewed_late(1, at=EXPIRY)], now=EXPIRY))


# Holds ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("since", [[], [claimed(1), paused(1)]], ids=["never leased", "leased"])
def test_a_hold_keeps_the_job_from_claims_that_respect_it(since: list[JobEvent]) -> None:
    """The refusal names the holder and the reason."""
    with pytest.raises(HoldInForceError) as refusal:
        when.claim(standing([created(), *since, hold_placed("bob", "disk full")]))

    assert (refusal.value.by, refusal.value.reason) == ("bob", "disk full")


def test_a_claim_may_say_that_it_does_not_respect_an_operators_hold() -> None:
    """It is recorded; the hold stays in force."""
    facts = [created(), hold_placed("bob")]

    taken = when.only(when.claim(standing(facts), respect_hold=False), Claimed)

    assert taken.respects_hold is False
    job = replay([*facts, taken])
    assert job.state is State.RUNNING
    assert job.hold is not None


def test_an_engine_hold_binds_every_claim() -> None:
    """Nobody works past a crash loop unseen."""
    with pytest.raises(HoldInForceError) as refusal:
        when.claim(standing([created(), claimed(1), interrupted(1), hold_placed(ENGINE)]), respect_hold=False)

    assert refusal.value.by == ENGINE


# Budget and time ------------------------------------------------------------------------------------------------------


def test_a_take_over_that_would_use_the_budget_up_is_refused() -> None:
    """A claim only refuses; recovery is what parks and holds the job."""
    facts = [created(policy=Policy(interrupts_max=2)), claimed(1), interrupted(1), claimed(2)]

    with pytest.raises(BudgetExhaustedError) as refusal:
        when.claim(standing(facts, now=EXPIRY))

    assert (refusal.value.interrupts, refusal.value.interrupts_max) == (2, 2)
    assert "recover" in str(refusal.value)


def test_a_parked_job_without_budget_is_refused() -> None:
    """An operator's hold stood in place of the engine's; a claim past that hold does not get around the budget."""
    facts = [created(policy=Policy(interrupts_max=1)), claimed(1), hold_placed("ann"), interrupted(1)]

    with pytest.raises(BudgetExhaustedError):
        when.claim(standing(facts), respect_hold=False)


def test_a_take_over_after_a_deploy_needs_no_budget() -> None:
    """An older epoch's end is not counted, so it cannot use anything up."""
    facts = [created(policy=Policy(interrupts_max=1)), claimed(1)]

    assert when.names(when.claim(standing(facts, now=EXPIRY, epoch=2))) == ["Interrupted", "Claimed"]


@pytest.mark.parametrize(
    "facts",
    [
        [created(ready_at=NOON + HOUR)],
        [created(), claimed(1), attempt_failed(1, retry_at=NOON + HOUR)],
        [created(), claimed(1), paused(1, "deferred", ready_at=NOON + HOUR)],
        [created(ready_at=NOON + HOUR), hold_placed(), hold_released()],
    ],
    ids=["queued", "backing off", "deferred", "released"],
)
def test_what_is_not_due_is_refused_until_its_instant(facts: list[JobEvent]) -> None:
    """The refusal says when; at that very instant the claim is accepted."""
    with pytest.raises(NotReadyError) as refusal:
        when.claim(standing(facts, now=NOON + HOUR - timedelta(microseconds=1)))

    assert refusal.value.ready_at == NOON + HOUR
    assert when.names(when.claim(standing(facts, now=NOON + HOUR))) == ["Claimed"]


# Refusals, in their order ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "end",
    [[claimed(1), completed(1, outcome)] for outcome in (Outcome.COMPLETE, Outcome.PARTIAL, Outcome.FAILED)]
    + [[claimed(1), completed(1, Outcome.UNAVAILABLE)], [cancelled()]],
    ids=["complete", "partial", "failed", "unavailable", "cancelled"],
)
def test_a_job_that_has_ended_is_never_claimed(end: list[JobEvent]) -> None:
    """A committed end stays what it is."""
    with pytest.raises(AlreadyTerminalError):
        when.claim(standing([created(), *end]))


@pytest.mark.parametrize("presented", [1, 3], ids=["older", "newer"])
def test_a_worker_of_another_epoch_is_refused(presented: int) -> None:
    """Claims in flight are locked out by the advance; a worker cannot run ahead of it either."""
    with pytest.raises(StaleEpochError) as refusal:
        when.claim(standing([created()]), group="gpu", epoch=presented, current_epoch=2)

    assert (refusal.value.group, refusal.value.presented, refusal.value.current) == ("gpu", presented, 2)


def test_a_claim_is_refused_in_the_stated_order() -> None:
    """Ended, older epoch, live, cancel pending, held, out of budget, not due: the first that applies is told."""
    policy = Policy(interrupts_max=1)
    start = created(policy=policy, ready_at=NOON + HOUR)
    running = [start, claimed(1), cancel_requested(), hold_placed()]

    with pytest.raises(AlreadyTerminalError):
        when.claim(standing([*running, completed(1)]), epoch=1, current_epoch=2)
    with pytest.raises(StaleEpochError):
        when.claim(standing(running), epoch=1, current_epoch=2)
    with pytest.raises(LeaseLiveError):
        when.claim(standing(running))
    with pytest.raises(CancelPendingError) as pending:
        when.claim(standing(running, now=EXPIRY))
    assert pending.value.by == "ann"
    with pytest.raises(HoldInForceError):
        when.claim(standing([start, claimed(1), hold_placed()], now=EXPIRY))
    with pytest.raises(HoldInForceError):
        when.claim(standing([start, claimed(1), interrupted(1), hold_placed()]))
    with pytest.raises(BudgetExhaustedError):
        when.claim(standing([start, claimed(1), interrupted(1)]))
    with pytest.raises(NotReadyError):
        when.claim(
            standing([created(policy=Policy(interrupts_max=2), ready_at=NOON + HOUR), claimed(1), interrupted(1)])
        )
    assert when.names(when.claim(standing([created(), claimed(1), interrupted(1)]))) == ["Claimed"]


# What a store keeps to find candidates --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("since", "answer"),
    [
        ([], Claimable.WHEN_READY),
        ([claimed(1), paused(1)], Claimable.WHEN_READY),
        ([claimed(1), attempt_failed(1)], Claimable.WHEN_READY),
        ([claimed(1)], Claimable.WHEN_DEAD),
        ([claimed(1), interrupted(1), claimed(2)], Claimable.WHEN_FENCED),
        ([claimed(1), interrupted(1), claimed(2), checkpointed(2)], Claimable.WHEN_DEAD),
        ([hold_placed()], Claimable.NEVER),
        ([claimed(1), hold_placed()], Claimable.NEVER),
        ([claimed(1), cancel_requested()], Claimable.NEVER),
        ([claimed(1), interrupted(1), claimed(2), interrupted(2)], Claimable.NEVER),
        ([cancelled()], Claimable.NEVER),
        ([claimed(1), completed(1)], Claimable.NEVER),
    ],
)
def test_a_job_says_what_has_to_come_true_before_a_claim(since: list[JobEvent], answer: Claimable) -> None:
    """A store finds candidates by this one word, and no rule of the job lives in SQL."""
    assert claimable(replay([created(policy=Policy(interrupts_max=2)), *since])) is answer
