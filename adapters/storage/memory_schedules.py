"""Schedules in a store in memory: reading them, and finding those that are due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobledger.adapters.storage.memory_tables import SCHEDULE_SNAPSHOTS, SCHEDULES, STATUS, ScheduleRow, View
from jobledger.adapters.storage.schedule_rows import decode_schedule
from jobledger.domain.schedules.ports import DueSchedule, LoadedSchedule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from jobledger.domain.ports import Clock
    from jobledger.domain.schedules.state import ScheduleState


class MemoryScheduleReader:
    """Reads schedules in one view."""

    _view: View
    _clock: Clock

    def schedules(self, namespace: str, names: Sequence[str]) -> dict[str, LoadedSchedule]:
        """Schedules by name, also removed ones; unknown names are missing."""
        rows = {name: self._view.get(SCHEDULES, (namespace, name)) for name in names}
        return {
            name: LoadedSchedule(decode_schedule(namespace, name, row.state.sequence, row.encoded), row.head)
            for name, row in rows.items()
            if row is not None
        }

    def schedule_names(self, namespace: str, *, after: str, limit: int, with_removed: bool) -> list[str]:
        """Names in order, from behind ``after``."""
        rows = self._rows_of(namespace)
        found = [row.state.name for row in rows if with_removed or not row.state.is_removed]
        return sorted(name for name in found if name > after)[:limit]

    def due_schedules(self, namespace: str, *, after: DueSchedule | None, limit: int) -> list[DueSchedule]:
        """Schedules that are due by the store's clock, in their order, from behind ``after``."""
        now = self._clock.now()
        due = [each for each in self._planned(namespace) if each.due_at <= now and (after is None or each > after)]
        return sorted(due)[:limit]

    def next_due(self, namespace: str, *, after: datetime) -> datetime | None:
        """When, later than ``after``, the first schedule that waits for no job is due; ``None``: none ever is."""
        return min((each.due_at for each in self._planned(namespace) if each.due_at > after), default=None)

    def is_schedule_found_by(self, state: ScheduleState, head: str) -> bool:
        """Whether the row that the store finds a schedule by is that of this state."""
        row = self._view.get(SCHEDULES, (state.namespace, state.name))
        return row is not None and (row.state, row.head) == (state, head)

    def schedule_snapshot(self, namespace: str, name: str, upto: int) -> ScheduleState | None:
        """The newest kept state of a schedule at or before a sequence."""
        kept = [
            (sequence, encoded)
            for (space, owner, sequence), encoded in self._view.items(SCHEDULE_SNAPSHOTS)
            if (space, owner) == (namespace, name) and sequence <= upto
        ]
        return decode_schedule(namespace, name, *max(kept)) if kept else None

    def _planned(self, namespace: str) -> Iterator[DueSchedule]:
        for row in self._rows_of(namespace):
            if row.state.due_at is not None and not self._is_waiting(row.state):
                yield DueSchedule(row.state.due_at, row.state.name)

    def _is_waiting(self, state: ScheduleState) -> bool:
        """Whether the job that it waits for has not ended."""
        job = self._view.get(STATUS, state.waits_for) if state.waits_for else None
        return job is not None and not job.job.is_terminal

    def _rows_of(self, namespace: str) -> Iterator[ScheduleRow]:
        return (row for (space, _), row in self._view.items(SCHEDULES) if space == namespace)
