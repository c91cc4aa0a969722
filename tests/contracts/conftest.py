"""The stores that the suite runs over; a further store is one more line in ``STORES``.

``remote`` is a store in memory behind a real HTTP server: the same behaviour, over the wire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest
from fastapi import FastAPI

from jobledger import JobStore, ManualClock, Policy
from jobledger.adapters.remote import RemoteStore
from jobledger.adapters.storage.entropy import SystemEntropy
from jobledger.adapters.web import create_app
from jobledger.adapters.web.streaming import Hub
from jobledger.domain.store import Setting
from tests.postgresql.stores import WatchedClock, dropped, fresh_url, lent
from tests.web.serving import serving

POLICIES = {
    "quick": Policy(lease=2),
    "fragile": Policy(lease=2, interrupts_max=2, failures_max=2),
    "stepwise": Policy(window_events_max=40),
    "narrow": Policy(window_events_max=20),
    "small": Policy(payload_bytes_max=64, checkpoint_bytes_max=64, result_bytes_max=64, receipt_bytes_max=64),
    "forgetful": Policy(checkpoints_keep=2),
    "shallow": Policy(queue_depth_max=2),
}


def _lent(_: Path, clock: ManualClock) -> JobStore:
    return JobStore(Setting(lent(clock), SystemEntropy(), policies=POLICIES))


STORES: dict[str, Callable[[Path, ManualClock], JobStore]] = {
    "memory": lambda _, clock: JobStore.open("memory:", clock=clock, policies=POLICIES),
    "sqlite": lambda folder, clock: JobStore.open(f"sqlite:///{folder / 'jobs.db'}", clock=clock, policies=POLICIES),
    "postgresql": _lent,
}
REMOTE = "remote"


@pytest.fixture
def clock() -> WatchedClock:
    """The store's time, which only the test moves."""
    return WatchedClock(datetime(2026, 6, 1, 12, tzinfo=UTC))


@pytest.fixture(scope="session")
def server() -> Iterator[tuple[FastAPI, str]]:
    """The web face of a store that each test exchanges, and its address."""
    with JobStore.open("memory:") as nothing:
        face = create_app(nothing)
        with serving(face) as address:
            yield face, address


@pytest.fixture(params=STORES)
def local_store(request: pytest.FixtureRequest, tmp_path: Path, clock: WatchedClock) -> Iterator[JobStore]:
    """An empty store of each kind that lives in this process, for what is built around one."""
    with STORES[request.param](tmp_path, clock) as opened:
        yield opened


@pytest.fixture(params=[*STORES, REMOTE])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: WatchedClock) -> Iterator[JobStore]:
    """An empty store of each kind."""
    if request.param != REMOTE:
        with STORES[request.param](tmp_path, clock) as opened:
            yield opened
        return
    with STORES["memory"](tmp_path, clock) as opened:
        face, address = request.getfixturevalue("server")
        face.state.service = replace(face.state.service, store=opened, hub=Hub(opened, face.state.service.settings))
        with RemoteStore(address) as remote:
            yield cast("JobStore", remote)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store that several processes can share: a file, or a schema on a server."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'jobs.db'}"
        return
    made = fresh_url()
    JobStore.open(made, migrate=True).close()
    yield made
    dropped(made)


LEASE = timedelta(seconds=30)
"""The default policy's lease."""
