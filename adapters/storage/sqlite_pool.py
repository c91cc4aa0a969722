"""The connections of one process to one SQLite file: readers that never wait for a writer, one writer, safe forks."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from typing import Final

from eventsourcing.persistence import ConnectionPoolClosedError, ConnectionUnavailableError, InterfaceError
from eventsourcing.sqlite import SQLiteConnection, SQLiteConnectionPool
from typing_extensions import override

from jobledger.adapters.storage.sqlite_connecting import OpenedFile, SQLiteLedgerConnection, connect
from jobledger.domain.errors import InvalidRequestError

WRITE_PATIENCE_SECONDS: Final = 30.0
"""How long the library's recorders wait for their turn to write when nobody says otherwise."""

FORK_PATIENCE_SECONDS: Final = 5.0
"""How long a fork waits for open transactions of other threads."""

_IDLE_MAX: Final = 16


class SQLiteLedgerPool(SQLiteConnectionPool):
    """Hands out connections: to readers at once, to writers one after the other.

    SQLite keeps the locks of a process in memory, where a fork copies them: a child that meets an inherited connection
    takes its parent's locks for its own, and reads without any. So everything idle is closed before a fork, and a child
    that was forked in the middle of a transaction is refused this store.
    """

    def __init__(self, db_name: str, *, lock_timeout: int | None = None) -> None:
        """Open nothing yet; ``lock_timeout`` are the seconds that a writer waits for its turn."""
        super().__init__(db_name=db_name, lock_timeout=lock_timeout)
        self.write_patience = float(lock_timeout or WRITE_PATIENCE_SECONDS)
        self._file: OpenedFile | None = None
        self._start_afresh()
        _forks.watch(self)

    def _start_afresh(self) -> None:
        self._state = threading.Condition()
        self._lent: dict[object, int] = {}
        self._idle: list[SQLiteLedgerConnection] = []
        self._turn = threading.Lock()
        self._turn_of: int | None = None
        self._writer: SQLiteLedgerConnection | None = None
        self._is_forking = False
        self._inherited: list[object] = []

    @override
    def get_connection(self, timeout: float | None = None, *, is_writer: bool | None = None) -> SQLiteLedgerConnection:
        """Lend a connection: for reading at once, for writing once the last writer has given its own back.

        Raises:
            ConnectionUnavailableError: the writer's turn did not come within ``timeout`` seconds.
            InterfaceError: the file cannot be opened, or this process was forked in the middle of a transaction.
            InvalidRequestError: this thread is writing already; its turn would never come.
        """
        if is_writer:
            self._take_turn(self.write_patience if timeout is None else max(timeout, 0))
        try:
            connection = self._lend(is_writer=bool(is_writer))
        except BaseException:
            if is_writer:
                self._end_turn()
            raise
        connection.is_writer = bool(is_writer)
        return connection

    def _take_turn(self, patience: float) -> None:
        here = threading.get_ident()
        if (here, self.db_name) in _writing:
            problem = "this thread is in a transaction of the same store; write after it has ended"
            raise InvalidRequestError("inside", problem)
        if not self._turn.acquire(timeout=patience):
            msg = "another thread has been writing all the time"
            raise ConnectionUnavailableError(msg)
        self._turn_of = here
        _writing.add((here, self.db_name))

    def _end_turn(self) -> None:
        if self._turn_of is not None:
            _writing.discard((self._turn_of, self.db_name))
        self._turn_of = None
        self._turn.release()

    def _lend(self, *, is_writer: bool) -> SQLiteLedgerConnection:
        with self._state:
            while self._is_forking:
                self._state.wait()
            self._require_usable()
            connection = self._take_idle(is_writer=is_writer)
            place = connection or object()
            self._lent[place] = threading.get_ident()
        return connection or self._open_at(place)

    def _open_at(self, place: object) -> SQLiteLedgerConnection:
        """Open a connection and put it in its place; nobody waits for that, and a fork waits for it."""
        try:
            connection = self._create_connection()
        except BaseException:
            with self._state:
                del self._lent[place]
                self._state.notify_all()
            raise
        with self._state:
            self._lent[connection] = self._lent.pop(place)
        return connection

    def _require_usable(self) -> None:
        if self._closed:
            raise ConnectionPoolClosedError
        if self._inherited:
            msg = "this process was forked in the middle of a transaction; fork at a quiet moment, or spawn"
            raise InterfaceError(msg)

    def _take_idle(self, *, is_writer: bool) -> SQLiteLedgerConnection | None:
        if is_writer:
            connection, self._writer = self._writer, None
            return connection
        return self._idle.pop() if self._idle else None

    @override
    def put_connection(self, conn: SQLiteConnection) -> None:
        """Take a connection back; one that is still in a transaction is closed, which rolls it back."""
        assert isinstance(conn, SQLiteLedgerConnection)  # noqa: S101  # this pool lends no other
        with self._state:
            if self._lent.pop(conn, None) is None:
                return  # lent before a fork: it belongs to the parent, and its locks too
            is_writer, conn.is_writer = bool(conn.is_writer), None
            try:
                self._keep_or_close(conn, is_writer=is_writer)
            finally:
                self._state.notify_all()
                if is_writer:
                    self._end_turn()

    def _keep_or_close(self, connection: SQLiteLedgerConnection, *, is_writer: bool) -> None:
        is_usable = connection.is_reusable and not self._closed
        if is_usable and is_writer:
            self._writer = connection
        elif is_usable and len(self._idle) < _IDLE_MAX:
            self._idle.append(connection)
        else:
            connection.close()

    @override
    def _create_connection(self) -> SQLiteLedgerConnection:
        """Open the file; after the first time, only that same one: no other is made or taken in its place."""
        try:
            if self._file is not None:
                self._file.require_in_place()
            connection = connect(self.db_name)
        except sqlite3.Error as error:
            raise InterfaceError(error) from error
        self._file = self._file or connection.file
        return connection

    @override
    def close(self) -> None:
        """Close what is idle; a connection that is lent is closed when it comes back."""
        if hasattr(self, "_state"):
            with self._state:
                self._closed = True
                self._close_idle()

    def _close_idle(self) -> None:
        idle = [*self._idle, self._writer]
        self._idle, self._writer = [], None
        for connection in idle:
            if connection is not None:
                connection.close()

    def before_fork(self) -> None:
        """Lend nothing, wait until other threads have ended their transactions, and close everything."""
        self._state.acquire()
        self._is_forking = True
        deadline = time.monotonic() + FORK_PATIENCE_SECONDS
        while self._is_lent_to_others() and (left := deadline - time.monotonic()) > 0:
            self._state.wait(left)
        self._close_idle()

    def _is_lent_to_others(self) -> bool:
        return any(thread != threading.get_ident() for thread in self._lent.values())

    def after_fork_in_parent(self) -> None:
        """Lend again."""
        self._is_forking = False
        self._state.notify_all()
        self._state.release()

    def after_fork_in_child(self) -> None:
        """Start over with connections of one's own, unless a transaction was inherited half-way."""
        inherited = list(self._lent)
        self._start_afresh()
        self._inherited = inherited  # kept for good: closing them here would touch the parent's locks


