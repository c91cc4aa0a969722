"""One consistent view of a SQLite store: a job's rows, its records, and everything that hangs on it."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any, Final, LiteralString

from jobledger.adapters.storage.queue_rows import shared_claimable
from jobledger.adapters.storage.rows import as_bytes, decode_body, decode_job, group_row, lease_row, resource_row
from jobledger.adapters.storage.sqlite_errors import failure
from jobledger.adapters.storage.status_row import status_row
from jobledger.domain.errors import HistoryCorruptError
from jobledger.domain.history import StoredRecord
from jobledger.domain.ports import GroupRow, Loaded, ResourceRow, UnitRow

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    from jobledger.domain.decisions.claiming import Claimable
    from jobledger.domain.errors import StoreUnavailableError
    from jobledger.domain.job import Job
    from jobledger.domain.ports import Clock

SELECT_STATUS: Final[LiteralString] = """
    SELECT
        s.position, s.job_id, s.sequence, s.head, s.job,
        l.generation, l.expires_at_us, l.step,
        CASE WHEN l.generation IS NULL THEN 0 ELSE coalesce(g.epoch, 1) END AS epoch
"""

FROM_STATUS: Final[LiteralString] = "FROM job_status AS s"
JOIN_LEASE: Final[LiteralString] = """
    LEFT JOIN job_lease AS l ON l.namespace = s.namespace AND l.job_id = s.job_id
    LEFT JOIN worker_group AS g ON g.namespace = l.namespace AND g.name = l.worker_group
"""


class SQLiteRows:
    """A transaction on one connection, and the clock of its store."""

    def __init__(self, raw: sqlite3.Connection, clock: Clock, path: Path) -> None:
        """Read through ``raw``, which is in a transaction; ``path`` names the file in errors."""
        self._raw = raw
        self._clock = clock
        self._path = path
        self._failure: StoreUnavailableError | HistoryCorruptError | None = None

    def now(self) -> datetime:
        """The store's clock, read at this call."""
        return self._clock.now()

    def _execute(self, statement: LiteralString, **values: object) -> sqlite3.Cursor:
        """Execute one statement.

        Raises:
            StoreUnavailableError: it failed; the transaction is going to be rolled back.
            HistoryCorruptError: the file is damaged.
        """
        try:
            return self._raw.execute(statement, values)
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _all(self, statement: LiteralString, **values: object) -> list[sqlite3.Row]:
        cursor = self._execute(statement, **values)
        try:
            return cursor.fetchall()
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _failed(self, error: sqlite3.Error) -> StoreUnavailableError | HistoryCorruptError:
        """What a failing statement means; it is remembered, so that its transaction is never committed."""
        self._failure = failure(error, self._path)
        return self._failure

    def _one(self, statement: LiteralString, **values: object) -> sqlite3.Row | None:
        rows = self._all(statement, **values)
        return rows[0] if rows else None


