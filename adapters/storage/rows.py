"""How values stand in rows: the folded job and small bodies as JSON, instants as whole microseconds."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from jobledger.domain.errors import HistoryCorruptError
from jobledger.domain.job import Job
from jobledger.domain.lease import LeaseRow
from jobledger.domain.ports import GroupRow, ResourceRow
from jobledger.domain.values import Body, require_finite

_JOBS: Final = TypeAdapter(Job)
_BODIES: Final = TypeAdapter(Body)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def encode_job(job: Job) -> bytes:
    """The folded state as JSON; fields at their default are left out."""
    return _JOBS.serializer.to_json(job, exclude_defaults=True)


def decode_job(job_id: str, sequence: int, encoded: bytes) -> Job:
    """Read a folded state back.

    Raises:
        HistoryCorruptError: the bytes are no such state, or that of another job or sequence.
    """
    try:
        job: Job = _JOBS.validator.validate_json(encoded)
    except (ValidationError, ValueError) as error:
        problem = f"its kept state cannot be read ({type(error).__name__})"
        raise HistoryCorruptError(job_id, sequence, problem) from error
    if (job.id, job.sequence) != (job_id, sequence):
        raise HistoryCorruptError(job_id, sequence, f"its kept state is that of {job.id} at sequence {job.sequence}")
    return job


def encode_body(body: Body) -> bytes:
    """A stored value, or the digest of one that is kept aside, as JSON."""
    return _BODIES.dump_json(body, exclude_defaults=True)


def decode_body(job_id: str, sequence: int, encoded: bytes) -> Body:
    """Read a stored value back.

    Raises:
        HistoryCorruptError: the bytes are no such value.
    """
    try:
        body = _BODIES.validate_json(encoded)
    except (ValidationError, ValueError) as error:
        problem = f"a kept receipt cannot be read ({type(error).__name__})"
        raise HistoryCorruptError(job_id, sequence, problem) from error
    return body


def lease_row(job_id: str, generation: object, expires_at_us: object, step: object) -> LeaseRow:
    """Read the liveness of an open generation back.

    Raises:
        HistoryCorruptError: a column is no number, or no instant.
    """
    if type(generation) is int and type(expires_at_us) is int and type(step) is int:
        with suppress(OverflowError):
            return LeaseRow(generation, from_us(expires_at_us), step)
    raise HistoryCorruptError(job_id, 0, "its lease row cannot be read")


def group_row(stream: str, epoch: object, sequence: object, head: object) -> GroupRow:
    """Read a worker group back.

    Raises:
        HistoryCorruptError: a column is of another type than was written.
    """
    if type(epoch) is int and type(sequence) is int and type(head) is str:
        return GroupRow(epoch, sequence, head)
    raise HistoryCorruptError(stream, 0, "its row cannot be read")


def resource_row(name: str, value: object, version: object, job_id: object, generation: object) -> ResourceRow:
    """Read a named resource back.

    Raises:
        HistoryCorruptError: a column is of another type than was written, or the value is no JSON.
    """
    if type(value) is bytes and type(version) is int and type(job_id) is str and type(generation) is int:
        with suppress(ValueError):
            require_finite(from_json(value))
            return ResourceRow(name, value, version, job_id, generation)
    raise HistoryCorruptError(str(job_id), 0, f"the resource {name!r} that it wrote cannot be read")


def as_bytes(value: object) -> bytes:
    """What stands in a column of bytes; what somebody turned into something else is taken as its text."""
    return value if isinstance(value, bytes) else str(value).encode()


@lru_cache(maxsize=256)
def to_us(instant: datetime) -> int:
    """An aware instant as whole microseconds since 1970, exactly."""
    return (instant - _EPOCH) // _MICROSECOND


def from_us(microseconds: int) -> datetime:
    """The instant of so many microseconds since 1970, in UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)
