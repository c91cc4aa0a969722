"""Retry: waiting or parked work is made due now, with a new budget."""

import pytest

from jobledger.domain.errors import (
    AlreadyTerminalError,
    CancelPendingError,
    ControlUnavailableError,
    HoldInForceError,
    LeaseLiveError,
    SequenceMovedError,
)
from jobledger.domain.events import JobEvent, Outcome, RetryRequested
from jobledger.domain.job import State, evolve
from jobledger.domain.policies import Policy
from tests.domain import when
from tests.domain.given import (
    EXPIRY,
    HOUR,
    NOON,
    attempt_failed,
    cancel_requested,
    claimed,
    completed,
    created,
    hold_placed,
    hold_released,
    interrupted,
    paused,
    replay,
    standing,
)

WAITING: dict[str, list[JobEvent]] = {
    "queued, to start later": [created(ready_at=NOON + HOUR)],
    "backing off": [created(), claimed(1), attempt_failed(1, retry_at=NOON + HOUR)],
    "deferred": [created(), claimed(1), paused(1, "deferred", ready_at=NOON + HOUR)],
    "interrupted": [created(), claimed(1), interrupted(1)],
    "failed, due again": [created(), claimed(1), attempt_failed(1)],
}


@pytest.mark.parametrize("facts", WAITING.values(), ids=WAITING)
def test_waiting_work_is_due_now_with_a_new_budget(facts: list[JobEvent]) -> None:
    """The state stays what it is; a claim can take the job at once."""
    now = standing(facts)

    asked = when.only(when.retry(now, by="bob"), RetryRequested)

    assert (asked.by, asked.reason, asked.at) == ("bob", "mended", NOON)
    job = evolve(now.job, asked)
    assert (job.state, job.ready_at, job.interrupts, job.failures) == (now.job.state, NOON, 0, 0)
    assert when.names(when.claim(standing([*facts, asked]))) == ["Claimed"]


def test_a_used_budget_is_renewed() -> None:
    """The operator says that the cause was mended: every try that the policy gives is there again."""
    facts = [created(policy=Policy(interrupts_max=2)), claimed(1), interrupted(1), claimed(2), interrupted(2)]

    asked = when.only(when.retry(standing(facts)), RetryRequested)

    assert when.names(when.claim(standing([*facts, asked]))) == ["Claimed"]


def test_an_attempt_on_a_dead_lease_is_interrupted_first() -> None:
    """Its worker may be gone; the job is parked and due, with a new budget."""
    facts = [created(), claimed(1)]

    events = when.retry(standing(facts, now=EXPIRY))

    assert when.names(events) == ["Interrupted", "RetryRequested"]
    job = replay([*facts, *events])
    assert (job.state, job.attempt, job.ready_at, job.interrupts) == (State.PAUSED, None, EXPIRY, 0)


def test_an_attempt_of_an_older_epoch_is_interrupted_first() -> None:
    """Not live is not live, whatever the reason."""
    events = when.retry(standing([created(), claimed(1)], epoch=2))

    assert when.names(events) == ["Interrupted", "RetryRequested"]


def test_a_retry_that_uses_the_budget_up_places_no_hold() -> None:
    """The retry renews the budget that the interruption used up."""
    facts = [created(policy=Policy(interrupts_max=1)), claimed(1)]

    events = when.retry(standing(facts, now=EXPIRY))

    assert replay([*facts, *events]).hold is None
    assert when.names(when.claim(standing([*facts, *events], now=EXPIRY))) == ["Claimed"]


@pytest.mark.parametrize(
    "facts",
    [
        [created()],
        [created(), claimed(1), paused(1)],
        [created(), hold_placed(), hold_released()],
        [created(), claimed(1), interrupted(1, cause="epoch_advanced")],
    ],
    ids=["queued", "drained", "released", "deployed"],
)
def test_work_that_is_due_with_an_untouched_budget_is_reused(facts: list[JobEvent]) -> None:
    """There is nothing to make due and nothing to renew."""
    assert when.retry(standing(facts)) == []


def test_work_that_became_due_since_with_an_untouched_budget_is_reused() -> None:
    """Due is a question of now, not of when the job was made to wait."""
    facts = [created(ready_at=NOON + HOUR)]

    assert when.retry(standing(facts, now=NOON + HOUR)) == []
    assert len(when.retry(standing(facts, now=NOON))) == 1


def test_a_retry_is_refused_in_the_stated_order() -> None:
    """Ended, control missing, looked too long ago, live, cancel pending, held: the first that applies is told."""
    hopeless = [claimed(1), cancel_requested(), hold_placed()]

    with pytest.raises(AlreadyTerminalError) as ended:
        when.retry(standing([created(controls=()), claimed(1), completed(1, Outcome.FAILED)]), expected_sequence=1)
    assert "rerun" in str(ended.value)
    with pytest.raises(ControlUnavailableError) as missing:
        when.retry(standing([created(controls=("pause", "cancel")), *hopeless]), expected_sequence=1)
    assert (missing.value.control, missing.value.supported) == ("retry", ("pause", "cancel"))
    with pytest.raises(SequenceMovedError):
        when.retry(standing([created(), *hopeless]), expected_sequence=1)
    with pytest.raises(LeaseLiveError):
        when.retry(standing([created(), *hopeless]), expected_sequence=4)
    with pytest.raises(CancelPendingError):
        when.retry(standing([created(), *hopeless], now=EXPIRY), expected_sequence=4)
    with pytest.raises(HoldInForceError):
        when.retry(standing([created(), claimed(1), hold_placed()], now=EXPIRY), expected_sequence=3)
    assert len(when.retry(standing([created(), claimed(1)], now=EXPIRY), expected_sequence=2)) == 2


@pytest.mark.parametrize("holder", ["ann", "engine"])
def test_a_hold_of_ones_own_has_to_be_released_too(holder: str) -> None:
    """A retry never releases a hold on the side."""
    with pytest.raises(HoldInForceError) as refusal:
        when.retry(standing([created(), claimed(1), interrupted(1), hold_placed(holder)]), by="ann")

    assert refusal.value.by == holder
