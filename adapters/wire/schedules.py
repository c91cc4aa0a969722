"""Schedules over HTTP: the definition that is put, its status, receipts, and what firing did."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, WithJsonSchema

from jobledger.adapters.wire.base import Instant, Json, Name, Seconds, Wire
from jobledger.adapters.wire.controls import ControlIn
from jobledger.adapters.wire.histories import EventOut
from jobledger.adapters.wire.jobs import Labels, Priority, RequestOut
from jobledger.domain.bounds import require_instant, require_span
from jobledger.domain.decisions.creating import CONTROLS
from jobledger.domain.job import Request
from jobledger.domain.schedule_events import EVERY_MIN, JITTER_MAX, WINDOW
from jobledger.domain.schedules.answers import BackfillReceipt, FiringReport, ScheduleReceipt, ScheduleStatus
from jobledger.domain.schedules.definition import CRON_CHARACTERS_MAX, Schedule
from jobledger.projections.schedules import ScheduleDifference, SchedulePage, ScheduleWindow

Cron = Annotated[
    str,
    WithJsonSchema({"type": "string", "maxLength": CRON_CHARACTERS_MAX, "examples": ["30 2 * * mon-fri"]}),
]
NIGHTLY: dict[str, Any] = {
    "owner": "search",
    "kind": "rebuild",
    "cron": "30 2 * * mon-fri",
    "zone": "Europe/Berlin",
    "payload": {"day": "${date}"},
    "overlap": "skip",
}
STANDING: dict[str, Any] = NIGHTLY | {
    "name": "nightly-rebuild",
    "namespace": "default",
    "every_s": None,
    "anchor": None,
    "start": None,
    "end": None,
    "jitter_s": 0,
    "policy": "default",
    "queue": "default",
    "priority": 0,
    "controls": list(CONTROLS),
    "labels": {},
    "catch_up": "one",
    "window_s": WINDOW.total_seconds(),
    "hold": None,
    "is_removed": False,
    "next_at": "2026-06-02T00:30:00Z",
    "due_at": "2026-06-02T00:30:00Z",
    "last_instant": None,
    "last_job_id": None,
    "fired": 0,
    "skipped": 0,
    "sequence": 1,
    "control_sequence": 1,
    "head": "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef",
    "created_at": "2026-06-01T12:00:00Z",
    "updated_at": "2026-06-01T12:00:00Z",
}


class ScheduleIn(Wire):
    """What is due when: either `cron`, read in `zone`, or `every_s`; and the job that is then made.

    Texts of the payload may name `${instant}`, `${local}`, `${date}` and `${schedule}`.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [NIGHTLY]})

    owner: Name | None = Field(default=None, description="Whose jobs they are. Default: the owner that the token has.")
    kind: Name
    cron: Cron | None = None
    every_s: Seconds | None = None
    zone: Name = "UTC"
    anchor: Instant | None = None
    start: Instant | None = None
    end: Instant | None = None
    jitter_s: Seconds = 0.0
    payload: Json = None
    policy: Name = "default"
    queue: Name = "default"
    priority: Priority = 0
    controls: list[str] = Field(default=list(CONTROLS))
    labels: Labels = Field(default={})
    overlap: str = Field(default="skip", description="`skip`, `queue` or `allow`.")
    catch_up: str = Field(default="one", description="`none`, `one` or `all`.")
    window_s: Seconds = WINDOW.total_seconds()

    @classmethod
    def to_send(cls, schedule: Schedule) -> dict[str, Any]:
        """The body that asks for a schedule; spans and instants are checked here, as they cannot travel as they are.

        Raises:
            InvalidRequestError: a span or an instant is none.
        """
        body = {name: value for name, value in dict(schedule).items() if name in cls.model_fields}
        body["controls"] = list(schedule.controls)
        for name in ("anchor", "start", "end"):
            at = getattr(schedule, name)
            body[name] = None if at is None else require_instant(f"Schedule.{name}", at).isoformat()
        every = None if schedule.every is None else require_span("Schedule.every", schedule.every, EVERY_MIN)
        jitter = require_span("Schedule.jitter", schedule.jitter, timedelta(0), JITTER_MAX)
        window = require_span("Schedule.window", schedule.window, timedelta(minutes=1))
        return body | {
            "every_s": None if every is None else every.total_seconds(),
            "jitter_s": jitter.total_seconds(),
            "window_s": window.total_seconds(),
        }

    def schedule(self, name: str, owner: str) -> Schedule:
        """The schedule as the store takes it.

        Raises:
            InvalidRequestError: a field is out of its range.
        """
        values: dict[str, Any] = dict(self)
        for field in ("every", "jitter", "window"):
            values[field] = values.pop(f"{field}_s")
        values.update(owner=owner, controls=tuple(self.controls))
        return Schedule(name, **values)


