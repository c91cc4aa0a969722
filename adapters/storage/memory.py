"""Jobs in the memory of one process: for tests, simulations, and work that may be forgotten."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jobledger.adapters.storage.memory_finding import MemoryFinder
from jobledger.adapters.storage.memory_recorders import MemoryLedgerFactory, MemoryLedgerRecorder
from jobledger.adapters.storage.memory_session import MemorySession
from jobledger.adapters.storage.memory_tables import Committed, Draft
from jobledger.domain.errors import InvalidRequestError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Generator
    from datetime import timedelta

    from jobledger.domain.ports import Clock

__all__ = ["MemoryLedgerFactory", "MemoryStorage"]


class MemoryStorage:
    """A store that ends with its process; any number of threads may read while one writes."""

    def __init__(self, *, clock: Clock) -> None:
        """Start empty."""
        self.clock = clock
        self.recorder = MemoryLedgerRecorder()
        self._rows = Committed(self.recorder.lock)
        self._is_closed = False

    @contextmanager
    def reading(self) -> Generator[MemoryFinder]:
        """A consistent view: as of its beginning, whatever is written meanwhile.

        Raises:
            StoreUnavailableError: the store was closed.
        """
        self._require_open()
        with self.recorder.lock:
            view = self._rows.open_view()
            upto = self.recorder.last_position
        try:
            yield MemoryFinder(view, self.recorder, upto, self.clock)
        finally:
            self._rows.close_view(view)

    @contextmanager
    def writing(self, patience: timedelta, connection: object | None = None) -> Generator[MemorySession]:
        """A session; what it writes is seen by nobody before its block ends without an exception.

        Raises:
            StoreUnavailableError: another session did not end within ``patience``, or the store was closed.
            InvalidRequestError: a caller's connection was given, which a store in memory has not; or this thread is in
                another session.
        """
        if connection is not None:
            raise InvalidRequestError("connection", "a store in memory has no connections; leave the argument out")
        self._require_open()
        if self.recorder.turn_of == threading.get_ident():
            problem = "this thread is in a transaction of the same store; write after it has ended"
            raise InvalidRequestError("inside", problem)
        if not self.recorder.turn.acquire(timeout=max(patience.total_seconds(), 0)):
            reason = "another session has been open all the time"
            raise StoreUnavailableError(reason)
        try:
            self.recorder.turn_of = threading.get_ident()
            session = MemorySession(Draft(self._rows), self.recorder, self.clock)
            yield session
            session.commit(self._rows)
        finally:
            self.recorder.turn_of = None
            self.recorder.turn.release()

    def _require_open(self) -> None:
        if self._is_closed:
            reason = "this store was closed"
            raise StoreUnavailableError(reason)

    def wait(self, timeout: timedelta) -> None:
        """Return when something may have been appended, at the latest after ``timeout``."""
        self.recorder.changes.wait(timeout.total_seconds())

    def close(self) -> None:
        """Refuse everything from now on; what was kept goes with the object."""
        self._is_closed = True
