"""Holds: an operator's stop sign, who may take it away, and what it does to the job."""

import pytest

from jobledger.domain.decisions import claimable
from jobledger.domain.decisions.claiming import Claimable
from jobledger.domain.errors import (
    AlreadyTerminalError,
    ControlUnavailableError,
    HoldInForceError,
    NotHeldError,
    SequenceMovedError,
)
from jobledger.domain.events import HoldPlaced, HoldReleased, JobEvent
from jobledger.domain.job import ENGINE, State, evolve
from jobledger.domain.policies import Policy
from tests.domain import when
from tests.domain.given import (
    EXPIRY,
    HOUR,
    NOON,
    attempt_failed,
    cancel_requested,
    checkpointed,
    claimed,
    completed,
    created,
    hold_placed,
    hold_released,
    interrupted,
    paused,
    progress_reported,
    replay,
    resumed,
    standing,
    unit_recorded,
)
from tests.domain.when import only

# hold -----------------------------------------------------------------------------------------------------------------


def test_a_hold_pauses_a_queued_job_at_once() -> None:
    """The event alone does it, so that no reader ever sees a held job that is queued."""
    now = standing([created(ready_at=NOON + HOUR)])

    placed = only(when.hold(now, by="ann"), HoldPlaced)

    assert (placed.by, placed.reason, placed.at) == ("ann", "look first", NOON)
    job = evolve(now.job, placed)
    assert (job.state, job.ready_at) == (State.PAUSED, NOON + HOUR)
    assert job.hold is not None
    assert (job.hold.by, job.hold.reason, job.hold.at) == ("ann", "look first", NOON)


def test_a_hold_leaves_a_running_attempt_running_until_its_boundary() -> None:
    """Pausing is cooperative: the lease and the fence stay as they are."""
    now = standing([created(), claimed(1)])

    job = evolve(now.job, only(when.hold(now), HoldPlaced))

    assert (job.state, job.attempt) == (State.RUNNING, now.job.attempt)
    assert job.hold is not None


@pytest.mark.parametrize("end", [paused(1, ready_at=NOON + HOUR), interrupted(1)], ids=["paused", "interrupted"])
def test_a_hold_keeps_parked_work_parked_and_due_when_it_was(end: JobEvent) -> None:
    """Placing and releasing a hold does not move the time to start."""
    now = standing([created(), claimed(1), end])

    job = evolve(now.job, only(when.hold(now), HoldPlaced))

    assert (job.state, job.ready_at) == (State.PAUSED, now.job.ready_at)


def test_the_same_operator_holding_again_is_reused() -> None:
    """A repeated wish changes nothing, and the first reason stands."""
    now = standing([created(), hold_placed("ann")])

    assert when.hold(now, by="ann") == []


@pytest.mark.parametrize("holder", ["bob", ENGINE])
@pytest.mark.parametrize("running", [True, False], ids=["running", "parked"])
def test_anothers_hold_is_named(holder: str, running: bool) -> None:
    """Who holds the job has to be asked; the second hold would be lost when the first is released."""
    now = standing([created(), *([claimed(1)] if running else []), hold_placed(holder, "disk full")])

    with pytest.raises(HoldInForceError) as refusal:
        when.hold(now, by="ann")

    assert (refusal.value.by, refusal.value.reason) == (holder, "disk full")


def test_a_hold_is_refused_in_the_stated_order() -> None:
    """Ended, control missing, looked too long ago, held by another: the first that applies is told."""
    held = [claimed(1), hold_placed("bob")]

    with pytest.raises(AlreadyTerminalError):
        when.hold(standing([created(controls=()), claimed(1), completed(1)]), expected_sequence=1)
    with pytest.raises(ControlUnavailableError):
        when.hold(standing([created(controls=()), *held]), expected_sequence=1)
    with pytest.raises(SequenceMovedError):
        when.hold(standing([created(), *held]), expected_sequence=1)
    with pytest.raises(HoldInForceError):
        when.hold(standing([created(), *held]), expected_sequence=3)
    assert len(when.hold(standing([created(), claimed(1)]), expected_sequence=2)) == 1


def test_a_missing_pause_control_is_refused_with_those_that_there_are() -> None:
    """No pause is ever pretended."""
    now = standing([created(controls=("cancel", "retry"))])

    with pytest.raises(ControlUnavailableError) as refusal:
        when.hold(now)

    assert (refusal.value.control, refusal.value.supported) == ("pause", ("cancel", "retry"))


def test_a_hold_may_join_a_cancel_request() -> None:
    """Both are requests; each is answered at the boundary."""
    now = standing([created(), claimed(1), cancel_requested()])

    job = evolve(now.job, only(when.hold(now), HoldPlaced))

    assert job.state is State.RUNNING
    assert job.cancel is not None


# release_hold ---------------------------------------------------------------------------------------------------------


