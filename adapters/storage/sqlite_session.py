"""One writing transaction of a SQLite store: each append with its preconditions, and nothing in halves."""

from __future__ import annotations

import json
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, LiteralString

from eventsourcing.persistence import StoredEvent
from eventsourcing.sqlite import SQLiteCursor
from typing_extensions import override

from jobledger.adapters.storage.preconditions import Found, failed_precondition
from jobledger.adapters.storage.queue_rows import encode_usage, queue_row
from jobledger.adapters.storage.rows import encode_job, lease_row
from jobledger.adapters.storage.schedule_rows import schedule_row
from jobledger.adapters.storage.sqlite_archiving import (
    DELETE_BODIES,
    DELETE_EVENTS,
    DELETE_UNITS,
    IS_AT,
    PUT_LEAF,
)
from jobledger.adapters.storage.sqlite_connecting import in_transaction
from jobledger.adapters.storage.sqlite_leash import Leash
from jobledger.adapters.storage.sqlite_queues import (
    END_SHARES,
    PUT_QUEUE,
    PUT_QUEUE_USAGE,
    QUEUE_SEQUENCE,
    SHARE_OUT,
    SQLiteQueueReader,
    label_of,
)
from jobledger.adapters.storage.sqlite_rows import rows_of
from jobledger.adapters.storage.sqlite_schedules import (
    DELETE_SCHEDULE_SNAPSHOTS,
    PUT_SCHEDULE,
    PUT_SCHEDULE_SNAPSHOT,
    SCHEDULE_SEQUENCE,
)
from jobledger.adapters.storage.sqlite_tracking import SQLiteTrackingSession
from jobledger.adapters.storage.sqlite_writes import (
    DELETE_SNAPSHOTS,
    MOVE_STATUS,
    PUT_GROUP,
    PUT_SNAPSHOT,
    REWRITE_STATUS,
    STANDINGS,
)
from jobledger.adapters.storage.status_row import status_row
from jobledger.domain.errors import InvalidRequestError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence
    from pathlib import Path

    from jobledger.adapters.storage.sqlite_recorders import SQLiteLedgerRecorder
    from jobledger.domain.decisions.claiming import Claimable
    from jobledger.domain.history import StoredRecord
    from jobledger.domain.job import Job
    from jobledger.domain.ports import Append, Archival, Clock, GroupRow, Loaded
    from jobledger.domain.queues.choosing import Usage
    from jobledger.domain.queues.ports import QueueAppend
    from jobledger.domain.queues.state import QueueState
    from jobledger.domain.schedules.ports import ScheduleAppend
    from jobledger.domain.schedules.state import ScheduleState


