"""Recorders of the eventsourcing library that keep a jobledger store's log in memory."""

from __future__ import annotations

import secrets
import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from eventsourcing.persistence import Notification, OperationalError, ProcessRecorder, StoredEvent
from eventsourcing.popo import POPOFactory, POPOProcessRecorder
from typing_extensions import override

from jobledger.adapters.storage.changes import Changes
from jobledger.domain.history import StoredRecord
from jobledger.domain.tracking import CURSOR_SECRET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from eventsourcing.persistence import ApplicationRecorder

NOTHING: Final = StoredEvent("", 0, "", b"")
"""Stands where a record was taken out of the log, so that the others keep their positions."""

WRITE_PATIENCE_SECONDS: Final = 30.0
"""How long the library's writes wait for a session to end."""


class MemoryLedgerRecorder(POPOProcessRecorder):
    """The log of all events, in memory; one writer at a time, readers at any time."""

    def __init__(self) -> None:
        """Start with an empty log."""
        super().__init__()
        self.lock: threading.RLock = self._database_lock
        self.turn = threading.Lock()
        self.turn_of: int | None = None
        self.changes = Changes(lambda: self.last_position)
        self.changes.start()
        self._command_ids: list[str | None] = []
        self._caused: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._secrets = {CURSOR_SECRET: secrets.token_bytes(32)}

    # What sessions use ------------------------------------------------------------------------------------------------

    @property
    def last_position(self) -> int:
        """The position of the newest record; 0 for an empty log."""
        return len(self._stored_events)

    def record_at(self, position: int) -> StoredRecord | None:
        """The record at a position from 1 to the last; ``None`` where it was taken out."""
        event = self._stored_events[position - 1]
        if event is NOTHING:
            return None
        stream = str(event.originator_id)
        return StoredRecord(stream, event.originator_version, event.topic, event.state, self._command_ids[position - 1])

    def position_of(self, stream: str, sequence: int) -> int | None:
        """Where a stream's record stands in the log."""
        with self.lock:
            index = self._stored_events_index.get(stream, {}).get(sequence)
        return None if index is None else index + 1

    def secret(self, name: str) -> bytes:
        """A secret of this log and of what is kept beside it."""
        return self._secrets[name]

    def first_of(self, stream: str, after: int) -> int | None:
        """The first sequence of a stream behind one, whatever was taken out between."""
        with self.lock:
            index = self._stored_events_index.get(stream, {})
            return after + 1 if after + 1 in index else min((each for each in index if each > after), default=None)

    def take_out(self, positions: Iterable[int]) -> list[tuple[int, StoredRecord]]:
        """Remove records from the log for good; answers them, with their positions. Hold the lock."""
        taken: list[tuple[int, StoredRecord]] = []
        for position in positions:
            record = self.record_at(position)
            if record is None:
                continue
            taken.append((position, record))
            self._stored_events[position - 1] = NOTHING
            self._stored_events_index[record.stream].pop(record.sequence, None)
            if record.command_id is not None:
                self._caused.pop((record.stream, record.command_id), None)
            self._command_ids[position - 1] = None
        return taken

    def streams(self, upto: int) -> list[str]:
        """The names of all streams that began up to a position, in order."""
        with self.lock:
            index = self._stored_events_index
            began = {str(stream): min(places.values()) + 1 for stream, places in index.items() if places}
        return sorted(stream for stream, position in began.items() if position <= upto)

    def caused(self, stream: str, command_id: str) -> list[int]:
        """The positions of the records that one command left in a stream."""
        with self.lock:
            return list(self._caused.get((stream, command_id), []))

    def commit(
        self, events: Sequence[StoredEvent], command_ids: Sequence[str | None], apply: Callable[[], None]
    ) -> None:
        """Write a session's events and rows in one moment; the session holds ``turn``."""
        with self.lock:
            self._insert_events(events, command_ids=command_ids)
            apply()
        self._notify_listeners()

    @override
    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """Events by position; those that were taken out are passed over."""
        found: list[Notification] = []
        while len(found) < limit:
            page = super().select_notifications(
                start, limit - len(found), stop, topics, inclusive_of_start=inclusive_of_start
            )
            found += [each for each in page if each.topic != NOTHING.topic]
            if not page:
                break
            start, inclusive_of_start = page[-1].id, False
        return found

    # What the library uses --------------------------------------------------------------------------------------------

    @override
    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """Write events; answers their positions.

        Raises:
            OperationalError: a session did not end within 30 seconds.
        """
        if not self.turn.acquire(timeout=WRITE_PATIENCE_SECONDS):
            msg = "a session has been open all the time"
            raise OperationalError(msg)
        try:
            with self.lock:
                positions = self._insert_events(stored_events, **kwargs)
        finally:
            self.turn.release()
        self._notify_listeners()
        return positions

    @override
    def _update_table(
        self, stored_events: Sequence[StoredEvent], *, command_ids: Sequence[str | None] | None = None, **kwargs: Any
    ) -> Sequence[int] | None:
        for offset, event in enumerate(stored_events, start=self.last_position + 1):
            command_id = command_ids[offset - self.last_position - 1] if command_ids else None
            self._command_ids.append(command_id)
            if command_id is not None:
                self._caused[str(event.originator_id), command_id].append(offset)
        return super()._update_table(stored_events, **kwargs)

    @override
    def listen(self, event: threading.Event) -> None:
        with self.lock:
            super().listen(event)

    @override
    def unlisten(self, event: threading.Event) -> None:
        with self.lock:
            super().unlisten(event)

    @override
    def _notify_listeners(self) -> None:
        with self.lock:
            super()._notify_listeners()
        self.changes.announce()


class MemoryLedgerFactory(POPOFactory):
    """Makes recorders in memory for the library: set ``PERSISTENCE_MODULE`` to this class's topic."""

    @override
    def application_recorder(self) -> ApplicationRecorder:
        return MemoryLedgerRecorder()

    @override
    def process_recorder(self) -> ProcessRecorder:
        return MemoryLedgerRecorder()
