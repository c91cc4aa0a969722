"""Cancelling: at once where nothing runs, a request where something does, and the worker's record of its stop."""

from datetime import datetime

import pytest

from jobledger.domain.bounds import BOUNDARY_BYTES_MAX
from jobledger.domain.errors import (
    AlreadyTerminalError,
    CancelNotRequestedError,
    ControlUnavailableError,
    LeaseExpiredError,
    ResultTooLargeError,
    SequenceMovedError,
)
from jobledger.domain.events import Cancelled, CancelRequested, JobEvent, Outcome
from jobledger.domain.job import State, evolve
from tests.domain import when
from tests.domain.given import (
    EXPIRY,
    HOUR,
    NOON,
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
    replay,
    standing,
    unit_recorded,
)

# request_cancel -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "since",
    [
        [],
        [hold_placed()],
        [claimed(1), paused(1)],
        [claimed(1), interrupted(1)],
        [claimed(1), attempt_failed(1, retry_at=NOON + HOUR)],
        [claimed(1), paused(1, "deferred", ready_at=NOON + HOUR)],
        [claimed(1), interrupted(1), hold_placed("engine")],
    ],
    ids=["queued", "held", "paused", "interrupted", "backing off", "deferred", "held by engine"],
)
def test_what_does_not_run_is_cancelled_at_once(since: list[JobEvent]) -> None:
    """No lease is open, so nobody has to be asked; holds end with the job."""
    now = standing([created(), *since])

    ended = when.only(when.request_cancel(now, by="bob"), Cancelled)

    assert (ended.generation, ended.by, ended.reason) == (None, "bob", "not needed")
    job = evolve(now.job, ended)
    assert (job.state, job.outcome, job.hold, job.cancel) == (State.CANCELLED, Outcome.CANCELLED, None, None)


def test_completed_work_of_a_cancelled_job_stays_as_evidence() -> None:
    """The end names the boundary that was reached: the checkpoint's sequence and the units."""
    facts = [created(), claimed(1), checkpointed(1, 4), unit_recorded(1), unit_recorded(1, "batch-2"), paused(1)]

    ended = when.only(when.request_cancel(standing(facts)), Cancelled)

    assert (ended.checkpoint_sequence, ended.units) == (3, 2)
    job = replay([*facts, ended])
    assert (job.checkpoint, job.units) == (body(4), 2)


@pytest.mark.parametrize("now", [NOON, EXPIRY], ids=["live", "expired"])
def test_what_runs_is_asked_to_stop(now: datetime) -> None:
    """A request is not an instant rollback: the attempt stays open until the worker, or recovery, records the end."""
    before = standing([created(), claimed(1)], now=now)

    asked = when.only(when.request_cancel(before, by="bob"), CancelRequested)

    job = evolve(before.job, asked)
    assert (job.state, job.attempt) == (State.RUNNING, before.job.attempt)
    assert job.cancel is not None
    assert (job.cancel.by, job.cancel.reason) == ("bob", "not needed")


@pytest.mark.parametrize("by", ["ann", "bob"])
def test_any_second_request_is_reused(by: str) -> None:
    """Whoever asks again: the first request stands."""
    now = standing([created(), claimed(1), cancel_requested("ann")])

    assert when.request_cancel(now, by=by) == []


def test_a_cancel_request_is_refused_in_the_stated_order() -> None:
    """Ended, control missing, looked too long ago: the first that applies is told."""
    with pytest.raises(AlreadyTerminalError) as refusal:
        when.request_cancel(standing([created(controls=()), cancelled()]), expected_sequence=1)
    assert refusal.value.state == "cancelled"
    with pytest.raises(ControlUnavailableError) as missing:
        when.request_cancel(standing([created(controls=("pause",)), claimed(1)]), expected_sequence=1)
    assert (missing.value.control, missing.value.supported) == ("cancel", ("pause",))
    with pytest.raises(SequenceMovedError):
        when.request_cancel(standing([created(), claimed(1)]), expected_sequence=1)
    assert len(when.request_cancel(standing([created(), claimed(1)]), expected_sequence=2)) == 1


def test_a_finished_job_is_not_cancelled() -> None:
    """The answer comes too late and says so; the outcome stands."""
    with pytest.raises(AlreadyTerminalError):
        when.request_cancel(standing([created(), claimed(1), completed(1)]))


# cancel, by the worker ------------------------------------------------------------------------------------------------


