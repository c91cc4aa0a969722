"""Schedules in a PostgreSQL store: reading them, and finding those that are due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, LiteralString

from jobledger.adapters.storage.postgresql_reading import PostgreSQLRows, Row
from jobledger.adapters.storage.rows import from_us, to_us
from jobledger.adapters.storage.schedule_rows import decode_schedule, schedule_row
from jobledger.domain.schedules.ports import DueSchedule, LoadedSchedule

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from jobledger.domain.schedules.state import ScheduleState

# By schedule_due, in its order; the job that one waits for by its primary key.
WAITING: Final[LiteralString] = """
    FROM jobledger.schedule AS s LEFT JOIN jobledger.job_status AS j ON j.job_id = s.waits_for
    WHERE s.namespace = %(namespace)s AND s.due_at_us IS NOT NULL
        AND (j.state IS NULL OR j.state NOT IN ('queued', 'running', 'paused'))
"""

DUE_SCHEDULES: Final[LiteralString] = (
    "SELECT s.due_at_us, s.name"
    + WAITING
    + """
        AND s.due_at_us <= %(now_us)s AND (s.due_at_us, s.name) > (%(after_us)s, %(after_name)s)
    ORDER BY s.due_at_us, s.name LIMIT %(limit)s
"""
)


class PostgreSQLScheduleReader(PostgreSQLRows):
    """Reads schedules within one transaction."""

    # By the primary key.
    SCHEDULES: Final[LiteralString] = """
        SELECT name, sequence, head, schedule FROM jobledger.schedule
        WHERE namespace = %(namespace)s AND name = ANY(%(names)s::text[])
    """

    def schedules(self, namespace: str, names: Sequence[str]) -> dict[str, LoadedSchedule]:
        """Schedules by name, also removed ones; unknown names are missing."""
        rows = self._all(self.SCHEDULES, namespace=namespace, names=list(names))
        return {row[0]: loaded_schedule(namespace, row) for row in rows}

    # By the primary key, in its order.
    SCHEDULE_NAMES: Final[LiteralString] = """
        SELECT name FROM jobledger.schedule
        WHERE namespace = %(namespace)s AND name > %(after)s AND (%(with_removed)s OR NOT is_removed)
        ORDER BY name LIMIT %(limit)s
    """

    def schedule_names(self, namespace: str, *, after: str, limit: int, with_removed: bool) -> list[str]:
        """Names in order, from behind ``after``."""
        values = {"namespace": namespace, "after": after, "limit": limit, "with_removed": with_removed}
        return [name for (name,) in self._all(self.SCHEDULE_NAMES, **values)]

    def due_schedules(self, namespace: str, *, after: DueSchedule | None, limit: int) -> list[DueSchedule]:
        """Schedules that are due by the store's clock, in their order, from behind ``after``."""
        return self._due(DUE_SCHEDULES, namespace, after, limit)

    def _due(
        self, statement: LiteralString, namespace: str, after: DueSchedule | None, limit: int
    ) -> list[DueSchedule]:
        rows = self._all(
            statement,
            namespace=namespace,
            now_us=to_us(self.now()),
            after_us=to_us(after.due_at) if after else -1,
            after_name=after.name if after else "",
            limit=limit,
        )
        return [DueSchedule(from_us(due_at_us), name) for due_at_us, name in rows]

    NEXT_DUE: Final[LiteralString] = (
        "SELECT s.due_at_us" + WAITING + " AND s.due_at_us > %(after_us)s ORDER BY s.due_at_us, s.name LIMIT 1"
    )

    def next_due(self, namespace: str, *, after: datetime) -> datetime | None:
        """When, later than ``after``, the first schedule that waits for no job is due; ``None``: none ever is."""
        row = self._one(self.NEXT_DUE, namespace=namespace, after_us=to_us(after))
        return from_us(row[0]) if row else None

    # By the primary key.
    SCHEDULE_COLUMNS: Final[LiteralString] = """
        SELECT namespace, name, sequence, head, due_at_us, waits_for, is_removed::integer
        FROM jobledger.schedule WHERE namespace = %(namespace)s AND name = %(name)s
    """

    def is_schedule_found_by(self, state: ScheduleState, head: str) -> bool:
        """Whether the columns that the store finds this schedule by are those of this state."""
        wanted = [value for column, value in schedule_row(state, head).items() if column != "schedule"]
        row = self._one(self.SCHEDULE_COLUMNS, namespace=state.namespace, name=state.name)
        return row is not None and list(row) == wanted

    # By the primary key, one step from its end.
    SCHEDULE_SNAPSHOT: Final[LiteralString] = """
        SELECT sequence, schedule FROM jobledger.schedule_snapshot
        WHERE namespace = %(namespace)s AND name = %(name)s AND sequence <= %(upto)s
        ORDER BY sequence DESC LIMIT 1
    """

    def schedule_snapshot(self, namespace: str, name: str, upto: int) -> ScheduleState | None:
        """The newest kept state of a schedule at or before a sequence."""
        row = self._one(self.SCHEDULE_SNAPSHOT, namespace=namespace, name=name, upto=upto)
        return decode_schedule(namespace, name, *row) if row else None


def loaded_schedule(namespace: str, row: Row) -> LoadedSchedule:
    """A schedule from its row.

    Raises:
        HistoryCorruptError: the kept state cannot be read.
    """
    name, sequence, head, schedule = row
    return LoadedSchedule(decode_schedule(namespace, name, sequence, schedule), head)
