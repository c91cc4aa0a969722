"""Jobs in one SQLite file: the embedded default, for any number of threads and processes of one machine."""

from __future__ import annotations

import sqlite3
import time
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final

from eventsourcing.persistence import (
    ConnectionPoolClosedError,
    ConnectionUnavailableError,
    PersistenceError,
)

from jobledger.adapters.storage.migrating import applied_steps, migrate_sqlite, migrations, require_known_steps
from jobledger.adapters.storage.sqlite_datastore import SQLiteLedgerDatastore
from jobledger.adapters.storage.sqlite_errors import after_commit, failure
from jobledger.adapters.storage.sqlite_queues import SQLiteQueueReader
from jobledger.adapters.storage.sqlite_recorders import SQLiteLedgerFactory, SQLiteLedgerRecorder
from jobledger.adapters.storage.sqlite_session import SQLiteSession
from jobledger.domain.errors import InvalidRequestError, SchemaMismatchError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Generator
    from datetime import timedelta

    from jobledger.adapters.storage.sqlite_connecting import SQLiteLedgerConnection
    from jobledger.domain.ports import Clock

__all__ = ["SCHEMA_VERSION", "SQLiteLedgerFactory", "SQLiteStorage"]

SCHEMA_VERSION: Final = migrations("sqlite")[-1].number
"""The schema that this version of jobledger reads and writes."""


