"""The rules that one event of a schedule's history can break, and what its row and its jobs have to say."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from jobledger.domain.decisions.creating import job_id_of
from jobledger.domain.errors import HistoryCorruptError, UnknownSequenceError
from jobledger.domain.history import read
from jobledger.domain.replaying import sequence_at
from jobledger.domain.schedule_events import (
    ScheduleChanged,
    ScheduleCreated,
    ScheduleFired,
    ScheduleHeld,
    ScheduleReleased,
    ScheduleRemoved,
    ScheduleSkipped,
)
from jobledger.domain.schedules.state import SNAPSHOT_EVERY, ScheduleState, advance_schedule, schedule_stream
from jobledger.domain.store.occurring import occurrence_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jobledger.domain.events import Event
    from jobledger.domain.history import RecordedEvent
    from jobledger.domain.job import Job
    from jobledger.domain.ports import Reader
    from jobledger.projections.rules import Walk

PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class ScheduleStep:
    """One event of a schedule on its way: the state before it and after it."""

    walk: Walk
    before: ScheduleState | None
    recorded: RecordedEvent
    after: ScheduleState

    @property
    def event(self) -> Any:
        """The event; each rule is asked about the kinds of events that it speaks of."""
        return self.recorded.event


def see_schedule(walk: Walk, recorded: RecordedEvent) -> None:
    """Check one event of a schedule against everything before it.

    Raises:
        HistoryCorruptError: it cannot be folded.
    """
    step = ScheduleStep(walk, walk.schedule, recorded, advance_schedule(walk.schedule, recorded))
    for name, rule in RULES_OF[type(recorded.event)]:
        if text := rule(step):
            walk.report(recorded.sequence, name, text)
    if isinstance(recorded.event, ScheduleFired):
        walk.occurrences[recorded.event.job_id] = recorded.sequence
    walk.schedule = step.after


# What every event has to respect --------------------------------------------------------------------------------------


def _begins_once(step: ScheduleStep) -> str | None:
    before, event = step.before, step.event
    if isinstance(event, ScheduleCreated):
        if schedule_stream(event.namespace, event.name) != step.recorded.stream:
            return "it was created under another name"
        return None if before is None or before.is_removed else "it was created already"
    return "the schedule had been removed" if before is not None and before.is_removed else None


def _plans_ahead(step: ScheduleStep) -> str | None:
    next_at = step.event.next_at
    if next_at is not None and next_at <= step.after.settled_at:
        return f"it plans {next_at.isoformat()}, which was settled already"
    return None


# Instants -------------------------------------------------------------------------------------------------------------


def _fires_what_was_planned(step: ScheduleStep) -> str | None:
    before, event = step.before, step.event
    if before is None:
        return None
    if event.how in ("triggered", "backfilled"):
        return None if event.next_at == before.next_at else "what an operator asks for does not move the plan"
    if event.instant != before.next_at:
        return f"{event.instant.isoformat()} fired, planned was {before.next_at and before.next_at.isoformat()}"
    return None


def _fires_nothing_early(step: ScheduleStep) -> str | None:
    event = step.event
    last = event.instant if isinstance(event, ScheduleFired) else event.last
    return f"{last.isoformat()} had not come" if last > event.at else None


def _fires_once(step: ScheduleStep) -> str | None:
    event = step.event
    return "its job was made before" if event.job_id in step.walk.occurrences else None


def _makes_the_job_of_its_instant(step: ScheduleStep) -> str | None:
    before, event = step.before, step.event
    if before is None or event.how == "triggered":
        return None
    key = occurrence_key(before.name, event.instant)
    if event.job_id != job_id_of(before.namespace, before.definition.owner, key):
        return "its job's id does not follow from the schedule and the instant"
    return None


def _fires_unless_held(step: ScheduleStep) -> str | None:
    before = step.before
    if before is not None and before.hold is not None:
        return f"a hold of {before.hold.by!r} was in force"
    return None


def _skips_what_was_planned(step: ScheduleStep) -> str | None:
    before, event = step.before, step.event
    if before is not None and event.first != before.next_at:
        return f"{event.first.isoformat()} was skipped, planned was {before.next_at and before.next_at.isoformat()}"
    if event.last < event.first or event.count < 1 or (event.count == 1) != (event.first == event.last):
        return f"{event.count} instants do not lie from {event.first.isoformat()} to {event.last.isoformat()}"
    is_given_up = event.reason in ("changed", "removed")
    if before is not None and not is_given_up and (event.reason == "held") != (before.hold is not None):
        return "an instant is skipped as held exactly while a hold is in force"
    return None


# Controls -------------------------------------------------------------------------------------------------------------


def _holds_follow_each_other(step: ScheduleStep) -> str | None:
    is_held = step.before is not None and step.before.hold is not None
    if isinstance(step.event, ScheduleHeld):
        return "a hold was in force already" if is_held else None
    return None if is_held else "no hold was in force"


ALWAYS: Final = (("created", _begins_once),)
RULES_OF: Final[dict[type[Event], Sequence[tuple[str, Callable[[ScheduleStep], str | None]]]]] = {
    ScheduleCreated: (*ALWAYS, ("plan", _plans_ahead)),
    ScheduleChanged: (*ALWAYS, ("plan", _plans_ahead)),
    ScheduleHeld: (*ALWAYS, ("control", _holds_follow_each_other)),
    ScheduleReleased: (*ALWAYS, ("control", _holds_follow_each_other)),
    ScheduleFired: (
        *ALWAYS,
        ("plan", _plans_ahead),
        ("instant", _fires_what_was_planned),
        ("early", _fires_nothing_early),
        ("doubled", _fires_once),
        ("occurrence", _makes_the_job_of_its_instant),
        ("control", _fires_unless_held),
    ),
    ScheduleSkipped: (
        *ALWAYS,
        ("plan", _plans_ahead),
        ("instant", _skips_what_was_planned),
        ("early", _fires_nothing_early),
    ),
    ScheduleRemoved: ALWAYS,
}
"""The rules that an event of each class can break, by the name under which a problem is reported."""


# Rows and jobs beside the history -------------------------------------------------------------------------------------


def check_schedule_snapshot(reader: Reader, walk: Walk, sequence: int) -> None:
    """What is kept for time travel is the fold of the events."""
    state = walk.schedule
    if state is None or sequence % SNAPSHOT_EVERY:
        return
    kept = None
    with suppress(HistoryCorruptError):
        kept = reader.schedule_snapshot(state.namespace, state.name, sequence)
    if kept != state:
        walk.report(sequence, "snapshot", "the state that is kept for time travel is not the fold of the events")
    _require_none_between(reader, walk, state, sequence - 1)


def _require_none_between(reader: Reader, walk: Walk, state: ScheduleState, upto: int) -> None:
    """Nothing is kept between two multiples: time travel would start from it, and no fold is compared with it."""
    newest = -1
    with suppress(HistoryCorruptError):
        kept = reader.schedule_snapshot(state.namespace, state.name, upto)
        newest = kept.sequence if kept else 0
    if newest < 0 or newest % SNAPSHOT_EVERY:
        walk.report(upto, "snapshot", "a state is kept for time travel where none belongs, or cannot be read")


def check_schedule(reader: Reader, walk: Walk) -> None:
    """The row is the fold of the events, and each occurrence has its job."""
    state = walk.schedule
    if state is None:
        return
    _require_none_between(reader, walk, state, state.sequence)
    loaded = None
    try:
        loaded = reader.schedules(state.namespace, [state.name]).get(state.name)
    except HistoryCorruptError as corrupt:
        walk.report(0, "schedule_row", corrupt.problem)
    else:
        if loaded is None or (loaded.state, loaded.head) != (state, walk.head):
            walk.report(0, "schedule_row", "the schedule's row is not the fold of the events")
        elif not reader.is_schedule_found_by(state, walk.head):
            walk.report(0, "columns", "what the store finds the schedule by does not follow from its state")
    for page in _pages(iter(walk.occurrences)):
        _check_jobs(reader, walk, state, page)


def _check_jobs(reader: Reader, walk: Walk, state: ScheduleState, job_ids: Sequence[str]) -> None:
    try:
        found = reader.load(job_ids)
    except HistoryCorruptError:
        return  # the job that cannot be read is a problem of its own
    for job_id in job_ids:
        loaded = found.get(job_id)
        origin = loaded.job.origin if loaded else None
        if loaded is None:
            walk.report(
                walk.occurrences[job_id],
                "occurrence",
                f"its job {job_id} is not there, nor what stands for an archived one",
            )
        elif origin is None or (origin.how, origin.of) != ("occurrence", state.name):
            walk.report(walk.occurrences[job_id], "occurrence", f"job {job_id} is no occurrence of this schedule")


def check_occurrence(reader: Reader, walk: Walk) -> None:
    """A job that a schedule made is known to it: both were written in one transaction, at one instant of the clock.

    A store that has nothing of the schedule, as after the import of single jobs, says nothing of it either.
    """
    job = walk.job
    if job is None or job.origin is None or job.origin.how != "occurrence":
        return
    stream = schedule_stream(job.namespace, job.origin.of)
    with suppress(HistoryCorruptError, UnknownSequenceError):  # the schedule's own stream is verified by itself
        loaded = reader.schedules(job.namespace, [job.origin.of]).get(job.origin.of)
        if loaded is None or _is_known(reader, stream, loaded.state.sequence, job):
            return
        walk.report(1, "occurrence", f"schedule {job.origin.of!r} does not know that it made this job")


def _is_known(reader: Reader, stream: str, head: int, job: Job) -> bool:
    """Whether one of the schedule's events at the instant of the job's creation made it."""
    last = sequence_at(reader, stream, head, job.created_at)
    while last > 0:
        [stored] = reader.records(stream, after=last - 1, upto=last, limit=1)
        event = read(stored).event
        if event.at != job.created_at:
            return False
        if isinstance(event, ScheduleFired) and event.job_id == job.id:
            return True
        last -= 1
    return False


def _pages(items: Iterator[str]) -> Iterator[list[str]]:
    while page := list(islice(items, PAGE)):
        yield page
