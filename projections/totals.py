"""Totals by owner, queue and kind: what was created, what stands where, how work ended, and how long it took."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from jobledger.domain import events
from jobledger.domain.events import Outcome
from jobledger.domain.job import State
from jobledger.projections.folding import Projection, Rows, ordered
from jobledger.projections.histograms import SECOND_US, Histogram, add_duration, histogram, no_durations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jobledger.domain.history import RecordedEvent
    from jobledger.domain.values import Json

EVERYBODY: Final = ""
"""What stands for all owners in a key; no owner has an empty name."""

MINUTES: Final = 1_500
"""How many minutes are kept: a little more than a day. Days are kept for ever."""

# The kinds of rows: what an open job is in the middle of; totals; how many queued jobs are due at a second; and what
# happened within a minute and within a day.
JOB, TOTAL, DUE, MINUTE, DAY = "job", "total", "due", "minute", "day"

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MINUTE_US: Final = 60 * SECOND_US
_DAY_US: Final = 24 * 60 * _MINUTE_US

# The fields of an open job's row, which is a list: names, then what changes.
_NAMESPACE, _OWNER, _QUEUE, _KIND, _CREATED_US, _STATE, _IS_HELD, _READY_US, _CLAIMED_US = range(9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """The jobs of one queue and kind: all that ever were, and how they stand.

    ``oldest_ready_at`` is since when the longest waiting of the queued jobs is due, to the second below; it may lie in
    the future. ``attempts`` counts claims, of which ``failed`` ended with an error and ``interrupted`` without a word.
    ``waited`` is from due to claimed, ``ran`` the length of an attempt, ``took`` from created to ended.
    """

    queue: str
    kind: str
    created: int
    queued: int
    running: int
    paused: int
    finished: dict[Outcome, int]
    oldest_ready_at: datetime | None
    attempts: int
    failed: int
    interrupted: int
    waited: Histogram
    ran: Histogram
    took: Histogram


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What happened within one minute or day, which begins at ``start``: jobs created, attempts, and jobs finished."""

    start: datetime
    created: int
    attempts: int
    finished: dict[Outcome, int]


# The fold -------------------------------------------------------------------------------------------------------------


def _created(rows: Rows, recorded: RecordedEvent) -> None:
    event = cast("events.Created", recorded.event)
    at_us, ready_us = _us(event.at), _us(event.ready_at)
    names = [event.namespace, event.owner, event.queue, event.kind]
    job: list[Any] = [*names, at_us, State.QUEUED.value, False, ready_us, None]
    rows.put(job, JOB, recorded.stream)
    for kept in _kept(rows, job, at_us):
        kept["created"] += 1
    _count(rows, job, State.QUEUED.value, 1)


def _claimed(rows: Rows, recorded: RecordedEvent, job: list[Any]) -> None:
    at_us = _us(recorded.event.at)
    was_queued, waited_us = job[_STATE] == State.QUEUED, at_us - job[_READY_US]
    for kept in _kept(rows, job, at_us):
        kept["attempts"] += 1
        if was_queued and "waited" in kept:
            add_duration(kept["waited"], waited_us)
    _stand(rows, job, State.RUNNING)
    job[_CLAIMED_US] = at_us


def _ended_attempt(rows: Rows, job: list[Any], at_us: int, field: str | None) -> None:
    """Count an attempt that ended, if one was open."""
    if job[_CLAIMED_US] is None:
        return
    for total in _totals(rows, job):
        add_duration(total["ran"], at_us - job[_CLAIMED_US])
        if field is not None:
            total[field] += 1
    job[_CLAIMED_US] = None


def _interrupted(rows: Rows, recorded: RecordedEvent, job: list[Any]) -> None:
    _ended_attempt(rows, job, _us(recorded.event.at), "interrupted")
    _stand(rows, job, State.PAUSED)


