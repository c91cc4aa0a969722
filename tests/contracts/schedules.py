"""Short words for what the suite does to schedules."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from jobledger import JobStatus, JobStore, Schedule, ScheduleReceipt
from jobledger.domain.schedule_events import ScheduleFired, ScheduleSkipped

BY: Any = {"by": "ann"}
WHY: Any = {"by": "ann", "reason": "look"}


def put(store: JobStore, name: str = "s", **given: Any) -> ScheduleReceipt:
    """Put a schedule of kind ``index``: every minute, unless it says otherwise."""
    timed: dict[str, Any] = {} if "cron" in given or "every" in given else {"every": 60}
    return store.schedules.put(Schedule(name, "index", **(timed | given)), **BY)


def jobs_of(store: JobStore, name: str = "s") -> list[JobStatus]:
    """The jobs that a schedule made, oldest first."""
    found: list[JobStatus] = []
    cursor = None
    while True:
        page = store.jobs(label=("schedule", name), cursor=cursor, limit=1_000)
        found += page.jobs
        cursor = page.next_cursor
        if cursor is None:
            return found[::-1]


def fired(store: JobStore, name: str = "s") -> list[datetime]:
    """The instants that fired by themselves, in the order of the history."""
    events = [each.event for each in store.schedules.history(name)]
    return [event.instant for event in events if isinstance(event, ScheduleFired) and event.by == "engine"]


def skipped(store: JobStore, name: str = "s") -> list[tuple[str, int]]:
    """The runs of instants that were skipped: reason and count, in the order of the history."""
    events = [each.event for each in store.schedules.history(name)]
    return [(event.reason, event.count) for event in events if isinstance(event, ScheduleSkipped)]


def end(store: JobStore, job_id: str) -> None:
    """Run a job to its end."""
    store.complete(store.claim(job_id, worker="w").fence)
