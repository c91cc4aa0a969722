"""The web face as an ASGI app: served by itself, or mounted under a prefix in an app of the user's own."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI
from fastapi.routing import APIRoute

from jobledger.adapters.web import refusing
from jobledger.adapters.web.access import Resolver, open_to_anybody
from jobledger.adapters.web.api import controlling, creating, reading, working
from jobledger.adapters.web.guarding import Gate
from jobledger.adapters.web.service import Service
from jobledger.adapters.web.settings import WebSettings
from jobledger.adapters.web.streaming import Hub

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from jobledger.adapters.bootstrap import JobStore

API = "/api/v1"
DESCRIPTION = """Durable jobs: create them, follow them, act on them, and work on them.

Every refusal is a problem document (RFC 9457): its `code` never changes its meaning, its `next_step` says what to do.
A `POST` that is repeated with its `Idempotency-Key` or `Command-Id` is answered from what the first one did.
"""


def create_app(store: JobStore, *, settings: WebSettings | None = None, resolver: Resolver | None = None) -> FastAPI:
    """Make the web face of a store.

    Args:
        store: it stays the caller's to close, after the app has ended.
        settings: limits and names; the default answers to the loopback address only.
        resolver: tells who sends a request; ``None`` lets everybody who can reach the server do everything.

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
    app.state.service = Service(store, known, resolver or open_to_anybody, hub)
    app.add_middleware(Gate, settings=known)
    refusing.install(app)
    for module in (creating, reading, controlling, working):
        app.include_router(module.routes, prefix=API)
    return app


def _named_by_its_function(route: APIRoute) -> str:
    return route.name
