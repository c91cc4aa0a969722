"""Completing: the terminal outcome, published once, through the current lease, with its effects."""

from dataclasses import replace

import pytest

from jobledger.domain.decisions.working import Effect, require_outcome
from jobledger.domain.errors import (
    AlreadyTerminalError,
    EffectConflictError,
    InvalidRequestError,
    LeaseExpiredError,
    OutOfOrderError,
    ResultTooLargeError,
    StaleFenceError,
)
from jobledger.domain.events import Completed, JobEvent, Outcome
from jobledger.domain.job import State, evolve
from jobledger.domain.policies import Policy
from tests.domain import when
from tests.domain.given import (
    EXPIRY,
    NOON,
    SECOND,
    archived,
    attempt_failed,
    body,
    cancel_requested,
    checkpointed,
    claimed,
    completed,
    created,
    erased,
    fence,
    hold_placed,
    interrupted,
    replay,
    standing,
    unit_recorded,
)

OPEN: list[JobEvent] = [created(), claimed(1)]


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome.COMPLETE, State.COMPLETE),
        (Outcome.PARTIAL, State.PARTIAL),
        (Outcome.FAILED, State.FAILED),
        (Outcome.UNAVAILABLE, State.UNAVAILABLE),
    ],
)
def test_each_outcome_is_an_end_of_its_own(outcome: Outcome, state: State) -> None:
    """Complete, partial, failed and unavailable are never folded into one another."""
    now = standing(OPEN, now=NOON + SECOND)
    has_result = outcome in (Outcome.COMPLETE, Outcome.PARTIAL)
    result, error = ("indexed", None) if has_result else (None, "boom")

    ended = when.only(when.complete(now, outcome=outcome, result=result, error=error), Completed)

    assert (ended.generation, ended.outcome, ended.at, ended.error) == (1, outcome, NOON + SECOND, error)
    job = evolve(now.job, ended)
    assert (job.state, job.outcome, job.attempt) == (state, outcome, None)
    assert job.result == (body("indexed") if has_result else None)


@pytest.mark.parametrize(
    "asked",
    [[hold_placed()], [cancel_requested()], [hold_placed(), cancel_requested()]],
    ids=["hold", "cancel", "both"],
)
def test_work_that_was_finished_before_its_boundary_is_complete(asked: list[JobEvent]) -> None:
    """A hold and a cancel are requests; the end clears them."""
    now = standing([*OPEN, *asked])

    job = evolve(now.job, when.only(when.complete(now), Completed))

    assert (job.state, job.hold, job.cancel) == (State.COMPLETE, None, None)


def test_what_was_recorded_before_stays() -> None:
    """The end takes nothing away: checkpoint, units and the error of an earlier attempt remain readable."""
    facts = [created(), claimed(1), attempt_failed(1, "first try"), claimed(2), checkpointed(2, 4), unit_recorded(2)]
    now = standing(facts)

    job = evolve(now.job, when.only(when.complete(now, fence(2)), Completed))

    assert (job.checkpoint, job.units, job.error) == (body(4), 1, "first try")


def test_effects_are_committed_with_the_result() -> None:
    """Atomically: both stand in the one event."""
    effect = Effect(resource="index", value={"n": 1}, expected_version=2)

    ended = when.only(when.complete(standing(OPEN), effects=[effect], versions={"index": 2}), Completed)

    assert [(each.resource, each.version, each.value) for each in ended.effects] == [("index", 3, body({"n": 1}))]


def test_a_conflicting_effect_commits_nothing_and_the_attempt_stays_open() -> None:
    """It may read the resource again and try once more."""
    now = standing(OPEN)

    with pytest.raises(EffectConflictError):
        when.complete(now, effects=[Effect(resource="index", value=1, expected_version=0)], versions={"index": 1})

    assert (
        len(when.complete(now, effects=[Effect(resource="index", value=1, expected_version=1)], versions={"index": 1}))
        == 1
    )


