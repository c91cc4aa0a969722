"""Walks over everything that a PostgreSQL store keeps, for verification: the log, its streams, and rows beside it."""

from __future__ import annotations

from typing import Final, LiteralString

from jobledger.adapters.storage.postgresql_archiving import PostgreSQLArchiveReader
from jobledger.adapters.storage.postgresql_queues import PostgreSQLQueueReader
from jobledger.adapters.storage.postgresql_reading import Row, stored
from jobledger.adapters.storage.postgresql_schedules import PostgreSQLScheduleReader
from jobledger.adapters.storage.postgresql_tracking import PostgreSQLTrackingReader
from jobledger.adapters.storage.rows import resource_row
from jobledger.domain.ports import Positioned, ResourceRow, Stray

SELECT_PLACED: Final[LiteralString] = """
    SELECT e.notification_id, e.originator_id, e.originator_version, e.topic, e.state, e.command_id
    FROM jobledger.stored_events AS e
"""

# Each answers the kind of row, the stream that it says it belongs to, and its own name.
STRAYS: Final[tuple[LiteralString, ...]] = (
    """
    SELECT 'status', r.job_id, r.state FROM jobledger.job_status AS r
    WHERE NOT EXISTS (SELECT 1 FROM jobledger.stored_events AS e WHERE e.originator_id = r.job_id)
        OR NOT EXISTS (SELECT 1 FROM jobledger.job AS j WHERE j.job_id = r.job_id)
    """,
    """
    SELECT 'job', r.job_id, r.owner FROM jobledger.job AS r
    WHERE NOT EXISTS (SELECT 1 FROM jobledger.job_status AS s WHERE s.job_id = r.job_id)
        AND NOT EXISTS (SELECT 1 FROM jobledger.stored_events AS e WHERE e.originator_id = r.job_id)
    """,
    """
    SELECT 'lease', r.job_id, r.generation::text FROM jobledger.job_lease AS r WHERE NOT EXISTS (
        SELECT 1 FROM jobledger.job_status AS s
        WHERE s.job_id = r.job_id AND s.namespace = r.namespace AND s.state = 'running'
    )
    """,
    """
    SELECT 'label', r.job_id, r.name
    FROM jobledger.job_label AS r LEFT JOIN jobledger.job_status AS s ON s.job_id = r.job_id
    WHERE s.job_id IS NULL OR s.namespace <> r.namespace OR s.position <> r.position
        OR jobledger.state_of(s.job) #>> ARRAY['labels', r.name] IS DISTINCT FROM r.value
    """,
    """
    SELECT 'submission', r.job_id, r.submission
    FROM jobledger.submission AS r
    LEFT JOIN jobledger.job AS j ON j.job_id = r.job_id
    LEFT JOIN jobledger.job_status AS s ON s.job_id = r.job_id
    WHERE j.job_id IS NULL OR s.job_id IS NULL OR j.namespace <> r.namespace OR j.owner <> r.owner
        OR jobledger.state_of(s.job) ->> 'submission' IS DISTINCT FROM r.submission
    """,
    """
    SELECT 'unit', r.job_id, r.unit FROM jobledger.job_unit AS r
    WHERE NOT EXISTS (SELECT 1 FROM jobledger.job_status AS s WHERE s.job_id = r.job_id)
    """,
    """
    SELECT 'body', r.job_id, r.digest FROM jobledger.job_body AS r
    WHERE NOT EXISTS (SELECT 1 FROM jobledger.job_status AS s WHERE s.job_id = r.job_id)
    """,
    """
    SELECT 'state', r.job_id, r.sequence::text FROM jobledger.job_snapshot AS r WHERE NOT EXISTS (
        SELECT 1 FROM jobledger.job_status AS s WHERE s.job_id = r.job_id AND s.sequence >= r.sequence
    )
    """,
    """
    SELECT 'archived event', 'position ' || r.behind, r.position::text FROM jobledger.archived_event AS r
    WHERE NOT EXISTS (
            SELECT 1 FROM jobledger.stored_events AS e WHERE e.notification_id = r.behind AND e.topic = 'job.archived'
        )
        OR EXISTS (SELECT 1 FROM jobledger.stored_events AS e WHERE e.notification_id = r.position)
    """,
    """
    SELECT 'group', g.stream, g.name FROM (
        SELECT concat('group:', length(namespace), ':', namespace, ':', name) AS stream, name
        FROM jobledger.worker_group
    ) AS g
    WHERE NOT EXISTS (SELECT 1 FROM jobledger.stored_events AS e WHERE e.originator_id = g.stream)
    """,
    """
    SELECT 'schedule', 'schedule:' || length(r.namespace) || ':' || r.namespace || ':' || r.name, r.name
    FROM jobledger.schedule AS r WHERE NOT EXISTS (
        SELECT 1 FROM jobledger.stored_events AS e
        WHERE e.originator_id = 'schedule:' || length(r.namespace) || ':' || r.namespace || ':' || r.name
    )
    """,
    """
    SELECT 'schedule_state', 'schedule:' || length(r.namespace) || ':' || r.namespace || ':' || r.name,
        r.sequence::text
    FROM jobledger.schedule_snapshot AS r WHERE NOT EXISTS (
        SELECT 1 FROM jobledger.schedule AS s
        WHERE s.namespace = r.namespace AND s.name = r.name AND s.sequence >= r.sequence
    )
    """,
    """
    SELECT 'queue', 'queue:' || length(r.namespace) || ':' || r.namespace || ':' || r.name, r.name
    FROM jobledger.queue AS r WHERE NOT EXISTS (
        SELECT 1 FROM jobledger.stored_events AS e
        WHERE e.originator_id = 'queue:' || length(r.namespace) || ':' || r.namespace || ':' || r.name
    )
    """,
    """
    SELECT 'queue_usage', 'queue:' || length(r.namespace) || ':' || r.namespace || ':' || r.name, r.name
    FROM jobledger.queue_usage AS r WHERE NOT EXISTS (
        SELECT 1 FROM jobledger.queue AS q WHERE q.namespace = r.namespace AND q.name = r.name
    )
    """,
)


