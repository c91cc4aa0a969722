"""Bundles that earlier releases wrote verify, replay and import for ever; their files are never edited."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from jobledger import JobStore
from jobledger.adapters.bundles.files import lines_in
from tests.auditing.independent import check

FOLDER = Path(__file__).parent / "golden"
GOLDEN = sorted(FOLDER.glob("*/*.jsonl.gz"))


def test_there_are_at_least_thirty() -> None:
    assert len(GOLDEN) >= 30


def test_no_golden_bundle_was_edited() -> None:
    """Each release adds its own and lists their digests; a changed file is a changed past."""
    for release in FOLDER.iterdir():
        listed = dict(line.split("  ")[::-1] for line in (release / "SHA256SUMS").read_text("utf-8").splitlines())
        found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in release.glob("*.jsonl.gz")}
        assert found == listed, release.name


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: f"{path.parent.name}-{path.name.partition('.')[0]}")
def test_a_golden_bundle_holds_today(golden: Path, tmp_path: Path) -> None:
    """Its history is legal, every state comes out as it was told, and a new store takes it in."""
    with lines_in(golden) as lines:
        bundle = b"".join(lines)

    assert [found for found in JobStore.verify_export(golden) if not found.ok] == []
    assert JobStore.replay_export(golden).differences == ()
    assert check(bundle) == []
    with JobStore.open(f"sqlite:///{tmp_path / 'copy.db'}") as copy:
        copy.import_bundle(golden)
        assert [found for found in copy.verify_all() if not found.ok] == []