class SQLiteJobReader(SQLiteRows):
    """Reads one job, or something that is kept beside jobs; every statement finds its rows by a unique key."""

    # By UNIQUE (job_id).
    LOAD: Final[LiteralString] = (
        SELECT_STATUS + FROM_STATUS + JOIN_LEASE + "WHERE s.job_id IN (SELECT value FROM json_each(:job_ids))"  # noqa: S608  # literals only
    )

    def load(self, job_ids: Sequence[str]) -> dict[str, Loaded]:
        """Status and lease rows by job id; unknown ids are missing."""
        rows = self._all(self.LOAD, job_ids=json.dumps(list(job_ids)))
        return {row["job_id"]: loaded(row) for row in rows}

    # By UNIQUE (job_id), the first record by UNIQUE (originator_id, originator_version), the queue by its primary key;
    # the first event of an archived job was the first behind the one that stands for it, by archived_event_behind.
    COLUMNS: Final[LiteralString] = """
        SELECT s.*, coalesce(e.rowid, (
            SELECT min(a.position) FROM stored_events AS b CROSS JOIN archived_event AS a ON a.behind = b.rowid
            WHERE b.originator_id = s.job_id AND b.originator_version = :archived
        )) AS created_position, q.share_by FROM job_status AS s
        LEFT JOIN stored_events AS e ON e.originator_id = s.job_id AND e.originator_version = 1
        LEFT JOIN queue AS q ON q.namespace = s.namespace AND q.name = s.queue
        WHERE s.job_id = :job_id
    """
    # By the primary key: labels are found by their names, which the events tell.
    LABELED: Final[LiteralString] = """
        SELECT name, value FROM job_label
        WHERE namespace = :namespace AND name IN (SELECT value FROM json_each(:names)) AND position = :position
    """
    SUBMISSION: Final[LiteralString] = """
        SELECT job_id FROM submission WHERE namespace = :namespace AND owner = :owner AND submission = :submission
    """

    def is_found_by(self, job: Job, claimable: Claimable, head: str) -> bool:
        """Whether the columns, labels and submission that the store finds a job by are those of this state."""
        row = self._one(self.COLUMNS, job_id=job.id, archived=job.archived)
        if row is None:
            return False
        wanted = status_row(job, claimable, head)
        wanted["claimable"] = shared_claimable(job, claimable, row["claimable"], row["share"], row["share_by"])
        if any(row[column] != value for column, value in wanted.items() if column != "job"):
            return False
        if row["position"] != row["created_position"]:
            return False
        if job.labels:
            names = json.dumps(list(job.labels))
            rows = self._all(self.LABELED, namespace=job.namespace, names=names, position=row["position"])
            if {each["name"]: each["value"] for each in rows} != job.labels or len(rows) != len(job.labels):
                return False
        if job.submission is None:
            return True
        by = {"namespace": job.namespace, "owner": job.owner, "submission": job.submission}
        made = self._one(self.SUBMISSION, **by)
        return made is not None and made["job_id"] == job.id

    # By UNIQUE (originator_id, originator_version).
    RECORDS: Final[LiteralString] = """
        SELECT originator_id, originator_version, topic, state, command_id FROM stored_events
        WHERE originator_id = :stream AND originator_version > :after AND originator_version <= :upto
        ORDER BY originator_version LIMIT :limit
    """

    def records(self, stream: str, *, after: int = 0, upto: int | None = None, limit: int) -> list[StoredRecord]:
        """A stream's records with ``after < sequence <= upto``, in order, at most ``limit``."""
        last = 2**63 - 1 if upto is None else upto
        return [stored(row) for row in self._all(self.RECORDS, stream=stream, after=after, upto=last, limit=limit)]

    # By stored_events_command.
    CAUSED: Final[LiteralString] = """
        SELECT originator_id, originator_version, topic, state, command_id FROM stored_events
        WHERE originator_id = :stream AND command_id = :command_id
        ORDER BY originator_version
    """

    def caused(self, stream: str, command_id: str) -> list[StoredRecord]:
        """The records that one command left in a stream, in order."""
        return [stored(row) for row in self._all(self.CAUSED, stream=stream, command_id=command_id)]

    SNAPSHOT: Final[LiteralString] = """
        SELECT sequence, job FROM job_snapshot
        WHERE job_id = :job_id AND sequence <= :upto
        ORDER BY sequence DESC LIMIT 1
    """

    def snapshot(self, job_id: str, upto: int) -> Job | None:
        """The newest kept state of a job at or before a sequence."""
        row = self._one(self.SNAPSHOT, job_id=job_id, upto=upto)
        return decode_job(job_id, row["sequence"], as_bytes(row["job"])) if row else None

    BODY: Final[LiteralString] = "SELECT bytes FROM job_body WHERE job_id = :job_id AND digest = :digest LIMIT 1"

    def body(self, job_id: str, digest: str) -> bytes | None:
        """Bytes kept aside, or ``None`` where they were dropped."""
        row = self._one(self.BODY, job_id=job_id, digest=digest)
        return as_bytes(row["bytes"]) if row else None

    UNIT: Final[LiteralString] = """
        SELECT unit, receipt, generation, sequence FROM job_unit WHERE job_id = :job_id AND unit = :unit
    """

    def unit(self, job_id: str, unit: str) -> UnitRow | None:
        """The first record of a unit."""
        row = self._one(self.UNIT, job_id=job_id, unit=unit)
        return _unit(job_id, row) if row else None

    UNITS: Final[LiteralString] = """
        SELECT unit, receipt, generation, sequence FROM job_unit
        WHERE job_id = :job_id AND unit > :after
        ORDER BY unit LIMIT :limit
    """

    def units(self, job_id: str, *, after: str | None, limit: int) -> list[UnitRow]:
        """Units by name (compared by code point), from behind ``after``."""
        return [_unit(job_id, row) for row in self._all(self.UNITS, job_id=job_id, after=after or "", limit=limit)]

    RESOURCE: Final[LiteralString] = """
        SELECT name, value, version, job_id, generation FROM resource
        WHERE namespace = :namespace AND owner = :owner AND name = :name
    """

    def resource(self, namespace: str, owner: str, name: str) -> ResourceRow | None:
        """A resource; ``None``: version 0, absent."""
        row = self._one(self.RESOURCE, namespace=namespace, owner=owner, name=name)
        return resource_row(name, row["value"], row["version"], row["job_id"], row["generation"]) if row else None

    VERSIONS: Final[LiteralString] = """
        SELECT name, version FROM resource
        WHERE namespace = :namespace AND owner = :owner AND name IN (SELECT value FROM json_each(:names))
    """

    def versions(self, namespace: str, owner: str, names: Sequence[str]) -> dict[str, int]:
        """The versions of those resources that exist."""
        rows = self._all(self.VERSIONS, namespace=namespace, owner=owner, names=json.dumps(list(names)))
        return {row["name"]: row["version"] for row in rows}

    # By the primary key of submission; its job by UNIQUE (job_id).
    SUBMITTED: Final[LiteralString] = """
        SELECT x.job_id, s.position FROM submission AS x LEFT JOIN job_status AS s ON s.job_id = x.job_id
        WHERE x.namespace = :namespace AND x.owner = :owner AND x.submission = :submission
    """

    def submitted(self, namespace: str, owner: str, submission: str) -> str | None:
        """The job that a submission id made."""
        row = self._one(self.SUBMITTED, namespace=namespace, owner=owner, submission=submission)
        if row is not None and row["position"] is None:
            raise HistoryCorruptError(str(row["job_id"]), 0, f"submission {submission!r} made it, but it is not there")
        return row["job_id"] if row else None

    GROUP: Final[LiteralString] = """
        SELECT epoch, sequence, head FROM worker_group WHERE namespace = :namespace AND name = :name
    """

    def group(self, namespace: str, name: str) -> GroupRow:
        """A worker group; one that never advanced is at epoch 1."""
        row = self._one(self.GROUP, namespace=namespace, name=name)
        return group_row(name, row["epoch"], row["sequence"], row["head"]) if row else GroupRow()


def loaded(row: sqlite3.Row) -> Loaded:
    """A job from its status row, joined with its lease row and its group's epoch.

    Raises:
        HistoryCorruptError: the kept state or the lease row cannot be read.
    """
    lease = None
    if row["generation"] is not None:
        lease = lease_row(row["job_id"], row["generation"], row["expires_at_us"], row["step"])
    job = decode_job(row["job_id"], row["sequence"], as_bytes(row["job"]))
    return Loaded(job=job, head=str(row["head"]), lease=lease, epoch=row["epoch"], position=row["position"])


def stored(row: sqlite3.Row) -> StoredRecord:
    """A record from its row in the log; bytes that somebody turned into text are taken as they stand in the file."""
    encoded = as_bytes(row["state"])
    return StoredRecord(row["originator_id"], row["originator_version"], str(row["topic"]), encoded, row["command_id"])


def _unit(job_id: str, row: Any) -> UnitRow:
    receipt = decode_body(job_id, row["sequence"], as_bytes(row["receipt"]))
    return UnitRow(row["unit"], receipt, row["generation"], row["sequence"])
