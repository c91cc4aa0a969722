"""The workers' commands: claim, and everything that is written under a fence."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from jobledger.domain import decisions
from jobledger.domain.answers import ControlReceipt, ExecutionResult, Progress, Renewal, UnitReceipt
from jobledger.domain.bounds import error_text, require_batch, require_instant, require_span, require_text
from jobledger.domain.decisions.working import (
    Effect,
    StagedEffect,
    renewed_expiry,
    require_outcome,
    require_progress,
    stage,
)
from jobledger.domain.errors import InvalidRequestError, JobledgerError
from jobledger.domain.events import JobEvent, Outcome
from jobledger.domain.lease import Fence, token_digest
from jobledger.domain.steps import Steps
from jobledger.domain.store.answering import (
    control_receipt,
    execution_result,
    first_receipt,
    renewal,
    unit_answer,
)
from jobledger.domain.store.base import Commands
from jobledger.domain.store.executing import Call, Command, Decision, Told
from jobledger.domain.values import Json, Kept, keep

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from jobledger.domain.lease import Standing
    from jobledger.domain.ports import Session


class Keep(Enum):
    """The sign that a pause or deferral leaves the last checkpoint as it is."""

    KEEP = "keep"


KEEP: Final = Keep.KEEP

Answer = TypeVar("Answer")
FencedDecision = Callable[["Session", "Standing", int], Decision]
"""Decides on a write under a fence, given the number of its step."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One item of ``complete_many``: the arguments of ``complete``."""

    fence: Fence
    outcome: str = "complete"
    result: Json = None
    error: str | None = None
    effects: Sequence[Effect] = ()
    command_id: str | None = None


