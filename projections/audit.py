"""Verification: walk a history, check every digest, fence and rule, and compare the fold with the status row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from jobledger.domain import events
from jobledger.domain.errors import HistoryCorruptError
from jobledger.domain.history import read
from jobledger.domain.job import Job, State
from jobledger.domain.replaying import PAGE, advance
from jobledger.domain.values import is_body

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from jobledger.domain.history import RecordedEvent, StoredRecord
    from jobledger.domain.ports import Loaded, Reader


@dataclass(frozen=True, slots=True)
class Problem:
    """One rule that a history breaks, at which sequence (0: in the rows beside it)."""

    sequence: int
    rule: str
    text: str


@dataclass(frozen=True, slots=True)
class Verification:
    """The answer of a verification: whether all holds, how many events were walked, and each problem found."""

    job_id: str
    events: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether every digest, fence and rule holds."""
        return not self.problems


PROBLEMS_MAX: Final = 100


@dataclass(slots=True)
class _Walk:
    """What a verification has seen so far."""

    job: Job | None = None
    head: str = ""
    count: int = 0
    units: set[str] = field(default_factory=set[str])
    expiry: datetime | None = None
    problems: list[Problem] = field(default_factory=list[Problem])

    def report(self, sequence: int, rule: str, text: str) -> None:
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(Problem(sequence, rule, text))


def verify(reader: Reader, job_id: str, loaded: Loaded | None) -> Verification:
    """Walk one job's history from its first event to its head.

    It answers, it does not raise: what cannot be read is a problem of the history.
    """
    walk = _Walk()
    try:
        for stored in _stored(reader, job_id):
            _check(reader, walk, stored)
    except HistoryCorruptError as corrupt:
        walk.report(corrupt.sequence, "readable", corrupt.problem)
    if not walk.count and not walk.problems:
        walk.report(0, "created", "the job has no events")
    if loaded is None:
        walk.report(0, "status_row", "the job has no status row")
    elif not any(problem.rule == "readable" for problem in walk.problems):
        _check_rows(reader, walk, loaded)
    return Verification(job_id, walk.count, tuple(walk.problems))


def _stored(reader: Reader, job_id: str) -> Iterator[StoredRecord]:
    after = 0
    while page := reader.records(job_id, after=after, limit=PAGE):
        yield from page
        after = page[-1].sequence


def _check(reader: Reader, walk: _Walk, stored: StoredRecord) -> None:
    """Check one record against everything before it, then fold it."""
    if stored.sequence != walk.count + 1:
        walk.report(stored.sequence, "contiguous", f"the event follows sequence {walk.count}")
    recorded = read(stored)
    if recorded.previous != walk.head:
        walk.report(stored.sequence, "chained", "it does not carry the digest of the event before it")
    if (recorded.command_id or None) != (stored.command_id or None):
        walk.report(stored.sequence, "command", "the command id beside the event is not the one in it")
    before, after = walk.job, advance(walk.job, recorded)
    for rule, broken in RULES.items():
        if text := broken(walk, before, recorded, after):
            walk.report(stored.sequence, rule, text)
    if isinstance(recorded.event, events.UnitRecorded):
        walk.units.add(recorded.event.unit)
    if getattr(recorded.event, "expires_at", None) and not isinstance(recorded.event, events.Interrupted):
        walk.expiry = recorded.event.expires_at  # type: ignore[attr-defined]  # just looked at
    _check_bodies(reader, walk, recorded)
    walk.job, walk.head, walk.count = after, stored.digest, stored.sequence


def _check_bodies(reader: Reader, walk: _Walk, recorded: RecordedEvent) -> None:
    """Bytes kept aside must be those of their digest; checkpoints may be dropped, nothing else."""
    for name in ("payload", "result", "receipt", "state", "checkpoint", "boundary"):
        body = getattr(recorded.event, name, None)
        if body is None or not getattr(body, "digest", ""):
            continue
        encoded = reader.body(recorded.stream, body.digest)
        if encoded is None and name not in ("state", "checkpoint"):
            walk.report(recorded.sequence, "body", f"the bytes of its {name} are missing")
        if encoded is not None and not is_body(body.digest, encoded):
            walk.report(recorded.sequence, "body", f"the bytes of its {name} are not those that were recorded")


# Rules of one step: each answers what is wrong, or nothing -----------------------------------------------------------


def _created_once(walk: _Walk, before: Job | None, recorded: RecordedEvent, _: Job) -> str | None:
    is_created = isinstance(recorded.event, events.Created)
    if is_created and recorded.event.job_id != recorded.stream:  # type: ignore[attr-defined]  # a Created
        return "it was created under another id"
    return None if is_created == (before is None and not walk.count) else "a job is created once, by its first event"


def _time_grows(_walk: _Walk, before: Job | None, recorded: RecordedEvent, _: Job) -> str | None:
    if before is not None and recorded.at < before.updated_at:
        return f"its time {recorded.at.isoformat()} lies before that of the event before it"
    return None


