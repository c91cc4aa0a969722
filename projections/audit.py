"""Verification of a store: every stream's digests, fences and rules, and every row compared with its events."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from jobledger.domain.decisions.archiving import digest_of
from jobledger.domain.decisions.claiming import claimable
from jobledger.domain.errors import HistoryCorruptError
from jobledger.domain.events import Archived, Checkpointed, Completed, EpochAdvanced
from jobledger.domain.history import read
from jobledger.domain.ports import GroupRow
from jobledger.domain.replaying import PAGE
from jobledger.domain.store.operating import group_stream
from jobledger.domain.values import encode_json, is_body
from jobledger.projections.queue_rules import check_queue
from jobledger.projections.rules import Problem, Walk
from jobledger.projections.schedule_rules import check_occurrence, check_schedule, check_schedule_snapshot
from jobledger.projections.walking import ARCHIVED, GROUP, JOB, QUEUE, SCHEDULE, UNREADABLE, walk_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jobledger.domain.events import Event
    from jobledger.domain.history import RecordedEvent
    from jobledger.domain.job import Job
    from jobledger.domain.ports import Loaded, Positioned, Reader, ResourceRow, Storage
    from jobledger.domain.values import Body


@dataclass(frozen=True, slots=True)
class Verification:
    """The answer of a verification: whether all holds, how many events were walked, and each problem found.

    ``job_id`` is the stream: a job's id, the name of another stream (as ``group:…``), or empty for rows that hang on no
    stream at all.
    """

    job_id: str
    events: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether every digest, fence and rule holds."""
        return not self.problems


def verify(reader: Reader, stream: str) -> Verification:
    """Walk one stream from its first event to its head, then compare the rows beside it.

    It answers, it does not raise: what cannot be read is a problem of the history.
    """
    walk = walked(reader, stream)
    return Verification(stream, walk.count - max(0, walk.behind - 1), tuple(walk.problems))


def walked(reader: Reader, stream: str, see: Callable[[RecordedEvent, int], object] | None = None) -> Walk:
    """The walk of a verification with all that it found; ``see`` is shown each event and its place in the log."""
    walk, loaded, is_row_readable = Walk(stream, is_stored=True), None, True
    try:
        loaded = reader.load([stream]).get(stream)
    except HistoryCorruptError as corrupt:
        is_row_readable = False
        walk.report(0, "status_row", corrupt.problem)
    epochs = _Epochs(reader)
    for recorded in walk_all(walk, placed(reader, stream), reader.body):
        if see is not None:
            see(recorded, walk.position)
        if recorded.sequence == walk.behind:
            _check_leaves(reader, walk, recorded)
        if walk.schedule is not None:
            check_schedule_snapshot(reader, walk, recorded.sequence)
        if walk.job is not None:
            epochs.see(walk, recorded.event)
            _check_snapshot(reader, walk, walk.job)
    if not walk.count and not walk.problems:
        walk.report(0, "created", "the stream has no events")
    if not any(problem.rule == UNREADABLE for problem in walk.problems):
        try:
            _check_beside(reader, walk, loaded, is_row_readable=is_row_readable)
        except HistoryCorruptError as corrupt:
            walk.report(corrupt.sequence, UNREADABLE, corrupt.problem)
    return walk


def streams(storage: Storage, namespace: str) -> Iterator[str]:
    """The names of all streams of a namespace, in order: jobs by their ids, groups by the names of their streams."""
    after = ""
    while True:
        with storage.reading() as reader:
            page = reader.streams(after=after, limit=PAGE)
            own = streams_of(reader, page, namespace)
        yield from own
        if len(page) < PAGE:
            return
        after = page[-1]


def verify_stream(storage: Storage, stream: str) -> Verification:
    """Verify one stream in a view of its own, of a job or of anything else that has one."""
    with storage.reading() as reader:
        return verify(reader, stream)


def verify_beside(storage: Storage, namespace: str) -> Verification:
    """Look for rows beside the log that no event accounts for, in a view of their own."""
    with storage.reading() as reader:
        return verify_rows(reader, namespace)


def placed(reader: Reader, stream: str) -> Iterator[Positioned]:
    """Every record of a stream with its place in the log, read in pages."""
    after = 0
    while page := reader.placed(stream, after=after, limit=PAGE):
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1].record.sequence


def _check_snapshot(reader: Reader, walk: Walk, job: Job) -> None:
    """A state is kept at every step of the window, but for the event that stands for archived ones: it has one."""
    is_step = job.sequence % job.policy.window_step == 0 and job.sequence != walk.behind
    if is_step and _snapshot(reader, job) != job:
        walk.report(job.sequence, "snapshot", "the state that is kept for windows is not the fold of the events")


def _snapshot(reader: Reader, job: Job) -> Job | None:
    with suppress(HistoryCorruptError):
        return reader.snapshot(job.id, job.sequence)
    return None


