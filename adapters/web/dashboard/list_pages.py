"""The pages over many jobs: the overview, and lists with their filters in the address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import Form, Query, Request
from starlette.responses import RedirectResponse, Response

from jobledger.adapters.web.access import Operator, Principal, Reader, Scope
from jobledger.adapters.web.dashboard import rendering
from jobledger.adapters.web.dashboard.pacing import pace
from jobledger.adapters.web.refusing import HttpProblemError
from jobledger.adapters.web.service import Face
from jobledger.domain.bounds import NAME_CHARACTERS_MAX
from jobledger.domain.errors import JobledgerError
from jobledger.domain.job import State
from jobledger.projections.cursors import CURSOR_CHARACTERS_MAX

routes = rendering.router()

SHOWN: Final = 50
FEW: Final = 10
ACT_MAX: Final = 1_000
ACTS: Final = frozenset({"hold", "release_hold", "request_cancel", "retry"})
FILTERS: Final[tuple[str, ...]] = ("state", "owner", "kind", "queue", "key_prefix", "label", "held")
Text = Annotated[str, Query(max_length=2 * NAME_CHARACTERS_MAX + 1)]


@routes.get("/")
def overview(request: Request, face: Face, caller: Reader, part: str = "", queue: Text = "") -> Response:
    """What stands where, what runs, what is new, what failed."""
    whose = caller.owner
    if part == "pace":
        return rendering.page(request, "_pace.html", caller=caller, pace=pace(face, whose, queue=queue or None))
    values: dict[str, Any] = {
        "counts": face.store.counts(owner=whose),
        "held": face.store.jobs(owner=whose, held=True, limit=1),
        "running": face.store.jobs(owner=whose, state=State.RUNNING, limit=FEW),
        "newest": face.store.jobs(owner=whose, limit=FEW),
        "failed": face.store.jobs(owner=whose, state=State.FAILED, limit=FEW),
    }
    template = "_live_overview.html" if part == "live" else "overview.html"
    if part != "live":
        values["pace"] = pace(face, whose)
    return rendering.page(request, template, caller=caller, page="Overview", **values)


@routes.get("/go")
def go(request: Request, face: Face, caller: Reader, id: Text = "") -> Response:  # noqa: A002  # the field's name in the page
    """Go to a job by its id, or to those whose key begins like that."""
    base = request.scope.get("root_path", "").rstrip("/")
    wanted = id.strip()
    try:
        caller.require_sight(face.store, wanted)
        face.store.status(wanted)
    except JobledgerError:
        return RedirectResponse(f"{base}/jobs?{urlencode({'key_prefix': wanted})}", 303)
    return RedirectResponse(f"{base}/jobs/{wanted}", 303)


@routes.get("/jobs")
def jobs_page(
    request: Request,
    face: Face,
    caller: Reader,
    state: Text = "",
    owner: Text = "",
    kind: Text = "",
    queue: Text = "",
    key_prefix: Text = "",
    label: Text = "",
    held: Text = "",
    cursor: Annotated[str, Query(max_length=CURSOR_CHARACTERS_MAX)] = "",
) -> Response:
    """Jobs that match the filters in the address, newest first."""
    filters: dict[str, str] = dict(zip(FILTERS, (state, owner, kind, queue, key_prefix, label, held), strict=True))
    found = face.store.jobs(**_wanted(caller, filters), cursor=cursor or None, limit=SHOWN)
    return rendering.page(
        request,
        "jobs.html",
        caller=caller,
        page="Jobs",
        found=found,
        filters=filters,
        states=[each.value for each in State],
        cursor=cursor,
        query=_query(filters),
        may_operate=caller.may(Scope.OPERATE),
        act_max=ACT_MAX,
    )


def _wanted(caller: Principal, filters: Mapping[str, str]) -> dict[str, Any]:
    """The filters as the store takes them; an empty field filters nothing."""
    wanted: dict[str, Any] = {name: value for name, value in filters.items() if value and name not in {"held", "label"}}
    wanted["owner"] = caller.owner_for(filters["owner"] or None)
    if filters["held"] in {"true", "false"}:
        wanted["held"] = filters["held"] == "true"
    if filters["label"]:
        name, equals, value = filters["label"].partition("=")
        wanted["label"] = (name, value) if equals else name
    return wanted


def _query(filters: Mapping[str, str]) -> str:
    return urlencode({name: value for name, value in filters.items() if value})


@routes.post("/jobs/act")
def act_on_all(
    request: Request, face: Face, caller: Operator, control: Annotated[str, Form()], reason: Annotated[str, Form()]
) -> Response:
    """Ask one control of all jobs that match the filters in the address, with one reason."""
    if control not in ACTS:
        raise HttpProblemError("not_found", "there is no such control for many jobs")
    filters = {name: request.query_params.get(name, "") for name in FILTERS}
    page = face.store.jobs(**_wanted(caller, filters), limit=ACT_MAX)
    accepted: list[str] = []
    refused: list[tuple[str, str, str]] = []
    for job in page.jobs:
        try:
            getattr(face.store, control)(
                job.job_id, by=caller.name, reason=reason, expected_sequence=job.control_sequence
            )
            accepted.append(job.job_id)
        except JobledgerError as error:
            refused.append((job.job_id, error.code, str(error)))
    return rendering.page(
        request,
        "acted.html",
        caller=caller,
        page="Jobs",
        control=control,
        reason=reason,
        accepted=accepted,
        refused=refused,
        has_more=page.next_cursor is not None,
        query=_query(filters),
    )
