"""Empty stores, and a clock that only the test moves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobledger.adapters.storage.clocks import ManualClock
from jobledger.adapters.storage.memory import MemoryStorage
from jobledger.adapters.storage.postgresql import PostgreSQLStorage
from jobledger.adapters.storage.sqlite import SQLiteStorage
from tests.postgresql.stores import WatchedClock, lent
from tests.storage.given import NOON


@pytest.fixture
def clock() -> ManualClock:
    """The store's time."""
    return WatchedClock(NOON)


@pytest.fixture
def sqlite(tmp_path: Path, clock: ManualClock) -> Iterator[SQLiteStorage]:
    """An empty SQLite store."""
    storage = SQLiteStorage(tmp_path / "jobs.db", clock=clock)
    storage.migrate()
    yield storage
    storage.close()


@pytest.fixture
def memory(clock: ManualClock) -> MemoryStorage:
    """An empty store in memory."""
    return MemoryStorage(clock=clock)


@pytest.fixture
def postgresql(clock: ManualClock) -> Iterator[PostgreSQLStorage]:
    """An empty PostgreSQL store."""
    storage = lent(clock)
    yield storage
    storage.close()


@pytest.fixture(params=["memory", "sqlite"])
def embedded(request: pytest.FixtureRequest) -> MemoryStorage | SQLiteStorage:
    """An empty store of each kind that needs no server."""
    chosen: MemoryStorage | SQLiteStorage = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def storage(request: pytest.FixtureRequest) -> MemoryStorage | PostgreSQLStorage | SQLiteStorage:
    """An empty store of each kind."""
    chosen: MemoryStorage | PostgreSQLStorage | SQLiteStorage = request.getfixturevalue(request.param)
    return chosen
