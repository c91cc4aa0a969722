"""Every question about schedules: their status now and then, their instants to come, their history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, Literal

from jobledger.domain.bounds import INTEGER_MAX, PAGE_MAX, require_instant, require_integer, require_text
from jobledger.domain.errors import HistoryCorruptError, UnknownScheduleError, UnknownSequenceError
from jobledger.domain.history import RecordedEvent, read
from jobledger.domain.replaying import PAGE, recorded, sequence_at
from jobledger.domain.schedule_events import Definition, ScheduleChanged, ScheduleCreated
from jobledger.domain.schedules.answers import ScheduleStatus, schedule_status_of
from jobledger.domain.schedules.definition import Schedule, define, require_schedule_name
from jobledger.domain.schedules.operating import put
from jobledger.domain.schedules.state import SNAPSHOT_EVERY, ScheduleState, advance_schedule, schedule_stream
from jobledger.domain.schedules.timing import instants
from jobledger.projections import audit
from jobledger.projections.audit import Verification

if TYPE_CHECKING:
    from jobledger.domain.ports import Reader
    from jobledger.domain.schedules.ports import LoadedSchedule
    from jobledger.domain.schedules.timing import Calendar
    from jobledger.domain.store import Setting

UPCOMING_MAX: Final = 1_000

# Within the class the bare name ``list`` is that of the method which lists schedules.
Names = list[str]
States = list[ScheduleState]
Statuses = list[ScheduleStatus]


@dataclass(frozen=True, slots=True)
class SchedulePage:
    """Schedules by name; ``next_after`` is ``None`` on the last page."""

    schedules: tuple[ScheduleStatus, ...]
    next_after: str | None


@dataclass(frozen=True, slots=True)
class ScheduleWindow:
    """A slice of a schedule's events behind a sequence; ``head`` is its last one, ``next_after`` goes on."""

    events: tuple[RecordedEvent, ...]
    next_after: int
    head: int


@dataclass(frozen=True, slots=True)
class ScheduleDifference:
    """What putting a schedule would do: ``create`` or ``change`` it, or ``keep`` it as it is.

    ``fields`` are those that would change, ``next_at`` is the first instant that would follow.
    """

    name: str
    what: Literal["create", "change", "keep"]
    fields: tuple[str, ...]
    next_at: datetime | None


