"""Checking a bundle without a store: its manifest, every digest, fence and rule, and each state that it tells."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from jobledger.domain.errors import HistoryCorruptError, InvalidRequestError
from jobledger.domain.events import Checkpointed, Completed
from jobledger.domain.values import is_body
from jobledger.projections import merkle
from jobledger.projections.audit import Verification
from jobledger.projections.bundles import STATED, bytes_of, lines_of, record_of, stated
from jobledger.projections.rules import Walk
from jobledger.projections.walking import UNREADABLE, end, see

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jobledger.domain.history import RecordedEvent
    from jobledger.domain.values import Json
    from jobledger.projections.bundles import Line


@dataclass(frozen=True, slots=True)
class Difference:
    """A field of a job's state that the events do not fold to: what was told, and what today's code makes of them."""

    job_id: str
    field: str
    told: Json
    folded: Json


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replay found: jobs and events that were folded, and each field that came out differently."""

    jobs: int
    events: int
    differences: tuple[Difference, ...]

    @property
    def ok(self) -> bool:
        """Whether every state came out as it was told."""
        return not self.differences


@dataclass(slots=True)
class BundleCheck:
    """A bundle on its way: feed it every line, then ask what it found.

    One walk is kept for each stream until its head is met; of ended jobs nothing but the fold.
    """

    bundle: Walk = field(default_factory=lambda: Walk(""))
    walks: dict[str, Walk] = field(default_factory=dict[str, Walk])
    closed: dict[str, str] = field(default_factory=dict[str, str])
    is_whole: bool = False
    events: int = 0
    heads: int = 0
    jobs: int = 0
    bodies: int = 0
    position: int = 0
    first: int = 0
    is_ended: bool = False
    _digest: Any = field(default_factory=hashlib.sha256)
    _tree: merkle.Tree = field(default_factory=merkle.Tree)
    _aside: dict[tuple[str, str], bytes] = field(default_factory=dict[tuple[str, str], bytes])
    _versions: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])

    def see(self, line: Line) -> RecordedEvent | None:
        """Check one line; answers the event that it holds, if it holds one that can be read."""
        if self.is_ended:
            self.bundle.report(line.number, "bundle", "a line follows the manifest")
            return None
        recorded = None
        match line.kind:
            case "bundle":
                self.is_whole = line.fields.get("scope") == {"what": "all"}
            case "body":
                self._body(line)
            case "unit":
                pass
            case "event":
                recorded = self._event(line)
            case "head":
                self._head(line)
            case "manifest":
                self._manifest(line)
            case _:
                self.bundle.report(line.number, "bundle", f"a line of the unknown kind {line.kind!r}")
        self._digest.update(line.encoded)
        return recorded

    def _body(self, line: Line) -> None:
        encoded, digest = bytes_of(line, "bytes"), str(line.fields.get("digest"))
        self.bodies += 1
        if not is_body(digest, encoded):
            self.bundle.report(line.number, "body", f"these are not the bytes that were kept under {digest}")
        self._aside[str(line.fields.get("stream")), digest] = encoded

    def _event(self, line: Line) -> RecordedEvent | None:
        placed = record_of(line)
        record = placed.record
        self.events += 1
        self.first = self.first or placed.position
        if placed.position <= self.position:
            self.bundle.report(line.number, "order", f"position {placed.position} follows {self.position}")
        self.position = placed.position
        if record.stream in self.closed:
            self.bundle.report(line.number, "order", f"an event of {record.stream} follows the heads")
        walk = self.walks.setdefault(record.stream, Walk(record.stream))
        recorded = None
        if not any(problem.rule == UNREADABLE for problem in walk.problems):
            try:
                recorded = see(walk, placed, self._body_of)
            except HistoryCorruptError as corrupt:
                walk.report(corrupt.sequence, UNREADABLE, corrupt.problem)
        self._aside.clear()
        digest = recorded.digest if recorded is not None else record.digest
        self._tree.add(merkle.leaf_of(placed.position, digest))
        if recorded is None:
            return None
        self._versions_grow(walk, recorded)
        if walk.job is not None and walk.job.is_terminal:
            walk.units.clear()
            walk.effects.clear()
            walk.commands.clear()
        return recorded

    def _body_of(self, stream: str, digest: str) -> bytes | None:
        return self._aside.get((stream, digest))

    def _versions_grow(self, walk: Walk, recorded: RecordedEvent) -> None:
        """In a whole namespace each write of a resource follows the one before, whichever job made it."""
        event, job = recorded.event, walk.job
        if job is None or not isinstance(event, Checkpointed | Completed):
            return
        for effect in event.effects:
            name = (job.owner, effect.resource)
            before = self._versions.get(name, 0)
            if effect.version <= before or (self.is_whole and effect.version != before + 1):
                text = f"resource {effect.resource!r} was at version {before}, the effect makes it {effect.version}"
                walk.report(recorded.sequence, "compare_and_set", text)
            self._versions[name] = effect.version

    def _head(self, line: Line) -> None:
        stream, fields = str(line.fields.get("stream")), line.fields
        self.heads += 1
        self._aside.clear()
        walk = self.walks.setdefault(stream, Walk(stream))
        self.closed[stream] = walk.head
        end(walk)
        if "unreadable" in fields:
            walk.report(0, "status_row", f"the store could not read its row: {fields['unreadable']}")
            return
        is_job = "state" in fields
        self.jobs += is_job
        if (fields.get("sequence"), fields.get("digest")) != (walk.count, walk.head):
            text = f"its head is told to be sequence {fields.get('sequence')}, the events end at {walk.count}"
            walk.report(0, "head", text if fields.get("sequence") != walk.count else "its head has another digest")
        if is_job:
            for each in differences(stream, fields["state"], stated(walk.job) if walk.job else {}):
                walk.report(
                    0, "replayed", f"{each.field} was told to be {each.told!r}, the events make it {each.folded!r}"
                )

    def _manifest(self, line: Line) -> None:
        fields, self.is_ended = line.fields, True
        found: dict[str, Json] = {
            "sha256": self._digest.hexdigest(),
            "root": self._tree.root().hex(),
            "events": self.events,
            "streams": self.heads,
            "jobs": self.jobs,
            "bodies": self.bodies,
            "positions": [self.first, self.position] if self.events else [],
        }
        for name, value in found.items():
            if fields.get(name) != value:
                self.bundle.report(0, "manifest", f"its {name} is told to be {fields.get(name)}, it is {value}")

    def found(self) -> Iterator[Verification]:
        """What was found, stream by stream, and last what is wrong with the bundle itself."""
        if not self.is_ended:
            self.bundle.report(0, "manifest", "the bundle has no manifest: it is not whole")
        for stream, walk in self.walks.items():
            if self.is_ended and stream not in self.closed:
                walk.report(0, "head", "the bundle tells no head of it")
            yield Verification(stream, walk.count, tuple(walk.problems))
        if self.bundle.problems:
            yield Verification("", 0, tuple(self.bundle.problems))


