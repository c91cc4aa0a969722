"""One consistent view of a store in memory."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from jobledger.adapters.storage.memory_queues import MemoryQueueReader
from jobledger.adapters.storage.memory_schedules import MemoryScheduleReader
from jobledger.adapters.storage.memory_strays import strays
from jobledger.adapters.storage.memory_tables import (
    BODIES,
    GONE,
    GONE_AT,
    GROUPS,
    LEASES,
    LEAVES,
    QUEUED,
    RESOURCES,
    SNAPSHOTS,
    STATUS,
    SUBMISSIONS,
    UNITS,
    KeptUnit,
    StatusRow,
    View,
)
from jobledger.adapters.storage.memory_tracking import MemoryTrackingReader
from jobledger.adapters.storage.rows import decode_job
from jobledger.domain.job import Job, State
from jobledger.domain.ports import GroupRow, JobFilter, Leaf, Loaded, Positioned, ResourceRow, Stray, UnitRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from jobledger.adapters.storage.memory_recorders import MemoryLedgerRecorder
    from jobledger.domain.decisions.claiming import Claimable
    from jobledger.domain.history import StoredRecord
    from jobledger.domain.ports import Clock


class MemoryReader(MemoryScheduleReader, MemoryTrackingReader, MemoryQueueReader):
    """A view of the rows, and the log up to the position that it had when the view was opened."""

    def __init__(self, view: View, recorder: MemoryLedgerRecorder, upto: int, clock: Clock) -> None:
        """Read rows through ``view``, and records of ``recorder`` up to the position ``upto``."""
        self._view = view
        self._recorder = recorder
        self._upto = upto
        self._clock = clock

    def now(self) -> datetime:
        """The store's clock, read at this call."""
        return self._clock.now()

    # One job ----------------------------------------------------------------------------------------------------------

    def load(self, job_ids: Sequence[str]) -> dict[str, Loaded]:
        """Status and lease rows by job id; unknown ids are missing."""
        rows = {job_id: self._view.get(STATUS, job_id) for job_id in job_ids}
        return {job_id: self._loaded(row) for job_id, row in rows.items() if row is not None}

    def _loaded(self, row: StatusRow) -> Loaded:
        live = self._view.get(LEASES, row.job.id)
        return Loaded(
            job=decode_job(row.job.id, row.job.sequence, row.encoded),
            head=row.head,
            lease=live.lease if live else None,
            epoch=self.group(row.job.namespace, live.group).epoch if live else 0,
            position=row.position,
        )

    def records(self, stream: str, *, after: int = 0, upto: int | None = None, limit: int) -> list[StoredRecord]:
        """A stream's records with ``after < sequence <= upto``, in order, at most ``limit``."""
        found: list[StoredRecord] = []
        sequence = self._first_of(stream, max(after, 0))
        while len(found) < limit and (upto is None or sequence <= upto):
            record = self._record_of(stream, sequence)
            if record is None:
                break
            found.append(record)
            sequence += 1
        return found

    def _first_of(self, stream: str, after: int) -> int:
        """The sequence of the first record behind one: that which stands for archived ones, or just the next."""
        if self._view.get(GONE_AT, (stream, after + 1)) is not None:
            return after + 1
        return self._recorder.first_of(stream, after) or after + 1

    def caused(self, stream: str, command_id: str) -> list[StoredRecord]:
        """The records that one command left in a stream, in order."""
        positions = self._recorder.caused(stream, command_id)
        records = [self._record_at(position) for position in positions if position <= self._upto]
        return [record for record in records if record is not None]

    def _record_of(self, stream: str, sequence: int) -> StoredRecord | None:
        position = self._position_of(stream, sequence)
        return None if position is None or position > self._upto else self._record_at(position)

    def _position_of(self, stream: str, sequence: int) -> int | None:
        """Where a record stands, or stood when this view was opened."""
        position = self._recorder.position_of(stream, sequence)
        return self._view.get(GONE_AT, (stream, sequence)) if position is None else position

    def _record_at(self, position: int) -> StoredRecord | None:
        """The record at a position; ``None`` where it was archived before this view was opened."""
        return self._recorder.record_at(position) or self._view.get(GONE, position)

    def is_found_by(self, job: Job, claimable: Claimable, head: str) -> bool:
        """Whether the row and the submission that the store finds a job by are those of this state."""
        row = self._view.get(STATUS, job.id)
        if row is None or (row.job, row.claimable, row.head) != (job, claimable, head):
            return False
        if row.position != self._created_at(job):
            return False
        return job.submission is None or self.submitted(job.namespace, job.owner, job.submission) == job.id

    def _created_at(self, job: Job) -> int | None:
        """The position of a job's first event, also of one that was archived."""
        if not job.archived:
            return self._position_of(job.id, 1)
        behind = self._position_of(job.id, job.archived)
        return min((leaf.position for _, leaf in self._view.items(LEAVES) if leaf.behind == behind), default=None)

    def snapshot(self, job_id: str, upto: int) -> Job | None:
        """The newest kept state of a job at or before a sequence."""
        snapshots = self._view.items(SNAPSHOTS)
        kept = [(sequence, encoded) for (owner, sequence), encoded in snapshots if owner == job_id and sequence <= upto]
        return decode_job(job_id, *max(kept)) if kept else None

    def body(self, job_id: str, digest: str) -> bytes | None:
        """Bytes kept aside, or ``None`` where they were dropped."""
        kept = self._view.get(BODIES, (job_id, digest, False)) or self._view.get(BODIES, (job_id, digest, True))
        return kept.encoded if kept else None

    def unit(self, job_id: str, unit: str) -> UnitRow | None:
        """The first record of a unit."""
        kept = self._view.get(UNITS, (job_id, unit))
        return kept.row(job_id) if kept else None

    def units(self, job_id: str, *, after: str | None, limit: int) -> list[UnitRow]:
        """Units by name (compared by code point), from behind ``after``."""
        kept = sorted(self._units_of(job_id, after or ""), key=lambda unit: unit.name)
        return [unit.row(job_id) for unit in kept[:limit]]

    def _units_of(self, job_id: str, after: str = "") -> list[KeptUnit]:
        return [unit for (owner, name), unit in self._view.items(UNITS) if owner == job_id and name > after]

    # What hangs on jobs -----------------------------------------------------------------------------------------------

    def resource(self, namespace: str, owner: str, name: str) -> ResourceRow | None:
        """A resource; ``None``: version 0, absent."""
        return self._view.get(RESOURCES, (namespace, owner, name))

    def versions(self, namespace: str, owner: str, names: Sequence[str]) -> dict[str, int]:
        """The versions of those resources that exist."""
        rows = {name: self.resource(namespace, owner, name) for name in names}
        return {name: row.version for name, row in rows.items() if row is not None}

    def submitted(self, namespace: str, owner: str, submission: str) -> str | None:
        """The job that a submission id made."""
        return self._view.get(SUBMISSIONS, (namespace, owner, submission))

    def group(self, namespace: str, name: str) -> GroupRow:
        """A worker group; one that never advanced is at epoch 1."""
        return self._view.get(GROUPS, (namespace, name)) or GroupRow()

    # All jobs ---------------------------------------------------------------------------------------------------------

    def queued(self, namespace: str, queue: str, limit: int) -> int:
        """How many jobs of a queue are in the state ``queued``, counted no further than ``limit``."""
        return min(limit, self._view.get(QUEUED, (namespace, queue)) or 0)

    def counts(self, namespace: str, owner: str | None, queue: str | None) -> dict[State, int]:
        """Jobs by state; every state is there, also with none."""
        counts = dict.fromkeys(State, 0)
        for row in self._matching(JobFilter(namespace=namespace, owner=owner, queue=queue)):
            counts[row.job.state] += 1
        return counts

    def jobs(self, wanted: JobFilter, *, before: int | None, limit: int) -> list[Loaded]:
        """Matching jobs, newest first, created before a position."""
        rows = [row for row in self._matching(wanted) if before is None or row.position < before]
        rows.sort(key=lambda row: row.position, reverse=True)
        return [self._loaded(row) for row in rows[:limit]]

    def count(self, wanted: JobFilter, limit: int) -> int:
        """How many jobs match, counted no further than ``limit``."""
        return min(limit, sum(1 for _ in self._matching(wanted)))

    def _matching(self, wanted: JobFilter) -> Iterator[StatusRow]:
        return (row for _, row in self._view.items(STATUS) if _is_match(row.job, wanted))

    def feed(
        self, namespace: str, *, after: int, limit: int, topics: Sequence[str], owner: str | None
    ) -> tuple[list[Positioned], int]:
        """Records of all jobs by position, and the position up to which nothing further matches."""
        found: list[Positioned] = []
        for position in range(max(after, 0) + 1, self._upto + 1):
            if len(found) == limit:
                return found, found[-1].position if found else after
            record = self._record_at(position)
            row = self._view.get(STATUS, record.stream) if record is not None else None
            if record is None or row is None or row.job.namespace != namespace:
                continue
            if owner in (None, row.job.owner) and (not topics or record.topic in topics):
                found.append(Positioned(position, record))
        return found, found[-1].position if found and len(found) == limit else max(after, self._upto)

    def job_ids(self, namespace: str, *, after: str, limit: int) -> list[str]:
        """All job ids in order, for walks over the whole store."""
        rows = self._matching(JobFilter(namespace=namespace))
        return sorted(row.job.id for row in rows if row.job.id > after)[:limit]

    def log(self, *, after: int, limit: int) -> list[Positioned]:
        """Every record of every stream and namespace by position."""
        found: list[Positioned] = []
        for position in range(max(after, 0) + 1, self._upto + 1):
            if len(found) == limit:
                break
            record = self._record_at(position)
            if record is not None:
                found.append(Positioned(position, record))
        return found

    def placed(self, stream: str, *, after: int, limit: int) -> list[Positioned]:
        """A stream's records behind a sequence, in order, with their places in the log."""
        found: list[Positioned] = []
        for record in self.records(stream, after=after, limit=limit):
            position = self._position_of(stream, record.sequence)
            found.append(Positioned(position or 0, record))
        return found

    def streams(self, *, after: str, limit: int) -> list[str]:
        """The names of all streams of all namespaces, in order, from behind ``after``."""
        gone = {stream for (stream, _), _ in self._view.items(GONE_AT)}
        return sorted(name for name in gone | set(self._recorder.streams(self._upto)) if name > after)[:limit]

    def resources(self, *, after: tuple[str, str, str], limit: int) -> list[tuple[str, str, ResourceRow]]:
        """Every resource with its namespace and owner, by these and its name, from behind such a triple."""
        rows = sorted((each for each in self._view.items(RESOURCES) if each[0] > after), key=lambda each: each[0])
        return [(namespace, owner, row) for (namespace, owner, _), row in rows[:limit]]

    def leaves(self, *, after: int, limit: int, behind: int | None = None) -> list[Leaf]:
        """What is kept of archived events by position; of those behind one event, if it is given."""
        kept = [leaf for position, leaf in self._view.items(LEAVES) if position > after]
        wanted = sorted(kept, key=lambda leaf: leaf.position)
        return [leaf for leaf in wanted if behind in (None, leaf.behind)][:limit]

    def strays(self, *, limit: int) -> list[Stray]:
        """Rows that hang on no stream or job."""
        return list(islice(strays(self._view, self._recorder), limit))


def _is_match(job: Job, wanted: JobFilter) -> bool:
    if job.namespace != wanted.namespace:
        return False
    for field in ("owner", "kind", "queue", "state"):
        if getattr(wanted, field) not in (None, getattr(job, field)):
            return False
    if wanted.is_held is not None and wanted.is_held != (job.hold is not None):
        return False
    if wanted.key_prefix is not None and (job.key is None or not job.key.startswith(wanted.key_prefix)):
        return False
    if wanted.label is None:
        return True
    name, value = wanted.label
    return name in job.labels and value in (None, job.labels[name])
