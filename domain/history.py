"""How facts are recorded: topics in a closed registry, upcasting, and the digest chain over the stored bytes.

A record is one JSON object: its shape's version, the digest of the record before it, the command that caused it, and
the event. Nothing stored ever names a module; an unknown topic stops its job.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from pydantic import TypeAdapter
from pydantic_core import to_json

from jobledger.domain import events, queue_events, schedule_events
from jobledger.domain.errors import HistoryCorruptError
from jobledger.domain.events import STORED_SHAPE, Event
from jobledger.domain.values import sha256_hex

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

AnyEvent = TypeVar("AnyEvent", bound=Event)

TOPICS: Final[Mapping[str, type[Event]]] = {
    "job.created": events.Created,
    "job.claimed": events.Claimed,
    "job.lease_renewed_late": events.LeaseRenewedLate,
    "job.checkpointed": events.Checkpointed,
    "job.unit_recorded": events.UnitRecorded,
    "job.progress_reported": events.ProgressReported,
    "job.interrupted": events.Interrupted,
    "job.attempt_failed": events.AttemptFailed,
    "job.paused": events.Paused,
    "job.hold_placed": events.HoldPlaced,
    "job.hold_released": events.HoldReleased,
    "job.resumed": events.Resumed,
    "job.retry_requested": events.RetryRequested,
    "job.cancel_requested": events.CancelRequested,
    "job.cancelled": events.Cancelled,
    "job.completed": events.Completed,
    "job.archived": events.Archived,
    "job.erased": events.Erased,
    "group.epoch_advanced": events.EpochAdvanced,
    "schedule.created": schedule_events.ScheduleCreated,
    "schedule.changed": schedule_events.ScheduleChanged,
    "schedule.held": schedule_events.ScheduleHeld,
    "schedule.released": schedule_events.ScheduleReleased,
    "schedule.fired": schedule_events.ScheduleFired,
    "schedule.skipped": schedule_events.ScheduleSkipped,
    "schedule.removed": schedule_events.ScheduleRemoved,
    "queue.limited": queue_events.QueueLimited,
    "queue.held": queue_events.QueueHeld,
    "queue.released": queue_events.QueueReleased,
}
"""Every topic that may stand in a store. A topic never changes and is never used again for something else."""

TOPIC_OF: Final[Mapping[type[Event], str]] = {event: topic for topic, event in TOPICS.items()}

UPCASTERS: Final[dict[tuple[str, int], Callable[[dict[str, Any]], dict[str, Any]]]] = {}
"""``(topic, version)`` to the function that makes an event's fields of that version into those of the next."""


@dataclass(frozen=True, slots=True)
class Cause:
    """The command that caused an event: its id, its name, and the digest of its arguments."""

    __pydantic_config__: ClassVar[Any] = STORED_SHAPE
    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One event as it is stored: its place, its topic, its exact bytes, and the command id that finds it again."""

    stream: str
    sequence: int
    topic: str
    state: bytes
    command_id: str | None = None

    @property
    def digest(self) -> str:
        """The digest over place, topic and stored bytes; the next record carries it."""
        return sha256_hex(self.stream.encode(), str(self.sequence).encode(), self.topic.encode(), self.state)


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """One fact of a history, as it was read back: what happened, where in the stream, caused by what, chained how."""

    stream: str
    sequence: int
    topic: str
    event: Event
    cause: Cause | None
    previous: str
    digest: str

    @property
    def job_id(self) -> str:
        """The job whose history this is."""
        return self.stream

    @property
    def at(self) -> datetime:
        """When it happened, by the store's clock."""
        return self.event.at

    @property
    def name(self) -> str:
        """The event's class name, for people."""
        return type(self.event).__name__

    @property
    def generation(self) -> int | None:
        """The generation that the event belongs to, if any."""
        return getattr(self.event, "generation", None)

    @property
    def command_id(self) -> str | None:
        """The id of the command that caused it."""
        return self.cause.id if self.cause else None

    @property
    def data(self) -> dict[str, Any]:
        """The event's own fields as plain JSON values."""
        fields: dict[str, Any] = _reader(self.topic).dump_python(_Envelope(event=self.event), mode="json")["event"]
        return fields


@dataclass(slots=True, kw_only=True)
class _Envelope(Generic[AnyEvent]):
    """The stored shape of a record."""

    __pydantic_config__: ClassVar[Any] = STORED_SHAPE
    version: int = 1
    previous: str = ""
    cause: Cause | None = None
    event: AnyEvent


_OBJECT: Final = TypeAdapter(dict[str, Any])


@cache
def _reader(topic: str) -> TypeAdapter[_Envelope[Any]]:
    shape: Any = _Envelope
    return TypeAdapter(shape[TOPICS[topic]])


@cache
def version_of(topic: str) -> int:
    """The version of a topic's current shape: one more than the upcasters that lead to it."""
    return 1 + sum(1 for upcast_topic, _ in UPCASTERS if upcast_topic == topic)


def record(stream: str, sequence: int, event: Event, *, previous: str, cause: Cause | None) -> StoredRecord:
    """Encode one fact; ``previous`` is the digest of the record before it, empty for the first."""
    topic = TOPIC_OF[type(event)]
    envelope = _Envelope(version=version_of(topic), previous=previous, cause=cause, event=event)
    state = _reader(topic).serializer.to_json(envelope, exclude_defaults=True)
    return StoredRecord(stream, sequence, topic, state, cause.id if cause else None)


def record_all(
    stream: str, after: int, facts: Sequence[Any], *, previous: str, cause: Cause | None
) -> tuple[StoredRecord, ...]:
    """Encode the facts of one command, chained to what came before and to each other."""
    records: list[StoredRecord] = []
    for sequence, event in enumerate(facts, start=after + 1):
        if records:
            previous = records[-1].digest
        records.append(record(stream, sequence, event, previous=previous, cause=cause))
    return tuple(records)


def read(stored: StoredRecord) -> RecordedEvent:
    """Decode one stored record; older shapes are upcast, unknown ones stop the job.

    Raises:
        HistoryCorruptError: an unknown topic or version, or bytes that are no such event. Nothing is ever imported.
    """
    if stored.topic not in TOPICS:
        raise HistoryCorruptError(stored.stream, stored.sequence, f"unknown topic {stored.topic!r}")
    reader = _reader(stored.topic)
    try:
        envelope = reader.validator.validate_json(_upcast(stored))
    except Exception as error:  # whatever a parser or an upcaster makes of such bytes, the job stops
        problem = f"its bytes are no {stored.topic!r} event ({type(error).__name__})"
        raise HistoryCorruptError(stored.stream, stored.sequence, problem) from error
    if envelope.version != version_of(stored.topic):
        problem = f"it is a {stored.topic!r} event of version {envelope.version}, which nobody knows"
        raise HistoryCorruptError(stored.stream, stored.sequence, problem)
    return RecordedEvent(
        stored.stream, stored.sequence, stored.topic, envelope.event, envelope.cause, envelope.previous, stored.digest
    )


def _upcast(stored: StoredRecord) -> bytes:
    """The bytes in the current shape; those of the current version are passed through untouched."""
    current = version_of(stored.topic)
    if current == 1:
        return stored.state
    fields: dict[str, Any] = _OBJECT.validate_json(stored.state)
    version = fields.get("version", 1)
    if type(version) is not int or not 1 <= version <= current or not isinstance(fields.get("event"), dict):
        msg = "no record of a known version"
        raise ValueError(msg)
    while version < current:
        fields["event"] = UPCASTERS[stored.topic, version](fields["event"])
        version += 1
    return to_json(fields | {"version": version})
