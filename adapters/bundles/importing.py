"""Importing a bundle into an empty store: every event is appended again, byte for byte, with the rows beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from jobledger.domain.decisions.claiming import claimable
from jobledger.domain.errors import HistoryCorruptError, InvalidRequestError
from jobledger.domain.events import Checkpointed, Completed, Created, EpochAdvanced, UnitRecorded
from jobledger.domain.history import read
from jobledger.domain.job import Job
from jobledger.domain.lease import LeaseRow
from jobledger.domain.ports import Append, GroupRow, Guard, ResourceWrite, StoredBody, UnitRow
from jobledger.domain.queues.ports import QueueAppend
from jobledger.domain.queues.state import advance_queue
from jobledger.domain.replaying import advance
from jobledger.domain.schedules.ports import ScheduleAppend
from jobledger.domain.schedules.state import SNAPSHOT_EVERY, advance_schedule
from jobledger.domain.values import Body, encode_json
from jobledger.projections.audit import place_of
from jobledger.projections.bundles import bytes_of, lines_of, record_of
from jobledger.projections.walking import DROPPABLE, GROUP, QUEUE, SCHEDULE, bodies_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jobledger.domain.events import AppliedEffect
    from jobledger.domain.history import RecordedEvent
    from jobledger.domain.ports import Positioned, Session, Storage
    from jobledger.projections.bundles import Line

BATCH: Final = 500
"""Lines that are written in one transaction."""

FILLED_MAX: Final = 100_000
"""So many versions of a resource that the bundle does not tell of are filled in."""

UNTOLD: Final = b"null"
"""The value of a resource's versions that other jobs wrote, of which the bundle does not tell."""

_BODIES: Final = TypeAdapter(Body)


@dataclass(slots=True)
class ImportReport:
    """What an import wrote: events, jobs, and versions of resources that were filled in for jobs not in the bundle."""

    namespace: str = ""
    events: int = 0
    jobs: int = 0
    filled: int = 0


@dataclass(slots=True)
class _Import:
    """What is under way: the jobs of the last transactions, and the bodies of the event that comes next."""

    report: ImportReport = field(default_factory=ImportReport)
    jobs: dict[str, tuple[Job, str]] = field(default_factory=dict[str, "tuple[Job, str]"])
    aside: dict[tuple[str, str], bytes] = field(default_factory=dict[tuple[str, str], bytes])


JOBS_KEPT_MAX: Final = 10_000


def import_bundle(storage: Storage, encoded: Iterable[bytes], *, patience: timedelta) -> ImportReport:
    """Import a bundle, in transactions of some hundred lines, each whole.

    Raises:
        InvalidRequestError: the store is not empty, it is no bundle, or it holds streams that cannot be imported.
        HistoryCorruptError: an event cannot follow the ones before it; what came before it stands.
    """
    with storage.reading() as reader:
        if reader.log(after=0, limit=1):
            raise InvalidRequestError("store", "it is not empty; import a bundle into a new store of its own")
    state = _Import()
    for batch in _batches(lines_of(encoded)):
        with storage.writing(patience) as session:
            for line in batch:
                _write(session, state, line)
    return state.report


def _batches(lines: Iterator[Line]) -> Iterator[list[Line]]:
    """Lines in handfuls that end behind an event, so that no body waits for the next transaction."""
    batch: list[Line] = []
    for line in lines:
        batch.append(line)
        if len(batch) >= BATCH and line.kind != "body":
            yield batch
            batch = []
    if batch:
        yield batch


def _write(session: Session, state: _Import, line: Line) -> None:
    match line.kind:
        case "bundle":
            state.report.namespace = str(line.fields.get("namespace"))
        case "body":
            state.aside[str(line.fields.get("stream")), str(line.fields.get("digest"))] = bytes_of(line, "bytes")
        case "unit":
            _inherit(session, state, line)
        case "event":
            _event(session, state, record_of(line))
        case "head":
            _head(session, state, line)
        case _:
            pass


def _event(session: Session, state: _Import, placed: Positioned) -> None:
    record = placed.record
    recorded = read(record)
    named = place_of(record.stream)
    if named is None:
        _job_event(session, state, recorded, placed)
    elif named[0] == GROUP and isinstance(recorded.event, EpochAdvanced):
        _, namespace, group = named
        row = GroupRow(recorded.event.epoch, recorded.sequence, recorded.digest)
        if not session.append_group(namespace, group, session.group(namespace, group), row, record):
            raise HistoryCorruptError(record.stream, record.sequence, "it does not follow the group's event before it")
    elif named[0] == SCHEDULE:
        _schedule_event(session, recorded, placed, *named[1:])
    elif named[0] == QUEUE:
        _queue_event(session, recorded, placed, *named[1:])
    else:
        raise InvalidRequestError(
            "bundle", f"the stream {record.stream!r} is of a kind that no import knows; verify it"
        )
    state.report.events += 1
    if isinstance(recorded.event, Created):
        state.report.jobs += 1
    state.aside.clear()


