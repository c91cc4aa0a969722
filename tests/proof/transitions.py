"""What must hold of one event on its way: who may cause it, when, and what may stand around it.

Each predicate answers what is wrong, or nothing. Nothing here calls a rule that is under test.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from jobledger.domain.events import (
    Archived,
    AttemptFailed,
    Cancelled,
    CancelRequested,
    Checkpointed,
    Claimed,
    Completed,
    Created,
    Erased,
    HoldPlaced,
    HoldReleased,
    Interrupted,
    LeaseRenewedLate,
    Outcome,
    Paused,
    ProgressReported,
    Resumed,
    RetryRequested,
    UnitRecorded,
)
from jobledger.domain.job import Job, State

if TYPE_CHECKING:
    from tests.proof.history import Transition

ENDED: Final = (State.COMPLETE, State.PARTIAL, State.FAILED, State.UNAVAILABLE, State.CANCELLED)
REPORTS: Final = (Checkpointed, UnitRecorded, ProgressReported, LeaseRenewedLate)
FENCED: Final = (Checkpointed, UnitRecorded, ProgressReported, LeaseRenewedLate, Paused, AttemptFailed, Completed)
OF_A_GENERATION: Final = (*FENCED, Interrupted, Cancelled)
ENGINE_NAME: Final = "engine"
NOTHING: Final = timedelta(0)
CONTROL_OF: Final[dict[type, str]] = {
    HoldPlaced: "pause",
    Resumed: "pause",
    CancelRequested: "cancel",
    RetryRequested: "retry",
}


def before_of(t: Transition) -> Job:
    """The job before an event that is not the first one (``is_created_first`` speaks where there is none)."""
    return t.before if t.before is not None else t.after


# The log --------------------------------------------------------------------------------------------------------------


def is_created_first(t: Transition) -> str | None:
    if isinstance(t.event, Created) != (t.before is None):
        return "created again" if t.before is not None else f"the first event is a {type(t.event).__name__}"
    return None


def counts_one_by_one(t: Transition) -> str | None:
    before, after = t.before, t.after
    if before is None:
        return None if (after.sequence, after.control_sequence) == (1, 1) else "a job starts at sequence 1"
    if after.sequence != before.sequence + 1:
        return f"sequence {after.sequence} follows {before.sequence}"
    expected = before.control_sequence if isinstance(t.event, REPORTS) else after.sequence
    if after.control_sequence != expected:
        return f"the control sequence is {after.control_sequence}, not {expected}"
    return None


def time_never_runs_back(t: Transition) -> str | None:
    if t.before is not None and t.event.at < t.before.updated_at:
        return f"{t.event.at.isoformat()} lies before {t.before.updated_at.isoformat()}"
    if t.leading is not None and t.event.at != t.leading.at:
        return "the events of one command have different times"
    if t.standing is not None and t.event.at != t.standing.now:
        return "another time was recorded than the one that the guards saw"
    return None


def nothing_follows_the_end(t: Transition) -> str | None:
    if t.before is not None and t.before.state in ENDED and not isinstance(t.event, Archived | Erased):
        return f"{type(t.event).__name__} after the job had ended as {t.before.state}"
    return None


# Generations and leases -----------------------------------------------------------------------------------------------


def generations_count_up(t: Transition) -> str | None:
    before = before_of(t)
    if isinstance(t.event, Claimed):
        if not t.event.generation == t.after.generation == before.generation + 1:
            return f"generation {t.event.generation} follows {before.generation}"
    elif t.after.generation != before.generation:
        return f"the generation went from {before.generation} to {t.after.generation} without a claim"
    return None


def one_attempt_at_a_time(t: Transition) -> str | None:
    before = before_of(t)
    return f"generation {before.generation} was still open" if before.attempt is not None else None


def only_the_open_generation_writes(t: Transition) -> str | None:
    generation, before = getattr(t.event, "generation", None), before_of(t)
    if generation is None:
        return None
    if before.attempt is None:
        return f"generation {generation} writes, but no attempt is open"
    if generation != before.generation:
        return f"generation {generation} writes while {before.generation} is open"
    return None


def only_a_live_lease_writes(t: Transition) -> str | None:
    """It has to live when the write is decided on, and still when it is written."""
    if isinstance(t.event, LeaseRenewedLate) or getattr(t.event, "generation", None) is None:
        return None
    for standing in (t.standing, t.met):
        if standing is None:
            continue
        if standing.is_epoch_stale:
            return "its group had moved on to another epoch"
        lease = standing.lease
        if lease is None or standing.now >= lease.expires_at:
            return f"its lease had ended at {lease.expires_at.isoformat() if lease else 'an unknown time'}"
    return None


def live_leases_are_protected(t: Transition) -> str | None:
    event, before = t.event, before_of(t)
    if not isinstance(event, Interrupted):
        return None
    if event.cause == "lease_expired" and event.at < event.expires_at:
        return f"the lease lived until {event.expires_at.isoformat()}"
    if before.attempt is not None and event.expires_at < before.attempt.expires_at:
        return f"an earlier expiry was seen than the recorded one, {before.attempt.expires_at.isoformat()}"
    if t.met is not None and t.met.lease is not None and t.met.lease.expires_at != event.expires_at:
        return f"by then it had been renewed until {t.met.lease.expires_at.isoformat()}"
    return None


def an_interruption_says_what_was_seen(t: Transition) -> str | None:
    event, standing = t.event, t.standing
    if not isinstance(event, Interrupted) or standing is None:
        return None
    if standing.lease is None or event.expires_at != standing.lease.expires_at:
        return "another expiry was recorded than the lease row had"
    if (event.cause == "epoch_advanced") != standing.is_epoch_stale:
        return f"the recorded cause is {event.cause}"
    return None


def a_grant_lies_ahead(t: Transition) -> str | None:
    expiry, before = getattr(t.event, "expires_at", t.event.at), before_of(t)
    if expiry <= t.event.at:
        return "a lease was granted that had ended already"
    span = t.event.lease if isinstance(t.event, Claimed) else before.attempt.lease if before.attempt else NOTHING
    if expiry < t.event.at + span:
        return f"less than the lease's span of {span} was granted"
    return None


def a_lease_is_never_shortened(t: Transition) -> str | None:
    attempt = before_of(t).attempt
    expiry = getattr(t.event, "expires_at", None)
    if attempt is not None and expiry is not None and expiry < attempt.expires_at:
        return f"the expiry went back from {attempt.expires_at.isoformat()}"
    return None


def a_late_renewal_was_late(t: Transition) -> str | None:
    event = t.event
    if not isinstance(event, LeaseRenewedLate):
        return None
    if event.late_by < NOTHING:
        return "a renewal in time is no event"
    if t.standing is not None:
        if t.standing.is_epoch_stale:
            return "the attempt's group had moved on"
        if t.standing.lease is None or event.late_by != event.at - t.standing.lease.expires_at:
            return "how late it was is recorded wrongly"
    return None


def an_interruption_parks(t: Transition) -> str | None:
    if t.after.state is not State.PAUSED or t.after.attempt is not None:
        return f"the interrupted job is {t.after.state}"
    allowed = Claimed | HoldPlaced | Cancelled | RetryRequested
    if t.following is not None and not isinstance(t.following, allowed):
        return f"{type(t.following).__name__} follows in the same command"
    return None


def recovery_never_succeeds(t: Transition) -> str | None:
    return "the outcome was decided by whoever ended the attempt" if isinstance(t.leading, Interrupted) else None


def a_takeover_ends_the_old_attempt_first(t: Transition) -> str | None:
    standing = t.standing
    if standing is not None and standing.job.state is State.RUNNING and not isinstance(t.leading, Interrupted):
        return "the running attempt was not interrupted"
    return None


def a_claim_is_recorded_whole(t: Transition) -> str | None:
    event, attempt = t.event, t.after.attempt
    if not isinstance(event, Claimed):
        return None
    if not event.token_digest:
        return "no token's digest was recorded"
    names = ("worker", "group", "epoch", "lease", "token_digest", "respects_hold", "expires_at")
    if attempt is None or any(getattr(attempt, name) != getattr(event, name) for name in names):
        return "the open attempt is not the one that was claimed"
    return None if t.after.last_token_digest == event.token_digest else "the token of the claim is not the current one"


def a_claim_waits_until_it_is_due(t: Transition) -> str | None:
    before = before_of(t)
    if not isinstance(t.leading, Interrupted) and before.ready_at > t.event.at:
        return f"the job was not due before {before.ready_at.isoformat()}"
    return None


# Outcomes -------------------------------------------------------------------------------------------------------------


def states_are_honest(t: Transition) -> str | None:
    job, is_ended = t.after, t.after.state in ENDED
    if (job.attempt is not None) != (job.state is State.RUNNING):
        return "an attempt is open exactly while the job runs"
    if job.hold is not None and (is_ended or job.state is State.QUEUED):
        return f"a hold is in force on a job that is {job.state}"
    is_on_its_way = isinstance(t.event, Interrupted) and isinstance(t.following, Cancelled)
    if job.cancel is not None and job.state is not State.RUNNING and not is_on_its_way:
        return "a cancel request is pending, but nothing runs"
    return None


def an_end_is_an_outcome(t: Transition) -> str | None:
    event, after = t.event, t.after
    outcome: Outcome | None = Outcome.CANCELLED if isinstance(event, Cancelled) else getattr(event, "outcome", None)
    if outcome is None or after.outcome is not outcome or after.state.value != outcome.value:
        return f"the outcome is {after.outcome}, the state {after.state}"
    if isinstance(event, Completed) and event.outcome is Outcome.CANCELLED:
        return "a completion cannot cancel"
    if (after.hold, after.cancel, after.attempt) != (None, None, None):
        return "an end leaves a hold, a cancel request or an open attempt behind"
    return None


def a_lease_free_end_meets_no_lease(t: Transition) -> str | None:
    if isinstance(t.event, Cancelled) and t.event.generation is None and before_of(t).attempt is not None:
        return "the running attempt's job was ended without its fence"
    return None


def a_failure_has_budget(t: Transition) -> str | None:
    limit = t.after.policy.failures_max
    return f"{t.after.failures} failures in a row, at most {limit} are tried" if t.after.failures >= limit else None


def a_cancel_request_ends_the_job(t: Transition) -> str | None:
    if before_of(t).cancel is not None:
        return "the attempt stopped, a cancel was pending, and the job goes on"
    return None


def a_cancellation_was_asked_for(t: Transition) -> str | None:
    event, before = t.event, before_of(t)
    if not isinstance(event, Cancelled):
        return None
    asked = before.cancel
    if event.generation is not None and asked is None:
        return "nobody had asked for it"
    if asked is not None and (event.by, event.reason) != (asked.by, asked.reason):
        return "it names another operator or reason than the request"
    if event.checkpoint_sequence != before.checkpoint_sequence or event.units != before.units:
        return "it names another boundary than the one that was reached"
    return None


def a_boundary_keeps_the_due_time(t: Transition) -> str | None:
    event, before = t.event, before_of(t)
    if not isinstance(event, Paused):
        return None
    if event.cause != "deferred" and (event.cause == "hold") != (before.hold is not None):
        return f"paused for a {event.cause}, hold in force: {before.hold is not None}"
    expected = before.ready_at if event.cause == "hold" else event.at if event.cause == "drain" else event.ready_at
    return None if event.ready_at == expected else "it is due at another time than a pause for that cause leaves"


# Operators ------------------------------------------------------------------------------------------------------------


def no_claim_under_a_hold(t: Transition) -> str | None:
    hold = before_of(t).hold
    if hold is None or (hold.by != ENGINE_NAME and not getattr(t.event, "respects_hold", True)):
        return None
    return f"a new attempt started under the hold of {hold.by!r}"


def no_claim_after_a_cancel_request(t: Transition) -> str | None:
    return "a new attempt started although a cancel was pending" if before_of(t).cancel is not None else None


def no_claim_without_budget(t: Transition) -> str | None:
    before = before_of(t)
    limit = before.policy.interrupts_max
    if before.interrupts >= limit:
        return f"a new attempt started after {before.interrupts} interruptions without progress, at most {limit}"
    return None


def a_crash_loop_is_parked(t: Transition) -> str | None:
    before, after = before_of(t), t.after
    is_used = after.interrupts >= after.policy.interrupts_max
    if before.cancel is not None:
        return (
            None if isinstance(t.following, Cancelled) else "a cancel was pending, and recovery did not record the end"
        )
    if is_used and after.hold is None and not isinstance(t.following, HoldPlaced | RetryRequested):
        return "the budget is used up, and no operator is asked"
    return None


def holds_alternate(t: Transition) -> str | None:
    event, before = t.event, before_of(t)
    if isinstance(event, HoldReleased):
        return "no hold was in force" if before.hold is None else None
    if before.hold is not None:
        return f"a second hold, over that of {before.hold.by!r}"
    if isinstance(event, HoldPlaced) and event.by == ENGINE_NAME:
        if not isinstance(t.leading, Interrupted):
            return "the engine holds only what it has just recovered"
        if before.interrupts < before.policy.interrupts_max:
            return "the engine holds a job that still has a budget"
    return None


def only_fresh_work_resumes(t: Transition) -> str | None:
    before = before_of(t)
    if before.state is not State.PAUSED or before.generation or before.hold is not None:
        return f"resumed: {before.state}, generation {before.generation}, held: {before.hold is not None}"
    return None


def a_retry_meets_idle_work(t: Transition) -> str | None:
    before = before_of(t)
    if before.attempt is not None or before.hold is not None or before.cancel is not None:
        return "the job was running, held, or about to be cancelled"
    return None


def a_cancel_is_asked_once(t: Transition) -> str | None:
    before = before_of(t)
    if before.state is not State.RUNNING or before.cancel is not None:
        return f"asked while the job was {before.state}, a request pending: {before.cancel is not None}"
    return None


def controls_gate(t: Transition) -> str | None:
    """The engine's own holds, and releases, need no control; a hold's release may also stand before a resume."""
    event, before = t.event, before_of(t)
    needed = CONTROL_OF.get(type(event))
    if isinstance(event, HoldPlaced) and event.by == ENGINE_NAME:
        return None
    if isinstance(event, Cancelled) and event.generation is None and not isinstance(t.leading, Interrupted):
        needed = "cancel"
    return f"the job was created without the control {needed!r}" if needed and needed not in before.controls else None


# Effects --------------------------------------------------------------------------------------------------------------


def effects_come_with_progress(t: Transition) -> str | None:
    event: Any = t.event
    if not event.effects:
        return None
    if isinstance(event, Completed) and event.outcome not in (Outcome.COMPLETE, Outcome.PARTIAL):
        return f"an outcome {event.outcome} wrote effects"
    names = [effect.resource for effect in event.effects]
    return "two effects on one resource in one step" if len(set(names)) < len(names) else None
