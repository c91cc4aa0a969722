"""Routes to what the feed was folded into; each answer says how far it has read."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query

from jobledger.adapters.web.access import Admin, Reader
from jobledger.adapters.web.api.parameters import Cursor, Limit, OptionalName, router
from jobledger.adapters.web.refusing import documented
from jobledger.adapters.web.service import Face
from jobledger.adapters.wire.projections import (
    OperatorsOut,
    PacesOut,
    ProjectionIn,
    ProjectionOut,
    ProjectionsOut,
    TotalsOut,
    WorkersOut,
)
from jobledger.projections.projected import PACES_MAX

routes = router("projections")


@routes.get("/totals", responses=documented(409))
def read_totals(
    face: Face,
    caller: Reader,
    owner: OptionalName = None,
    queue: OptionalName = None,
    kind: OptionalName = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> TotalsOut:
    """What was created, stands where, ended how and took how long, by queue and kind."""
    whose = caller.owner_for(owner)
    return TotalsOut.of(face.store.totals(owner=whose, queue=queue, kind=kind, cursor=cursor, limit=limit))


@routes.get("/totals/paces", responses=documented(409))
def read_paces(
    face: Face,
    caller: Reader,
    per: Literal["minute", "day"] = "minute",
    last: Annotated[int, Query(ge=1, le=max(PACES_MAX.values()), description="How many minutes or days.")] = 60,
    owner: OptionalName = None,
    queue: OptionalName = None,
    kind: OptionalName = None,
) -> PacesOut:
    """What happened in each of the last minutes or days; those in which nothing did are left out."""
    whose = caller.owner_for(owner)
    return PacesOut.of(face.store.paces(per=per, last=last, owner=whose, queue=queue, kind=kind))


@routes.get("/workers", responses=documented(409))
def list_workers(
    face: Face,
    caller: Reader,
    owner: OptionalName = None,
    holding: bool | None = None,  # noqa: FBT001  # a filter, given by its name
    cursor: Cursor = None,
    limit: Limit = 50,
) -> WorkersOut:
    """Who holds which leases and until when, what became of their attempts, and which leases they lost."""
    whose = caller.owner_for(owner)
    return WorkersOut.of(face.store.workers(owner=whose, holding=holding, cursor=cursor, limit=limit))


@routes.get("/operators", responses=documented(409))
def list_operators(
    face: Face,
    caller: Reader,
    owner: OptionalName = None,
    by: OptionalName = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> OperatorsOut:
    """Who asked what of which job, schedule or group, and why; the newest first."""
    whose = caller.owner_for(owner)
    return OperatorsOut.of(face.store.operators(owner=whose, by=by, cursor=cursor, limit=limit))


@routes.get("/projections", responses=documented())
def list_projections(face: Face, caller: Reader) -> ProjectionsOut:
    """How far each projection has read, and what is behind it. For tokens of every owner."""
    caller.require_every_owner()
    return ProjectionsOut(projections=[ProjectionOut.of(each) for each in face.store.projections()])


@routes.post("/projections/run", responses=documented())
def run_projections(face: Face, _: Admin, asked: ProjectionIn) -> ProjectionsOut:
    """Fold what the feed has, into every projection or one."""
    return ProjectionsOut(projections=[ProjectionOut.of(each) for each in face.store.run_projections(asked.projection)])


@routes.post("/projections/release", responses=documented())
def release_projection(face: Face, _: Admin, asked: ProjectionIn) -> ProjectionOut:
    """Let a parked projection read on, from the event that it was parked at."""
    return ProjectionOut.of(face.store.release_projection(asked.projection or ""))
