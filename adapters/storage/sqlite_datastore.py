"""The datastore that the library's recorders and jobledger's sessions share: one file, one pool, one writer."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal, LiteralString

from eventsourcing.persistence import ConnectionPoolClosedError, PersistenceError
from eventsourcing.sqlite import SQLiteConnectionPool, SQLiteCursor, SQLiteDatastore
from typing_extensions import override

from jobledger.adapters.storage.changes import Changes
from jobledger.adapters.storage.sqlite_pool import SQLiteLedgerPool
from jobledger.domain.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Generator


class SQLiteLedgerDatastore(SQLiteDatastore):
    """One SQLite file, in write-ahead mode and with every commit synced to the disk."""

    def __init__(
        self,
        db_name: str,
        *,
        lock_timeout: int | None = None,
        single_row_tracking: bool = True,
        originator_id_type: Literal["uuid", "text"] = "text",
    ) -> None:
        """Open nothing yet.

        Args:
            db_name: a path, or a ``file:`` URI.
            lock_timeout: the seconds that a writer waits for its turn.
            single_row_tracking: one row for each projection.
            originator_id_type: jobledger's own ids are ``text``.

        Raises:
            InvalidRequestError: the name is that of a database in memory, which every connection has for itself.
        """
        super().__init__(db_name, single_row_tracking=single_row_tracking, originator_id_type=originator_id_type)
        if SQLiteConnectionPool.detect_memory_mode(db_name):
            raise InvalidRequestError("db_name", f"{db_name!r} is no file; keep jobs in memory with MemoryStorage")
        self.pool = self.connections = SQLiteLedgerPool(db_name, lock_timeout=lock_timeout)
        self.changes = Changes(self.last_position)

    # By the log's rowid.
    LAST_POSITION: Final[LiteralString] = "SELECT coalesce(max(rowid), 0) FROM stored_events"

    def last_position(self) -> int | None:
        """The position of the newest record; ``None`` while the file cannot be asked."""
        try:
            with self.transaction(commit=False) as cursor:
                cursor.execute(self.LAST_POSITION)
                position: int = cursor.fetchone()[0]
                return position
        except (PersistenceError, ConnectionPoolClosedError):
            return None

    @override
    @contextmanager
    def transaction(self, *, commit: bool) -> Generator[SQLiteCursor]:
        connection = self.connections.get_connection(is_writer=commit)
        try:
            with connection.transaction(commit=commit, patience=self.connections.write_patience) as cursor:
                yield cursor
        finally:
            self.connections.put_connection(connection)
        if commit:
            self.changes.announce()
