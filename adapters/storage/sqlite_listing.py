"""Reading across jobs in a SQLite store: lists, counts, walks, and the feed of all records."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, LiteralString

from jobledger.adapters.storage.rows import resource_row
from jobledger.adapters.storage.sqlite_reading import (
    FROM_STATUS,
    JOIN_LEASE,
    SELECT_STATUS,
    SQLiteJobReader,
    loaded,
    stored,
)
from jobledger.adapters.storage.sqlite_strays import STRAYS
from jobledger.domain.errors import HistoryCorruptError
from jobledger.domain.job import State
from jobledger.domain.ports import JobFilter, Loaded, Positioned, ResourceRow, Stray

if TYPE_CHECKING:
    from collections.abc import Sequence

_LAST_CHARACTER: Final = 0x10FFFF
_FIRST_SURROGATE: Final = 0xD800
_AFTER_SURROGATES: Final = 0xE000


class SQLiteReader(SQLiteJobReader):
    """One consistent view of a SQLite store."""

    # By job_status_queue_state.
    QUEUED: Final[LiteralString] = """
        SELECT count(*) AS jobs FROM (
            SELECT 1 FROM job_status WHERE namespace = :namespace AND queue = :queue AND state = 'queued' LIMIT :limit
        )
    """

    def queued(self, namespace: str, queue: str, limit: int) -> int:
        """How many jobs of a queue are in the state ``queued``, counted no further than ``limit``."""
        return self._count(self.QUEUED, namespace=namespace, queue=queue, limit=limit)

    # By job_status_state, job_status_owner_state or job_status_queue_state, without looking at a row of the table.
    COUNTS: Final[LiteralString] = "SELECT state, count(*) AS jobs FROM job_status WHERE namespace = :namespace"

    def counts(self, namespace: str, owner: str | None, queue: str | None) -> dict[State, int]:
        """Jobs by state; every state is there, also with none."""
        statement = self.COUNTS
        if owner is not None:
            statement += " AND owner = :owner"
        if queue is not None:
            statement += " AND queue = :queue"
        rows = self._all(statement + " GROUP BY state", namespace=namespace, owner=owner, queue=queue)
        return dict.fromkeys(State, 0) | {self._state(namespace, row["state"]): row["jobs"] for row in rows}

    # By job_status_state.
    ONE_IN_STATE: Final[LiteralString] = """
        SELECT job_id, sequence FROM job_status WHERE namespace = :namespace AND state = :state LIMIT 1
    """

    def _state(self, namespace: str, found: Any) -> State:
        """The state that a row names.

        Raises:
            HistoryCorruptError: there is no such state; names a job that is said to be in it.
        """
        with suppress(ValueError):
            return State(found)
        [row] = self._all(self.ONE_IN_STATE, namespace=namespace, state=found)
        raise HistoryCorruptError(str(row["job_id"]), row["sequence"], f"its row names the state {found!r}")

    def jobs(self, wanted: JobFilter, *, before: int | None, limit: int) -> list[Loaded]:
        """Matching jobs, newest first, created before a position."""
        source, matching, values = _matching(wanted)
        # The label's rows and every index of a filter's column end in the position, which is the order wanted.
        position: LiteralString = "s.position" if wanted.label is None else "b.position"
        if before is not None:
            matching += " AND " + position + " < :before"
        statement = (
            SELECT_STATUS + source + JOIN_LEASE + "WHERE " + matching + " ORDER BY " + position + " DESC LIMIT :limit"
        )
        return [loaded(row) for row in self._all(statement, **values, before=before, limit=limit)]

    def count(self, wanted: JobFilter, limit: int) -> int:
        """How many jobs match, counted no further than ``limit``."""
        source, matching, values = _matching(wanted)
        rows = source + " WHERE " + matching
        statement = "SELECT count(*) AS jobs FROM (SELECT 1 " + rows + " LIMIT :limit)"  # noqa: S608  # literals only
        return self._count(statement, **values, limit=limit)

    # By the log's rowid; each record's job by UNIQUE (job_id). Streams of groups have no job and are left out.
    FEED: Final[LiteralString] = """
        SELECT e.rowid AS position, e.originator_id, e.originator_version, e.topic, e.state, e.command_id
        FROM stored_events AS e CROSS JOIN job_status AS s ON s.job_id = e.originator_id
        WHERE e.rowid > :after AND e.rowid <= :upto AND s.namespace = :namespace
    """
    LAST_POSITION: Final[LiteralString] = "SELECT coalesce(max(rowid), 0) AS position FROM stored_events"

    def feed(
        self, namespace: str, *, after: int, limit: int, topics: Sequence[str], owner: str | None
    ) -> tuple[list[Positioned], int]:
        """Records of all jobs by position, and the position up to which nothing further matches."""
        [last] = self._all(self.LAST_POSITION)
        upto = max(after, last["position"])
        statement = self.FEED
        if owner is not None:
            statement += " AND s.owner = :owner"
        if topics:
            statement += " AND e.topic IN (SELECT value FROM json_each(:topics))"
        rows = self._all(
            statement + " ORDER BY e.rowid LIMIT :limit",
            namespace=namespace,
            owner=owner,
            topics=json.dumps(list(topics)),
            after=after,
            upto=upto,
            limit=limit,
        )
        found = [Positioned(row["position"], stored(row)) for row in rows]
        return found, found[-1].position if len(found) == limit and found else upto

    # By job_status_walk.
    JOB_IDS: Final[LiteralString] = """
        SELECT job_id FROM job_status WHERE namespace = :namespace AND job_id > :after ORDER BY job_id LIMIT :limit
    """

    def job_ids(self, namespace: str, *, after: str, limit: int) -> list[str]:
        """All job ids in order, for walks over the whole store."""
        return [row["job_id"] for row in self._all(self.JOB_IDS, namespace=namespace, after=after, limit=limit)]

    # By the log's rowid.
    LOG: Final[LiteralString] = """
        SELECT rowid AS position, originator_id, originator_version, topic, state, command_id
        FROM stored_events WHERE rowid > :after ORDER BY rowid LIMIT :limit
    """

    def log(self, *, after: int, limit: int) -> list[Positioned]:
        """Every record of every stream and namespace by position: one writer at a time, so nothing comes in between."""
        return [Positioned(row["position"], stored(row)) for row in self._all(self.LOG, after=after, limit=limit)]

    # By UNIQUE (originator_id, originator_version).
    PLACED: Final[LiteralString] = """
        SELECT rowid AS position, originator_id, originator_version, topic, state, command_id
        FROM stored_events WHERE originator_id = :stream AND originator_version > :after
        ORDER BY originator_version LIMIT :limit
    """

    def placed(self, stream: str, *, after: int, limit: int) -> list[Positioned]:
        """A stream's records behind a sequence, in order, with their places in the log."""
        rows = self._all(self.PLACED, stream=stream, after=after, limit=limit)
        return [Positioned(row["position"], stored(row)) for row in rows]

    # By UNIQUE (originator_id, originator_version), one step to each stream.
    STREAMS: Final[LiteralString] = """
        WITH RECURSIVE stream (name) AS (
            SELECT min(originator_id) FROM stored_events WHERE originator_id > :after
            UNION ALL
            SELECT (SELECT min(originator_id) FROM stored_events WHERE originator_id > name) FROM stream
            WHERE name IS NOT NULL
        )
        SELECT name FROM stream WHERE name IS NOT NULL LIMIT :limit
    """

    def streams(self, *, after: str, limit: int) -> list[str]:
        """The names of all streams of all namespaces, in order, from behind ``after``."""
        return [row["name"] for row in self._all(self.STREAMS, after=after, limit=limit)]

    # By the primary key.
    RESOURCES: Final[LiteralString] = """
        SELECT namespace, owner, name, value, version, job_id, generation FROM resource
        WHERE (namespace, owner, name) > (:namespace, :owner, :name)
        ORDER BY namespace, owner, name LIMIT :limit
    """

    def resources(self, *, after: tuple[str, str, str], limit: int) -> list[tuple[str, str, ResourceRow]]:
        """Every resource with its namespace and owner, by these and its name, from behind such a triple."""
        namespace, owner, name = after
        rows = self._all(self.RESOURCES, namespace=namespace, owner=owner, name=name, limit=limit)
        return [
            (
                row["namespace"],
                row["owner"],
                resource_row(row["name"], row["value"], row["version"], row["job_id"], row["generation"]),
            )
            for row in rows
        ]

    def strays(self, *, limit: int) -> list[Stray]:
        """Rows beside the log that hang on no stream or job; each table is read once, its job found by an index."""
        found: list[Stray] = []
        for statement in STRAYS:
            rows = self._all(statement, limit=limit - len(found))
            found += [Stray(row["kind"], str(row["stream"]), str(row["name"])) for row in rows]
        return found

    def _count(self, statement: LiteralString, **values: object) -> int:
        [row] = self._all(statement, **values)
        jobs: int = row["jobs"]
        return jobs


