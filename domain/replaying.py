"""Reading a history back through a port: whole, or the state as of a sequence or an instant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from pydantic_core import from_json

from jobledger.domain.answers import Dropped
from jobledger.domain.errors import HistoryCorruptError, UnknownSequenceError
from jobledger.domain.events import JobEvent
from jobledger.domain.history import RecordedEvent, read
from jobledger.domain.job import Job, evolve
from jobledger.domain.values import Body, Json, is_body

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from jobledger.domain.ports import Reader

PAGE: Final = 500


def recorded(reader: Reader, stream: str, *, after: int = 0, upto: int | None = None) -> Iterator[RecordedEvent]:
    """Every event of a stream in order, read in pages.

    Raises:
        HistoryCorruptError: a record is missing, unknown, or cannot be read.
    """
    while upto is None or after < upto:
        page = reader.records(stream, after=after, upto=upto, limit=PAGE)
        for stored in page:
            if stored.sequence != after + 1:
                raise HistoryCorruptError(stream, after + 1, "the event is missing")
            after = stored.sequence
            yield read(stored)
        if len(page) < PAGE:
            return


def state_at(reader: Reader, job_id: str, sequence: int) -> Job:
    """The state of a job at one of its sequences: from the nearest kept state, then fact by fact.

    Raises:
        HistoryCorruptError: the events up to there are not whole.
    """
    job = reader.snapshot(job_id, sequence)
    start = job.sequence if job else 0
    for event in recorded(reader, job_id, after=start, upto=sequence):
        job = advance(job, event)
    if job is None or job.sequence != sequence:
        raise HistoryCorruptError(job_id, sequence, "the event is missing")
    return job


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
    """
    low, high = 0, head
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