def test_released_work_that_was_leased_is_claimable_once_it_is_due() -> None:
    """Leased work goes on by a new claim; it stays paused until then."""
    now = standing([created(), claimed(1), paused(1, "hold", ready_at=NOON + HOUR), hold_placed()])

    released = only(when.release_hold(now, by="bob"), HoldReleased)

    assert (released.by, released.reason) == ("bob", "looked")
    job = evolve(now.job, released)
    assert (job.state, job.hold, job.ready_at) == (State.PAUSED, None, NOON + HOUR)
    assert claimable(job) is Claimable.WHEN_READY


def test_a_never_leased_job_stays_paused_after_its_release_and_is_claimable() -> None:
    """Only ``resume`` puts it back into its queue; a claim needs no such step."""
    now = standing([created(), hold_placed()])

    after = [created(), hold_placed(), only(when.release_hold(now), HoldReleased)]

    assert replay(after).state is State.PAUSED
    assert when.names(when.claim(standing(after))) == ["Claimed"]


def test_a_release_while_running_leaves_the_attempt_alone() -> None:
    """The attempt goes on as if it had never been asked to park."""
    now = standing([created(), claimed(1), hold_placed()])

    job = evolve(now.job, only(when.release_hold(now), HoldReleased))

    assert (job.state, job.hold, job.attempt) == (State.RUNNING, None, now.job.attempt)


@pytest.mark.parametrize("holder", ["ann", "bob", ENGINE])
def test_anybody_may_release_any_hold(holder: str) -> None:
    """The holder may be on holiday, and the engine never looks."""
    now = standing([created(), claimed(1), interrupted(1), hold_placed(holder)])

    assert when.names(when.release_hold(now, by="ann")) == ["HoldReleased"]


def test_a_release_renews_the_budget() -> None:
    """An operator has looked: the next crash is the first again, of either kind."""
    facts = [created(), claimed(1), attempt_failed(1), claimed(2), interrupted(2), hold_placed(ENGINE)]
    now = standing(facts)
    assert (now.job.interrupts, now.job.failures) == (1, 1)

    job = evolve(now.job, only(when.release_hold(now), HoldReleased))

    assert (job.interrupts, job.failures) == (0, 0)


def test_the_control_to_pause_is_not_needed_to_release() -> None:
    """The engine may hold every job, so every job can be released."""
    now = standing([created(controls=()), claimed(1), interrupted(1), hold_placed(ENGINE)])

    assert when.names(when.release_hold(now)) == ["HoldReleased"]


def test_the_last_releaser_asking_again_is_reused() -> None:
    """A repeated release never looks like a conflict with one's own."""
    now = standing([created(), hold_placed(), hold_released("ann"), claimed(1)])

    assert when.release_hold(now, by="ann") == []


@pytest.mark.parametrize(
    "since",
    [
        [],
        [hold_placed(), hold_released("bob")],
        [hold_placed(), hold_released("ann"), hold_placed(), hold_released("bob")],
    ],
    ids=["never held", "released by another", "released by another since"],
)
def test_there_is_nothing_to_release(since: list[JobEvent]) -> None:
    """Only the very last releaser is answered as a repeat."""
    now = standing([created(), *since])

    with pytest.raises(NotHeldError):
        when.release_hold(now, by="ann")


def test_a_later_hold_is_not_taken_for_the_one_that_was_released() -> None:
    """Releasing again releases again when somebody has held the job since."""
    now = standing([created(), hold_placed(), hold_released("ann"), hold_placed("bob")])

    assert when.names(when.release_hold(now, by="ann")) == ["HoldReleased"]


def test_a_release_is_refused_in_the_stated_order() -> None:
    """Ended, looked too long ago, not held: the first that applies is told."""
    with pytest.raises(AlreadyTerminalError):
        when.release_hold(standing([created(), claimed(1), completed(1)]), expected_sequence=1)
    with pytest.raises(SequenceMovedError):
        when.release_hold(standing([created(), claimed(1)]), expected_sequence=1)
    with pytest.raises(NotHeldError):
        when.release_hold(standing([created(), claimed(1)]), expected_sequence=2)


# What every operator command shares -----------------------------------------------------------------------------------


def test_reports_of_workers_do_not_move_the_control_sequence() -> None:
    """An operator who looked a second ago is not refused because the worker checkpoints ten times a second."""
    facts = [created(), claimed(1), checkpointed(), unit_recorded(), progress_reported()]
    assert replay(facts).sequence == 5

    assert when.names(when.hold(standing(facts), expected_sequence=2)) == ["HoldPlaced"]


def test_what_changed_the_job_moves_the_control_sequence() -> None:
    """Both numbers are told, so that the operator knows that somebody acted in between."""
    facts = [created(), hold_placed(), hold_released(), resumed(), claimed(1)]

    with pytest.raises(SequenceMovedError) as refusal:
        when.hold(standing(facts), expected_sequence=4)

    assert (refusal.value.expected, refusal.value.current) == (4, 5)


def test_an_engine_hold_needs_no_control() -> None:
    """A job without any control is parked before an operator's eyes all the same."""
    facts = [created(controls=(), policy=Policy(interrupts_max=1)), claimed(1)]

    events = when.recover(standing(facts, now=EXPIRY))

    assert when.names(events) == ["Interrupted", "HoldPlaced"]
