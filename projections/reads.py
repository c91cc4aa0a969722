"""Every question about jobs: status, windows, feed, lists, units, timeline, controls, verification."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from pydantic_core import from_json

from jobledger.domain import decisions
from jobledger.domain.answers import (
    Controls,
    JobStatus,
    Refusal,
    Resource,
    UnitReceipt,
    status_of,
)
from jobledger.domain.bounds import INTEGER_MAX, PAGE_MAX, require_instant, require_integer, require_text
from jobledger.domain.decisions.creating import job_id_of, require_sequence, require_terminal
from jobledger.domain.errors import (
    InvalidRequestError,
    JobledgerError,
    UnknownSequenceError,
)
from jobledger.domain.events import Archived
from jobledger.domain.history import TOPIC_OF, TOPICS, RecordedEvent, read
from jobledger.domain.job import Job, State
from jobledger.domain.lease import Standing
from jobledger.domain.ports import JobFilter, Loaded, Positioned, Reader
from jobledger.domain.replaying import head_at, require_kept, sequence_at, state_at, value_of
from jobledger.domain.store.executing import stand
from jobledger.projections.cursors import FEED, Cursors
from jobledger.projections.pages import COUNT_MAX, JobPage, UnitPage
from jobledger.projections.projected import ProjectionReads
from jobledger.projections.timeline import Timeline, timeline
from jobledger.projections.windows import EventWindow, Feed, FeedEntry, floor_of

ARCHIVED: Final = TOPIC_OF[Archived]

ANYBODY: Final = ""
"""An operator whom nobody can be: what is told is told to whoever asks."""


class JobReads(ProjectionReads):
    """Questions; none of them changes anything, but for ``rebuild``."""

    # One job ----------------------------------------------------------------------------------------------------------

    def status(self, job_id: str, *, at: int | datetime | None = None) -> JobStatus:
        """A job's status now, or as it was at a sequence or an instant.

        Raises:
            UnknownJobError: there is no such job in this namespace.
            UnknownSequenceError: the job's history does not reach there.
            HistoryArchivedError: the events of that moment were archived.
        """
        with self._setting.storage.reading() as reader:
            loaded = self._loaded(reader, job_id)
            if at is None:
                return shown(reader, loaded)
            if isinstance(at, datetime):
                at = sequence_at(reader, job_id, loaded.job.sequence, require_instant("at", at))
            return _status_at(reader, loaded.job, require_sequence(loaded.job, at))

    def find(self, owner: str, key: str) -> JobStatus | None:
        """The job that an owner's key made, or ``None``."""
        job_id = job_id_of(self._setting.namespace, require_text("owner", owner), require_text("key", key))
        with self._setting.storage.reading() as reader:
            loaded = reader.load([job_id]).get(job_id)
            return shown(reader, loaded) if loaded else None

    def events(self, job_id: str, *, after: int = 0, limit: int = 100) -> EventWindow:
        """A bounded slice of a job's events behind ``after``; a gap is answered with a snapshot, never silent.

        ``limit`` beyond the policy's ``window_events_max`` is clamped to it. The floor of an archived job is the event
        that stands for all before it.

        Raises:
            UnknownJobError: there is no such job in this namespace.
            UnknownSequenceError: ``after`` lies beyond the head.
        """
        require_integer("after", after, 0, INTEGER_MAX)
        require_integer("limit", limit, 1, INTEGER_MAX)
        with self._setting.storage.reading() as reader:
            job = self._loaded(reader, job_id).job
            if after > job.sequence:
                raise UnknownSequenceError(job_id, after, job.sequence, max(1, job.archived))
            floor = max(floor_of(job.sequence, job.policy), job.archived)
            snapshot = None
            if after < floor - 1:
                after = floor - 1
                snapshot = _status_at(reader, job, after)
            wanted = min(limit, job.policy.window_events_max)
            found = tuple(read(stored) for stored in reader.records(job_id, after=after, limit=wanted))
        last = found[-1].sequence if found else after
        return EventWindow(found, last, job.sequence, floor, snapshot)

    def history(self, job_id: str) -> Iterator[RecordedEvent]:
        """Every event of a job from the first on, streamed in pages.

        Raises:
            UnknownJobError: there is no such job in this namespace.
            HistoryArchivedError: its events were archived; ``events`` tells from where on they are here.
            HistoryCorruptError: an event is missing or cannot be read.
        """
        with self._setting.storage.reading() as reader:
            job = self._loaded(reader, job_id).job
            require_kept(reader, job)
        return self._streamed(job_id, job)

    def timeline(self, job_id: str) -> Timeline:
        """A job's attempts as spans, with checkpoints and units as marks.

        Raises:
            UnknownJobError: there is no such job in this namespace.
            HistoryArchivedError: its events were archived.
        """
        return timeline(job_id, self.history(job_id))

    def units(self, job_id: str, *, after: str | None = None, limit: int = 100) -> UnitPage:
        """A job's unit receipts by name, from behind ``after``; at most ``PAGE_MAX``.

        Raises:
            UnknownJobError: there is no such job in this namespace.
            HistoryArchivedError: its receipts went with its events.
        """
        wanted = min(require_integer("limit", limit, 1, INTEGER_MAX), PAGE_MAX)
        with self._setting.storage.reading() as reader:
            _require_receipts(reader, self._loaded(reader, job_id).job)
            rows = reader.units(job_id, after=_text("after", after), limit=wanted)
            found = tuple(
                UnitReceipt(row.unit, value_of(reader, job_id, row.receipt), row.generation, row.sequence)
                for row in rows
            )
        return UnitPage(found, found[-1].unit if len(found) == wanted else None)

    def unit(self, job_id: str, unit: str) -> UnitReceipt | None:
        """The receipt of one unit, or ``None``.

        Raises:
            UnknownJobError: there is no such job in this namespace.
            HistoryArchivedError: its receipts went with its events.
        """
        require_text("unit", unit)
        with self._setting.storage.reading() as reader:
            _require_receipts(reader, self._loaded(reader, job_id).job)
            row = reader.unit(job_id, unit)
            if row is None:
                return None
            return UnitReceipt(unit, value_of(reader, job_id, row.receipt), row.generation, row.sequence)

    def controls(self, job_id: str) -> Controls:
        """What may be asked of a job now, and why the rest may not: each command is tried, nothing is changed.

        Raises:
            UnknownJobError: there is no such job in this namespace.
        """
        with self._setting.storage.reading() as reader:
            loaded = self._loaded(reader, job_id)
            standing = stand(loaded, reader.now())
        available: list[str] = []
        unavailable: dict[str, Refusal] = {}
        for name, trial in TRIALS.items():
            try:
                trial(standing)
            except JobledgerError as refusal:
                unavailable[name] = Refusal(refusal.code, str(refusal))
            else:
                available.append(name)
        return Controls(loaded.job.controls, tuple(available), unavailable)

    # Many jobs --------------------------------------------------------------------------------------------------------

    def jobs(
        self,
        *,
        owner: str | None = None,
        kind: str | None = None,
        queue: str | None = None,
        state: State | str | None = None,
        label: str | tuple[str, str] | None = None,
        key_prefix: str | None = None,
        held: bool | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> JobPage:
        """Jobs that match every given filter, newest first; ``label`` is a name, or a name and a value.

        Raises:
            InvalidRequestError: an unknown state.
            UnknownCursorError: a cursor that no page of jobs of this store gave.
        """
        wanted = self._filter(
            owner=owner, kind=kind, queue=queue, state=state, label=label, key_prefix=key_prefix, held=held
        )
        size = min(require_integer("limit", limit, 1, INTEGER_MAX), PAGE_MAX)
        with self._setting.storage.reading() as reader:
            cursors = self._cursors(reader)
            before = None if cursor is None else cursors.position("jobs", cursor)
            found = reader.jobs(wanted, before=before, limit=size + 1)
            counted = reader.count(wanted, COUNT_MAX + 1)
            page = tuple(shown(reader, loaded) for loaded in found[:size])
        following = cursors.give_position("jobs", found[size - 1].position) if len(found) > size else None
        return JobPage(page, following, counted if counted <= COUNT_MAX else None, min(counted, COUNT_MAX))

    def _filter(
        self,
        *,
        owner: str | None = None,
        kind: str | None = None,
        queue: str | None = None,
        state: State | str | None = None,
        label: str | tuple[str, str] | None = None,
        key_prefix: str | None = None,
        held: bool | None = None,
    ) -> JobFilter:
        return JobFilter(
            namespace=self._setting.namespace,
            owner=_text("owner", owner),
            kind=_text("kind", kind),
            queue=_text("queue", queue),
            state=_state(state),
            label=_label(label),
            key_prefix=_text("key_prefix", key_prefix),
            is_held=held,
        )

    def counts(
        self, *, owner: str | None = None, queue: str | None = None, at_most: int | None = None
    ) -> Mapping[State, int]:
        """How many jobs stand in each state (every state is there, also with 0).

        They are exact, and take as long as there are jobs. With ``at_most`` none is counted further: that number then
        means "at least". ``totals`` has exact numbers at once, as of a place in the feed.
        """
        if at_most is not None:
            return self._counted(_text("owner", owner), _text("queue", queue), at_most)
        with self._setting.storage.reading() as reader:
            found = reader.counts(self._setting.namespace, _text("owner", owner), _text("queue", queue))
        return {state: found.get(state, 0) for state in State}

    def _counted(self, owner: str | None, queue: str | None, at_most: int) -> Mapping[State, int]:
        limit = require_integer("at_most", at_most, 1, INTEGER_MAX)
        with self._setting.storage.reading() as reader:
            return {
                state: reader.count(
                    JobFilter(namespace=self._setting.namespace, owner=owner, queue=queue, state=state), limit
                )
                for state in State
            }

    def feed(
        self, *, after: str | None = None, limit: int = 100, topics: Sequence[str] = (), owner: str | None = None
    ) -> Feed:
        """All jobs' events in position order behind a cursor; contiguous and resumable.

        Whatever topics are asked for, ``job.archived`` is among them: it stands for events of its job that may lie
        behind the cursor and are not in the store any more.

        Raises:
            InvalidRequestError: an unknown topic.
            UnknownCursorError: a cursor that the feed of this store did not give.
        """
        size = min(require_integer("limit", limit, 1, INTEGER_MAX), PAGE_MAX)
        for topic in topics:
            if topic not in TOPICS:
                raise InvalidRequestError("topics", f"there is no topic {topic!r}")
        whose = _text("owner", owner)
        topics = [*topics, ARCHIVED] if topics else ()
        with self._setting.storage.reading() as reader:
            cursors = self._cursors(reader)
            position = cursors.position(FEED, after)
            found, upto = reader.feed(self._setting.namespace, after=position, limit=size, topics=topics, owner=whose)
        return Feed(tuple(_entry(each, cursors) for each in found), cursors.give_position(FEED, upto))

    def feed_end(self) -> str:
        """The cursor at the end of the feed: whoever begins behind it is told of what comes from now on."""
        with self._setting.storage.reading() as reader:
            return self._cursors(reader).give_position(FEED, reader.log_end())

    def resource(self, owner: str, name: str) -> Resource | None:
        """A named resource of an owner; ``None``: absent (version 0)."""
        require_text("owner", owner)
        require_text("resource", name)
        with self._setting.storage.reading() as reader:
            row = reader.resource(self._setting.namespace, owner, name)
        if row is None:
            return None
        return Resource(row.name, from_json(row.value), row.version, row.job_id, row.generation)


def shown(reader: Reader, loaded: Loaded) -> JobStatus:
    """A job's status as it stands now; the expiry comes from the lease row."""
    expires_at = loaded.lease.expires_at if loaded.lease else None
    return _shown(reader, loaded.job, loaded.head, expires_at)


def _status_at(reader: Reader, job: Job, sequence: int) -> JobStatus:
    """The status at a sequence; the expiry is the last one that an event recorded."""
    then = state_at(reader, job.id, sequence)
    return _shown(reader, then, head_at(reader, job.id, sequence), None)


def _require_receipts(reader: Reader, job: Job) -> None:
    """Receipts are there as long as the events that recorded them; a job without any has none to miss."""
    if job.units:
        require_kept(reader, job)


def _shown(reader: Reader, job: Job, head: str, expires_at: datetime | None) -> JobStatus:
    return status_of(
        job, head=head, expires_at=expires_at, value_of=lambda job_id, body: value_of(reader, job_id, body)
    )


def _text(field: str, value: str | None) -> str | None:
    """A filter's text, checked as the value that it is compared with was; ``None``: no filter."""
    return None if value is None else require_text(field, value, empty=True)


def _label(label: str | tuple[str, str] | None) -> tuple[str, str | None] | None:
    if label is None or isinstance(label, str):
        return None if label is None else (require_text("label", label), None)
    if not isinstance(label, tuple) or len(label) != 2:  # noqa: PLR2004  # a name and a value
        raise InvalidRequestError("label", "a name, or a tuple of a name and a value, is needed")
    return require_text("label", label[0]), require_text("label", label[1], empty=True)


def _state(state: State | str | None) -> State | None:
    if state is None:
        return None
    try:
        return State(state)
    except ValueError:
        raise InvalidRequestError("state", f"one of {', '.join(State)} is needed, not {state!r}") from None


def _entry(found: Positioned, cursors: Cursors) -> FeedEntry:
    event = read(found.record)
    return FeedEntry(
        cursors.give_position(FEED, found.position),
        event.stream,
        event.sequence,
        event.topic,
        event.name,
        event.at,
        event.data,
    )


# What an operator may try, by name: each raises the refusal that the command itself would raise ----------------------


TRIALS: Final[dict[str, Callable[[Standing], object]]] = {
    "hold": lambda standing: decisions.hold(standing, by=ANYBODY, reason=ANYBODY),
    "release_hold": lambda standing: decisions.release_hold(standing, by=ANYBODY, reason=ANYBODY),
    "resume": lambda standing: decisions.resume(standing, by=ANYBODY, reason=ANYBODY),
    "request_cancel": lambda standing: decisions.request_cancel(standing, by=ANYBODY, reason=ANYBODY),
    "retry": lambda standing: decisions.retry(standing, by=ANYBODY, reason=ANYBODY),
    "recover": decisions.recover,
    "rerun": lambda standing: require_terminal(standing.job),
    "fork": lambda standing: standing,
}
