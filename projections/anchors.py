"""Anchors: signed heads of the tree over the log, kept where whoever can write to the database cannot.

A history that was rewritten as a whole, cut off, or replaced by an older backup is consistent in itself; only what was
said of it before, elsewhere, tells.
"""

from __future__ import annotations

import json
from collections import deque
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from heapq import merge
from itertools import chain, takewhile
from typing import TYPE_CHECKING, Any, Final, cast

from jobledger.domain.errors import HistoryArchivedError, InvalidRequestError, UnknownSequenceError
from jobledger.domain.history import StoredRecord
from jobledger.domain.replaying import PAGE, boundary
from jobledger.projections import merkle
from jobledger.projections.audit import placed
from jobledger.projections.rules import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jobledger.domain.ports import Reader

FORMAT: Final = "jobledger.anchor"
PROOF: Final = "jobledger.proof"
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Anchor:
    """The head of the tree over the first ``size`` events of the log, of which the last stands at ``position``.

    ``root`` is its root, ``at`` the store's time; ``key`` and ``signature`` are those of Ed25519 in hex digits, or
    empty.
    """

    size: int
    position: int
    root: str
    at: datetime
    key: str = ""
    signature: str = ""

    @property
    def message(self) -> bytes:
        """What is signed: format, version, and the fields, each on a line of its own."""
        return f"{FORMAT}\n{VERSION}\n{self.size}\n{self.position}\n{self.root}\n{self.at.isoformat()}\n".encode()


@dataclass(frozen=True, slots=True)
class Proof:
    """That one event is in the log that an anchor names: the leaf's index, and the path from it to the root."""

    position: int
    record: StoredRecord
    index: int
    path: tuple[str, ...]
    anchor: Anchor

    @property
    def ok(self) -> bool:
        """Whether the path leads from the event to the anchor's root."""
        leaf = merkle.leaf_of(self.position, self.record.digest)
        path = [bytes.fromhex(node) for node in self.path]
        return merkle.is_proved(leaf, self.index, self.anchor.size, path, bytes.fromhex(self.anchor.root))


Placed = tuple[int, str]
"""The place of an event in the log, and its digest."""


def leaves_of(reader: Reader) -> Iterator[Placed]:
    """Every event that the log ever had below its horizon, in order; of archived ones the digests that were kept."""
    return merge(_logged(reader), _archived(reader))


def _logged(reader: Reader) -> Iterator[Placed]:
    after = 0
    while page := reader.log(after=after, limit=PAGE):
        yield from ((each.position, each.record.digest) for each in page)
        after = page[-1].position


def _archived(reader: Reader) -> Iterator[Placed]:
    after = 0
    while page := reader.leaves(after=after, limit=PAGE):
        yield from ((each.position, each.digest) for each in page)
        after = page[-1].position


def take(reader: Reader, anchors: Sequence[Anchor]) -> tuple[Anchor, list[Problem]]:
    """The anchor of the log as it stands, and what earlier anchors say against it."""
    tree, position, problems = merkle.Tree(), 0, list[Problem]()
    for each in _checked(leaves_of(reader), anchors, tree, problems):
        position = each[0]
    return Anchor(tree.size, position, tree.root().hex(), reader.now()), problems


def check(log: Iterable[Placed], anchors: Sequence[Anchor]) -> tuple[list[Problem], int]:
    """Hold a log against anchors; the first that does not fit names the part in which something was changed.

    Answers the problems, and how many events the log has.
    """
    problems, tree = list[Problem](), merkle.Tree()
    for _ in _checked(log, anchors, tree, problems):
        pass
    return problems, tree.size


def _checked(
    log: Iterable[Placed], anchors: Sequence[Anchor], tree: merkle.Tree, problems: list[Problem]
) -> Iterator[Placed]:
    """Pass a log on, and compare it with each anchor at its size; the first that does not fit names where to look."""
    waiting = deque(sorted(anchors, key=lambda anchor: anchor.size))
    known = position = 0
    for each in chain([None], log):
        if each is not None:
            tree.add(merkle.leaf_of(*each))
            position = each[0]
        while waiting and waiting[0].size == tree.size:
            anchor = waiting.popleft()
            if (anchor.root, anchor.position) == (tree.root().hex(), position):
                known = anchor.position
            elif not problems:
                problems.append(Problem(0, "anchor", _changed(anchor, known)))
        if each is not None:
            yield each
    for anchor in waiting:
        anchored = f"{anchor.size:,} events were anchored at {anchor.at.isoformat()}"
        text = f"{anchored}, only {tree.size:,} stand: the end was cut off, or an older backup was restored"
        problems.append(Problem(0, "anchor", text))


def _changed(anchor: Anchor, known: int) -> str:
    anchored = f"the first {anchor.size:,} events are not those that were anchored at {anchor.at.isoformat()}"
    between = f"between the positions {known + 1:,} and {anchor.position:,}"
    return f"{anchored}: something was changed, inserted or removed {between}"


