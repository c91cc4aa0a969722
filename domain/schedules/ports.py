"""What schedules need from a storage: rows with their events, written together with the jobs that they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from jobledger.domain.history import StoredRecord
from jobledger.domain.schedules.state import ScheduleState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class LoadedSchedule:
    """A schedule's row as a storage read it; ``head`` is the digest of its last record."""

    state: ScheduleState
    head: str


class DueSchedule(NamedTuple):
    """A schedule whose next instant is due: since when, and its name; in this order they are taken."""

    due_at: datetime
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleAppend:
    """All that one command leaves behind in a schedule's stream, written together or not at all.

    ``sequence`` is the schedule's last one before the records (0: it must not exist), ``state`` what they fold to,
    ``snapshots`` the states on the way from which time travel may start.
    """

    sequence: int
    state: ScheduleState
    records: tuple[StoredRecord, ...]
    head: str
    snapshots: tuple[ScheduleState, ...] = ()


class ScheduleReader(Protocol):
    """What a consistent view of a store tells of schedules."""

    def schedules(self, namespace: str, names: Sequence[str]) -> dict[str, LoadedSchedule]:
        """Schedules by name, also removed ones; unknown names are missing. A session locks them, in the order of names.

        Raises:
            HistoryCorruptError: the row of one cannot be read.
        """
        ...

    def schedule_names(self, namespace: str, *, after: str, limit: int, with_removed: bool) -> list[str]:
        """Names in order, from behind ``after``."""
        ...

    def due_schedules(self, namespace: str, *, after: DueSchedule | None, limit: int) -> list[DueSchedule]:
        """Schedules that are due by the store's clock, in their order, from behind ``after``.

        One that waits for a job is not among them while that job has not ended. A session locks those that it answers,
        and may leave out those that another one has locked: they are being looked after.
        """
        ...

    def next_due(self, namespace: str, *, after: datetime) -> datetime | None:
        """When, later than ``after``, the first schedule that waits for no job is due; ``None``: none ever is."""
        ...

    def is_schedule_found_by(self, state: ScheduleState, head: str) -> bool:
        """Whether what the store finds this schedule by follows from this state."""
        ...

    def schedule_snapshot(self, namespace: str, name: str, upto: int) -> ScheduleState | None:
        """The newest kept state of a schedule at or before a sequence."""
        ...


class ScheduleWriter(Protocol):
    """What a transaction writes of schedules."""

    def append_schedules(self, appends: Sequence[ScheduleAppend]) -> list[bool]:
        """Write each append whose schedule still stands at its sequence; for each, whether it was written."""
        ...

    def rewrite_schedule(self, state: ScheduleState, head: str, snapshots: Sequence[ScheduleState]) -> None:
        """Replace a schedule's row and kept states by rebuilt ones, or make the row that is missing."""
        ...
