"""One consistent view of a PostgreSQL store: a job's rows, its records, and everything that hangs on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, LiteralString

import psycopg

from jobledger.adapters.storage.postgresql_errors import failure
from jobledger.adapters.storage.queue_rows import shared_claimable
from jobledger.adapters.storage.rows import decode_body, decode_job, from_us, group_row, lease_row, resource_row
from jobledger.adapters.storage.status_row import status_row
from jobledger.domain.errors import HistoryCorruptError
from jobledger.domain.history import StoredRecord
from jobledger.domain.ports import GroupRow, Loaded, ResourceRow, UnitRow

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from psycopg.rows import TupleRow

    from jobledger.adapters.storage.postgresql_connecting import Place
    from jobledger.domain.decisions.claiming import Claimable
    from jobledger.domain.errors import StoreUnavailableError
    from jobledger.domain.job import Job

Row = tuple[Any, ...]

SELECT_STATUS: Final[LiteralString] = """
    SELECT
        s.position, s.job_id, s.sequence, s.head, s.job,
        l.generation, l.expires_at_us, l.step,
        CASE WHEN l.generation IS NULL THEN 0 ELSE coalesce(g.epoch, 1) END
"""

# Each by its key: a plan that was made while a table was empty may join by reading all of it for each row.
JOIN_LEASE: Final[LiteralString] = """
    LEFT JOIN LATERAL (SELECT * FROM jobledger.job_lease AS l WHERE l.job_id = s.job_id OFFSET 0) AS l ON true
    LEFT JOIN LATERAL (
        SELECT g.epoch FROM jobledger.worker_group AS g
        WHERE g.namespace = l.namespace AND g.name = l.worker_group OFFSET 0
    ) AS g ON true
"""

SELECT_RECORD: Final[LiteralString] = """
    SELECT e.originator_id, e.originator_version, e.topic, e.state, e.command_id FROM jobledger.stored_events AS e
"""


class PostgreSQLRows:
    """A transaction on one connection."""

    def __init__(self, cursor: psycopg.Cursor[TupleRow], place: Place) -> None:
        """Read through ``cursor``, whose connection is in a transaction and which answers tuples of binary values."""
        self._cursor = cursor
        self._place = place
        self._failure: StoreUnavailableError | HistoryCorruptError | None = None

    NOW: Final[LiteralString] = "SELECT jobledger.now_us()"

    def now(self) -> datetime:
        """The store's clock, read at this call."""
        [(now_us,)] = self._all(self.NOW)
        return from_us(now_us)

    def _execute(self, statement: LiteralString, values: dict[str, Any] | None = None) -> None:
        """Execute one statement.

        Raises:
            StoreUnavailableError: it failed; the transaction is going to be rolled back.
            HistoryCorruptError: the database is damaged.
        """
        try:
            self._cursor.execute(self._place.statement(statement), values)
        except psycopg.Error as error:
            raise self._failed(error) from error

    def _all(self, statement: LiteralString, **values: object) -> list[Row]:
        self._execute(statement, values)
        return self._cursor.fetchall()

    def _one(self, statement: LiteralString, **values: object) -> Row | None:
        rows = self._all(statement, **values)
        return rows[0] if rows else None

    def _failed(self, error: psycopg.Error) -> StoreUnavailableError | HistoryCorruptError:
        """What a failing statement means; it is remembered, so that its transaction is never committed."""
        self._failure = failure(error, self._place.named)
        return self._failure


