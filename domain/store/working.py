"""The workers' commands: claim, and everything that is written under a fence."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from jobledger.domain import decisions
from jobledger.domain.answers import ControlReceipt, ExecutionResult, Progress, Renewal, UnitReceipt
from jobledger.domain.bounds import BATCH_MAX, error_text, require_count, require_instant, require_span, require_text
from jobledger.domain.decisions.working import (
    Effect,
    FirstReceipt,
    StagedEffect,
    renewed_expiry,
    require_outcome,
    require_progress,
    stage,
)
from jobledger.domain.errors import HistoryCorruptError, InvalidRequestError, JobledgerError
from jobledger.domain.events import JobEvent, LeaseRenewedLate, Outcome, UnitRecorded
from jobledger.domain.lease import Fence, token_digest
from jobledger.domain.replaying import value_of
from jobledger.domain.store.base import Commands
from jobledger.domain.store.executing import Call, Command, Decision, Told, execute
from jobledger.domain.store.operating import control_receipt
from jobledger.domain.values import Json, Kept, keep

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobledger.domain.lease import Standing
    from jobledger.domain.ports import Session


class Keep(Enum):
    """The sign that a pause or deferral leaves the last checkpoint as it is."""

    KEEP = "keep"


KEEP: Final = Keep.KEEP


@dataclass(frozen=True, slots=True)
class Completion:
    """One item of ``complete_many``: the arguments of ``complete``."""

    fence: Fence
    outcome: str = "complete"
    result: Json = None
    error: str | None = None
    effects: tuple[Effect, ...] = ()
    command_id: str | None = None


class WorkerCommands(Commands):
    """What an attempt may write; each call presents its fence, which the store checks again as it writes."""

    def renew(self, fence: Fence) -> Renewal:
        """Move the expiry of the lease a full span on from now, never back; accepted late while nobody took over.

        Raises:
            StaleFenceError, AlreadyTerminalError, StaleEpochError: the attempt is over; stop it.
        """
        return self._run(self._renewal(fence))

    def renew_many(self, fences: Sequence[Fence]) -> list[Renewal | JobledgerError]:
        """Renew up to ``BATCH_MAX`` leases at once; one answer per item, in order."""
        require_count("fences", len(fences), BATCH_MAX)
        return execute(self._setting.storage, [self._renewal(fence) for fence in fences], self._call())

    def checkpoint(
        self,
        fence: Fence,
        state: Json,
        *,
        progress: Progress | None = None,
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
        reported = _progress_arguments(progress)

        def decide(session: Session, standing: Standing) -> Decision:
            facts = _checkpoint(session, standing, fence, command.step or 0, saved, staged)
            if progress is not None:
                facts = [*facts, *_progress_facts(standing, fence, command.step or 0, progress)]
            return Decision(facts=facts, checkpoint=saved, effects=staged)

        with fence.steps.order:
            arguments = [*_identity(fence), _mark(saved), _marks(staged), reported]
            command = self._fenced(fence, "checkpoint", arguments, command_id, decide, renewal)
            return self._run(command, Call(self._setting.patience, inside=inside))

    def record_unit(self, fence: Fence, unit: str, receipt: Json, *, command_id: str | None = None) -> UnitReceipt:
        """Record that a unit was done, and renew; the first receipt of a unit stands for ever.

        Raises:
            the fence's refusals; ReceiptTooLargeError, UnstorableValueError: nothing was recorded.
            ReceiptChangedError: the unit has another receipt, which the error carries.
        """
        require_text("unit", unit)
        kept = keep("receipt", receipt)

        def decide(session: Session, standing: Standing) -> Decision:
            first = _first_receipt(session, standing.job.id, unit)
            facts = decisions.record_unit(
                standing, fence, command.step or 0, unit=unit, receipt=kept.body, first=first
            )
            return Decision(facts=facts, values=(kept,), unit=unit)

        with fence.steps.order:
            arguments = [*_identity(fence), unit, _mark(kept)]
            command = self._fenced(fence, "record_unit", arguments, command_id, decide, _unit_answer(unit))
            return self._run(command)

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

        def decide(_: Session, standing: Standing) -> Decision:
            return Decision(facts=_progress_facts(standing, fence, command.step or 0, progress))

        with fence.steps.order:
            arguments = [*_identity(fence), reported]
            command = self._fenced(fence, "report_progress", arguments, command_id, decide, renewal)
            return self._run(command)

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

        def decide(_: Session, standing: Standing) -> Decision:
            facts = decisions.fail_attempt(
                standing, fence, command.step or 0, error=text, chance=chance, retry_after=wait
            )
            return Decision(facts=facts)

        with fence.steps.order:
            arguments = [*_identity(fence), text, wait and wait.total_seconds()]
            command = self._fenced(fence, "fail_attempt", arguments, command_id, decide, control_receipt)
            return self._run(command)

    def cancel(self, fence: Fence, boundary: Json = None, *, command_id: str | None = None) -> ControlReceipt:
        """Record that the attempt stopped for a cancel request; ``boundary`` is any JSON the worker wants on record.

        Raises:
            the fence's refusals; CancelNotRequestedError; ResultTooLargeError: more than 64 KiB were said.
        """
        kept = None if boundary is None else keep("boundary", boundary)

        def decide(_: Session, standing: Standing) -> Decision:
            facts = decisions.cancel(standing, fence, command.step or 0, boundary=kept)
            return Decision(facts=facts, values=(kept,) if kept else ())

        with fence.steps.order:
            arguments = [*_identity(fence), kept and _mark(kept)]
            command = self._fenced(fence, "cancel", arguments, command_id, decide, control_receipt)
            return self._run(command)

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
        item = Completion(fence, outcome, result, error, tuple(effects), command_id)
        with fence.steps.order:
            return self._run(self._completion(item), Call(self._setting.patience, inside=inside))

    def complete_many(self, completions: Sequence[Completion]) -> list[ExecutionResult | JobledgerError]:
        """Publish up to ``BATCH_MAX`` outcomes at once; one answer per item, in order, each for itself."""
        require_count("completions", len(completions), BATCH_MAX)
        answers: list[ExecutionResult | JobledgerError | None] = [None] * len(completions)
        commands: list[Command[ExecutionResult]] = []
        places: list[int] = []
        with ExitStack() as orders:
            for item in sorted({id(each.fence.steps): each for each in completions}.values(), key=_order):
                orders.enter_context(item.fence.steps.order)
            for place, item in enumerate(completions):
                try:
                    commands.append(self._completion(item))
                    places.append(place)
                except JobledgerError as invalid:
                    answers[place] = invalid
            for place, answer in zip(places, execute(self._setting.storage, commands, self._call()), strict=True):
                answers[place] = answer
        return [answer for answer in answers if answer is not None]

    def _renewal(self, fence: Fence) -> Command[Renewal]:
        def decide(_: Session, standing: Standing) -> Decision:
            facts = decisions.renew(standing, fence)
            return Decision(facts=facts, expires_at=renewed_expiry(standing))

        return self._command(
            fence.job_id, "renew", _identity(fence), command_id=None, decide=decide, answer=renewal, fence=fence
        )

    def _completion(self, item: Completion) -> Command[ExecutionResult]:
        text = None if item.error is None else error_text(item.error)
        outcome = require_outcome(item.outcome, item.result, text, item.effects)
        staged = stage(item.effects)
        has_result = outcome in (Outcome.COMPLETE, Outcome.PARTIAL)
        kept = keep("result", item.result) if has_result else None
        fence = item.fence

        def decide(session: Session, standing: Standing) -> Decision:
            facts = decisions.complete(
                standing,
                fence,
                command.step or 0,
                outcome=outcome,
                result=kept and kept.body,
                error=text,
                effects=staged,
                versions=_versions(session, standing, staged),
            )
            return Decision(facts=facts, values=(kept,) if kept else (), effects=staged)

        arguments = [*_identity(fence), outcome.value, kept and _mark(kept), text, _marks(staged)]
        command = self._fenced(fence, "complete", arguments, item.command_id, decide, execution_result)
        return command

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

        def decide(session: Session, standing: Standing) -> Decision:
            step = command.step or 0
            before = _checkpoint(session, standing, fence, step, saved, staged) if saved else []
            facts = park(standing, fence, step, before=before)
            return Decision(facts=facts, checkpoint=saved, effects=staged)

        with fence.steps.order:
            arguments = [*_identity(fence), saved and _mark(saved), _marks(staged), *more]
            command = self._fenced(fence, name, arguments, command_id, decide, control_receipt)
            return self._run(command)

    def _fenced(
        self,
        fence: Fence,
        name: str,
        arguments: Json,
        command_id: str | None,
        decide: Callable[[Session, Standing], Decision],
        answer: Callable[[Told], Any],
    ) -> Command[Any]:
        """A write under a fence; call it while holding the order of the fence's steps."""
        _require_fence(fence)
        return self._command(
            fence.job_id,
            name,
            arguments,
            command_id=command_id,
            decide=decide,
            answer=answer,
            fence=fence,
            step=fence.steps.draw(),
        )


