"""The page of one job: live state, course, events, controls, and the job at every event of its history."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import Form, Query, Request
from starlette.responses import RedirectResponse, Response

from jobledger.adapters.web.access import Auditor, Operator, Principal, Reader, Scope
from jobledger.adapters.web.api.parameters import JobId
from jobledger.adapters.web.dashboard import drawing, rendering, wording
from jobledger.adapters.web.refusing import HttpProblemError
from jobledger.adapters.web.service import Face, Service
from jobledger.adapters.web.showing import event_out, status_out
from jobledger.adapters.wire.problems import ProblemModel, problem_of
from jobledger.domain.answers import JobStatus
from jobledger.domain.bounds import INTEGER_MAX
from jobledger.domain.errors import JobledgerError
from jobledger.projections.timeline import Timeline

routes = rendering.router()

EVENTS_SHOWN: Final = 50
FAILURES_LOOKED: Final = 1_000
VERIFIED_AT_ONCE: Final = 500
"""Up to how many events a history is verified without being asked: its page stays quick."""
COURSE_EVENTS_MAX: Final = 20_000


@routes.get("/jobs/{job_id}")
def job_page(
    request: Request,
    face: Face,
    caller: Reader,
    job_id: JobId,
    part: str = "",
    only: str = "",
    before: Annotated[int, Query(ge=0, le=INTEGER_MAX)] = 0,
    done: Annotated[str, Query(max_length=40)] = "",
) -> Response:
    """One job, or a part of its page."""
    caller.require_sight(face.store, job_id)
    template = {"live": "_job.html", "controls": "_controls.html", "events": "_events.html"}.get(part, "job.html")
    told = f"{wording.CONTROL_NAMES[done]}: accepted and put on record." if done in wording.CONTROL_NAMES else ""
    return _job(request, face, caller, job_id, template, only=only, before=before, done=told)


def _job(
    request: Request,
    face: Service,
    caller: Principal,
    job_id: str,
    template: str = "job.html",
    *,
    only: str = "",
    before: int = 0,
    done: str = "",
    problem: ProblemModel | None = None,
) -> Response:
    status = face.store.status(job_id)
    upto = min(before - 1, status.sequence) if before > 1 else status.sequence
    shown = FAILURES_LOOKED if only == "failures" else EVENTS_SHOWN
    window = face.store.events(job_id, after=max(0, upto - shown), limit=shown)
    found = [event_out(face, caller, event) for event in window.events if event.sequence <= upto]
    points = [(e.at.timestamp(), e.data["done"]) for e in found if e.name == "ProgressReported"]
    events = [event for event in reversed(found) if only != "failures" or event.name in wording.FAILURES]
    first = found[0].sequence if found else upto
    values: dict[str, Any] = {
        "job": status_out(face, caller, status),
        "head": status.sequence,
        "at": status.sequence,
        "controls": face.store.controls(job_id),
        "may_operate": caller.may(Scope.OPERATE),
        "window": window,
        "events": events,
        "gap": window.snapshot is not None,
        "earlier": first if first > window.floor and only != "failures" else None,
        "only": only,
        "follows": before == 0,
        "chart": drawing.chart(_timeline(face, status), datetime.now(UTC)),
        "points": points,
        "points_json": json.dumps(list(zip(*points, strict=True))),
        "done": done,
        "problem": problem,
    }
    if template == "job.html":
        values |= _then(face, caller, job_id, status.sequence)
    code = problem.status if problem else 200
    return rendering.page(request, template, caller=caller, page="Jobs", status=code, **values)


def _timeline(face: Service, status: JobStatus) -> Timeline:
    """A job's course; that of a very long history is left to the API, so that the page stays quick.

    That of an archived one is not in the store any more.
    """
    if status.archived or status.sequence > COURSE_EVENTS_MAX:
        ended = status.updated_at if status.is_terminal else None
        return Timeline(status.job_id, status.created_at, ended, (), ())
    return face.store.timeline(status.job_id)


# Time travel ----------------------------------------------------------------------------------------------------------


@routes.get("/jobs/{job_id}/at")
def job_at(
    request: Request, face: Face, caller: Reader, job_id: JobId, n: Annotated[int, Query(ge=1, le=INTEGER_MAX)]
) -> Response:
    """The job as it was at an event, and what that event changed."""
    caller.require_sight(face.store, job_id)
    return rendering.page(request, "_then.html", caller=caller, **_then(face, caller, job_id, n))


def _then(face: Service, caller: Principal, job_id: str, sequence: int) -> dict[str, Any]:
    then = status_out(face, caller, face.store.status(job_id, at=sequence))
    before = status_out(face, caller, face.store.status(job_id, at=sequence - 1)) if sequence > 1 else None
    window = face.store.events(job_id, after=sequence - 1, limit=1)
    found = [event for event in window.events if event.sequence == sequence]
    diff = wording.changes(before.model_dump(mode="json") if before else None, then.model_dump(mode="json"))
    return {"then": then, "diff": diff, "event": found[0] if found else None}


@routes.get("/jobs/{job_id}/badge")
def job_badge(request: Request, face: Face, caller: Auditor, job_id: JobId, now: str = "") -> Response:
    """Whether the history is whole; a long one is verified when somebody asks for it."""
    caller.require_sight(face.store, job_id)
    head = face.store.status(job_id).sequence
    verification = face.store.verify(job_id) if now == "yes" or head <= VERIFIED_AT_ONCE else None
    return rendering.page(request, "_badge.html", caller=caller, verification=verification, head=head, job_id=job_id)


# Acting ---------------------------------------------------------------------------------------------------------------

SEEN_CONTROLS: Final = frozenset({"hold", "release_hold", "resume", "request_cancel", "retry"})


@routes.post("/jobs/{job_id}/controls/{control}")
def act(
    request: Request,
    face: Face,
    caller: Operator,
    job_id: JobId,
    control: str,
    reason: Annotated[str, Form()],
    seen: Annotated[int, Form()] = 0,
    key: Annotated[str, Form()] = "",
    at_sequence: Annotated[int, Form()] = 0,
    from_checkpoint: Annotated[str, Form()] = "",
) -> Response:
    """Ask a control of a job as it was seen; a refusal is told on the job's page."""
    caller.require_sight(face.store, job_id)
    base = request.scope.get("root_path", "").rstrip("/")
    by: dict[str, Any] = {"by": caller.name, "reason": reason}
    target = job_id
    try:
        if control in SEEN_CONTROLS:
            getattr(face.store, control)(job_id, **by, expected_sequence=seen)
        elif control == "recover":
            face.store.recover(job_id, by=caller.name)
        elif control == "rerun":
            target = face.store.rerun(job_id, **by, key=key, from_checkpoint=from_checkpoint == "yes").job_id
        elif control == "fork":
            target = face.store.fork(job_id, **by, key=key, at_sequence=at_sequence).job_id
        else:
            raise HttpProblemError("not_found", "there is no such control")
    except JobledgerError as refused:
        return _job(request, face, caller, job_id, problem=problem_of(refused))
    return RedirectResponse(f"{base}/jobs/{target}?done={control}", 303)
