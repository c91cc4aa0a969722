"""Routes for workers that have no database credentials; every write presents its fence."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Header

from jobledger.adapters.web.access import Worker
from jobledger.adapters.web.api.parameters import CommandId, JobId, router
from jobledger.adapters.web.refusing import HttpProblemError, documented
from jobledger.adapters.web.service import Face
from jobledger.adapters.wire.base import Wire
from jobledger.adapters.wire.histories import UnitReceiptOut
from jobledger.adapters.wire.jobs import ControlReceiptOut
from jobledger.adapters.wire.problems import problem_of
from jobledger.adapters.wire.working import (
    CancelIn,
    CheckpointIn,
    ClaimIn,
    ClaimsIn,
    CompletedItem,
    CompletedItems,
    CompleteIn,
    CompletionsIn,
    DeferIn,
    EffectIn,
    ExecutionOut,
    FailIn,
    LeaseOut,
    LeasesOut,
    PauseIn,
    ProgressIn,
    RenewalOut,
    RenewalsIn,
    RenewedItem,
    RenewedItems,
    UnitIn,
)
from jobledger.domain.answers import Progress
from jobledger.domain.errors import JobledgerError
from jobledger.domain.lease import FENCE_TOKEN_CHARACTERS_MAX, Fence
from jobledger.domain.store import KEEP, Completion

routes = router("workers")
CLAIM = documented(409, 423)
WRITE = documented(409)


async def fence_of(
    face: Face,
    caller: Worker,
    fence: Annotated[
        str | None,
        Header(
            alias="Jobledger-Fence",
            max_length=FENCE_TOKEN_CHARACTERS_MAX,
            description="The fence of the lease; without access tokens `Authorization: Fence …` does as well.",
        ),
    ] = None,
    authorization: Annotated[str | None, Header(max_length=FENCE_TOKEN_CHARACTERS_MAX, include_in_schema=False)] = None,
) -> Fence:
    """The fence that a write presents, of a job that the caller may see."""
    scheme, _, text = (authorization or "").partition(" ")
    given = fence or (text if scheme.lower() == "fence" else "")
    if not given:
        raise HttpProblemError("unauthenticated", "a write of a worker presents the fence of its lease")
    found = Fence.from_token(given)
    if caller.owner is not None:
        await face.hub.ask(lambda: caller.require_sight(face.store, found.job_id))
    return found


Fenced = Annotated[Fence, Depends(fence_of)]


def _effects(effects: list[EffectIn]) -> list[Any]:
    return [effect.effect() for effect in effects]


@routes.post("/jobs/{job_id}/claim", responses=CLAIM)
def claim_job(face: Face, caller: Worker, job_id: JobId, asked: ClaimIn, command_id: CommandId = None) -> LeaseOut:
    """Start the next attempt of a job; a dead lease is taken over, a live one protects its worker."""
    caller.require_sight(face.store, job_id)
    lease = face.store.claim(
        job_id,
        worker=asked.worker,
        lease=asked.lease_s,
        group=asked.group,
        epoch=asked.epoch,
        respect_hold=asked.respect_hold,
        command_id=command_id,
        token=asked.token,
    )
    return LeaseOut.of(lease)


@routes.post("/claims", responses=CLAIM)
def claim_next(face: Face, caller: Worker, asked: ClaimsIn) -> LeasesOut:
    """Start attempts of up to `limit` jobs that are due; for tokens that see every owner's jobs."""
    if caller.owner is not None:
        raise HttpProblemError("forbidden", "a token of one owner claims jobs by their id; queues hold every owner's")
    leases = face.store.claim_next(
        worker=asked.worker,
        queues=asked.queues,
        kinds=asked.kinds,
        limit=asked.limit,
        lease=asked.lease_s,
        group=asked.group,
        epoch=asked.epoch,
    )
    return LeasesOut(leases=[LeaseOut.of(lease) for lease in leases])


@routes.post("/leases/renew", responses=WRITE)
def renew_lease(face: Face, fence: Fenced, command_id: CommandId = None) -> RenewalOut:
    """Move the expiry of the lease a full span on from now; accepted late while nobody took over."""
    return RenewalOut.of(face.store.renew(fence, command_id=command_id))


@routes.post("/leases/checkpoint", responses=WRITE)
def save_checkpoint(face: Face, fence: Fenced, asked: CheckpointIn, command_id: CommandId = None) -> RenewalOut:
    """Save application state, commit the effects, and renew."""
    progress = Progress(**dict(asked.progress)) if asked.progress else None
    renewal = face.store.checkpoint(
        fence, asked.state, progress=progress, effects=_effects(asked.effects), command_id=command_id
    )
    return RenewalOut.of(renewal)