class ScheduleOut(Wire):
    """A schedule at one sequence: its definition, where it stands, and when it is due."""

    model_config = ConfigDict(json_schema_extra={"examples": [STANDING]})

    name: str
    namespace: str
    owner: str
    kind: str
    cron: str | None
    zone: str
    every_s: Seconds | None
    anchor: Instant | None
    start: Instant | None
    end: Instant | None
    jitter_s: Seconds
    payload: Json
    policy: str
    queue: str
    priority: int
    controls: list[str]
    labels: dict[str, str]
    overlap: str
    catch_up: str
    window_s: Seconds
    hold: RequestOut | None
    is_removed: bool
    next_at: Instant | None
    due_at: Instant | None
    last_instant: Instant | None
    last_job_id: str | None
    fired: int
    skipped: int
    sequence: int
    control_sequence: int
    head: str
    created_at: Instant
    updated_at: Instant

    @classmethod
    def of(cls, value: object) -> Self:
        """A status as the store gives it."""
        status: Any = value
        spans: dict[str, Any] = {
            "every_s": None if status.every is None else status.every.total_seconds(),
            "jitter_s": status.jitter.total_seconds(),
            "window_s": status.window.total_seconds(),
        }
        given: dict[str, Any] = {name: getattr(status, name) for name in cls.model_fields if name not in spans}
        hold = RequestOut.of(status.hold) if status.hold else None
        given |= {"controls": list(status.controls), "labels": dict(status.labels), "hold": hold}
        return cls(**given, **spans)

    def answer(self) -> ScheduleStatus:
        """The status as the store gives it."""
        values: dict[str, Any] = dict(self)
        every, jitter, window = (values.pop(name) for name in ("every_s", "jitter_s", "window_s"))
        values.update(
            controls=tuple(self.controls),
            hold=Request(**dict(self.hold)) if self.hold else None,
            every=None if every is None else timedelta(seconds=every),
            jitter=timedelta(seconds=jitter),
            window=timedelta(seconds=window),
        )
        return ScheduleStatus(**values)


class SchedulePageOut(Wire):
    """Schedules by name; `next_after` is null on the last page."""

    schedules: list[ScheduleOut]
    next_after: str | None

    def answer(self) -> SchedulePage:
        """The page as the store gives it."""
        return SchedulePage(tuple(each.answer() for each in self.schedules), self.next_after)


class ScheduleReceiptOut(Wire):
    """What a command left behind; `reused`: it stood like that already."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "nightly-rebuild", "sequence": 3, "next_at": "2026-06-02T00:30:00Z", "reused": False}]
        }
    )

    name: str
    sequence: int
    next_at: Instant | None
    reused: bool

    def answer(self) -> ScheduleReceipt:
        """The receipt as the store gives it."""
        return ScheduleReceipt(self.name, self.sequence, self.next_at, self.reused)


class ScheduleWindowOut(Wire):
    """A slice of a schedule's events; `next_after` goes on, `head` is the last sequence."""

    events: list[EventOut]
    next_after: int
    head: int

    def answer(self) -> ScheduleWindow:
        """The window as the store gives it."""
        return ScheduleWindow(tuple(each.answer() for each in self.events), self.next_after, self.head)


class UpcomingOut(Wire):
    """Instants to come, in UTC."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"instants": ["2026-06-02T00:30:00Z", "2026-06-03T00:30:00Z"]}]}
    )

    instants: list[Instant]

    def answer(self) -> tuple[datetime, ...]:
        """The instants as the store gives them."""
        return tuple(self.instants)


class DifferenceOut(Wire):
    """What putting a schedule would do, which fields would change, and the first instant that would follow."""

    name: str
    what: Literal["create", "change", "keep"]
    fields: list[str]
    next_at: Instant | None

    def answer(self) -> ScheduleDifference:
        """The difference as the store gives it."""
        return ScheduleDifference(self.name, self.what, tuple(self.fields), self.next_at)


class BackfillIn(ControlIn):
    """The past instants whose jobs are wanted, from `first` to `last`, both included."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "first": "2026-05-01T00:00:00Z",
                    "last": "2026-05-07T00:00:00Z",
                    "reason": "the source was mended",
                }
            ]
        }
    )

    first: Instant
    last: Instant


class UnmadeOut(Wire):
    """An instant whose job was refused, and why."""

    instant: Instant
    reason: str


class BackfillOut(Wire):
    """The jobs that a backfill made, how many instants had one already, and those whose job was refused."""

    name: str
    job_ids: list[str]
    reused: int
    refused: list[UnmadeOut]

    @classmethod
    def of(cls, value: object) -> Self:
        """A receipt as the store gives it."""
        receipt: Any = value
        refused = [UnmadeOut(instant=at, reason=reason) for at, reason in receipt.refused]
        return cls(name=receipt.name, job_ids=list(receipt.job_ids), reused=receipt.reused, refused=refused)

    def answer(self) -> BackfillReceipt:
        """The receipt as the store gives it."""
        refused = tuple((each.instant, each.reason) for each in self.refused)
        return BackfillReceipt(self.name, tuple(self.job_ids), self.reused, refused)


class FireIn(Wire):
    """How many schedules are settled at most."""

    limit: int = 10_000


class UnsettledOut(Wire):
    """A schedule that could not be settled, and why; nothing of it was changed."""

    name: str
    reason: str


class FiringOut(Wire):
    """What one call settled; `is_done` is false where it stopped at its limit."""

    fired: int
    skipped: int
    schedules: int
    failed: list[UnsettledOut]
    is_done: bool

    @classmethod
    def of(cls, value: object) -> Self:
        """A report as the store gives it."""
        report: Any = value
        failed = [UnsettledOut(name=name, reason=reason) for name, reason in report.failed]
        counts: dict[str, Any] = {name: getattr(report, name) for name in ("fired", "skipped", "schedules", "is_done")}
        return cls(failed=failed, **counts)

    def answer(self) -> FiringReport:
        """The report as the store gives it."""
        failed = tuple((each.name, each.reason) for each in self.failed)
        return FiringReport(self.fired, self.skipped, self.schedules, failed, self.is_done)


class NextDueOut(Wire):
    """When the first schedule is due (null: none is), and the store's own time, by which that counts."""

    due_at: Instant | None
    now: Instant


class MendedOut(Wire):
    """The names of the schedules whose rows differed from their events, and were mended."""

    mended: list[str]
