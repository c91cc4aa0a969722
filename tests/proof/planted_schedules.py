"""One violation of every invariant of schedules, made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from jobledger.domain.answers import CreateReceipt
from jobledger.domain.decisions.creating import job_id_of
from jobledger.domain.events import Origin
from jobledger.domain.job import State
from jobledger.domain.schedule_events import (
    ScheduleChanged,
    ScheduleCreated,
    ScheduleFired,
    ScheduleHeld,
    ScheduleReleased,
    ScheduleSkipped,
)
from jobledger.domain.schedules.state import ScheduleState, evolve_schedule
from jobledger.domain.schedules.templates import instant_text
from jobledger.domain.values import fingerprint
from tests.domain.given import body, created
from tests.domain.schedules import MINUTE, START, minutely
from tests.domain.schedules import at as minute
from tests.proof.history import Entry, History, Operation, Served
from tests.proof.timetables import ScheduleStep

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobledger.domain.schedule_events import ScheduleEvent

EVERY_MINUTE: Final = minutely()
IN_TURN: Final = minutely(overlap="skip")
HELD: Final = evolve_schedule(EVERY_MINUTE, ScheduleHeld(at=minute(0), by="ann", reason="look"))


def key_of(instant: float) -> str:
    """The key of the job of an instant."""
    return f"schedule:s:{instant_text(minute(instant))}"


def job_of(instant: float) -> str:
    """The id of the job of an instant."""
    return job_id_of("default", "team", key_of(instant))


def fired(instant: float, job_id: str = "", *, at: float | None = None, **said: Any) -> ScheduleFired:
    """A firing of the instant so many minutes after the start, at that moment or another one."""
    asked: dict[str, Any] = {"how": "due", "next_at": minute(instant + 1)} | said
    return ScheduleFired(
        at=minute(instant if at is None else at), instant=minute(instant), job_id=job_id or job_of(instant), **asked
    )


def skipped(instant: float, reason: Any, *, at: float | None = None, **said: Any) -> ScheduleSkipped:
    """One instant that was skipped."""
    asked: dict[str, Any] = {"next_at": minute(instant + 1), "count": 1} | said
    moment, now = minute(instant), minute(instant if at is None else at)
    return ScheduleSkipped(at=now, first=moment, last=moment, reason=reason, **asked)


def step(state: ScheduleState, event: ScheduleEvent, ended: Any = None, **made: Any) -> ScheduleStep:
    """An event on its way; ``made`` changes what it makes of the schedule."""
    return ScheduleStep(state, event, replace(evolve_schedule(state, event), **made), ended)


FIRED: Final = evolve_schedule(IN_TURN, fired(1))
CREATION: Final = ScheduleCreated(
    at=minute(0), namespace="default", name="s", definition=EVERY_MINUTE.definition, by="ann", next_at=minute(1)
)

SCHEDULE_STEPS: Final[dict[str, Callable[[], ScheduleStep]]] = {
    "schedule_begins": lambda: step(EVERY_MINUTE, CREATION),
    "schedule_fold": lambda: step(EVERY_MINUTE, fired(1), fired=7),
    "schedule_time": lambda: step(evolve_schedule(EVERY_MINUTE, fired(1)), fired(2, at=0.5)),
    "planned": lambda: step(EVERY_MINUTE, fired(2)),
    "first_instant": lambda: step(
        EVERY_MINUTE,
        ScheduleChanged(
            at=minute(0), definition=minutely(jitter=minute(1) - minute(0)).definition, by="ann", next_at=minute(2)
        ),
    ),
    "instant_due": lambda: step(EVERY_MINUTE, fired(1, at=0.9)),
    "nothing_left": lambda: step(HELD, ScheduleReleased(at=minute(3), by="ann", reason="go on")),
    "schedule_held": lambda: step(HELD, fired(1)),
    "catch_up": lambda: step(EVERY_MINUTE, fired(1, at=5)),
    "overlap": lambda: step(FIRED, fired(2), {job_of(1): None}),
    "schedule_holds": lambda: step(HELD, ScheduleHeld(at=minute(0), by="bob", reason="look")),
}
"""By the name of the step invariant that is broken."""

LAWFUL: Final[dict[str, Callable[[], ScheduleStep]]] = {
    "fires in time": lambda: step(EVERY_MINUTE, fired(1, at=1.5)),
    "is caught up": lambda: step(minutely(catch_up="all"), fired(1, at=2.5, how="caught_up")),
    "is skipped for the one before": lambda: step(FIRED, skipped(2, "overlap", job_id=job_of(1)), {job_of(1): None}),
    "fires after the one before": lambda: step(FIRED, fired(2), {job_of(1): minute(1.5)}),
    "is held": lambda: step(HELD, skipped(1, "held", at=3, next_at=minute(2))),
    "is released": lambda: step(
        evolve_schedule(HELD, skipped(1, "held", at=1)), ScheduleReleased(at=minute(1.5), by="ann", reason="go on")
    ),
}
"""What no invariant may object to: the ground that the planted ones stand on."""


def leading_to(planted: ScheduleStep) -> list[Entry]:
    """The events of the state that a planted step starts from, with their jobs."""
    state, entries = planted.stood, [entry(1, replace(CREATION, definition=planted.stood.definition), 1)]
    if state.fired:
        entries += made_by(fired(1), 2, 2)
    if state.hold is not None:
        entries.append(entry(2, ScheduleHeld(at=minute(0), by="ann", reason="look"), 2))
    return entries


def made_by(event: Any, position: int, sequence: int) -> list[Entry]:
    """An event of a schedule, and the job of its instant where it fires one."""
    entries = [entry(position, event, sequence)]
    if isinstance(event, ScheduleFired):
        job = replace(occurrence((event.instant - START) / MINUTE), at=event.at)
        entries.append(entry(position + 1, job, 1, job.job_id))
    return entries


# Whole histories ------------------------------------------------------------------------------------------------------

STREAM: Final = EVERY_MINUTE.stream


def entry(position: int, event: Any, sequence: int, stream: str = STREAM) -> Entry:
    """An event in the log."""
    return Entry(position, stream, sequence, event, f"c{position}", "settle")


def occurrence(instant: float, job_id: str = "") -> Any:
    """The job of an instant, as the definition asks for it."""
    text = instant_text(minute(instant))
    return replace(
        created(),
        at=minute(instant),
        job_id=job_id or job_of(instant),
        owner="team",
        kind="index",
        key=key_of(instant),
        payload=body({}),
        fingerprint=fingerprint("index", {}, ["occurrence", "s", text]),
        origin=Origin(how="occurrence", of="s", instant=minute(instant), by="engine"),
    )


def history(*more: Entry, definition: Any = EVERY_MINUTE.definition, **rows: Any) -> History:
    """A schedule that fired its first instant, and what comes after."""
    begun = replace(CREATION, definition=definition)
    return History([entry(1, begun, 1), entry(2, fired(1), 2), entry(3, occurrence(1), 1, job_of(1)), *more], **rows)


def triggered(job_id: str) -> Operation:
    """An operator who was told of a job."""
    told = CreateReceipt(job_id, reused=False, sequence=1, state=State.QUEUED)
    served = [Served("ok", "", told, 9, 1)]
    return Operation("ann", "schedule.trigger", None, "c2", {"name": "s"}, 0, result="ok", answer=told, served=served)


SCHEDULE_HISTORIES: Final[dict[str, Callable[[], History]]] = {
    "fired_once": lambda: history(entry(4, fired(1, "job-2"), 3), entry(5, occurrence(1, "job-2"), 1, "job-2")),
    "occurrences": lambda: history(entry(4, fired(2), 3)),
    "no_overlap": lambda: history(
        entry(4, fired(2), 3),
        entry(5, occurrence(2), 1, job_of(2)),
        definition=IN_TURN.definition,
    ),
    "in_the_way": lambda: history(entry(4, skipped(2, "overlap", job_id="job-9"), 3)),
    "schedule_rows": lambda: history(schedules={"s": EVERY_MINUTE}),
    "triggers": lambda: history(operations=[triggered("job-9")]),
}
"""By the name of the history invariant that is broken."""