class SQLiteStorage:
    """A store in one SQLite file.

    The file is made by ``migrate``; its folder must exist. Reading and writing check the schema once.
    """

    def __init__(self, path: Path | str, *, clock: Clock) -> None:
        """Open nothing yet.

        Raises:
            InvalidRequestError: the path names a database in memory.
        """
        self.path = Path(path).absolute()
        self.clock = clock
        self.datastore = SQLiteLedgerDatastore(str(self.path))
        self.recorder = SQLiteLedgerRecorder(self.datastore)
        self._is_schema_known = False

    # The schema -------------------------------------------------------------------------------------------------------

    def migrate(self) -> int:
        """Bring the schema up to date, whoever else is doing the same; answers how many steps this call applied.

        Raises:
            StoreUnavailableError: the file could not be written; the steps before stand.
            SchemaMismatchError: the schema is that of a newer jobledger; nothing was touched.
            InvalidRequestError: the file is another program's database; nothing was touched.
            HistoryCorruptError: the file is damaged or no database, or a step in it is not the one that is known.
        """
        with self._library_errors():
            if (found := self.schema_version()) > SCHEMA_VERSION:
                raise self._mismatch(found)
            return migrate_sqlite(self.datastore, self.clock.now())

    def schema_version(self) -> int:
        """The number of the schema that the file has; 0 for none, or for no file.

        Raises:
            StoreUnavailableError: the file cannot be read, or its folder does not exist.
            InvalidRequestError: it is another program's database.
            HistoryCorruptError: it is damaged, or no database.
        """
        if not self.path.exists() and self.path.parent.is_dir():
            return 0  # asking must not make a file
        with self._library_errors():
            if self.datastore.connections.closed:
                raise ConnectionPoolClosedError
            return max((number for number, *_ in applied_steps(str(self.path))), default=0)

    def require_schema(self) -> None:
        """Require the schema that this version of jobledger knows.

        Raises:
            SchemaMismatchError: it is older or newer; names the command that mends it.
            StoreUnavailableError: the file cannot be read, or its folder does not exist.
            InvalidRequestError: it is another program's database.
            HistoryCorruptError: it is damaged or no database, or a step in it is not the one that is known.
        """
        if (found := self.schema_version()) != SCHEMA_VERSION:
            raise self._mismatch(found)
        with self._library_errors():
            require_known_steps(str(self.path))

    def _mismatch(self, found: int) -> SchemaMismatchError:
        return SchemaMismatchError(
            found, SCHEMA_VERSION, f"jobledger migrate --store {quote(f'sqlite:///{self.path.as_posix()}')}"
        )

    def _require_schema_once(self) -> None:
        if not self._is_schema_known:
            self.require_schema()
            self.datastore.changes.start()
            self._is_schema_known = True

    @contextmanager
    def _library_errors(self) -> Generator[None]:
        """Give the library's errors a caller's name."""
        try:
            yield
        except ConnectionPoolClosedError:
            reason = "this store was closed"
            raise StoreUnavailableError(reason) from None
        except PersistenceError as error:
            cause = error.args[0] if error.args else None
            if isinstance(cause, sqlite3.Error):
                raise failure(cause, self.path) from error
            reason = f"{self.path}: {error}"
            raise StoreUnavailableError(reason) from error

    # Reading and writing ----------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Generator[SQLiteQueueReader]:
        """A consistent view: as of its first reading, whatever is written meanwhile.

        Raises:
            StoreUnavailableError: the store cannot be read.
            SchemaMismatchError: its schema is older or newer than this jobledger's.
        """
        self._require_schema_once()
        connection = self._borrow(is_writer=False)
        try:
            try:
                connection.begin_reading()
            except sqlite3.Error as error:
                raise failure(error, self.path) from error
            yield SQLiteQueueReader(connection.raw, self.clock, self.path)
        finally:
            self._give_back(connection)

    @contextmanager
    def writing(self, patience: timedelta, connection: object | None = None) -> Generator[SQLiteSession]:
        """A transaction that holds the write lock of the file from its beginning.

        Raises:
            StoreUnavailableError: it could not start within ``patience``, or could not write; nothing was committed.
            OutcomeUnknownError: the disk failed while committing.
            InvalidRequestError: a caller's connection was given, the session's was misused, or this thread is in
                a session already.
            SchemaMismatchError: its schema is older or newer than this jobledger's.
        """
        if connection is not None:
            raise InvalidRequestError("connection", "a SQLite store opens its own; leave the argument out")
        self._require_schema_once()
        deadline = time.monotonic() + patience.total_seconds()
        own = self._borrow(is_writer=True, patience=patience.total_seconds())
        try:
            try:
                own.begin_writing(deadline - time.monotonic())
            except sqlite3.Error as error:
                raise failure(error, self.path) from error
            session = SQLiteSession(own.raw, self.clock, self.path, self.recorder)
            try:
                yield session
            except BaseException as error:
                if session.misuse is not None:
                    raise session.misuse from error
                raise
            finally:
                session.close()
                own.is_spent = session.has_lent_connection  # whoever has seen it may have changed it, or kept it
            self._commit(session, own)
        finally:
            self._give_back(own)
        self.datastore.changes.announce()

    def _commit(self, session: SQLiteSession, own: SQLiteLedgerConnection) -> None:
        raw = own.raw
        if own.is_inherited:
            reason = "this process was forked in the middle of the transaction, which belongs to its parent"
            raise StoreUnavailableError(reason)
        session.require_open()
        try:
            own.require_in_place()
        except sqlite3.OperationalError as error:
            raise failure(error, self.path) from error
        try:
            raw.execute("COMMIT")
        except sqlite3.Error as error:
            raise after_commit(error, self.path, in_transaction=raw.in_transaction) from error

    def _borrow(self, *, is_writer: bool, patience: float | None = None) -> SQLiteLedgerConnection:
        try:
            with self._library_errors():
                return self.datastore.connections.get_connection(patience, is_writer=is_writer)
        except StoreUnavailableError as error:
            if isinstance(error.__cause__, ConnectionUnavailableError):
                reason = f"another thread keeps {self.path} locked"
                raise StoreUnavailableError(reason) from error
            raise

    def _give_back(self, connection: SQLiteLedgerConnection) -> None:
        try:
            connection.end()
        finally:
            self.datastore.connections.put_connection(connection)

    # Waiting and closing ----------------------------------------------------------------------------------------------

    def wait(self, timeout: timedelta) -> None:
        """Return when something may have been appended, at the latest after ``timeout``.

        Raises:
            StoreUnavailableError, SchemaMismatchError: as for reading, the first time.
        """
        self._require_schema_once()
        self.datastore.changes.wait(timeout.total_seconds())

    def close(self) -> None:
        """Give back connections and files; those in use follow when their blocks end."""
        self.datastore.close()
