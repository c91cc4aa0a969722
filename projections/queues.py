"""Every question about queues: what limits and holds them, what runs and waits in them, their history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jobledger.domain.bounds import INTEGER_MAX, PAGE_MAX, require_integer, require_text
from jobledger.domain.errors import HistoryCorruptError, UnknownSequenceError
from jobledger.domain.history import RecordedEvent, read
from jobledger.domain.queues.answers import COUNTED_MAX, QueueStatus
from jobledger.domain.queues.choosing import starts_left
from jobledger.domain.queues.state import QueueState, advance_queue, queue_stream
from jobledger.domain.replaying import PAGE, recorded
from jobledger.projections import audit
from jobledger.projections.audit import Verification

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobledger.domain.ports import Reader
    from jobledger.domain.queues.ports import LoadedQueue
    from jobledger.domain.store import Setting


@dataclass(frozen=True, slots=True)
class QueuePage:
    """Queues by name; ``next_after`` is ``None`` on the last page; ``namespace`` is the whole namespace itself."""

    queues: tuple[QueueStatus, ...]
    next_after: str | None
    namespace: QueueStatus


@dataclass(frozen=True, slots=True)
class QueueWindow:
    """A slice of a queue's events behind a sequence; ``head`` is its last one, ``next_after`` goes on."""

    events: tuple[RecordedEvent, ...]
    next_after: int
    head: int


class QueueReads:
    """Questions; none of them changes anything, but for ``rebuild``."""

    def __init__(self, setting: Setting) -> None:
        """Read in this setting's namespace."""
        self._setting = setting

    def get(self, name: str | None) -> QueueStatus:
        """A queue now, or the whole namespace (``None``); one that nobody limited, held or used is empty."""
        known = _known(name)
        with self._setting.storage.reading() as reader:
            found = reader.queues(self._setting.namespace, ["", known])
            return self._status(reader, known, found)

    def list(self, *, after: str | None = None, limit: int = 100) -> QueuePage:
        """Queues that have jobs, or were ever limited or held, by name from behind ``after``; at most ``PAGE_MAX``."""
        size = min(require_integer("limit", limit, 1, INTEGER_MAX), PAGE_MAX)
        behind = "" if after is None else require_text("after", after, empty=True)
        with self._setting.storage.reading() as reader:
            names = reader.queue_names(self._setting.namespace, after=behind, limit=size + 1)
            found = reader.queues(self._setting.namespace, ["", *names[:size]])
            page = tuple(self._status(reader, name, found) for name in names[:size])
            whole = self._status(reader, "", found)
        return QueuePage(page, names[size - 1] if len(names) > size else None, whole)

    def _status(self, reader: Reader, name: str, found: Mapping[str, LoadedQueue]) -> QueueStatus:
        namespace, whole = self._setting.namespace, found.get("")
        loaded = found.get(name)
        told = _told(name, namespace, loaded)
        if not name:
            return told
        limits = loaded.state.limits if loaded else None
        running = reader.running_in(namespace, name, limits.share_by if limits else None)
        left = None
        if limits is not None and limits.starts_max is not None:
            left = starts_left(limits, reader.queue_usage(namespace, name), reader.now(), limits.starts_max)
        return replace(
            told,
            namespace_hold=whole.state.hold if whole else None,
            queued=reader.queued(namespace, name, COUNTED_MAX),
            running=sum(running.values()),
            shares=running if limits is not None and limits.share_by is not None else {},
            starts_left=left,
        )

    def events(self, name: str | None, *, after: int = 0, limit: int = 100) -> QueueWindow:
        """A slice of the events of a queue, or of the whole namespace, behind ``after``.

        Raises:
            UnknownSequenceError: ``after`` lies beyond its head.
        """
        require_integer("after", after, 0, INTEGER_MAX)
        size = min(require_integer("limit", limit, 1, INTEGER_MAX), PAGE_MAX)
        known = _known(name)
        stream = queue_stream(self._setting.namespace, known)
        with self._setting.storage.reading() as reader:
            loaded = reader.queues(self._setting.namespace, [known]).get(known)
            head = loaded.state.sequence if loaded else 0
            if after > head:
                raise UnknownSequenceError(stream, after, head)
            found = tuple(read(stored) for stored in reader.records(stream, after=after, limit=size))
        return QueueWindow(found, found[-1].sequence if found else after, head)

    def history(self, name: str | None) -> Iterator[RecordedEvent]:
        """Every event of a queue, or of the whole namespace, from the first on, streamed in pages.

        Raises:
            HistoryCorruptError: an event cannot be read.
        """
        after = 0
        while page := self.events(name, after=after, limit=PAGE).events:
            yield from page
            after = page[-1].sequence

    def verify(self, name: str | None) -> Verification:
        """Check the whole history and the row of a queue that was ever limited or held; it answers, it does not raise.

        One that never was has no history, which is sound.
        """
        stream = queue_stream(self._setting.namespace, _known(name))
        with self._setting.storage.reading() as reader:
            if not reader.records(stream, limit=1):
                return Verification(stream, 0, ())
            return audit.verify(reader, stream)

    def rebuild(self) -> tuple[str, ...]:
        """Refold every queue's row from its events; answers the names of those that differed and were mended.

        The whole namespace is named by an empty text.

        Raises:
            HistoryCorruptError: a history cannot be folded; verify it.
        """
        namespace, after = self._setting.namespace, ""
        mended = [""] if self._rebuild("") else []
        while True:
            with self._setting.storage.reading() as reader:
                names = reader.queue_names(namespace, after=after, limit=PAGE)
            if not names:
                return tuple(mended)
            after = names[-1]
            mended += [name for name in names if self._rebuild(name)]

    def _rebuild(self, name: str) -> bool:
        with self._setting.storage.writing(self._setting.patience) as session:
            state: QueueState | None = None
            head = ""
            for event in recorded(session, queue_stream(self._setting.namespace, name)):
                state, head = advance_queue(state, event), event.digest
            if state is None or _stands(session, state, head):
                return False
            session.rewrite_queue(state, head)
            return True


def _known(name: str | None) -> str:
    return "" if name is None else require_text("queue", name)


def _told(name: str, namespace: str, loaded: LoadedQueue | None) -> QueueStatus:
    """What the row of a queue tells."""
    if loaded is None:
        return QueueStatus(name=name or None, namespace=namespace)
    state = loaded.state
    return QueueStatus(
        name=name or None,
        namespace=namespace,
        limits=state.limits,
        hold=state.hold,
        sequence=state.sequence,
        head=loaded.head,
        updated_at=state.updated_at,
    )


def _stands(reader: Reader, state: QueueState, head: str) -> bool:
    """Whether the row says what the events fold to."""
    try:
        loaded = reader.queues(state.namespace, [state.name]).get(state.name)
    except HistoryCorruptError:
        return False
    is_folded = loaded is not None and (loaded.state, loaded.head) == (state, head)
    return is_folded and reader.is_queue_found_by(state, head)
