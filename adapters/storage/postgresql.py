"""Jobs in a PostgreSQL database: any number of machines, the whole history, and no table lock."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, LiteralString, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from jobledger.adapters.storage.changes import Changes
from jobledger.adapters.storage.postgresql_auditing import PostgreSQLReader
from jobledger.adapters.storage.postgresql_connecting import Connection, Pool, command, connect, place_of
from jobledger.adapters.storage.postgresql_errors import after_commit, failure, is_connection_lost
from jobledger.adapters.storage.postgresql_lending import driver_connection, entered
from jobledger.adapters.storage.postgresql_migrating import (
    SCHEMA_VERSION,
    applied_steps,
    grant_roles,
    migrate,
    require_known_steps,
)
from jobledger.adapters.storage.postgresql_recorders import (
    PostgreSQLLedgerDatastore,
    PostgreSQLLedgerFactory,
    PostgreSQLLedgerRecorder,
)
from jobledger.adapters.storage.postgresql_session import PostgreSQLSession
from jobledger.adapters.storage.postgresql_wakeups import Wakeups
from jobledger.domain.errors import InvalidRequestError, SchemaMismatchError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from datetime import timedelta

Begun = TypeVar("Begun")

__all__ = ["SCHEMA_VERSION", "PostgreSQLLedgerFactory", "PostgreSQLStorage"]

READ_PATIENCE_SECONDS: Final = 10.0
"""How long a reader waits for a free connection."""

# The horizon is read before the view's snapshot is taken: who drew a lower position has ended by then, and is seen.
BEGIN_READING: Final[LiteralString] = """
    BEGIN READ ONLY; SELECT jobledger.horizon(); COMMIT; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY
"""

# Settings end with the transaction, so that a pooler's next client does not inherit them. A client that stops in the
# middle keeps its jobs locked no longer than a minute.
BEGIN_WRITING: Final[LiteralString] = """
    BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
    SET LOCAL idle_in_transaction_session_timeout = '60s'; SET LOCAL lock_timeout = %(lock_ms)s