class PostgreSQLJobReader(PostgreSQLRows):
    """Reads one job, or something that is kept beside jobs; every statement finds its rows by a unique key."""

    # By the primary key of job_status; leases and groups by theirs.
    LOAD: Final[LiteralString] = (
        SELECT_STATUS
        + "FROM jobledger.job_status AS s"
        + JOIN_LEASE
        + "WHERE s.job_id = ANY(%(job_ids)s::text[])"  # literals only
    )

    def load(self, job_ids: Sequence[str]) -> dict[str, Loaded]:
        """Status and lease rows by job id; unknown ids are missing."""
        return {row[1]: loaded(row) for row in self._all(self.LOAD, job_ids=list(job_ids))}

    # By the primary keys of both tables, and of stored_events; the first event of an archived job was the first behind
    # the one that stands for it, by archived_event_behind.
    COLUMNS: Final[LiteralString] = """
        SELECT
            j.position,
            j.job_id, j.namespace, j.owner, j.key, j.kind, j.queue, j.priority, s.state, s.claimable, s.ready_at_us,
            s.is_held, s.sequence, s.head, j.created_at_us, s.updated_at_us,
            (s.namespace, s.queue, s.kind, s.priority, s.position)
                IS NOT DISTINCT FROM (j.namespace, j.queue, j.kind, j.priority, c.position),
            j.position IS NOT DISTINCT FROM c.position,
            s.share, q.share_by
        FROM jobledger.job AS j JOIN jobledger.job_status AS s ON s.job_id = j.job_id
        LEFT JOIN jobledger.queue AS q ON q.namespace = s.namespace AND q.name = s.queue
        CROSS JOIN LATERAL (
            SELECT coalesce(
                (
                    SELECT e.notification_id FROM jobledger.stored_events AS e
                    WHERE e.originator_id = j.job_id AND e.originator_version = 1
                ),
                (
                    SELECT min(a.position) FROM jobledger.archived_event AS a
                    WHERE a.behind = (
                        SELECT e.notification_id FROM jobledger.stored_events AS e
                        WHERE e.originator_id = j.job_id AND e.originator_version = %(archived)s
                    )
                )
            ) AS position
        ) AS c
        WHERE j.job_id = %(job_id)s
    """
    # By the primary key: labels are found by their names, which the events tell.
    LABELED: Final[LiteralString] = """
        SELECT name, value FROM jobledger.job_label
        WHERE namespace = %(namespace)s AND name = ANY(%(names)s::text[])
            AND position = %(position)s AND job_id = %(job_id)s
    """
    SUBMISSION: Final[LiteralString] = """
        SELECT job_id FROM jobledger.submission
        WHERE namespace = %(namespace)s AND owner = %(owner)s AND submission = %(submission)s
    """

    def is_found_by(self, job: Job, claimable: Claimable, head: str) -> bool:
        """Whether the columns of both tables, the labels and the submission are those of this state."""
        row = self._one(self.COLUMNS, job_id=job.id, archived=job.archived)
        if row is None:
            return False
        wanted = status_row(job, claimable, head)
        wanted["claimable"] = shared_claimable(job, claimable, row[9], *row[-2:])
        if list(row[1:-2]) != [*(value for column, value in wanted.items() if column != "job"), True, True]:
            return False
        if job.labels:
            at = {"namespace": job.namespace, "position": row[0], "job_id": job.id}
            if sorted(self._all(self.LABELED, names=list(job.labels), **at)) != sorted(job.labels.items()):
                return False
        if job.submission is None:
            return True
        by = {"namespace": job.namespace, "owner": job.owner, "submission": job.submission}
        return self._one(self.SUBMISSION, **by) == (job.id,)

    # By the primary key of stored_events.
    RECORDS: Final[LiteralString] = (
        SELECT_RECORD
        + """
        WHERE e.originator_id = %(stream)s AND e.originator_version > %(after)s AND e.originator_version <= %(upto)s
        ORDER BY e.originator_version LIMIT %(limit)s
    """
    )

    def records(self, stream: str, *, after: int = 0, upto: int | None = None, limit: int) -> list[StoredRecord]:
        """A stream's records with ``after < sequence <= upto``, in order, at most ``limit``."""
        last = 2**63 - 1 if upto is None else upto
        return [stored(row) for row in self._all(self.RECORDS, stream=stream, after=after, upto=last, limit=limit)]

    # By stored_events_command.
    CAUSED: Final[LiteralString] = (
        SELECT_RECORD
        + """
        WHERE e.command_id = %(command_id)s AND e.originator_id = %(stream)s
        ORDER BY e.originator_version
    """
    )

    def caused(self, stream: str, command_id: str) -> list[StoredRecord]:
        """The records that one command left in a stream, in order."""
        return [stored(row) for row in self._all(self.CAUSED, stream=stream, command_id=command_id)]

    SNAPSHOT: Final[LiteralString] = """
        SELECT sequence, job FROM jobledger.job_snapshot
        WHERE job_id = %(job_id)s AND sequence <= %(upto)s
        ORDER BY sequence DESC LIMIT 1
    """

    def snapshot(self, job_id: str, upto: int) -> Job | None:
        """The newest kept state of a job at or before a sequence."""
        row = self._one(self.SNAPSHOT, job_id=job_id, upto=upto)
        return decode_job(job_id, row[0], row[1]) if row else None

    BODY: Final[LiteralString] = """
        SELECT bytes FROM jobledger.job_body WHERE job_id = %(job_id)s AND digest = %(digest)s LIMIT 1
    """

    def body(self, job_id: str, digest: str) -> bytes | None:
        """Bytes kept aside, or ``None`` where they were dropped."""
        row = self._one(self.BODY, job_id=job_id, digest=digest)
        return row[0] if row else None

    UNIT: Final[LiteralString] = """
        SELECT unit, receipt, generation, sequence FROM jobledger.job_unit
        WHERE job_id = %(job_id)s AND unit = %(unit)s
    """

    def unit(self, job_id: str, unit: str) -> UnitRow | None:
        """The first record of a unit."""
        row = self._one(self.UNIT, job_id=job_id, unit=unit)
        return _unit(job_id, row) if row else None

    UNITS: Final[LiteralString] = """
        SELECT unit, receipt, generation, sequence FROM jobledger.job_unit
        WHERE job_id = %(job_id)s AND unit > %(after)s
        ORDER BY unit LIMIT %(limit)s
    """

    def units(self, job_id: str, *, after: str | None, limit: int) -> list[UnitRow]:
        """Units by name (compared by code point), from behind ``after``."""
        return [_unit(job_id, row) for row in self._all(self.UNITS, job_id=job_id, after=after or "", limit=limit)]

    RESOURCE: Final[LiteralString] = """
        SELECT value, version, job_id, generation FROM jobledger.resource
        WHERE namespace = %(namespace)s AND owner = %(owner)s AND name = %(name)s
    """

    def resource(self, namespace: str, owner: str, name: str) -> ResourceRow | None:
        """A resource; ``None``: version 0, absent."""
        row = self._one(self.RESOURCE, namespace=namespace, owner=owner, name=name)
        return resource_row(name, *row) if row else None

    VERSIONS: Final[LiteralString] = """
        SELECT name, version FROM jobledger.resource
        WHERE namespace = %(namespace)s AND owner = %(owner)s AND name = ANY(%(names)s::text[])
    """

    def versions(self, namespace: str, owner: str, names: Sequence[str]) -> dict[str, int]:
        """The versions of those resources that exist."""
        rows = self._all(self.VERSIONS, namespace=namespace, owner=owner, names=list(names))
        return {name: version for name, version in rows}  # noqa: C416  # dict() would lose the rows' types

    # By the primary key of submission; its job by that of job_status.
    SUBMITTED: Final[LiteralString] = """
        SELECT x.job_id, s.position
        FROM jobledger.submission AS x LEFT JOIN jobledger.job_status AS s ON s.job_id = x.job_id
        WHERE x.namespace = %(namespace)s AND x.owner = %(owner)s AND x.submission = %(submission)s
    """

    def submitted(self, namespace: str, owner: str, submission: str) -> str | None:
        """The job that a submission id made."""
        row = self._one(self.SUBMITTED, namespace=namespace, owner=owner, submission=submission)
        if row is None:
            return None
        job_id, position = row
        if position is None:
            raise HistoryCorruptError(job_id, 0, f"submission {submission!r} made it, but it is not there")
        return str(job_id)

    GROUP: Final[LiteralString] = """
        SELECT epoch, sequence, head FROM jobledger.worker_group WHERE namespace = %(namespace)s AND name = %(name)s
    """

    def group(self, namespace: str, name: str) -> GroupRow:
        """A worker group; one that never advanced is at epoch 1."""
        row = self._one(self.GROUP, namespace=namespace, name=name)
        return group_row(name, *row) if row else GroupRow()


def loaded(row: Row) -> Loaded:
    """A job from its status row, joined with its lease row and its group's epoch.

    Raises:
        HistoryCorruptError: the kept state or the lease row cannot be read.
    """
    position, job_id, sequence, head, job, generation, expires_at_us, step, epoch = row
    lease = None if generation is None else lease_row(job_id, generation, expires_at_us, step)
    return Loaded(job=decode_job(job_id, sequence, job), head=head, lease=lease, epoch=epoch, position=position)


def stored(row: Row) -> StoredRecord:
    """A record from its row in the log."""
    return StoredRecord(*row)


def _unit(job_id: str, row: Row) -> UnitRow:
    unit, receipt, generation, sequence = row
    return UnitRow(unit, decode_body(job_id, sequence, receipt), generation, sequence)
