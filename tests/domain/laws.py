"""What every single event has to keep, said a second time and in other words than the rules that are under test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobledger.domain.events import (
    AttemptFailed,
    Cancelled,
    CancelRequested,
    Checkpointed,
    Claimed,
    Completed,
    HoldPlaced,
    HoldReleased,
    Interrupted,
    JobEvent,
    LeaseRenewedLate,
    Paused,
    ProgressReported,
    Resumed,
    RetryRequested,
    UnitRecorded,
)
from jobledger.domain.job import Job, State

if TYPE_CHECKING:
    from datetime import datetime

    from jobledger.domain.lease import LeaseRow

ENDED = (State.COMPLETE, State.PARTIAL, State.FAILED, State.UNAVAILABLE, State.CANCELLED)
WRITES = (Checkpointed, UnitRecorded, ProgressReported, Paused, AttemptFailed, Completed)
REPORTS = (Checkpointed, UnitRecorded, ProgressReported, LeaseRenewedLate)


@dataclass(frozen=True)
class Step:
    """One event on its way: the job before and after it, and what the world was like.

    ``lease`` and ``is_epoch_current`` are those of the attempt that is open before the event; ``following`` is the next
    event of the same command.
    """

    before: Job
    event: JobEvent
    after: Job
    following: JobEvent | None
    now: datetime
    lease: LeaseRow | None
    is_epoch_current: bool
    claims: int

    @property
    def is_live(self) -> bool:
        """Whether the attempt that was open may write."""
        return self.lease is not None and self.now < self.lease.expires_at and self.is_epoch_current


def require_lawful(step: Step) -> None:
    """Fail with the law that an event broke."""
    require_honest_state(step.after, step.event, step.following)
    require_order(step)
    require_fenced(step)
    require_fitting(step)


def require_honest_state(job: Job, event: JobEvent, following: JobEvent | None) -> None:
    """The three invariants, and what an end clears."""
    is_ended = job.state in ENDED
    is_running = job.state is State.RUNNING
    if job.hold is not None and not is_running and not is_ended:
        assert job.state is State.PAUSED, "held and neither running nor terminal, but not paused"
    is_on_its_way = isinstance(event, Interrupted) and isinstance(following, Cancelled)
    if job.cancel is not None and not is_on_its_way:
        assert is_running, "a cancel request is pending on a job that is not running"
    assert (job.attempt is not None) == is_running, "an attempt is open exactly while the job is running"
    if is_ended:
        assert job.hold is None, "a terminal event clears the hold"
        assert job.cancel is None, "a terminal event clears the cancel request"
        assert job.outcome is not None, "an end has an outcome"
        assert job.outcome.value == job.state.value, "the outcome is the state"
    else:
        assert job.outcome is None, "an outcome before the end"


def require_order(step: Step) -> None:
    """Times, sequences and generations only grow, and nothing follows the end."""
    assert step.before.state not in ENDED, "an event after the terminal one"
    assert step.event.at == step.now, "an event of another time than the store's"
    assert step.event.at >= step.before.updated_at, "time ran back"
    assert step.after.updated_at == step.event.at, "the job does not know when it was changed"
    assert step.after.sequence == step.before.sequence + 1, "sequences have a gap"
    moved = step.before.control_sequence if isinstance(step.event, REPORTS) else step.after.sequence
    assert step.after.control_sequence == moved, "the control sequence is the last event that is no report"
    if isinstance(step.event, Claimed):
        assert step.event.generation == step.claims + 1, "generations count 1, 2, 3"
        assert step.after.generation == step.event.generation, "the job does not know its generation"
    else:
        assert step.after.generation == step.before.generation, "a generation without a claim"


def require_fenced(step: Step) -> None:
    """Only the open generation writes, and only while its lease is live; nobody ends a lease that is."""
    event, before = step.event, step.before
    if isinstance(event, WRITES) or (isinstance(event, Cancelled) and event.generation is not None):
        assert before.attempt is not None, "a write without an open attempt"
        assert event.generation == before.generation, "a write of a generation that is not open"
        assert step.is_live, "a write under a lease that is not live"
    if isinstance(event, LeaseRenewedLate):
        assert before.attempt is not None, "a renewal without an open attempt"
        assert event.generation == before.generation, "a renewal of a generation that is not open"
        assert step.lease is not None, "a renewal without a lease"
        assert step.lease.expires_at <= step.now, "a renewal in time is no event"
        assert step.is_epoch_current, "a renewal of an older epoch"
        assert event.late_by == step.now - step.lease.expires_at, "how late is wrong"
    if isinstance(event, Interrupted):
        assert before.attempt is not None, "nothing to interrupt"
        assert event.generation == before.generation, "another generation was interrupted than the open one"
        assert not step.is_live, "a live lease was interrupted"
        assert step.lease is not None, "an attempt without a lease"
        assert event.expires_at == step.lease.expires_at, "another expiry was recorded than was seen"
        assert (event.cause == "epoch_advanced") == (not step.is_epoch_current), "the cause is wrong"
    if isinstance(event, Cancelled) and event.generation is None:
        assert before.attempt is None, "a lease-free end under an open lease"
    expiry = getattr(event, "expires_at", None)
    if expiry is not None and step.lease is not None and not isinstance(event, Interrupted):
        assert expiry >= step.lease.expires_at, "an expiry was moved back"


def require_fitting(step: Step) -> None:
    """Each kind of event stands only where it means something."""
    event, before, after = step.event, step.before, step.after
    match event:
        case Claimed(respects_hold=respects_hold):
            assert before.attempt is None, "claimed without ending the attempt that was open"
            assert before.cancel is None, "claimed under a cancel request"
            assert before.interrupts < before.policy.interrupts_max, "claimed without budget"
            if before.hold is not None:
                assert not respects_hold, "claimed in spite of a hold that is respected"
                assert before.hold.by != "engine", "claimed in spite of the engine's hold"
        case HoldPlaced():
            assert before.hold is None, "a second hold"
        case CancelRequested():
            assert before.state is State.RUNNING, "a request where nothing runs"
            assert before.cancel is None, "a second request"
        case HoldReleased():
            assert before.hold is not None, "released without a hold"
            assert (after.interrupts, after.failures) == (0, 0), "the budget was not renewed"
        case Resumed():
            assert (before.state, before.generation, before.hold) == (State.PAUSED, 0, None), (
                "resumed leased or held work"
            )
            assert after.state is State.QUEUED, "resumed is queued"
        case RetryRequested():
            assert (before.attempt, before.hold, before.cancel) == (None, None, None), "a retry of what cannot be tried"
            assert after.ready_at <= step.now, "a retry that is not due"
        case _:
            require_fitting_end(event, before, after)


def require_fitting_end(event: JobEvent, before: Job, after: Job) -> None:
    """An attempt that ends leaves the job where it belongs."""
    match event:
        case Interrupted():
            assert after.state is State.PAUSED, "interrupted work is parked"
        case Paused():
            assert before.cancel is None, "parked in spite of a cancel request"
            assert after.state is State.PAUSED, "parked work is paused"
        case AttemptFailed():
            assert before.cancel is None, "tried again in spite of a cancel request"
            assert after.failures < before.policy.failures_max, "tried again without budget"
        case _:
            pass
