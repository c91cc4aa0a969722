"""How values stand in rows: the folded job and small bodies as JSON, instants as whole microseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import TypeAdapter, ValidationError

from jobledger.domain.errors import HistoryCorruptError
from jobledger.domain.job import Job
from jobledger.domain.values import Body

_JOBS: Final = TypeAdapter(Job)
_BODIES: Final = TypeAdapter(Body)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def encode_job(job: Job) -> bytes:
    """The folded state as JSON; fields at their default are left out."""
    return _JOBS.dump_json(job, exclude_defaults=True)


def decode_job(job_id: str, sequence: int, encoded: bytes) -> Job:
    """Read a folded state back.

    Raises:
        HistoryCorruptError: the bytes are no such state, or that of another job or sequence.
    """
    try:
        job = _JOBS.validate_json(encoded)
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
        return _BODIES.validate_json(encoded)
    except (ValidationError, ValueError) as error:
        problem = f"a kept receipt cannot be read ({type(error).__name__})"
        raise HistoryCorruptError(job_id, sequence, problem) from error


def to_us(instant: datetime) -> int:
    """An aware instant as whole microseconds since 1970, exactly."""
    return (instant - _EPOCH) // _MICROSECOND


def from_us(microseconds: int) -> datetime:
    """The instant of so many microseconds since 1970, in UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)
