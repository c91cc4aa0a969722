"""Reading across jobs in a PostgreSQL store: lists, counts, walks, the feed of all records, and work to be done."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, LiteralString

from jobledger.adapters.storage.postgresql_reading import (
    JOIN_LEASE,
    SELECT_STATUS,
    PostgreSQLJobReader,
    loaded,
    stored,
)
from jobledger.adapters.storage.rows import to_us
from jobledger.domain.errors import HistoryCorruptError
from jobledger.domain.job import State
from jobledger.domain.ports import JobFilter, Loaded, Positioned

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg
    from psycopg.rows import TupleRow

    from jobledger.adapters.storage.postgresql_connecting import Place

FROM_JOBS: Final[LiteralString] = """
    FROM jobledger.job AS j JOIN jobledger.job_status AS s ON s.job_id = j.job_id
"""
FROM_LABELS: Final[LiteralString] = """
    FROM jobledger.job_label AS b
    JOIN jobledger.job AS j ON j.job_id = b.job_id JOIN jobledger.job_status AS s ON s.job_id = j.job_id
"""


class PostgreSQLLister(PostgreSQLJobReader):
    """Reads lists, counts, the feed, and what is to be done."""

    def __init__(self, cursor: psycopg.Cursor[TupleRow], place: Place, horizon: int | None = None) -> None:
        """Read through ``cursor``; ``horizon`` was read before its view, or is ``None`` where each read is its own."""
        super().__init__(cursor, place)
        self._horizon = horizon

    # By job_status_queued.
    QUEUED: Final[LiteralString] = """
        SELECT count(*) FROM (
            SELECT 1 FROM jobledger.job_status
            WHERE namespace = %(namespace)s AND queue = %(queue)s AND state = 'queued' LIMIT %(limit)s
        ) AS found
    """

    def queued(self, namespace: str, queue: str, limit: int) -> int:
        """How many jobs of a queue are in the state ``queued``, counted no further than ``limit``."""
        return self._count(self.QUEUED, namespace=namespace, queue=queue, limit=limit)

    # By job_status_state, without looking at the table's rows; for an owner by job_owner.
    COUNTS: Final[LiteralString] = """
        SELECT s.state, count(*) FROM jobledger.job_status AS s WHERE s.namespace = %(namespace)s
    """
    OF_OWNER: Final[LiteralString] = """
        AND EXISTS (SELECT 1 FROM jobledger.job AS j WHERE j.job_id = s.job_id AND j.owner = %(owner)s)
    """

    def counts(self, namespace: str, owner: str | None, queue: str | None) -> dict[State, int]:
        """Jobs by state; every state is there, also with none."""
        statement = self.COUNTS
        if owner is not None:
            statement += self.OF_OWNER
        if queue is not None:
            statement += " AND s.queue = %(queue)s"
        rows = self._all(statement + " GROUP BY s.state", namespace=namespace, owner=owner, queue=queue)
        return dict.fromkeys(State, 0) | {self._state(namespace, state): jobs for state, jobs in rows}

    # By job_status_state.
    ONE_IN_STATE: Final[LiteralString] = """
        SELECT job_id, sequence FROM jobledger.job_status
        WHERE namespace = %(namespace)s AND state = %(state)s LIMIT 1
    """

    def _state(self, namespace: str, found: Any) -> State:
        """The state that a row names.

        Raises:
            HistoryCorruptError: there is no such state; names a job that is said to be in it.
        """
        with suppress(ValueError):
            return State(found)
        [(job_id, sequence)] = self._all(self.ONE_IN_STATE, namespace=namespace, state=found)
        raise HistoryCorruptError(job_id, sequence, f"its row names the state {found!r}")

    def jobs(self, wanted: JobFilter, *, before: int | None, limit: int) -> list[Loaded]:
        """Matching jobs, newest first, created before a position."""
        source, matching, position, values = _matching(wanted)
        if before is not None:
            matching += " AND " + position + " < %(before)s"
        statement = (
            SELECT_STATUS
            + source
            + JOIN_LEASE
            + "WHERE "
            + matching
            + " ORDER BY "
            + position
            + " DESC LIMIT %(limit)s"
        )
        return [loaded(row) for row in self._all(statement, **values, before=before, limit=limit)]

    def count(self, wanted: JobFilter, limit: int) -> int:
        """How many jobs match, counted no further than ``limit``."""
        source, matching, _, values = _matching(wanted)
        rows = source + " WHERE " + matching
        statement = "SELECT count(*) FROM (SELECT 1 " + rows + " LIMIT %(limit)s) AS found"  # noqa: S608  # literals only
        return self._count(statement, **values, limit=limit)

    # By stored_events_position; each record's job by its primary key. Streams of groups have no job and are left out.
    FEED: Final[LiteralString] = """
        SELECT e.notification_id, e.originator_id, e.originator_version, e.topic, e.state, e.command_id
        FROM jobledger.stored_events AS e JOIN jobledger.job AS j ON j.job_id = e.originator_id
        WHERE e.notification_id > %(after)s AND e.notification_id <= %(upto)s AND j.namespace = %(namespace)s
    """
    HORIZON: Final[LiteralString] = "SELECT jobledger.horizon()"

    def _upto(self) -> int:
        """The position up to which nothing further will appear to this view."""
        if self._horizon is not None:
            return self._horizon
        [(horizon,)] = self._all(self.HORIZON)
        return int(horizon)

    def feed(
        self, namespace: str, *, after: int, limit: int, topics: Sequence[str], owner: str | None
    ) -> tuple[list[Positioned], int]:
        """Records of all jobs by position, and the position up to which nothing further matches."""
        upto = max(after, self._upto())
        statement = self.FEED
        if owner is not None:
            statement += " AND j.owner = %(owner)s"
        if topics:
            statement += " AND e.topic = ANY(%(topics)s::text[])"
        rows = self._all(
            statement + " ORDER BY e.notification_id LIMIT %(limit)s",
            namespace=namespace,
            owner=owner,
            topics=list(topics),
            after=after,
            upto=upto,
            limit=limit,
        )
        found = [Positioned(row[0], stored(row[1:])) for row in rows]
        return found, found[-1].position if len(found) == limit and found else upto

    # By the primary key of job, which has the namespace in it.
    JOB_IDS: Final[LiteralString] = """
        SELECT job_id FROM jobledger.job
        WHERE namespace = %(namespace)s AND job_id > %(after)s ORDER BY job_id LIMIT %(limit)s
    """

    def job_ids(self, namespace: str, *, after: str, limit: int) -> list[str]:
        """All job ids in order, for walks over the whole store."""
        return [job_id for (job_id,) in self._all(self.JOB_IDS, namespace=namespace, after=after, limit=limit)]

    # By job_status_waiting and job_status_running, inside the function.
    CANDIDATES: Final[LiteralString] = """
        SELECT job_id
        FROM jobledger.candidates(
            %(namespace)s, %(queues)s::text[], %(kinds)s::text[], jobledger.now_us(), %(limit)s
        )
    """

    def candidates(
        self, namespace: str, *, queues: Sequence[str], kinds: Sequence[str] | None, limit: int
    ) -> list[str]:
        """Jobs that a claim may take now: larger priority first, then earlier ``ready_at``, then earlier position."""
        kinds = None if kinds is None else list(kinds)
        rows = self._all(self.CANDIDATES, namespace=namespace, queues=list(queues), kinds=kinds, limit=limit)
        return [job_id for (job_id,) in rows]

    # The leases by their primary key: there is one for each open attempt and none for anything else. Only a damaged
    # store has a running job without one, and nobody else would find it: by job_status_state.
    DEAD: Final[LiteralString] = """
        (
            SELECT l.job_id FROM jobledger.job_lease AS l
            LEFT JOIN jobledger.worker_group AS g ON g.namespace = l.namespace AND g.name = l.worker_group
            WHERE l.namespace = %(namespace)s AND l.job_id > %(after)s
                AND (l.expires_at_us <= %(now_us)s OR l.epoch <> coalesce(g.epoch, 1))
            ORDER BY l.job_id LIMIT %(limit)s
        )
        UNION
        (
            SELECT s.job_id FROM jobledger.job_status AS s
            WHERE s.namespace = %(namespace)s AND s.state = 'running' AND s.job_id > %(after)s
                AND NOT EXISTS (SELECT 1 FROM jobledger.job_lease AS l WHERE l.job_id = s.job_id OFFSET 0)
            ORDER BY s.job_id LIMIT %(limit)s
        )
        ORDER BY job_id LIMIT %(limit)s
    """

    def dead(self, namespace: str, *, after: str, limit: int) -> list[str]:
        """Running jobs whose lease is not live, by id from behind ``after``."""
        now_us = to_us(self.now())
        rows = self._all(self.DEAD, namespace=namespace, after=after, now_us=now_us, limit=limit)
        return [job_id for (job_id,) in rows]

    def _count(self, statement: LiteralString, **values: object) -> int:
        [(jobs,)] = self._all(statement, **values)
        return int(jobs)


def _matching(wanted: JobFilter) -> tuple[LiteralString, LiteralString, LiteralString, dict[str, object]]:
    """The tables, the conditions, the position to order by, and the values of a filter."""
    source, table = FROM_JOBS, _table_of(wanted)
    matching: LiteralString = table + ".namespace = %(namespace)s"
    values: dict[str, object] = {"namespace": wanted.namespace}
    if wanted.label is not None:
        source = FROM_LABELS
        matching += " AND b.name = %(label)s"
        values["label"], value = wanted.label
        if value is not None:
            matching += " AND b.value = %(label_value)s"
            values["label_value"] = value
    for column, condition in _CONDITIONS:
        if (value := getattr(wanted, column)) is not None:
            matching += condition
            values[column] = value
    return source, matching, table + ".position", values


_CONDITIONS: Final[tuple[tuple[str, LiteralString], ...]] = (
    ("owner", " AND j.owner = %(owner)s"),
    ("kind", " AND j.kind = %(kind)s"),
    ("queue", " AND j.queue = %(queue)s"),
    ("state", " AND s.state = %(state)s"),
    ("is_held", " AND s.is_held = %(is_held)s"),
    ("key_prefix", " AND starts_with(j.key, %(key_prefix)s)"),
)


def _table_of(wanted: JobFilter) -> LiteralString:
    """The table by one of whose indexes the jobs are found, in the order of their positions."""
    if wanted.label is not None:
        return "b"
    is_by_state = wanted.state is not None or wanted.is_held
    is_by_name = wanted.owner is not None or wanted.kind is not None or wanted.queue is not None
    return "s" if is_by_state and not is_by_name else "j"
