"""What callers ask of a schedule, checked against every bound, as the definition that is stored."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack, get_args

from pydantic import Field

from jobledger.domain.bounds import LABELS_MAX, SPAN_MAX, require_count, require_instant, require_span, require_text
from jobledger.domain.decisions.creating import CONTROLS, JobRequest, prepare
from jobledger.domain.errors import InvalidRequestError, PayloadTooLargeError
from jobledger.domain.models import Model
from jobledger.domain.schedule_events import EVERY_MIN, JITTER_MAX, WINDOW, CatchUp, Definition, Overlap
from jobledger.domain.schedules.templates import require_template
from jobledger.domain.schedules.timing import next_instant
from jobledger.domain.values import Body, encode_json, keep

if TYPE_CHECKING:
    from jobledger.domain.schedules.timing import Calendar

NAME_CHARACTERS_MAX: Final = 200
CRON_CHARACTERS_MAX: Final = 200
TEMPLATE_BYTES_MAX: Final = 64 * 1024
LABEL: Final = "schedule"
"""The label by which the jobs of a schedule are found; its value is the schedule's name."""


class ScheduleValues(TypedDict, total=False):
    """What a schedule may be given besides its name and its kind."""

    cron: str | None
    every: timedelta | float | None
    zone: str
    anchor: datetime | None
    start: datetime | None
    end: datetime | None
    jitter: timedelta | float
    payload: Any
    owner: str
    policy: str
    queue: str
    priority: int
    controls: tuple[str, ...]
    labels: dict[str, str]
    overlap: Overlap
    catch_up: CatchUp
    window: timedelta | float


class Schedule(Model):
    """A recurring job: when it is due, and what is then asked for. Spans are ``timedelta`` or seconds.

    Attributes:
        name: unique in the namespace, at most 200 characters.
        kind: what its jobs are registered under.
        cron: five fields: minute, hour, day of month, month, day of week; read in ``zone``.
        every: the distance of instants instead, at least one second; counted from ``anchor``, or from ``start``, or
            from 1970 (whole hours are then whole hours). Intervals know no daylight-saving time.
        zone: an IANA time zone.
        start: the first moment at which an instant may lie.
        end: the last one.
        jitter: each job is made up to so much later than its instant; how much is drawn from the name, once for all.
        payload: the jobs' input; its texts may name ``${instant}``, ``${local}``, ``${date}`` and ``${schedule}``.
        owner: whose jobs they are; it stays for as long as the name is known.
        policy: what each job is created with, as are ``queue``, ``priority``, ``controls`` and ``labels``.
        overlap: what becomes of an instant while the occurrence before it has not ended: ``skip``, ``queue`` (it
            waits), ``allow``.
        catch_up: what becomes of instants that nobody settled within a minute: ``none`` are fired, ``one`` (the
            newest), or ``all``; those older than ``window`` never.

    Raises:
        InvalidRequestError: a field is missing, unknown, or of another type. Contents are checked by ``put``.
    """

    if TYPE_CHECKING:

        def __init__(self, name: str, kind: str, **values: Unpack[ScheduleValues]) -> None:
            """Name and kind may be given by place."""

    else:

        def __init__(self, *given: Any, **values: Any) -> None:
            super().__init__(**dict(zip(("name", "kind"), given, strict=False)), **values)

    name: str
    kind: str
    cron: str | None = None
    every: Any = None
    zone: str = "UTC"
    anchor: datetime | None = None
    start: datetime | None = None
    end: datetime | None = None
    jitter: Any = timedelta(0)
    payload: Any = None
    owner: str = "default"
    policy: str = "default"
    queue: str = "default"
    priority: int = 0
    controls: tuple[str, ...] = Field(default=CONTROLS, strict=False)
    labels: dict[str, str] = Field(default_factory=dict)
    overlap: str = "skip"
    catch_up: str = "one"
    window: Any = WINDOW


def require_schedule_name(name: object) -> str:
    """Require a name that a schedule may have.

    Raises:
        InvalidRequestError: it is no text, empty, or too long.
        UnstorableValueError: it has NUL or a lone surrogate.
    """
    return require_text("Schedule.name", name, NAME_CHARACTERS_MAX)


