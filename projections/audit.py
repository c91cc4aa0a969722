"""Verification: walk a history, check every digest, fence and rule, and compare the fold with the status row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobledger.domain import events
from jobledger.domain.decisions.claiming import claimable
from jobledger.domain.errors import HistoryCorruptError
from jobledger.domain.history import read
from jobledger.domain.replaying import PAGE, advance
from jobledger.domain.values import encode_json, is_body
from jobledger.projections.rules import RULES, Problem, Walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobledger.domain.history import RecordedEvent, StoredRecord
    from jobledger.domain.job import Job
    from jobledger.domain.ports import Loaded, Reader
    from jobledger.domain.values import Body


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


def verify(reader: Reader, job_id: str) -> Verification:
    """Walk one job's history from its first event to its head, then compare the rows beside it.

    It answers, it does not raise: what cannot be read is a problem of the history.
    """
    walk, loaded = Walk(), None
    try:
        loaded = reader.load([job_id]).get(job_id)
    except HistoryCorruptError as corrupt:
        walk.report(0, "status_row", corrupt.problem)
    try:
        for stored in _stored(reader, job_id):
            _check(reader, walk, stored)
    except HistoryCorruptError as corrupt:
        walk.report(corrupt.sequence, "readable", corrupt.problem)
    if not walk.count and not walk.problems:
        walk.report(0, "created", "the job has no events")
    if loaded is None and not walk.problems:
        walk.report(0, "status_row", "the job has no status row")
    elif loaded is not None and not any(problem.rule == "readable" for problem in walk.problems):
        try:
            _check_rows(reader, walk, loaded)
        except HistoryCorruptError as corrupt:
            walk.report(corrupt.sequence, "readable", corrupt.problem)
    return Verification(job_id, walk.count, tuple(walk.problems))


def _stored(reader: Reader, job_id: str) -> Iterator[StoredRecord]:
    after = 0
    while page := reader.records(job_id, after=after, limit=PAGE):
        yield from page
        after = page[-1].sequence


def _check(reader: Reader, walk: Walk, stored: StoredRecord) -> None:
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
        walk.units[recorded.event.unit] = recorded.event.receipt
    for effect in getattr(recorded.event, "effects", ()):
        walk.effects[effect.resource] = effect
    if after.sequence % after.policy.window_step == 0 and reader.snapshot(after.id, after.sequence) != after:
        walk.report(stored.sequence, "snapshot", "the state that is kept for windows is not the fold of the events")
    if getattr(recorded.event, "expires_at", None) and not isinstance(recorded.event, events.Interrupted):
        walk.expiry = recorded.event.expires_at  # type: ignore[attr-defined]  # just looked at
    _check_bodies(reader, walk, recorded)
    walk.job, walk.head, walk.count = after, stored.digest, stored.sequence


def _check_bodies(reader: Reader, walk: Walk, recorded: RecordedEvent) -> None:
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


# Rows beside the history ---------------------------------------------------------------------------------------------


def _check_rows(reader: Reader, walk: Walk, loaded: Loaded) -> None:
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
    if job is not None and not reader.is_found_by(job, claimable(job), walk.head):
        walk.report(0, "columns", "what the store finds the job by does not follow from its state")
    if loaded.lease is not None and walk.expiry is not None and loaded.lease.expires_at < walk.expiry:
        walk.report(0, "lease_row", f"the lease row ends before the expiry on record, {walk.expiry.isoformat()}")
    if job is not None:
        if job.checkpoint and job.checkpoint.digest and reader.body(job.id, job.checkpoint.digest) is None:
            walk.report(job.checkpoint_sequence or 0, "body", "the bytes of its current checkpoint are missing")
        _check_units(reader, walk, job)
        _check_resources(reader, walk, job)


def _check_units(reader: Reader, walk: Walk, job: Job) -> None:
    """Every unit of the events has its receipt, byte for byte; a derived job has those of its origin besides."""
    after, seen, missing = None, 0, dict(walk.units)
    while page := reader.units(job.id, after=after, limit=PAGE):
        after, seen = page[-1].unit, seen + len(page)
        for row in page:
            recorded = missing.pop(row.unit, None)
            if recorded is not None and not recorded.is_same(row.receipt):
                walk.report(0, "unit_rows", f"the receipt of unit {row.unit!r} is not the one that was recorded")
    if missing or seen != job.units:
        walk.report(0, "unit_rows", f"{seen} unit receipts stand, the events tell of {job.units}")


def _check_resources(reader: Reader, walk: Walk, job: Job) -> None:
    """Each resource stands at the version that this job gave it, with its value, or was written by others since."""
    for name, effect in walk.effects.items():
        row = reader.resource(job.namespace, job.owner, name)
        if row is None or row.version < effect.version:
            stands = f"at version {row.version}" if row else "nowhere"
            walk.report(0, "resource", f"resource {name!r} stands {stands}, an effect made it {effect.version}")
        elif row.version == effect.version and not _is_value(effect.value, row.value):
            walk.report(0, "resource", f"resource {name!r} does not have the value of the effect that wrote it")


def _is_value(body: Body, encoded: bytes) -> bool:
    return is_body(body.digest, encoded) if body.digest else encode_json(body.value) == encoded