def _matching(wanted: JobFilter) -> tuple[LiteralString, LiteralString, dict[str, object]]:
    """The tables, the conditions and the values of a filter."""
    source = FROM_STATUS
    matching: LiteralString = "s.namespace = :namespace"
    values: dict[str, object] = {"namespace": wanted.namespace}
    if wanted.label is not None:
        source = "FROM job_label AS b CROSS JOIN job_status AS s ON s.position = b.position"
        matching += " AND b.namespace = :namespace AND b.name = :label"
        values["label"], value = wanted.label
        if value is not None:
            matching += " AND b.value = :label_value"
            values["label_value"] = value
    for column, condition in _EQUALITIES:
        if (value := getattr(wanted, column)) is not None:
            matching += condition
            values[column] = value
    if wanted.key_prefix is not None:
        matching += " AND s.key >= :key_prefix"
        values["key_prefix"] = wanted.key_prefix
        if (beyond := _beyond(wanted.key_prefix)) is not None:
            matching += " AND s.key < :key_beyond"
            values["key_beyond"] = beyond
    return source, matching, values


_EQUALITIES: Final[tuple[tuple[str, LiteralString], ...]] = (
    ("owner", " AND s.owner = :owner"),
    ("kind", " AND s.kind = :kind"),
    ("queue", " AND s.queue = :queue"),
    ("state", " AND s.state = :state"),
    ("is_held", " AND s.is_held = :is_held"),
)


def _beyond(prefix: str) -> str | None:
    """The first text behind all that begin with a prefix, by code point; ``None`` where nothing is behind them."""
    start = prefix.rstrip(chr(_LAST_CHARACTER))
    if not start:
        return None
    following = ord(start[-1]) + 1
    # No store holds a lone surrogate, so the character behind the last one before them is the first one after them.
    return start[:-1] + chr(_AFTER_SURROGATES if following == _FIRST_SURROGATE else following)
