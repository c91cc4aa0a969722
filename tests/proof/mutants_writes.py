"""Broken twins of what workers write, what operators ask, how jobs are made, and how events are folded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from jobledger.domain import decisions
from jobledger.domain.decisions import creating, operating, working
from jobledger.domain.errors import JobExistsError, PayloadChangedError
from jobledger.domain.events import (
    AppliedEffect,
    AttemptFailed,
    Cancelled,
    CancelRequested,
    Checkpointed,
    Claimed,
    Completed,
    Created,
    HoldPlaced,
    HoldReleased,
    Interrupted,
    Outcome,
    Paused,
    ProgressReported,
    Resumed,
    RetryRequested,
    UnitRecorded,
)
from jobledger.domain.job import State
from jobledger.domain.lease import require_fence
from tests.proof.mutating import Mutant, as_dead, changing, folding, with_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobledger.domain.events import JobEvent
    from jobledger.domain.job import Job
    from jobledger.domain.lease import Fence, Standing


def uncancelled(decide: Callable[..., Any]) -> dict[Any, Any]:
    """A decision that does not see the cancel request."""
    return {decide: lambda standing, *args, **asked: decide(with_job(standing, cancel=None), *args, **asked)}


def _uncompared(_: Standing, effects: Any, __: Any) -> tuple[AppliedEffect, ...]:
    return tuple(
        AppliedEffect(resource=each.resource, version=each.expected_version + 1, value=each.kept.body)
        for each in effects
    )


_applied: Final = vars(working)["_applied"]
_record_unit: Final = decisions.record_unit
_complete: Final = decisions.complete
_cancel: Final = decisions.cancel
_fail: Final = decisions.fail_attempt
_pause: Final = decisions.pause


def _always_tried_again(standing: Standing, *args: Any, **asked: Any) -> list[JobEvent]:
    return _fail(with_job(standing, failures=0), *args, **asked)


def _unasked(standing: Standing, fence: Fence, step: int, *, boundary: Any) -> list[JobEvent]:
    if standing.job.cancel is not None:
        return _cancel(standing, fence, step, boundary=boundary)
    require_fence(standing, fence, step)
    job = standing.job
    at = job.checkpoint_sequence
    return [
        Cancelled(
            at=standing.now, generation=fence.generation, by="", reason="", checkpoint_sequence=at, units=job.units
        )
    ]


def _second_receipt(*args: Any, receipt: Any, first: Any, **asked: Any) -> list[JobEvent]:
    return _record_unit(*args, receipt=receipt, first=first and replace(first, receipt=receipt), **asked)


WORKER_MUTANTS: Final = (
    Mutant("effects_are_not_compared", "An effect overwrites what somebody else wrote.", {_applied: _uncompared}),
    Mutant(
        "effects_keep_their_version",
        "An effect does not move the version of its resource.",
        {_applied: lambda *args: tuple(replace(each, version=each.version - 1) for each in _applied(*args))},
    ),
    Mutant(
        "effects_are_dropped_at_the_end",
        "A completion forgets the effects that were given with it.",
        {_complete: changing(Completed, lambda e: replace(e, effects=()), _complete)},
    ),
    Mutant(
        "a_unit_is_recorded_again",
        "A unit that was done is recorded a second time.",
        {_record_unit: lambda *args, **asked: _record_unit(*args, **{**asked, "first": None})},
    ),
    Mutant("a_receipt_may_change", "Another receipt for a known unit is confirmed.", {_record_unit: _second_receipt}),
    Mutant("pause_ignores_a_cancel_request", "A pause parks a job that was to end.", uncancelled(decisions.pause)),
    Mutant("defer_ignores_a_cancel_request", "A deferral parks a job that was to end.", uncancelled(decisions.defer)),
    Mutant("failure_ignores_a_cancel_request", "A failure retries a job that was to end.", uncancelled(_fail)),
    Mutant("failures_have_no_budget", "A failing job is tried for ever.", {_fail: _always_tried_again}),
    Mutant("cancel_needs_no_request", "A worker cancels a job that nobody asked it to.", {_cancel: _unasked}),
    Mutant(
        "cancel_misses_its_boundary",
        "A cancellation forgets the checkpoint that was reached.",
        {_cancel: changing(Cancelled, lambda e: replace(e, checkpoint_sequence=None, units=0), _cancel)},
    ),
    Mutant(
        "pause_under_a_hold_is_due_at_once",
        "A pause for a hold is recorded as a drain.",
        {_pause: changing(Paused, lambda e: replace(e, cause="drain", ready_at=e.at), _pause)},
    ),
    Mutant(
        "completion_publishes_another_outcome",
        "A partial outcome is published as complete.",
        {
            _complete: changing(
                Completed,
                lambda e: replace(e, outcome=Outcome.COMPLETE if e.outcome is Outcome.PARTIAL else e.outcome),
                _complete,
            )
        },
    ),
)

_hold: Final = decisions.hold
_release: Final = decisions.release_hold
_resume: Final = decisions.resume
_request_cancel: Final = decisions.request_cancel
_retry: Final = decisions.retry
_controllable: Final = operating.require_controllable


def _released(standing: Standing, *, by: str, reason: str, expected_sequence: int | None = None) -> list[JobEvent]:
    _controllable(standing.job, None, expected_sequence)
    return [HoldReleased(at=standing.now, by=by, reason=reason)]


def _resumed(standing: Standing, **asked: Any) -> list[JobEvent]:
    return _resume(with_job(standing, generation=0), **asked)


def _cancelled_at_once(
    standing: Standing, *, by: str, reason: str, expected_sequence: int | None = None
) -> list[JobEvent]:
    job = _controllable(standing.job, "cancel", expected_sequence)
    return [operating.cancelled(job, standing, by=by, reason=reason)]


def _cancel_requested(
    standing: Standing, *, by: str, reason: str, expected_sequence: int | None = None
) -> list[JobEvent]:
    job = _controllable(standing.job, "cancel", expected_sequence)
    return [] if job.cancel else [CancelRequested(at=standing.now, by=by, reason=reason)]


OPERATOR_MUTANTS: Final = (
    Mutant(
        "holds_are_stacked", "A second operator's hold replaces the first.", {operating.require_unheld: lambda _: None}
    ),
    Mutant("release_needs_no_hold", "A hold is released that is not there.", {_release: _released}),
    Mutant("resume_takes_leased_work", "Leased work goes back to its queue.", {_resume: _resumed}),
    Mutant(
        "resume_keeps_the_hold",
        "Resumed work is queued and held.",
        {_resume: changing(HoldReleased, lambda _: None, _resume)},
    ),
    Mutant("cancel_ends_running_work", "An operator ends a live attempt's job.", {_request_cancel: _cancelled_at_once}),
    Mutant(
        "cancel_is_asked_of_idle_work",
        "A cancel waits for a worker that is not there.",
        {_request_cancel: _cancel_requested},
    ),
    Mutant(
        "retry_ignores_a_hold",
        "A retry makes held work due.",
        {_retry: lambda standing, **asked: _retry(with_job(standing, hold=None), **asked)},
    ),
    Mutant(
        "retry_ignores_a_live_lease",
        "A retry ends a live attempt.",
        {_retry: lambda standing, **asked: _retry(as_dead(standing), **asked)},
    ),
    Mutant(
        "retry_skips_the_interruption",
        "A retry leaves the dead attempt open.",
        {_retry: changing(Interrupted, lambda _: None, _retry)},
    ),
    Mutant(
        "retry_ignores_a_cancel_request",
        "A retry revives a job that was to end.",
        {_retry: lambda standing, **asked: _retry(with_job(standing, cancel=None), **asked)},
    ),
    Mutant(
        "expected_sequences_are_ignored",
        "An operator acts on what he no longer sees.",
        {_controllable: lambda job, control, _: _controllable(job, control, None)},
    ),
    Mutant(
        "controls_are_ignored",
        "An operator uses controls that the job does not have.",
        {_controllable: lambda job, _, expected: _controllable(job, None, expected)},
    ),
)

_create: Final = decisions.create
_fork: Final = decisions.fork
_rerun: Final = decisions.rerun
_same: Final = vars(creating)["_require_same"]
_job_id_of: Final = creating.job_id_of


def _any_payload(new: Any, job: Any) -> None:
    try:
        _same(new, job)
    except PayloadChangedError:
        return


def _any_origin(new: Any, source: Any, met: Any, *, now: Any) -> list[Created]:
    try:
        return _fork(new, source, met, now=now)
    except JobExistsError:
        return []


CREATION_MUTANTS: Final = (
    Mutant(
        "keys_are_shared_by_owners",
        "Two owners' equal keys make one job.",
        {_job_id_of: lambda namespace, _, key: _job_id_of(namespace, "all", key)},
        "creation",
    ),
    Mutant("payloads_are_not_compared", "A key is reused for another payload.", {_same: _any_payload}, "creation"),
    Mutant(
        "a_fork_takes_any_job_of_its_key", "A fork answers a job of another origin.", {_fork: _any_origin}, "creation"
    ),
    Mutant(
        "a_fork_forgets_its_checkpoint",
        "A fork starts from nothing.",
        {_fork: changing(Created, lambda e: replace(e, checkpoint=None, units=0), _fork)},
        "creation",
    ),
    Mutant(
        "a_rerun_takes_live_jobs",
        "A job that goes on is run a second time.",
        {_rerun: lambda new, source, met, *, now: _fork(new, source, met, now=now)},
        "creation",
    ),
)


def _control_counts(_: Job, __: Any, after: Job) -> dict[str, Any]:
    return {"control_sequence": after.sequence}


FOLD_MUTANTS: Final = (
    Mutant(
        "interrupted_work_stays_open",
        "An interrupted attempt stays open.",
        folding(Interrupted, lambda b, _, __: {"attempt": b.attempt}),
    ),
    Mutant(
        "interrupted_work_is_queued",
        "Interrupted work is not parked.",
        folding(Interrupted, lambda _, __, ___: {"state": State.QUEUED}),
    ),
    Mutant(
        "advanced_epochs_use_up_the_budget",
        "A deploy counts as a crash.",
        folding(Interrupted, lambda b, _, __: {"interrupts": b.interrupts + 1}),
    ),
    Mutant(
        "interruptions_are_not_counted",
        "Crashes use up no budget.",
        folding(Interrupted, lambda b, _, __: {"interrupts": b.interrupts}),
    ),
    Mutant("a_pause_is_queued", "Parked work is queued.", folding(Paused, lambda _, __, ___: {"state": State.QUEUED})),
    Mutant(
        "a_deferral_is_due_at_once",
        "A pause forgets when its work is due.",
        folding(Paused, lambda b, _, __: {"ready_at": b.ready_at}),
    ),
    Mutant(
        "a_hold_leaves_work_queued", "A hold pauses nothing.", folding(HoldPlaced, lambda b, _, __: {"state": b.state})
    ),
    Mutant(
        "a_hold_stops_running_work",
        "A hold pauses a running job whose attempt goes on.",
        folding(HoldPlaced, lambda _, __, ___: {"state": State.PAUSED}),
    ),
    Mutant(
        "a_release_keeps_the_budget",
        "A release renews no budget.",
        folding(HoldReleased, lambda b, _, __: {"interrupts": b.interrupts}),
    ),
    Mutant(
        "a_release_keeps_the_hold",
        "A released hold stays in force.",
        folding(HoldReleased, lambda b, _, __: {"hold": b.hold}),
    ),
    Mutant(
        "a_retry_is_not_due",
        "Retried work waits on.",
        folding(RetryRequested, lambda b, _, __: {"ready_at": b.ready_at}),
    ),
    Mutant(
        "a_retry_keeps_the_budget",
        "A retry renews no budget.",
        folding(RetryRequested, lambda b, _, __: {"failures": b.failures, "interrupts": b.interrupts}),
    ),
    Mutant(
        "a_resume_stays_paused", "Resumed work stays paused.", folding(Resumed, lambda b, _, __: {"state": b.state})
    ),
    Mutant(
        "a_failure_is_not_counted",
        "Failures use up no budget.",
        folding(AttemptFailed, lambda b, _, __: {"failures": b.failures}),
    ),
    Mutant(
        "a_failure_is_due_at_once",
        "A failed attempt is tried again without a wait.",
        folding(AttemptFailed, lambda b, _, __: {"ready_at": b.ready_at}),
    ),
    Mutant(
        "a_failure_under_a_hold_is_queued",
        "A failed attempt's hold is passed over.",
        folding(AttemptFailed, lambda _, __, ___: {"state": State.QUEUED}),
    ),
    Mutant(
        "a_claim_keeps_the_old_token",
        "The token of the attempt before stays current.",
        folding(Claimed, lambda b, _, __: {"last_token_digest": b.last_token_digest}),
    ),
    Mutant(
        "a_checkpoint_is_lost",
        "A checkpoint is recorded and not folded.",
        folding(Checkpointed, lambda b, _, __: {"checkpoint": b.checkpoint}),
    ),
    Mutant(
        "any_checkpoint_is_progress",
        "The same state again renews the budget.",
        folding(Checkpointed, lambda _, __, ___: {"interrupts": 0, "failures": 0}),
    ),
    Mutant(
        "no_checkpoint_is_progress",
        "A new state renews no budget.",
        folding(Checkpointed, lambda b, _, __: {"interrupts": b.interrupts, "failures": b.failures}),
    ),
    Mutant(
        "a_unit_is_no_progress",
        "A unit renews no budget.",
        folding(UnitRecorded, lambda b, _, __: {"interrupts": b.interrupts, "failures": b.failures}),
    ),
    Mutant(
        "progress_moves_the_control_sequence",
        "A report makes an operator's view outdated.",
        folding(ProgressReported, _control_counts),
    ),
    Mutant("an_end_keeps_the_hold", "An ended job is held.", folding(Completed, lambda b, _, __: {"hold": b.hold})),
    Mutant(
        "an_end_keeps_the_cancel_request",
        "An ended job is about to be cancelled.",
        folding(Completed, lambda b, _, __: {"cancel": b.cancel}),
    ),
    Mutant(
        "a_cancel_is_a_failure",
        "A cancelled job is shown as failed.",
        folding(Cancelled, lambda _, __, ___: {"state": State.FAILED}),
    ),
)
