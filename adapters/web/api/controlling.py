"""Routes by which operators act; every control requires a reason."""

from __future__ import annotations

from typing import Annotated, Any, Protocol

from fastapi import Depends, Response

from jobledger.adapters.web.access import Admin, Operator
from jobledger.adapters.web.api.parameters import CommandId, IfMatch, JobId, etag, expected_sequence, router
from jobledger.adapters.web.refusing import documented
from jobledger.adapters.web.service import Face
from jobledger.adapters.wire.controls import (
    AdvanceIn,
    ControlIn,
    EpochOut,
    RebuildIn,
    RebuildOut,
    RecoveriesIn,
    RecoveriesOut,
    RecoverIn,
)
from jobledger.adapters.wire.jobs import ControlReceiptOut
from jobledger.domain.job import ENGINE

routes = router("controls")
CONTROL = documented(409, 412, 423, 428)


class Asking(Protocol):
    """Asks for a control of the job, as the request's caller and with its reason."""

    def __call__(self, method: Any, /, *, must_be_seen: bool) -> ControlReceiptOut:
        """Ask a method of the store; ``must_be_seen``: the caller has to say which state he looked at."""
        ...


def _asking(
    face: Face,
    caller: Operator,
    response: Response,
    job_id: JobId,
    asked: ControlIn,
    if_match: IfMatch = None,
    command_id: CommandId = None,
) -> Asking:
    def ask(method: Any, /, *, must_be_seen: bool) -> ControlReceiptOut:
        caller.require_sight(face.store, job_id)
        receipt = method(
            job_id,
            by=caller.acts_as(asked.by),
            reason=asked.reason,
            expected_sequence=expected_sequence(if_match, is_required=must_be_seen),
            command_id=command_id,
        )
        response.headers["ETag"] = etag(face.store.status(job_id))
        return ControlReceiptOut.of(receipt)

    return ask


Ask = Annotated[Asking, Depends(_asking)]


@routes.post("/jobs/{job_id}/hold", responses=CONTROL)
def hold_job(face: Face, ask: Ask) -> ControlReceiptOut:
    """Place a stop sign: what waits is paused at once, what runs parks at its next boundary."""
    return ask(face.store.hold, must_be_seen=False)


@routes.post("/jobs/{job_id}/release", responses=CONTROL)
def release_job(face: Face, ask: Ask) -> ControlReceiptOut:
    """Take the stop sign away, and renew the budget. `If-Match` is required: a release must not act late."""
    return ask(face.store.release_hold, must_be_seen=True)


@routes.post("/jobs/{job_id}/resume", responses=CONTROL)
def resume_job(face: Face, ask: Ask) -> ControlReceiptOut:
    """Put a paused job that no worker ever had back into its queue. `If-Match` is required."""
    return ask(face.store.resume, must_be_seen=True)


@routes.post("/jobs/{job_id}/cancel", responses=CONTROL)
def cancel_job(face: Face, ask: Ask) -> ControlReceiptOut:
    """Cancel what is not running at once, and ask what runs to stop for good at its next boundary."""
    return ask(face.store.request_cancel, must_be_seen=False)


@routes.post("/jobs/{job_id}/retry", responses=CONTROL)
def retry_job(face: Face, ask: Ask) -> ControlReceiptOut:
    """Make waiting or parked work due now, with a new budget. `If-Match` is required."""
    return ask(face.store.retry, must_be_seen=True)


@routes.post("/jobs/{job_id}/recover", responses=CONTROL)
def recover_job(
    face: Face, caller: Operator, job_id: JobId, asked: RecoverIn, command_id: CommandId = None
) -> ControlReceiptOut:
    """Park a running job whose lease has run out; a live lease keeps its job."""
    caller.require_sight(face.store, job_id)
    by = ENGINE if asked.by is None else caller.acts_as(asked.by)
    return ControlReceiptOut.of(face.store.recover(job_id, by=by, command_id=command_id))


@routes.post("/recoveries", responses=documented())
def recover_expired(face: Face, _: Admin, asked: RecoveriesIn) -> RecoveriesOut:
    """Park running jobs whose lease has run out: the sweep that upkeep runs."""
    found = face.store.recover_expired(asked.limit, which=asked.which)
    return RecoveriesOut(recovered=[ControlReceiptOut.of(each) for each in found])


@routes.post("/rebuilds", responses=documented())
def rebuild_projection(face: Face, _: Admin, asked: RebuildIn) -> RebuildOut:
    """Rebuild a projection from the events, and mend the rows that differ."""
    return RebuildOut.of(face.store.rebuild(asked.projection))


@routes.post("/epoch", responses=documented(409))
def advance_epoch(face: Face, caller: Admin, asked: AdvanceIn, command_id: CommandId = None) -> EpochOut:
    """Fence off all work of a worker group's current epoch at once."""
    epoch = face.store.advance_epoch(
        asked.group, by=caller.acts_as(asked.by), reason=asked.reason, command_id=command_id
    )
    return EpochOut(group=asked.group, epoch=epoch)