def test_a_result_may_be_as_large_as_the_policy_says_and_not_a_byte_larger() -> None:
    """The attempt stays open, and may send a reference instead."""
    now = standing([created(policy=Policy(result_bytes_max=6)), claimed(1)])

    assert len(when.complete(now, result="xxxx")) == 1
    with pytest.raises(ResultTooLargeError) as refusal:
        when.complete(now, result="xxxxx")
    assert (refusal.value.size, refusal.value.limit) == (7, 6)


def test_an_expired_worker_never_publishes_a_result() -> None:
    """Also when nobody has taken the job over."""
    with pytest.raises(LeaseExpiredError):
        when.complete(standing(OPEN, now=EXPIRY))


def test_a_worker_that_was_replaced_does_not_finalise_the_newer_attempt() -> None:
    """Its result is dropped, and the newer attempt is protected."""
    now = standing([*OPEN, interrupted(1), claimed(2, worker="w2")])

    with pytest.raises(StaleFenceError) as refusal:
        when.complete(now, fence(1))

    assert refusal.value.current == 2


def test_a_job_is_completed_once() -> None:
    """The second one is told that it has ended, whatever it wanted to say."""
    with pytest.raises(AlreadyTerminalError):
        when.complete(standing([*OPEN, completed(1)]), outcome=Outcome.FAILED, result=None, error="boom")


def test_a_completion_is_refused_in_the_stated_order() -> None:
    """The fence, the size, then what the effects meet."""
    facts = [created(policy=Policy(result_bytes_max=2)), claimed(1)]
    conflict = [Effect(resource="index", value=1, expected_version=3)]

    with pytest.raises(OutOfOrderError):
        when.complete(standing(facts, step=1), result="x", effects=conflict)
    with pytest.raises(ResultTooLargeError):
        when.complete(standing(facts), result="x", effects=conflict)
    with pytest.raises(EffectConflictError):
        when.complete(standing(facts), result=1, effects=conflict)


def test_upkeep_after_the_end_changes_nothing_but_the_count_of_events() -> None:
    """An archived or erased job is still what it was; its history says what was done to it."""
    facts = [*OPEN, checkpointed(1, 4), completed(1)]
    ended = replay(facts)

    kept = replay([*facts, archived(), erased()])

    assert kept == replace(ended, sequence=ended.sequence + 2, control_sequence=ended.sequence + 2)


# What belongs to an outcome -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "result", "error"),
    [
        ("complete", 1, None),
        ("complete", None, None),
        ("partial", 1, None),
        ("partial", 1, "half of it"),
        ("failed", None, "boom"),
        ("unavailable", None, "down"),
        (Outcome.COMPLETE, 1, None),
    ],
)
def test_an_outcome_with_what_belongs_to_it_is_accepted(outcome: str, result: object, error: str | None) -> None:
    """By its word or as the enumeration's member."""
    assert require_outcome(outcome, result, error, []) is Outcome(outcome)


@pytest.mark.parametrize(
    ("outcome", "result", "error", "field"),
    [
        ("done", 1, None, "outcome"),
        ("Complete", 1, None, "outcome"),
        (None, 1, None, "outcome"),
        (1, 1, None, "outcome"),
        ([], 1, None, "outcome"),
        ("cancelled", None, None, "outcome"),
        ("failed", None, None, "error"),
        ("unavailable", None, None, "error"),
        ("failed", 1, "boom", "result"),
        ("unavailable", 1, "down", "result"),
        ("complete", 1, "boom", "error"),
    ],
)
def test_an_outcome_with_what_does_not_belong_to_it_is_refused(
    outcome: object, result: object, error: str | None, field: str
) -> None:
    """A failure carries an error, a success a result; a cancellation is recorded by its own command."""
    with pytest.raises(InvalidRequestError) as refusal:
        require_outcome(outcome, result, error, [])

    assert refusal.value.field == field


@pytest.mark.parametrize("outcome", ["failed", "unavailable"])
def test_an_end_without_success_commits_no_effects(outcome: str) -> None:
    """Staged effects are dropped on any end but complete and partial."""
    effect = Effect(resource="index", value=1, expected_version=0)

    assert require_outcome("partial", 1, None, [effect]) is Outcome.PARTIAL
    with pytest.raises(InvalidRequestError):
        require_outcome(outcome, None, "boom", [effect])
