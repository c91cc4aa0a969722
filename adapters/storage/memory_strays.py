"""Rows of a store in memory that no event and no job accounts for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobledger.adapters.storage.memory_tables import (
    BODIES,
    GROUPS,
    LEASES,
    LEAVES,
    QUEUE_USAGE,
    QUEUES,
    SCHEDULE_SNAPSHOTS,
    SCHEDULES,
    SNAPSHOTS,
    STATUS,
    SUBMISSIONS,
    UNITS,
    View,
)
from jobledger.domain.ports import Stray
from jobledger.domain.queues.state import queue_stream
from jobledger.domain.schedules.state import schedule_stream
from jobledger.domain.store.operating import group_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobledger.adapters.storage.memory_recorders import MemoryLedgerRecorder


def strays(view: View, recorder: MemoryLedgerRecorder) -> Iterator[Stray]:
    """Every row that hangs on no stream or job, table by table."""
    jobs = {job_id: row.job for job_id, row in view.items(STATUS)}
    yield from (Stray("status", job_id, "") for job_id in jobs if recorder.first_of(job_id, 0) is None)
    for job_id, live in view.items(LEASES):
        if job_id not in jobs or jobs[job_id].attempt is None:
            yield Stray("lease", job_id, str(live.lease.generation))
    for (namespace, owner, submission), job_id in view.items(SUBMISSIONS):
        job = jobs.get(job_id)
        if job is None or (job.namespace, job.owner, job.submission) != (namespace, owner, submission):
            yield Stray("submission", job_id, submission)
    yield from (Stray("unit", job_id, unit) for (job_id, unit), _ in view.items(UNITS) if job_id not in jobs)
    yield from (Stray("body", job_id, digest) for (job_id, digest, _), _ in view.items(BODIES) if job_id not in jobs)
    for (job_id, sequence), _ in view.items(SNAPSHOTS):
        if job_id not in jobs or jobs[job_id].sequence < sequence:
            yield Stray("state", job_id, str(sequence))
    yield from _leaf_strays(view, recorder)
    for namespace, name in (key for key, _ in view.items(GROUPS)):
        if recorder.position_of(group_stream(namespace, name), 1) is None:
            yield Stray("group", group_stream(namespace, name), name)
    yield from _schedule_strays(view, recorder)
    yield from _queue_strays(view, recorder)


def _leaf_strays(view: View, recorder: MemoryLedgerRecorder) -> Iterator[Stray]:
    for position, leaf in view.items(LEAVES):
        behind = recorder.record_at(leaf.behind) if 0 < leaf.behind <= recorder.last_position else None
        if behind is None or behind.topic != "job.archived":
            yield Stray("archived event", f"position {leaf.behind}", str(position))


def _schedule_strays(view: View, recorder: MemoryLedgerRecorder) -> Iterator[Stray]:
    for namespace, name in (key for key, _ in view.items(SCHEDULES)):
        if recorder.position_of(schedule_stream(namespace, name), 1) is None:
            yield Stray("schedule", schedule_stream(namespace, name), name)
    for (namespace, name, sequence), _ in view.items(SCHEDULE_SNAPSHOTS):
        row = view.get(SCHEDULES, (namespace, name))
        if row is None or row.state.sequence < sequence:
            yield Stray("schedule_state", schedule_stream(namespace, name), str(sequence))


def _queue_strays(view: View, recorder: MemoryLedgerRecorder) -> Iterator[Stray]:
    for namespace, name in (key for key, _ in view.items(QUEUES)):
        if recorder.position_of(queue_stream(namespace, name), 1) is None:
            yield Stray("queue", queue_stream(namespace, name), name)
    for namespace, name in (key for key, _ in view.items(QUEUE_USAGE)):
        if view.get(QUEUES, (namespace, name)) is None:
            yield Stray("queue_usage", queue_stream(namespace, name), name)
