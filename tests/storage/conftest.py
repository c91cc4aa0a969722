"""Empty stores, and a clock that only the test moves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobledger.adapters.storage.clocks import ManualClock
from jobledger.adapters.storage.memory import MemoryStorage
from jobledger.adapters.storage.sqlite import SQLiteStorage
from tests.storage.given import NOON


@pytest.fixture
def clock() -> ManualClock:
    """The store's time."""
    return ManualClock(NOON)


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


@pytest.fixture(params=["memory", "sqlite"])
def storage(request: pytest.FixtureRequest) -> MemoryStorage | SQLiteStorage:
    """An empty store of each kind."""
    chosen: MemoryStorage | SQLiteStorage = request.getfixturevalue(request.param)
    return chosen
