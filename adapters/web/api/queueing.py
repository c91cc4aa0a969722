"""Routes of queues: limits and holds over all hosts, each with a reason; of one queue, or of the whole namespace."""

from __future__ import annotations

from typing import Annotated, Any, Protocol

from fastapi import Depends, Query, Response
from starlette.responses import StreamingResponse

from jobledger.adapters.web.access import Admin, Auditor, Operator, Principal, Reader
from jobledger.adapters.web.api.parameters import (
    CommandId,
    IfMatch,
    JsonLines,
    Limit,
    NameQuery,
    OptionalName,
    Sequence,
    expected_sequence,
    given,
    router,
)
from jobledger.adapters.web.refusing import documented
from jobledger.adapters.web.service import Face
from jobledger.adapters.wire.controls import ControlIn
from jobledger.adapters.wire.histories import EventOut, VerificationOut
from jobledger.adapters.wire.queues import LimitIn, QueueOut, QueuePageOut, QueueReceiptOut, QueueWindowOut
from jobledger.adapters.wire.schedules import MendedOut
from jobledger.domain.bounds import NAME_CHARACTERS_MAX

routes = router("queues")
CONTROL = documented(409, 412, 423, 428)

QueueName = Annotated[
    str | None,
    Query(min_length=1, max_length=NAME_CHARACTERS_MAX, description="The queue's name. Default: the whole namespace."),
]


def etag(sequence: int) -> str:
    """The tag of a queue: its sequence; every event of a queue is an operator's."""
    return f'"{sequence}-{sequence}"'


async def _sees_all(caller: Reader) -> Principal:
    """A queue is shared by owners, and so is what is told of it."""
    caller.require_every_owner()
    return caller


SeesAll = Annotated[Principal, Depends(_sees_all)]


@routes.get("/queues", responses=documented())
def list_queues(face: Face, _: SeesAll, after: OptionalName = None, limit: Limit = 100) -> QueuePageOut:
    """Queues that have jobs, or were ever limited or held, by name. For tokens of every owner."""
    return QueuePageOut.of(face.store.queues.list(after=after, limit=limit))


@routes.get("/queue", responses=documented())
def read_queue(face: Face, _: SeesAll, response: Response, name: QueueName = None) -> QueueOut:
    """A queue now, or the whole namespace; a control's `If-Match` takes its `ETag`. For tokens of every owner."""
    status = face.store.queues.get(name)
    response.headers["ETag"] = etag(status.sequence)
    return QueueOut.of(status)


@routes.get("/queue/events", responses=documented())
def read_queue_events(
    face: Face, _: SeesAll, name: QueueName = None, after: Sequence = 0, limit: Limit = 100
) -> QueueWindowOut:
    """A slice of the events of a queue, or of the whole namespace, behind a sequence."""
    return QueueWindowOut.of(face.store.queues.events(name, after=after, limit=limit))


@routes.get("/queue/history", response_class=JsonLines, responses=documented())
def read_queue_history(face: Face, caller: Auditor, name: QueueName = None) -> StreamingResponse:
    """Every event of a queue, or of the whole namespace, from the first on, as JSON lines."""
    caller.require_every_owner()
    face.store.queues.get(name)  # a name that cannot be is refused before the answer begins
    history = face.store.queues.history(name)
    return JsonLines(f"{EventOut.of(event).model_dump_json()}\n" for event in history)


@routes.get("/queue/verification", responses=documented())
def verify_queue(face: Face, caller: Auditor, name: QueueName = None) -> VerificationOut:
    """Whether every digest and rule of a queue's history holds, and its row beside it."""
    caller.require_every_owner()
    return VerificationOut.of(face.store.queues.verify(name))


class Asking(Protocol):
    """Asks for a control, as the request's caller and with its reason."""

    def __call__(self, method: Any, name: str | None, /, *, must_be_seen: bool, **limits: Any) -> QueueReceiptOut:
        """Ask a method of the queues; ``must_be_seen``: the caller has to say which state he looked at."""
        ...


def _asking(caller: Operator, response: Response, if_match: IfMatch, command_id: CommandId, asked: ControlIn) -> Asking:
    def ask(method: Any, name: str | None, /, *, must_be_seen: bool, **limits: Any) -> QueueReceiptOut:
        caller.require_every_owner()
        expected = expected_sequence(if_match, is_required=must_be_seen, least=0)
        more = given(expected_sequence=expected, command_id=command_id)
        receipt = method(name, by=caller.acts_as(asked.by), reason=asked.reason, **limits, **more)
        response.headers["ETag"] = etag(receipt.sequence)
        return QueueReceiptOut.of(receipt)

    return ask


@routes.post("/queue/limit", responses=CONTROL)
def limit_queue(
    face: Face,
    caller: Operator,
    response: Response,
    name: NameQuery,
    asked: LimitIn,
    if_match: IfMatch = None,
    command_id: CommandId = None,
) -> QueueReceiptOut:
    """Give a queue these limits in the place of those that it has; what runs goes on."""
    ask = _asking(caller, response, if_match, command_id, asked)
    return ask(face.store.queues.limit, name, must_be_seen=False, **asked.limits())


@routes.post("/queue/hold", responses=CONTROL)
def hold_queue(
    face: Face,
    caller: Operator,
    response: Response,
    asked: ControlIn,
    name: QueueName = None,
    if_match: IfMatch = None,
    command_id: CommandId = None,
) -> QueueReceiptOut:
    """Let no attempt of a queue's jobs start, or of the whole namespace's, until it is released; what runs goes on."""
    return _asking(caller, response, if_match, command_id, asked)(face.store.queues.hold, name, must_be_seen=False)


@routes.post("/queue/release", responses=CONTROL)
def release_queue(
    face: Face,
    caller: Operator,
    response: Response,
    asked: ControlIn,
    name: QueueName = None,
    if_match: IfMatch = None,
    command_id: CommandId = None,
) -> QueueReceiptOut:
    """Take the hold of a queue, or of the whole namespace, away. `If-Match` is required: it must not act late."""
    return _asking(caller, response, if_match, command_id, asked)(face.store.queues.release, name, must_be_seen=True)


@routes.post("/queues/rebuild", responses=documented())
def rebuild_queues(face: Face, _: Admin) -> MendedOut:
    """Refold every queue's row from its events, and mend those that differ."""
    return MendedOut(mended=list(face.store.queues.rebuild()))