def _check_leaves(reader: Reader, walk: Walk, recorded: RecordedEvent) -> None:
    """The digests that were kept of archived events are those that the event tells which stands for them."""
    after, digests = 0, list[str]()
    while page := reader.leaves(after=after, limit=PAGE, behind=walk.position):
        digests += [leaf.digest for leaf in page]
        after = page[-1].position
    event = recorded.event
    if isinstance(event, Archived) and (len(digests) != recorded.sequence - 1 or digest_of(digests) != event.digest):
        text = f"of the {recorded.sequence - 1} events that it stands for {len(digests)} digests are kept"
        walk.report(recorded.sequence, "archive", f"{text}, which are not those that were archived")
    if not digests or digests[-1] != recorded.previous:
        walk.report(recorded.sequence, "chained", "it does not carry the digest of the last event that was archived")


class _Epochs:
    """The epochs that groups stood at when a job's events were written, by the order of the log and by time."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._advances: dict[str, list[tuple[int, Any]]] = {}

    def see(self, walk: Walk, event: Any) -> None:
        """Require that what a worker wrote was written under the current epoch of its group."""
        job, generation = walk.job, getattr(event, "generation", None)
        if job is None or generation is None or type(event).__name__ == "Interrupted":
            return
        attempt = job.attempt
        if attempt is None:
            return  # it ended just now; the epoch that it began under was looked at with every write before
        for position, advance in self._of(job.namespace, attempt.group):
            if advance.epoch == attempt.epoch + 1 and position < walk.position and advance.at < event.at:
                text = f"group {attempt.group!r} had moved on to epoch {advance.epoch} before"
                walk.report(walk.count, "epoch", text)

    def _of(self, namespace: str, group: str) -> list[tuple[int, EpochAdvanced]]:
        if group not in self._advances:
            found: list[tuple[int, Any]] = []
            with suppress(HistoryCorruptError):  # the group's own stream is verified by itself
                for each in placed(self._reader, group_stream(namespace, group)):
                    event = read(each.record).event
                    if isinstance(event, EpochAdvanced):
                        found.append((each.position, event))
            self._advances[group] = found
        return self._advances[group]


# Whose a stream is ----------------------------------------------------------------------------------------------------


def place_of(stream: str) -> tuple[str, str, str] | None:
    """The kind, namespace and name that the name of a group's or another named stream tells; ``None``: a job's id."""
    kind, _, rest = stream.partition(":")
    length, _, names = rest.partition(":")
    if not kind or not (length.isascii() and length.isdecimal()) or len(length) > 4:  # noqa: PLR2004  # of a short name
        return None
    namespace, colon, name = names[: int(length)], names[int(length) :][:1], names[int(length) + 1 :]
    return (kind, namespace, name) if colon == ":" else None


def is_job(stream: str) -> bool:
    """Whether a stream is that of a job, as its name tells."""
    return bool(stream) and place_of(stream) is None


def streams_of(reader: Reader, page: Sequence[str], namespace: str) -> list[str]:
    """Those streams of a page that are of a namespace, and those of which nothing readable says whose they are."""
    jobs = [stream for stream in page if place_of(stream) is None]
    try:
        spaces = {job_id: loaded.job.namespace for job_id, loaded in reader.load(jobs).items()}
    except HistoryCorruptError:
        spaces = {}
    return [stream for stream in page if (spaces.get(stream) or namespace_of(reader, stream)) in (None, namespace)]


def namespace_of(reader: Reader, stream: str, default: str | None = None) -> str | None:
    """The namespace of a stream; ``None`` where nothing readable tells it, ``default`` where it has no events."""
    if (named := place_of(stream)) is not None:
        return named[1]
    try:
        loaded = reader.load([stream]).get(stream)
        if loaded is not None:
            return loaded.job.namespace
        first = [read(stored).event for stored in reader.records(stream, limit=1)]
    except HistoryCorruptError:
        return None
    return told_by(first[0], "namespace") if first else default


def told_by(first: Event, field: str) -> str | None:
    """A field of a job that its first event tells, or the one that stands for it."""
    if isinstance(first, Archived):
        return (first.state or {}).get(field)
    return getattr(first, field, None)


# Rows beside a stream -------------------------------------------------------------------------------------------------


def _check_beside(reader: Reader, walk: Walk, loaded: Loaded | None, *, is_row_readable: bool) -> None:
    if walk.kind == GROUP:
        _check_group(reader, walk)
    elif walk.kind == SCHEDULE:
        check_schedule(reader, walk)
    elif walk.kind == QUEUE:
        check_queue(reader, walk)
    elif walk.kind == JOB or loaded is not None:
        if loaded is not None:
            _check_rows(reader, walk, loaded)
        elif is_row_readable and not walk.problems:
            walk.report(0, "status_row", "the job has no status row")


def _check_group(reader: Reader, walk: Walk) -> None:
    named = place_of(walk.stream)
    row = reader.group(*named[1:]) if named and named[0] == GROUP else None
    if row != GroupRow(walk.epoch, walk.count, walk.head):
        walk.report(0, "group_row", f"the group's row is not what its events say: epoch {walk.epoch}")


def _check_rows(reader: Reader, walk: Walk, loaded: Loaded) -> None:
    job, row, lease = walk.job, loaded.job, loaded.lease
    if row != job:
        text = f"it stands at sequence {row.sequence}, the events fold to {job.sequence if job else 0}"
        walk.report(0, "status_row", f"the status row is not the fold of the events ({text})")
    if loaded.head != walk.head:
        walk.report(0, "head", "the status row's head is not the digest of the last event")
    if job is None:
        return
    if (lease is not None) != (job.attempt is not None):
        walk.report(0, "lease_row", "the lease row stands exactly while an attempt is open")
    if lease is not None and job.attempt is not None:
        if lease.generation != job.generation:
            walk.report(0, "lease_row", "the lease row is of another generation")
        if lease.expires_at < job.attempt.expires_at:
            walk.report(0, "lease_row", f"it ends before the expiry on record, {job.attempt.expires_at.isoformat()}")
    if not reader.is_found_by(job, claimable(job), walk.head):
        walk.report(0, "columns", "what the store finds the job by does not follow from its state")
    if job.checkpoint and job.checkpoint.digest and reader.body(job.id, job.checkpoint.digest) is None:
        walk.report(job.checkpoint_sequence or 0, "body", "the bytes of its current checkpoint are missing")
    _check_kept(reader, walk, job)
    check_occurrence(reader, walk)
    _check_units(reader, walk, job)
    _check_resources(reader, walk, job)


def _check_kept(reader: Reader, walk: Walk, job: Job) -> None:
    """What an archived job's status refers to is still there; of others, each event was looked at."""
    for name in ("payload", "result") if job.archived else ():
        body: Body | None = getattr(job, name)
        encoded = reader.body(job.id, body.digest) if body is not None and body.digest else None
        if body is not None and body.digest and (encoded is None or not is_body(body.digest, encoded)):
            walk.report(0, "body", f"the bytes of its {name} are missing, or not those that were recorded")


