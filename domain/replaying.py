"""Reading a history back through a port: whole, or the state as of a sequence or an instant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from pydantic_core import from_json

from jobledger.domain.answers import Dropped
from jobledger.domain.errors import HistoryArchivedError, HistoryCorruptError, UnknownSequenceError
from jobledger.domain.events import Archived, JobEvent
from jobledger.domain.history import TOPIC_OF, RecordedEvent, read
from jobledger.domain.job import Job, evolve, state_before
from jobledger.domain.values import Body, Json, is_body

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from jobledger.domain.ports import Reader

PAGE: Final = 500


def recorded(reader: Reader, stream: str, *, after: int = 0, upto: int | None = None) -> Iterator[RecordedEvent]:
    """Every event of a stream in order, read in pages; where some were archived, from the one that stands for them on.

    Raises:
        HistoryCorruptError: a record is missing, unknown, or cannot be read.
    """
    is_start = after == 0
    while upto is None or after < upto:
        page = reader.records(stream, after=after, upto=upto, limit=PAGE)
        for stored in page:
            event = read(stored)
            if stored.sequence != after + 1 and not (is_start and stands_for_others(event)):
                raise HistoryCorruptError(stream, after + 1, "the event is missing")
            after, is_start = stored.sequence, False
            yield event
        if len(page) < PAGE:
            return


def stands_for_others(event: RecordedEvent) -> bool:
    """Whether an event stands for all before it, which were archived."""
    return isinstance(event.event, Archived) and event.event.state is not None


def boundary(reader: Reader, stream: str) -> RecordedEvent | None:
    """The event that stands for a job's archived ones; ``None`` where its history is whole from its first event on.

    Raises:
        HistoryCorruptError: its first record cannot be read.
    """
    first = reader.records(stream, limit=1)
    if not first or first[0].topic != TOPIC_OF[Archived]:
        return None
    event = read(first[0])
    return event if stands_for_others(event) else None


def require_kept(reader: Reader, job: Job, sequence: int = 1) -> None:
    """Require that a job's events from a sequence on are still in the store.

    Raises:
        HistoryArchivedError: it lies before the event that stands for the archived ones.
    """
    if sequence < job.archived and (event := boundary(reader, job.id)) is not None:
        raise _archived(event)


def _archived(event: RecordedEvent) -> HistoryArchivedError:
    return HistoryArchivedError(event.stream, event.sequence, getattr(event.event, "place", ""))


def state_at(reader: Reader, job_id: str, sequence: int) -> Job:
    """The state of a job at one of its sequences: from the nearest kept state, then fact by fact.

    Raises:
        HistoryArchivedError: the events up to there were archived, and a later one stands for them.
        HistoryCorruptError: the events up to there are not whole.
    """
    job = reader.snapshot(job_id, sequence)
    start = job.sequence if job else 0
    if job is None and (event := boundary(reader, job_id)) is not None and sequence < event.sequence:
        if sequence < event.sequence - 1:
            raise _archived(event)
        return state_behind(event)
    for event in recorded(reader, job_id, after=start, upto=sequence):
        job = advance(job, event)
    if job is None or job.sequence != sequence:
        raise HistoryCorruptError(job_id, sequence, "the event is missing")
    return job


def state_behind(event: RecordedEvent) -> Job:
    """What the events folded to that were archived behind one that stands for them.

    Raises:
        HistoryCorruptError: it holds no such state.
    """
    try:
        job = state_before(cast("Archived", event.event))
    except LookupError as error:
        raise HistoryCorruptError(event.stream, event.sequence, str(error)) from error
    if job is None:
        raise HistoryCorruptError(event.stream, event.sequence, "it does not stand for the events before it")
    return job


def head_at(reader: Reader, job_id: str, sequence: int) -> str:
    """The digest of a job's event at a sequence.

    Raises:
        HistoryCorruptError: there is none.
    """
    if stored := reader.records(job_id, after=sequence - 1, upto=sequence, limit=1):
        return stored[0].digest
    if (event := boundary(reader, job_id)) is not None and event.sequence == sequence + 1:
        return event.previous
    raise HistoryCorruptError(job_id, sequence, "the event is missing")


def advance(job: Job | None, event: RecordedEvent) -> Job:
    """Fold one recorded event.

    Raises:
        HistoryCorruptError: it cannot follow the state.
    """
    try:
        return evolve(job, cast("JobEvent", event.event))
    except (LookupError, AssertionError) as error:
        raise HistoryCorruptError(event.stream, event.sequence, str(error)) from error


def sequence_at(reader: Reader, stream: str, head: int, instant: datetime) -> int:
    """The last sequence at or before an instant, found by halving (times never decrease within a stream).

    Raises:
        UnknownSequenceError: its first event came later.
        HistoryArchivedError: the event of that instant was archived.
    """
    low, high = 0, head
    if (event := boundary(reader, stream)) is not None:
        low = event.sequence - 1
        if instant < state_behind(event).updated_at:
            raise _archived(event)
    while low < high:
        middle = (low + high + 1) // 2
        stored = reader.records(stream, after=middle - 1, upto=middle, limit=1)
        if not stored:
            raise HistoryCorruptError(stream, middle, "the event is missing")
        if read(stored[0]).at <= instant:
            low = middle
        else:
            high = middle - 1
    if low == 0:
        raise UnknownSequenceError(stream, f"and none by {instant.isoformat()}", head)
    return low


def value_of(reader: Reader, job_id: str, body: Body | None) -> Json:
    """The value that a body stands for; ``Dropped`` where its bytes are not retained any more.

    Raises:
        HistoryCorruptError: the bytes kept aside are not those of the digest.
    """
    if body is None or not body.digest:
        return body and body.value
    encoded = reader.body(job_id, body.digest)
    if encoded is None:
        return Dropped(body.digest, body.size)
    if not is_body(body.digest, encoded):
        raise HistoryCorruptError(job_id, 0, f"the bytes kept aside under {body.digest} are not the ones recorded")
    return from_json(encoded)
