"""The pages on queues: all of them with what runs and waits, and one with its limits, its hold and its last hour."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import Depends, Form, Query, Request
from starlette.responses import RedirectResponse, Response

from jobledger.adapters.terminal.queues import limits_text
from jobledger.adapters.web.access import Operator, Principal, Reader, Scope
from jobledger.adapters.web.api.queueing import QueueName
from jobledger.adapters.web.dashboard import rendering
from jobledger.adapters.web.dashboard.pacing import pace
from jobledger.adapters.web.refusing import HttpProblemError
from jobledger.adapters.web.service import Face, Service
from jobledger.adapters.wire.problems import ProblemModel, problem_of
from jobledger.domain.bounds import NAME_CHARACTERS_MAX, PAGE_MAX
from jobledger.domain.errors import InvalidRequestError, JobledgerError, ProjectionBusyError
from jobledger.domain.queues.answers import QueueStatus

routes = rendering.router()

SHOWN: Final = 50
EVENTS_SHOWN: Final = 20
CONTROLS: Final[Mapping[str, tuple[str, str]]] = {
    "hold": ("Hold", "No attempt starts until it is released; jobs wait, and what runs goes on."),
    "release": ("Release", "Attempts start again, as its limits let them."),
    "limit": ("Limit", "Over all hosts, from this moment on; what is left empty is not limited. What runs goes on."),
}
"""What an operator may ask of a queue: the button, and what it does."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the totals tell of one queue: since when its longest waiting job is due, and what became of attempts."""

    oldest_ready_at: datetime | None
    attempts: int
    failed: int


@routes.get("/queues")
def queues_page(
    request: Request,
    face: Face,
    caller: Reader,
    after: Annotated[str, Query(max_length=NAME_CHARACTERS_MAX)] = "",
) -> Response:
    """Every queue by name: what runs, what waits, and what limits it."""
    caller.require_every_owner()
    return rendering.page(
        request,
        "queues.html",
        caller=caller,
        page="Queues",
        found=face.store.queues.list(after=after or None, limit=SHOWN),
        waiting=_waiting(face),
        limits_text=limits_text,
        after=after,
    )


def _waiting(face: Service, queue: str | None = None) -> dict[str, Waiting]:
    """What the totals say of each queue, over its kinds."""
    found: dict[str, Waiting] = {}
    try:
        totals = face.store.totals(queue=queue, limit=PAGE_MAX).totals
    except ProjectionBusyError:
        return {}
    for each in totals:
        known = found.get(each.queue, Waiting(None, 0, 0))
        ready = [at for at in (known.oldest_ready_at, each.oldest_ready_at) if at is not None]
        oldest = min(ready, default=None)
        found[each.queue] = Waiting(oldest, known.attempts + each.attempts, known.failed + each.failed)
    return found


@routes.get("/queue")
def queue_page(
    request: Request,
    face: Face,
    caller: Reader,
    name: QueueName = None,
    done: Annotated[str, Query(max_length=40)] = "",
    part: str = "",
) -> Response:
    """One queue, or the whole namespace."""
    caller.require_every_owner()
    told = f"{CONTROLS[done][0]}: accepted and put on record." if done in CONTROLS else ""
    return _queue(request, face, caller, name, "_queue.html" if part == "live" else "queue.html", done=told)


def _queue(
    request: Request,
    face: Service,
    caller: Principal,
    name: str | None,
    template: str = "queue.html",
    *,
    done: str = "",
    problem: ProblemModel | None = None,
) -> Response:
    status = face.store.queues.get(name)
    after = max(0, status.sequence - EVENTS_SHOWN)
    values: dict[str, Any] = {
        "queue": status,
        "query": urlencode({} if name is None else {"name": name}),
        "waiting": _waiting(face, name).get(name or "", Waiting(None, 0, 0)),
        "limits_text": limits_text,
        "events": list(reversed(face.store.queues.events(name, after=after, limit=EVENTS_SHOWN).events)),
        "controls": {each: words for each, words in CONTROLS.items() if _may_be_asked(each, status)},
        "may_operate": caller.may(Scope.OPERATE),
        "done": done,
        "problem": problem,
    }
    if template == "queue.html" and name is not None:
        values["pace"] = pace(face, None, name)
    code = problem.status if problem else 200
    return rendering.page(request, template, caller=caller, page="Queues", status=code, **values)


def _may_be_asked(control: str, status: QueueStatus) -> bool:
    if control == "limit":
        return status.name is not None
    return (status.hold is None) == (control == "hold")


def _limits(
    running_max: Annotated[str, Form()] = "",
    starts_max: Annotated[str, Form()] = "",
    starts_span: Annotated[str, Form()] = "",
    share_by: Annotated[str, Form()] = "",
    running_max_per_share: Annotated[str, Form()] = "",
    ageing: Annotated[str, Form()] = "",
) -> Callable[[], dict[str, Any]]:
    """Reads the limits out of a form; a field that is no number is refused where they are asked for."""

    def read() -> dict[str, Any]:
        counts = {"running_max": running_max, "starts_max": starts_max, "running_max_per_share": running_max_per_share}
        spans = {"starts_span": starts_span, "ageing": ageing}
        found: dict[str, Any] = {field: _number(field, text, int) for field, text in counts.items()}
        found |= {field: _number(field, text, float) for field, text in spans.items()}
        return found | {"share_by": share_by or None}

    return read


@routes.post("/queue/controls/{control}")
def act_on_queue(
    request: Request,
    face: Face,
    caller: Operator,
    control: str,
    limits: Annotated[Callable[[], dict[str, Any]], Depends(_limits)],
    reason: Annotated[str, Form()],
    name: QueueName = None,
    seen: Annotated[int, Form()] = 0,
) -> Response:
    """Ask a control of a queue as it was seen; a refusal is told on the queue's page."""
    caller.require_every_owner()
    base = request.scope.get("root_path", "").rstrip("/")
    terms: dict[str, Any] = {"by": caller.name, "reason": reason, "expected_sequence": seen}
    queues = face.store.queues
    asked: dict[str, Callable[[], object]] = {
        "hold": lambda: queues.hold(name, **terms),
        "release": lambda: queues.release(name, **terms),
        "limit": lambda: queues.limit(name or "", **limits(), **terms),
    }
    if control not in asked:
        raise HttpProblemError("not_found", "there is no such control")
    try:
        asked[control]()
    except JobledgerError as refused:
        return _queue(request, face, caller, name, problem=problem_of(refused))
    query = {"done": control} if name is None else {"name": name, "done": control}
    return RedirectResponse(f"{base}/queue?{urlencode(query)}", 303)


def _number(field: str, text: str, kind: Callable[[str], Any]) -> Any:
    """A number out of a form; an empty field is no limit.

    Raises:
        InvalidRequestError: it is none.
    """
    try:
        return kind(text) if text.strip() else None
    except ValueError:
        raise InvalidRequestError(field, f"a number is needed, not {text!r:.50}") from None
