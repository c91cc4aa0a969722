"""Parking at a boundary: for a hold, for a drain, or until later; the lease is given back."""

import pytest

from jobledger.domain.decisions.working import Effect
from jobledger.domain.errors import StaleFenceError
from jobledger.domain.events import Checkpointed, JobEvent, Paused
from jobledger.domain.job import State, evolve
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
    hold_released,
    interrupted,
    paused,
    replay,
    standing,
    unit_recorded,
)

OPEN: list[JobEvent] = [created(), claimed(1), checkpointed(1, 4), unit_recorded(1)]


def test_without_a_hold_a_pause_is_a_drain_and_due_at_once() -> None:
    """The host stops, not the job: any other worker may go on now."""
    now = standing(OPEN, now=NOON + SECOND)

    parked = when.only(when.pause(now), Paused)

    assert (parked.generation, parked.cause, parked.at, parked.ready_at) == (1, "drain", NOON + SECOND, NOON + SECOND)
    job = evolve(now.job, parked)
    assert (job.state, job.attempt, job.checkpoint, job.units) == (State.PAUSED, None, body(4), 1)
    assert when.names(when.claim(standing([*OPEN, parked], now=NOON + SECOND))) == ["Claimed"]


@pytest.mark.parametrize("by", ["ann", "engine"])
def test_under_a_hold_a_pause_is_that_holds(by: str) -> None:
    """The attempt parked for the operator; no claim takes the job until the release."""
    facts = [*OPEN, hold_placed(by)]

    parked = when.only(when.pause(standing(facts)), Paused)

    assert parked.cause == "hold"
    job = replay([*facts, parked])
    assert job.state is State.PAUSED
    assert job.hold is not None
    assert when.names(when.claim(standing([*facts, parked, hold_released()]))) == ["Claimed"]


def test_parking_for_a_hold_keeps_the_time_at_which_the_job_was_due() -> None:
    """Only a drain makes it due anew; a hold does not cost the job its place in the order of claims."""
    parked = when.only(when.pause(standing([*OPEN, hold_placed()], now=NOON + SECOND)), Paused)

    assert (parked.at, parked.ready_at) == (NOON + SECOND, NOON)


def test_a_hold_that_was_released_before_the_boundary_leaves_a_drain() -> None:
    """What counts is whether it is in force."""
    parked = when.only(when.pause(standing([*OPEN, hold_placed(), hold_released()])), Paused)

    assert parked.cause == "drain"


@pytest.mark.parametrize("stop", [when.pause, when.defer], ids=["pause", "defer"])
def test_parking_costs_no_budget_and_renews_none(stop: when.Write) -> None:
    """A deploy a day, or a job that waits for its turn, is no failure and no progress."""
    facts = [created(), claimed(1), attempt_failed(1), claimed(2), interrupted(2), claimed(3)]

    job = replay([*facts, *stop(standing(facts), fence(3))])

    assert (job.interrupts, job.failures) == (1, 1)


@pytest.mark.parametrize("stop", [when.pause, when.defer], ids=["pause", "defer"])
def test_a_state_is_saved_first_effects_included(stop: when.Write) -> None:
    """One step for the caller, two honest facts in the history: the checkpoint, then the stop."""
    now = standing([created(), claimed(1)])
    effect = Effect(resource="index", value=1, expected_version=0)
    saved = when.checkpoint(now, state=5, effects=[effect])

    events = stop(now, before=saved)

    assert when.names(events) == ["Checkpointed", "Paused"]
    first = events[0]
    assert isinstance(first, Checkpointed)
    assert [each.resource for each in first.effects] == ["index"]
    assert replay([created(), claimed(1), *events]).checkpoint == body(5)


def test_a_deferred_job_waits_until_its_time() -> None:
    """Until then it is paused, without a lease, and no worker's slot is taken."""
    now = standing(OPEN)

    parked = when.only(when.defer(now, ready_at=NOON + HOUR), Paused)

    assert (parked.generation, parked.cause, parked.ready_at) == (1, "deferred", NOON + HOUR)
    job = evolve(now.job, parked)
    assert (job.state, job.attempt, job.ready_at) == (State.PAUSED, None, NOON + HOUR)


def test_a_job_that_is_deferred_under_a_hold_keeps_both() -> None:
    """After the release it still waits for its time."""
    facts = [*OPEN, hold_placed()]

    job = replay([*facts, *when.defer(standing(facts), ready_at=NOON + HOUR)])

    assert job.hold is not None
    assert (job.state, job.ready_at) == (State.PAUSED, NOON + HOUR)


@pytest.mark.parametrize("stop", [when.pause, when.defer], ids=["pause", "defer"])
def test_an_attempt_that_parked_has_given_its_lease_back(stop: when.Write) -> None:
    """It cannot park twice: its generation has ended, and says how."""
    parked = standing([*OPEN, paused(1)])

    with pytest.raises(StaleFenceError) as refusal:
        stop(parked)

    assert refusal.value.ended_by == "paused"
