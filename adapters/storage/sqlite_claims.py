"""Finding work in a SQLite store: what a claim may take now, and whose lease is not live."""

from __future__ import annotations

import heapq
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, LiteralString

from jobledger.adapters.storage.rows import to_us
from jobledger.adapters.storage.sqlite_archiving import SQLiteArchiveReader
from jobledger.adapters.storage.sqlite_listing import SQLiteReader
from jobledger.adapters.storage.sqlite_schedules import SQLiteScheduleReader
from jobledger.adapters.storage.sqlite_tracking import SQLiteTrackingReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Candidate = tuple[int, int, int, str]
"""The order of claims: the negative priority, ``ready_at`` in microseconds, the position; and the job's id."""


@dataclass(frozen=True, slots=True)
class Lane:
    """Where jobs wait: in a queue, or in one share of a divided one."""

    namespace: str
    queue: str
    share: str | None = None

    @property
    def values(self) -> dict[str, str]:
        """As a statement's parameters."""
        place = {"namespace": self.namespace, "queue": self.queue}
        return place if self.share is None else place | {"share": self.share}


class SQLiteFinder(SQLiteReader, SQLiteScheduleReader, SQLiteTrackingReader, SQLiteArchiveReader):
    """Finds jobs for workers and for recovery, at the price of what it finds: what waits or is taken costs nothing."""

    def candidates(
        self, namespace: str, *, queues: Sequence[str], kinds: Sequence[str] | None, limit: int
    ) -> list[str]:
        """Jobs that a claim may take now: larger priority first, then earlier ``ready_at``, then earlier position."""
        now_us = to_us(self.now())
        found: list[Candidate] = []
        for queue in dict.fromkeys(queues):
            lane = Lane(namespace, queue)
            for kind in self._kinds_in(lane) if kinds is None else dict.fromkeys(kinds):
                found += self._due(lane, kind, now_us, limit)
            found += self._dead_in(namespace, queue, kinds, now_us, limit)
        return [job_id for *_, job_id in heapq.nsmallest(limit, found)]

    # By job_status_waiting, or job_status_shared.
    UNSHARED: Final[LiteralString] = """
        FROM job_status WHERE namespace = :namespace AND queue = :queue AND claimable = 'when_ready'
    """
    SHARED: Final[LiteralString] = """
        FROM job_status WHERE namespace = :namespace AND queue = :queue AND share = :share AND claimable = 'when_shared'
    """

    # One step in the index to each kind.
    def _kinds_in(self, lane: Lane) -> Iterator[str]:
        waiting = self.UNSHARED if lane.share is None else self.SHARED
        after = ""
        while True:
            [row] = self._all("SELECT min(kind) AS kind" + waiting + " AND kind > :after", **lane.values, after=after)
            if row["kind"] is None:
                return
            yield (after := row["kind"])

    # One step to each priority, and then only rows that are due, in the order wanted.
    HIGHEST: Final[LiteralString] = "SELECT max(priority) AS priority"
    DUE: Final[LiteralString] = "SELECT -priority AS urgency, ready_at_us, position, job_id"
    OF_PRIORITY: Final[LiteralString] = """
        AND kind = :kind AND priority = :priority AND ready_at_us <= :now_us
        ORDER BY ready_at_us, position LIMIT :limit
    """

    def _due(self, lane: Lane, kind: str, now_us: int, limit: int, *, every_priority: bool = False) -> list[Candidate]:
        """What waits in one lane for one kind of worker and is due, best first.

        With ``every_priority`` the first ``limit`` of each, else of all of them.
        """
        waiting = self.UNSHARED if lane.share is None else self.SHARED
        found: list[Candidate] = []
        of_kind = lane.values | {"kind": kind}
        [row] = self._all(self.HIGHEST + waiting + " AND kind = :kind", **of_kind)
        while (priority := row["priority"]) is not None and (every_priority or len(found) < limit):
            missing = limit if every_priority else limit - len(found)
            due = self._all(
                self.DUE + waiting + self.OF_PRIORITY, **of_kind, priority=priority, now_us=now_us, limit=missing
            )
            found += [(row["urgency"], row["ready_at_us"], row["position"], row["job_id"]) for row in due]
            [row] = self._all(
                self.HIGHEST + waiting + " AND kind = :kind AND priority < :priority", **of_kind, priority=priority
            )
        return found

    # By job_status_running, which covers all that is read of live ones; their leases and groups by primary key.
    DEAD_IN: Final[LiteralString] = """
        SELECT -s.priority AS urgency, s.ready_at_us, s.position, s.job_id
        FROM job_status AS s INDEXED BY job_status_running
        CROSS JOIN job_lease AS l ON l.namespace = s.namespace AND l.job_id = s.job_id
        LEFT JOIN worker_group AS g ON g.namespace = l.namespace AND g.name = l.worker_group
        WHERE s.namespace = :namespace AND s.queue = :queue AND s.claimable IN ('when_dead', 'when_fenced')
            AND (:kinds IS NULL OR s.kind IN (SELECT value FROM json_each(:kinds)))
            AND (l.epoch <> coalesce(g.epoch, 1) OR (l.expires_at_us <= :now_us AND s.claimable = 'when_dead'))
        ORDER BY s.priority DESC, s.ready_at_us, s.position LIMIT :limit
    """

    def _dead_in(
        self, namespace: str, queue: str, kinds: Sequence[str] | None, now_us: int, limit: int
    ) -> list[Candidate]:
        """What runs in one queue on a lease that is not live, and may be taken over."""
        rows = self._all(
            self.DEAD_IN,
            namespace=namespace,
            queue=queue,
            kinds=None if kinds is None else json.dumps(list(kinds)),
            now_us=now_us,
            limit=limit,
        )
        return [(row["urgency"], row["ready_at_us"], row["position"], row["job_id"]) for row in rows]

    # By the primary key of job_lease, which has a row for each open attempt and none for anything else.
    DEAD: Final[LiteralString] = """
        SELECT l.job_id FROM job_lease AS l
        LEFT JOIN worker_group AS g ON g.namespace = l.namespace AND g.name = l.worker_group
        WHERE l.namespace = :namespace AND l.job_id > :after
            AND (l.expires_at_us <= :now_us OR l.epoch <> coalesce(g.epoch, 1))
        ORDER BY l.job_id LIMIT :limit
    """

    def dead(self, namespace: str, *, after: str, limit: int) -> list[str]:
        """Running jobs whose lease is not live, by id from behind ``after``."""
        place = {"namespace": namespace, "after": after, "limit": limit}
        rows = self._all(self.DEAD, **place, now_us=to_us(self.now())) + self._all(self.LEASELESS, **place)
        return sorted(row["job_id"] for row in rows)[:limit]

    # By job_status_state, and the lease by its primary key. Only a damaged store has such a job, and nobody else would
    # find it.
    LEASELESS: Final[LiteralString] = """
        SELECT s.job_id FROM job_status AS s
        LEFT JOIN job_lease AS l ON l.namespace = s.namespace AND l.job_id = s.job_id
        WHERE s.namespace = :namespace AND s.state = 'running' AND s.job_id > :after AND l.job_id IS NULL
        ORDER BY s.job_id LIMIT :limit
    """
