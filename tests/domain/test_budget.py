"""The budget: which ends are unproductive, and what renews it."""

import pytest

from jobledger.domain.events import JobEvent
from jobledger.domain.policies import Policy
from tests.domain import when
from tests.domain.given import (
    EXPIRY,
    NOON,
    attempt_failed,
    body,
    cancel_requested,
    checkpointed,
    claimed,
    created,
    fence,
    hold_placed,
    hold_released,
    interrupted,
    paused,
    progress_reported,
    renewed_late,
    replay,
    retry_requested,
    standing,
    unit_recorded,
)

UNPRODUCTIVE: list[JobEvent] = [created(), claimed(1), attempt_failed(1), claimed(2), interrupted(2)]


def test_expiries_and_failures_are_counted_apart() -> None:
    """A job that crashes and a job that reports failures are two problems with two limits."""
    job = replay([*UNPRODUCTIVE, claimed(3), interrupted(3), claimed(4), interrupted(4)])

    assert (job.interrupts, job.failures) == (3, 1)


@pytest.mark.parametrize(
    "end",
    [paused(3), paused(3, "hold"), paused(3, "deferred"), interrupted(3, cause="epoch_advanced")],
    ids=["drain", "hold", "deferred", "epoch"],
)
def test_deploys_defers_and_pauses_cost_nothing(end: JobEvent) -> None:
    """Otherwise a fleet that is deployed daily would run out of budget by working."""
    job = replay([*UNPRODUCTIVE, claimed(3), end])

    assert (job.interrupts, job.failures) == (1, 1)


@pytest.mark.parametrize(
    "since",
    [
        [claimed(3), checkpointed(3)],
        [claimed(3), unit_recorded(3)],
        [hold_placed(), hold_released()],
        [retry_requested()],
    ],
    ids=["checkpoint", "unit", "release", "retry"],
)
def test_progress_and_operators_renew_both_counters_together(since: list[JobEvent]) -> None:
    """A checkpoint that differs, a unit, a release, a retry."""
    job = replay([*UNPRODUCTIVE, *since])

    assert (job.interrupts, job.failures) == (0, 0)


@pytest.mark.parametrize(
    "since",
    [
        [claimed(3)],
        [claimed(3), progress_reported(3)],
        [claimed(3), renewed_late(3)],
        [hold_placed()],
        [claimed(3), cancel_requested()],
    ],
    ids=["claim", "progress", "late renewal", "hold", "cancel request"],
)
def test_nothing_else_renews_it(since: list[JobEvent]) -> None:
    """Starting again, talking and asking are no progress."""
    job = replay([*UNPRODUCTIVE, *since])

    assert (job.interrupts, job.failures) == (1, 1)


def test_a_fork_that_saves_what_it_was_given_made_no_progress() -> None:
    """The state that it started from is the one before."""
    start = created(checkpoint=body(4))

    job = replay([start, claimed(1), interrupted(1), claimed(2), checkpointed(2, 4)])

    assert job.interrupts == 1


def test_a_crash_loop_ends_parked_before_an_operators_eyes() -> None:
    """Played through: every take-over but the last is granted, then the claim refuses and recovery holds."""
    facts: list[JobEvent] = [created(policy=Policy(interrupts_max=3)), *when.claim(standing([created()]))]
    now = EXPIRY
    for _ in range(2):
        facts += when.claim(standing(facts, now=now))
        now += EXPIRY - NOON
    assert replay(facts).generation == 3

    refused = standing(facts, now=now)
    with pytest.raises(Exception, match="interrupted 3 times") as refusal:
        when.claim(refused)

    assert getattr(refusal.value, "code", None) == "budget_exhausted"
    assert when.names(when.recover(refused)) == ["Interrupted", "HoldPlaced"]


def test_a_fork_starts_with_an_untouched_budget() -> None:
    """It is another job."""
    assert (replay([created()]).interrupts, replay([created()]).failures) == (0, 0)


def test_failures_do_not_stop_take_overs_nor_expiries_failures() -> None:
    """Each limit is asked about its own counter."""
    policy = Policy(interrupts_max=2, failures_max=2)
    failing = [created(policy=policy), claimed(1), attempt_failed(1), claimed(2)]
    crashing = [created(policy=policy), claimed(1), interrupted(1), claimed(2)]

    assert when.names(when.claim(standing(failing, now=EXPIRY))) == ["Interrupted", "Claimed"]
    assert when.names(when.fail_attempt(standing(crashing), fence(2))) == ["AttemptFailed"]