class SQLiteSession(SQLiteQueueReader, SQLiteTrackingSession):
    """A transaction that began with the write lock in hand: what it has read stays true until it ends."""

    def __init__(self, raw: sqlite3.Connection, clock: Clock, path: Path, recorder: SQLiteLedgerRecorder) -> None:
        """Write through ``raw``, which is in an immediate transaction; events go through ``recorder``."""
        super().__init__(raw, clock, path)
        self._recorder = recorder
        self._cursor = SQLiteCursor(raw.cursor())
        self._leash: Leash | None = None
        self._groups: dict[tuple[str, str], GroupRow] = {}

    @property
    def connection(self) -> sqlite3.Connection:
        """The open connection for the caller's own statements.

        They may read everything and write tables of the caller's; they may not begin, commit or roll back.
        """
        if self._leash is None:
            self._leash = Leash(self._raw)
        return self._raw

    @property
    def has_lent_connection(self) -> bool:
        """Whether a caller has seen the connection, and may have changed or kept it."""
        return self._leash is not None

    @property
    def misuse(self) -> InvalidRequestError | None:
        """What a caller did with the connection that it may not, if anything; nothing is committed then."""
        if self._leash is not None and in_transaction(self._raw) is None:
            return InvalidRequestError("connection", "it was closed, which jobledger does; everything was rolled back")
        return self._leash.misuse if self._leash else None

    def require_open(self) -> None:
        """Require that nothing has failed, also nothing that a caller has hidden.

        After some errors SQLite rolls back by itself; a savepoint would then begin and commit a transaction of its own.

        Raises:
            InvalidRequestError: a caller did with the connection what it may not.
            StoreUnavailableError: a statement failed; everything is going to be rolled back.
            HistoryCorruptError: the file is damaged.
        """
        if self.misuse is not None:
            raise self.misuse
        if self._failure is not None:
            raise self._failure
        if not self._raw.in_transaction:
            reason = f"SQLite rolled the transaction on {self._path} back after an error"
            raise StoreUnavailableError(reason)

    def close(self) -> None:
        """Take the caller's statements off their leash, so that the transaction can be ended."""
        if self._leash is not None:
            self._leash.drop()

    @contextmanager
    def _our_own(self) -> Generator[None]:
        """Statements of jobledger's, which a caller's leash and settings are not for."""
        if self._leash is None:
            yield
        else:
            with self._leash.off():
                yield

    @override
    def _all(self, statement: LiteralString, **values: object) -> list[sqlite3.Row]:
        with self._our_own():
            return super()._all(statement, **values)

    def peek(self, job_ids: Sequence[str]) -> dict[str, Loaded]:
        """As ``load``: there is only one writer, which waits for nobody once it has its turn."""
        return self.load(job_ids)

    def append(self, appends: Sequence[Append]) -> list[str | None]:
        """Write each append whose guard holds; for each, ``None`` or the precondition that failed."""
        failed: list[str | None] = []
        for batch in _batches(appends):
            failed += self._append(batch)
        return failed

    def _append(self, batch: Sequence[Append]) -> list[str | None]:
        """Write appends none of which meets what another one writes: all at once, and if that fails one by one."""
        job_ids = json.dumps([append.job.id for append in batch])
        standings = {row["job_id"]: row for row in self._all(STANDINGS, job_ids=job_ids)}
        failed = [failed_precondition(append, self._found(append, standings.get(append.job.id))) for append in batch]
        accepted = [append for append, reason in zip(batch, failed, strict=True) if reason is None]
        if not accepted:
            return failed
        try:
            with self._savepoint():
                self._write(accepted, standings)
        except sqlite3.IntegrityError:
            if len(batch) > 1:
                return [reason for append in batch for reason in self._append([append])]
            # A record stands where the status row says that there is none; only an auditor can tell which is right.
            return ["records"]
        return failed

    @contextmanager
    def _savepoint(self) -> Generator[None]:
        """Undo all that one item wrote when any of it fails.

        Raises:
            sqlite3.IntegrityError: a row exists already; nothing of the item is left.
            StoreUnavailableError: a statement failed otherwise; the transaction is going to be rolled back.
            HistoryCorruptError: the file is damaged.
        """
        self.require_open()
        with self._our_own(), self._savepoint_in_transaction():
            yield

    @contextmanager
    def _savepoint_in_transaction(self) -> Generator[None]:
        self._execute("SAVEPOINT item")
        try:
            yield
        except sqlite3.IntegrityError:
            self._execute("ROLLBACK TO item")
            self._execute("RELEASE item")
            raise
        except sqlite3.Error as error:
            raise self._failed(error) from error
        self._execute("RELEASE item")

    def _found(self, append: Append, standing: sqlite3.Row | None) -> Found:
        """What the append's preconditions are compared with; the write lock keeps it true."""
        job = append.job
        lease = None
        if standing is not None and standing["generation"] is not None:
            lease = lease_row(job.id, standing["generation"], standing["expires_at_us"], standing["step"])
        names = [effect.name for effect in append.effects]
        return Found(
            sequence=standing["sequence"] if standing else 0,
            lease=lease,
            epochs={group: self.group(job.namespace, group).epoch for group, _ in append.guard.epochs},
            versions=self.versions(job.namespace, job.owner, names) if names else {},
            submitted=self._submission_of(append),
            has_unit=append.unit is not None and self.unit(job.id, append.unit.unit) is not None,
            now=self.now(),
        )

    def _submission_of(self, append: Append) -> str | None:
        job = append.job
        if append.guard.sequence or job.submission is None:
            return None
        return self.submitted(job.namespace, job.owner, job.submission)

    def _write(self, appends: Sequence[Append], standings: Mapping[str, sqlite3.Row]) -> None:
        """Write everything of these appends; raises the driver's own errors."""
        records = [record for append in appends for record in append.records]
        places = ((record.stream, record.sequence) for record in records)
        positions = dict(zip(places, self._insert(records), strict=True))
        rows_of(appends, standings, positions).write(self._raw)

    def _insert(self, records: Sequence[StoredRecord]) -> Sequence[int]:
        """Write records through the recorder, as everything in the log is written."""
        events = [StoredEvent(record.stream, record.sequence, record.topic, record.state) for record in records]
        return self._recorder.insert_within(self._cursor, events, [record.command_id for record in records])

    # Schedules --------------------------------------------------------------------------------------------------------

    def append_schedules(self, appends: Sequence[ScheduleAppend]) -> list[bool]:
        """Write each append whose schedule still stands at its sequence; for each, whether it was written."""
        return [self._append_schedule(append) for append in appends]

    def _append_schedule(self, append: ScheduleAppend) -> bool:
        state = append.state
        standing = self._one(SCHEDULE_SEQUENCE, namespace=state.namespace, name=state.name)
        if (standing["sequence"] if standing else 0) != append.sequence:
            return False
        try:
            with self._savepoint():
                self._insert(append.records)
                self._put_schedule(state, append.head, append.snapshots)
        except sqlite3.IntegrityError:
            return False
        return True

    def rewrite_schedule(self, state: ScheduleState, head: str, snapshots: Sequence[ScheduleState]) -> None:
        """Replace a schedule's row and kept states by rebuilt ones, or make the row that is missing."""
        with self._savepoint():
            self._raw.execute(DELETE_SCHEDULE_SNAPSHOTS, {"namespace": state.namespace, "name": state.name})
            self._put_schedule(state, head, snapshots)

    def _put_schedule(self, state: ScheduleState, head: str, snapshots: Sequence[ScheduleState]) -> None:
        self._raw.execute(PUT_SCHEDULE, schedule_row(state, head))
        for snapshot in snapshots:
            self._raw.execute(PUT_SCHEDULE_SNAPSHOT, schedule_row(snapshot, ""))

    # Queues -----------------------------------------------------------------------------------------------------------

    def append_queue(self, append: QueueAppend) -> bool:
        """Write the append if its queue still stands at its sequence; whether it was written."""
        state = append.state
        standing = self._one(QUEUE_SEQUENCE, namespace=state.namespace, name=state.name)
        if (standing["sequence"] if standing else 0) != append.sequence:
            return False
        try:
            with self._savepoint():
                self._insert(append.records)
                self._raw.execute(PUT_QUEUE, queue_row(state, append.head))
        except sqlite3.IntegrityError:
            return False
        return True

    def rewrite_queue(self, state: QueueState, head: str) -> None:
        """Replace a queue's row by a rebuilt one, or make the row that is missing."""
        self._run(PUT_QUEUE, queue_row(state, head))

    def put_queue_usage(self, namespace: str, name: str, usage: Usage) -> None:
        """Remember for the next claim."""
        self._run(PUT_QUEUE_USAGE, {"namespace": namespace, "name": name, "usage": encode_usage(usage)})

    def share_out(self, namespace: str, queue: str, share_by: str, limit: int) -> None:
        """Assign up to ``limit`` waiting jobs of a queue to their shares, if they belong to none yet."""
        divided = {"share_by": share_by, "label": label_of(share_by)}
        self._run(SHARE_OUT, {"namespace": namespace, "queue": queue, "limit": limit} | divided)

    def end_shares(self, namespace: str, queue: str) -> None:
        """Let every waiting job of a queue belong to no share."""
        self._run(END_SHARES, {"namespace": namespace, "queue": queue})

    def take(self, job_ids: Sequence[str]) -> list[str]:
        """All of them: no other session writes."""
        return list(job_ids)

    def _run(self, statement: LiteralString, values: dict[str, Any]) -> None:
        with self._savepoint():
            self._raw.execute(statement, values)

    # Groups and rebuilding --------------------------------------------------------------------------------------------

    def append_group(self, namespace: str, name: str, expected: GroupRow, row: GroupRow, record: StoredRecord) -> bool:
        """Write a group's event and row if the group still stands as expected."""
        if self.group(namespace, name) != expected:
            return False
        values = {"namespace": namespace, "name": name, "epoch": row.epoch, "sequence": row.sequence, "head": row.head}
        try:
            with self._savepoint():
                self._insert([record])
                self._raw.execute(PUT_GROUP, values)
        except sqlite3.IntegrityError:
            return False
        finally:
            self._groups.clear()
        return True

    @override
    def group(self, namespace: str, name: str) -> GroupRow:
        """A worker group, read once: nobody else can change it while this session holds the write lock."""
        if (namespace, name) not in self._groups:
            self._groups[namespace, name] = super().group(namespace, name)
        return self._groups[namespace, name]

    def archive(self, archivals: Sequence[Archival]) -> list[bool]:
        """Let each job's record stand for all before it, where nothing was added meanwhile; for each, if it does."""
        return [self._archive(archival) for archival in archivals]

    def _archive(self, archival: Archival) -> bool:
        job, sequence = archival.job, archival.record.sequence
        if self._one(IS_AT, job_id=job.id, sequence=sequence - 1) is None:
            return False
        one = {"job_id": job.id, "sequence": sequence, "kept": json.dumps(sorted(archival.kept))}
        with self._savepoint():
            [behind] = self._insert([archival.record])
            for statement in (DELETE_EVENTS, DELETE_UNITS, DELETE_BODIES, DELETE_SNAPSHOTS):
                self._raw.execute(statement, one)
            leaves = [
                {"position": position, "digest": bytes.fromhex(digest), "behind": behind}
                for position, digest in archival.leaves
            ]
            self._raw.executemany(PUT_LEAF, leaves)
            self._raw.execute(MOVE_STATUS, status_row(job, archival.claimable, archival.head))
        return True

    def rewrite(self, job: Job, claimable: Claimable, head: str, snapshots: Sequence[Job]) -> None:
        """Replace a job's status row and kept states by rebuilt ones."""
        with self._savepoint():
            self._raw.execute(REWRITE_STATUS, status_row(job, claimable, head))
            self._raw.execute(DELETE_SNAPSHOTS, {"job_id": job.id})
            for kept in snapshots:
                row = {"job_id": kept.id, "sequence": kept.sequence, "job": encode_job(kept)}
                self._raw.execute(PUT_SNAPSHOT, row)


def _batches(appends: Sequence[Append]) -> Iterator[list[Append]]:
    """Appends that may be written together, in their order.

    One stands alone whose preconditions another one may change: a second one for a job, those with effects or a
    submission id, and those that copy from another job.
    """
    batch: dict[str, Append] = {}
    for append in appends:
        meets_others = bool(append.effects or append.inherit) or append.job.submission is not None
        if batch and (meets_others or append.job.id in batch):
            yield list(batch.values())
            batch = {}
        batch[append.job.id] = append
        if meets_others:
            yield [append]
            batch = {}
    if batch:
        yield list(batch.values())
