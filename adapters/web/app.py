"""The web face as an ASGI app: served by itself, or mounted under a prefix in an app of the user's own."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI
from fastapi.routing import APIRoute

from jobledger.adapters.web import health, metrics, refusing
from jobledger.adapters.web.access import Resolver, open_to_anybody
from jobledger.adapters.web.api import controlling, creating, projecting, queueing, reading, scheduling, working
from jobledger.adapters.web.dashboard import job_pages, list_pages, login, queue_pages, schedule_pages, watch_pages
from jobledger.adapters.web.dashboard.rendering import assets
from jobledger.adapters.web.guarding import Gate
from jobledger.adapters.web.service import Service
from jobledger.adapters.web.settings import WebSettings
from jobledger.adapters.web.streaming import Hub

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from jobledger.adapters.bootstrap import JobStore
    from jobledger.adapters.web.tokens import TokenFile

API = "/api/v1"
DESCRIPTION = """Durable jobs: create them, follow them, act on them, and work on them.

Every refusal is a problem document (RFC 9457): its `code` never changes its meaning, its `next_step` says what to do.
A `POST` that is repeated with its `Idempotency-Key` or `Command-Id` is answered from what the first one did.
"""


def create_app(
    store: JobStore,
    *,
    settings: WebSettings | None = None,
    resolver: Resolver | None = None,
    tokens: TokenFile | None = None,
) -> FastAPI:
    """Make the web face of a store.

    Args:
        store: it stays the caller's to close, after the app has ended.
        settings: limits and names; the default answers to the loopback address only.
        resolver: tells who sends a request, for the user's own way to know it.
        tokens: those that callers must have, where there is no resolver. Without both, everybody who can reach the
            server may do everything.

    Returns:
        An ASGI app. Mounted in another app, everything it links to stays under its prefix.
    """
    known = settings or WebSettings()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        yield
        await hub.close()

    app = FastAPI(
        title="jobledger",
        version="1",
        description=DESCRIPTION,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,  # they load scripts from other hosts
        redoc_url=None,
        lifespan=lifespan,
        generate_unique_id_function=_named_by_its_function,
    )
    hub = Hub(store, known)
    who = resolver or (tokens.resolve if tokens else open_to_anybody)
    app.state.service = Service(store, known, who, hub)
    app.state.tokens = tokens if resolver is None else None
    app.add_middleware(Gate, settings=known, answers=app.state.service.answers)
    refusing.install(app)
    for module in (creating, reading, controlling, scheduling, queueing, projecting, working):
        app.include_router(module.routes, prefix=API)
    app.include_router(health.routes)
    app.include_router(metrics.routes)
    if known.has_dashboard:
        app.mount("/static", assets(), name="static")
        app.include_router(list_pages.routes)
        app.include_router(watch_pages.routes)
        app.include_router(job_pages.routes)
        app.include_router(schedule_pages.routes)
        app.include_router(queue_pages.routes)
        app.include_router(login.routes)
    return app


def _named_by_its_function(route: APIRoute) -> str:
    return route.name
