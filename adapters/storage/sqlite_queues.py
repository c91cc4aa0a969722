"""Queues in a SQLite store: their rows, and what runs and waits in a limited one."""

from __future__ import annotations

import heapq
import json
from typing import TYPE_CHECKING, Final, LiteralString

from jobledger.adapters.storage.queue_rows import decode_queue, decode_usage, queue_row
from jobledger.adapters.storage.rows import as_bytes, to_us
from jobledger.adapters.storage.sqlite_claims import Lane, SQLiteFinder
from jobledger.domain.queues.choosing import Usage, Waiting
from jobledger.domain.queues.ports import LoadedQueue
from jobledger.domain.queues.state import LABEL_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobledger.domain.queue_events import QueueLimits
    from jobledger.domain.queues.state import QueueState

# By the primary key.
QUEUE_SEQUENCE: Final[LiteralString] = "SELECT sequence FROM queue WHERE namespace = :namespace AND name = :name"

PUT_QUEUE: Final[LiteralString] = """
    INSERT INTO queue (namespace, name, sequence, head, share_by, queue)
    VALUES (:namespace, :name, :sequence, :head, :share_by, :queue)
    ON CONFLICT (namespace, name) DO UPDATE SET
        sequence = excluded.sequence, head = excluded.head, share_by = excluded.share_by, queue = excluded.queue
"""

PUT_QUEUE_USAGE: Final[LiteralString] = """
    INSERT INTO queue_usage (namespace, name, usage) VALUES (:namespace, :name, :usage)
    ON CONFLICT (namespace, name) DO UPDATE SET usage = excluded.usage
"""

# By job_status_waiting; a job's label by job_label_name.
SHARE_OUT: Final[LiteralString] = """
    UPDATE job_status SET claimable = 'when_shared', share = CASE :share_by
        WHEN 'owner' THEN owner WHEN 'kind' THEN kind
        ELSE coalesce((
            SELECT b.value FROM job_label AS b
            WHERE b.namespace = job_status.namespace AND b.name = :label AND b.position = job_status.position
        ), '') END
    WHERE position IN (
        SELECT position FROM job_status INDEXED BY job_status_waiting
        WHERE namespace = :namespace AND queue = :queue AND claimable = 'when_ready' LIMIT :limit
    )
"""

# By job_status_shared.
END_SHARES: Final[LiteralString] = """
    UPDATE job_status SET claimable = 'when_ready', share = NULL
    WHERE namespace = :namespace AND queue = :queue AND claimable = 'when_shared'
"""


def label_of(share_by: str) -> str:
    """The name of the label that divides a queue, or nothing."""
    return share_by.removeprefix(LABEL_PREFIX) if share_by.startswith(LABEL_PREFIX) else ""


