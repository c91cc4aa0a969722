"""Recorders of the eventsourcing library that read and write a jobledger store in PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, LiteralString
from uuid import UUID

from eventsourcing.persistence import (
    ApplicationRecorder,
    ListenNotifySubscription,
    Notification,
    PersistenceError,
    ProcessRecorder,
    ProgrammingError,
    StoredEvent,
    Subscription,
)
from eventsourcing.postgres import (
    PgStoredEvent,
    PostgresAggregateRecorder,
    PostgresApplicationRecorder,
    PostgresDatastore,
    PostgresFactory,
    PostgresProcessRecorder,
    PostgresTrackingRecorder,
    TPostgresTrackingRecorder,
)
from eventsourcing.utils import resolve_topic
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import tuple_row
from psycopg_pool import PoolClosed
from typing_extensions import override

from jobledger.adapters.storage.changes import POLL_SECONDS, Changes
from jobledger.adapters.storage.postgresql_arrays import byte_strings, integers, texts
from jobledger.adapters.storage.postgresql_connecting import SCHEMA, Place, configure, in_schema
from jobledger.adapters.storage.postgresql_migrating import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from eventsourcing.utils import Environment, EnvType
    from psycopg import Connection, Cursor
    from psycopg.rows import DictRow

EVENTS_TABLE: Final = "stored_events"
TRACKING_TABLE: Final = "tracking"


class PostgreSQLLedgerDatastore(PostgresDatastore):
    """The library's connections to one schema; they keep no state that a pooler could hand to somebody else."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take the library's arguments; jobledger's own ids are ``text``, and its schema is ``jobledger``."""
        kwargs["schema"] = str(kwargs.get("schema") or "").strip() or SCHEMA
        super().__init__(*args, **{"originator_id_type": "text"} | kwargs)
        self.place = Place("", "", self.schema, self.pool.max_size)
        self.changes = Changes(self.last_position)

    @classmethod
    def at(cls, place: Place, **kwargs: Any) -> PostgreSQLLedgerDatastore:
        """A datastore for the place of a store."""
        known: dict[str, Any] = {"dbname": "", "host": "", "port": "", "user": "", "password": ""}
        known |= conninfo_to_dict(place.conninfo)
        named = {name: known.pop(name) for name in ("dbname", "host", "port", "user", "password")}
        datastore = cls(**named, schema=place.schema, max_overflow=place.connections_max, **kwargs)
        settings = datastore.pool.kwargs
        if isinstance(settings, dict):
            settings.update(known)
        return datastore

    @override
    def after_connect_func(self) -> Callable[[Connection[Any]], None]:
        def after_connect(connection: Connection[Any]) -> None:
            connection.autocommit = True
            configure(connection)

        return after_connect

    HORIZON: Final[LiteralString] = "SELECT jobledger.horizon()"

    def last_position(self) -> int | None:
        """The position up to which all is committed; ``None`` while the server cannot be asked."""
        try:
            with self.cursor() as cursor:
                return horizon_of(cursor, self.schema)
        except (PersistenceError, PoolClosed):
            return None

    def migrate(self) -> None:
        """Bring the whole schema up to date."""
        with self.get_connection() as connection:
            rows, connection.row_factory = connection.row_factory, tuple_row  # type: ignore[assignment]  # it is put back
            try:
                migrate(connection, self.place)  # type: ignore[arg-type]  # it gives tuples now
            finally:
                connection.row_factory = rows


def horizon_of(cursor: Cursor[DictRow], schema: str) -> int:
    """The position up to which nothing further will appear; rows are to be read after it."""
    [row] = cursor.execute(in_schema(PostgreSQLLedgerDatastore.HORIZON, schema).encode()).fetchall()
    return int(row["horizon"])


