"""Rows in memory, with the promise of every store: views are consistent, and drafts are written whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from jobledger.adapters.storage.rows import decode_body
from jobledger.domain.ports import UnitRow

if TYPE_CHECKING:
    import threading
    from collections.abc import Hashable, Iterable, Iterator

    from jobledger.domain.decisions.claiming import Claimable
    from jobledger.domain.history import StoredRecord
    from jobledger.domain.job import Job
    from jobledger.domain.lease import LeaseRow
    from jobledger.domain.ports import GroupRow, Leaf, ResourceRow, StoredBody
    from jobledger.domain.queues.state import QueueState
    from jobledger.domain.schedules.state import ScheduleState
    from jobledger.domain.tracking import Tracked

Key = TypeVar("Key", bound="Hashable")
Row = TypeVar("Row")


@dataclass(frozen=True, eq=False)
class Table(Generic[Key, Row]):
    """The name of a kind of rows, by their key."""

    name: str


@dataclass(frozen=True, slots=True)
class StatusRow:
    """A job's folded state, as it is read and as it is handed out."""

    job: Job
    encoded: bytes
    claimable: Claimable
    head: str
    position: int


@dataclass(frozen=True, slots=True)
class LiveRow:
    """The lease of an open attempt, and the group and epoch that it was claimed under."""

    namespace: str
    lease: LeaseRow
    group: str
    epoch: int


@dataclass(frozen=True, slots=True)
class KeptUnit:
    """A recorded unit; its receipt is kept as JSON, so that nobody shares a value with the store."""

    name: str
    receipt: bytes
    digest: str
    generation: int
    sequence: int

    def row(self, job_id: str) -> UnitRow:
        """The unit as it is handed out.

        Raises:
            HistoryCorruptError: the receipt cannot be read.
        """
        receipt = decode_body(job_id, self.sequence, self.receipt)
        return UnitRow(self.name, receipt, self.generation, self.sequence)


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule's folded state, as it is read and as it is handed out."""

    state: ScheduleState
    encoded: bytes
    head: str


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue's folded state, as it is read and as it is handed out."""

    state: QueueState
    encoded: bytes
    head: str


# Every job; of those the ones that a claim may take one day; and how many are queued in each queue.
STATUS: Table[str, StatusRow] = Table("status")
OPEN: Table[str, StatusRow] = Table("open")
QUEUED: Table[tuple[str, str], int] = Table("queued")
# What hangs on jobs: by job id, or by namespace, owner and name.
LEASES: Table[str, LiveRow] = Table("leases")
UNITS: Table[tuple[str, str], KeptUnit] = Table("units")
BODIES: Table[tuple[str, str, bool], StoredBody] = Table("bodies")
SNAPSHOTS: Table[tuple[str, int], bytes] = Table("snapshots")
RESOURCES: Table[tuple[str, str, str], ResourceRow] = Table("resources")
SUBMISSIONS: Table[tuple[str, str, str], str] = Table("submissions")
GROUPS: Table[tuple[str, str], GroupRow] = Table("groups")
# What is kept of archived events, by position. And for views that are older than their archive, the events themselves,
# by position, and their positions, by stream and sequence: nobody else sees any.
LEAVES: Table[int, Leaf] = Table("leaves")
GONE: Table[int, StoredRecord] = Table("gone")
GONE_AT: Table[tuple[str, int], int] = Table("gone_at")
# Schedules, by namespace and name; and their states at some sequences.
SCHEDULES: Table[tuple[str, str], ScheduleRow] = Table("schedules")
SCHEDULE_SNAPSHOTS: Table[tuple[str, str, int], bytes] = Table("schedule_snapshots")
# Projections that follow the feed: their builds, by name and number; and the rows of each, by key.
TRACKED: Table[tuple[str, int], Tracked] = Table("tracked")
PROJECTED: Table[tuple[str, int, bytes], bytes] = Table("projected")
# Queues that were ever limited or held, by namespace and name; and what the claims of limited ones remember.
QUEUES: Table[tuple[str, str], QueueRow] = Table("queues")
QUEUE_USAGE: Table[tuple[str, str], bytes] = Table("queue_usage")


class View:
    """All rows as they were when the view was opened: those that were written since are remembered as they were."""

    def __init__(self, committed: Committed) -> None:
        """Look at ``committed``; the caller registers the view there."""
        self._committed = committed
        self._differing: dict[Table[Any, Any], dict[Any, Any]] = {}

    def get(self, table: Table[Key, Row], key: Key) -> Row | None:
        """One row."""
        with self._committed.lock:
            differing = self._differing.get(table, {})
            row: Row | None = differing[key] if key in differing else self._committed.rows(table).get(key)
            return row

    def items(self, table: Table[Key, Row]) -> list[tuple[Key, Row]]:
        """All rows of a table with their keys, in no order."""
        with self._committed.lock:
            rows = {**self._committed.rows(table), **self._differing.get(table, {})}
        return [(key, row) for key, row in rows.items() if row is not None]

    def remember(self, table: Table[Key, Row], key: Key, row: Row | None) -> None:
        """Go on seeing a row as it was."""
        self._differing.setdefault(table, {}).setdefault(key, row)


class Draft(View):
    """Rows that one session has written and nobody else sees yet."""

    def put(self, table: Table[Key, Row], key: Key, row: Row) -> None:
        """Write a row."""
        self._differing.setdefault(table, {})[key] = row

    def drop(self, table: Table[Key, Row], key: Key) -> None:
        """Remove a row, if it is there."""
        self._differing.setdefault(table, {})[key] = None

    def changes(self) -> Iterator[tuple[Table[Any, Any], Any, Any]]:
        """Each row that was written, with its table and key; ``None`` where it was removed."""
        for table, rows in self._differing.items():
            for key, row in rows.items():
                yield table, key, row


class Committed:
    """The rows that everybody sees, under one lock that is held for moments only."""

    def __init__(self, lock: threading.RLock) -> None:
        """Hold nothing yet."""
        self.lock = lock
        self._rows: dict[Table[Any, Any], dict[Any, Any]] = {}
        self._views: list[View] = []

    def rows(self, table: Table[Key, Row]) -> dict[Key, Row]:
        """A table's rows; hold the lock."""
        return self._rows.setdefault(table, {})

    def open_view(self) -> View:
        """A view of the rows of now; close it, or every write has to remember for it."""
        view = View(self)
        with self.lock:
            self._views.append(view)
        return view

    def close_view(self, view: View) -> None:
        """Forget a view."""
        with self.lock:
            self._views.remove(view)

    def take_out(self, records: Iterable[tuple[int, StoredRecord]]) -> None:
        """Let open views go on seeing records that leave the log now."""
        with self.lock:
            for position, record in records:
                for view in self._views:
                    view.remember(GONE, position, record)
                    view.remember(GONE_AT, (record.stream, record.sequence), position)

    def apply(self, draft: Draft) -> None:
        """Make a draft what everybody sees, and let open views go on seeing what was."""
        with self.lock:
            for table, key, row in draft.changes():
                rows = self.rows(table)
                for view in self._views:
                    view.remember(table, key, rows.get(key))
                if row is None:
                    rows.pop(key, None)
                else:
                    rows[key] = row