@routes.post("/leases/unit", responses=WRITE)
def record_unit(face: Face, fence: Fenced, asked: UnitIn, command_id: CommandId = None) -> UnitReceiptOut:
    """Record that a unit was done; the first receipt of a unit stands for ever."""
    return UnitReceiptOut.of(face.store.record_unit(fence, asked.unit, asked.receipt, command_id=command_id))


@routes.post("/leases/progress", responses=WRITE)
def report_progress(face: Face, fence: Fenced, asked: ProgressIn, command_id: CommandId = None) -> RenewalOut:
    """Report how far the attempt is; 100 % is still running."""
    renewal = face.store.report_progress(fence, asked.done, asked.total, asked.message, command_id=command_id)
    return RenewalOut.of(renewal)


def _state(asked: PauseIn) -> Any:
    return asked.state if "state" in asked.model_fields_set else KEEP


@routes.post("/leases/pause", responses=WRITE)
def pause_attempt(face: Face, fence: Fenced, asked: PauseIn, command_id: CommandId = None) -> ControlReceiptOut:
    """Park at a boundary and give the lease back; with a state, that is a checkpoint first."""
    receipt = face.store.pause(fence, _state(asked), effects=_effects(asked.effects), command_id=command_id)
    return ControlReceiptOut.of(receipt)


@routes.post("/leases/defer", responses=WRITE)
def defer_job(face: Face, fence: Fenced, asked: DeferIn, command_id: CommandId = None) -> ControlReceiptOut:
    """Give the job back until an instant; counts as no failure."""
    effects = _effects(asked.effects)
    receipt = face.store.defer(fence, asked.ready_at, _state(asked), effects=effects, command_id=command_id)
    return ControlReceiptOut.of(receipt)


@routes.post("/leases/cancel", responses=WRITE)
def cancel_attempt(face: Face, fence: Fenced, asked: CancelIn, command_id: CommandId = None) -> ControlReceiptOut:
    """Record that the attempt stopped for a cancel request."""
    return ControlReceiptOut.of(face.store.cancel(fence, asked.boundary, command_id=command_id))


@routes.post("/leases/fail", responses=WRITE)
def fail_attempt(face: Face, fence: Fenced, asked: FailIn, command_id: CommandId = None) -> ControlReceiptOut:
    """Report a failure: tried again after the policy's back-off, or failed for good."""
    receipt = face.store.fail_attempt(fence, asked.error, retry_after=asked.retry_after_s, command_id=command_id)
    return ControlReceiptOut.of(receipt)


@routes.post("/leases/complete", responses=WRITE)
def complete_job(face: Face, fence: Fenced, asked: CompleteIn, command_id: CommandId = None) -> ExecutionOut:
    """Publish the terminal outcome and its effects, atomically."""
    result = face.store.complete(
        fence, asked.outcome, asked.result, asked.error, _effects(asked.effects), command_id=command_id
    )
    return ExecutionOut.of(result)


@routes.post("/batches/renew", responses=WRITE)
def renew_leases(face: Face, caller: Worker, batch: RenewalsIn) -> RenewedItems:
    """Renew up to 1,000 leases at once; each is answered for itself, in order."""
    fences = [Fence.from_token(text) for text in batch.fences]
    for job_id in {fence.job_id for fence in fences}:
        caller.require_sight(face.store, job_id)
    answers = face.store.renew_many(fences)
    return RenewedItems(items=[_item(RenewedItem, "renewal", RenewalOut, each) for each in answers])


@routes.post("/batches/complete", responses=WRITE)
def complete_jobs(face: Face, caller: Worker, batch: CompletionsIn) -> CompletedItems:
    """Publish up to 1,000 outcomes at once; each is answered for itself, in order."""
    completions = [
        Completion(
            Fence.from_token(item.fence), item.outcome, item.result, item.error, _effects(item.effects), item.command_id
        )
        for item in batch.completions
    ]
    for job_id in {item.fence.job_id for item in completions}:
        caller.require_sight(face.store, job_id)
    answers = face.store.complete_many(completions)
    return CompletedItems(items=[_item(CompletedItem, "execution", ExecutionOut, each) for each in answers])


def _item(kind: Any, name: str, model: type[Wire], answer: object) -> Any:
    """What became of one item: its answer, or its problem."""
    if isinstance(answer, JobledgerError):
        return kind(problem=problem_of(answer))
    return kind(**{name: model.of(answer)})