class ScheduleReads:
    """Questions; none of them changes anything, but for ``rebuild``."""

    def __init__(self, setting: Setting, calendar: Calendar) -> None:
        """Read in this setting's namespace, by this calendar."""
        self._setting, self._calendar = setting, calendar

    def get(self, name: str, *, at: int | datetime | None = None) -> ScheduleStatus:
        """A schedule now, or as it was at a sequence or an instant (then also one that was removed since).

        Raises:
            UnknownScheduleError: it was never put, or is removed.
            UnknownSequenceError: its history does not reach there.
        """
        with self._setting.storage.reading() as reader:
            loaded = self._loaded(reader, name, with_removed=at is not None)
            state = loaded.state
            if at is None:
                return schedule_status_of(state, loaded.head)
            if isinstance(at, datetime):
                at = sequence_at(reader, state.stream, state.sequence, require_instant("at", at))
            if type(at) is not int or not 1 <= at <= state.sequence:
                raise UnknownSequenceError(state.stream, at, state.sequence)
            then = schedule_at(reader, state.namespace, state.name, at)
            [last] = reader.records(state.stream, after=at - 1, upto=at, limit=1)
            return schedule_status_of(then, last.digest)

    def list(self, *, owner: str | None = None, after: str | None = None, limit: int = 100) -> SchedulePage:
        """Schedules by name, of one owner or of all, from behind ``after``; at most ``PAGE_MAX``."""
        size = min(require_integer("limit", limit, 1, INTEGER_MAX), PAGE_MAX)
        behind = "" if after is None else require_text("after", after, empty=True)
        wanted = None if owner is None else require_text("owner", owner)
        namespace = self._setting.namespace
        page: Statuses = []
        with self._setting.storage.reading() as reader:
            step = size + 1 if wanted is None else PAGE_MAX
            while names := reader.schedule_names(namespace, after=behind, limit=step, with_removed=False):
                found = reader.schedules(namespace, names)
                for each in (found[name] for name in names if name in found):
                    if wanted not in (None, each.state.definition.owner):
                        continue
                    if len(page) == size:
                        return SchedulePage(tuple(page), page[-1].name)
                    page.append(schedule_status_of(each.state, each.head))
                if names[-1] <= behind:  # somebody wrote a name that no order holds: it would be found again for ever
                    raise HistoryCorruptError(schedule_stream(namespace, names[-1]), 0, "its name cannot be read")
                behind = names[-1]
        return SchedulePage(tuple(page), None)

    def upcoming(self, schedule: str | Schedule, n: int = 5) -> tuple[datetime, ...]:
        """The next ``n`` instants in UTC (at most 1,000): of a schedule by its name, or of one that is not put yet.

        A held schedule fires none of them before it is released, and those that have passed by then never.

        Raises:
            UnknownScheduleError: it was never put, or is removed.
            InvalidRequestError: the schedule that was given cannot be put.
        """
        require_integer("n", n, 1, UPCOMING_MAX)
        with self._setting.storage.reading() as reader:
            if isinstance(schedule, Schedule):
                return tuple(islice(instants(define(schedule, self._calendar), self._calendar, reader.now()), n))
            state = self._loaded(reader, schedule).state
        if state.next_at is None:
            return ()
        return tuple(islice(chain([state.next_at], instants(state.definition, self._calendar, state.next_at)), n))

    def compare(self, schedule: Schedule) -> ScheduleDifference:
        """What putting this schedule would do now; nothing is changed.

        Raises:
            InvalidRequestError, UnstorableValueError, PayloadTooLargeError: it cannot be put.
        """
        definition = define(schedule, self._calendar)
        with self._setting.storage.reading() as reader:
            loaded = reader.schedules(self._setting.namespace, [schedule.name]).get(schedule.name)
            now = reader.now()
        state = loaded.state if loaded else None
        if state is not None and not state.is_removed and state.definition.is_same(definition):
            return ScheduleDifference(schedule.name, "keep", (), state.next_at)
        name, namespace = schedule.name, self._setting.namespace
        facts = put(state, definition, self._calendar, namespace=namespace, name=name, by=schedule.owner, now=now)
        [next_at] = [fact.next_at for fact in facts if isinstance(fact, ScheduleCreated | ScheduleChanged)]
        if state is None or state.is_removed:
            return ScheduleDifference(name, "create", (), next_at)
        return ScheduleDifference(name, "change", _differing(state.definition, definition), next_at)

    def events(self, name: str, *, after: int = 0, limit: int = 100) -> ScheduleWindow:
        """A slice of a schedule's events behind ``after``, also of one that was removed.

        Raises:
            UnknownScheduleError: it was never put.
            UnknownSequenceError: ``after`` lies beyond its head.
        """
        require_integer("after", after, 0, INTEGER_MAX)
        size = min(require_integer("limit", limit, 1, INTEGER_MAX), PAGE_MAX)
        with self._setting.storage.reading() as reader:
            state = self._loaded(reader, name, with_removed=True).state
            if after > state.sequence:
                raise UnknownSequenceError(state.stream, after, state.sequence)
            found = tuple(read(stored) for stored in reader.records(state.stream, after=after, limit=size))
        return ScheduleWindow(found, found[-1].sequence if found else after, state.sequence)

    def history(self, name: str) -> Iterator[RecordedEvent]:
        """Every event of a schedule from the first on, streamed in pages, also of one that was removed.

        Raises:
            UnknownScheduleError: it was never put.
            HistoryCorruptError: an event is missing or cannot be read.
        """
        with self._setting.storage.reading() as reader:
            state = self._loaded(reader, name, with_removed=True).state
        return self._streamed(state.stream, state.sequence)

    def _streamed(self, stream: str, head: int) -> Iterator[RecordedEvent]:
        after = 0
        while after < head:
            with self._setting.storage.reading() as reader:
                page = tuple(recorded(reader, stream, after=after, upto=min(head, after + PAGE)))
            if not page:
                return
            after = page[-1].sequence
            yield from page

    def verify(self, name: str) -> Verification:
        """Check a schedule's whole history, its row and its jobs, also of one that was removed; it answers.

        Raises:
            UnknownScheduleError: it was never put.
        """
        stream = schedule_stream(self._setting.namespace, require_schedule_name(name))
        with self._setting.storage.reading() as reader:
            if not reader.records(stream, limit=1):
                raise UnknownScheduleError(name)
            return audit.verify(reader, stream)

    def rebuild(self) -> tuple[str, ...]:
        """Refold every schedule's row from its events; answers the names of those that differed and were mended.

        Raises:
            HistoryCorruptError: a history cannot be folded; verify it.
        """
        namespace, after = self._setting.namespace, ""
        mended: Names = []
        while True:
            with self._setting.storage.reading() as reader:
                names = reader.schedule_names(namespace, after=after, limit=PAGE, with_removed=True)
            if not names:
                return tuple(mended)
            after = names[-1]
            mended += [name for name in names if self._rebuild(name)]

    def _rebuild(self, name: str) -> bool:
        namespace = self._setting.namespace
        with self._setting.storage.writing(self._setting.patience) as session:
            snapshots: States = []
            state, head = None, ""
            for event in recorded(session, schedule_stream(namespace, name)):
                state, head = advance_schedule(state, event), event.digest
                if state.sequence % SNAPSHOT_EVERY == 0:
                    snapshots.append(state)
            if state is None:
                raise HistoryCorruptError(schedule_stream(namespace, name), 0, "the schedule has no events")
            if _stands(session, state, head) and _are_kept(session, state, snapshots):
                return False
            session.rewrite_schedule(state, head, snapshots)
            return True

    def _loaded(self, reader: Reader, name: str, *, with_removed: bool = False) -> LoadedSchedule:
        require_schedule_name(name)
        loaded = reader.schedules(self._setting.namespace, [name]).get(name)
        if loaded is None or (loaded.state.is_removed and not with_removed):
            raise UnknownScheduleError(name)
        return loaded


