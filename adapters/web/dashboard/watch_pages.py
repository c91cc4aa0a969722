"""The pages that watch over the whole: workers and their leases, the operators' log, and the system itself."""

from __future__ import annotations

import platform
from collections import defaultdict
from importlib.metadata import version
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import Query, Request
from starlette.responses import Response

from jobledger.adapters.terminal.texts import many
from jobledger.adapters.web.access import Principal, Reader
from jobledger.adapters.web.dashboard import rendering
from jobledger.adapters.web.service import Face, Service
from jobledger.domain.bounds import NAME_CHARACTERS_MAX
from jobledger.domain.job import State
from jobledger.projections.cursors import CURSOR_CHARACTERS_MAX

routes = rendering.router()

WORKED_MAX: Final = 200
SEEN: Final = 50
ASKED: Final = 100
Cursor = Annotated[str, Query(max_length=CURSOR_CHARACTERS_MAX)]
Name = Annotated[str, Query(max_length=NAME_CHARACTERS_MAX)]


@routes.get("/workers")
def workers_page(request: Request, face: Face, caller: Reader, cursor: Cursor = "") -> Response:
    """Who holds a lease now and until when, by the jobs themselves; and what became of each worker's attempts."""
    found = face.store.jobs(owner=caller.owner, state=State.RUNNING, limit=WORKED_MAX)
    by_worker: defaultdict[str, list[Any]] = defaultdict(list)
    for job in found.jobs:
        if job.lease is not None:
            by_worker[job.lease.worker].append(job)
    return rendering.page(
        request,
        "workers.html",
        caller=caller,
        page="Workers",
        workers=sorted(by_worker.items()),
        has_more=found.next_cursor is not None,
        most=WORKED_MAX,
        seen=face.store.workers(owner=caller.owner, cursor=cursor or None, limit=SEEN),
        cursor=cursor,
    )


@routes.get("/operators")
def operators_page(request: Request, face: Face, caller: Reader, by: Name = "", cursor: Cursor = "") -> Response:
    """Who asked what, and why; of all operators or of one."""
    found = face.store.operators(owner=caller.owner, by=by or None, cursor=cursor or None, limit=ASKED)
    query = urlencode({"by": by}) if by else ""
    return rendering.page(
        request, "operators.html", caller=caller, page="Operators", found=found, by=by, cursor=cursor, query=query
    )


@routes.get("/system")
def system_page(request: Request, face: Face, caller: Reader) -> Response:
    """Versions, sizes, how far the projections have read, and where machines look."""
    projections = face.store.projections() if caller.owner is None else ()
    facts = _facts(face, caller)
    return rendering.page(request, "system.html", caller=caller, page="System", facts=facts, projections=projections)


def _facts(face: Service, caller: Principal) -> list[tuple[str, str]]:
    counts = face.store.counts(owner=caller.owner)
    facts = [
        ("jobledger", version("jobledger")),
        ("Python", platform.python_version()),
        ("namespace", face.store.namespace),
        ("jobs", many(sum(counts.values()), "job")),
        ("policies", ", ".join(face.store.policies)),
        ("open streams of this process", f"{face.hub.listening:,} of {face.settings.streams_max:,}"),
    ]
    if caller.owner is None:
        survey = face.store.survey()
        facts.append(("leases", f"{survey.running:,} running, {survey.abandoned:,} abandoned"))
    return facts
