"""One writing transaction of a PostgreSQL store: jobs under locks, and appends with their preconditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, LiteralString

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from typing_extensions import override

from jobledger.adapters.storage.postgresql_archiving import ARCHIVE, archive_arguments
from jobledger.adapters.storage.postgresql_arrays import byte_strings, integers, register_arrays, texts
from jobledger.adapters.storage.postgresql_queueing import PostgreSQLQueueSession
from jobledger.adapters.storage.postgresql_reading import loaded
from jobledger.adapters.storage.postgresql_scheduling import INSERT_EVENTS
from jobledger.adapters.storage.postgresql_tracking import PostgreSQLTrackingSession
from jobledger.adapters.storage.postgresql_writes import AppendCall, append_call, waves
from jobledger.adapters.storage.rows import encode_job, from_us
from jobledger.adapters.storage.status_row import status_row
from jobledger.domain.errors import InvalidRequestError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from psycopg.rows import TupleRow

    from jobledger.adapters.storage.postgresql_connecting import Place
    from jobledger.domain.decisions.claiming import Claimable
    from jobledger.domain.history import StoredRecord
    from jobledger.domain.job import Job
    from jobledger.domain.ports import Append, Archival, GroupRow, Loaded


class PostgreSQLSession(PostgreSQLQueueSession, PostgreSQLTrackingSession):
    """A READ COMMITTED transaction: what it has locked stays true until it ends, and each read sees what is newest."""

    def __init__(self, cursor: psycopg.Cursor[TupleRow], place: Place, *, is_own: bool = False) -> None:
        """Write through ``cursor``, whose connection is in a transaction; ``is_own``: it is one of our pool."""
        super().__init__(cursor, place)
        self._is_own = is_own
        self._locked: set[str] = set()
        self._clock: datetime | None = None
        self.has_lent_connection = False

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The open connection for the caller's own statements; they may not commit, roll back or close it."""
        if not self.has_lent_connection:
            self._execute("SAVEPOINT jobledger_lent")  # it is found again only in the same transaction
            self.has_lent_connection = True
        return self._cursor.connection

    @property
    def misuse(self) -> InvalidRequestError | None:
        """What a caller did with the connection that it may not, if anything; nothing is committed then."""
        match self._cursor.connection.info.transaction_status:
            case TransactionStatus.INTRANS | TransactionStatus.INERROR:
                return None
            case _ if not self.has_lent_connection:
                return None
            case TransactionStatus.IDLE:
                problem = "its transaction was ended, which jobledger does; nothing of the command was written"
            case _:
                problem = "it was closed, or left in the middle of something; nothing of the command was written"
        return InvalidRequestError("connection", problem)

    def require_open(self) -> None:
        """Require that nothing has failed, and that nobody has ended the transaction.

        Raises:
            InvalidRequestError: a caller has ended it, or has hidden that a statement failed.
            StoreUnavailableError: a statement failed; everything is going to be rolled back.
            HistoryCorruptError: the database is damaged.
        """
        if self._failure is not None:
            raise self._failure
        if (misuse := self.misuse) is not None:
            raise misuse
        status = self._cursor.connection.info.transaction_status
        if status is TransactionStatus.INERROR and self.has_lent_connection:
            problem = "a statement in it failed, which ends every PostgreSQL transaction; use a savepoint around it"
            raise InvalidRequestError("inside", problem)
        if status is not TransactionStatus.INTRANS:
            reason = "the transaction has failed, or its connection was lost"
            raise StoreUnavailableError(reason)

    def require_whole(self) -> None:
        """Require that all of this session was in one transaction, which is about to be committed.

        Raises:
            InvalidRequestError: a caller ended it and began another one, or has hidden that a statement failed.
            StoreUnavailableError, HistoryCorruptError: as for ``require_open``.
        """
        self.require_open()
        if not self.has_lent_connection:
            return
        try:
            self._cursor.execute("RELEASE SAVEPOINT jobledger_lent")
        except psycopg.errors.InvalidSavepointSpecification as error:
            problem = "its transaction was ended and another one begun; nothing of the command was written"
            raise InvalidRequestError("connection", problem) from error
        except psycopg.Error as error:
            raise self._failed(error) from error

    @override
    def _execute(self, statement: LiteralString, values: Any = None) -> None:
        self.require_open()
        super()._execute(statement, values)

    # Reading under locks ----------------------------------------------------------------------------------------------

    LOAD_LOCKED: Final[LiteralString] = """
        SELECT now_us, position, job_id, sequence, head, job, generation, expires_at_us, step, epoch
        FROM jobledger.load(%(job_ids)s)
    """

    LOAD_ONE: Final[LiteralString] = """
        SELECT now_us, position, job_id, sequence, head, job, generation, expires_at_us, step, epoch
        FROM jobledger.load_one(%(job_id)s)
    """

    @override
    def load(self, job_ids: Sequence[str]) -> dict[str, Loaded]:
        """Status and lease rows by job id, locked in id order until the transaction ends; unknown ids are missing."""
        if len(job_ids) == 1:
            rows = self._all(self.LOAD_ONE, job_id=job_ids[0])
        else:
            rows = self._all(self.LOAD_LOCKED, job_ids=texts(job_ids))
        self._locked.update(job_ids)
        self._clock = from_us(rows[0][0])
        return {row[2]: loaded(row[1:]) for row in rows if row[2] is not None}

    def peek(self, job_ids: Sequence[str]) -> dict[str, Loaded]:
        """As ``load``, by a snapshot alone: it neither locks these jobs nor waits for whoever has."""
        return super().load(job_ids)

    @override
    def now(self) -> datetime:
        """The store's clock: as it was read last, under the locks of a load, or else read at this call."""
        clock, self._clock = self._clock, None
        return clock or super().now()

    # Rows that others have locked are passed over, so that many workers find work beside each other.
    FREE_CANDIDATES: Final[LiteralString] = """
        SELECT jobledger.free_candidates(
            %(namespace)s, %(queues)s::text[], %(kinds)s::text[], jobledger.now_us(), %(limit)s
        )
    """

    @override
    def candidates(
        self, namespace: str, *, queues: Sequence[str], kinds: Sequence[str] | None, limit: int
    ) -> list[str]:
        """Jobs that a claim may take now and nobody else is writing, best first; locked until the transaction ends."""
        kinds = None if kinds is None else list(kinds)
        rows = self._all(self.FREE_CANDIDATES, namespace=namespace, queues=list(queues), kinds=kinds, limit=limit)
        return [job_id for (job_id,) in rows]

    QUEUE_LOCK: Final[LiteralString] = """
        SELECT pg_advisory_xact_lock(
            'jobledger.position'::regclass::oid::integer, jobledger.name_lock('queue', %(namespace)s, %(queue)s)
        )
    """

    @override
    def queued(self, namespace: str, queue: str, limit: int) -> int:
        """How many jobs of a queue are queued; who asks decides by it, so the next who asks waits for this one."""
        self._all(self.QUEUE_LOCK, namespace=namespace, queue=queue)
        return super().queued(namespace, queue, limit)

    # Writing ----------------------------------------------------------------------------------------------------------

    def append(self, appends: Sequence[Append]) -> list[str | None]:
        """Write each append whose guard holds; for each, ``None`` or the precondition that failed."""
        failed: list[str | None] = []
        for wave in waves(appends):
            is_locked = all(append.job.id in self._locked for append in wave)
            answers = self._call_append(append_call(wave, is_locked=is_locked))
            # A renewal leaves no record, and is no news to anybody.
            if any(append.records and not each for append, each in zip(wave, answers, strict=True)):
                self.has_news = True
            failed += answers
        return failed

    def _call_append(self, call: AppendCall) -> list[str | None]:
        """Call the function, whose many arguments a raw cursor hands over as they are, without reading the statement.

        Raises:
            StoreUnavailableError: it failed; the transaction is going to be rolled back.
            HistoryCorruptError: the database is damaged.
        """
        self.require_open()
        cursor = psycopg.RawCursor(self._cursor.connection, row_factory=tuple_row)
        if not self._is_own:
            register_arrays(cursor)  # a caller's own connection knows nothing of them
        try:
            cursor.execute(self._place.statement(call.statement), call.arguments, binary=True)
            [(answers,)] = cursor.fetchall()
        except psycopg.Error as error:
            raise self._failed(error) from error
        found: list[str | None] = answers
        return found

    # The name is locked against every append under the group's epoch; the row is then read by a snapshot of its own.
    GROUP_LOCK: Final[LiteralString] = """
        SELECT pg_advisory_xact_lock(
            'jobledger.position'::regclass::oid::integer, jobledger.name_lock('group', %(namespace)s, %(name)s)
        )
    """
    PUT_GROUP: Final[LiteralString] = """
        INSERT INTO jobledger.worker_group (namespace, name, epoch, sequence, head)
        VALUES (%(namespace)s, %(name)s, %(epoch)s, %(sequence)s, %(head)s)
        ON CONFLICT (namespace, name) DO UPDATE SET
            epoch = excluded.epoch, sequence = excluded.sequence, head = excluded.head
    """
    HAS_RECORD: Final[LiteralString] = """
        SELECT 1 FROM jobledger.stored_events WHERE originator_id = %(stream)s AND originator_version = %(sequence)s
    """

    def append_group(self, namespace: str, name: str, expected: GroupRow, row: GroupRow, record: StoredRecord) -> bool:
        """Write a group's event and row if the group still stands as expected."""
        self._all(self.GROUP_LOCK, namespace=namespace, name=name)
        self._groups.clear()
        if self.group(namespace, name) != expected:
            return False
        if self._one(self.HAS_RECORD, stream=record.stream, sequence=record.sequence):
            return False
        self._all(
            INSERT_EVENTS,
            ids=texts([record.stream]),
            versions=integers([record.sequence]),
            topics=texts([record.topic]),
            states=byte_strings([record.state]),
            commands=texts([record.command_id]),
        )
        values = {"namespace": namespace, "name": name, "epoch": row.epoch, "sequence": row.sequence, "head": row.head}
        self._execute(self.PUT_GROUP, values)
        self.has_news = True
        self._groups.clear()
        return True

    @override
    def group(self, namespace: str, name: str) -> GroupRow:
        """A worker group, read once for all claims of a batch: an append is checked against the epoch of its moment."""
        if (namespace, name) not in self._groups:
            self._groups[namespace, name] = super().group(namespace, name)
        return self._groups[namespace, name]

    def archive(self, archivals: Sequence[Archival]) -> list[bool]:
        """Let each job's record stand for all before it, where nothing was added meanwhile; for each, if it does."""
        [(answers,)] = self._all(ARCHIVE, **archive_arguments(archivals))
        found: list[bool] = answers or []  # of none, which asks whether this role may archive at all, it is NULL
        self.has_news = self.has_news or True in found
        return found

    # Everything that follows from the state; a job's position is that of its first record, and stays.
    REWRITE_JOB: Final[LiteralString] = """
        UPDATE jobledger.job SET
            namespace = %(namespace)s, owner = %(owner)s, key = %(key)s, kind = %(kind)s, queue = %(queue)s,
            priority = %(priority)s, created_at_us = %(created_at_us)s
        WHERE job_id = %(job_id)s
    """
    REWRITE_STATUS: Final[LiteralString] = """
        UPDATE jobledger.job_status AS s SET
            position = j.position, namespace = j.namespace, queue = j.queue, kind = j.kind, priority = j.priority,
            state = %(state)s, claimable = %(claimable)s, ready_at_us = %(ready_at_us)s, is_held = %(is_held)s,
            sequence = %(sequence)s, head = %(head)s, updated_at_us = %(updated_at_us)s, job = %(job)s
        FROM jobledger.job AS j WHERE s.job_id = %(job_id)s AND j.job_id = s.job_id
    """
    DELETE_SNAPSHOTS: Final[LiteralString] = "DELETE FROM jobledger.job_snapshot WHERE job_id = %(job_id)s"
    PUT_SNAPSHOT: Final[LiteralString] = """
        INSERT INTO jobledger.job_snapshot (job_id, sequence, job) VALUES (%(job_id)s, %(sequence)s, %(job)s)
    """

    def rewrite(self, job: Job, claimable: Claimable, head: str, snapshots: Sequence[Job]) -> None:
        """Replace a job's status row and kept states by rebuilt ones."""
        row = status_row(job, claimable, head)
        self._execute(self.REWRITE_JOB, row)
        self._execute(self.REWRITE_STATUS, row)
        self._execute(self.DELETE_SNAPSHOTS, {"job_id": job.id})
        for kept in snapshots:
            self._execute(self.PUT_SNAPSHOT, {"job_id": kept.id, "sequence": kept.sequence, "job": encode_job(kept)})