class PostgreSQLReader(
    PostgreSQLArchiveReader, PostgreSQLTrackingReader, PostgreSQLScheduleReader, PostgreSQLQueueReader
):
    """One consistent view of a PostgreSQL store."""

    # By stored_events_position.
    LOG: Final[LiteralString] = (
        SELECT_PLACED
        + """
        WHERE e.notification_id > %(after)s AND e.notification_id <= %(upto)s
        ORDER BY e.notification_id LIMIT %(limit)s
    """
    )

    def log(self, *, after: int, limit: int) -> list[Positioned]:
        """Every record of every stream and namespace by position, below the horizon: what is there stays as it is."""
        return [_placed(row) for row in self._all(self.LOG, after=after, upto=self._upto(), limit=limit)]

    # By the primary key of stored_events.
    PLACED: Final[LiteralString] = (
        SELECT_PLACED
        + """
        WHERE e.originator_id = %(stream)s AND e.originator_version > %(after)s
        ORDER BY e.originator_version LIMIT %(limit)s
    """
    )

    def placed(self, stream: str, *, after: int, limit: int) -> list[Positioned]:
        """A stream's records behind a sequence, in order, with their places in the log."""
        return [_placed(row) for row in self._all(self.PLACED, stream=stream, after=after, limit=limit)]

    # By the primary key of stored_events, one step to each stream.
    STREAMS: Final[LiteralString] = """
        WITH RECURSIVE stream (name) AS (
            SELECT min(originator_id) FROM jobledger.stored_events WHERE originator_id > %(after)s
            UNION ALL
            SELECT (SELECT min(originator_id) FROM jobledger.stored_events WHERE originator_id > name) FROM stream
            WHERE name IS NOT NULL
        )
        SELECT name FROM stream WHERE name IS NOT NULL LIMIT %(limit)s
    """

    def streams(self, *, after: str, limit: int) -> list[str]:
        """The names of all streams of all namespaces, in order, from behind ``after``."""
        return [name for (name,) in self._all(self.STREAMS, after=after, limit=limit)]

    # By the primary key.
    RESOURCES: Final[LiteralString] = """
        SELECT namespace, owner, name, value, version, job_id, generation FROM jobledger.resource
        WHERE (namespace, owner, name) > (%(namespace)s, %(owner)s, %(name)s)
        ORDER BY namespace, owner, name LIMIT %(limit)s
    """

    def resources(self, *, after: tuple[str, str, str], limit: int) -> list[tuple[str, str, ResourceRow]]:
        """Every resource with its namespace and owner, by these and its name, from behind such a triple."""
        namespace, owner, name = after
        rows = self._all(self.RESOURCES, namespace=namespace, owner=owner, name=name, limit=limit)
        return [(row[0], row[1], resource_row(*row[2:])) for row in rows]

    def strays(self, *, limit: int) -> list[Stray]:
        """Rows beside the log that hang on no stream or job; each table is read once, its job found by an index."""
        found: list[Stray] = []
        for statement in STRAYS:
            found += [Stray(*row) for row in self._all(statement + " LIMIT %(limit)s", limit=limit - len(found))]
        return found


def _placed(row: Row) -> Positioned:
    return Positioned(row[0], stored(row[1:]))
