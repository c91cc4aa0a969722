"""Schedules in the simulated store: plain tables, no lock; and a calendar for intervals, which ask none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jobledger.domain.job import TERMINAL
from jobledger.domain.schedules.ports import DueSchedule, LoadedSchedule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from jobledger.domain.schedules.ports import ScheduleAppend
    from jobledger.domain.schedules.state import ScheduleState
    from tests.proof.plain import Plain
    from tests.proof.simulated import SimulatedStorage


class Intervals:
    """The calendar of worlds whose schedules are intervals: only the time of a place is asked, and that is UTC's."""

    def require(self, cron: str, zone: str) -> None:
        """There are no expressions."""
        raise NotImplementedError

    def require_zone(self, zone: str) -> None:
        """There are no zones."""
        raise NotImplementedError

    def instants(self, cron: str, zone: str, after: datetime) -> Iterator[datetime]:
        """There are no expressions."""
        raise NotImplementedError

    def local(self, instant: datetime, zone: str) -> datetime:
        """UTC."""
        del zone
        return instant


INTERVALS: Final = Intervals()

Settled = tuple["ScheduleAppend", "ScheduleState | None"]
"""What was written of a schedule, and the state before it."""


def is_unmoved(append: ScheduleAppend, found: LoadedSchedule | None) -> bool:
    """Whether a schedule still stands where the command that wrote this saw it."""
    return (found.state.sequence if found else 0) == append.sequence


class ScheduleTables:
    """What a simulated session does with schedules."""

    _storage: SimulatedStorage
    _seen: int
    _read_at: datetime | None

    def __init__(self) -> None:
        """Nothing was looked at, and nothing written."""
        self.has_seen_schedules = False
        self._settled: list[Settled] = []

    def _put(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        raise NotImplementedError

    def _keep(self, records: Sequence[Plain]) -> None:
        raise NotImplementedError

    def _comes_in(self) -> bool:
        raise NotImplementedError

    def schedules(self, namespace: str, names: Sequence[str]) -> dict[str, LoadedSchedule]:
        """Schedules by name, not locked."""
        del namespace
        self.has_seen_schedules = True
        kept = self._storage.schedules
        return {name: kept[name] for name in names if name in kept}

    def schedule_snapshot(self, namespace: str, name: str, upto: int) -> None:
        """None is kept: histories are short."""

    def due_schedules(self, namespace: str, *, after: DueSchedule | None, limit: int) -> list[DueSchedule]:
        """Those whose instant has come, but for those that wait for a job."""
        del namespace
        now = self._storage.world.now
        found = [
            DueSchedule(due_at, name)
            for name, (state, due_at) in self._planned()
            if due_at <= now and not self._is_waiting(state)
        ]
        return sorted(each for each in found if after is None or each > after)[:limit]

    def next_due(self, namespace: str, *, after: datetime) -> datetime | None:
        """When the next one is due that waits for no job."""
        del namespace
        found = [due_at for _, (state, due_at) in self._planned() if due_at > after and not self._is_waiting(state)]
        return min(found, default=None)

    def _planned(self) -> Iterator[tuple[str, tuple[ScheduleState, datetime]]]:
        for name, loaded in self._storage.schedules.items():
            if loaded.state.due_at is not None:
                yield name, (loaded.state, loaded.state.due_at)

    def _is_waiting(self, state: ScheduleState) -> bool:
        row = self._storage.rows.get(state.waits_for) if state.waits_for else None
        return row is not None and row[0].state not in TERMINAL

    def append_schedules(self, appends: Sequence[ScheduleAppend]) -> list[bool]:
        """Write each append whose schedule nobody moved, after others had their chance to come in before."""
        if not appends:
            return []
        is_undisturbed = self._comes_in()
        storage = self._storage
        answers = []
        for append in appends:
            name = append.state.name
            found = storage.schedules.get(name)
            if is_unmoved(append, found):
                self._put(storage.schedules, name, LoadedSchedule(append.state, append.head))
                records: Any = append.records
                self._keep(records)
                self._settled.append((append, found.state if found else None))
                answers.append(True)
                continue
            answers.append(False)
            if is_undisturbed:
                storage.world.surprised(f"schedule {name} was not written, though nobody had come in between")
            else:
                storage.world.conflicted("schedule")
        storage.changes += 1
        if is_undisturbed:
            self._seen = storage.changes  # what this transaction itself wrote does not disturb it
        return answers
