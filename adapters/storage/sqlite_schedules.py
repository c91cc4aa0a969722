"""Schedules in a SQLite store: reading them, finding those that are due, and the statements that write them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, LiteralString

from jobledger.adapters.storage.rows import as_bytes, to_us
from jobledger.adapters.storage.schedule_rows import decode_schedule, due_schedule, schedule_row
from jobledger.adapters.storage.sqlite_reading import SQLiteRows
from jobledger.domain.schedules.ports import DueSchedule, LoadedSchedule

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from jobledger.domain.schedules.state import ScheduleState

# By the primary key.
SCHEDULE_SEQUENCE: Final[LiteralString] = """
    SELECT sequence FROM schedule WHERE namespace = :namespace AND name = :name
"""

PUT_SCHEDULE: Final[LiteralString] = """
    INSERT INTO schedule (namespace, name, sequence, head, due_at_us, waits_for, is_removed, schedule)
    VALUES (:namespace, :name, :sequence, :head, :due_at_us, :waits_for, :is_removed, :schedule)
    ON CONFLICT (namespace, name) DO UPDATE SET
        sequence = excluded.sequence, head = excluded.head, due_at_us = excluded.due_at_us,
        waits_for = excluded.waits_for, is_removed = excluded.is_removed, schedule = excluded.schedule
"""

PUT_SCHEDULE_SNAPSHOT: Final[LiteralString] = """
    INSERT INTO schedule_snapshot (namespace, name, sequence, schedule)
    VALUES (:namespace, :name, :sequence, :schedule)
    ON CONFLICT (namespace, name, sequence) DO UPDATE SET schedule = excluded.schedule
"""

DELETE_SCHEDULE_SNAPSHOTS: Final[LiteralString] = """
    DELETE FROM schedule_snapshot WHERE namespace = :namespace AND name = :name
"""


class SQLiteScheduleReader(SQLiteRows):
    """Reads schedules within one transaction."""

    # By the primary key.
    SCHEDULES: Final[LiteralString] = """
        SELECT name, sequence, head, schedule FROM schedule
        WHERE namespace = :namespace AND name IN (SELECT value FROM json_each(:names))
    """

    def schedules(self, namespace: str, names: Sequence[str]) -> dict[str, LoadedSchedule]:
        """Schedules by name, also removed ones; unknown names are missing."""
        rows = self._all(self.SCHEDULES, namespace=namespace, names=json.dumps(list(names)))
        return {
            row["name"]: LoadedSchedule(
                decode_schedule(namespace, row["name"], row["sequence"], as_bytes(row["schedule"])), str(row["head"])
            )
            for row in rows
        }

    # By the primary key, in its order.
    SCHEDULE_NAMES: Final[LiteralString] = """
        SELECT name FROM schedule
        WHERE namespace = :namespace AND name > :after AND is_removed <= :with_removed
        ORDER BY name LIMIT :limit
    """

    def schedule_names(self, namespace: str, *, after: str, limit: int, with_removed: bool) -> list[str]:
        """Names in order, from behind ``after``."""
        rows = self._all(
            self.SCHEDULE_NAMES, namespace=namespace, after=after, limit=limit, with_removed=int(with_removed)
        )
        return [str(row["name"]) for row in rows]

    # By schedule_due, in its order and without the table; the job that one waits for by UNIQUE (job_id).
    WAITING: Final[LiteralString] = """
        FROM schedule AS s INDEXED BY schedule_due LEFT JOIN job_status AS j ON j.job_id = s.waits_for
        WHERE s.namespace = :namespace AND s.due_at_us IS NOT NULL
            AND (j.state IS NULL OR j.state NOT IN ('queued', 'running', 'paused'))
    """
    DUE_SCHEDULES: Final[LiteralString] = (
        "SELECT s.due_at_us, s.name"
        + WAITING
        + """
            AND s.due_at_us <= :now_us AND (s.due_at_us, s.name) > (:after_us, :after_name)
        ORDER BY s.due_at_us, s.name LIMIT :limit
    """
    )

    def due_schedules(self, namespace: str, *, after: DueSchedule | None, limit: int) -> list[DueSchedule]:
        """Schedules that are due by the store's clock, in their order, from behind ``after``."""
        rows = self._all(
            self.DUE_SCHEDULES,
            namespace=namespace,
            now_us=to_us(self.now()),
            after_us=to_us(after.due_at) if after else -1,
            after_name=after.name if after else "",
            limit=limit,
        )
        return [due_schedule(row["due_at_us"], row["name"]) for row in rows]

    NEXT_DUE: Final[LiteralString] = (
        "SELECT s.due_at_us" + WAITING + " AND s.due_at_us > :after_us ORDER BY s.due_at_us, s.name LIMIT 1"
    )

    def next_due(self, namespace: str, *, after: datetime) -> datetime | None:
        """When, later than ``after``, the first schedule that waits for no job is due; ``None``: none ever is."""
        row = self._one(self.NEXT_DUE, namespace=namespace, after_us=to_us(after))
        return due_schedule(row["due_at_us"], "").due_at if row else None

    # By the primary key.
    SCHEDULE_COLUMNS: Final[LiteralString] = """
        SELECT * FROM schedule WHERE namespace = :namespace AND name = :name
    """

    def is_schedule_found_by(self, state: ScheduleState, head: str) -> bool:
        """Whether the columns that the store finds this schedule by are those of this state."""
        row = self._one(self.SCHEDULE_COLUMNS, namespace=state.namespace, name=state.name)
        wanted = schedule_row(state, head)
        return row is not None and all(row[column] == value for column, value in wanted.items() if column != "schedule")

    # By the primary key, one step from its end.
    SCHEDULE_SNAPSHOT: Final[LiteralString] = """
        SELECT sequence, schedule FROM schedule_snapshot
        WHERE namespace = :namespace AND name = :name AND sequence <= :upto
        ORDER BY sequence DESC LIMIT 1
    """

    def schedule_snapshot(self, namespace: str, name: str, upto: int) -> ScheduleState | None:
        """The newest kept state of a schedule at or before a sequence."""
        row = self._one(self.SCHEDULE_SNAPSHOT, namespace=namespace, name=name, upto=upto)
        return decode_schedule(namespace, name, row["sequence"], as_bytes(row["schedule"])) if row else None
