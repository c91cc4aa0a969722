"""Resume: back into the queue, for paused jobs that were never leased."""

import pytest

from jobledger.domain.errors import (
    AlreadyTerminalError,
    ControlUnavailableError,
    NotResumableError,
    SequenceMovedError,
)
from jobledger.domain.events import JobEvent, Resumed
from jobledger.domain.job import State
from tests.domain import when
from tests.domain.given import (
    HOUR,
    NOON,
    attempt_failed,
    cancelled,
    claimed,
    created,
    hold_placed,
    hold_released,
    interrupted,
    paused,
    replay,
    standing,
)


def test_a_held_job_that_was_never_leased_is_released_and_queued() -> None:
    """One command does both, and the time to start stays what it was."""
    facts = [created(ready_at=NOON + HOUR), hold_placed("bob")]

    events = when.resume(standing(facts), by="ann")

    assert when.names(events) == ["HoldReleased", "Resumed"]
    job = replay([*facts, *events])
    assert (job.state, job.hold, job.ready_at) == (State.QUEUED, None, NOON + HOUR)


def test_every_step_of_a_resume_is_an_honest_state() -> None:
    """Between its two events the job is paused and not held: a reader who travels there is told no lie."""
    facts = [created(), hold_placed()]

    released = replay([*facts, when.resume(standing(facts))[0]])

    assert (released.state, released.hold) == (State.PAUSED, None)


def test_a_released_job_that_was_never_leased_is_queued() -> None:
    """There is no hold left to release, so only the one event is needed."""
    facts = [created(), hold_placed(), hold_released()]

    resumed = when.only(when.resume(standing(facts), by="ann"), Resumed)

    assert (resumed.by, resumed.reason, resumed.at) == ("ann", "go on", NOON)
    assert replay([*facts, resumed]).state is State.QUEUED


@pytest.mark.parametrize(
    "since",
    [
        [claimed(1), paused(1)],
        [claimed(1), hold_placed(), paused(1, "hold")],
        [claimed(1), interrupted(1)],
        [claimed(1), interrupted(1), hold_placed("engine")],
        [claimed(1), paused(1, "deferred", ready_at=NOON + HOUR)],
        [claimed(1), attempt_failed(1), hold_placed()],
    ],
    ids=["drained", "held", "interrupted", "held by engine", "deferred", "failed and held"],
)
def test_leased_work_is_not_resumed(since: list[JobEvent]) -> None:
    """Its state is guarded by fences: it goes on by the release of its hold and a new claim."""
    now = standing([created(), *since])

    with pytest.raises(NotResumableError) as refusal:
        when.resume(now)

    assert refusal.value.generation == 1
    assert "release its hold" in str(refusal.value)


@pytest.mark.parametrize(
    "since", [[], [claimed(1)], [claimed(1), attempt_failed(1)]], ids=["queued", "running", "failed"]
)
def test_what_is_not_paused_is_not_resumed(since: list[JobEvent]) -> None:
    """Nothing is pretended about a job that waits or runs anyway."""
    now = standing([created(), *since])

    with pytest.raises(NotResumableError):
        when.resume(now)


def test_a_resume_is_refused_in_the_stated_order() -> None:
    """Ended, control missing, looked too long ago, not resumable: the first that applies is told."""
    with pytest.raises(AlreadyTerminalError):
        when.resume(standing([created(controls=()), cancelled()]), expected_sequence=1)
    with pytest.raises(ControlUnavailableError) as refusal:
        when.resume(standing([created(controls=("cancel",)), claimed(1)]), expected_sequence=1)
    assert refusal.value.control == "pause"
    with pytest.raises(SequenceMovedError):
        when.resume(standing([created(), claimed(1)]), expected_sequence=1)
    with pytest.raises(NotResumableError):
        when.resume(standing([created(), claimed(1)]), expected_sequence=2)
    assert len(when.resume(standing([created(), hold_placed()]), expected_sequence=2)) == 2