class PostgreSQLLedgerRecorder(PostgresApplicationRecorder):
    """The log of all events: no table lock, no notification in a transaction, and a feed that misses nothing."""

    def __init__(self, datastore: PostgresDatastore, *, events_table_name: str = EVENTS_TABLE, **kwargs: Any) -> None:
        """Use the log of a datastore of ours.

        Raises:
            ProgrammingError: it is another datastore, or another table: the log has one name, since everything else of
                a job is kept beside it.
        """
        if not isinstance(datastore, PostgreSQLLedgerDatastore) or events_table_name != EVENTS_TABLE:
            msg = f"the log of a jobledger store is {EVENTS_TABLE!r} in a PostgreSQLLedgerDatastore"
            raise ProgrammingError(msg)
        self.ledger = datastore
        super().__init__(datastore, events_table_name=events_table_name, **kwargs)
        self.sql_create_statements = []  # the migrations make the log; a subclass may add its own

    @override
    def create_table(self) -> None:
        """Bring the whole schema up to date, and make what a subclass adds."""
        self.ledger.migrate()
        super().create_table()

    INSERT_EVENTS: Final[LiteralString] = "SELECT jobledger.insert_events(%s, %s, %s, %s, %s) AS positions"

    @override
    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """Write events, and what a subclass writes beside them, in one transaction; answers their positions, in order.

        Nothing is tried again here: whoever lost a reply would meet the own write, and take it for another's.
        """
        with self.datastore.transaction(commit=True) as cursor:
            self._insert_events(cursor, stored_events, **kwargs)
            positions = self._positions(cursor, stored_events) if stored_events else None
        self.ledger.changes.announce()
        return positions

    def _positions(self, cursor: Cursor[DictRow], events: Sequence[StoredEvent]) -> Sequence[int]:
        statement = in_schema(self.INSERT_EVENTS, self.datastore.schema).encode()
        columns = (
            texts([stream_of(event.originator_id) for event in events]),
            integers([event.originator_version for event in events]),
            texts([event.topic for event in events]),
            byte_strings([event.state for event in events]),
            texts([None] * len(events)),
        )
        [row] = cursor.execute(statement, columns).fetchall()
        positions: list[int] = row["positions"]
        return positions

    @override
    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        found = super().select_events(stream_of(originator_id), gt=gt, lte=lte, desc=desc, limit=limit)
        return [StoredEvent(originator_id, event.originator_version, event.topic, event.state) for event in found]

    @override
    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        with self.datastore.cursor() as cursor:
            horizon = horizon_of(cursor, self.datastore.schema)
        upto = horizon if stop is None else min(horizon, stop)
        found: Sequence[Notification] = super().select_notifications(
            start, limit, upto, topics, inclusive_of_start=inclusive_of_start
        )
        if self.datastore.originator_id_type == "text":
            return found
        return [
            Notification(UUID(str(each.originator_id)), each.originator_version, each.topic, each.state, each.id)
            for each in found
        ]

    @override
    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Subscription[ApplicationRecorder]:
        """Follow the log from behind a position, whichever process writes it."""
        return PostgreSQLSubscription(self, gt=gt, topics=topics)


def stream_of(originator_id: UUID | str) -> str:
    """An id of the library's as it stands in the log."""
    return originator_id.hex if isinstance(originator_id, UUID) else originator_id


class PostgreSQLLedgerAggregateRecorder(PostgresAggregateRecorder):
    """Snapshots of the library's aggregates, in a table of their own; ids are text where the datastore's are."""

    @override
    def create_table(self) -> None:
        """Bring the whole schema up to date, and make the library's own table in it."""
        if isinstance(self.datastore, PostgreSQLLedgerDatastore):
            self.datastore.migrate()
        super().create_table()

    @override
    def construct_pg_stored_event(
        self, originator_id: UUID | str, originator_version: int, topic: str, state: bytes
    ) -> PgStoredEvent:
        return super().construct_pg_stored_event(self._id_of(originator_id), originator_version, topic, state)

    @override
    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        found = super().select_events(self._id_of(originator_id), gt=gt, lte=lte, desc=desc, limit=limit)
        return [StoredEvent(originator_id, event.originator_version, event.topic, event.state) for event in found]

    def _id_of(self, originator_id: UUID | str) -> UUID | str:
        return stream_of(originator_id) if self.datastore.originator_id_type == "text" else originator_id


class PostgreSQLSubscription(ListenNotifySubscription[PostgreSQLLedgerRecorder]):
    """Follows the log: woken at once by this process, within 50 ms by others."""

    @override
    def _loop_on_pull(self) -> None:
        try:
            while not self._has_been_stopped:
                self._pull()
                self._recorder.ledger.changes.wait(POLL_SECONDS)
        except BaseException as error:  # noqa: BLE001  # the thread that iterates raises it
            self._thread_error = self._thread_error or error
            self.stop()


