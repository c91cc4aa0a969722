"""Bundles: a part of a store's log as lines of JSON that prove themselves, in the order of the log.

The lines of version 1 (docs/audit.md describes them for auditors): ``bundle`` first, then ``event`` by position, each
with the ``body`` lines of what it keeps aside before it (and ``unit`` lines of inherited receipts behind a creation), a
``head`` for each stream, and the ``manifest`` last, which holds the digest of everything before it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import from_json, to_jsonable_python

from jobledger.domain.bounds import PAGE_MAX
from jobledger.domain.errors import HistoryCorruptError, InvalidRequestError, UnknownJobError
from jobledger.domain.events import Claimed, Created
from jobledger.domain.history import StoredRecord, read
from jobledger.domain.job import Job
from jobledger.domain.ports import JobFilter, Positioned
from jobledger.domain.replaying import PAGE
from jobledger.domain.store.operating import group_stream
from jobledger.projections import merkle
from jobledger.projections.audit import place_of, placed, told_by
from jobledger.projections.walking import GROUP, bodies_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from jobledger.domain.ports import Reader
    from jobledger.domain.values import Json

FORMAT: Final = "jobledger.bundle"
VERSION: Final = 1
LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""No line of a bundle is longer: the largest body, each of whose bytes may be escaped."""


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an export wrote: counts, the digest over all its lines but the last, and the root of its events' tree."""

    events: int
    streams: int
    jobs: int
    bodies: int
    sha256: str
    root: str


@dataclass(slots=True)
class _Writer:
    """Writes lines and counts and digests what it writes."""

    write: Callable[[bytes], object]
    digest: Any = field(default_factory=hashlib.sha256)
    tree: merkle.Tree = field(default_factory=merkle.Tree)
    counts: dict[str, int] = field(default_factory=lambda: {"event": 0, "body": 0, "head": 0, "job": 0})
    first: int = 0
    last: int = 0

    def line(self, kind: str, **fields: Json) -> None:
        """Write one line; the last field may be bytes, which then stand in it as they are."""
        encoded = encode_line({"line": kind} | fields)
        self.digest.update(encoded)
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.write(encoded)

    def event(self, each: Positioned) -> None:
        """Write one record, byte for byte."""
        stored = each.record
        fields: dict[str, Json] = {"position": each.position, "stream": stored.stream, "sequence": stored.sequence}
        fields["topic"] = stored.topic
        if stored.command_id is not None:
            fields["command_id"] = stored.command_id
        self.line("event", **fields, state=stored.state)
        self.tree.add(merkle.leaf_of(each.position, stored.digest))
        self.first, self.last = self.first or each.position, each.position

    def end(self) -> ExportReport:
        """Write the manifest."""
        counts = self.counts
        report = ExportReport(
            events=counts["event"],
            streams=counts["head"],
            jobs=counts["job"],
            bodies=counts["body"],
            sha256=self.digest.hexdigest(),
            root=self.tree.root().hex(),
        )
        fields = to_jsonable_python(report)
        self.line("manifest", **fields, positions=[self.first, self.last] if report.events else [])
        return report


def encode_line(fields: Mapping[str, Json]) -> bytes:
    """One line of a bundle; a last field of bytes stands in it verbatim if it is JSON on one line, else in base 64."""
    *names, last = fields
    if not isinstance(fields[last], bytes):
        return _compact(fields) + b"\n"
    encoded: bytes = fields[last]
    before = _compact({name: fields[name] for name in names})[:-1]
    if _is_line(encoded):
        return b'%b,"%b":%b}\n' % (before, last.encode(), encoded)
    return b'%b,"%b_base64":"%b"}\n' % (before, last.encode(), base64.b64encode(encoded))


