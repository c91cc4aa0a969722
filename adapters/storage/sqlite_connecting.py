"""One connection to an SQLite file: how it is opened, and how it waits for its turn to write."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import sqlite3
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from eventsourcing.persistence import InterfaceError, OperationalError
from eventsourcing.sqlite import SQLiteConnection, SQLiteCursor, SQLiteTransaction
from typing_extensions import override

from jobledger.adapters.storage.sqlite_errors import is_busy

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import TracebackType

READ_PATIENCE_SECONDS: Final = 10.0
"""How long a reader waits in the rare moments when WAL makes one wait: recovery, and the last closing of a file."""

_BACKOFF_FIRST_SECONDS: Final = 0.001
_BACKOFF_MAX_SECONDS: Final = 0.025
_SYNCHRONOUS_FULL: Final = 2
_WAL_BYTES_KEPT: Final = 64 * 1024 * 1024
_STATEMENTS_CACHED: Final = 256


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """Which file a path led to when it was opened: what is written into another one would be lost."""

    path: str
    identity: tuple[int, int] | None

    @classmethod
    def at(cls, path: str) -> OpenedFile:
        """The file that a path leads to now, if any."""
        try:
            found = os.stat(path)  # noqa: PTH116  # before each transaction: a Path would cost more than the question
        except OSError:
            return cls(path, None)
        return cls(path, (found.st_dev, found.st_ino))

    def require_in_place(self) -> None:
        """Require that the path still leads to this file.

        Raises:
            sqlite3.OperationalError: it leads to none, or to another one.
        """
        if self.identity is None or OpenedFile.at(self.path) != self:
            problem = "the file was removed or replaced while it was open; put it back, or restart with the new one"
            raise sqlite3.OperationalError(problem)


class SQLiteLedgerConnection(SQLiteConnection):
    """A connection whose writing transactions begin with the lock in hand, so that none fails half-way."""

    def __init__(self, sqlite_conn: sqlite3.Connection, file: OpenedFile, max_age: float | None = None) -> None:
        """Own an open connection to ``file``; it is this process's only, and not that of a fork."""
        super().__init__(sqlite_conn, max_age)
        self.file = file
        self.is_spent = False
        self._process = os.getpid()
        self._is_writer_set_up = False

    @property
    def is_inherited(self) -> bool:
        """Whether another process opened this connection, before it forked this one; then it must not be touched."""
        return self._process != os.getpid()

    def end(self) -> None:
        """Roll back what is still open; after an error SQLite may have done so by itself."""
        if not self.is_inherited and in_transaction(self.raw):
            with contextlib.suppress(sqlite3.Error):
                self.raw.execute("ROLLBACK")

    @override
    def _close(self) -> None:
        """Close it, and with it a transaction that could not be rolled back.

        SQLite keeps a closed connection, and its locks, for as long as one of its statements is left; a cursor has one,
        and may live on in a caller's hands or in the traceback of an error.
        """
        if not self.is_inherited and in_transaction(self.raw):
            for cursor in gc.get_referrers(self.raw):
                if issubclass(type(cursor), sqlite3.Cursor):
                    with contextlib.suppress(sqlite3.Error):
                        cursor.close()
        super()._close()

    @property
    def is_reusable(self) -> bool:
        """Whether others may use it: it is open, ended its transaction, and nothing is known against it."""
        return not (self.is_spent or self.closed) and in_transaction(self.raw) is False

    def require_in_place(self) -> None:
        """Require that the path still leads to the file that this connection writes; otherwise it is spent.

        Raises:
            sqlite3.OperationalError: the file was removed or replaced.
        """
        try:
            self.file.require_in_place()
        except sqlite3.OperationalError:
            self.is_spent = True
            raise

    @property
    def raw(self) -> sqlite3.Connection:
        """The driver's own connection."""
        return self._sqlite_conn

    @override
    @contextmanager
    def transaction(self, *, commit: bool, patience: float = READ_PATIENCE_SECONDS) -> Generator[SQLiteCursor]:
        with SQLiteLedgerTransaction(self, commit=commit, patience=patience) as cursor, cursor:
            yield cursor

    def begin_reading(self) -> None:
        """Begin a transaction that takes no lock.

        Raises:
            sqlite3.OperationalError: the file was removed or replaced.
        """
        self.require_in_place()
        self.raw.execute("BEGIN")

    def begin_writing(self, patience: float) -> None:
        """Take the write lock of the file, within ``patience`` seconds.

        Raises:
            sqlite3.OperationalError: somebody else held it all the time, the file cannot be written, or it was removed
                or replaced.
        """
        self.require_in_place()
        # SQLite's own waiting knows no patience of ours, and lets waiting processes knock at the same moments.
        if not self._is_writer_set_up:
            self.raw.execute("PRAGMA busy_timeout = 0")
            self._is_writer_set_up = True
        # IMMEDIATE: who reads first and asks for the lock later is refused at once, however patient.
        when_free(lambda: self.raw.execute("BEGIN IMMEDIATE"), patience)