def _job_event(session: Session, state: _Import, recorded: RecordedEvent, placed: Positioned) -> None:
    stream, event = recorded.stream, recorded.event
    before = _job(session, state, stream)[0] if recorded.sequence > 1 else None
    job = advance(before, recorded)
    effects = event.effects if isinstance(event, Checkpointed | Completed) else ()
    for effect in effects:
        _fill(session, state, job, effect.resource, effect.version)
    unit = None
    if isinstance(event, UnitRecorded):
        unit = UnitRow(event.unit, event.receipt, event.generation, recorded.sequence)
    is_step = job.sequence % job.policy.window_step == 0
    append = Append(
        guard=Guard(sequence=recorded.sequence - 1),
        job=job,
        claimable=claimable(job),
        records=(placed.record,),
        head=recorded.digest,
        lease=LeaseRow(job.generation, job.attempt.expires_at, 0) if job.attempt else None,
        unit=unit,
        effects=tuple(_resource_write(state, job, effect) for effect in effects),
        bodies=tuple(_kept(state, recorded)),
        snapshots=(job,) if is_step else (),
    )
    _append(session, append)
    if len(state.jobs) >= JOBS_KEPT_MAX:
        state.jobs.clear()
    state.jobs[stream] = (job, recorded.digest)


def _schedule_event(session: Session, recorded: RecordedEvent, placed: Positioned, namespace: str, name: str) -> None:
    stands = session.schedules(namespace, [name]).get(name) if recorded.sequence > 1 else None
    state = advance_schedule(stands.state if stands else None, recorded)
    append = ScheduleAppend(
        sequence=recorded.sequence - 1,
        state=state,
        records=(placed.record,),
        head=recorded.digest,
        snapshots=(state,) if state.sequence % SNAPSHOT_EVERY == 0 else (),
    )
    if session.append_schedules([append]) != [True]:
        raise HistoryCorruptError(
            recorded.stream, recorded.sequence, "it does not follow the schedule's event before it"
        )


def _queue_event(session: Session, recorded: RecordedEvent, placed: Positioned, namespace: str, name: str) -> None:
    stands = session.queues(namespace, [name]).get(name)
    state = advance_queue(stands.state if stands else None, recorded)
    append = QueueAppend(sequence=recorded.sequence - 1, state=state, records=(placed.record,), head=recorded.digest)
    if not session.append_queue(append):
        raise HistoryCorruptError(recorded.stream, recorded.sequence, "it does not follow the queue's event before it")


def _append(session: Session, append: Append) -> None:
    [failed] = session.append([append])
    if failed is not None:
        problem = f"it does not follow what was imported before it ({failed})"
        raise HistoryCorruptError(append.job.id, append.job.sequence, problem)


def _job(session: Session, state: _Import, job_id: str) -> tuple[Job, str]:
    if job_id not in state.jobs:
        loaded = session.load([job_id]).get(job_id)
        if loaded is None:
            raise HistoryCorruptError(job_id, 0, "the bundle has no creation of it")
        state.jobs[job_id] = (loaded.job, loaded.head)
    return state.jobs[job_id]


def _kept(state: _Import, recorded: RecordedEvent) -> Iterator[StoredBody]:
    for name, body in bodies_of(recorded.event):
        encoded = state.aside.get((recorded.stream, body.digest))
        if encoded is not None:
            yield StoredBody(body.digest, encoded, is_checkpoint=name in DROPPABLE)


def _resource_write(state: _Import, job: Job, effect: AppliedEffect) -> ResourceWrite:
    body = effect.value
    value = state.aside.get((job.id, body.digest), UNTOLD) if body.digest else encode_json(body.value)
    return ResourceWrite(effect.resource, effect.version - 1, value, job.generation)


def _fill(session: Session, state: _Import, job: Job, resource: str, version: int) -> None:
    """Bring a resource to the version that an effect found, where others wrote it whom the bundle does not tell of."""
    stands = session.versions(job.namespace, job.owner, [resource]).get(resource, 0)
    if version - 1 - stands > FILLED_MAX:
        raise InvalidRequestError(
            "bundle", f"resource {resource!r} misses {version - 1 - stands:,} versions; export all"
        )
    known = state.jobs.get(job.id)
    for missing in range(stands, version - 1):
        if known is None:
            raise HistoryCorruptError(job.id, 1, "a creation has no effects")
        before, head = known
        write = ResourceWrite(resource, missing, UNTOLD, 0)
        _append(session, _beside(before, head, effects=(write,)))
        state.report.filled += 1


def _beside(job: Job, head: str, **beside: Any) -> Append:
    """An append of rows without an event."""
    lease = LeaseRow(job.generation, job.attempt.expires_at, 0) if job.attempt else None
    given: dict[str, Any] = {"lease": lease} | beside
    return Append(guard=Guard(sequence=job.sequence), job=job, claimable=claimable(job), records=(), head=head, **given)


def _inherit(session: Session, state: _Import, line: Line) -> None:
    """A receipt that a derived job began with stands under generation 0, from its first event on."""
    stream = str(line.fields.get("stream"))
    try:
        receipt = _BODIES.validate_python(line.fields.get("receipt"))
    except ValidationError:
        raise InvalidRequestError("bundle", f"line {line.number} is no receipt") from None
    job, head = _job(session, state, stream)
    encoded = state.aside.get((stream, receipt.digest))
    bodies = (StoredBody(receipt.digest, encoded, is_checkpoint=False),) if encoded is not None else ()
    unit = UnitRow(str(line.fields.get("unit")), receipt, 0, 1)
    _append(session, _beside(job, head, unit=unit, bodies=bodies))


def _head(session: Session, state: _Import, line: Line) -> None:
    """The lease of an open attempt lives as long as the renewals said that are no events."""
    lease = line.fields.get("lease")
    if not isinstance(lease, dict):
        return
    job, head = _job(session, state, str(line.fields.get("stream")))
    if job.attempt is None:
        return
    try:
        expires_at = datetime.fromisoformat(str(lease.get("expires_at")))
    except ValueError:
        raise InvalidRequestError("bundle", f"line {line.number} tells no expiry of the lease") from None
    _append(session, _beside(job, head, lease=LeaseRow(job.generation, expires_at, 0)))