def _ends_once(_walk: _Walk, before: Job | None, recorded: RecordedEvent, _: Job) -> str | None:
    if before is None or not before.is_terminal or isinstance(recorded.event, events.Archived | events.Erased):
        return None
    return f"the job had ended as {before.state}"


def _generations_count(_walk: _Walk, before: Job | None, recorded: RecordedEvent, _: Job) -> str | None:
    if before is None or not isinstance(recorded.event, events.Claimed):
        return None
    if before.attempt is not None:
        return f"generation {before.generation} was still open"
    if recorded.event.generation != before.generation + 1:
        return f"generation {recorded.event.generation} follows {before.generation}"
    return None


def _only_the_open_one_writes(_walk: _Walk, before: Job | None, recorded: RecordedEvent, _: Job) -> str | None:
    if before is None or isinstance(recorded.event, events.Claimed) or recorded.generation is None:
        return None
    if before.attempt is None or recorded.generation != before.generation:
        return f"generation {recorded.generation} writes while {before.generation or 'none'} is the current one"
    return None


def _live_leases_are_kept(walk: _Walk, _before: Job | None, recorded: RecordedEvent, _: Job) -> str | None:
    event = recorded.event
    if not isinstance(event, events.Interrupted) or event.cause != "lease_expired":
        return None
    if event.at < event.expires_at:
        return f"the lease that was interrupted lived until {event.expires_at.isoformat()}"
    if walk.expiry is not None and event.expires_at < walk.expiry:
        return f"it saw an expiry before the recorded one, {walk.expiry.isoformat()}"
    return None


def _expiries_grow(walk: _Walk, _before: Job | None, recorded: RecordedEvent, _: Job) -> str | None:
    event, expiry = recorded.event, getattr(recorded.event, "expires_at", None)
    if expiry is None or isinstance(event, events.Interrupted):
        return None
    if expiry <= event.at:
        return "it grants a lease that has ended already"
    if walk.expiry is not None and not isinstance(event, events.Claimed) and expiry < walk.expiry:
        return "it shortens a lease"
    return None


def _units_are_unique(walk: _Walk, _before: Job | None, recorded: RecordedEvent, _: Job) -> str | None:
    if isinstance(recorded.event, events.UnitRecorded) and recorded.event.unit in walk.units:
        return f"unit {recorded.event.unit!r} was recorded before"
    return None


def _states_are_honest(_walk: _Walk, before: Job | None, recorded: RecordedEvent, after: Job) -> str | None:
    if after.hold and not after.is_terminal and after.state not in (State.RUNNING, State.PAUSED):
        return "held, but neither running nor paused"
    between = isinstance(recorded.event, events.Interrupted) and before is not None and before.cancel is not None
    if after.cancel and after.state is not State.RUNNING and not between:
        return "a cancel request is pending, but nothing runs"
    if (after.attempt is not None) != (after.state is State.RUNNING):
        return "an attempt is open exactly while the job runs"
    return None


RULES: Final[dict[str, Callable[[_Walk, Job | None, RecordedEvent, Job], str | None]]] = {
    "created": _created_once,
    "time": _time_grows,
    "terminal": _ends_once,
    "generation": _generations_count,
    "fence": _only_the_open_one_writes,
    "live_lease": _live_leases_are_kept,
    "expiry": _expiries_grow,
    "unit": _units_are_unique,
    "state": _states_are_honest,
}
"""Every rule that one event can break, by the name under which a problem is reported."""


# Rows beside the history ---------------------------------------------------------------------------------------------


def _check_rows(reader: Reader, walk: _Walk, loaded: Loaded) -> None:
    job, row = walk.job, loaded.job
    if row != job:
        text = f"it stands at sequence {row.sequence}, the events fold to {job.sequence if job else 0}"
        walk.report(0, "status_row", f"the status row is not the fold of the events ({text})")
    if loaded.head != walk.head:
        walk.report(0, "head", "the status row's head is not the digest of the last event")
    if job is not None and (loaded.lease is not None) != (job.attempt is not None):
        walk.report(0, "lease_row", "the lease row stands exactly while an attempt is open")
    if loaded.lease is not None and job is not None and loaded.lease.generation != job.generation:
        walk.report(0, "lease_row", "the lease row is of another generation")
    _check_units(reader, walk, job)
    kept = job and reader.snapshot(job.id, job.sequence)
    if kept and job and kept.sequence == job.sequence and kept != job:
        walk.report(kept.sequence, "snapshot", "the kept state is not the fold of the events")


def _check_units(reader: Reader, walk: _Walk, job: Job | None) -> None:
    if job is None:
        return
    after, seen, missing = None, 0, set(walk.units)
    while page := reader.units(job.id, after=after, limit=PAGE):
        after, seen = page[-1].unit, seen + len(page)
        missing.difference_update(row.unit for row in page)
    if missing or seen != job.units:
        walk.report(0, "unit_rows", f"{seen} unit receipts stand, the events tell of {job.units}")
