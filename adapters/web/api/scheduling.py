"""Routes of schedules: what is put, what stands, what comes, and the controls over it, each with a reason."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Annotated, Any, Protocol

from fastapi import Depends, Query, Response
from starlette.responses import StreamingResponse

from jobledger.adapters.web.access import Admin, Auditor, Operator, Principal, Reader, Worker
from jobledger.adapters.web.api.parameters import (
    CommandId,
    IfMatch,
    JsonLines,
    Limit,
    OptionalName,
    Sequence,
    etag,
    expected_sequence,
    given,
    instant_or_sequence,
    router,
)
from jobledger.adapters.web.refusing import HttpProblemError, documented
from jobledger.adapters.web.service import Face, Service
from jobledger.adapters.web.showing import event_out, schedule_out
from jobledger.adapters.wire.base import Instant
from jobledger.adapters.wire.controls import ControlIn
from jobledger.adapters.wire.histories import EventOut, VerificationOut
from jobledger.adapters.wire.jobs import CreateReceiptOut
from jobledger.adapters.wire.schedules import (
    BackfillIn,
    BackfillOut,
    DifferenceOut,
    FireIn,
    FiringOut,
    MendedOut,
    NextDueOut,
    ScheduleIn,
    ScheduleOut,
    SchedulePageOut,
    ScheduleReceiptOut,
    ScheduleWindowOut,
    UpcomingOut,
)
from jobledger.domain.errors import InvalidRequestError, UnknownScheduleError
from jobledger.domain.schedules.answers import ScheduleStatus
from jobledger.domain.schedules.definition import NAME_CHARACTERS_MAX, Schedule
from jobledger.projections.schedules import UPCOMING_MAX

routes = router("schedules")
CONTROL = documented(409, 412, 423, 428)

ScheduleName = Annotated[
    str, Query(min_length=1, max_length=NAME_CHARACTERS_MAX, description="The schedule's name within the namespace.")
]
At = Annotated[str | None, Query(max_length=40, description="A sequence or an instant: the schedule as it was.")]
Many = Annotated[int, Query(ge=1, le=UPCOMING_MAX, description="How many instants.")]


def require_seen(face: Service, caller: Principal, name: str, **at: Any) -> ScheduleStatus:
    """A schedule that the caller may see; another owner's is answered like one that does not exist."""
    found = face.store.schedules.get(name, **at)
    if caller.owner is not None and found.owner != caller.owner:
        raise UnknownScheduleError(name)
    return found


def _require_history(face: Service, caller: Principal, name: str) -> None:
    """Require that the caller may see a history, also that of a schedule which was removed."""
    if caller.owner is not None:
        require_seen(face, caller, name, at=1)


def _asked(caller: Principal, name: str, body: ScheduleIn) -> Schedule:
    owner = caller.owner_for(body.owner)
    if owner is None:
        problem = "owner: this token has none of its own, so the schedule has to name one"
        raise HttpProblemError("invalid_request", problem)
    return body.schedule(name, owner)


@contextmanager
def _without_naming_others(caller: Principal) -> Generator[None]:
    """A name that another owner's schedule has is refused without telling whose it is."""
    try:
        yield
    except InvalidRequestError as error:
        if caller.owner is not None and error.field == "Schedule.owner":
            raise InvalidRequestError("Schedule.name", "it cannot be put under this name; choose another") from None
        raise


# Questions ------------------------------------------------------------------------------------------------------------


@routes.get("/schedules", responses=documented())
def list_schedules(
    face: Face, caller: Reader, owner: OptionalName = None, after: OptionalName = None, limit: Limit = 100
) -> SchedulePageOut:
    """Schedules by name, from behind `after`."""
    page = face.store.schedules.list(owner=caller.owner_for(owner), after=after, limit=limit)
    return SchedulePageOut(
        schedules=[schedule_out(face, caller, each) for each in page.schedules], next_after=page.next_after
    )


@routes.get("/schedule", responses=documented())
def read_schedule(face: Face, caller: Reader, response: Response, name: ScheduleName, at: At = None) -> ScheduleOut:
    """A schedule now, or as it was at a sequence or an instant; a control's `If-Match` takes its `ETag`."""
    status = require_seen(face, caller, name, at=instant_or_sequence(at))
    response.headers["ETag"] = etag(status)
    return schedule_out(face, caller, status)


@routes.get("/schedule/upcoming", responses=documented())
def read_upcoming(face: Face, caller: Reader, name: ScheduleName, n: Many = 5) -> UpcomingOut:
    """The next instants of a schedule. A held one fires none of them before it is released."""
    require_seen(face, caller, name)
    return UpcomingOut(instants=list(face.store.schedules.upcoming(name, n)))


@routes.post("/schedule/preview", responses=documented())
def preview_schedule(face: Face, caller: Reader, name: ScheduleName, body: ScheduleIn, n: Many = 5) -> UpcomingOut:
    """The next instants of a schedule that is not put yet; nothing is changed."""
    return UpcomingOut(instants=list(face.store.schedules.upcoming(_asked(caller, name, body), n)))


@routes.post("/schedule/compare", responses=documented())
def compare_schedule(face: Face, caller: Reader, name: ScheduleName, body: ScheduleIn) -> DifferenceOut:
    """What putting this schedule would do now; nothing is changed."""
    with _without_naming_others(caller):
        return DifferenceOut.of(face.store.schedules.compare(_asked(caller, name, body)))


@routes.get("/schedule/events", responses=documented())
def read_schedule_events(
    face: Face, caller: Reader, name: ScheduleName, after: Sequence = 0, limit: Limit = 100
) -> ScheduleWindowOut:
    """A slice of a schedule's events behind a sequence, also of one that was removed."""
    _require_history(face, caller, name)
    window = face.store.schedules.events(name, after=after, limit=limit)
    events = [event_out(face, caller, event) for event in window.events]
    return ScheduleWindowOut(events=events, next_after=window.next_after, head=window.head)


