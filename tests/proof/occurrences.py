"""What must hold of the schedules of a whole history: each instant makes one job, as its definition asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jobledger.domain.answers import CreateReceipt
from jobledger.domain.events import Cancelled, Completed, Created
from jobledger.domain.schedule_events import (
    Definition,
    ScheduleChanged,
    ScheduleCreated,
    ScheduleFired,
    ScheduleSkipped,
)
from tests.proof.index import Index, at, of
from tests.proof.timetables import folded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from tests.proof.history import Entry

SCHEDULE: Final = "schedule:"
"""How the names of schedules' streams begin."""


def _schedules(index: Index) -> Iterator[tuple[str, list[Entry]]]:
    """The names of the schedules, with their events."""
    for stream, entries in index.streams.items():
        if stream.startswith(SCHEDULE):
            yield stream.split(":", 3)[3], entries


def _firings(index: Index) -> Iterator[tuple[str, Definition, Entry, ScheduleFired]]:
    """Each firing: the schedule's name, its definition then, and the event."""
    for name, entries in _schedules(index):
        definition: Any = None
        for entry in entries:
            event = entry.event
            if isinstance(event, ScheduleCreated | ScheduleChanged):
                definition = event.definition
            elif isinstance(event, ScheduleFired) and definition is not None:
                yield name, definition, entry, event


def instants_fire_once(index: Index) -> Iterator[tuple[str, str]]:
    """Whoever asks, and however often; what an operator triggers has no instant of the plan."""
    fired: dict[tuple[str, datetime], Entry] = {}
    jobs: dict[str, Entry] = {}
    for name, _, entry, event in _firings(index):
        if jobs.setdefault(event.job_id, entry) is not entry:
            yield at(entry), f"job {event.job_id} was made at {at(jobs[event.job_id])} before"
        if event.how != "triggered" and fired.setdefault((name, event.instant), entry) is not entry:
            yield at(entry), f"{event.instant.isoformat()} fired at {at(fired[name, event.instant])} before"


def occurrences_are_what_their_definition_says(index: Index) -> Iterator[tuple[str, str]]:
    """Each firing has its job in the same transaction, and each occurrence its firing."""
    made: set[str] = set()
    for name, definition, entry, event in _firings(index):
        made.add(event.job_id)
        entries = index.streams.get(event.job_id, [])
        job: Any = entries[0].event if entries else None
        if not isinstance(job, Created):
            yield at(entry), f"its job {event.job_id} is not there"
            continue
        instant = f"{event.instant.replace(tzinfo=None).isoformat()}Z"
        payload = instant if definition.payload.value == "${instant}" else definition.payload.value
        asked = (definition.owner, definition.kind, payload, definition.queue, definition.priority)
        if (job.owner, job.kind, job.payload.value, job.queue, job.priority) != asked:
            yield at(entry), "its job is not the one that the definition asks for"
        key = f"schedule:{name}:{instant}"
        if event.how != "triggered" and job.key != key:
            yield at(entry), f"its job has the key {job.key!r}"
        origin = job.origin
        if origin is None or (origin.how, origin.of, origin.instant) != ("occurrence", name, event.instant):
            yield at(entry), f"its job comes from {origin}"
        if (entries[0].event.at, origin and origin.by) != (event.at, event.by):
            yield at(entry), f"its job was made at {entries[0].event.at.isoformat()}, by {origin and origin.by!r}"
    for stream, entries in index.streams.items():
        job = entries[0].event
        is_occurrence = isinstance(job, Created) and job.origin is not None and job.origin.how == "occurrence"
        if is_occurrence and stream not in made:
            yield at(entries[0]), "no schedule says that it fired"


def occurrences_wait_for_each_other(index: Index) -> Iterator[tuple[str, str]]:
    """In the log: the one before ended before the next one was made, where they may not overlap."""
    last: dict[str, str] = {}
    for name, definition, entry, event in _firings(index):
        if event.how == "backfilled":
            continue
        before, last[name] = last.get(name), event.job_id
        if before is None or definition.overlap == "allow":
            continue
        ends = [each.position for each in index.streams[before] if isinstance(each.event, Completed | Cancelled)]
        if not ends or ends[0] > entry.position:
            yield at(entry), f"the occurrence before it, {before}, had not ended"


def skipped_jobs_are_there(index: Index) -> Iterator[tuple[str, str]]:
    """What is skipped because a job stands in its way names a job that was there, and is of this schedule or is not."""
    for name, entries in _schedules(index):
        for entry in entries:
            event = entry.event
            if not isinstance(event, ScheduleSkipped) or event.reason not in ("overlap", "fired_before", "key_taken"):
                continue
            found = index.streams.get(event.job_id or "", [])
            job: Any = found[0].event if found else None
            if job is None or job.at > event.at:
                yield at(entry), f"job {event.job_id} was not there"
            elif (job.origin is not None and job.origin.of == name) != (event.reason != "key_taken"):
                yield at(entry), f"it is {event.reason}, and job {event.job_id} comes from {job.origin}"


def schedule_rows_are_the_fold(index: Index) -> Iterator[tuple[str, str]]:
    kept = index.history.schedules
    for name, entries in _schedules(index):
        state: Any = None
        for entry in entries:
            state = folded(state, entry.event)  # type: ignore[arg-type]  # the events of a schedule
        if name in kept and kept[name] != state:
            yield f"schedule {name}", "its row is not the fold of its events"


def triggers_are_told_of_their_job(index: Index) -> Iterator[tuple[str, str]]:
    for operation, served in index.served():
        if operation.name != "schedule.trigger" or not isinstance(served.answer, CreateReceipt):
            continue
        entries = index.caused.get(operation.command_id or "", [])
        fired = [each.event for each in entries if isinstance(each.event, ScheduleFired)]
        if [each.job_id for each in fired] != [served.answer.job_id]:
            yield of(operation), f"it was told of job {served.answer.job_id}, its command made {fired}"
