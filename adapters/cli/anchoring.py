"""The commands that keep something outside the store: anchor and prove."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from jobledger.adapters.auditing.signing import is_signed, make_key, signed
from jobledger.adapters.cli.commands import KEEP, JobId, command
from jobledger.adapters.terminal.desk import Desk
from jobledger.adapters.terminal.failing import CORRUPT
from jobledger.adapters.terminal.showing import problems_table
from jobledger.adapters.terminal.texts import many, visible
from jobledger.domain.errors import InvalidRequestError
from jobledger.projections.anchors import decode_anchors, decode_proof, encode_anchor, encode_proof, unsigned
from jobledger.projections.audit import Verification
from jobledger.projections.rules import Problem

if TYPE_CHECKING:
    from jobledger.projections.anchors import Anchor

Anchors = Annotated[str, typer.Option("--anchors", metavar="FILE", help="The file that `anchor --to` adds to.")]


def register(app: typer.Typer) -> None:
    """Give these commands to an app."""
    command(
        app, KEEP, "anchor --to anchors.jsonl", "anchor --new-key audit.pem", "anchor --key audit.pem --to a.jsonl"
    )(anchor)
    command(app, KEEP, "prove ID 12 --anchors anchors.jsonl --to proof.json")(prove)


def anchor(
    desk: Desk,
    to: Annotated[str, typer.Option("--to", metavar="FILE", help="Where to add the anchor (- is the output).")] = "-",
    key: Annotated[str | None, typer.Option("--key", metavar="FILE", help="Sign it with this private key.")] = None,
    new_key: Annotated[
        str | None, typer.Option("--new-key", metavar="FILE", help="Only make a private key, and show its public one.")
    ] = None,
) -> None:
    """Take the head of the tree over the whole log, to be kept where this store's administrators cannot write.

    Earlier anchors in the same file are checked first; if the log is not the one that they name, none is added.
    """
    if new_key is not None:
        public = make_key(new_key)
        desk.answer({"public_key": public}, Text(f"public key {public}"), Text("keep it with the anchors", style="dim"))
        return
    earlier = [] if to == "-" or not Path(to).exists() else anchors_in(to)
    with desk.open() as store:
        taken, problems = store.anchor(earlier)
    if problems:
        found = Verification("", taken.size, tuple(problems))
        desk.answer(
            {"ok": False, "problems": problems}, problems_table([found]), Text("anchor: NOT ok, nothing was added")
        )
        raise typer.Exit(CORRUPT)
    if key is not None:
        taken = signed(taken, key)
    encoded = encode_anchor(taken)
    if to == "-":
        sys.stdout.write(encoded.decode())
        return
    with Path(to).open("ab") as file:
        file.write(encoded)
        file.flush()
        os.fsync(file.fileno())
    desk.answer(taken, Text(f"anchored {many(taken.size, 'event')} in {visible(to)}: {taken.root}"))


def prove(
    desk: Desk,
    job_id: JobId,
    sequence: Annotated[int, typer.Argument(metavar="N", help="The event's sequence.")],
    anchors: Anchors,
    to: Annotated[str, typer.Option("--to", metavar="FILE", help="Where to (- is the output).")] = "-",
) -> None:
    """Prove that one event is in the log that the newest anchor names, as a small file that needs nothing else."""
    known = anchors_in(anchors)
    if not known:
        raise InvalidRequestError("anchors", "the file has no anchors; 'jobledger anchor --to' adds one")
    newest = max(known, key=lambda each: each.size)
    with desk.open() as store:
        proof = store.prove(job_id, sequence, newest)
    encoded = encode_proof(proof)
    if to == "-":
        sys.stdout.write(encoded.decode())
        return
    Path(to).write_bytes(encoded)
    proved = f"event {sequence} of {visible(job_id)} is number {proof.index + 1:,} of {newest.size:,}"
    desk.answer({"file": to, "index": proof.index, "size": newest.size}, Text(f"{proved}: {visible(to)}"))


def anchors_in(path: str) -> list[Anchor]:
    """The anchors of a file.

    Raises:
        InvalidRequestError: a line is no anchor.
    """
    return decode_anchors(Path(path).read_bytes())


def verify_proof(path: str, public_key: str | None) -> Verification:
    """Whether a proof leads from its event to its anchor, and the anchor is signed with the given key."""
    proof = decode_proof(Path(path).read_bytes())
    problems = (
        [] if proof.ok else [Problem(proof.record.sequence, "proof", "its path does not lead to the anchor's root")]
    )
    if public_key is not None:
        problems += unsigned([proof.anchor], lambda each: is_signed(each, public_key))
    return Verification(proof.record.stream, 1, tuple(problems))


def verify_signatures(anchors: list[Anchor], public_key: str | None) -> Verification:
    """Whether each anchor is signed with the given key; without one, nothing is said."""
    found = unsigned(anchors, lambda each: is_signed(each, public_key)) if public_key is not None else []
    return Verification("", 0, tuple(found))
