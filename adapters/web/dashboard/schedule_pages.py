"""The pages on schedules: all of them, and one with its instants to come, its last occurrences and its controls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from fastapi import Form, Query, Request
from starlette.responses import RedirectResponse, Response

from jobledger.adapters.web.access import Operator, Principal, Reader, Scope
from jobledger.adapters.web.api.scheduling import ScheduleName, require_seen
from jobledger.adapters.web.dashboard import rendering
from jobledger.adapters.web.refusing import HttpProblemError
from jobledger.adapters.web.service import Face, Service
from jobledger.adapters.web.showing import schedule_out
from jobledger.adapters.wire.problems import ProblemModel, problem_of
from jobledger.domain.errors import HoldInForceError, InvalidRequestError, JobledgerError, NotHeldError
from jobledger.domain.schedule_events import ScheduleFired, ScheduleSkipped
from jobledger.domain.schedules.answers import ScheduleStatus
from jobledger.domain.schedules.definition import NAME_CHARACTERS_MAX
from jobledger.domain.schedules.state import schedule_stream

routes = rendering.router()

SHOWN: Final = 50
UPCOMING: Final = 5
OCCURRENCES: Final = 20
EVENTS_LOOKED: Final = 100
CONTROLS: Final[Mapping[str, tuple[str, str]]] = {
    "hold": ("Hold", "Nothing fires until it is released; what would have is on record as skipped."),
    "release": ("Release", "Instants from now on fire again; those that came meanwhile do not."),
    "trigger": ("Trigger", "Make its job now, beside the plan."),
    "backfill": ("Backfill", "Make the jobs of past instants; those that have one already are passed over."),
    "remove": ("Remove", "End it. Its jobs and its history stay, and its name may be put again."),
}
"""What an operator may ask of a schedule: the button, and what it does."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """What became of an instant, or of a run of them."""

    at: datetime
    count: int
    what: str
    why: str
    job_id: str | None
    state: str


@routes.get("/schedules")
def schedules_page(
    request: Request,
    face: Face,
    caller: Reader,
    after: Annotated[str, Query(max_length=NAME_CHARACTERS_MAX)] = "",
) -> Response:
    """Every schedule by name: when it is due, and what became of it last."""
    found = face.store.schedules.list(owner=caller.owner, after=after or None, limit=SHOWN)
    return rendering.page(request, "schedules.html", caller=caller, page="Schedules", found=found, after=after)


@routes.get("/schedule")
def schedule_page(
    request: Request,
    face: Face,
    caller: Reader,
    name: ScheduleName,
    done: Annotated[str, Query(max_length=40)] = "",
    part: str = "",
) -> Response:
    """One schedule."""
    status = require_seen(face, caller, name)
    told = f"{CONTROLS[done][0]}: accepted and put on record." if done in CONTROLS else ""
    template = "_schedule.html" if part == "live" else "schedule.html"
    return _schedule(request, face, caller, status, template, done=told)


def _schedule(
    request: Request,
    face: Service,
    caller: Principal,
    status: ScheduleStatus,
    template: str = "schedule.html",
    *,
    done: str = "",
    problem: ProblemModel | None = None,
) -> Response:
    coming = [_in_zone(at, status.zone) for at in face.store.schedules.upcoming(status.name, UPCOMING)]
    refused = _refused(status)
    values: dict[str, Any] = {
        "schedule": schedule_out(face, caller, status),
        "standing": status,
        "upcoming": coming,
        "changes_clock": len({at.utcoffset() for at in coming}) > 1,
        "occurrences": list(_occurrences(face, status)),
        "may_operate": caller.may(Scope.OPERATE),
        "controls": {name: words for name, words in CONTROLS.items() if name not in refused},
        "unavailable": {CONTROLS[name][0]: error for name, error in refused.items()},
        "done": done,
        "problem": problem,
    }
    code = problem.status if problem else 200
    return rendering.page(request, template, caller=caller, page="Schedules", status=code, **values)


def _in_zone(at: datetime, zone: str) -> datetime:
    return at.astimezone(UTC if zone == "UTC" else ZoneInfo(zone))


def _refused(status: ScheduleStatus) -> dict[str, JobledgerError]:
    """The controls that would be refused as the schedule stands, and the refusal of each."""
    stream = schedule_stream(status.namespace, status.name)
    if status.hold is None:
        return {"release": NotHeldError(stream)}
    held = HoldInForceError(stream, status.hold.by, status.hold.reason)
    return dict.fromkeys(("hold", "trigger", "backfill"), held)


def _occurrences(face: Service, status: ScheduleStatus) -> Iterator[Occurrence]:
    """What became of the newest instants, newest first."""
    window = face.store.schedules.events(
        status.name, after=max(0, status.sequence - EVENTS_LOOKED), limit=EVENTS_LOOKED
    )
    settled = [each.event for each in window.events if isinstance(each.event, ScheduleFired | ScheduleSkipped)]
    for event in reversed(settled[-OCCURRENCES:]):
        if isinstance(event, ScheduleFired):
            why = "" if event.by == "engine" else f"{event.by}: {event.reason}"
            state = _state(face, event.job_id)
            yield Occurrence(event.instant, 1, event.how.replace("_", " "), why, event.job_id, state)
        else:
            why = event.detail or event.reason.replace("_", " ")
            yield Occurrence(event.last, event.count, "skipped", why, event.job_id, "")


def _state(face: Service, job_id: str) -> str:
    try:
        return face.store.status(job_id).state.value
    except JobledgerError:
        return ""  # its job is kept elsewhere by now


@routes.post("/schedule/controls/{control}")
def act_on_schedule(
    request: Request,
    face: Face,
    caller: Operator,
    name: ScheduleName,
    control: str,
    reason: Annotated[str, Form()],
    seen: Annotated[int, Form()] = 0,
    first: Annotated[str, Form()] = "",
    last: Annotated[str, Form()] = "",
) -> Response:
    """Ask a control of a schedule as it was seen; a refusal is told on the schedule's page."""
    status = require_seen(face, caller, name)
    base = request.scope.get("root_path", "").rstrip("/")
    by: dict[str, Any] = {"by": caller.name, "reason": reason}
    schedules = face.store.schedules
    asked: dict[str, Callable[[], object]] = {
        "hold": lambda: schedules.hold(name, **by, expected_sequence=seen),
        "release": lambda: schedules.release(name, **by, expected_sequence=seen),
        "remove": lambda: schedules.remove(name, **by, expected_sequence=seen),
        "trigger": lambda: schedules.trigger(name, **by),
        "backfill": lambda: schedules.backfill(name, _instant("first", first), _instant("last", last), **by),
    }
    if control not in asked:
        raise HttpProblemError("not_found", "there is no such control")
    try:
        asked[control]()
    except JobledgerError as refused:
        return _schedule(request, face, caller, status, problem=problem_of(refused))
    if control == "remove":
        return RedirectResponse(f"{base}/schedules", 303)
    return RedirectResponse(f"{base}/schedule?{urlencode({'name': name, 'done': control})}", 303)


def _instant(field: str, text: str) -> datetime:
    """An instant as a form gives it: the day and time of day, in UTC.

    Raises:
        InvalidRequestError: it is none.
    """
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        raise InvalidRequestError(field, "a day and a time in UTC are needed") from None