_writing: set[tuple[int, str]] = set()
"""Which threads have the turn to write, and of which file."""


class _Forks:
    """Takes every pool through a fork; when several threads fork, one after the other."""

    def __init__(self) -> None:
        self._pools: weakref.WeakSet[SQLiteLedgerPool] = weakref.WeakSet()
        self._stopped: list[SQLiteLedgerPool] = []
        self._start_afresh()

    def _start_afresh(self) -> None:
        self._turn = threading.Lock()
        self._watching = threading.Lock()

    def watch(self, pool: SQLiteLedgerPool) -> None:
        """Take a new pool through all forks that come."""
        with self._watching:
            self._pools.add(pool)

    def before(self) -> None:
        """Stop every pool; waiting for one lets other threads run, and a second fork must not overtake this one."""
        self._turn.acquire()
        with self._watching:
            self._stopped = list(self._pools)
        for pool in self._stopped:
            pool.before_fork()

    def after_in_parent(self) -> None:
        """Let every pool that was stopped go on, and the next fork begin."""
        stopped, self._stopped = self._stopped, []
        for pool in stopped:
            pool.after_fork_in_parent()
        self._turn.release()

    def after_in_child(self) -> None:
        """Start every pool over, with locks that no thread of the parent holds."""
        stopped, self._stopped = self._stopped, []
        self._start_afresh()
        _writing.clear()
        for pool in stopped:
            pool.after_fork_in_child()


_forks: Final = _Forks()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_forks.before, after_in_parent=_forks.after_in_parent, after_in_child=_forks.after_in_child
    )
