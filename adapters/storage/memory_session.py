"""One writing session of a store in memory: a draft that nobody sees before it is whole."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from eventsourcing.persistence import StoredEvent
from typing_extensions import override

from jobledger.adapters.storage.memory_finding import MemoryFinder
from jobledger.adapters.storage.memory_tables import (
    BODIES,
    GROUPS,
    LEASES,
    LEAVES,
    OPEN,
    QUEUE_USAGE,
    QUEUED,
    QUEUES,
    RESOURCES,
    SCHEDULE_SNAPSHOTS,
    SCHEDULES,
    SNAPSHOTS,
    STATUS,
    SUBMISSIONS,
    UNITS,
    Draft,
    KeptUnit,
    LiveRow,
    QueueRow,
    ScheduleRow,
    StatusRow,
    Table,
)
from jobledger.adapters.storage.memory_tracking import MemoryTrackingSession
from jobledger.adapters.storage.preconditions import Found, failed_precondition
from jobledger.adapters.storage.queue_rows import decode_queue, encode_queue, encode_usage
from jobledger.adapters.storage.rows import decode_job, encode_body, encode_job
from jobledger.adapters.storage.schedule_rows import decode_schedule, encode_schedule
from jobledger.domain.decisions.claiming import Claimable
from jobledger.domain.errors import InvalidRequestError
from jobledger.domain.job import State
from jobledger.domain.ports import Leaf, ResourceRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobledger.adapters.storage.memory_recorders import MemoryLedgerRecorder
    from jobledger.adapters.storage.memory_tables import Committed
    from jobledger.domain.history import StoredRecord
    from jobledger.domain.job import Job
    from jobledger.domain.ports import Append, Archival, Clock, GroupRow, Loaded, StoredBody
    from jobledger.domain.queues.choosing import Usage
    from jobledger.domain.queues.ports import QueueAppend
    from jobledger.domain.queues.state import QueueState
    from jobledger.domain.schedules.ports import ScheduleAppend
    from jobledger.domain.schedules.state import ScheduleState


class MemorySession(MemoryFinder, MemoryTrackingSession):
    """Reads what is committed and what it has written itself; writes are staged until ``commit``."""

    def __init__(self, draft: Draft, recorder: MemoryLedgerRecorder, clock: Clock) -> None:
        """Write on top of everything that is committed; the caller holds the recorder's turn."""
        super().__init__(draft, recorder, recorder.last_position, clock)
        self._draft = draft
        self._committed_upto = recorder.last_position
        self._staged: list[StoredRecord] = []
        self._taken_out: list[int] = []

    # Its own records, behind those that are committed -----------------------------------------------------------------

    def _stage(self, records: Sequence[StoredRecord]) -> None:
        self._staged += records
        self._upto += len(records)

    @override
    def _record_at(self, position: int) -> StoredRecord | None:
        behind = position - self._committed_upto
        return self._staged[behind - 1] if behind > 0 else super()._record_at(position)

    @override
    def _record_of(self, stream: str, sequence: int) -> StoredRecord | None:
        own = (record for record in self._staged if (record.stream, record.sequence) == (stream, sequence))
        return super()._record_of(stream, sequence) or next(own, None)

    @override
    def caused(self, stream: str, command_id: str) -> list[StoredRecord]:
        """The records that one command left in a stream, in order."""
        own = [record for record in self._staged if (record.stream, record.command_id) == (stream, command_id)]
        return super().caused(stream, command_id) + own

    @property
    def connection(self) -> object:
        """There is none.

        Raises:
            InvalidRequestError: always.
        """
        raise InvalidRequestError("inside", "a store in memory runs no statements of yours; use SQLite or PostgreSQL")

    def peek(self, job_ids: Sequence[str]) -> dict[str, Loaded]:
        """As ``load``: there is only one writer, which waits for nobody once it has its turn."""
        return self.load(job_ids)

    # Appending --------------------------------------------------------------------------------------------------------

    def append(self, appends: Sequence[Append]) -> list[str | None]:
        """Write each append whose guard holds; for each, ``None`` or the precondition that failed."""
        return [self._append(append) for append in appends]

    def _append(self, append: Append) -> str | None:
        failed = failed_precondition(append, self._found(append))
        if failed is None and any(self._record_of(record.stream, record.sequence) for record in append.records):
            # A record stands where the status row says that there is none; only an auditor can tell which is right.
            failed = "records"
        if failed is None:
            self._write(append)
        return failed

    def _found(self, append: Append) -> Found:
        job = append.job
        row = self._draft.get(STATUS, job.id)
        live = self._draft.get(LEASES, job.id)
        return Found(
            sequence=row.job.sequence if row else 0,
            lease=live.lease if live else None,
            epochs={group: self.group(job.namespace, group).epoch for group, _ in append.guard.epochs},
            versions=self.versions(job.namespace, job.owner, [effect.name for effect in append.effects]),
            submitted=self.submitted(job.namespace, job.owner, job.submission) if job.submission else None,
            has_unit=append.unit is not None and self.unit(job.id, append.unit.unit) is not None,
            now=self.now(),
        )

    def _write(self, append: Append) -> None:
        job, row = append.job, self._draft.get(STATUS, append.job.id)
        position = row.position if row else self._upto + 1
        self._stage(append.records)
        if append.records:
            self._put_status(job, append.claimable, append.head, position)
        if row is None and job.submission is not None:
            self._draft.put(SUBMISSIONS, (job.namespace, job.owner, job.submission), job.id)
        if append.lease is None or job.attempt is None:
            self._draft.drop(LEASES, job.id)
        else:
            self._draft.put(LEASES, job.id, LiveRow(job.namespace, append.lease, job.attempt.group, job.attempt.epoch))
        if append.unit is not None:
            unit, receipt = append.unit, append.unit.receipt
            kept = KeptUnit(unit.unit, encode_body(receipt), receipt.digest, unit.generation, unit.sequence)
            self._draft.put(UNITS, (job.id, unit.unit), kept)
        for effect in append.effects:
            written = ResourceRow(effect.name, effect.value, effect.expected_version + 1, job.id, effect.generation)
            self._draft.put(RESOURCES, (job.namespace, job.owner, effect.name), written)
        self._put_bodies(job.id, append.bodies)
        for digest in append.dropped:
            self._draft.drop(BODIES, (job.id, digest, True))
        for snapshot in append.snapshots:
            self._put_snapshot(snapshot)
        if append.inherit is not None:
            self._inherit(job.id, append.inherit.source, append.inherit.sequence)

    def _put_status(self, job: Job, claimable: Claimable, head: str, position: int) -> None:
        encoded = encode_job(job)
        own = decode_job(job.id, job.sequence, encoded)
        before, row = self._draft.get(STATUS, job.id), StatusRow(own, encoded, claimable, head, position)
        self._draft.put(STATUS, job.id, row)
        if claimable in (Claimable.NEVER, Claimable.FINISHED):
            self._draft.drop(OPEN, job.id)
        else:
            self._draft.put(OPEN, job.id, row)
        was_queued = before is not None and before.job.state is State.QUEUED
        if was_queued != (job.state is State.QUEUED):
            queue = (job.namespace, job.queue)
            count = self._draft.get(QUEUED, queue) or 0
            self._draft.put(QUEUED, queue, count + (-1 if was_queued else 1))

    def _put_snapshot(self, job: Job) -> None:
        self._draft.put(SNAPSHOTS, (job.id, job.sequence), encode_job(job))

    def _put_bodies(self, job_id: str, bodies: Sequence[StoredBody]) -> None:
        for body in bodies:
            key = (job_id, body.digest, body.is_checkpoint)
            if self._draft.get(BODIES, key) is None:
                self._draft.put(BODIES, key, body)

    def _inherit(self, job_id: str, source: str, sequence: int) -> None:
        """Copy receipts with their bodies; they stand from the first event on, and no generation recorded them."""
        for unit in self._units_of(source):
            if unit.sequence > sequence:
                continue
            self._draft.put(UNITS, (job_id, unit.name), replace(unit, generation=0, sequence=1))
            body = self._draft.get(BODIES, (source, unit.digest, False))
            if body is not None:
                self._put_bodies(job_id, [body])

    def append_group(self, namespace: str, name: str, expected: GroupRow, row: GroupRow, record: StoredRecord) -> bool:
        """Write a group's event and row if the group still stands as expected."""
        if self.group(namespace, name) != expected or self._record_of(record.stream, record.sequence):
            return False
        self._stage([record])
        self._draft.put(GROUPS, (namespace, name), row)
        return True

    # Schedules --------------------------------------------------------------------------------------------------------

    def append_schedules(self, appends: Sequence[ScheduleAppend]) -> list[bool]:
        """Write each append whose schedule still stands at its sequence; for each, whether it was written."""
        return [self._append_schedule(append) for append in appends]

    def _append_schedule(self, append: ScheduleAppend) -> bool:
        state = append.state
        row = self._draft.get(SCHEDULES, (state.namespace, state.name))
        if (row.state.sequence if row else 0) != append.sequence:
            return False
        if any(self._record_of(record.stream, record.sequence) for record in append.records):
            return False
        self._stage(append.records)
        self._put_schedule(state, append.head)
        for snapshot in append.snapshots:
            self._put_schedule_snapshot(snapshot)
        return True

    def rewrite_schedule(self, state: ScheduleState, head: str, snapshots: Sequence[ScheduleState]) -> None:
        """Replace a schedule's row and kept states by rebuilt ones, or make the row that is missing."""
        self._put_schedule(state, head)
        for key, _ in self._draft.items(SCHEDULE_SNAPSHOTS):
            if key[:2] == (state.namespace, state.name):
                self._draft.drop(SCHEDULE_SNAPSHOTS, key)
        for snapshot in snapshots:
            self._put_schedule_snapshot(snapshot)

    def _put_schedule(self, state: ScheduleState, head: str) -> None:
        encoded = encode_schedule(state)
        own = decode_schedule(state.namespace, state.name, state.sequence, encoded)
        self._draft.put(SCHEDULES, (state.namespace, state.name), ScheduleRow(own, encoded, head))

    def _put_schedule_snapshot(self, state: ScheduleState) -> None:
        key = (state.namespace, state.name, state.sequence)
        self._draft.put(SCHEDULE_SNAPSHOTS, key, encode_schedule(state))

    # Queues -----------------------------------------------------------------------------------------------------------

    def append_queue(self, append: QueueAppend) -> bool:
        """Write the append if its queue still stands at its sequence; whether it was written."""
        state = append.state
        row = self._draft.get(QUEUES, (state.namespace, state.name))
        if (row.state.sequence if row else 0) != append.sequence:
            return False
        if any(self._record_of(record.stream, record.sequence) for record in append.records):
            return False
        self._stage(append.records)
        self.rewrite_queue(state, append.head)
        return True

    def rewrite_queue(self, state: QueueState, head: str) -> None:
        """Replace a queue's row by a rebuilt one, or make the row that is missing."""
        encoded = encode_queue(state)
        own = decode_queue(state.namespace, state.name, state.sequence, encoded)
        self._draft.put(QUEUES, (state.namespace, state.name), QueueRow(own, encoded, head))

    def put_queue_usage(self, namespace: str, name: str, usage: Usage) -> None:
        """Remember for the next claim."""
        self._draft.put(QUEUE_USAGE, (namespace, name), encode_usage(usage))

    def share_out(self, namespace: str, queue: str, share_by: str, limit: int) -> None:
        """Do nothing: the share of each job is seen when it is looked at."""

    def end_shares(self, namespace: str, queue: str) -> None:
        """Do nothing, likewise."""

    def take(self, job_ids: Sequence[str]) -> list[str]:
        """All of them: no other session is open."""
        return list(job_ids)

    # Archiving --------------------------------------------------------------------------------------------------------

    def archive(self, archivals: Sequence[Archival]) -> list[bool]:
        """Let each job's record stand for all before it, where nothing was added meanwhile; for each, if it does."""
        return [self._archive(archival) for archival in archivals]

    def _archive(self, archival: Archival) -> bool:
        job, record = archival.job, archival.record
        row = self._draft.get(STATUS, job.id)
        if row is None or row.job.sequence != record.sequence - 1:
            return False
        self._stage([record])
        for position, digest in archival.leaves:
            self._draft.put(LEAVES, position, Leaf(position, digest, self._upto))
            self._taken_out.append(position)
        for table in (SNAPSHOTS, UNITS):
            self._drop_all(table, job.id)
        for key, _ in self._draft.items(BODIES):
            if key[0] == job.id and key[1] not in archival.kept:
                self._draft.drop(BODIES, key)
        self._put_status(job, archival.claimable, archival.head, row.position)
        return True

    def _drop_all(self, table: Table[Any, Any], job_id: str) -> None:
        for key, _ in self._draft.items(table):
            if key[0] == job_id:
                self._draft.drop(table, key)

    # Rebuilding -------------------------------------------------------------------------------------------------------

    def rewrite(self, job: Job, claimable: Claimable, head: str, snapshots: Sequence[Job]) -> None:
        """Replace a job's status row and kept states by rebuilt ones."""
        row = self._draft.get(STATUS, job.id)
        if row is not None:
            self._put_status(job, claimable, head, row.position)
        for key, _ in self._draft.items(SNAPSHOTS):
            if key[0] == job.id:
                self._draft.drop(SNAPSHOTS, key)
        for snapshot in snapshots:
            self._put_snapshot(snapshot)

    # Ending -----------------------------------------------------------------------------------------------------------

    def commit(self, rows: Committed) -> None:
        """Show everybody what was written, in one moment."""
        events = [StoredEvent(record.stream, record.sequence, record.topic, record.state) for record in self._staged]
        command_ids = [record.command_id for record in self._staged]

        def apply() -> None:
            rows.take_out(self._recorder.take_out(self._taken_out))
            rows.apply(self._draft)

        self._recorder.commit(events, command_ids, apply)
