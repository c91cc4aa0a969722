"""Decisions of a worker under its fence: renew, checkpoint, units, progress, and the ways an attempt ends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jobledger.domain.bounds import (
    BOUNDARY_BYTES_MAX,
    EFFECTS_MAX,
    INTEGER_MAX,
    REASON_CHARACTERS_MAX,
    require_count,
    require_integer,
    require_text,
    require_within,
)
from jobledger.domain.errors import (
    CancelNotRequestedError,
    CheckpointTooLargeError,
    EffectConflictError,
    InvalidRequestError,
    ReceiptChangedError,
    ReceiptTooLargeError,
    ResultTooLargeError,
)
from jobledger.domain.events import (
    AppliedEffect,
    AttemptFailed,
    Cancelled,
    Checkpointed,
    Completed,
    JobEvent,
    LeaseRenewedLate,
    Outcome,
    Paused,
    ProgressReported,
    UnitRecorded,
)
from jobledger.domain.lease import Fence, Standing, extended_expiry, require_fence
from jobledger.domain.models import Model
from jobledger.domain.values import Body, Json, Kept, keep

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta


class Effect(Model):
    """A compare-and-set write of a named resource, committed with a checkpoint or a result.

    ``expected_version`` 0 means that the resource is absent.

    Raises:
        InvalidRequestError: a field is missing, unknown, or of another type.
    """

    resource: str
    value: Any = None
    expected_version: int


@dataclass(frozen=True, slots=True)
class StagedEffect:
    """An effect that was checked against every bound; ``kept`` is its value made ready to be stored."""

    resource: str
    expected_version: int
    kept: Kept


@dataclass(frozen=True, slots=True)
class FirstReceipt:
    """The receipt that a unit already has: of which generation, at which sequence."""

    receipt: Body
    value: Json
    generation: int
    sequence: int


def stage(effects: Sequence[Effect]) -> tuple[StagedEffect, ...]:
    """Check effects before anything is decided: at most ``EFFECTS_MAX``, one per resource.

    Raises:
        InvalidRequestError: too many, two for one resource, or a version below 0.
        UnstorableValueError: a value or name that no store may hold.
    """
    if not isinstance(effects, list | tuple):
        raise InvalidRequestError("effects", f"a list of Effect is needed, not {type(effects).__name__}")
    require_count("effects", len(effects), EFFECTS_MAX)
    staged: list[StagedEffect] = []
    for effect in effects:
        if not isinstance(effect, Effect):
            raise InvalidRequestError("effects", f"an Effect is needed, not {type(effect).__name__}")
        require_text("effects.resource", effect.resource)
        require_integer("effects.expected_version", effect.expected_version, 0, INTEGER_MAX)
        staged.append(StagedEffect(effect.resource, effect.expected_version, keep("effect", effect.value)))
    if len({effect.resource for effect in staged}) < len(staged):
        raise InvalidRequestError("effects", "one effect per resource and step is allowed")
    return tuple(staged)


def renew(standing: Standing, fence: Fence) -> list[JobEvent]:
    """Move the expiry of the lease, never back; only a renewal that came late is an event.

    Raises:
        StaleFenceError, AlreadyTerminalError, StaleEpochError: the fence's refusals; an expired lease is accepted.
    """
    require_fence(standing, fence, late=True)
    expired_at = standing.expires_at
    if standing.is_live or expired_at is None:
        return []
    late_by = standing.now - expired_at
    return [
        LeaseRenewedLate(
            at=standing.now, generation=fence.generation, late_by=late_by, expires_at=renewed_expiry(standing)
        )
    ]


def renewed_expiry(standing: Standing) -> datetime:
    """The expiry that an accepted write of the open attempt leaves behind."""
    attempt = standing.job.attempt
    return extended_expiry(standing, attempt.lease) if attempt else standing.now


def checkpoint(
    standing: Standing,
    fence: Fence,
    step: int,
    *,
    state: Body,
    effects: Sequence[StagedEffect] = (),
    versions: Mapping[str, int],
) -> list[JobEvent]:
    """Save application state and commit the staged effects at a boundary; the next attempt starts from it.

    Args:
        standing: the job under its lock.
        fence: the worker's.
        step: the number of this write.
        state: at most ``checkpoint_bytes_max`` bytes of JSON.
        effects: staged since the last boundary.
        versions: the current version of each resource that an effect names.

    Raises:
        the fence's refusals, in their order; then
        CheckpointTooLargeError: nothing was saved, the last checkpoint stands.
        ResultTooLargeError: an effect's value is too large.
        EffectConflictError: a resource was changed by somebody else; nothing was saved.
    """
    require_fence(standing, fence, step)
    require_within(CheckpointTooLargeError, state.size, standing.job.policy.checkpoint_bytes_max)
    applied = _applied(standing, effects, versions)
    expiry = renewed_expiry(standing)
    return [Checkpointed(at=standing.now, generation=fence.generation, state=state, effects=applied, expires_at=expiry)]


def record_unit(
    standing: Standing, fence: Fence, step: int, *, unit: str, receipt: Body, first: FirstReceipt | None
) -> list[JobEvent]:
    """Record that a unit was done (an empty list: the same receipt was recorded before, in any generation).

    Raises:
        the fence's refusals, in their order; then
        ReceiptTooLargeError: the receipt is larger than ``receipt_bytes_max``.
        ReceiptChangedError: the unit has another receipt; carries the first one.
    """
    require_fence(standing, fence, step)
    require_within(ReceiptTooLargeError, receipt.size, standing.job.policy.receipt_bytes_max)
    if first is not None:
        if not receipt.is_same(first.receipt):
            raise ReceiptChangedError(standing.job.id, unit, first.value, first.generation)
        return []
    expiry = renewed_expiry(standing)
    return [UnitRecorded(at=standing.now, generation=fence.generation, unit=unit, receipt=receipt, expires_at=expiry)]


def report_progress(
    standing: Standing, fence: Fence, step: int, *, done: float, total: float | None, message: str | None
) -> list[JobEvent]:
    """Report how far the attempt is; never a substitute for a result.

    Raises:
        the fence's refusals, in their order.
    """
    require_fence(standing, fence, step)
    expiry = renewed_expiry(standing)
    return [
        ProgressReported(
            at=standing.now, generation=fence.generation, done=done, total=total, message=message, expires_at=expiry
        )
    ]


def require_progress(done: object, total: object, message: object) -> None:
    """Require numbers that are finite and not negative, and a short message.

    Raises:
        InvalidRequestError, UnstorableValueError: one of them is out of its range.
    """
    for field, number in (("done", done), ("total", total)):
        if number is None and field == "total":
            continue
        if type(number) not in (int, float) or not 0 <= number <= INTEGER_MAX:  # type: ignore[operator]  # a number here
            raise InvalidRequestError(f"progress.{field}", f"a number from 0 to 2^63-1 is needed, not {number!r}")
    if message is not None:
        require_text("progress.message", message, REASON_CHARACTERS_MAX, empty=True)


def pause(standing: Standing, fence: Fence, step: int, *, before: Sequence[JobEvent] = ()) -> list[JobEvent]:
    """Park at a boundary and give the lease back: for a hold if one is in force, else for a drain (due at once).

    ``before`` are the events of the checkpoint that was saved on the way. A pending cancel request ends the job
    instead.

    Raises:
        the fence's refusals, in their order.
    """
    require_fence(standing, fence, step)
    held = standing.job.hold is not None
    ready_at = standing.job.ready_at if held else standing.now
    stopped = Paused(at=standing.now, generation=fence.generation, cause="hold" if held else "drain", ready_at=ready_at)
    return [*before, _unless_cancelled(standing, fence, stopped, before=before)]


def defer(
    standing: Standing, fence: Fence, step: int, *, ready_at: datetime, before: Sequence[JobEvent] = ()
) -> list[JobEvent]:
    """Give the job back until ``ready_at``; counts as no failure. A pending cancel request ends the job instead.

    Raises:
        the fence's refusals, in their order.
    """
    require_fence(standing, fence, step)
    waiting = Paused(at=standing.now, generation=fence.generation, cause="deferred", ready_at=ready_at)
    return [*before, _unless_cancelled(standing, fence, waiting, before=before)]


def fail_attempt(
    standing: Standing, fence: Fence, step: int, *, error: str, chance: float, retry_after: timedelta | None = None
) -> list[JobEvent]:
    """Report a failure: the job waits and is tried again, or fails for good when its budget is used up.

    Args:
        standing: the job under its lock.
        fence: the worker's.
        step: the number of this write.
        error: what happened, already made storable.
        chance: drawn from 0 to 1; spreads the retries.
        retry_after: the wait, where the handler named one; else the policy's back-off.

    Raises:
        the fence's refusals, in their order.
    """
    require_fence(standing, fence, step)
    job, failures = standing.job, standing.job.failures + 1
    if job.cancel is not None:
        return [_cancelled(standing, fence, error=error)]
    if failures >= job.policy.failures_max:
        return [Completed(at=standing.now, generation=fence.generation, outcome=Outcome.FAILED, error=error)]
    wait = job.policy.backoff.wait(failures, chance) if retry_after is None else retry_after
    return [AttemptFailed(at=standing.now, generation=fence.generation, error=error, retry_at=standing.now + wait)]


def cancel(standing: Standing, fence: Fence, step: int, *, boundary: Kept | None) -> list[JobEvent]:
    """Record that the attempt stopped for the cancel request, at which boundary.

    Raises:
        the fence's refusals, in their order; then
        CancelNotRequestedError: nobody asked for it.
        ResultTooLargeError: what the worker says of the boundary is too large.
    """
    require_fence(standing, fence, step)
    if standing.job.cancel is None:
        raise CancelNotRequestedError(standing.job.id)
    if boundary is not None:
        require_within(ResultTooLargeError, boundary.body.size, BOUNDARY_BYTES_MAX)
    return [_cancelled(standing, fence, boundary=boundary.body if boundary else None)]


def complete(
    standing: Standing,
    fence: Fence,
    step: int,
    *,
    outcome: Outcome,
    result: Body | None,
    error: str | None,
    effects: Sequence[StagedEffect] = (),
    versions: Mapping[str, int],
) -> list[JobEvent]:
    """Publish the terminal outcome and its effects, atomically; allowed after a hold or a cancel request.

    Raises:
        the fence's refusals, in their order; then
        ResultTooLargeError: the result or an effect's value is too large; the attempt stays open.
        EffectConflictError: a resource was changed by somebody else; the attempt stays open.
    """
    require_fence(standing, fence, step)
    if result is not None:
        require_within(ResultTooLargeError, result.size, standing.job.policy.result_bytes_max)
    applied = _applied(standing, effects, versions)
    return [
        Completed(
            at=standing.now,
            generation=fence.generation,
            outcome=outcome,
            result=result,
            error=error,
            effects=applied,
        )
    ]


def require_outcome(outcome: object, result: object, error: object, effects: Sequence[Effect]) -> Outcome:
    """Require an outcome that a worker may publish, with what belongs to it.

    Raises:
        InvalidRequestError: an unknown outcome, cancelled (that is ``cancel``), a failure without an error or with a
            result or effects, or a complete one with an error.
    """
    try:
        known = Outcome(outcome)  # type: ignore[arg-type]  # an unknown value is what is being looked for
    except ValueError:
        names = ", ".join(each.value for each in Outcome if each is not Outcome.CANCELLED)
        raise InvalidRequestError("outcome", f"one of {names} is needed, not {outcome!r}") from None
    if known is Outcome.CANCELLED:
        raise InvalidRequestError("outcome", "a cancellation is recorded by cancel(), after somebody requested it")
    if known in (Outcome.FAILED, Outcome.UNAVAILABLE):
        if error is None:
            raise InvalidRequestError("error", f"the outcome {known.value} needs an error that says what happened")
        if result is not None or effects:
            raise InvalidRequestError("result", f"the outcome {known.value} carries an error, no result and no effects")
    elif known is Outcome.COMPLETE and error is not None:
        raise InvalidRequestError("error", "the outcome complete carries a result, no error; partial may carry both")
    return known


def _applied(
    standing: Standing, effects: Sequence[StagedEffect], versions: Mapping[str, int]
) -> tuple[AppliedEffect, ...]:
    for effect in effects:
        require_within(ResultTooLargeError, effect.kept.body.size, standing.job.policy.result_bytes_max)
        current = versions.get(effect.resource, 0)
        if current != effect.expected_version:
            raise EffectConflictError(effect.resource, effect.expected_version, current)
    return tuple(
        AppliedEffect(resource=effect.resource, version=effect.expected_version + 1, value=effect.kept.body)
        for effect in effects
    )


def _unless_cancelled(standing: Standing, fence: Fence, event: JobEvent, *, before: Sequence[JobEvent]) -> JobEvent:
    if standing.job.cancel is None:
        return event
    ended = _cancelled(standing, fence)
    return replace(ended, checkpoint_sequence=standing.job.sequence + 1) if before else ended


def _cancelled(
    standing: Standing, fence: Fence, *, boundary: Body | None = None, error: str | None = None
) -> Cancelled:
    job = standing.job
    by, reason = (job.cancel.by, job.cancel.reason) if job.cancel else ("", "")
    return Cancelled(
        at=standing.now,
        generation=fence.generation,
        by=by,
        reason=reason,
        checkpoint_sequence=job.checkpoint_sequence,
        units=job.units,
        boundary=boundary,
        error=error,
    )
