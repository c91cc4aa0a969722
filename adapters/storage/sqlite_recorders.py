"""Recorders of the eventsourcing library that read and write a jobledger store in SQLite."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, LiteralString
from uuid import UUID

from eventsourcing.persistence import (
    ApplicationRecorder,
    ListenNotifySubscription,
    ProgrammingError,
    StoredEvent,
    Subscription,
)
from eventsourcing.sqlite import (
    SQLiteApplicationRecorder,
    SQLiteCursor,
    SQLiteDatastore,
    SQLiteFactory,
    SQLiteProcessRecorder,
    SQLiteTrackingRecorder,
)
from typing_extensions import override

from jobledger.adapters.storage.changes import POLL_SECONDS
from jobledger.adapters.storage.migrating import migrate_sqlite
from jobledger.adapters.storage.sqlite_datastore import SQLiteLedgerDatastore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eventsourcing.utils import Environment, EnvType

EVENTS_TABLE: Final = "stored_events"

INSERT_EVENT: Final[LiteralString] = """
    INSERT INTO stored_events (originator_id, originator_version, topic, state, command_id) VALUES (?, ?, ?, ?, ?)
"""


class SQLiteLedgerRecorder(SQLiteApplicationRecorder):
    """The log of all events; positions are never given twice, and followers need not be told of new ones."""

    def __init__(self, datastore: SQLiteDatastore, events_table_name: str = EVENTS_TABLE) -> None:
        """Use the log of a datastore of ours.

        Raises:
            ProgrammingError: it is another datastore, or another table: the log has one name, since everything else of
                a job is kept beside it.
        """
        if not isinstance(datastore, SQLiteLedgerDatastore) or events_table_name != EVENTS_TABLE:
            msg = f"the log of a jobledger store is {EVENTS_TABLE!r} in a SQLiteLedgerDatastore"
            raise ProgrammingError(msg)
        super().__init__(datastore, events_table_name)
        self.changes = datastore.changes
        self.insert_events_statement = INSERT_EVENT

    @override
    def construct_create_table_statements(self) -> list[str]:
        return []  # the migrations make the log

    @override
    def create_table(self) -> None:
        """Bring the whole schema up to date, and make what a subclass adds."""
        migrate_sqlite(self.datastore, datetime.now(UTC))
        super().create_table()

    @override
    def _insert_events(
        self,
        c: SQLiteCursor,
        stored_events: Sequence[StoredEvent],
        **kwargs: Any,
    ) -> Sequence[int] | None:
        """Write events into the log within the cursor's transaction; answers their positions, in the same order.

        ``command_ids`` are the ids of the commands that caused them, one for each event.
        """
        command_ids: Sequence[str | None] = kwargs.get("command_ids") or [None] * len(stored_events)
        rows = [
            (
                event.originator_id.hex if isinstance(event.originator_id, UUID) else event.originator_id,
                event.originator_version,
                event.topic,
                event.state,
                command_id,
            )
            for event, command_id in zip(stored_events, command_ids, strict=True)
        ]
        c.executemany(self.insert_events_statement, rows)
        # The transaction holds the write lock, and AUTOINCREMENT counts on from the last position: there are no gaps.
        c.execute("SELECT last_insert_rowid()")
        [last] = c.fetchone()
        return list(range(last - len(rows) + 1, last + 1))

    def insert_within(
        self, cursor: SQLiteCursor, stored_events: Sequence[StoredEvent], command_ids: Sequence[str | None]
    ) -> Sequence[int]:
        """Write events, each with the id of its command, in a transaction of the caller; answers their positions."""
        positions = self._insert_events(cursor, stored_events, command_ids=command_ids)
        return positions or []

    @override
    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Subscription[ApplicationRecorder]:
        """Follow the log from behind a position, whichever process writes it."""
        return SQLiteSubscription(self, gt=gt, topics=topics)


class SQLiteSubscription(ListenNotifySubscription[SQLiteLedgerRecorder]):
    """Follows the log: woken at once by this process, within 50 ms by others."""

    @override
    def _loop_on_pull(self) -> None:
        try:
            while not self._has_been_stopped:
                self._pull()
                self._recorder.changes.wait(POLL_SECONDS)
        except BaseException as error:  # noqa: BLE001  # the thread that iterates raises it
            self._thread_error = self._thread_error or error
            self.stop()


class SQLiteLedgerTrackingRecorder(SQLiteTrackingRecorder):
    """How far projections have read; a projection's view in the same file is a subclass."""

    @override
    def construct_create_table_statements(self) -> list[str]:
        return []  # the migrations make the table

    @override
    def create_table(self) -> None:
        """Bring the whole schema up to date, and make what a subclass adds."""
        migrate_sqlite(self.datastore, datetime.now(UTC))
        super().create_table()


class SQLiteLedgerProcessRecorder(SQLiteProcessRecorder, SQLiteLedgerRecorder):
    """The log and the tracking of projections that write events themselves, in one transaction."""

    @override
    def construct_create_table_statements(self) -> list[str]:
        return []  # the migrations make both tables

    @override
    def create_table(self) -> None:
        """Bring the whole schema up to date, and make what a subclass adds."""
        migrate_sqlite(self.datastore, datetime.now(UTC))  # first: the library looks for its tracking table
        super().create_table()


class SQLiteLedgerFactory(SQLiteFactory):
    """Opens a jobledger store for the library: set ``PERSISTENCE_MODULE`` to this class's topic.

    ``SQLITE_DBNAME`` is the path of the file; ids are text, unless ``ORIGINATOR_ID_TYPE`` says otherwise.
    """

    application_recorder_class: type[SQLiteApplicationRecorder] = SQLiteLedgerRecorder
    tracking_recorder_class: type[SQLiteTrackingRecorder] = SQLiteLedgerTrackingRecorder
    process_recorder_class: type[SQLiteProcessRecorder] = SQLiteLedgerProcessRecorder

    def __init__(self, env: Environment | EnvType | None) -> None:
        """Read the settings; nothing is opened yet.

        Raises:
            OSError: a setting is missing or wrong.
        """
        super().__init__(env)
        stock = self.datastore
        is_uuid = self.env.get(self.ORIGINATOR_ID_TYPE, "text").lower() == "uuid"
        self.datastore = SQLiteLedgerDatastore(
            stock.pool.db_name,
            lock_timeout=stock.pool.lock_timeout,
            single_row_tracking=stock.single_row_tracking,
            originator_id_type="uuid" if is_uuid else "text",
        )
