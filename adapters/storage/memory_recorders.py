"""Recorders of the eventsourcing library that keep a jobledger store's log in memory."""

from __future__ import annotations

import secrets
import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from eventsourcing.persistence import OperationalError, ProcessRecorder
from eventsourcing.popo import POPOFactory, POPOProcessRecorder
from typing_extensions import override

from jobledger.adapters.storage.changes import Changes
from jobledger.domain.history import StoredRecord
from jobledger.domain.tracking import CURSOR_SECRET

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from eventsourcing.persistence import ApplicationRecorder, StoredEvent

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

    def record_at(self, position: int) -> StoredRecord:
        """The record at a position from 1 to the last."""
        event = self._stored_events[position - 1]
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
