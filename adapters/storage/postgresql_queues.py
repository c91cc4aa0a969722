"""Queues in a PostgreSQL store: their rows, and what runs and waits in a limited one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, LiteralString

from jobledger.adapters.storage.postgresql_reading import PostgreSQLRows, Row
from jobledger.adapters.storage.queue_rows import decode_queue, decode_usage, queue_row
from jobledger.domain.queues.choosing import Usage, Waiting
from jobledger.domain.queues.ports import LoadedQueue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobledger.domain.queue_events import QueueLimits
    from jobledger.domain.queues.state import QueueState


class PostgreSQLQueueReader(PostgreSQLRows):
    """Reads queues within one transaction."""

    # By the primary key.
    QUEUES: Final[LiteralString] = """
        SELECT name, sequence, head, queue FROM jobledger.queue
        WHERE namespace = %(namespace)s AND name = ANY(%(names)s::text[])
    """

    def queues(self, namespace: str, names: Sequence[str]) -> dict[str, LoadedQueue]:
        """Queues by name that were ever limited or held; others are missing."""
        rows = self._all(self.QUEUES, namespace=namespace, names=list(names))
        return {row[0]: loaded_queue(namespace, row) for row in rows}

    def queue_rules(self, namespace: str, group: str, names: Sequence[str]) -> dict[str, QueueState]:
        """What claims of these queues, and of the whole namespace, have to respect: those that have a row."""
        del group  # a look needs no more than it asks for
        return {name: loaded.state for name, loaded in self.queues(namespace, ["", *names]).items()}

    # By job_queue, one step to each queue; and by the primary key of queue.
    QUEUE_NAMES: Final[LiteralString] = """
        WITH RECURSIVE used (name) AS (
            SELECT min(queue) FROM jobledger.job WHERE namespace = %(namespace)s AND queue > %(after)s
            UNION ALL
            SELECT (
                SELECT min(queue) FROM jobledger.job WHERE namespace = %(namespace)s AND queue > name
            ) FROM used WHERE name IS NOT NULL
        ), known (name) AS (
            (SELECT name FROM used WHERE name IS NOT NULL LIMIT %(limit)s)
            UNION
            (
                SELECT name FROM jobledger.queue WHERE namespace = %(namespace)s AND name > %(after)s
                ORDER BY name LIMIT %(limit)s
            )
        )
        SELECT name FROM known ORDER BY name LIMIT %(limit)s
    """

    def queue_names(self, namespace: str, *, after: str, limit: int) -> list[str]:
        """The names of queues that have jobs, or were ever limited or held, in order from behind ``after``."""
        return [name for (name,) in self._all(self.QUEUE_NAMES, namespace=namespace, after=after, limit=limit)]

    # By the primary key.
    QUEUE_COLUMNS: Final[LiteralString] = """
        SELECT namespace, name, sequence, head, share_by FROM jobledger.queue
        WHERE namespace = %(namespace)s AND name = %(name)s
    """

    def is_queue_found_by(self, state: QueueState, head: str) -> bool:
        """Whether the columns that the store finds this queue by are those of this state."""
        wanted = [value for column, value in queue_row(state, head).items() if column != "queue"]
        row = self._one(self.QUEUE_COLUMNS, namespace=state.namespace, name=state.name)
        return row is not None and list(row) == wanted

    # By the primary key.
    QUEUE_USAGE: Final[LiteralString] = """
        SELECT usage FROM jobledger.queue_usage WHERE namespace = %(namespace)s AND name = %(name)s
    """

    def queue_usage(self, namespace: str, name: str) -> Usage:
        """What a limited queue remembers."""
        return self._usage(self.QUEUE_USAGE, namespace, name)

    def _usage(self, statement: LiteralString, namespace: str, name: str) -> Usage:
        row = self._one(statement, namespace=namespace, name=name)
        return decode_usage(namespace, name, row[0]) if row and row[0] is not None else Usage()

    # By job_status_busy; a job's owner and label by their primary key and job_label_name.
    RUNNING_IN: Final[LiteralString] = """
        SELECT jobledger.share_of(s.job_id, s.kind, s.namespace, s.position, %(share_by)s), count(*)
        FROM jobledger.job_status AS s
        WHERE s.namespace = %(namespace)s AND s.queue = %(queue)s AND s.state = 'running' GROUP BY 1
    """

    def running_in(self, namespace: str, queue: str, share_by: str | None) -> dict[str, int]:
        """How many jobs of a queue run, by share, also those on leases that are not live."""
        rows = self._all(self.RUNNING_IN, namespace=namespace, queue=queue, share_by=share_by or "")
        return {share: jobs for share, jobs in rows}  # noqa: C416  # dict() would lose the rows' types

    DEAD_IN: Final[LiteralString] = """
        SELECT * FROM jobledger.dead_in(%(namespace)s, %(queue)s, %(kinds)s::text[], jobledger.now_us(), %(limit)s)
    """

    def dead_in(self, namespace: str, queue: str, kinds: Sequence[str] | None, limit: int) -> list[Waiting]:
        """Running jobs of a queue that a claim may take over, in the order of claims."""
        rows = self._all(self.DEAD_IN, **self._asked(namespace, queue, kinds, limit))
        return [replace(Waiting(*row), is_waiting=False) for row in rows]

    WAITING_IN: Final[LiteralString] = """
        SELECT * FROM jobledger.waiting_in(
            %(namespace)s, %(queue)s, %(kinds)s::text[], jobledger.now_us(), %(limit)s, %(every_priority)s
        )
    """

    def waiting_in(
        self, namespace: str, queue: str, kinds: Sequence[str] | None, limit: int, *, every_priority: bool
    ) -> list[Waiting]:
        """What waits in a queue and is due, and belongs to no share yet."""
        asked = self._asked(namespace, queue, kinds, limit)
        return [Waiting(*row) for row in self._all(self.WAITING_IN, **asked, every_priority=every_priority)]

    SHARED_IN: Final[LiteralString] = """
        SELECT * FROM jobledger.shared_in(
            %(namespace)s, %(queue)s, %(kinds)s::text[], jobledger.now_us(), %(limit)s, %(every_priority)s,
            %(after)s, %(full)s::text[]
        )
    """

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
        asked = self._asked(namespace, queue, kinds, limit) | {"after": after, "full": list(full)}
        rows = self._all(self.SHARED_IN, **asked, every_priority=limits.ageing is not None)
        return [Waiting(*row) for row in rows]

    def _asked(self, namespace: str, queue: str, kinds: Sequence[str] | None, limit: int) -> dict[str, object]:
        return {
            "namespace": namespace,
            "queue": queue,
            "kinds": None if kinds is None else list(kinds),
            "limit": limit,
        }


def loaded_queue(namespace: str, row: Row) -> LoadedQueue:
    """A queue from its row.

    Raises:
        HistoryCorruptError: the kept state cannot be read.
    """
    name, sequence, head, queue = row
    return LoadedQueue(decode_queue(namespace, name, sequence, queue), head)
