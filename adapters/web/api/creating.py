"""Routes that make jobs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header, Response

from jobledger.adapters.web.access import Operator, Principal, Submitter
from jobledger.adapters.web.api.parameters import CommandId, JobId, router
from jobledger.adapters.web.refusing import HttpProblemError, documented
from jobledger.adapters.web.service import Face
from jobledger.adapters.wire.controls import ForkIn, RerunIn
from jobledger.adapters.wire.jobs import CreateReceiptOut, JobIn, JobsIn
from jobledger.adapters.wire.problems import problem_of
from jobledger.adapters.wire.working import CreatedItem, CreatedItems
from jobledger.domain.answers import CreateReceipt
from jobledger.domain.bounds import NAME_CHARACTERS_MAX, require_traceparent
from jobledger.domain.errors import JobledgerError

routes = router("jobs")


def _reused(description: str) -> dict[int | str, Any]:
    return documented(409) | {200: {"model": CreateReceiptOut, "description": description}}


IdempotencyKey = Annotated[
    str | None,
    Header(description="The job's key within its owner: the same key and payload answer the same job."),
]
Traceparent = Annotated[
    str | None,
    Header(max_length=NAME_CHARACTERS_MAX, description="In whose trace it is asked for (W3C Trace Context)."),
]


@routes.post(
    "/jobs",
    status_code=201,
    response_model=CreateReceiptOut,
    responses=_reused("The job was made before."),
)
def create_job(
    face: Face,
    caller: Submitter,
    response: Response,
    job: JobIn,
    idempotency_key: IdempotencyKey = None,
    command_id: CommandId = None,
    traceparent: Traceparent = None,
) -> CreateReceiptOut:
    """Create a job, or answer the recorded receipt of the one that its owner, key and payload made before.

    A job without a key carries a `Command-Id` instead, which makes a repeat safe.
    """
    key = _key(idempotency_key, job.key, command_id)
    request = job.request(_owner(caller, job), key, _readable(traceparent))
    receipt = face.store.create(request, command_id=command_id)
    return _made(receipt, response)


@routes.post("/batches/create", responses=documented(409))
def create_jobs(face: Face, caller: Submitter, batch: JobsIn) -> CreatedItems:
    """Create up to 1,000 jobs; each is answered for itself, in order."""
    requests = [job.request(_owner(caller, job), job.key) for job in batch.jobs]
    items = [
        CreatedItem(problem=problem_of(answer))
        if isinstance(answer, JobledgerError)
        else CreatedItem(receipt=CreateReceiptOut.of(answer))
        for answer in face.store.create_many(requests)
    ]
    return CreatedItems(items=items)


@routes.post(
    "/jobs/{job_id}/rerun",
    status_code=201,
    response_model=CreateReceiptOut,
    responses=_reused("The same rerun was made before."),
)
def rerun_job(
    face: Face, caller: Operator, response: Response, job_id: JobId, asked: RerunIn, command_id: CommandId = None
) -> CreateReceiptOut:
    """Run an ended job again, as a new job under its own key."""
    caller.require_sight(face.store, job_id)
    receipt = face.store.rerun(
        job_id,
        by=caller.acts_as(asked.by),
        reason=asked.reason,
        key=asked.key,
        from_checkpoint=asked.from_checkpoint,
        command_id=command_id,
    )
    return _made(receipt, response)


@routes.post(
    "/jobs/{job_id}/fork",
    status_code=201,
    response_model=CreateReceiptOut,
    responses=_reused("The same fork was made before."),
)
def fork_job(
    face: Face, caller: Operator, response: Response, job_id: JobId, asked: ForkIn, command_id: CommandId = None
) -> CreateReceiptOut:
    """Start a new job from the checkpoint and receipts that a job had at a sequence."""
    caller.require_sight(face.store, job_id)
    receipt = face.store.fork(
        job_id,
        at_sequence=asked.at_sequence,
        by=caller.acts_as(asked.by),
        reason=asked.reason,
        key=asked.key,
        command_id=command_id,
    )
    return _made(receipt, response)


def _made(receipt: CreateReceipt, response: Response) -> CreateReceiptOut:
    response.status_code = 200 if receipt.reused else 201
    return CreateReceiptOut.of(receipt)


def _owner(caller: Principal, job: JobIn) -> str:
    owner = caller.owner_for(job.owner)
    if owner is None:
        raise HttpProblemError("invalid_request", "owner: this token has none of its own, so the job has to name one")
    return owner


def _readable(traceparent: str | None) -> str | None:
    """The header of a trace, if it can be read; its standard wants one that cannot to be ignored."""
    try:
        return None if traceparent is None else require_traceparent("traceparent", traceparent)
    except JobledgerError:
        return None


def _key(idempotency_key: str | None, key: str | None, command_id: str | None) -> str | None:
    if idempotency_key is None:
        if key is None and command_id is None:
            raise HttpProblemError("idempotency_key_missing", "a create has to be safe to repeat")
        return key
    if not 0 < len(idempotency_key) <= NAME_CHARACTERS_MAX or not idempotency_key.strip():
        raise HttpProblemError("bad_request", f"Idempotency-Key: 1 to {NAME_CHARACTERS_MAX} characters are needed")
    if not idempotency_key.isascii() or not idempotency_key.isprintable():
        raise HttpProblemError("bad_request", "Idempotency-Key: printable ASCII is needed")
    if key not in (None, idempotency_key):
        raise HttpProblemError("bad_request", "Idempotency-Key and the job's own key differ; send one of them")
    return idempotency_key
