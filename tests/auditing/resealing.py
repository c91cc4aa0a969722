"""Bundles that somebody changed and sealed again: the chain, the heads and the manifest hold, and a rule does not."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from jobledger.domain.history import StoredRecord
from jobledger.projections import merkle


@dataclass(slots=True)
class Draft:
    """A bundle taken apart: its first line, then events and what belongs to them, with their states as objects."""

    first: dict[str, Any]
    lines: list[dict[str, Any]]

    @property
    def events(self) -> list[dict[str, Any]]:
        """The lines of events, in order; ``["state"]["event"]`` is the event."""
        return [line for line in self.lines if line["line"] == "event"]

    def all(self, name: str) -> list[dict[str, Any]]:
        """The lines of all events of one kind, as in ``job.claimed``."""
        return [line for line in self.events if line["topic"] == name]

    def one(self, name: str, nth: int = 0) -> dict[str, Any]:
        """The fields of the nth event of one kind."""
        fields: dict[str, Any] = self.all(name)[nth]["state"]["event"]
        return fields

    def insert(self, after: dict[str, Any], topic: str, event: dict[str, Any], *, same: bool = False) -> dict[str, Any]:
        """Put an event behind another in its stream; ``same``: caused by the same command."""
        cause = after["state"].get("cause") if same else {"id": f"inserted-{topic}", "name": "made", "arguments": ""}
        line = {
            "line": "event",
            "stream": after["stream"],
            "topic": topic,
            "command_id": cause["id"] if cause else None,
            "state": {"cause": cause, "event": event},
        }
        self.lines.insert(self.lines.index(after) + 1, line)
        return line

    def drop(self, line: dict[str, Any]) -> None:
        """Take an event out."""
        self.lines.remove(line)


def taken_apart(bundle: bytes) -> Draft:
    """A bundle as a draft."""
    first, *others = (json.loads(line) for line in bundle.splitlines())
    return Draft(first, [line for line in others if line["line"] in ("event", "body", "unit")])


def sealed(draft: Draft) -> bytes:
    """The draft as a bundle whose digests, numbers, heads and manifest all fit; it tells no states."""
    written = [_line(draft.first)]
    heads: dict[str, tuple[int, str]] = {}
    tree, counts, position = merkle.Tree(), {"event": 0, "body": 0}, 0
    for line in draft.lines:
        if line["line"] != "event":
            counts["body"] += line["line"] == "body"
            written.append(_line(line))
            continue
        position += 1
        counts["event"] += 1
        sequence, previous = heads.get(line["stream"], (0, ""))
        state = {name: value for name, value in line["state"].items() if name != "previous" and value is not None}
        state |= {"previous": previous} if previous else {}
        encoded = json.dumps(state, ensure_ascii=False, separators=(",", ":")).encode()
        record = StoredRecord(line["stream"], sequence + 1, line["topic"], encoded)
        heads[record.stream] = (record.sequence, record.digest)
        tree.add(merkle.leaf_of(position, record.digest))
        fields = {"line": "event", "position": position, "stream": record.stream, "sequence": record.sequence}
        fields["topic"] = record.topic
        if line.get("command_id") is not None:
            fields["command_id"] = line["command_id"]
        written.append(_line(fields)[:-2] + b',"state":' + encoded + b"}\n")
    for stream, (sequence, digest) in heads.items():
        written.append(_line({"line": "head", "stream": stream, "sequence": sequence, "digest": digest}))
    return _with_manifest(written, counts, len(heads), tree, position)


def _with_manifest(written: list[bytes], counts: dict[str, int], streams: int, tree: merkle.Tree, last: int) -> bytes:
    whole = b"".join(written)
    manifest = {
        "line": "manifest",
        "events": counts["event"],
        "streams": streams,
        "jobs": 0,
        "bodies": counts["body"],
        "sha256": hashlib.sha256(whole).hexdigest(),
        "root": tree.root().hex(),
        "positions": [1, last] if last else [],
    }
    return whole + _line(manifest)


def _line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
