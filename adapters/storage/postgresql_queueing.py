"""Queues in a writing transaction of a PostgreSQL store: rules that stand still, turns, and appends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, LiteralString

from typing_extensions import override

from jobledger.adapters.storage.postgresql_arrays import byte_strings, integers, texts
from jobledger.adapters.storage.postgresql_queues import loaded_queue
from jobledger.adapters.storage.postgresql_scheduling import INSERT_EVENTS, PostgreSQLScheduleSession
from jobledger.adapters.storage.queue_rows import encode_usage, queue_row
from jobledger.adapters.storage.rows import group_row
from jobledger.domain.ports import GroupRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg
    from psycopg.rows import TupleRow

    from jobledger.adapters.storage.postgresql_connecting import Place
    from jobledger.domain.queues.choosing import Usage
    from jobledger.domain.queues.ports import LoadedQueue, QueueAppend
    from jobledger.domain.queues.state import QueueState


class PostgreSQLQueueSession(PostgreSQLScheduleSession):
    """Locks queues before it reads them, and writes them with their events.

    Claims of a queue share the lock of its name, and whoever changes its rules takes it alone; claims of a limited
    queue take the lock of its row besides, one after the other.
    """

    def __init__(self, cursor: psycopg.Cursor[TupleRow], place: Place) -> None:
        """Write through ``cursor``, whose connection is in a transaction."""
        super().__init__(cursor, place)
        self._groups: dict[tuple[str, str], GroupRow] = {}
        self.has_news = False

    QUEUE_LOCKS: Final[LiteralString] = """
        SELECT pg_advisory_xact_lock('jobledger.position'::regclass::oid::integer, l.lock)
        FROM (
            SELECT DISTINCT jobledger.name_lock('rules', %(namespace)s, n.name) AS lock
            FROM unnest(%(names)s::text[]) AS n (name) ORDER BY 1
        ) AS l
    """

    @override
    def queues(self, namespace: str, names: Sequence[str]) -> dict[str, LoadedQueue]:
        """Queues by name, locked until the transaction ends; unknown names are locked too, and missing."""
        self._all(self.QUEUE_LOCKS, namespace=namespace, names=list(names))
        return super().queues(namespace, names)

    QUEUE_RULES: Final[LiteralString] = """
        SELECT * FROM jobledger.queue_rules(%(namespace)s, %(group)s, %(names)s::text[])
    """

    @override
    def queue_rules(self, namespace: str, group: str, names: Sequence[str]) -> dict[str, QueueState]:
        """What claims have to respect, which nobody changes until the transaction ends; the group is read with it."""
        rows = self._all(self.QUEUE_RULES, namespace=namespace, group=group, names=["", *names])
        epoch, sequence, head = rows[0][:3]
        self._groups[namespace, group] = GroupRow() if epoch is None else group_row(group, epoch, sequence, head)
        return {row[3]: loaded_queue(namespace, row[3:]).state for row in rows if row[3] is not None}

    QUEUE_TURN: Final[LiteralString] = "SELECT jobledger.queue_turn(%(namespace)s, %(name)s)"

    @override
    def queue_usage(self, namespace: str, name: str) -> Usage:
        """What a limited queue remembers; the next who asks waits for the end of this transaction."""
        return self._usage(self.QUEUE_TURN, namespace, name)

    # The row by its primary key; the log by its own.
    STANDING_QUEUE: Final[LiteralString] = """
        SELECT coalesce(max(q.sequence), 0) = %(sequence)s AND NOT EXISTS (
            SELECT 1 FROM jobledger.stored_events AS e
            WHERE e.originator_id = %(stream)s AND e.originator_version > %(sequence)s
        )
        FROM jobledger.queue AS q WHERE q.namespace = %(namespace)s AND q.name = %(name)s
    """

    def append_queue(self, append: QueueAppend) -> bool:
        """Write the append if its queue still stands at its sequence; whether it was written."""
        state = append.state
        place = {"namespace": state.namespace, "name": state.name}
        [(is_standing,)] = self._all(self.STANDING_QUEUE, **place, sequence=append.sequence, stream=state.stream)
        if not is_standing:
            return False
        self._all(
            INSERT_EVENTS,
            ids=texts([record.stream for record in append.records]),
            versions=integers([record.sequence for record in append.records]),
            topics=texts([record.topic for record in append.records]),
            states=byte_strings([record.state for record in append.records]),
            commands=texts([record.command_id for record in append.records]),
        )
        self.rewrite_queue(state, append.head)
        self.has_news = True
        return True

    PUT_QUEUE: Final[LiteralString] = """
        INSERT INTO jobledger.queue (namespace, name, sequence, head, share_by, queue)
        VALUES (%(namespace)s, %(name)s, %(sequence)s, %(head)s, %(share_by)s, %(queue)s)
        ON CONFLICT (namespace, name) DO UPDATE SET
            sequence = excluded.sequence, head = excluded.head, share_by = excluded.share_by, queue = excluded.queue
    """

    def rewrite_queue(self, state: QueueState, head: str) -> None:
        """Replace a queue's row by a rebuilt one, or make the row that is missing."""
        self._execute(self.PUT_QUEUE, queue_row(state, head))

    PUT_QUEUE_USAGE: Final[LiteralString] = """
        INSERT INTO jobledger.queue_usage (namespace, name, usage) VALUES (%(namespace)s, %(name)s, %(usage)s)
        ON CONFLICT (namespace, name) DO UPDATE SET usage = excluded.usage
    """

    def put_queue_usage(self, namespace: str, name: str, usage: Usage) -> None:
        """Remember for the next claim."""
        self._execute(self.PUT_QUEUE_USAGE, {"namespace": namespace, "name": name, "usage": encode_usage(usage)})

    SHARE_OUT: Final[LiteralString] = """
        SELECT jobledger.share_out(%(namespace)s, %(queue)s, %(share_by)s, %(limit)s)
    """

    def share_out(self, namespace: str, queue: str, share_by: str, limit: int) -> None:
        """Assign up to ``limit`` waiting jobs of a queue to their shares, if they belong to none yet."""
        self._all(self.SHARE_OUT, namespace=namespace, queue=queue, share_by=share_by, limit=limit)

    END_SHARES: Final[LiteralString] = "SELECT jobledger.end_shares(%(namespace)s, %(queue)s)"

    def end_shares(self, namespace: str, queue: str) -> None:
        """Let every waiting job of a queue belong to no share; whoever writes one of them is waited for."""
        self._all(self.END_SHARES, namespace=namespace, queue=queue)

    # By the primary key.
    TAKE: Final[LiteralString] = """
        SELECT job_id FROM jobledger.job_status WHERE job_id = ANY(%(job_ids)s::text[])
        FOR NO KEY UPDATE SKIP LOCKED
    """

    def take(self, job_ids: Sequence[str]) -> list[str]:
        """Those of these jobs that no other session is writing, in their order; locked until the transaction ends."""
        free = {job_id for (job_id,) in self._all(self.TAKE, job_ids=list(job_ids))} if job_ids else set[str]()
        return [job_id for job_id in job_ids if job_id in free]
