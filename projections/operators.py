"""The operators' log: who asked what of which job, schedule or group, why, and when; newest first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from jobledger.domain import events, queue_events, schedule_events
from jobledger.domain.job import ENGINE
from jobledger.projections.folding import Projection, Rows, newest_first, ordered

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobledger.domain.history import RecordedEvent
    from jobledger.domain.values import Json

EVERYBODY: Final = ""
"""What stands for all owners in a key; no owner has an empty name."""

# The kinds of rows: what an open job's actions are told by; actions by their time; and those of one operator.
JOB, ASKED, BY = "job", "asked", "by"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NAMESPACE, _OWNER, _IS_CANCEL_PENDING = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorAction:
    """One thing that an operator asked for, and that came into effect.

    ``asked`` is the command (``hold``, ``request_cancel``, ``put_schedule``, ``advance_epoch``, …). It stands in the
    history of ``stream`` at ``sequence``: a job's id, or else ``name`` says of which schedule or group it was asked.
    ``owner`` is the job's; empty where it was no job.
    """

    at: datetime
    by: str
    asked: str
    reason: str
    stream: str
    sequence: int
    name: str
    owner: str


# The fold -------------------------------------------------------------------------------------------------------------


def _created(rows: Rows, recorded: RecordedEvent) -> None:
    event: Any = recorded.event
    rows.put([event.namespace, event.owner, False], JOB, recorded.stream)
    origin = event.origin
    if origin is not None and origin.how != "occurrence":
        _tell(rows, recorded, origin.how, origin.by, origin.reason)


def _asks(asked: str) -> Callable[[Rows, RecordedEvent], None]:
    """A fold of an event of a job that an operator asked for."""

    def folded(rows: Rows, recorded: RecordedEvent) -> None:
        event: Any = recorded.event
        _tell(rows, recorded, asked, event.by, event.reason)

    return folded


def _cancel_requested(rows: Rows, recorded: RecordedEvent) -> None:
    event: Any = recorded.event
    _tell(rows, recorded, "request_cancel", event.by, event.reason)
    namespace, owner, _ = _job(rows, recorded)
    rows.put([namespace, owner, True], JOB, recorded.stream)


def _cancelled(rows: Rows, recorded: RecordedEvent) -> None:
    """A job that stops at a boundary, or is recovered, had been asked to before."""
    event: Any = recorded.event
    if not _job(rows, recorded)[_IS_CANCEL_PENDING]:
        _tell(rows, recorded, "request_cancel", event.by, event.reason)
    rows.drop(JOB, recorded.stream)


def _completed(rows: Rows, recorded: RecordedEvent) -> None:
    rows.drop(JOB, recorded.stream)


def _archived(rows: Rows, recorded: RecordedEvent) -> None:
    """Whoever took a job's events out of the log; the event that stands for them says whose job it was."""
    event: Any = recorded.event
    state = event.state
    if state is None or event.by == ENGINE:
        return
    action = {**_action(recorded, "archive", event.by, ""), "name": "", "owner": state["owner"]}
    for whose in (EVERYBODY, state["owner"]):
        _put(rows, state["namespace"], whose, action)


def _interrupted(rows: Rows, recorded: RecordedEvent) -> None:
    event: Any = recorded.event
    if event.by != ENGINE:
        _tell(rows, recorded, "recover", event.by, f"its lease was not live: {event.cause}")


def _of_name(asked: str) -> Callable[[Rows, RecordedEvent], None]:
    """A fold of an event of a schedule or group that an operator asked for."""

    def folded(rows: Rows, recorded: RecordedEvent) -> None:
        event: Any = recorded.event
        namespace, name = _named(recorded.stream)
        if event.by != ENGINE:
            action = _action(recorded, asked, event.by, getattr(event, "reason", ""))
            _put(rows, namespace, EVERYBODY, {**action, "name": name, "owner": ""})

    return folded


OPERATORS: Final = Projection(
    name="operators",
    version=1,
    folds={
        events.Created: _created,
        events.HoldPlaced: _asks("hold"),
        events.HoldReleased: _asks("release_hold"),
        events.Resumed: _asks("resume"),
        events.RetryRequested: _asks("retry"),
        events.CancelRequested: _cancel_requested,
        events.Cancelled: _cancelled,
        events.Completed: _completed,
        events.Archived: _archived,
        events.Interrupted: _interrupted,
        events.EpochAdvanced: _of_name("advance_epoch"),
        queue_events.QueueLimited: _of_name("limit_queue"),
        queue_events.QueueHeld: _of_name("hold_queue"),
        queue_events.QueueReleased: _of_name("release_queue"),
        schedule_events.ScheduleCreated: _of_name("put_schedule"),
        schedule_events.ScheduleChanged: _of_name("put_schedule"),
        schedule_events.ScheduleHeld: _of_name("hold_schedule"),
        schedule_events.ScheduleReleased: _of_name("release_schedule"),
        schedule_events.ScheduleFired: _of_name("trigger_schedule"),
        schedule_events.ScheduleRemoved: _of_name("remove_schedule"),
    },
)


def _job(rows: Rows, recorded: RecordedEvent) -> Json:
    job = rows.get(JOB, recorded.stream)
    if job is None:
        msg = f"job {recorded.stream} is not open here, and yet {recorded.name} follows"
        raise LookupError(msg)
    return job


def _tell(rows: Rows, recorded: RecordedEvent, asked: str, by: str, reason: str) -> None:
    job = _job(rows, recorded)
    action = {**_action(recorded, asked, by, reason), "name": "", "owner": job[_OWNER]}
    for whose in (EVERYBODY, job[_OWNER]):
        _put(rows, job[_NAMESPACE], whose, action)


def _action(recorded: RecordedEvent, asked: str, by: str, reason: str) -> Json:
    return {
        "at": (recorded.at - _EPOCH) // _MICROSECOND,
        "by": by,
        "asked": asked,
        "reason": reason,
        "stream": recorded.stream,
        "sequence": recorded.sequence,
    }


def _put(rows: Rows, namespace: str, whose: str, action: Json) -> None:
    place = (newest_first(action["at"]), action["stream"], ordered(action["sequence"]))
    rows.put(action, ASKED, namespace, whose, *place)
    rows.put(action, BY, namespace, whose, action["by"], *place)


def _named(stream: str) -> tuple[str, str]:
    """The namespace and the name that a stream of a schedule or group stands for."""
    _, length, names = stream.split(":", 2)
    return names[: int(length)], names[int(length) + 1 :]


# Reading the rows -----------------------------------------------------------------------------------------------------


def action_of(kept: Json) -> OperatorAction:
    """An action from its row."""
    return OperatorAction(**{**kept, "at": _EPOCH + kept["at"] * _MICROSECOND})