"""


class PostgreSQLStorage:
    """A store in one schema of a PostgreSQL database.

    The schema is made by ``migrate``. Reading and writing check its version once.
    """

    def __init__(self, url: str) -> None:
        """Open nothing yet.

        Raises:
            InvalidRequestError: libpq cannot read the URL.
        """
        self.place = place_of(url)
        self.pool = Pool(self.place)
        self.changes = Changes(self.last_position)
        self.wakeups = Wakeups(self.place, self.pool, self.changes)
        self._recorder: PostgreSQLLedgerRecorder | None = None
        self._is_schema_known = False
        self._is_closed = False
        self._here = threading.local()

    @property
    def recorder(self) -> PostgreSQLLedgerRecorder:
        """The log as the eventsourcing library sees it, on connections of its own."""
        if self._recorder is None:
            datastore = PostgreSQLLedgerDatastore.at(self.place)
            datastore.changes = self.changes
            self._recorder = PostgreSQLLedgerRecorder(datastore)
        return self._recorder

    # The schema -------------------------------------------------------------------------------------------------------

    def migrate(self) -> int:
        """Bring the schema up to date, whoever else is doing the same; answers how many steps this call applied.

        Raises:
            StoreUnavailableError: the server cannot be reached, or the role may not do it; nothing was changed.
            SchemaMismatchError: the schema is that of a newer jobledger; nothing was touched.
            InvalidRequestError: the schema is another program's; nothing was touched.
            HistoryCorruptError: a step that was applied is not the one that is known.
        """
        with self._asking() as connection:
            if (found := self._version(connection)) > SCHEMA_VERSION:
                raise self._mismatch(found)
            return migrate(connection, self.place)

    def grant_roles(self) -> None:
        """Make the roles of this schema (app, reader, retention) and give each its rights; the owner does it.

        Raises:
            StoreUnavailableError: this role may not do it; nothing was changed.
            SchemaMismatchError: the schema is not that of this jobledger.
        """
        self.require_schema()
        with self._asking() as connection:
            grant_roles(connection, self.place)

    def schema_version(self) -> int:
        """The number of the schema that the database has; 0 for none.

        Raises:
            StoreUnavailableError: the server cannot be reached.
            InvalidRequestError: the schema is another program's.
        """
        with self._asking() as connection:
            return self._version(connection)

    def require_schema(self) -> None:
        """Require the schema that this version of jobledger knows.

        Raises:
            SchemaMismatchError: it is older or newer; names the command that mends it.
            StoreUnavailableError: the server cannot be reached.
            InvalidRequestError: the schema is another program's.
            HistoryCorruptError: a step that was applied is not the one that is known.
        """
        with self._asking() as connection:
            applied = applied_steps(connection, self.place)
            if len(applied) != SCHEMA_VERSION:
                raise self._mismatch(len(applied))
            require_known_steps(applied, self.place)

    def _version(self, connection: Connection) -> int:
        return max((step.number for step in applied_steps(connection, self.place)), default=0)

    def _mismatch(self, found: int) -> SchemaMismatchError:
        return SchemaMismatchError(found, SCHEMA_VERSION, f"jobledger migrate --store {quote(self.place.shown_url)}")

    def _require_schema_once(self) -> None:
        if self._is_closed:
            reason = "this store was closed"
            raise StoreUnavailableError(reason)
        if not self._is_schema_known:
            self.require_schema()
            self.changes.start()
            self._is_schema_known = True

    @contextmanager
    def _asking(self) -> Generator[Connection]:
        """A connection outside of the pool, for a few questions: it says at once why a server cannot be reached."""
        if self._is_closed:
            reason = "this store was closed"
            raise StoreUnavailableError(reason)
        try:
            connection = connect(self.place)
            try:
                yield connection
            finally:
                connection.close()
        except psycopg.Error as error:
            raise failure(error, self.place.named) from error

    # Reading and writing ----------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Generator[PostgreSQLReader]:
        """A consistent view: as of its first reading, whatever is written meanwhile.

        Raises:
            StoreUnavailableError: the store cannot be read.
            SchemaMismatchError: its schema is older or newer than this jobledger's.
        """
        self._require_schema_once()
        begin = self.place.statement(BEGIN_READING)
        connection, begun = self._begin(lambda each: each.execute(begin, prepare=False), READ_PATIENCE_SECONDS)
        try:
            begun.nextset()
            [(horizon,)] = begun.fetchall()
            yield PostgreSQLReader(connection.cursor(binary=True), self.place, horizon)
        finally:
            self._give_back(connection)

    @contextmanager
    def writing(self, patience: timedelta, connection: object | None = None) -> Generator[PostgreSQLSession]:
        """A transaction; what it loads is locked until its end.

        Raises:
            StoreUnavailableError: it could not start within ``patience``, or could not write; nothing was committed.
            RolledBackError: it stood in another one's way; running it again is right.
            OutcomeUnknownError: the connection broke while committing.
            InvalidRequestError: the session's connection was misused, or this thread is in a session already.
            SchemaMismatchError: its schema is older or newer than this jobledger's.
        """
        lock_ms = max(1, int(patience.total_seconds() * 1000))
        if connection is not None:
            raw = driver_connection(connection)
            self._require_schema_once()
            with self._within(raw, lock_ms) as session:
                yield session
            return
        self._require_schema_once()
        if getattr(self._here, "is_writing", False):
            problem = "this thread is in a transaction of the same store; write after it has ended"
            raise InvalidRequestError("inside", problem)
        begin = self.place.statement(BEGIN_WRITING).replace(b"%(lock_ms)s", str(lock_ms).encode())
        own, _ = self._begin(lambda connection: command(connection, begin), patience.total_seconds())
        self._here.is_writing = True
        session = PostgreSQLSession(own.cursor(binary=True), self.place, is_own=True)
        try:
            try:
                yield session
            except BaseException as error:
                if (misuse := session.misuse) is not None:
                    raise misuse from error
                raise
            session.require_whole()
            self._commit(own)
        finally:
            self._here.is_writing = False
            if session.has_lent_connection:
                own.close()  # whoever has seen it may have changed it, or kept it
            self._give_back(own)
        if session.has_news:
            self.changes.tell()
            self.wakeups.tell()

    @contextmanager
    def _within(self, raw: psycopg.Connection[Any], lock_ms: int) -> Generator[PostgreSQLSession]:
        """A session in the caller's transaction, which the caller commits."""
        try:
            with entered(raw, lock_ms) as cursor:
                session = PostgreSQLSession(cursor, self.place)
                yield session
                session.require_open()
        except psycopg.Error as error:
            raise failure(error, self.place.named) from error

    def _commit(self, own: Connection) -> None:
        try:
            ended = command(own, b"COMMIT")
        except psycopg.Error as error:
            raise after_commit(error, self.place.named) from error
        if ended != "COMMIT":
            reason = f"{self.place.named} rolled the transaction back"
            raise StoreUnavailableError(reason)

    def _begin(self, begin: Callable[[Connection], Begun], patience: float) -> tuple[Connection, Begun]:
        """Borrow a connection and begin on it; one that broke while it lay idle is no reason to fail.

        Raises:
            StoreUnavailableError: no connection was to be had within ``patience`` seconds, or the server refused.
        """
        deadline = time.monotonic() + patience
        while True:
            try:
                connection = self.pool.get(deadline - time.monotonic())
            except psycopg.Error as error:
                raise failure(error, self.place.named) from error
            try:
                return connection, begin(connection)
            except BaseException as error:
                self._give_back(connection)
                if not isinstance(error, psycopg.Error):
                    raise
                if not is_connection_lost(error) or time.monotonic() >= deadline:
                    raise failure(error, self.place.named) from error

    def _give_back(self, connection: Connection) -> None:
        with suppress(psycopg.Error):
            if connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
                connection.execute("ROLLBACK", prepare=False)
        self.pool.put(connection)

    # Waiting and closing ----------------------------------------------------------------------------------------------

    LAST_POSITION: Final[LiteralString] = "SELECT jobledger.horizon()"

    def last_position(self) -> int | None:
        """The position up to which all is committed; ``None`` while the server cannot be asked."""
        try:
            connection = self.pool.get(READ_PATIENCE_SECONDS)
            try:
                [(position,)] = connection.execute(self.place.statement(self.LAST_POSITION)).fetchall()
                return int(position)
            finally:
                self._give_back(connection)
        except psycopg.Error:
            return None

    def wait(self, timeout: timedelta) -> None:
        """Return when something may have been appended, at the latest after ``timeout``.

        Raises:
            StoreUnavailableError, SchemaMismatchError: as for reading, the first time.
        """
        self._require_schema_once()
        self.wakeups.hear()
        self.changes.wait(timeout.total_seconds())

    def close(self) -> None:
        """Give back the connections; those in use follow when their blocks end."""
        self._is_closed = True
        self.wakeups.close()
        self.pool.close()
        if self._recorder is not None:
            self._recorder.ledger.close()