def test_the_worker_records_that_it_stopped_and_where() -> None:
    """Who asked and why come from the request, the boundary from what was recorded and from what the worker says."""
    facts = [created(), claimed(1), checkpointed(1, 4), unit_recorded(1), cancel_requested("bob")]

    ended = when.only(when.cancel(standing(facts), boundary={"batch": 5}), Cancelled)

    assert (ended.generation, ended.by, ended.reason) == (1, "bob", "not needed")
    assert (ended.checkpoint_sequence, ended.units, ended.error) == (3, 1, None)
    assert ended.boundary == body({"batch": 5})
    job = replay([*facts, ended])
    assert (job.state, job.outcome, job.attempt, job.cancel) == (State.CANCELLED, Outcome.CANCELLED, None, None)


def test_a_worker_that_has_nothing_to_say_records_the_boundary_all_the_same() -> None:
    """Without a checkpoint there is no sequence to name."""
    ended = when.only(when.cancel(standing([created(), claimed(1), cancel_requested()])), Cancelled)

    assert (ended.checkpoint_sequence, ended.units, ended.boundary) == (None, 0, None)


def test_a_worker_cannot_cancel_what_nobody_asked_to_cancel() -> None:
    """A worker that wants to stop pauses, fails or completes."""
    with pytest.raises(CancelNotRequestedError):
        when.cancel(standing([created(), claimed(1)]))


def test_what_a_worker_says_of_its_boundary_is_bounded() -> None:
    """One byte more than the bound is refused, and the attempt stays open."""
    now = standing([created(), claimed(1), cancel_requested()])
    fits = "x" * (BOUNDARY_BYTES_MAX - 2)

    assert when.names(when.cancel(now, boundary=fits)) == ["Cancelled"]
    with pytest.raises(ResultTooLargeError):
        when.cancel(now, boundary=fits + "x")


def test_a_workers_cancel_is_refused_in_the_stated_order() -> None:
    """The fence first, then whether anybody asked, then the size."""
    too_large = "x" * BOUNDARY_BYTES_MAX

    with pytest.raises(LeaseExpiredError):
        when.cancel(standing([created(), claimed(1)], now=EXPIRY), boundary=too_large)
    with pytest.raises(CancelNotRequestedError):
        when.cancel(standing([created(), claimed(1)]), boundary=too_large)
    with pytest.raises(ResultTooLargeError):
        when.cancel(standing([created(), claimed(1), cancel_requested()]), boundary=too_large)


# Other ends while a cancel request is pending -------------------------------------------------------------------------


@pytest.mark.parametrize("stop", when.STOPS.values(), ids=when.STOPS)
def test_an_attempt_that_stops_otherwise_ends_the_job_instead(stop: when.Write) -> None:
    """One event, not two: a request is never seen on a job that is parked or queued."""
    facts = [created(), claimed(1), checkpointed(1, 4), unit_recorded(1), cancel_requested("bob"), hold_placed()]

    ended = when.only(stop(standing(facts)), Cancelled)

    assert (ended.generation, ended.by, ended.checkpoint_sequence, ended.units) == (1, "bob", 3, 1)
    assert ended.error == ("boom" if stop is when.fail_attempt else None)
    assert replay([*facts, ended]).state is State.CANCELLED


def test_a_failure_under_a_cancel_request_is_kept_with_the_end() -> None:
    """Also when it would have used up the budget: cancelled, with the error on record."""
    facts = [created(), claimed(1), cancel_requested()]

    ended = when.only(when.fail_attempt(standing(facts), error="OSError: disk full"), Cancelled)

    assert replay([*facts, ended]).error == "OSError: disk full"


@pytest.mark.parametrize("stop", [when.pause, when.defer], ids=["pause", "defer"])
def test_the_state_saved_on_the_way_is_the_boundary_of_the_cancelled_job(stop: when.Write) -> None:
    """The checkpoint comes first; the end names it, not the one before."""
    facts = [created(), claimed(1), checkpointed(1, 4), cancel_requested()]
    now = standing(facts)
    saved = when.checkpoint(now, state=5)

    events = stop(now, before=saved)

    assert when.names(events) == ["Checkpointed", "Cancelled"]
    job = replay([*facts, *events])
    ended = events[1]
    assert isinstance(ended, Cancelled)
    assert ended.checkpoint_sequence == job.checkpoint_sequence == 5
    assert job.checkpoint == body(5)
