"""A store in memory behind a real server, and clients that call it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from jobledger import JobStore, ManualClock, Policy
from jobledger.adapters.web import Principal, WebSettings, create_app
from jobledger.adapters.web.streaming import Hub
from tests.web.serving import serving

API = "/api/v1"


@pytest.fixture
def clock() -> ManualClock:
    """The store's time, which only the test moves."""
    return ManualClock(datetime(2026, 6, 1, 12, tzinfo=UTC))


@pytest.fixture
def store(clock: ManualClock) -> Iterator[JobStore]:
    """An empty store."""
    policies = {"narrow": Policy(window_events_max=20), "small": Policy(payload_bytes_max=64)}
    with JobStore.open("memory:", clock=clock, policies=policies) as opened:
        yield opened


@pytest.fixture(scope="session")
def face() -> Iterator[tuple[FastAPI, str]]:
    """A web face and its address; each test exchanges the store and who may ask."""
    with JobStore.open("memory:") as nothing:
        app = create_app(nothing, settings=WebSettings(body_bytes_max=1_000_000, body_seconds_max=1.0))
        with serving(app) as address:
            yield app, address


Serve = Callable[..., httpx.Client]


@pytest.fixture
def serve(face: tuple[FastAPI, str], store: JobStore) -> Iterator[Serve]:
    """Serve the store on some terms; answers a client."""
    app, address = face
    clients: list[httpx.Client] = []

    def begin(
        *, principal: Principal | None = None, headers: dict[str, str] | None = None, **settings: Any
    ) -> httpx.Client:
        known = replace(WebSettings(body_bytes_max=1_000_000), **settings)
        whoever = principal or Principal("operator")
        app.state.service = replace(
            app.state.service, store=store, settings=known, resolver=lambda _: whoever, hub=Hub(store, known)
        )
        client = httpx.Client(base_url=address + API, headers=headers, timeout=20)
        clients.append(client)
        return client

    yield begin
    for client in clients:
        client.close()


@pytest.fixture
def web(serve: Serve) -> httpx.Client:
    """A client of a face that lets everybody do everything."""
    return serve()


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Require that an answer is this problem; answers the document."""
    assert response.headers["content-type"] == "application/problem+json", response.text[:500]
    document: dict[str, Any] = response.json()
    assert (response.status_code, document["code"]) == (status, code), document
    assert document["status"] == status
    assert document["next_step"]
    return document
