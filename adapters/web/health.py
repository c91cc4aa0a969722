"""Where machines look: whether the process answers, and whether the store does."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel

from jobledger.adapters.web.service import Face
from jobledger.domain.errors import JobledgerError

routes = APIRouter(tags=["health"])


class Health(BaseModel):
    """``ok``, or ``unavailable``."""

    status: Literal["ok", "unavailable"]


@routes.get("/healthz")
async def healthz() -> Health:
    """Whether the process answers."""
    return Health(status="ok")


@routes.get("/readyz", responses={503: {"model": Health, "description": "The store does not answer."}})
def readyz(face: Face, response: Response) -> Health:
    """Whether the store answers."""
    try:
        face.store.epoch("default")
    except JobledgerError:
        response.status_code = 503
        return Health(status="unavailable")
    return Health(status="ok")