class SQLiteLedgerTransaction(SQLiteTransaction):
    """A transaction of the library's recorders; one that commits begins with the lock in hand."""

    def __init__(self, connection: SQLiteLedgerConnection, *, commit: bool, patience: float) -> None:
        """Use ``connection`` until the block ends; wait ``patience`` seconds for the lock."""
        super().__init__(connection, commit=commit)
        self._ledger_connection = connection
        self._patience = patience

    @override
    def __enter__(self) -> SQLiteCursor:
        try:
            if self.commit:
                self._ledger_connection.begin_writing(self._patience)
            else:
                self._ledger_connection.begin_reading()
        except sqlite3.OperationalError as error:
            raise OperationalError(error) from error
        return self.connection.cursor()

    @override
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        if not self._ledger_connection.is_inherited:
            if self.commit and exc_val is None:
                self._require_in_place()
            super().__exit__(exc_type, exc_val, exc_tb)
        elif self.commit:
            msg = "this process was forked in the middle of the transaction, which belongs to its parent"
            raise OperationalError(msg)

    def _require_in_place(self) -> None:
        try:
            self._ledger_connection.require_in_place()
        except sqlite3.OperationalError as error:
            self.connection.rollback()
            raise OperationalError(error) from error


def in_transaction(raw: sqlite3.Connection) -> bool | None:
    """Whether a connection is in a transaction; ``None`` where somebody has closed it."""
    with contextlib.suppress(sqlite3.ProgrammingError):
        return raw.in_transaction
    return None


def when_free(statement: Callable[[], object], patience: float) -> None:
    """Execute a statement that takes a lock, waiting for it with growing, jittered pauses for ``patience`` seconds.

    Raises:
        sqlite3.OperationalError: the lock was never free, or the statement failed otherwise.
    """
    deadline = time.monotonic() + patience
    pause = _BACKOFF_FIRST_SECONDS
    while True:
        try:
            statement()
        except sqlite3.OperationalError as error:
            left = deadline - time.monotonic()
            if not is_busy(error) or left <= 0:
                raise
            # Jitter keeps waiting processes from knocking all at the same moment.
            time.sleep(min(left, pause * random.uniform(0.5, 1.5)))  # noqa: S311  # no secret hangs on it
            pause = min(2 * pause, _BACKOFF_MAX_SECONDS)
        else:
            return


def connect(name: str) -> SQLiteLedgerConnection:
    """Open a file, which is made if it does not exist (its folder is not), and bring it into write-ahead mode.

    Args:
        name: a path, or a ``file:`` URI.

    Raises:
        sqlite3.Error: the file cannot be opened, or is no database.
    """
    is_uri = name.startswith("file:")
    raw = sqlite3.connect(
        name if is_uri else Path(name).absolute().as_uri(),
        uri=True,
        check_same_thread=False,
        isolation_level=None,
        cached_statements=_STATEMENTS_CACHED,
        timeout=0,
    )
    try:
        path = _path_of(raw) if is_uri else os.path.abspath(name)  # noqa: PTH100  # a link may be moved: it is not resolved
        file = OpenedFile.at(path)
        when_free(lambda: _configure(raw), READ_PATIENCE_SECONDS)
    except BaseException:
        raw.close()
        raise
    return SQLiteLedgerConnection(raw, file)


@contextmanager
def looking(name: str) -> Generator[sqlite3.Connection]:
    """A transaction on a file that is left as it is: not made, not brought into write-ahead mode, not written.

    Raises:
        InterfaceError: the file does not exist, cannot be read, or is no database.
    """
    uri = name if name.startswith("file:") else Path(name).absolute().as_uri() + "?mode=ro"
    try:
        with contextlib.closing(
            sqlite3.connect(uri, uri=True, isolation_level=None, timeout=READ_PATIENCE_SECONDS)
        ) as raw:
            raw.execute("BEGIN")
            yield raw
    except sqlite3.Error as error:
        raise InterfaceError(error) from error


def _path_of(raw: sqlite3.Connection) -> str:
    path: str = raw.execute("PRAGMA database_list").fetchone()[2]
    return path


def _configure(raw: sqlite3.Connection) -> None:
    """Set what the safety of commits hangs on, and read it back: a file system or a build may refuse it silently."""
    raw.row_factory = sqlite3.Row
    _enter_wal(raw)
    raw.execute("PRAGMA synchronous = FULL")
    [synchronous] = raw.execute("PRAGMA synchronous").fetchone()
    if synchronous != _SYNCHRONOUS_FULL:
        problem = f"synchronous is {synchronous}, not FULL: a commit would not survive a power cut"
        raise sqlite3.NotSupportedError(problem)
    raw.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES_KEPT}")
    raw.execute(f"PRAGMA busy_timeout = {READ_PATIENCE_SECONDS * 1000:.0f}")


def _enter_wal(raw: sqlite3.Connection) -> None:
    [mode] = raw.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        [mode] = raw.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        problem = f"the journal mode is {mode!r}, not WAL: use a file on a local disk"
        raise sqlite3.NotSupportedError(problem)
