"""The statements that find rows of a SQLite store that no event and no job accounts for."""

from __future__ import annotations

from typing import Final, LiteralString

STRAYS: Final[tuple[LiteralString, ...]] = (
    """
    SELECT 'status' AS kind, job_id AS stream, state AS name FROM job_status AS r WHERE NOT EXISTS (
        SELECT 1 FROM stored_events AS e WHERE e.originator_id = r.job_id
    ) LIMIT :limit
    """,
    """
    SELECT 'lease' AS kind, job_id AS stream, generation AS name FROM job_lease AS r WHERE NOT EXISTS (
        SELECT 1 FROM job_status AS s WHERE s.job_id = r.job_id AND s.namespace = r.namespace AND s.state = 'running'
    ) LIMIT :limit
    """,
    """
    SELECT 'label' AS kind, coalesce(s.job_id, '') AS stream, r.name AS name
    FROM job_label AS r LEFT JOIN job_status AS s ON s.position = r.position
    WHERE s.job_id IS NULL OR s.namespace <> r.namespace OR CASE WHEN json_valid(CAST(s.job AS TEXT)) THEN NOT EXISTS (
        SELECT 1 FROM json_each(CAST(s.job AS TEXT), '$.labels') AS l WHERE l.key = r.name AND l.value = r.value
    ) END LIMIT :limit
    """,
    """
    SELECT 'submission' AS kind, r.job_id AS stream, r.submission AS name
    FROM submission AS r LEFT JOIN job_status AS s ON s.job_id = r.job_id
    WHERE s.job_id IS NULL OR s.namespace <> r.namespace OR s.owner <> r.owner OR CASE
        WHEN json_valid(CAST(s.job AS TEXT))
        THEN json_extract(CAST(s.job AS TEXT), '$.submission') IS NOT r.submission END
    LIMIT :limit
    """,
    """
    SELECT 'unit' AS kind, job_id AS stream, unit AS name FROM job_unit AS r WHERE NOT EXISTS (
        SELECT 1 FROM job_status AS s WHERE s.job_id = r.job_id
    ) LIMIT :limit
    """,
    """
    SELECT 'body' AS kind, job_id AS stream, digest AS name FROM job_body AS r WHERE NOT EXISTS (
        SELECT 1 FROM job_status AS s WHERE s.job_id = r.job_id
    ) LIMIT :limit
    """,
    """
    SELECT 'state' AS kind, job_id AS stream, sequence AS name FROM job_snapshot AS r WHERE NOT EXISTS (
        SELECT 1 FROM job_status AS s WHERE s.job_id = r.job_id AND s.sequence >= r.sequence
    ) LIMIT :limit
    """,
    """
    SELECT 'archived event' AS kind, 'position ' || behind AS stream, position AS name FROM archived_event AS r
    WHERE NOT EXISTS (SELECT 1 FROM stored_events AS e WHERE e.rowid = r.behind AND e.topic = 'job.archived')
        OR EXISTS (SELECT 1 FROM stored_events AS e WHERE e.rowid = r.position)
    LIMIT :limit
    """,
    """
    SELECT 'group' AS kind, 'group:' || length(namespace) || ':' || namespace || ':' || name AS stream, name
    FROM worker_group AS r WHERE NOT EXISTS (
        SELECT 1 FROM stored_events AS e
        WHERE e.originator_id = 'group:' || length(namespace) || ':' || namespace || ':' || r.name
    ) LIMIT :limit
    """,
    """
    SELECT 'schedule' AS kind, 'schedule:' || length(namespace) || ':' || namespace || ':' || name AS stream, name
    FROM schedule AS r WHERE NOT EXISTS (
        SELECT 1 FROM stored_events AS e
        WHERE e.originator_id = 'schedule:' || length(namespace) || ':' || namespace || ':' || r.name
    ) LIMIT :limit
    """,
    """
    SELECT 'schedule_state' AS kind, 'schedule:' || length(namespace) || ':' || namespace || ':' || name AS stream,
        sequence AS name
    FROM schedule_snapshot AS r WHERE NOT EXISTS (
        SELECT 1 FROM schedule AS s
        WHERE s.namespace = r.namespace AND s.name = r.name AND s.sequence >= r.sequence
    ) LIMIT :limit
    """,
    """
    SELECT 'queue' AS kind, 'queue:' || length(namespace) || ':' || namespace || ':' || name AS stream, name
    FROM queue AS r WHERE NOT EXISTS (
        SELECT 1 FROM stored_events AS e
        WHERE e.originator_id = 'queue:' || length(namespace) || ':' || namespace || ':' || r.name
    ) LIMIT :limit
    """,
    """
    SELECT 'queue_usage' AS kind, 'queue:' || length(namespace) || ':' || namespace || ':' || name AS stream, name
    FROM queue_usage AS r WHERE NOT EXISTS (
        SELECT 1 FROM queue AS q WHERE q.namespace = r.namespace AND q.name = r.name
    ) LIMIT :limit
    """,
)
"""Each answers the kind of row, the stream that it says it belongs to, and its own name."""
