"""One writing transaction of a SQLite store: each append with its preconditions, and nothing in halves."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, LiteralString

from eventsourcing.persistence import StoredEvent
from eventsourcing.sqlite import SQLiteCursor
from typing_extensions import override

from jobledger.adapters.storage.preconditions import Found, failed_precondition
from jobledger.adapters.storage.rows import encode_body, encode_job, lease_row, to_us
from jobledger.adapters.storage.sqlite_claims import SQLiteFinder
from jobledger.adapters.storage.sqlite_connecting import in_transaction
from jobledger.adapters.storage.sqlite_leash import Leash
from jobledger.adapters.storage.sqlite_status import status_row
from jobledger.adapters.storage.sqlite_writes import (
    DELETE_LEASE,
    DELETE_SNAPSHOTS,
    DROP_CHECKPOINT,
    GROW_STATUS,
    INDEXED,
    INHERIT_BODIES,
    INHERIT_UNITS,
    INSERT_LABEL,
    INSERT_STATUS,
    INSERT_SUBMISSION,
    INSERT_UNIT,
    MOVE_STATUS,
    PUT_BODY,
    PUT_GROUP,
    PUT_LEASE,
    PUT_RESOURCE,
    PUT_SNAPSHOT,
    REWRITE_STATUS,
    STANDING,
)
from jobledger.domain.errors import InvalidRequestError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

    from jobledger.adapters.storage.sqlite_recorders import SQLiteLedgerRecorder
    from jobledger.domain.decisions.claiming import Claimable
    from jobledger.domain.history import StoredRecord
    from jobledger.domain.job import Job
    from jobledger.domain.ports import Append, Clock, GroupRow, Inherit


class SQLiteSession(SQLiteFinder):
    """A transaction that began with the write lock in hand: what it has read stays true until it ends."""

    def __init__(self, raw: sqlite3.Connection, clock: Clock, path: Path, recorder: SQLiteLedgerRecorder) -> None:
        """Write through ``raw``, which is in an immediate transaction; events go through ``recorder``."""
        super().__init__(raw, clock, path)
        self._recorder = recorder
        self._cursor = SQLiteCursor(raw.cursor())
        self._leash: Leash | None = None

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

    def append(self, appends: Sequence[Append]) -> list[str | None]:
        """Write each append whose guard holds; for each, ``None`` or the precondition that failed."""
        return [self._append(append) for append in appends]

    def _append(self, append: Append) -> str | None:
        standing = self._one(STANDING, job_id=append.job.id)
        failed = failed_precondition(append, self._found(append, standing))
        if failed is not None:
            return failed
        try:
            with self._savepoint():
                self._write(append, standing)
        except sqlite3.IntegrityError:
            # A record stands where the status row says that there is none; only an auditor can tell which is right.
            return "records"
        return None

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

    def _write(self, append: Append, standing: sqlite3.Row | None) -> None:
        """Write everything of one append; raises the driver's own errors."""
        self._write_bodies(append)
        positions = self._insert(append.records)
        if standing is None:
            self._insert_status(append, positions[0])
        elif append.records:
            self._update_status(append, standing)
        self._write_lease(append)
        for effect in append.effects:
            self._raw.execute(
                PUT_RESOURCE,
                {
                    "namespace": append.job.namespace,
                    "owner": append.job.owner,
                    "name": effect.name,
                    "value": effect.value,
                    "version": effect.expected_version + 1,
                    "job_id": append.job.id,
                    "generation": effect.generation,
                },
            )
        for job in append.snapshots:
            self._put_snapshot(job)
        if append.inherit is not None:
            self._inherit(append.job.id, append.inherit)

    def _insert(self, records: Sequence[StoredRecord]) -> Sequence[int]:
        """Write records through the recorder, as everything in the log is written."""
        events = [StoredEvent(record.stream, record.sequence, record.topic, record.state) for record in records]
        return self._recorder.insert_within(self._cursor, events, [record.command_id for record in records])

    def _write_bodies(self, append: Append) -> None:
        job_id = append.job.id
        for body in append.bodies:
            kept = {"digest": body.digest, "is_checkpoint": body.is_checkpoint, "bytes": body.encoded}
            self._raw.execute(PUT_BODY, {"job_id": job_id, **kept})
        for digest in append.dropped:
            self._raw.execute(DROP_CHECKPOINT, {"job_id": job_id, "digest": digest})
        if append.unit is not None:
            unit = append.unit
            values = {
                "job_id": job_id,
                "unit": unit.unit,
                "receipt": encode_body(unit.receipt),
                "digest": unit.receipt.digest,
                "generation": unit.generation,
                "sequence": unit.sequence,
            }
            self._raw.execute(INSERT_UNIT, values)

    def _insert_status(self, append: Append, position: int) -> None:
        job = append.job
        row = status_row(job, append.claimable, append.head) | {"position": position}
        self._raw.execute(INSERT_STATUS, row)
        for name, value in job.labels.items():
            label = {"namespace": job.namespace, "name": name, "value": value, "position": position}
            self._raw.execute(INSERT_LABEL, label)
        if job.submission is not None:
            values = {"namespace": job.namespace, "owner": job.owner, "submission": job.submission, "job_id": job.id}
            self._raw.execute(INSERT_SUBMISSION, values)

    def _update_status(self, append: Append, standing: sqlite3.Row) -> None:
        row = status_row(append.job, append.claimable, append.head)
        has_moved = any(row[column] != standing[column] for column in INDEXED)
        self._raw.execute(MOVE_STATUS if has_moved else GROW_STATUS, row)

    def _write_lease(self, append: Append) -> None:
        job, lease = append.job, append.lease
        if lease is None or job.attempt is None:
            self._raw.execute(DELETE_LEASE, {"namespace": job.namespace, "job_id": job.id})
            return
        values = {
            "namespace": job.namespace,
            "job_id": job.id,
            "generation": lease.generation,
            "expires_at_us": to_us(lease.expires_at),
            "step": lease.step,
            "worker_group": job.attempt.group,
            "epoch": job.attempt.epoch,
        }
        self._raw.execute(PUT_LEASE, values)

    def _put_snapshot(self, job: Job) -> None:
        self._raw.execute(PUT_SNAPSHOT, {"job_id": job.id, "sequence": job.sequence, "job": encode_job(job)})

    def _inherit(self, job_id: str, inherit: Inherit) -> None:
        values = {"job_id": job_id, "source": inherit.source, "sequence": inherit.sequence}
        self._raw.execute(INHERIT_BODIES, values)
        self._raw.execute(INHERIT_UNITS, values)

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
        return True

    def rewrite(self, job: Job, claimable: Claimable, head: str, snapshots: Sequence[Job]) -> None:
        """Replace a job's status row and kept states by rebuilt ones."""
        with self._savepoint():
            self._raw.execute(REWRITE_STATUS, status_row(job, claimable, head))
            self._raw.execute(DELETE_SNAPSHOTS, {"job_id": job.id})
            for snapshot in snapshots:
                self._put_snapshot(snapshot)
