"""Histories over HTTP: events, windows, the feed, units, the timeline, and verifications."""

from __future__ import annotations

from functools import cache
from typing import Any, Self

from pydantic import TypeAdapter

from jobledger.adapters.wire.base import Instant, Json, Wire
from jobledger.adapters.wire.jobs import JobStatusOut
from jobledger.domain.answers import Resource, UnitReceipt
from jobledger.domain.history import TOPICS, Cause, RecordedEvent
from jobledger.projections.audit import Verification
from jobledger.projections.pages import UnitPage
from jobledger.projections.rules import Problem
from jobledger.projections.timeline import AttemptSpan, Mark, Timeline, WaitSpan
from jobledger.projections.windows import EventWindow, Feed, FeedEntry


class CauseOut(Wire):
    """The command that caused an event: its id, its name, and the digest of its arguments."""

    id: str
    name: str
    arguments: str


class EventOut(Wire):
    """One event of a job; ``data`` holds the event's own fields, ``digest`` and ``previous`` chain it."""

    job_id: str
    sequence: int
    topic: str
    name: str
    generation: int | None
    at: Instant
    command_id: str | None
    cause: CauseOut | None
    previous: str
    digest: str
    data: dict[str, Json]

    def answer(self) -> RecordedEvent:
        """The event as the store gives it."""
        event = _event_reader(self.topic).validate_python(self.data, strict=False)
        cause = Cause(**dict(self.cause)) if self.cause else None
        return RecordedEvent(self.job_id, self.sequence, self.topic, event, cause, self.previous, self.digest)


@cache
def _event_reader(topic: str) -> TypeAdapter[Any]:
    return TypeAdapter(TOPICS[topic])


class EventWindowOut(Wire):
    """A bounded slice of a job's events.

    Where the cursor was older than ``floor``, ``snapshot`` is the status at ``floor - 1`` and the events start there.
    """

    events: list[EventOut]
    next_after: int
    head: int
    floor: int
    snapshot: JobStatusOut | None

    @classmethod
    def of(cls, value: object) -> Self:
        """A window as the store gives it."""
        window: Any = value
        return cls(
            events=[EventOut.of(event) for event in window.events],
            next_after=window.next_after,
            head=window.head,
            floor=window.floor,
            snapshot=JobStatusOut.of(window.snapshot) if window.snapshot else None,
        )

    def answer(self) -> EventWindow:
        """The window as the store gives it."""
        snapshot = self.snapshot.answer() if self.snapshot else None
        return EventWindow(
            tuple(event.answer() for event in self.events), self.next_after, self.head, self.floor, snapshot
        )


class FeedEntryOut(Wire):
    """One event in the feed of all jobs; ``cursor`` resumes right behind it."""

    cursor: str
    job_id: str
    sequence: int
    topic: str
    name: str
    at: Instant
    data: dict[str, Json]

    def answer(self) -> FeedEntry:
        """The entry as the store gives it."""
        return FeedEntry(**dict(self))


class FeedOut(Wire):
    """A contiguous slice of the feed; ``cursor`` resumes behind everything that was looked at."""

    entries: list[FeedEntryOut]
    cursor: str

    def answer(self) -> Feed:
        """The slice as the store gives it."""
        return Feed(tuple(entry.answer() for entry in self.entries), self.cursor)


class UnitReceiptOut(Wire):
    """The proof that a unit was done; ``reused``: it had been recorded before."""

    unit: str
    receipt: Json
    generation: int
    sequence: int
    reused: bool

    def answer(self) -> UnitReceipt:
        """The receipt as the store gives it."""
        return UnitReceipt(**dict(self))


class UnitPageOut(Wire):
    """Unit receipts by name; ``next_after`` is null on the last page."""

    units: list[UnitReceiptOut]
    next_after: str | None

    def answer(self) -> UnitPage:
        """The page as the store gives it."""
        return UnitPage(tuple(unit.answer() for unit in self.units), self.next_after)


class UnitOut(Wire):
    """The receipt of one unit, or null."""

    unit: UnitReceiptOut | None


class MarkOut(Wire):
    """Something that happened within an attempt: a checkpoint (no name) or a unit."""

    at: Instant
    sequence: int
    name: str


class AttemptOut(Wire):
    """One attempt: from its claim to the event that ended it (null: it is open)."""

    generation: int
    worker: str
    start: Instant
    end: Instant | None
    ended_by: str | None
    error: str | None
    checkpoints: list[MarkOut]
    units: list[MarkOut]

    def answer(self) -> AttemptSpan:
        """The span as the store gives it."""
        marks = {name: tuple(Mark(**dict(mark)) for mark in getattr(self, name)) for name in ("checkpoints", "units")}
        values: dict[str, Any] = dict(self)
        values.update(marks)
        return AttemptSpan(**values)


class WaitOut(Wire):
    """A time without an attempt: waiting, parked, held or backing_off."""

    state: str
    start: Instant
    end: Instant | None


class TimelineOut(Wire):
    """The whole course of a job as spans."""

    job_id: str
    created_at: Instant
    ended_at: Instant | None
    attempts: list[AttemptOut]
    waits: list[WaitOut]

    def answer(self) -> Timeline:
        """The timeline as the store gives it."""
        waits = tuple(WaitSpan(**dict(wait)) for wait in self.waits)
        attempts = tuple(attempt.answer() for attempt in self.attempts)
        return Timeline(self.job_id, self.created_at, self.ended_at, attempts, waits)


class ProblemOut(Wire):
    """One rule that a history breaks, at which sequence (0: in the rows beside it)."""

    sequence: int
    rule: str
    text: str


class VerificationOut(Wire):
    """Whether every digest, fence and rule of a history holds."""

    job_id: str
    events: int
    ok: bool
    problems: list[ProblemOut]

    def answer(self) -> Verification:
        """The verification as the store gives it."""
        problems = tuple(Problem(**dict(problem)) for problem in self.problems)
        return Verification(self.job_id, self.events, problems)


class ResourceOut(Wire):
    """A named resource that effects write: its value, its version (1 at first), and who wrote it last."""

    name: str
    value: Json
    version: int
    job_id: str
    generation: int

    def answer(self) -> Resource:
        """The resource as the store gives it."""
        return Resource(**dict(self))


class ResourceFoundOut(Wire):
    """A resource, or null where there is none (version 0)."""

    resource: ResourceOut | None