def _compact(fields: Mapping[str, Json]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def _is_line(encoded: bytes) -> bool:
    """Whether bytes are JSON in UTF-8 on one line, as everything is that jobledger stores."""
    if b"\n" in encoded or b"\r" in encoded:
        return False
    try:
        from_json(encoded, allow_inf_nan=False)
    except ValueError:
        return False
    return True


# Writing --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scope:
    """What an export is of: one job, the jobs that match a filter, those of a choice, or everything in a namespace.

    Archived jobs are in none: their histories are in the bundles that they were archived to.
    """

    namespace: str
    job_id: str | None = None
    wanted: JobFilter | None = None
    chosen: frozenset[str] | None = None

    @property
    def has_schedules(self) -> bool:
        """Whether schedules belong to it: a choice of jobs has no more than the groups that they worked under."""
        return self.chosen is None

    def told(self, *, is_whole: bool) -> dict[str, Json]:
        """The scope as it stands in the bundle; ``is_whole``: nothing of it was archived before."""
        if self.job_id is not None:
            return {"what": "job", "job_id": self.job_id}
        if self.chosen is not None:
            return {"what": "archive", "jobs": len(self.chosen)}
        if self.wanted is None:
            return {"what": "all"} if is_whole else {"what": "all", "without": "archived"}
        given = {name: value for name, value in to_jsonable_python(self.wanted).items() if value is not None}
        return {"what": "filter", **given}


def export(
    reader: Reader, scope: Scope, write: Callable[[bytes], object], *, made_by: str, made_at: datetime
) -> ExportReport:
    """Write a bundle of one consistent view, line by line; memory grows with the streams of groups alone.

    Raises:
        UnknownJobError: there is no such job in this namespace.
    """
    writer = _Writer(write)
    writer.line(
        "bundle",
        format=FORMAT,
        version=VERSION,
        namespace=scope.namespace,
        scope=scope.told(is_whole=not reader.leaves(after=0, limit=1)),
        made_at=made_at.isoformat(),
        made_by=made_by,
    )
    others: dict[str, StoredRecord] = {}
    for each in _events(reader, scope):
        record = each.record
        _bodies(reader, record, writer)
        writer.event(each)
        if place_of(record.stream) is not None:
            others[record.stream] = record
        elif record.sequence == 1:
            _inherited(reader, record, writer)
    for job_id in _jobs_of(reader, scope):
        _head(reader, job_id, writer)
    for stream, last in sorted(others.items()):
        writer.line("head", stream=stream, sequence=last.sequence, digest=last.digest)
    return writer.end()


def _events(reader: Reader, scope: Scope) -> Iterator[Positioned]:
    """The records of a scope in the order of the log."""
    if scope.job_id is not None:
        yield from _events_of(reader, scope.namespace, scope.job_id)
        return
    known: dict[str, bool] = {}
    chosen = None if scope.wanted is None and scope.chosen is None else set(_jobs_of(reader, scope))
    after = 0
    while page := reader.log(after=after, limit=PAGE):
        for each in page:
            stream = each.record.stream
            named = place_of(stream)
            if named is not None:
                is_in = named[1] == scope.namespace and (scope.has_schedules or named[0] == GROUP)
            elif chosen is not None:
                is_in = stream in chosen
            else:
                is_in = _is_of(reader, each.record, scope.namespace, known)
            if is_in:
                yield each
        after = page[-1].position


def _is_of(reader: Reader, record: StoredRecord, namespace: str, known: dict[str, bool]) -> bool:
    """Whether a job's record is of a namespace, as its status row says; without one, as its first event says.

    What stands for archived events is of none: without them it proves nothing.
    """
    if record.stream not in known:
        if len(known) >= KNOWN_MAX:
            known.clear()
        try:
            loaded = reader.load([record.stream]).get(record.stream)
            space = loaded.job.namespace if loaded else _namespace_told(reader, record.stream)
            if loaded is not None and loaded.job.archived:
                space = None
        except HistoryCorruptError:
            space = namespace
        known[record.stream] = space == namespace
    return known[record.stream]


KNOWN_MAX: Final = 10_000
"""So many streams' namespaces are remembered at once."""


def _namespace_told(reader: Reader, stream: str) -> str | None:
    first = reader.records(stream, limit=1)
    return told_by(read(first[0]).event, "namespace") if first else None


def _events_of(reader: Reader, namespace: str, job_id: str) -> Iterator[Positioned]:
    """A job's records, and those of the groups that its attempts were claimed under, in the order of the log."""
    groups: set[str] = set()
    for each in placed(reader, job_id):
        try:
            event = read(each.record).event
        except HistoryCorruptError:
            continue
        if isinstance(event, Claimed):
            groups.add(group_stream(namespace, event.group))
    waiting = [each for group in sorted(groups) for each in placed(reader, group)]
    waiting.sort(key=lambda each: each.position, reverse=True)
    for each in placed(reader, job_id):
        while waiting and waiting[-1].position < each.position:
            yield waiting.pop()
        yield each
    yield from reversed(waiting)


def _bodies(reader: Reader, record: StoredRecord, writer: _Writer) -> None:
    try:
        event = read(record).event
    except HistoryCorruptError:
        return
    for _, body in bodies_of(event):
        encoded = reader.body(record.stream, body.digest)
        if encoded is not None:
            writer.line("body", stream=record.stream, digest=body.digest, bytes=encoded)


def _inherited(reader: Reader, record: StoredRecord, writer: _Writer) -> None:
    """The receipts that a derived job began with: no event of its own recorded them."""
    try:
        event = read(record).event
    except HistoryCorruptError:
        return
    if not isinstance(event, Created) or not event.units:
        return
    after: str | None = None
    while page := reader.units(record.stream, after=after, limit=PAGE):
        for row in page:
            if row.generation == 0:
                encoded = reader.body(record.stream, row.receipt.digest) if row.receipt.digest else None
                if encoded is not None:
                    writer.line("body", stream=record.stream, digest=row.receipt.digest, bytes=encoded)
                receipt = to_jsonable_python(row.receipt)
                writer.line("unit", stream=record.stream, unit=row.unit, receipt=receipt)
        after = page[-1].unit


def _jobs_of(reader: Reader, scope: Scope) -> Iterator[str]:
    """The jobs of a scope that are not archived; one that cannot be read is among them, and told to be so."""
    for page in _pages_of(reader, scope):
        try:
            archived = {job_id for job_id, loaded in reader.load(page).items() if loaded.job.archived}
        except HistoryCorruptError:
            archived = set[str]()
        yield from (job_id for job_id in page if job_id not in archived)


def _pages_of(reader: Reader, scope: Scope) -> Iterator[list[str]]:
    if scope.job_id is not None:
        if scope.job_id not in reader.load([scope.job_id]):
            raise UnknownJobError(scope.job_id)
        yield [scope.job_id]
    elif scope.chosen is not None:
        ids = sorted(scope.chosen)
        yield from (ids[start : start + PAGE] for start in range(0, len(ids), PAGE))
    elif scope.wanted is not None:
        before: int | None = None
        while page := reader.jobs(scope.wanted, before=before, limit=PAGE_MAX):
            yield [loaded.job.id for loaded in page]
            before = page[-1].position
    else:
        after = ""
        while ids := reader.job_ids(scope.namespace, after=after, limit=PAGE):
            yield ids
            after = ids[-1]


def _head(reader: Reader, job_id: str, writer: _Writer) -> None:
    """What the store says of a job beside its events: where it stands, and its state."""
    writer.counts["job"] += 1
    try:
        loaded = reader.load([job_id])[job_id]
    except HistoryCorruptError as corrupt:
        writer.line("head", stream=job_id, unreadable=corrupt.problem)
        return
    told: dict[str, Json] = {"stream": job_id, "sequence": loaded.job.sequence, "digest": loaded.head}
    told["state"] = stated(loaded.job)
    if loaded.lease is not None:
        told["lease"] = {"expires_at": loaded.lease.expires_at.isoformat()}
    writer.line("head", **told)


STATED: Final = (
    *("namespace", "owner", "key", "kind", "queue", "priority", "labels", "submission", "policy", "limits", "controls"),
    *("origin", "payload", "state", "generation", "worker", "group", "epoch", "expires_at", "hold", "cancel_request"),
    *("checkpoint", "checkpoint_sequence", "units", "progress", "ready_at", "interrupts", "failures", "outcome"),
    *("result", "error", "sequence", "control_sequence", "created_at", "updated_at"),
)
"""The fields of a state in a bundle of version 1; a further one needs a further version: old bundles are for ever."""

_ELSEWHERE: Final = {"policy": "policy_name", "limits": "policy_changes", "cancel_request": "cancel"}
_OF_ATTEMPT: Final = frozenset({"worker", "group", "epoch", "expires_at"})


def stated(job: Job) -> dict[str, Json]:
    """A job's state under the names that a status has, without what is empty: what bundles keep and replays compare."""
    told: dict[str, Any] = {}
    for name in STATED:
        source = job.attempt if name in _OF_ATTEMPT else job
        value = getattr(source, _ELSEWHERE.get(name, name)) if source is not None else None
        if value is not None and value != {}:
            told[name] = value
    plain: dict[str, Json] = to_jsonable_python(told)
    return plain


# Reading --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a bundle: its number from 1, its kind, its fields, and its bytes."""

    number: int
    kind: str
    fields: dict[str, Any]
    encoded: bytes


def lines_of(encoded: Iterable[bytes]) -> Iterator[Line]:
    """Read the lines of a bundle.

    Raises:
        InvalidRequestError: it is no bundle, one of a newer version, or a line is no JSON object.
    """
    number = 0
    for number, each in enumerate(encoded, start=1):
        try:
            fields = from_json(each)
            kind = fields.pop("line")
        except (ValueError, TypeError, KeyError, AttributeError):
            raise InvalidRequestError("bundle", f"line {number} is no line of a bundle; is the file whole?") from None
        if number == 1 and (kind != "bundle" or fields.get("format") != FORMAT):
            raise InvalidRequestError("bundle", "the file is no jobledger bundle; 'jobledger export' writes one")
        if number == 1 and fields.get("version") != VERSION:
            problem = (
                f"it is of version {fields.get('version')!r}, this jobledger reads version {VERSION}; use a newer one"
            )
            raise InvalidRequestError("bundle", problem)
        yield Line(number, str(kind), fields, each)
    if not number:
        raise InvalidRequestError("bundle", "the file is empty")


def bytes_of(line: Line, name: str) -> bytes:
    """The exact bytes of a field that ends its line.

    Raises:
        InvalidRequestError: the line has no such field at its end.
    """
    fields = line.fields
    last = next(reversed(fields), "")
    if last == name:
        _, _, rest = line.encoded.partition(b',"%b":' % name.encode())
        return rest.rstrip(b"\r\n")[:-1]
    try:
        if last == f"{name}_base64":
            return base64.b64decode(fields[last], validate=True)
    except (ValueError, TypeError):
        pass
    raise InvalidRequestError("bundle", f"line {line.number} does not end with its {name}")


def record_of(line: Line) -> Positioned:
    """The record of an event's line.

    Raises:
        InvalidRequestError: a field is missing or of another type.
    """
    fields = line.fields
    position, stream, sequence, topic = (fields.get(name) for name in ("position", "stream", "sequence", "topic"))
    command_id = fields.get("command_id")
    if (
        type(position) is not int
        or type(sequence) is not int
        or type(stream) is not str
        or type(topic) is not str
        or not isinstance(command_id, str | None)
    ):
        raise InvalidRequestError("bundle", f"line {line.number} is no event")
    return Positioned(position, StoredRecord(stream, sequence, topic, bytes_of(line, "state"), command_id))


def is_group(stream: str) -> bool:
    """Whether a stream is that of a worker group."""
    named = place_of(stream)
    return named is not None and named[0] == GROUP