class WorkerCommands(Commands):
    """What an attempt may write; each call presents its fence, which the store checks again as it writes."""

    def renew(self, fence: Fence, *, command_id: str | None = None) -> Renewal:
        """Move the expiry of the lease a full span on from now, never back; accepted late while nobody took over.

        Only a late renewal is an event, and so only a late one is remembered under its command id.

        Raises:
            StaleFenceError, AlreadyTerminalError, StaleEpochError: the attempt is over; stop it.
        """
        return self._run(self._renewal(fence, command_id))

    def renew_many(self, fences: Sequence[Fence]) -> list[Renewal | JobledgerError]:
        """Renew up to ``BATCH_MAX`` leases at once; one answer per item, in order."""
        return self._run_each(require_batch("fences", fences), lambda fence: self._renewal(fence, None))

    def checkpoint(
        self,
        fence: Fence,
        state: Json,
        *,
        progress: Progress | float | None = None,
        effects: Sequence[Effect] = (),
        inside: Callable[[Any], object] | None = None,
        command_id: str | None = None,
    ) -> Renewal:
        """Save application state, commit the staged effects, and renew.

        ``inside`` is called with the store's open connection; what it writes commits with the checkpoint or not at all.

        Raises:
            the fence's refusals; CheckpointTooLargeError, UnstorableValueError, EffectConflictError: nothing was saved.
            InvalidRequestError: the store cannot run the caller's statements.
        """
        saved, staged = keep("checkpoint", state), stage(effects)
        report = Progress(progress) if isinstance(progress, int | float) else progress
        reported = _progress_arguments(report)

        def decide(session: Session, standing: Standing, step: int) -> Decision:
            facts = _checkpoint(session, standing, fence, step, saved, staged)
            if report is not None:
                facts = [*facts, *_progress_facts(standing, fence, step, report)]
            return Decision(facts=facts, checkpoint=saved, effects=staged)

        arguments = [*_identity(fence), _mark(saved), _marks(staged), reported]
        return self._write(fence, "checkpoint", arguments, command_id, decide, renewal, inside=inside)

    def record_unit(self, fence: Fence, unit: str, receipt: Json, *, command_id: str | None = None) -> UnitReceipt:
        """Record that a unit was done, and renew, also where it is reused; the first receipt of a unit stands for ever.

        Raises:
            the fence's refusals; ReceiptTooLargeError, UnstorableValueError: nothing was recorded.
            ReceiptChangedError: the unit has another receipt, which the error carries.
        """
        require_text("unit", unit)
        kept = keep("receipt", receipt)

        def decide(session: Session, standing: Standing, step: int) -> Decision:
            first = first_receipt(session, standing.job.id, unit)
            facts = decisions.record_unit(standing, fence, step, unit=unit, receipt=kept.body, first=first)
            return Decision(facts=facts, values=(kept,), unit=unit, expires_at=renewed_expiry(standing))

        arguments = [*_identity(fence), unit, _mark(kept)]
        return self._write(fence, "record_unit", arguments, command_id, decide, unit_answer(unit))

    def report_progress(
        self,
        fence: Fence,
        done: float,
        total: float | None = None,
        message: str | None = None,
        *,
        command_id: str | None = None,
    ) -> Renewal:
        """Report how far the attempt is, and renew; 100 % is still running.

        Raises:
            the fence's refusals; InvalidRequestError: a number below 0 or not finite.
        """
        progress = Progress(done, total, message)
        reported = _progress_arguments(progress)

        def decide(_: Session, standing: Standing, step: int) -> Decision:
            return Decision(facts=_progress_facts(standing, fence, step, progress))

        arguments = [*_identity(fence), reported]
        return self._write(fence, "report_progress", arguments, command_id, decide, renewal)

    def pause(
        self,
        fence: Fence,
        state: Json | Keep = KEEP,
        *,
        effects: Sequence[Effect] = (),
        command_id: str | None = None,
    ) -> ControlReceipt:
        """Park at a boundary and give the lease back; with a state, that is a checkpoint first, effects included.

        While a cancel request is pending the job is cancelled instead: read ``.state`` of the receipt.

        Raises:
            the fence's refusals, and those of a checkpoint.
        """
        return self._park("pause", fence, state, effects, command_id, decisions.pause)

    def defer(
        self,
        fence: Fence,
        ready_at: datetime,
        state: Json | Keep = KEEP,
        *,
        effects: Sequence[Effect] = (),
        command_id: str | None = None,
    ) -> ControlReceipt:
        """Give the job back until an instant; counts as no failure. A pending cancel request ends it instead.

        Raises:
            the fence's refusals, and those of a checkpoint; InvalidRequestError: ``ready_at`` has no zone.
        """
        due = require_instant("ready_at", ready_at)

        def decide(standing: Standing, of: Fence, step: int, *, before: Sequence[JobEvent]) -> list[JobEvent]:
            return decisions.defer(standing, of, step, ready_at=due, before=before)

        return self._park("defer", fence, state, effects, command_id, decide, [due.isoformat()])

    def fail_attempt(
        self,
        fence: Fence,
        error: str | BaseException,
        *,
        retry_after: timedelta | float | None = None,
        command_id: str | None = None,
    ) -> ControlReceipt:
        """Report a failure: tried again after the policy's back-off (or ``retry_after``), or failed for good.

        The error's text is made storable, never refused. A pending cancel request ends the job instead.

        Raises:
            the fence's refusals.
        """
        text = error_text(error)
        wait = None if retry_after is None else require_span("retry_after", retry_after)
        chance = self._setting.entropy.chance()

        def decide(_: Session, standing: Standing, step: int) -> Decision:
            facts = decisions.fail_attempt(standing, fence, step, error=text, chance=chance, retry_after=wait)
            return Decision(facts=facts)

        arguments = [*_identity(fence), text, None if wait is None else wait.total_seconds()]
        return self._write(fence, "fail_attempt", arguments, command_id, decide, control_receipt)

    def cancel(self, fence: Fence, boundary: Json = None, *, command_id: str | None = None) -> ControlReceipt:
        """Record that the attempt stopped for a cancel request; ``boundary`` is any JSON the worker wants on record.

        Raises:
            the fence's refusals; CancelNotRequestedError; ResultTooLargeError: more than 64 KiB were said.
        """
        kept = None if boundary is None else keep("boundary", boundary)

        def decide(_: Session, standing: Standing, step: int) -> Decision:
            facts = decisions.cancel(standing, fence, step, boundary=kept)
            return Decision(facts=facts, values=(kept,) if kept else ())

        arguments = [*_identity(fence), kept and _mark(kept)]
        return self._write(fence, "cancel", arguments, command_id, decide, control_receipt)

    def complete(
        self,
        fence: Fence,
        outcome: str = "complete",
        result: Json = None,
        error: str | None = None,
        effects: Sequence[Effect] = (),
        *,
        inside: Callable[[Any], object] | None = None,
        command_id: str | None = None,
    ) -> ExecutionResult:
        """Publish the terminal outcome (complete, partial, failed, unavailable) and its effects, atomically.

        Raises:
            the fence's refusals; ResultTooLargeError, UnstorableValueError, EffectConflictError: nothing was committed
            and the attempt stays open; InvalidRequestError: what was given does not belong to that outcome.
        """
        item = Completion(fence, outcome, result, error, effects, command_id)
        _require_fence(fence)
        with fence.steps.order:
            return self._run(self.completing(item), Call(self._setting.patience, inside=inside))

    def complete_many(self, completions: Sequence[Completion]) -> list[ExecutionResult | JobledgerError]:
        """Publish up to ``BATCH_MAX`` outcomes at once; one answer per item, in order, each for itself."""
        completions = require_batch("completions", completions)
        with _holding(_orders(completions)):
            return self._run_each(completions, self.completing)

    def _renewal(self, fence: Fence, command_id: str | None) -> Command[Renewal]:
        _require_fence(fence)

        def decide(_: Session, standing: Standing) -> Decision:
            facts = decisions.renew(standing, fence)
            return Decision(facts=facts, expires_at=renewed_expiry(standing))

        return self._command(
            fence.job_id, "renew", _identity(fence), command_id=command_id, decide=decide, answer=renewal, fence=fence
        )

    def completing(self, item: Completion) -> Command[ExecutionResult]:
        """The command of one outcome, for whoever runs those of many attempts together; it takes the next step.

        Call it while holding the order of the fence's steps.

        Raises:
            UnstorableValueError, InvalidRequestError: what was given does not belong to that outcome.
        """
        if not isinstance(item, Completion):
            raise InvalidRequestError("completions", f"a Completion is needed, not {type(item).__name__}")
        _require_fence(item.fence)
        text = None if item.error is None else error_text(item.error)
        outcome = require_outcome(item.outcome, item.result, text, item.effects)
        staged = stage(item.effects)
        has_result = outcome in (Outcome.COMPLETE, Outcome.PARTIAL)
        kept = keep("result", item.result) if has_result else None
        fence = item.fence

        def decide(session: Session, standing: Standing, step: int) -> Decision:
            facts = decisions.complete(
                standing,
                fence,
                step,
                outcome=outcome,
                result=kept.body if kept else None,
                error=text,
                effects=staged,
                versions=_versions(session, standing, staged),
            )
            return Decision(facts=facts, values=(kept,) if kept else (), effects=staged)

        arguments = [*_identity(fence), outcome.value, kept and _mark(kept), text, _marks(staged)]
        return self._fenced(fence, "complete", arguments, item.command_id, decide, execution_result)

    def _park(
        self,
        name: str,
        fence: Fence,
        state: Json | Keep,
        effects: Sequence[Effect],
        command_id: str | None,
        park: Callable[..., list[JobEvent]],
        more: Sequence[Json] = (),
    ) -> ControlReceipt:
        if state is KEEP and effects:
            raise InvalidRequestError("effects", "effects commit with a checkpoint: give the state that goes with them")
        saved = None if state is KEEP else keep("checkpoint", state)
        staged = stage(effects)

        def decide(session: Session, standing: Standing, step: int) -> Decision:
            before = _checkpoint(session, standing, fence, step, saved, staged) if saved else []
            facts = park(standing, fence, step, before=before)
            return Decision(facts=facts, checkpoint=saved, effects=staged)

        arguments = [*_identity(fence), saved and _mark(saved), _marks(staged), *more]
        return self._write(fence, name, arguments, command_id, decide, control_receipt)

    def _write(
        self,
        fence: Fence,
        name: str,
        arguments: Json,
        command_id: str | None,
        decide: FencedDecision,
        answer: Callable[[Told], Answer],
        *,
        inside: Callable[[Any], object] | None = None,
    ) -> Answer:
        """Run one write under a fence; writes of one attempt go out in their order, never two at once."""
        with fence.steps.order:
            command = self._fenced(fence, name, arguments, command_id, decide, answer)
            return self._run(command, Call(self._setting.patience, inside=inside))

    def _fenced(
        self,
        fence: Fence,
        name: str,
        arguments: Json,
        command_id: str | None,
        decide: FencedDecision,
        answer: Callable[[Told], Answer],
    ) -> Command[Answer]:
        """A write under a fence, with the next step; call it while holding the order of the fence's steps."""
        step = fence.steps.draw()
        return self._command(
            fence.job_id,
            name,
            arguments,
            command_id=command_id,
            decide=lambda session, standing: decide(session, standing, step),
            answer=answer,
            fence=fence,
            step=step,
        )


