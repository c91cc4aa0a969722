"""Workers: who holds what, since when, what became of their attempts, and which leases they lost."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from jobledger.domain import events
from jobledger.domain.events import Outcome
from jobledger.projections.folding import Projection, Rows, newest_first

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobledger.domain.history import RecordedEvent
    from jobledger.domain.ports import Loaded
    from jobledger.domain.values import Json

EVERYBODY: Final = ""
"""What stands for all owners in a key; no owner has an empty name."""

LOST_SHOWN: Final = 5
"""How many lost leases are told of each worker: the newest."""

# The kinds of rows: an open job and who holds it; workers by name, by when they were last seen, and those that hold
# something; and what each holds.
JOB, WORKER, RECENT, BUSY, HELD = "job", "worker", "recent", "busy", "held"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NAMESPACE, _OWNER, _QUEUE, _KIND, _WORKER, _GENERATION = range(6)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLease:
    """A job that a worker holds by what the events say; ``expires_at`` is that of the lease row now.

    It is ``None`` where the attempt has ended since the projection read on.
    """

    job_id: str
    generation: int
    owner: str
    queue: str
    kind: str
    since: datetime
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LostLease:
    """An attempt that was ended by somebody else, since its lease had run out or its epoch was over."""

    job_id: str
    generation: int
    at: datetime
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """A worker by its name: what it holds, and what became of all the attempts that it claimed.

    ``last_seen_at`` is its last claim or end of an attempt; reports and renewals in between do not count.
    ``lost`` leases had run out, ``fenced`` ones were of an epoch that was over; ``renewed_late`` came back in time.
    """

    worker: str
    group: str
    epoch: int
    first_seen_at: datetime
    last_seen_at: datetime
    holding: int
    held: tuple[HeldLease, ...]
    attempts: int
    finished: dict[Outcome, int]
    failed: int
    paused: int
    lost: int
    fenced: int
    renewed_late: int
    last_lost: tuple[LostLease, ...]


# The fold -------------------------------------------------------------------------------------------------------------


def _created(rows: Rows, recorded: RecordedEvent) -> None:
    event = cast("events.Created", recorded.event)
    rows.put([event.namespace, event.owner, event.queue, event.kind, None, 0], JOB, recorded.stream)


def _claimed(rows: Rows, recorded: RecordedEvent) -> None:
    event, job = cast("events.Claimed", recorded.event), _job(rows, recorded)
    job[_WORKER], job[_GENERATION] = event.worker, event.generation
    rows.put(job, JOB, recorded.stream)
    at_us = _us(event.at)
    lease = {
        "job_id": recorded.stream,
        "generation": event.generation,
        "owner": job[_OWNER],
        "queue": job[_QUEUE],
        "kind": job[_KIND],
        "since": at_us,
    }
    for whose, kept in _seen(rows, job, at_us):
        kept["group"], kept["epoch"] = event.group, event.epoch
        kept["attempts"] += 1
        kept["holding"] += 1
        rows.put(event.worker, BUSY, job[_NAMESPACE], whose, event.worker)
        rows.put(lease, HELD, job[_NAMESPACE], whose, event.worker, recorded.stream)


def _let_go(rows: Rows, job: Json, stream: str, at_us: int | None) -> Iterator[Json]:
    """The rows of the worker that held a job, which it holds no longer; it was seen at an instant, or not at all."""
    worker = job[_WORKER]
    if worker is None:
        return
    for whose, kept in _seen(rows, job, at_us):
        kept["holding"] -= 1
        rows.drop(HELD, job[_NAMESPACE], whose, worker, stream)
        if not kept["holding"]:
            rows.drop(BUSY, job[_NAMESPACE], whose, worker)
        yield kept
    job[_WORKER] = None


def _interrupted(rows: Rows, recorded: RecordedEvent) -> None:
    event, job = cast("events.Interrupted", recorded.event), _job(rows, recorded)
    lost = [recorded.stream, event.generation, _us(event.at), event.cause]
    for kept in _let_go(rows, job, recorded.stream, None):
        kept["lost" if event.cause == "lease_expired" else "fenced"] += 1
        kept["last_lost"] = [lost, *kept["last_lost"]][:LOST_SHOWN]
    rows.put(job, JOB, recorded.stream)


def _attempt_failed(rows: Rows, recorded: RecordedEvent) -> None:
    _parked(rows, recorded, "failed")


def _paused(rows: Rows, recorded: RecordedEvent) -> None:
    _parked(rows, recorded, "paused")


def _parked(rows: Rows, recorded: RecordedEvent, field: str) -> None:
    job = _job(rows, recorded)
    for kept in _let_go(rows, job, recorded.stream, _us(recorded.at)):
        kept[field] += 1
    rows.put(job, JOB, recorded.stream)


def _renewed_late(rows: Rows, recorded: RecordedEvent) -> None:
    job = _job(rows, recorded)
    if job[_WORKER] is not None:
        for _, kept in _seen(rows, job, _us(recorded.at)):
            kept["renewed_late"] += 1


def _finished(rows: Rows, recorded: RecordedEvent) -> None:
    event, job = recorded.event, _job(rows, recorded)
    outcome = event.outcome.value if isinstance(event, events.Completed) else Outcome.CANCELLED.value
    for kept in _let_go(rows, job, recorded.stream, _us(recorded.at)):
        kept["finished"][outcome] = kept["finished"].get(outcome, 0) + 1
    rows.drop(JOB, recorded.stream)


WORKERS: Final = Projection(
    name="workers",
    version=1,
    folds={
        events.Created: _created,
        events.Claimed: _claimed,
        events.LeaseRenewedLate: _renewed_late,
        events.Interrupted: _interrupted,
        events.AttemptFailed: _attempt_failed,
        events.Paused: _paused,
        events.Cancelled: _finished,
        events.Completed: _finished,
    },
)


def _job(rows: Rows, recorded: RecordedEvent) -> Any:
    job = rows.get(JOB, recorded.stream)
    if job is None:
        msg = f"job {recorded.stream} is not open here, and yet {recorded.name} follows"
        raise LookupError(msg)
    return job


def _seen(rows: Rows, job: Json, at_us: int | None) -> Iterator[tuple[str, Json]]:
    """The rows of the worker that has a job, for everybody and for its owner, seen at an instant (``None``: not)."""
    namespace, worker = job[_NAMESPACE], job[_WORKER]
    for whose in (EVERYBODY, job[_OWNER]):
        kept: Json = rows.get(WORKER, namespace, whose, worker)
        if kept is None:
            counts = dict.fromkeys(("holding", "attempts", "failed", "paused", "lost", "fenced", "renewed_late"), 0)
            first = {"worker": worker, "group": "", "epoch": 0, "first": at_us or 0, "last": at_us or 0}
            kept = {**first, **counts, "finished": {}, "last_lost": []}
        else:
            rows.drop(RECENT, namespace, whose, newest_first(kept["last"]), worker)
        kept["last"] = max(at_us or 0, kept["last"])
        rows.put(worker, RECENT, namespace, whose, newest_first(kept["last"]), worker)
        rows.put(kept, WORKER, namespace, whose, worker)
        yield whose, kept


def _us(instant: datetime) -> int:
    return (instant - _EPOCH) // _MICROSECOND


def _instant(at_us: int) -> datetime:
    return _EPOCH + at_us * _MICROSECOND


# Reading the rows -----------------------------------------------------------------------------------------------------


def worker_of(kept: Json, held: tuple[HeldLease, ...]) -> WorkerStatus:
    """A worker from its row, and what it holds."""
    return WorkerStatus(
        worker=kept["worker"],
        group=kept["group"],
        epoch=kept["epoch"],
        first_seen_at=_instant(kept["first"]),
        last_seen_at=_instant(kept["last"]),
        holding=kept["holding"],
        held=held,
        attempts=kept["attempts"],
        finished={outcome: kept["finished"].get(outcome.value, 0) for outcome in Outcome},
        failed=kept["failed"],
        paused=kept["paused"],
        lost=kept["lost"],
        fenced=kept["fenced"],
        renewed_late=kept["renewed_late"],
        last_lost=tuple(
            LostLease(job_id=job_id, generation=generation, at=_instant(at_us), cause=cause)
            for job_id, generation, at_us, cause in kept["last_lost"]
        ),
    )


def lease_of(kept: Json, loaded: Loaded | None) -> HeldLease:
    """What a worker holds from its row, with the expiry of the lease row, if that is still the same attempt's."""
    is_same = loaded is not None and loaded.lease is not None and loaded.lease.generation == kept["generation"]
    expires_at = loaded.lease.expires_at if is_same and loaded and loaded.lease else None
    names: dict[str, Any] = {**kept, "since": _instant(kept["since"])}
    return HeldLease(**names, expires_at=expires_at)