@routes.get("/schedule/history", response_class=JsonLines, responses=documented())
def read_schedule_history(face: Face, caller: Auditor, name: ScheduleName) -> StreamingResponse:
    """Every event of a schedule from the first on, as JSON lines, also of one that was removed."""
    _require_history(face, caller, name)
    history = face.store.schedules.history(name)
    return JsonLines(f"{EventOut.of(event).model_dump_json()}\n" for event in history)


@routes.get("/schedule/verification", responses=documented())
def verify_schedule(face: Face, caller: Auditor, name: ScheduleName) -> VerificationOut:
    """Whether every digest and rule of a schedule's history holds, and its row and jobs beside it."""
    _require_history(face, caller, name)
    return VerificationOut.of(face.store.schedules.verify(name))


# Commands -------------------------------------------------------------------------------------------------------------


@routes.put("/schedule", responses=documented(409))
def put_schedule(
    face: Face,
    caller: Operator,
    response: Response,
    name: ScheduleName,
    body: ScheduleIn,
    by: OptionalName = None,
    command_id: CommandId = None,
) -> ScheduleReceiptOut:
    """Begin a schedule, or change it; one that says the same already is left alone (`reused`)."""
    with _without_naming_others(caller):
        receipt = face.store.schedules.put(_asked(caller, name, body), by=caller.acts_as(by), command_id=command_id)
    with suppress(UnknownScheduleError):  # a repeated command may find that the schedule was removed since
        response.headers["ETag"] = etag(face.store.schedules.get(name))
    return ScheduleReceiptOut.of(receipt)


class Asking(Protocol):
    """Asks for a control of the schedule, as the request's caller and with its reason."""

    def __call__(self, method: Any, /, *, must_be_seen: bool) -> ScheduleReceiptOut:
        """Ask a method of the schedules; ``must_be_seen``: the caller has to say which state he looked at."""
        ...


def _asking(
    face: Face,
    caller: Operator,
    name: ScheduleName,
    asked: ControlIn,
    if_match: IfMatch = None,
    command_id: CommandId = None,
) -> Asking:
    def ask(method: Any, /, *, must_be_seen: bool) -> ScheduleReceiptOut:
        if caller.owner is not None:
            require_seen(face, caller, name)
        expected = expected_sequence(if_match, is_required=must_be_seen)
        receipt = method(
            name,
            by=caller.acts_as(asked.by),
            reason=asked.reason,
            **given(expected_sequence=expected, command_id=command_id),
        )
        return ScheduleReceiptOut.of(receipt)

    return ask


Ask = Annotated[Asking, Depends(_asking)]


@routes.post("/schedule/hold", responses=CONTROL)
def hold_schedule(face: Face, ask: Ask) -> ScheduleReceiptOut:
    """Place a stop sign: nothing fires until it is released, and what would have is on record as skipped."""
    return ask(face.store.schedules.hold, must_be_seen=False)


@routes.post("/schedule/release", responses=CONTROL)
def release_schedule(face: Face, ask: Ask) -> ScheduleReceiptOut:
    """Take the stop sign away. `If-Match` is required: a release must not act late."""
    return ask(face.store.schedules.release, must_be_seen=True)


@routes.post("/schedule/remove", responses=CONTROL)
def remove_schedule(face: Face, ask: Ask) -> ScheduleReceiptOut:
    """End a schedule; its jobs and its history stay. `If-Match` is required: a removal must not act late."""
    return ask(face.store.schedules.remove, must_be_seen=True)


@routes.post("/schedule/trigger", status_code=201, responses=documented(409, 423))
def trigger_schedule(
    face: Face, caller: Operator, name: ScheduleName, asked: ControlIn, command_id: CommandId = None
) -> CreateReceiptOut:
    """Make an occurrence now, beside the plan; repeated under its `Command-Id`, it answers the same job."""
    require_seen(face, caller, name)
    receipt = face.store.schedules.trigger(
        name, by=caller.acts_as(asked.by), reason=asked.reason, command_id=command_id
    )
    return CreateReceiptOut.of(receipt)


@routes.post("/schedule/backfill", responses=documented(409, 423))
def backfill_schedule(face: Face, caller: Operator, name: ScheduleName, asked: BackfillIn) -> BackfillOut:
    """Make the jobs of past instants; one that has its job already is counted, so that a repeat makes none twice."""
    require_seen(face, caller, name)
    by = caller.acts_as(asked.by)
    return BackfillOut.of(face.store.schedules.backfill(name, asked.first, asked.last, by=by, reason=asked.reason))


@routes.post("/schedules/fire", responses=documented())
def fire_schedules(face: Face, caller: Worker, asked: FireIn) -> FiringOut:
    """Settle every schedule that is due; any number of schedulers may ask at once. For tokens of every owner."""
    caller.require_every_owner()
    return FiringOut.of(face.store.schedules.fire_due(asked.limit))


@routes.get("/schedules/due", responses=documented())
def read_next_due(
    face: Face, caller: Reader, after: Annotated[Instant | None, Query(description="Leave out those before.")] = None
) -> NextDueOut:
    """When the first schedule is due, by the store's own time. For tokens of every owner."""
    caller.require_every_owner()
    due_at, now = face.store.schedules.next_due(after=after)
    return NextDueOut(due_at=due_at, now=now)


@routes.post("/schedules/rebuild", responses=documented())
def rebuild_schedules(face: Face, _: Admin) -> MendedOut:
    """Refold every schedule's row from its events, and mend those that differ."""
    return MendedOut(mended=list(face.store.schedules.rebuild()))