def _checkpoint(
    session: Session,
    standing: Standing,
    fence: Fence,
    step: int,
    saved: Kept,
    staged: tuple[StagedEffect, ...],
) -> list[JobEvent]:
    versions = _versions(session, standing, staged)
    return decisions.checkpoint(standing, fence, step, state=saved.body, effects=staged, versions=versions)


def _versions(session: Session, standing: Standing, staged: tuple[StagedEffect, ...]) -> dict[str, int]:
    if not staged:
        return {}
    return session.versions(standing.job.namespace, standing.job.owner, [effect.resource for effect in staged])


def _progress_arguments(progress: Progress | None) -> Json:
    if progress is None:
        return None
    if not isinstance(progress, Progress):
        raise InvalidRequestError("progress", f"a Progress is needed, not {type(progress).__name__}")
    require_progress(progress.done, progress.total, progress.message)
    return [progress.done, progress.total, progress.message]


def _progress_facts(standing: Standing, fence: Fence, step: int, progress: Progress) -> list[JobEvent]:
    return decisions.report_progress(
        standing, fence, step, done=progress.done, total=progress.total, message=progress.message
    )


def _require_fence(fence: object) -> None:
    if not isinstance(fence, Fence):
        raise InvalidRequestError("fence", f"a Fence is needed, not {type(fence).__name__}; Lease.fence has it")


def _identity(fence: Fence) -> list[Json]:
    _require_fence(fence)
    return [fence.generation, fence.group, fence.epoch, token_digest(fence.token)]


def _mark(kept: Kept) -> list[Json]:
    return [kept.body.size, kept.body.digest, kept.body.value]


def _marks(staged: tuple[StagedEffect, ...]) -> list[Json]:
    return [[effect.resource, effect.expected_version, _mark(effect.kept)] for effect in staged]


def _orders(completions: Sequence[Completion]) -> list[Steps]:
    """The step counters of all items, once each and in one order for every caller, so that two batches never block."""
    fences = [item.fence for item in completions if isinstance(item, Completion) and isinstance(item.fence, Fence)]
    found = {id(fence.steps): (fence.job_id, fence.generation, fence.steps) for fence in fences}
    return [steps for *_, steps in sorted(found.values(), key=lambda each: each[:2])]


@contextmanager
def _holding(orders: list[Steps]) -> Generator[None]:
    """Hold the order of several attempts' steps; they are taken one after the other, as they are given."""
    held: list[Steps] = []
    try:
        for steps in orders:
            steps.order.acquire()
            held.append(steps)
        yield
    finally:
        for steps in reversed(held):
            steps.order.release()