def renewal(told: Told) -> Renewal:
    """An accepted write, and what operators ask of the attempt (a hold only if it respects holds)."""
    job = told.job
    is_held = job.hold is not None and job.attempt is not None and job.attempt.respects_hold
    late = any(isinstance(fact, LeaseRenewedLate) for fact in told.facts)
    return Renewal(told.expires_at or job.updated_at, is_held, job.cancel is not None, late)


def execution_result(told: Told) -> ExecutionResult:
    """A job's state and outcome."""
    job = told.job
    return ExecutionResult(
        job_id=job.id,
        key=job.key,
        state=job.state,
        outcome=job.outcome,
        result=told.value(job.result),
        error=job.error,
        generation=job.generation,
        sequence=job.sequence,
        reused=told.is_reused,
    )


def _unit_answer(unit: str) -> Callable[[Told], UnitReceipt]:
    def answer(told: Told) -> UnitReceipt:
        for fact in told.facts:
            if isinstance(fact, UnitRecorded):
                return UnitReceipt(unit, told.value(fact.receipt), fact.generation, told.job.sequence)
        first = _first_receipt(told.session, told.job.id, unit)
        if first is None:
            raise HistoryCorruptError(told.job.id, told.job.sequence, f"the receipt of unit {unit!r} is missing")
        return UnitReceipt(unit, first.value, first.generation, first.sequence, reused=True)

    return answer


def _first_receipt(session: Session, job_id: str, unit: str) -> FirstReceipt | None:
    row = session.unit(job_id, unit)
    if row is None:
        return None
    return FirstReceipt(row.receipt, value_of(session, job_id, row.receipt), row.generation, row.sequence)


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


def _order(item: Completion) -> tuple[str, int]:
    return item.fence.job_id, id(item.fence.steps)
