"""The situations of schedules that a simulation has to reach now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jobledger.domain.events import Cancelled, Completed
from jobledger.domain.schedule_events import (
    Definition,
    ScheduleChanged,
    ScheduleCreated,
    ScheduleFired,
    ScheduleRemoved,
    ScheduleSkipped,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.proof.history import Entry, Operation

SCHEDULE_SITUATIONS: Final[dict[str, str]] = {
    "occurrence_made": "a schedule makes a job",
    "caught_up": "nobody fired in time, and an instant is caught up",
    "coalesced": "nobody fired in time, and the newest instant stands for the others",
    "missed": "nobody fired in time, and the schedule does not catch up",
    "out_of_window": "nobody fired for so long that an instant is too old",
    "overlap_skipped": "an instant is skipped while the occurrence before it goes on",
    "overlap_waited": "an instant waits until the occurrence before it has ended",
    "overlap_allowed": "an occurrence is made while the one before it goes on",
    "held_passed_over": "instants come while a schedule is held, and are on record as held",
    "definition_changed": "a schedule is given another definition",
    "changed_while_waiting": "an instant waits when its schedule is given another definition",
    "removed_while_due": "an instant is due when its schedule is removed",
    "put_again": "a schedule that was removed is put again",
    "triggered": "an operator triggers an occurrence beside the plan",
    "trigger_repeated": "a repeated trigger is told of the job that it made before",
    "trigger_busy": "a trigger is refused while the occurrence before it goes on",
    "backfilled": "an operator backfills instants of the past",
    "backfill_reused": "a backfill finds the jobs that are there already",
    "fired_before": "an instant comes due whose job a backfill has made",
    "jittered": "an occurrence is made later than its instant, by its jitter",
    "came_to_its_end": "a schedule comes to its end",
    "schedule_conflict": "two schedulers meet at one schedule, and the second decides anew",
    "firing_reply_lost": "a scheduler's transaction commits, its reply is lost, and nothing fires twice",
}
"""By name; demanded like all others."""


def situations_of_schedule(entries: Sequence[Entry], streams: dict[str, list[Entry]]) -> Iterator[str]:
    """The situations in one schedule's history; ``streams`` are those of its jobs."""
    definition: Any = None
    last: str | None = None
    is_removed = False
    for number, entry in enumerate(entries):
        event = entry.event
        match event:
            case ScheduleCreated() | ScheduleChanged():
                definition = event.definition
                if isinstance(event, ScheduleChanged):
                    yield "definition_changed"
                elif is_removed:
                    yield "put_again"
            case ScheduleRemoved():
                is_removed = True
            case ScheduleSkipped():
                yield from _SKIPPED.get(event.reason, ())
            case ScheduleFired():
                before = entries[number - 1].event
                yield from _of_firing(event, before, definition, _end_of(last, streams), entry.position)
                last = last if event.how == "backfilled" else event.job_id
            case _:
                pass


_SKIPPED: Final[dict[str, tuple[str, ...]]] = {
    "missed": ("missed",),
    "out_of_window": ("out_of_window",),
    "overlap": ("overlap_skipped",),
    "held": ("held_passed_over",),
    "changed": ("changed_while_waiting",),
    "removed": ("removed_while_due",),
    "fired_before": ("fired_before",),
}


def _end_of(job_id: str | None, streams: dict[str, list[Entry]]) -> Entry | None:
    """The event that ended a job."""
    found = streams[job_id] if job_id is not None else []
    return next((each for each in found if isinstance(each.event, Completed | Cancelled)), None)


def _of_firing(
    event: ScheduleFired, before: Any, definition: Definition, end: Entry | None, position: int
) -> Iterator[str]:
    if event.how in ("triggered", "backfilled"):
        yield event.how
        return
    if isinstance(before, ScheduleSkipped) and before.reason == "coalesced":
        yield "coalesced"
    if event.how == "caught_up":
        yield "caught_up"
    if definition.jitter and event.at > event.instant:
        yield "jittered"
    if event.next_at is None and definition.end is not None:
        yield "came_to_its_end"
    if definition.overlap == "queue" and end is not None and end.event.at > event.instant:
        yield "overlap_waited"
    if definition.overlap == "allow" and (end is None or end.position > position) and before is not None:
        yield "overlap_allowed"


def situations_of_asking(operation: Operation) -> Iterator[str]:
    """What an operator of schedules was told."""
    told = operation.served
    if operation.name == "schedule.trigger":
        if any(each.code == "schedule_busy" for each in told):
            yield "trigger_busy"
        if sum(each.result == "ok" for each in told) > 1:
            yield "trigger_repeated"
    elif operation.name == "schedule.backfill" and any(each.answer and each.answer.reused for each in told):
        yield "backfill_reused"
