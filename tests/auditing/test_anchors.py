"""Anchors find what nothing else can: histories that were rewritten whole, cut off, or restored from a backup."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import sqlite3
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from jobledger import Anchor, CreateReceipt, JobRequest, JobStore, ManualClock
from jobledger.adapters.auditing import signing
from jobledger.domain.errors import InvalidRequestError
from jobledger.domain.history import StoredRecord
from jobledger.projections import merkle
from jobledger.projections.anchors import decode_anchors, decode_proof, encode_anchor, encode_proof
from tests.auditing.hands import REWRITES, TAMPERINGS, Hands, cut_a_stream_off, forget_a_stream
from tests.auditing.independent import checker
from tests.auditing.stories import NOON, OPS, STORIES, opened
from tests.contracts.jobs import refuses

LEAVES = [bytes.fromhex(data) for data in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657")]
LEAVES.append(bytes.fromhex("606162636465666768696a6b6c6d6e6f"))
ROOTS = {
    0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}
"""The reference implementation of RFC 6962 tests itself with these leaves and roots."""


def _hashed(data: bytes) -> bytes:
    return hashlib.sha256(merkle.LEAF + data).digest()


def test_the_tree_is_that_of_the_standard() -> None:
    for size, root in ROOTS.items():
        tree = merkle.Tree()
        for data in LEAVES[:size]:
            tree.add(_hashed(data))

        assert tree.root().hex() == root
        assert merkle.root_of([_hashed(data) for data in LEAVES[:size]]).hex() == root


def test_a_growing_tree_is_the_one_of_the_definition_at_every_size() -> None:
    tree, leaves = merkle.Tree(), list[bytes]()
    for number in range(70):
        assert tree.root() == merkle.root_of(leaves)
        leaves.append(_hashed(bytes([number])))
        tree.add(leaves[-1])


def test_a_path_proves_its_leaf_at_its_place_and_nothing_else() -> None:
    """Of every leaf, in trees of every size; another leaf, index, size, path or root is no proof."""
    leaves = [_hashed(bytes([number])) for number in range(20)]
    for size in range(1, 21):
        root = merkle.root_of(leaves[:size])
        for index in range(size):
            path = merkle.Path(index, size)
            for place, leaf in enumerate(leaves[:size]):
                path.add(place, leaf)
            nodes = path.nodes()

            assert merkle.is_proved(leaves[index], index, size, nodes, root)
            assert _is_proved_by_the_checker(index, size, nodes)
            assert not merkle.is_proved(_hashed(b"other"), index, size, nodes, root)
            assert not merkle.is_proved(leaves[index], index, size, [*nodes, root], root)
            assert not merkle.is_proved(leaves[index], index, size, nodes, _hashed(b"other"))
            assert size == 1 or not merkle.is_proved(leaves[index], (index + 1) % size, size, nodes, root)
            assert not merkle.is_proved(leaves[index], index, size, nodes[:-1], root) or not nodes
            assert not merkle.is_proved(leaves[index], size, size, nodes, root)
    with pytest.raises(IndexError):
        merkle.Path(3, 3)


def _is_proved_by_the_checker(index: int, size: int, nodes: list[bytes]) -> bool:
    """The independent checker follows the path from the bottom; here of events that stand at the positions from 1."""
    records = [StoredRecord("s", number + 1, "job.created", b"{}") for number in range(size)]
    leaves = [merkle.leaf_of(record.sequence, record.digest) for record in records]
    path = merkle.Path(index, size)
    for place, leaf in enumerate(leaves):
        path.add(place, leaf)
    assert len(path.nodes()) == len(nodes)
    told = {"position": index + 1, "stream": "s", "sequence": index + 1, "topic": "job.created", "state": "{}"}
    anchor = {"size": size, "root": merkle.root_of(leaves).hex()}
    proof: dict[str, Any] = told | {"index": index, "path": [node.hex() for node in path.nodes()], "anchor": anchor}
    is_found: bool = checker().proved(proof)
    assert not checker().proved(proof | {"anchor": anchor | {"root": "00" * 32}})
    assert not checker().proved(proof | {"path": [*proof["path"], "00" * 32]})
    return is_found


# A store, anchored three times ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def anchored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Anchor], Path]:
    """A store with a bit of everything, its anchors (written since: a tail), and a backup from before the last one."""
    folder = tmp_path_factory.mktemp("anchored")
    path, clock, anchors = folder / "jobs.db", ManualClock(NOON), list[Anchor]()
    backup = folder / "backup.db"
    with opened(f"sqlite:///{path}", clock) as store:
        for names in (("completed", "held", "bodies"), ("groups",), ("long",)):
            for name in names:
                _told(store, clock, name)
            taken, problems = store.anchor(anchors)
            assert problems == []
            anchors.append(taken)
            if names == ("groups",):
                with sqlite3.connect(path) as source, sqlite3.connect(backup) as target:
                    source.backup(target)
                target.close()
                source.close()
        [running] = [job.job_id for job in store.jobs(key_prefix="long").jobs]
        store.hold(running, **OPS)
        store.release_hold(running, **OPS)
    return path, anchors, backup


def _told(store: JobStore, clock: ManualClock, name: str) -> None:
    """A story under keys of its own."""
    told: Any = _Renaming(store, name)
    STORIES[name](told, clock)
    clock.advance(timedelta(seconds=1))


class _Renaming:
    """A store whose keys begin with the name of a story."""

    def __init__(self, store: JobStore, name: str) -> None:
        self._store, self._name = store, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def create(self, request: JobRequest) -> CreateReceipt:
        return self._store.create(request.model_copy(update={"key": f"{self._name}-{request.key}"}))


def _found(path: Path, anchors: list[Anchor], *, is_rebuilt: bool = False) -> tuple[set[str], set[str]]:
    """What a verification of everything finds: the streams that it names, and the rules."""
    with opened(f"sqlite:///{path}") as store:
        if is_rebuilt:
            store.rebuild("status")
        found = [each for each in (*store.verify_all(), store.verify_anchors(anchors)) if not each.ok]
    texts = " ".join(problem.text for each in found for problem in each.problems)
    return {each.job_id for each in found} | set(texts.split("'")), {p.rule for each in found for p in each.problems}


def test_what_nobody_touched_is_what_was_anchored(anchored: tuple[Path, list[Anchor], Path]) -> None:
    """The negative control of everything below."""
    path, anchors, _ = anchored

    assert _found(path, anchors)[1] == set()
    assert [anchor.size for anchor in anchors] == sorted({anchor.size for anchor in anchors})


@pytest.mark.parametrize("part", range(10))
def test_a_thousand_random_tamperings_are_found_and_named(
    anchored: tuple[Path, list[Anchor], Path], tmp_path: Path, part: int
) -> None:
    """Made directly in the tables, below the last anchor; found by the rule they break, or by the anchor."""
    path, anchors, _ = anchored
    for seed in range(100 * part, 100 * part + 100):
        chance = random.Random(seed)  # noqa: S311  # a seed to be repeated, no secret
        copy = Path(shutil.copy(path, tmp_path / "copy.db"))
        tampering = chance.choice(TAMPERINGS)
        with sqlite3.connect(copy) as connection:
            touched = tampering(Hands(connection, chance, anchors[-1].position))
        connection.close()

        streams, rules = _found(copy, anchors)

        assert rules, (seed, tampering.__name__)
        assert "anchor" in rules or touched in streams or not touched, (seed, tampering.__name__, streams, rules)


@pytest.mark.parametrize("rewrite", REWRITES)
def test_a_history_that_is_consistent_in_itself_is_found_by_the_anchor_alone(
    anchored: tuple[Path, list[Anchor], Path], tmp_path: Path, rewrite: Any
) -> None:
    """With all rows rebuilt; the problem names the part of the log to look at."""
    path, anchors, _ = anchored
    for seed in range(5):
        copy = Path(shutil.copy(path, tmp_path / "copy.db"))
        with sqlite3.connect(copy) as connection:
            rewrite(Hands(connection, random.Random(seed), anchors[-1].position))  # noqa: S311  # a seed, no secret
        connection.close()

        _, rules = _found(copy, anchors, is_rebuilt=rewrite not in (cut_a_stream_off, forget_a_stream))

        assert "anchor" in rules, seed


def test_a_restored_backup_is_found(anchored: tuple[Path, list[Anchor], Path]) -> None:
    """It verifies by itself, and holds fewer events than were anchored."""
    _, anchors, backup = anchored

    with opened(f"sqlite:///{backup}") as store:
        assert all(each.ok for each in store.verify_all())
        [problem] = store.verify_anchors(anchors).problems

    assert problem.rule == "anchor"
    assert "an older backup was restored" in problem.text


def test_no_anchor_is_added_to_those_that_do_not_fit(anchored: tuple[Path, list[Anchor], Path]) -> None:
    """Else a rewritten history would be anchored as the true one."""
    path, anchors, _ = anchored
    wrong = replace(anchors[1], root="00" * 32)

    with opened(f"sqlite:///{path}") as store:
        _, problems = store.anchor([anchors[0], wrong, anchors[2]])

    assert [problem.rule for problem in problems] == ["anchor"]
    assert f"between the positions {anchors[0].position + 1:,} and {wrong.position:,}" in problems[0].text


def test_one_event_is_proved_by_a_small_file(anchored: tuple[Path, list[Anchor], Path]) -> None:
    """Of every anchored event; what came later, and what was changed, is not proved."""
    path, anchors, _ = anchored
    with opened(f"sqlite:///{path}") as store:
        [job_id] = [job.job_id for job in store.jobs(key_prefix="completed").jobs]
        [later] = [job.job_id for job in store.jobs(key_prefix="long").jobs]
        head = store.status(job_id).sequence
        for sequence in (1, 2, head):
            encoded = encode_proof(store.prove(job_id, sequence, anchors[-1]))
            proof = decode_proof(encoded)

            assert proof.ok
            assert checker().proved(json.loads(encoded))
            assert not checker().proved(json.loads(encoded) | {"sequence": sequence + 1})
            assert len(encoded) < 4_000
            assert not replace(proof, position=proof.position + 1).ok
            assert not replace(proof, record=replace(proof.record, state=proof.record.state + b" ")).ok
        refuses("invalid_request", store.prove, later, 1, anchors[0])
        refuses("unknown_sequence", store.prove, job_id, 999, anchors[-1])
        refuses("unknown_job", store.prove, "nobody", 1, anchors[-1])
        refuses("invalid_request", store.prove, job_id, 1, replace(anchors[-1], root="00" * 32))


def test_an_anchor_is_signed_by_the_key_and_by_no_other(
    anchored: tuple[Path, list[Anchor], Path], tmp_path: Path
) -> None:
    """Whatever is changed of it afterwards, the signature says so."""
    public = signing.make_key(tmp_path / "audit.pem")
    other = signing.make_key(tmp_path / "other.pem")
    taken = signing.signed(anchored[1][-1], tmp_path / "audit.pem")

    assert signing.is_signed(taken, public)
    assert not signing.is_signed(taken, other)
    assert not signing.is_signed(anchored[1][-1], public)
    for changed in (
        replace(taken, size=taken.size + 1),
        replace(taken, position=taken.position + 1),
        replace(taken, root="00" * 32),
        replace(taken, at=taken.at + timedelta(microseconds=1)),
        replace(taken, signature="00" * 64),
        replace(taken, signature="nonsense"),
    ):
        assert not signing.is_signed(changed, public)
    assert (tmp_path / "audit.pem").stat().st_mode & 0o077 == 0
    with pytest.raises(InvalidRequestError, match="never overwritten"):
        signing.make_key(tmp_path / "audit.pem")
    (tmp_path / "none.pem").write_bytes(b"nonsense")
    with pytest.raises(InvalidRequestError, match="Ed25519"):
        signing.signed(taken, tmp_path / "none.pem")
    with pytest.raises(InvalidRequestError, match="64 hex digits"):
        signing.is_signed(taken, "nonsense")


def test_anchors_and_proofs_are_read_back_as_they_were(anchored: tuple[Path, list[Anchor], Path]) -> None:
    """And what is none of them is refused."""
    _, anchors, _ = anchored

    assert decode_anchors(b"".join(map(encode_anchor, anchors))) == anchors
    line, strange = json.loads(encode_anchor(anchors[0])), list[Any]([None, "x", -1, [], {}])
    for name in line:
        for value in strange:
            changed = json.dumps(line | {name: value}).encode()
            if name not in ("key", "signature", "size", "position") or value in (None, [], {}):
                with pytest.raises(InvalidRequestError):
                    decode_anchors(changed)
    for nonsense in (b"x", b"[]", b"{}", b"[" * 10_000):
        with pytest.raises(InvalidRequestError):
            decode_anchors(nonsense)
        with pytest.raises(InvalidRequestError):
            decode_proof(nonsense)