def _are_kept(reader: Reader, state: ScheduleState, snapshots: States) -> bool:
    """Whether these states, and none between them, are kept for time travel."""
    behind = [snapshot.sequence - 1 for snapshot in snapshots[1:]] + [state.sequence]
    first = snapshots[0].sequence - 1 if snapshots else state.sequence
    try:
        found = [reader.schedule_snapshot(state.namespace, state.name, upto) for upto in [first, *behind]]
    except HistoryCorruptError:
        return False
    return found == [None, *snapshots] if snapshots else found == [None, None]


def _differing(one: Definition, other: Definition) -> tuple[str, ...]:
    """The names of the fields in which two definitions differ."""
    names = [field.name for field in fields(one) if getattr(one, field.name) != getattr(other, field.name)]
    if "payload" not in names and not one.payload.is_same(other.payload):
        names.append("payload")
    return tuple(sorted(names))


def schedule_at(reader: Reader, namespace: str, name: str, sequence: int) -> ScheduleState:
    """The state of a schedule at one of its sequences: from the nearest kept state, then fact by fact.

    Raises:
        HistoryCorruptError: the events up to there are not whole.
    """
    stream = schedule_stream(namespace, name)
    state = reader.schedule_snapshot(namespace, name, sequence)
    for event in recorded(reader, stream, after=state.sequence if state else 0, upto=sequence):
        state = advance_schedule(state, event)
    if state is None or state.sequence != sequence:
        raise HistoryCorruptError(stream, sequence, "the event is missing")
    return state


def _stands(reader: Reader, state: ScheduleState, head: str) -> bool:
    """Whether the row says what the events fold to."""
    try:
        loaded = reader.schedules(state.namespace, [state.name]).get(state.name)
    except HistoryCorruptError:
        return False
    is_folded = loaded is not None and (loaded.state, loaded.head) == (state, head)
    return is_folded and reader.is_schedule_found_by(state, head)
