"""What a caller is shown of the store's answers: everything, but for the values of secret fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobledger.adapters.wire.histories import EventOut, EventWindowOut, FeedEntryOut
from jobledger.adapters.wire.jobs import KEPT_ASIDE, JobStatusOut
from jobledger.adapters.wire.schedules import ScheduleOut

if TYPE_CHECKING:
    from jobledger.adapters.web.access import Principal
    from jobledger.adapters.web.service import Service
    from jobledger.domain.answers import JobStatus
    from jobledger.domain.history import RecordedEvent
    from jobledger.domain.schedules.answers import ScheduleStatus
    from jobledger.projections.windows import EventWindow, FeedEntry


def status_out(face: Service, caller: Principal, status: JobStatus) -> JobStatusOut:
    """A status as this caller may see it."""
    shown = JobStatusOut.of(status)
    if not face.hides(caller):
        return shown
    return shown.model_copy(update={name: face.masked(getattr(shown, name)) for name in KEPT_ASIDE})


def schedule_out(face: Service, caller: Principal, status: ScheduleStatus) -> ScheduleOut:
    """A schedule as this caller may see it."""
    shown = ScheduleOut.of(status)
    return shown.model_copy(update={"payload": face.masked(shown.payload)}) if face.hides(caller) else shown


def event_out(face: Service, caller: Principal, event: RecordedEvent) -> EventOut:
    """An event as this caller may see it."""
    shown = EventOut.of(event)
    return shown.model_copy(update={"data": face.masked(shown.data)}) if face.hides(caller) else shown


def entry_out(face: Service, caller: Principal, entry: FeedEntry) -> FeedEntryOut:
    """An entry of the feed as this caller may see it."""
    shown = FeedEntryOut.of(entry)
    return shown.model_copy(update={"data": face.masked(shown.data)}) if face.hides(caller) else shown


def window_out(face: Service, caller: Principal, window: EventWindow) -> EventWindowOut:
    """A window as this caller may see it."""
    given: dict[str, Any] = {
        "events": [event_out(face, caller, event) for event in window.events],
        "next_after": window.next_after,
        "head": window.head,
        "floor": window.floor,
        "snapshot": status_out(face, caller, window.snapshot) if window.snapshot else None,
    }
    return EventWindowOut(**given)
