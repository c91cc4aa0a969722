"""A job's history as sentences: who did what, when, under which fence, and how long each wait was."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from jobledger.domain import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jobledger.domain.history import RecordedEvent
    from jobledger.domain.values import Body


@dataclass(frozen=True, slots=True)
class Sentence:
    """One thing that happened: its sequence (and the last one, where several are told as one), when, who, and what.

    ``since`` is the time since the sentence before it; ``fence`` is generation, group and epoch while one is open.
    """

    sequence: int
    last: int
    at: datetime
    name: str
    who: str
    text: str
    fence: str
    since: timedelta


@dataclass(slots=True)
class _Course:
    """What has to be known to tell the next event."""

    created: datetime | None = None
    claim: events.Claimed | None = None
    waiting_since: datetime | None = None
    held_since: datetime | None = None
    worked: timedelta = timedelta(0)
    attempts: int = 0
    before: datetime | None = None
    reports: list[RecordedEvent] = field(default_factory=list["RecordedEvent"])


def story(history: Iterable[RecordedEvent]) -> Iterator[Sentence]:
    """Tell a history event by event; reports of progress that follow each other are told as one."""
    course = _Course()
    for recorded in history:
        if isinstance(recorded.event, events.ProgressReported):
            course.reports.append(recorded)
            continue
        if course.reports:
            yield _reported(course)
        yield _told(course, recorded)
    if course.reports:
        yield _reported(course)


def _reported(course: _Course) -> Sentence:
    reports, course.reports = course.reports, []
    last = reports[-1].event
    text = "reported its progress"
    if isinstance(last, events.ProgressReported):
        amount = f"{last.done:g}" + (f" of {last.total:g}" if last.total is not None else "")
        text = f"reported {amount}" + (f": {last.message}" if last.message else "")
    if len(reports) > 1:
        text += f" (the last of {len(reports):,} reports)"
    return _sentence(course, reports[0], reports[-1], _worker(course), text)


def _told(course: _Course, recorded: RecordedEvent) -> Sentence:
    event = recorded.event
    for kind, tell in TELLING.items():
        if isinstance(event, kind):
            fence = _fence(course)
            who, text = tell(course, event)
            sentence = _sentence(course, recorded, recorded, who, text, fence=fence)
            _go_on(course, event)
            return sentence
    msg = f"nobody knows how to tell a {recorded.name}"
    raise LookupError(msg)


def _sentence(
    course: _Course, first: RecordedEvent, last: RecordedEvent, who: str, text: str, *, fence: str | None = None
) -> Sentence:
    since = last.at - (course.before or last.at)
    course.before = last.at
    told = _fence(course) if fence is None else fence
    if isinstance(first.event, events.Claimed):
        told = f"generation {first.event.generation}, group {first.event.group}, epoch {first.event.epoch}"
    return Sentence(first.sequence, last.sequence, last.at, last.name, who, text, told, since)


def _go_on(course: _Course, event: events.Event) -> None:
    """Remember what the events after this one are told from."""
    match event:
        case events.Created():
            course.created = course.waiting_since = event.at
        case events.Claimed():
            course.claim, course.waiting_since = event, None
            course.attempts += 1
        case events.HoldPlaced():
            course.held_since = event.at
        case events.HoldReleased():
            course.held_since = None
        case _:
            if isinstance(event, ENDS) and course.claim is not None:
                course.worked += event.at - course.claim.at
                course.claim, course.waiting_since = None, event.at


ENDS: Final = (events.Interrupted, events.AttemptFailed, events.Paused, events.Cancelled, events.Completed)


def _worker(course: _Course) -> str:
    return course.claim.worker if course.claim is not None else "a worker"


def _fence(course: _Course) -> str:
    claim = course.claim
    return f"generation {claim.generation}, group {claim.group}, epoch {claim.epoch}" if claim is not None else ""


# How each kind of event is told ---------------------------------------------------------------------------------------


def _created(_: _Course, event: events.Created) -> tuple[str, str]:
    text = f"created it: kind {event.kind}" + (f", key {event.key}" if event.key is not None else "")
    if event.origin is not None:
        text += f", a {event.origin.how} of {event.origin.of} at {event.origin.sequence} ({event.origin.reason})"
    if event.ready_at > event.at:
        text += f", due in {lasted(event.ready_at - event.at)}"
    return event.owner, text


def _claimed(course: _Course, event: events.Claimed) -> tuple[str, str]:
    text = f"took it under a lease of {lasted(event.lease)}"
    if course.waiting_since is not None:
        text += f", after a wait of {lasted(event.at - course.waiting_since)}"
    return event.worker, text if event.respects_hold else f"{text}, whatever operators hold"


def _renewed_late(course: _Course, event: events.LeaseRenewedLate) -> tuple[str, str]:
    return _worker(course), f"renewed its lease {lasted(event.late_by)} late; nobody had taken over"


def _checkpointed(course: _Course, event: events.Checkpointed) -> tuple[str, str]:
    return _worker(course), f"saved a checkpoint of {_size(event.state)}{_effects(event.effects)}"


def _unit(course: _Course, event: events.UnitRecorded) -> tuple[str, str]:
    return _worker(course), f"recorded unit {event.unit} as done ({_size(event.receipt)})"


def _interrupted(course: _Course, event: events.Interrupted) -> tuple[str, str]:
    if event.cause == "epoch_advanced":
        return event.by, f"ended the attempt of {_worker(course)}: its group had moved on to another epoch"
    late = lasted(event.at - event.expires_at)
    return event.by, f"ended the attempt of {_worker(course)}: its lease had run out {late} before"


def _failed(course: _Course, event: events.AttemptFailed) -> tuple[str, str]:
    wait = lasted(event.retry_at - event.at)
    return _worker(course), f"failed{_after(course, event)}: {event.error} (to be tried again in {wait})"


def _paused(course: _Course, event: events.Paused) -> tuple[str, str]:
    why = {"hold": "for the hold", "drain": "because its host drained", "deferred": "until later"}[event.cause]
    text = f"stopped at a boundary {why}{_after(course, event)}"
    return _worker(
        course
    ), text if event.ready_at <= event.at else f"{text}, due in {lasted(event.ready_at - event.at)}"


def _held(_: _Course, event: events.HoldPlaced) -> tuple[str, str]:
    return event.by, f"held it: {event.reason}"


def _released(course: _Course, event: events.HoldReleased) -> tuple[str, str]:
    after = f" after {lasted(event.at - course.held_since)}" if course.held_since is not None else ""
    return event.by, f"released the hold{after}: {event.reason}"


def _cancelled(course: _Course, event: events.Cancelled) -> tuple[str, str]:
    at = f" with {event.units:,} units done" if event.units else ""
    if event.generation is None:
        return event.by, f"cancelled it{at}: {event.reason}{_in_all(course, event)}"
    return _worker(course), f"stopped for {event.by}'s cancel request{at}: {event.reason}{_in_all(course, event)}"


def _completed(course: _Course, event: events.Completed) -> tuple[str, str]:
    text = f"ended it as {event.outcome}{_after(course, event)}"
    if event.error is not None:
        text += f": {event.error}"
    return _worker(course), f"{text}{_effects(event.effects)}{_in_all(course, event)}"


TELLING: Final[dict[type[events.Event], Callable[[_Course, Any], tuple[str, str]]]] = {
    events.Created: _created,
    events.Claimed: _claimed,
    events.LeaseRenewedLate: _renewed_late,
    events.Checkpointed: _checkpointed,
    events.UnitRecorded: _unit,
    events.Interrupted: _interrupted,
    events.AttemptFailed: _failed,
    events.Paused: _paused,
    events.HoldPlaced: _held,
    events.HoldReleased: _released,
    events.Resumed: lambda _, event: (event.by, f"put it back into its queue: {event.reason}"),
    events.RetryRequested: lambda _, event: (event.by, f"made it due at once, with a new budget: {event.reason}"),
    events.CancelRequested: lambda _, event: (event.by, f"asked the attempt to stop for good: {event.reason}"),
    events.Cancelled: _cancelled,
    events.Completed: _completed,
    events.Archived: lambda _, event: (event.by, f"archived the events before this one {_place(event)}"),
    events.Erased: lambda _, event: (event.by, f"erased {len(event.digests):,} bodies: {event.reason}"),
}
"""How each kind of event is told: who, and what."""


def _place(event: events.Archived) -> str:
    return f"to {event.place}" if event.place else "without a copy"


def _after(course: _Course, event: events.Event) -> str:
    return f" after {lasted(event.at - course.claim.at)} of work" if course.claim is not None else ""


def _in_all(course: _Course, event: events.Event) -> str:
    if course.created is None or not course.attempts:
        return ""
    worked = course.worked + (event.at - course.claim.at if course.claim is not None else timedelta(0))
    attempts = f"{course.attempts} attempt{'s' * (course.attempts > 1)}"
    return f" (in all {lasted(event.at - course.created)}, of which {lasted(worked)} in {attempts})"


def _size(body: Body) -> str:
    return f"{body.size:,} byte{'s' * (body.size != 1)}"


def _effects(effects: tuple[events.AppliedEffect, ...]) -> str:
    return "".join(f", making resource {effect.resource} version {effect.version}" for effect in effects)


def lasted(span: timedelta) -> str:
    """A span for people, in its two largest units: ``3.2 s``, ``4 min 5 s``, ``2 h 1 min``, ``3 d 4 h``."""
    seconds = max(span.total_seconds(), 0.0)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:  # noqa: PLR2004  # a minute
        return f"{seconds:.1f} s".replace(".0 s", " s")
    whole = int(seconds)
    for (large, name), (small, part) in ((DAY, HOUR), (HOUR, MINUTE), (MINUTE, SECOND)):
        if whole >= large:
            rest = whole % large // small
            return f"{whole // large} {name}" + (f" {rest} {part}" if rest else "")
    return f"{whole} s"


DAY: Final = (86_400, "d")
HOUR: Final = (3_600, "h")
MINUTE: Final = (60, "min")
SECOND: Final = (1, "s")