def _attempt_failed(rows: Rows, recorded: RecordedEvent, job: list[Any]) -> None:
    event = cast("events.AttemptFailed", recorded.event)
    _ended_attempt(rows, job, _us(event.at), "failed")
    _stand(rows, job, State.PAUSED if job[_IS_HELD] else State.QUEUED, _us(event.retry_at))


def _paused(rows: Rows, recorded: RecordedEvent, job: list[Any]) -> None:
    event = cast("events.Paused", recorded.event)
    _ended_attempt(rows, job, _us(event.at), None)
    _stand(rows, job, State.PAUSED, _us(event.ready_at))


def _hold_placed(rows: Rows, _: RecordedEvent, job: list[Any]) -> None:
    job[_IS_HELD] = True
    _stand(rows, job, State(job[_STATE]) if job[_STATE] == State.RUNNING else State.PAUSED)


def _hold_released(_: Rows, __: RecordedEvent, job: list[Any]) -> None:
    job[_IS_HELD] = False


def _resumed(rows: Rows, _: RecordedEvent, job: list[Any]) -> None:
    _stand(rows, job, State.QUEUED)


def _retry_requested(rows: Rows, recorded: RecordedEvent, job: list[Any]) -> None:
    _stand(rows, job, State(job[_STATE]), _us(recorded.event.at))


def _finished(rows: Rows, recorded: RecordedEvent, job: list[Any]) -> None:
    event = recorded.event
    outcome = event.outcome if isinstance(event, events.Completed) else Outcome.CANCELLED
    at_us = _us(event.at)
    _ended_attempt(rows, job, at_us, None)
    _count(rows, job, job[_STATE], -1)
    for kept in _kept(rows, job, at_us):
        kept["finished"][outcome.value] = kept["finished"].get(outcome.value, 0) + 1
        if "took" in kept:
            add_duration(kept["took"], at_us - job[_CREATED_US])


def _of_job(fold: Callable[[Rows, RecordedEvent, list[Any]], None]) -> Callable[[Rows, RecordedEvent], None]:
    """A fold of an event of a job that was created and has not ended; its row is written back."""

    def folded(rows: Rows, recorded: RecordedEvent) -> None:
        job = rows.get(JOB, recorded.stream)
        if job is None:
            msg = f"job {recorded.stream} is not open here, and yet {recorded.name} follows"
            raise LookupError(msg)
        fold(rows, recorded, job)
        if fold is _finished:
            rows.drop(JOB, recorded.stream)
        else:
            rows.put(job, JOB, recorded.stream)

    return folded


TOTALS: Final = Projection(
    name="totals",
    version=1,
    folds={
        events.Created: _created,
        events.Claimed: _of_job(_claimed),
        events.Interrupted: _of_job(_interrupted),
        events.AttemptFailed: _of_job(_attempt_failed),
        events.Paused: _of_job(_paused),
        events.HoldPlaced: _of_job(_hold_placed),
        events.HoldReleased: _of_job(_hold_released),
        events.Resumed: _of_job(_resumed),
        events.RetryRequested: _of_job(_retry_requested),
        events.Cancelled: _of_job(_finished),
        events.Completed: _of_job(_finished),
    },
)
"""What checkpoints, units, progress and renewals say changes no total."""


# How the fold counts --------------------------------------------------------------------------------------------------


def _stand(rows: Rows, job: list[Any], state: State, ready_us: int | None = None) -> None:
    """Let a job stand in another state, or be due at another time."""
    if job[_STATE] == state.value and ready_us in (None, job[_READY_US]):
        return
    _count(rows, job, job[_STATE], -1)
    job[_STATE] = state.value
    job[_READY_US] = job[_READY_US] if ready_us is None else ready_us
    _count(rows, job, job[_STATE], 1)