def verify_bundle(encoded: Iterable[bytes]) -> Iterator[Verification]:
    """Verify a bundle given as its lines; answers, and raises only where it is no bundle at all.

    Raises:
        InvalidRequestError: it is no bundle, or one of a newer version.
    """
    check = BundleCheck()
    try:
        for line in lines_of(encoded):
            check.see(line)
    except InvalidRequestError as invalid:
        if not check.walks:
            raise
        check.bundle.report(0, "bundle", str(invalid))
    yield from check.found()


def replay_bundle(encoded: Iterable[bytes]) -> Replay:
    """Fold a bundle's events with today's code, and compare each state with the one that the bundle tells.

    Raises:
        InvalidRequestError: it is no bundle, or one of a newer version.
        HistoryCorruptError: a history cannot be folded; verify it.
    """
    check, found, jobs = BundleCheck(), list[Difference](), 0
    for line in lines_of(encoded):
        if line.kind == "head" and "state" in line.fields:
            jobs += 1
            walk = check.walks.get(str(line.fields.get("stream")))
            folded = stated(walk.job) if walk and walk.job else {}
            found += differences(str(line.fields.get("stream")), line.fields["state"], folded)
        check.see(line)
    return Replay(jobs, check.events, tuple(found))


def differences(job_id: str, told: Any, folded: dict[str, Json]) -> Iterator[Difference]:
    """The fields in which two states of a job differ, of those that this version of bundles tells."""
    given = cast("dict[str, Json]", told if isinstance(told, dict) else {})
    for name in STATED:
        if _without_empty(given.get(name)) != _without_empty(folded.get(name)):
            yield Difference(job_id, name, given.get(name), folded.get(name))


def _without_empty(value: Json) -> Json:
    """A value without fields that are ``null``: what a newer release may say, and does not, is no change.

    Where a job's own value has such fields, its size in bytes tells it from one without.
    """
    if isinstance(value, dict):
        fields = cast("dict[str, Json]", value)
        return {name: _without_empty(each) for name, each in fields.items() if each is not None}
    if isinstance(value, list):
        items: list[Json] = value  # pyright: ignore[reportUnknownVariableType]  # mypy knows it, and refuses a cast
        return [_without_empty(each) for each in items]
    return value