class PostgreSQLLedgerTrackingRecorder(PostgresTrackingRecorder):
    """How far projections have read; a projection's view in the same schema is a subclass."""

    def __init__(
        self, datastore: PostgresDatastore, *, tracking_table_name: str = TRACKING_TABLE, **kwargs: Any
    ) -> None:
        """Use the tracking table of a datastore of ours; there is one for all projections.

        Raises:
            ProgrammingError: it is another datastore.
        """
        if not isinstance(datastore, PostgreSQLLedgerDatastore):
            msg = "the tracking table of a jobledger store is in a PostgreSQLLedgerDatastore"
            raise ProgrammingError(msg)
        self.ledger = datastore
        super().__init__(datastore, tracking_table_name=tracking_table_name, **kwargs)
        self.sql_create_statements = []  # the migrations make the table; a subclass may add its own

    @override
    def create_table(self) -> None:
        """Bring the whole schema up to date, and make what a subclass adds."""
        self.ledger.migrate()  # first: the library looks for its tracking table
        super().create_table()


class PostgreSQLLedgerProcessRecorder(
    PostgreSQLLedgerTrackingRecorder, PostgresProcessRecorder, PostgreSQLLedgerRecorder
):
    """The log and the tracking of projections that write events themselves, in one transaction."""

    def __init__(self, datastore: PostgresDatastore) -> None:
        """Use both tables of a datastore of ours."""
        super().__init__(datastore, tracking_table_name=TRACKING_TABLE, events_table_name=EVENTS_TABLE)


class PostgreSQLLedgerFactory(PostgresFactory):
    """Opens a jobledger store for the library: set ``PERSISTENCE_MODULE`` to this class's topic.

    The library's own variables (``POSTGRES_DBNAME`` and so on) say where it is; ``POSTGRES_SCHEMA`` is ``jobledger``
    where it is not given; ids are text, unless ``ORIGINATOR_ID_TYPE`` says otherwise.
    """

    aggregate_recorder_class: type[PostgresAggregateRecorder] = PostgreSQLLedgerAggregateRecorder
    application_recorder_class: type[PostgresApplicationRecorder] = PostgreSQLLedgerRecorder
    tracking_recorder_class: type[PostgresTrackingRecorder] = PostgreSQLLedgerTrackingRecorder
    process_recorder_class: type[PostgresProcessRecorder] = PostgreSQLLedgerProcessRecorder

    def __init__(self, env: Environment | EnvType | None) -> None:
        """Read the settings; nothing is opened yet.

        Raises:
            OSError: a setting is missing or wrong.
        """
        super().__init__(env)
        stock, pool = self.datastore, self.datastore.pool
        is_uuid = self.env.get(self.ORIGINATOR_ID_TYPE, "text").lower() == "uuid"
        settings: dict[str, Any] = dict(pool.kwargs) if isinstance(pool.kwargs, dict) else {}
        self.datastore = PostgreSQLLedgerDatastore(
            **{name: settings[name] for name in ("dbname", "host", "port", "user", "password")},
            connect_timeout=pool.timeout,
            pool_size=pool.min_size,
            max_overflow=pool.max_size - pool.min_size,
            max_waiting=pool.max_waiting,
            conn_max_age=pool.max_lifetime,
            pre_ping=stock.pre_ping,
            lock_timeout=stock.lock_timeout,
            schema=self.env.get(self.POSTGRES_SCHEMA) or "",
            get_password_func=pool.get_password_func,
            single_row_tracking=stock.single_row_tracking,
            originator_id_type="uuid" if is_uuid else "text",
        )

    @override
    def application_recorder(self) -> ApplicationRecorder:
        recorder: ApplicationRecorder = self._made(self.APPLICATION_RECORDER_TOPIC, self.application_recorder_class)
        return recorder

    @override
    def process_recorder(self) -> ProcessRecorder:
        recorder: ProcessRecorder = self._made(self.PROCESS_RECORDER_TOPIC, self.process_recorder_class)
        return recorder

    @override
    def tracking_recorder(
        self, tracking_recorder_class: type[TPostgresTrackingRecorder] | None = None
    ) -> TPostgresTrackingRecorder:
        known = tracking_recorder_class or self.tracking_recorder_class
        recorder: TPostgresTrackingRecorder = self._made(self.TRACKING_RECORDER_TOPIC, known)
        return recorder

    def _made(self, topic: str, known: Any) -> Any:
        """A recorder of the class that the environment names, or else of the known one; all share one schema."""
        named = self.env.get(topic)
        recorder = (resolve_topic(named) if named else known)(self.datastore)
        if self.env_create_table():
            recorder.create_table()
        return recorder