def _count(rows: Rows, job: list[Any], state: str, one: int) -> None:
    """Count a job in a state, or no longer; a queued one also under the second at which it is due."""
    for total in _totals(rows, job):
        total[state] += one
    if state != State.QUEUED:
        return
    second = ordered(job[_READY_US] // SECOND_US)
    for whose in (EVERYBODY, job[_OWNER]):
        key = (DUE, job[_NAMESPACE], whose, job[_QUEUE], job[_KIND], second)
        count = (rows.get(*key) or 0) + one
        if count:
            rows.put(count, *key)
        else:
            rows.drop(*key)


def _totals(rows: Rows, job: list[Any]) -> Iterator[Json]:
    """The totals that a job belongs to: those of everybody, and those of its owner."""
    for whose in (EVERYBODY, job[_OWNER]):
        key = (TOTAL, job[_NAMESPACE], whose, job[_QUEUE], job[_KIND])
        total = rows.get(*key) or _no_total(job)
        rows.put(total, *key)
        yield total


def _kept(rows: Rows, job: list[Any], at_us: int) -> Iterator[Json]:
    """The totals that a job belongs to, and what happened within the minute and the day of an instant."""
    yield from _totals(rows, job)
    for whose in (EVERYBODY, job[_OWNER]):
        minute = at_us // _MINUTE_US
        place = (MINUTE, job[_NAMESPACE], whose, f"{minute % MINUTES:04d}", job[_QUEUE], job[_KIND])
        yield from _within(rows, job, minute, place)
        day = at_us // _DAY_US
        yield from _within(rows, job, day, (DAY, job[_NAMESPACE], whose, ordered(day), job[_QUEUE], job[_KIND]))


def _within(rows: Rows, job: list[Any], number: int, key: tuple[str, ...]) -> Iterator[Json]:
    """What happened within a minute or a day; what stood in its place a day ago makes room, what is older has none."""
    kept: Json = rows.get(*key)
    if kept is None or kept["at"] < number:
        names = {"queue": job[_QUEUE], "kind": job[_KIND]}
        kept = {**names, "at": number, "created": 0, "attempts": 0, "finished": {}}
    if kept["at"] == number:
        rows.put(kept, *key)
        yield kept


def _no_total(job: list[Any]) -> Json:
    counts: Json = dict.fromkeys(("created", "queued", "running", "paused", "attempts", "failed", "interrupted"), 0)
    durations = {name: no_durations() for name in ("waited", "ran", "took")}
    return {"queue": job[_QUEUE], "kind": job[_KIND], **counts, "finished": {}, **durations}


def _us(instant: datetime) -> int:
    return (instant - EPOCH) // _MICROSECOND


# Reading the rows -----------------------------------------------------------------------------------------------------


def total_of(kept: Json, oldest_second: int | None) -> Total:
    """A total from its row, and from the first second at which one of its jobs is due."""
    return Total(
        queue=kept["queue"],
        kind=kept["kind"],
        created=kept["created"],
        queued=kept["queued"],
        running=kept["running"],
        paused=kept["paused"],
        finished=by_outcome(kept),
        oldest_ready_at=None if oldest_second is None else EPOCH + timedelta(seconds=oldest_second),
        attempts=kept["attempts"],
        failed=kept["failed"],
        interrupted=kept["interrupted"],
        waited=histogram(kept["waited"]),
        ran=histogram(kept["ran"]),
        took=histogram(kept["took"]),
    )


def add_pace(summed: dict[int, Json], kept: Json) -> None:
    """Add what happened in one queue and kind to what happened in all of them at that time."""
    into = summed.setdefault(kept["at"], {"at": kept["at"], "created": 0, "attempts": 0, "finished": {}})
    into["created"] += kept["created"]
    into["attempts"] += kept["attempts"]
    for outcome, count in kept["finished"].items():
        into["finished"][outcome] = into["finished"].get(outcome, 0) + count


def pace_of(kept: Json, span: timedelta) -> Pace:
    """What happened within the minute or day of a number, from its row."""
    start = EPOCH + kept["at"] * span
    return Pace(start=start, created=kept["created"], attempts=kept["attempts"], finished=by_outcome(kept))


def by_outcome(kept: Json) -> dict[Outcome, int]:
    """How many ended in each way; every outcome is there, also with 0."""
    return {outcome: kept["finished"].get(outcome.value, 0) for outcome in Outcome}
