"""Archived events in a SQLite store: what is kept of them, which jobs' time has come, and how they are taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, LiteralString

from jobledger.adapters.storage.rows import from_us, to_us
from jobledger.adapters.storage.sqlite_reading import SQLiteRows
from jobledger.domain.ports import Due, Leaf

if TYPE_CHECKING:
    from datetime import datetime


class SQLiteArchiveReader(SQLiteRows):
    """Reads what is kept of archived events, and finds the jobs that may be archived."""

    # By the primary key, or by archived_event_behind.
    LEAVES: Final[LiteralString] = """
        SELECT position, digest, behind FROM archived_event WHERE position > :after ORDER BY position LIMIT :limit
    """
    LEAVES_BEHIND: Final[LiteralString] = """
        SELECT position, digest, behind FROM archived_event WHERE behind = :behind AND position > :after
        ORDER BY position LIMIT :limit
    """

    def leaves(self, *, after: int, limit: int, behind: int | None = None) -> list[Leaf]:
        """What is kept of archived events by position; of those behind one event, if it is given."""
        statement = self.LEAVES if behind is None else self.LEAVES_BEHIND
        rows = self._all(statement, after=after, limit=limit, behind=behind)
        return [Leaf(row["position"], row["digest"].hex(), row["behind"]) for row in rows]

    # By job_status_finished.
    EXPIRED: Final[LiteralString] = """
        SELECT ready_at_us, job_id FROM job_status
        WHERE namespace = :namespace AND claimable = 'finished' AND ready_at_us <= :now_us
            AND (ready_at_us, job_id) > (:at_us, :job_id)
        ORDER BY ready_at_us, job_id LIMIT :limit
    """

    def expired(self, namespace: str, *, after: Due | None, limit: int) -> list[Due]:
        """Ended jobs whose ``keep_finished`` is over by the store's clock, the longest first, from behind ``after``."""
        place = {"at_us": to_us(after.at), "job_id": after.job_id} if after else {"at_us": -(2**63), "job_id": ""}
        rows = self._all(self.EXPIRED, namespace=namespace, now_us=to_us(self.now()), limit=limit, **place)
        return [Due(from_us(row["ready_at_us"]), row["job_id"]) for row in rows]

    # By job_status_newest, in the order of positions; whether the first event is there by the key of stored_events.
    ENDED: Final[LiteralString] = """
        SELECT s.position, s.job_id FROM job_status AS s INDEXED BY job_status_newest
        WHERE s.namespace = :namespace AND s.position > :after AND s.updated_at_us <= :until_us
            AND s.state IN ('complete', 'partial', 'failed', 'unavailable', 'cancelled')
            AND EXISTS (SELECT 1 FROM stored_events AS e WHERE e.originator_id = s.job_id AND e.originator_version = 1)
        ORDER BY s.position LIMIT :limit
    """

    def ended(self, namespace: str, *, until: datetime, after: int, limit: int) -> list[tuple[int, str]]:
        """Ended jobs that are not archived and had their last event by ``until``, by position from behind ``after``."""
        rows = self._all(self.ENDED, namespace=namespace, until_us=to_us(until), after=after, limit=limit)
        return [(row["position"], row["job_id"]) for row in rows]


# By UNIQUE (job_id).
IS_AT: Final[LiteralString] = """
    SELECT 1 AS found FROM job_status WHERE job_id = :job_id AND sequence = :sequence
"""
PUT_LEAF: Final[LiteralString] = """
    INSERT INTO archived_event (position, digest, behind) VALUES (:position, :digest, :behind)
"""
DELETE_EVENTS: Final[LiteralString] = """
    DELETE FROM stored_events WHERE originator_id = :job_id AND originator_version < :sequence
"""
DELETE_UNITS: Final[LiteralString] = "DELETE FROM job_unit WHERE job_id = :job_id"
DELETE_BODIES: Final[LiteralString] = """
    DELETE FROM job_body WHERE job_id = :job_id AND digest NOT IN (SELECT value FROM json_each(:kept))
"""