def prove(reader: Reader, stream: str, sequence: int, anchor: Anchor) -> Proof:
    """Prove one event against an anchor, in one pass over the log.

    Raises:
        UnknownSequenceError: the stream has no such event.
        HistoryArchivedError: the event was archived.
        InvalidRequestError: the event was written after the anchor, or the log is not the one that was anchored.
    """
    found = reader.placed(stream, after=sequence - 1, limit=1)
    if found and found[0].record.sequence > sequence and (event := boundary(reader, stream)) is not None:
        raise HistoryArchivedError(stream, event.sequence, getattr(event.event, "place", ""))
    if not found or found[0].record.sequence != sequence:
        known = [each.record.sequence for each in placed(reader, stream)]
        raise UnknownSequenceError(stream, sequence, known[-1] if known else 0, known[0] if known else 1)
    wanted = found[0]
    if wanted.position > anchor.position:
        problem = (
            f"it was taken at position {anchor.position:,}, the event stands at {wanted.position:,}; take a newer one"
        )
        raise InvalidRequestError("anchor", problem)
    index = _index_of(reader, wanted.position)
    path = merkle.Path(index, anchor.size)
    for place, each in enumerate(leaves_of(reader)):
        if place == anchor.size:
            break
        path.add(place, merkle.leaf_of(*each))
    nodes = tuple(node.hex() for node in path.nodes())
    proof = Proof(wanted.position, wanted.record, index, nodes, anchor)
    if not proof.ok:
        raise InvalidRequestError(
            "anchor", "the log is not the one that was anchored; see 'jobledger verify --anchors'"
        )
    return proof


def _index_of(reader: Reader, position: int) -> int:
    return sum(1 for _ in takewhile(lambda each: each[0] < position, leaves_of(reader)))


# As text --------------------------------------------------------------------------------------------------------------


def encode_anchor(anchor: Anchor) -> bytes:
    """An anchor as one line of JSON."""
    return _line({"format": FORMAT, "version": VERSION} | _fields(anchor))


def _fields(anchor: Anchor) -> dict[str, Any]:
    return asdict(anchor) | {"at": anchor.at.isoformat()}


def decode_anchors(encoded: bytes) -> list[Anchor]:
    """The anchors of a file, one on each line.

    Raises:
        InvalidRequestError: a line is no anchor, or one of a newer version.
    """
    return [_anchor_of(_object(line), number) for number, line in enumerate(encoded.splitlines(), start=1) if line]


def _anchor_of(fields: dict[str, Any], number: int) -> Anchor:
    known = {"size", "position", "root", "at", "key", "signature"}
    try:
        if (fields.pop("format"), fields.pop("version")) == (FORMAT, VERSION) and set(fields) == known:
            fields["at"] = datetime.fromisoformat(fields["at"])
            anchor = Anchor(**fields)
            numbers, texts = (anchor.size, anchor.position), (anchor.key, anchor.signature)
            is_whole = all(type(each) is int for each in numbers) and all(type(each) is str for each in texts)
            if is_whole and len(bytes.fromhex(anchor.root)) == len(merkle.EMPTY):
                return anchor
    except (KeyError, TypeError, ValueError):
        pass
    problem = f"line {number} is no anchor of version {VERSION}; 'jobledger anchor' writes them"
    raise InvalidRequestError("anchors", problem)


def encode_proof(proof: Proof) -> bytes:
    """A proof as a small JSON document that needs nothing else."""
    record = proof.record
    return _line(
        {
            "format": PROOF,
            "version": VERSION,
            "position": proof.position,
            "stream": record.stream,
            "sequence": record.sequence,
            "topic": record.topic,
            "state": record.state.decode(),
            "index": proof.index,
            "path": list(proof.path),
            "anchor": _fields(proof.anchor),
        }
    )


def decode_proof(encoded: bytes) -> Proof:
    """Read a proof.

    Raises:
        InvalidRequestError: it is none, or one of a newer version.
    """
    fields = _object(encoded)
    try:
        if (fields["format"], fields["version"]) == (PROOF, VERSION):
            anchor = _anchor_of({"format": FORMAT, "version": VERSION} | fields["anchor"], 1)
            record = StoredRecord(fields["stream"], fields["sequence"], fields["topic"], fields["state"].encode())
            proof = Proof(fields["position"], record, fields["index"], tuple(fields["path"]), anchor)
            _ = proof.ok  # every field is looked at here, so that nothing else meets one of another type
            return proof
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError):
        pass
    raise InvalidRequestError("proof", f"the file is no proof of version {VERSION}; 'jobledger prove' writes them")


def _object(encoded: bytes) -> dict[str, Any]:
    fields: Any = None
    with suppress(ValueError, RecursionError):
        fields = json.loads(encoded)
    return cast("dict[str, Any]", fields) if isinstance(fields, dict) else {}


def _line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def unsigned(anchors: Iterable[Anchor], is_signed: Callable[[Anchor], bool]) -> list[Problem]:
    """The anchors whose signature is not that of the trusted key."""
    text = "the anchor of {:,} events at {} is not signed with the given key"
    return [
        Problem(0, "signature", text.format(anchor.size, anchor.at.isoformat()))
        for anchor in anchors
        if not is_signed(anchor)
    ]