def _check_units(reader: Reader, walk: Walk, job: Job) -> None:
    """Every unit of the events has its receipt, byte for byte; a derived job has those of its origin besides."""
    if job.archived:
        if reader.units(job.id, after=None, limit=1):
            walk.report(0, "unit_rows", "unit receipts stand whose events were archived")
        return
    after, seen, missing = None, 0, dict(walk.units)
    while page := reader.units(job.id, after=after, limit=PAGE):
        after, seen = page[-1].unit, seen + len(page)
        for row in page:
            recorded = missing.pop(row.unit, None)
            if recorded is not None and not recorded.is_same(row.receipt):
                walk.report(0, "unit_rows", f"the receipt of unit {row.unit!r} is not the one that was recorded")
            elif recorded is None and row.generation:
                walk.report(0, "unit_rows", f"no event recorded unit {row.unit!r}")
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
        elif row.version > effect.version and row.job_id == job.id:
            walk.report(0, "resource", f"resource {name!r} stands at version {row.version}, which no event made it")


def _is_value(body: Body, encoded: bytes) -> bool:
    return is_body(body.digest, encoded) if body.digest else encode_json(body.value) == encoded


# Rows that hang on nothing --------------------------------------------------------------------------------------------


def verify_rows(reader: Reader, namespace: str) -> Verification:
    """Look for rows that no event accounts for: strays, and resources that no job's effect wrote."""
    walk = Walk("")
    for stray in reader.strays(limit=PAGE):
        walk.report(
            0, "stray", f"a {stray.row} row {stray.name!r} hangs on {stray.stream!r}, which does not account for it"
        )
    for job_id, rows in groupby(_resources(reader, namespace), key=lambda each: each[1].job_id):
        written = _written_by(reader, job_id)
        for owner, row in rows:
            if (owner, row.name, row.version) not in written:
                text = f"resource {row.name!r} of {owner!r} stands at version {row.version}, which no event made it"
                walk.report(0, "resource", text)
    return Verification("", 0, tuple(walk.problems))


def _resources(reader: Reader, namespace: str) -> Iterator[tuple[str, ResourceRow]]:
    after = (namespace, "", "")
    while page := reader.resources(after=after, limit=PAGE):
        for space, owner, row in page:
            if space != namespace:
                return
            yield owner, row
        space, owner, row = page[-1]
        after = (space, owner, row.name)


def _written_by(reader: Reader, job_id: str) -> set[tuple[str, str, int]]:
    """The owner, name and version of everything that a job's effects wrote; nothing where it cannot be read."""
    owner, written = "", set[tuple[str, str, int]]()
    with suppress(HistoryCorruptError):
        for each in placed(reader, job_id):
            if each.record.sequence == 1:
                owner = getattr(read(each.record).event, "owner", "")
            elif each.record.topic == ARCHIVED:
                event = read(each.record).event
                if isinstance(event, Archived) and event.state is not None:
                    owner = told_by(event, "owner") or ""
                    written |= {(owner, effect.resource, effect.version) for effect in event.effects}
            elif each.record.topic in ("job.checkpointed", "job.completed"):
                event = read(each.record).event
                if isinstance(event, Checkpointed | Completed):
                    written |= {(owner, effect.resource, effect.version) for effect in event.effects}
    return written
