"""Stores as the contracts have them, and stores whose writes a test holds back and delivers later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobledger import JobStore, ManualClock
from jobledger.adapters.storage.entropy import SystemEntropy
from jobledger.adapters.storage.memory import MemoryStorage
from jobledger.adapters.storage.sqlite import SQLiteStorage
from jobledger.domain.ports import Append, Storage
from jobledger.domain.store import Setting
from jobledger.domain.store.base import PATIENCE
from tests.contracts.conftest import POLICIES, clock, local_store, server, store
from tests.contracts.faults import CatchingStorage, CaughtError

__all__ = ["clock", "local_store", "server", "store"]  # fixtures, which pytest finds here


class Delayed:
    """A store, and the power to hold a write back between its decision and its transaction."""

    def __init__(self, inner: Storage) -> None:
        """Stand before a storage."""
        self._catching = CatchingStorage(inner)
        self.store = JobStore(Setting(self._catching, SystemEntropy(), policies=POLICIES))

    def held_back(self, call: Callable[[], object]) -> tuple[Append, ...]:
        """What a call was about to write; nothing of it is written."""
        self._catching.is_catching = True
        try:
            with pytest.raises(CaughtError) as caught:
                call()
        finally:
            self._catching.is_catching = False
        return caught.value.appends

    def deliver(self, appends: tuple[Append, ...]) -> list[str | None]:
        """Write it now; answers the precondition that failed, for each."""
        with self._catching.inner.writing(PATIENCE) as session:
            return session.append(list(appends))


def _sqlite(folder: Path, clock: ManualClock) -> SQLiteStorage:
    storage = SQLiteStorage(folder / "delayed.db", clock=clock)
    storage.migrate()
    return storage


@pytest.fixture(params=["memory", "sqlite"])
def delayed(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Delayed]:
    """Delayed writes over each kind of store."""
    inner = MemoryStorage(clock=clock) if request.param == "memory" else _sqlite(tmp_path, clock)
    delayed = Delayed(inner)
    yield delayed
    delayed.store.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a store in a file lives."""
    return tmp_path / "jobs.db"


@pytest.fixture
def sqlite(file: Path, clock: ManualClock) -> Iterator[JobStore]:
    """An empty store in a file."""
    with JobStore.open(f"sqlite:///{file}", clock=clock, policies=POLICIES) as opened:
        yield opened
