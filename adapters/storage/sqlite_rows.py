"""The rows that appends leave in a SQLite store, gathered by statement: each statement runs once for a batch."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, LiteralString

from jobledger.adapters.storage.rows import encode_body, encode_job, to_us
from jobledger.adapters.storage.sqlite_writes import (
    DELETE_LEASE,
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
    PUT_LEASE,
    PUT_RESOURCE,
    PUT_SNAPSHOT,
)
from jobledger.adapters.storage.status_row import status_row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobledger.domain.ports import Append


class Rows:
    """Rows by the statement that writes them; statements run in the order in which each was first needed."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._rows: dict[LiteralString, list[dict[str, Any]]] = {}

    def add(self, statement: LiteralString, row: dict[str, Any]) -> None:
        """Write a row later."""
        self._rows.setdefault(statement, []).append(row)

    def write(self, raw: sqlite3.Connection) -> None:
        """Write all rows; raises the driver's own errors."""
        for statement, rows in self._rows.items():
            raw.executemany(statement, rows)


def rows_of(
    appends: Sequence[Append], standings: Mapping[str, sqlite3.Row], positions: Mapping[tuple[str, int], int]
) -> Rows:
    """Everything that appends on distinct jobs leave beside their records.

    ``standings``: the status rows that they meet, by job id. ``positions``: where their records stand in the log, by
    stream and sequence.
    """
    rows = Rows()
    for append in appends:
        _add_bodies(rows, append)
        standing = standings.get(append.job.id)
        if standing is None:
            _add_status(rows, append, positions[append.job.id, 1])
        elif append.records:
            _change_status(rows, append, standing)
        _put_lease(rows, append)
        _put_resources(rows, append)
        for job in append.snapshots:
            rows.add(PUT_SNAPSHOT, {"job_id": job.id, "sequence": job.sequence, "job": encode_job(job)})
        if append.inherit is not None:
            inherited = {"source": append.inherit.source, "sequence": append.inherit.sequence}
            rows.add(INHERIT_BODIES, {"job_id": append.job.id, **inherited})
            rows.add(INHERIT_UNITS, {"job_id": append.job.id, **inherited})
    return rows


def _add_bodies(rows: Rows, append: Append) -> None:
    job_id = append.job.id
    for body in append.bodies:
        kept = {"digest": body.digest, "is_checkpoint": body.is_checkpoint, "bytes": body.encoded}
        rows.add(PUT_BODY, {"job_id": job_id, **kept})
    for digest in append.dropped:
        rows.add(DROP_CHECKPOINT, {"job_id": job_id, "digest": digest})
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
        rows.add(INSERT_UNIT, values)


def _add_status(rows: Rows, append: Append, position: int) -> None:
    job = append.job
    rows.add(INSERT_STATUS, status_row(job, append.claimable, append.head) | {"position": position})
    for name, value in job.labels.items():
        rows.add(INSERT_LABEL, {"namespace": job.namespace, "name": name, "value": value, "position": position})
    if job.submission is not None:
        values = {"namespace": job.namespace, "owner": job.owner, "submission": job.submission, "job_id": job.id}
        rows.add(INSERT_SUBMISSION, values)


def _change_status(rows: Rows, append: Append, standing: sqlite3.Row) -> None:
    row = status_row(append.job, append.claimable, append.head)
    has_moved = any(row[column] != standing[column] for column in INDEXED)
    rows.add(MOVE_STATUS if has_moved else GROW_STATUS, row)


def _put_lease(rows: Rows, append: Append) -> None:
    job, lease = append.job, append.lease
    if lease is None or job.attempt is None:
        if append.guard.sequence:  # a new job has no lease to delete
            rows.add(DELETE_LEASE, {"namespace": job.namespace, "job_id": job.id})
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
    rows.add(PUT_LEASE, values)


def _put_resources(rows: Rows, append: Append) -> None:
    job = append.job
    for effect in append.effects:
        values = {
            "namespace": job.namespace,
            "owner": job.owner,
            "name": effect.name,
            "value": effect.value,
            "version": effect.expected_version + 1,
            "job_id": job.id,
            "generation": effect.generation,
        }
        rows.add(PUT_RESOURCE, values)
