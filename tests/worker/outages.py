"""A storage that is taken down by a test, so that every call fails until it is brought up again."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta

from jobledger.adapters.storage.clocks import SystemClock
from jobledger.adapters.storage.memory import MemoryStorage
from jobledger.domain.errors import OutcomeUnknownError, StoreUnavailableError
from jobledger.domain.ports import Reader, Session, Storage


class FragileStorage:
    """A storage in memory that a test takes down; ``refused`` is set when a call met the outage."""

    def __init__(self) -> None:
        self.inner: Storage = MemoryStorage(clock=SystemClock())
        self.is_down = False
        self.replies_to_lose = 0
        self.refused = threading.Event()

    def reading(self) -> AbstractContextManager[Reader]:
        """A view, unless the store is down."""
        self._require_up()
        return self.inner.reading()

    def writing(self, patience: timedelta, connection: object | None = None) -> AbstractContextManager[Session]:
        """A transaction, unless the store is down; its reply may be lost."""
        self._require_up()
        return self._writing(patience, connection)

    @contextmanager
    def _writing(self, patience: timedelta, connection: object | None) -> Generator[Session]:
        with self.inner.writing(patience, connection) as session:
            yield session
        if self.replies_to_lose:
            self.replies_to_lose -= 1
            reason = "the reply was lost by the test"
            raise OutcomeUnknownError(reason)

    def wait(self, timeout: timedelta) -> None:
        """Wait as a store that is up."""
        self.inner.wait(timeout)

    def close(self) -> None:
        """Close what is behind it."""
        self.inner.close()

    def _require_up(self) -> None:
        if self.is_down:
            self.refused.set()
            reason = "it was taken down by the test"
            raise StoreUnavailableError(reason)