def define(schedule: Schedule, calendar: Calendar) -> Definition:
    """Check every field of a schedule, and make the definition that is stored.

    Raises:
        InvalidRequestError: a field is out of its range, an expression or zone cannot be read (with the position), or
            fields contradict each other.
        UnstorableValueError: a text or the payload holds what no store may hold.
        PayloadTooLargeError: the payload template is larger than 64 KiB.
    """
    if not isinstance(schedule, Schedule):
        raise InvalidRequestError("schedule", f"a Schedule is needed, not {type(schedule).__name__}")
    require_schedule_name(schedule.name)
    _require_job(schedule)
    every = None if schedule.every is None else require_span("Schedule.every", schedule.every, EVERY_MIN, SPAN_MAX)
    _require_instants(schedule, calendar)
    definition = Definition(
        owner=schedule.owner,
        kind=schedule.kind,
        payload=_template(schedule),
        policy=schedule.policy,
        queue=schedule.queue,
        priority=schedule.priority,
        controls=schedule.controls,
        labels=dict(schedule.labels),
        cron=None if schedule.cron is None else " ".join(schedule.cron.split()),
        zone=schedule.zone,
        every=every,
        anchor=_instant("anchor", schedule.anchor),
        start=_instant("start", schedule.start),
        end=_instant("end", schedule.end),
        jitter=require_span("Schedule.jitter", schedule.jitter, timedelta(0), JITTER_MAX),
        overlap=_word("overlap", schedule.overlap, Overlap),
        catch_up=_word("catch_up", schedule.catch_up, CatchUp),
        window=require_span("Schedule.window", schedule.window, timedelta(minutes=1), SPAN_MAX),
    )
    if definition.start and definition.end and definition.end < definition.start:
        raise InvalidRequestError("Schedule.end", "it lies before the start; no instant is between them")
    return definition


def require_firing(definition: Definition, calendar: Calendar, after: datetime) -> datetime:
    """Require that a definition has an instant after one; answers the first.

    Raises:
        InvalidRequestError: it will never fire.
    """
    found = next_instant(definition, calendar, after)
    if found is None:
        field = "Schedule.cron" if definition.cron is not None else "Schedule.every"
        ending = f" before its end, {definition.end.isoformat()}" if definition.end else " within fifty years"
        raise InvalidRequestError(field, f"it never fires: no instant comes after {after.isoformat()}{ending}")
    return found


def _require_job(schedule: Schedule) -> None:
    """Require what every job is required of; the payload is checked as a template."""
    require_count("Schedule.labels", len(schedule.labels), LABELS_MAX - 1)
    if LABEL in schedule.labels:
        raise InvalidRequestError(f"Schedule.labels.{LABEL}", "that label is the schedule's own; choose another name")
    request = JobRequest(
        owner=schedule.owner,
        kind=schedule.kind,
        policy=schedule.policy,
        queue=schedule.queue,
        priority=schedule.priority,
        controls=schedule.controls,
        labels=schedule.labels,
    )
    prepare(request, job_id="", namespace="", policies={})


def _require_instants(schedule: Schedule, calendar: Calendar) -> None:
    if (schedule.cron is None) == (schedule.every is None):
        raise InvalidRequestError("Schedule", "give either cron=… or every=…")
    if schedule.cron is None:
        if schedule.zone != "UTC":
            calendar.require_zone(require_text("Schedule.zone", schedule.zone))
        return
    if schedule.anchor is not None:
        raise InvalidRequestError("Schedule.anchor", "only an interval has an anchor; leave it out beside cron")
    require_text("Schedule.cron", schedule.cron, CRON_CHARACTERS_MAX)
    calendar.require(schedule.cron, require_text("Schedule.zone", schedule.zone))


def _template(schedule: Schedule) -> Body:
    keep("Schedule.payload", schedule.payload)
    encoded = encode_json(schedule.payload)
    if len(encoded) > TEMPLATE_BYTES_MAX:
        raise PayloadTooLargeError(len(encoded), TEMPLATE_BYTES_MAX)
    require_template("Schedule.payload", schedule.payload)
    return Body(size=len(encoded), value=schedule.payload)


def _instant(field: str, given: datetime | None) -> datetime | None:
    return None if given is None else require_instant(f"Schedule.{field}", given)


def _word(field: str, given: str, words: Any) -> Any:
    known = get_args(words)
    if given not in known:
        raise InvalidRequestError(f"Schedule.{field}", f"one of {', '.join(known)} is needed, not {given!r:.50}")
    return given
