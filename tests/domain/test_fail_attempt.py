"""Failures: tried again after a wait that grows, until the budget of failures is used up."""

from datetime import timedelta

import pytest

from jobledger.domain.events import AttemptFailed, Completed, JobEvent, Outcome
from jobledger.domain.job import State, evolve
from jobledger.domain.policies import Backoff, Policy
from tests.domain import when
from tests.domain.given import (
    HOUR,
    NOON,
    SECOND,
    attempt_failed,
    body,
    checkpointed,
    claimed,
    created,
    fence,
    hold_placed,
    replay,
    retry_requested,
    standing,
    unit_recorded,
)

OPEN: list[JobEvent] = [created(), claimed(1)]


def test_a_failed_attempt_waits_in_its_queue_with_its_error() -> None:
    """It is tried again after the policy's back-off; what was saved is kept."""
    facts = [*OPEN, checkpointed(1, 4), unit_recorded(1)]
    now = standing(facts, now=NOON + SECOND)

    failed = when.only(when.fail_attempt(now, error="OSError: disk full"), AttemptFailed)

    assert (failed.generation, failed.error, failed.at) == (1, "OSError: disk full", NOON + SECOND)
    assert failed.retry_at == NOON + 2 * SECOND
    job = evolve(now.job, failed)
    assert (job.state, job.attempt, job.ready_at, job.failures) == (State.QUEUED, None, NOON + 2 * SECOND, 1)
    assert (job.error, job.checkpoint, job.units, job.outcome) == ("OSError: disk full", body(4), 1, None)


def test_under_a_hold_a_failed_attempt_is_parked() -> None:
    """Held and not running is paused, after every event."""
    facts = [*OPEN, hold_placed()]

    failed = when.only(when.fail_attempt(standing(facts)), AttemptFailed)

    job = replay([*facts, failed])
    assert (job.state, job.ready_at) == (State.PAUSED, failed.retry_at)
    assert job.hold is not None


def test_the_wait_grows_with_each_failure_up_to_its_cap() -> None:
    """Doubled each time by default."""
    policy = Policy(failures_max=6, backoff=Backoff(initial=SECOND, factor=2, cap=5 * SECOND, jitter=0))
    facts: list[JobEvent] = [created(policy=policy)]
    waits = []

    for generation in range(1, 6):
        facts.append(claimed(generation))
        failed = when.only(when.fail_attempt(standing(facts), fence(generation)), AttemptFailed)
        waits.append(failed.retry_at - NOON)
        facts.append(failed)

    assert waits == [timedelta(seconds=seconds) for seconds in (1, 2, 4, 5, 5)]


@pytest.mark.parametrize(("chance", "seconds"), [(0.0, 10.0), (0.5, 9.0), (1.0, 8.0)])
def test_chance_takes_up_to_the_jitters_share_off(chance: float, seconds: float) -> None:
    """A thousand jobs that failed together do not come back together."""
    policy = Policy(backoff=Backoff(initial=10 * SECOND, jitter=0.2))

    failed = when.only(when.fail_attempt(standing([created(policy=policy), claimed(1)]), chance=chance), AttemptFailed)

    assert failed.retry_at == NOON + timedelta(seconds=seconds)


@pytest.mark.parametrize("wait", [timedelta(0), HOUR])
def test_a_handler_may_name_the_wait_itself(wait: timedelta) -> None:
    """It knows when the service it needs is back."""
    failed = when.only(when.fail_attempt(standing(OPEN), retry_after=wait), AttemptFailed)

    assert failed.retry_at == NOON + wait


@pytest.mark.parametrize("failures_max", [1, 2, 5])
def test_the_nth_failure_completes_as_failed_and_none_before(failures_max: int) -> None:
    """The budget of failures is exactly what the policy says."""
    facts: list[JobEvent] = [created(policy=Policy(failures_max=failures_max))]

    for generation in range(1, failures_max):
        facts += [claimed(generation), *when.fail_attempt(standing([*facts, claimed(generation)]), fence(generation))]
        assert not replay(facts).is_terminal
    facts.append(claimed(failures_max))
    ended = when.only(when.fail_attempt(standing(facts), fence(failures_max), error="last"), Completed)

    assert (ended.outcome, ended.error, ended.result, ended.effects) == (Outcome.FAILED, "last", None, ())
    job = replay([*facts, ended])
    assert (job.state, job.outcome, job.error) == (State.FAILED, Outcome.FAILED, "last")


def test_the_end_by_failure_clears_a_hold() -> None:
    """Nothing is left to hold."""
    facts = [created(policy=Policy(failures_max=1)), claimed(1), hold_placed()]

    job = replay([*facts, *when.fail_attempt(standing(facts))])

    assert (job.state, job.hold) == (State.FAILED, None)


@pytest.mark.parametrize(
    "progress",
    [checkpointed(2, 4), unit_recorded(2)],
    ids=["checkpoint", "unit"],
)
def test_progress_renews_the_budget_of_failures(progress: JobEvent) -> None:
    """Only failures without progress in between add up."""
    facts = [created(policy=Policy(failures_max=2)), claimed(1), attempt_failed(1), claimed(2), progress]

    assert when.names(when.fail_attempt(standing(facts), fence(2))) == ["AttemptFailed"]
    without = [fact for fact in facts if fact is not progress]
    assert when.names(when.fail_attempt(standing(without), fence(2))) == ["Completed"]


def test_a_retry_renews_the_budget_of_failures() -> None:
    """An operator has mended the cause."""
    facts = [created(policy=Policy(failures_max=2)), claimed(1), attempt_failed(1), retry_requested(), claimed(2)]

    assert when.names(when.fail_attempt(standing(facts), fence(2))) == ["AttemptFailed"]