class SQLiteQueueReader(SQLiteFinder):
    """Reads queues within one transaction."""

    # By the primary key.
    QUEUES: Final[LiteralString] = """
        SELECT name, sequence, head, queue FROM queue
        WHERE namespace = :namespace AND name IN (SELECT value FROM json_each(:names))
    """

    def queues(self, namespace: str, names: Sequence[str]) -> dict[str, LoadedQueue]:
        """Queues by name that were ever limited or held; others are missing."""
        rows = self._all(self.QUEUES, namespace=namespace, names=json.dumps(list(names)))
        return {
            row["name"]: LoadedQueue(
                decode_queue(namespace, row["name"], row["sequence"], as_bytes(row["queue"])), str(row["head"])
            )
            for row in rows
        }

    def queue_rules(self, namespace: str, group: str, names: Sequence[str]) -> dict[str, QueueState]:
        """What claims of these queues, and of the whole namespace, have to respect: those that have a row."""
        del group  # reading it later costs little here
        return {name: loaded.state for name, loaded in self.queues(namespace, ["", *names]).items()}

    # By job_status_queue, one step to each queue; and by the primary key of queue.
    QUEUE_NAMES: Final[LiteralString] = """
        WITH RECURSIVE used (name) AS (
            SELECT min(queue) FROM job_status WHERE namespace = :namespace AND queue > :after
            UNION ALL
            SELECT (SELECT min(queue) FROM job_status WHERE namespace = :namespace AND queue > name) FROM used
            WHERE name IS NOT NULL
        )
        SELECT name FROM (SELECT name FROM used WHERE name IS NOT NULL LIMIT :limit)
        UNION
        SELECT name FROM (
            SELECT name FROM queue WHERE namespace = :namespace AND name > :after ORDER BY name LIMIT :limit
        )
        ORDER BY name LIMIT :limit
    """

    def queue_names(self, namespace: str, *, after: str, limit: int) -> list[str]:
        """The names of queues that have jobs, or were ever limited or held, in order from behind ``after``."""
        rows = self._all(self.QUEUE_NAMES, namespace=namespace, after=after, limit=limit)
        return [str(row["name"]) for row in rows]

    # By the primary key.
    QUEUE_COLUMNS: Final[LiteralString] = "SELECT * FROM queue WHERE namespace = :namespace AND name = :name"

    def is_queue_found_by(self, state: QueueState, head: str) -> bool:
        """Whether the columns that the store finds this queue by are those of this state."""
        row = self._one(self.QUEUE_COLUMNS, namespace=state.namespace, name=state.name)
        wanted = queue_row(state, head)
        return row is not None and all(row[column] == value for column, value in wanted.items() if column != "queue")

    # By the primary key.
    QUEUE_USAGE: Final[LiteralString] = "SELECT usage FROM queue_usage WHERE namespace = :namespace AND name = :name"

    def queue_usage(self, namespace: str, name: str) -> Usage:
        """What a limited queue remembers; whoever writes has the whole file's turn."""
        row = self._one(self.QUEUE_USAGE, namespace=namespace, name=name)
        return decode_usage(namespace, name, as_bytes(row["usage"])) if row else Usage()

    # By job_status_queue_state; a job's label by job_label_name.
    RUNNING_IN: Final[LiteralString] = """
        SELECT CASE :share_by WHEN '' THEN '' WHEN 'owner' THEN s.owner WHEN 'kind' THEN s.kind
            ELSE coalesce((
                SELECT b.value FROM job_label AS b
                WHERE b.namespace = s.namespace AND b.name = :label AND b.position = s.position
            ), '') END AS share, count(*) AS jobs
        FROM job_status AS s INDEXED BY job_status_queue_state
        WHERE s.namespace = :namespace AND s.queue = :queue AND s.state = 'running' GROUP BY 1
    """

    def running_in(self, namespace: str, queue: str, share_by: str | None) -> dict[str, int]:
        """How many jobs of a queue run, by share, also those on leases that are not live."""
        divided = {"share_by": share_by or "", "label": label_of(share_by or "")}
        rows = self._all(self.RUNNING_IN, namespace=namespace, queue=queue, **divided)
        return {str(row["share"]): row["jobs"] for row in rows}

    def dead_in(self, namespace: str, queue: str, kinds: Sequence[str] | None, limit: int) -> list[Waiting]:
        """Running jobs of a queue that a claim may take over, in the order of claims."""
        found = self._dead_in(namespace, queue, kinds, to_us(self.now()), limit)
        return [
            Waiting(job_id, -urgency, ready_at_us, position, is_waiting=False)
            for urgency, ready_at_us, position, job_id in found
        ]

    def waiting_in(
        self, namespace: str, queue: str, kinds: Sequence[str] | None, limit: int, *, every_priority: bool
    ) -> list[Waiting]:
        """What waits in a queue and is due, and belongs to no share yet."""
        return self._waiting(Lane(namespace, queue), kinds, limit, every_priority=every_priority)

    def shared_in(
        self,
        namespace: str,
        queue: str,
        kinds: Sequence[str] | None,
        limit: int,
        *,
        limits: QueueLimits,
        after: str,
        full: Sequence[str],
    ) -> list[Waiting]:
        """What waits in a divided queue and is due: the best of each share that is not full, once around."""
        found: list[Waiting] = []
        shares = 0
        for share in self._shares(namespace, queue, after):
            if share in full:
                continue
            lane = Lane(namespace, queue, share)
            best = self._waiting(lane, kinds, limit, every_priority=limits.ageing is not None)
            found += best
            shares += bool(best)
            if shares == limit:
                break
        return found

    # By job_status_shared, one step to each share.
    NEXT_SHARE: Final[LiteralString] = """
        SELECT min(share) AS share FROM job_status
        WHERE namespace = :namespace AND queue = :queue AND claimable = 'when_shared' AND share > :after
    """
    FIRST_SHARE: Final[LiteralString] = """
        SELECT min(share) AS share FROM job_status
        WHERE namespace = :namespace AND queue = :queue AND claimable = 'when_shared'
    """

    def _shares(self, namespace: str, queue: str, after: str) -> Iterator[str]:
        """The shares of a queue in the order of their names, from behind one and once around."""
        place = {"namespace": namespace, "queue": queue}
        share, is_around = after, False
        while True:
            row = self._one(self.NEXT_SHARE, **place, after=share)
            if (row is None or row["share"] is None) and not is_around:
                row, is_around = self._one(self.FIRST_SHARE, **place), True
            if row is None or row["share"] is None or (is_around and row["share"] > after):
                return
            share = str(row["share"])
            yield share

    def _waiting(self, lane: Lane, kinds: Sequence[str] | None, limit: int, *, every_priority: bool) -> list[Waiting]:
        now_us = to_us(self.now())
        found = [
            candidate
            for kind in (self._kinds_in(lane) if kinds is None else dict.fromkeys(kinds))
            for candidate in self._due(lane, kind, now_us, limit, every_priority=every_priority)
        ]
        best = sorted(found) if every_priority else heapq.nsmallest(limit, found)
        share = lane.share or ""
        return [
            Waiting(job_id, -urgency, ready_at_us, position, share) for urgency, ready_at_us, position, job_id in best
        ]
