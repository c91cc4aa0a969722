"""Auditors take histories away, look at them without a store, and bring them back elsewhere."""

import json
from pathlib import Path

import pytest

from tests.cli.given import Desk, tamper


@pytest.fixture
def job_id(desk: Desk) -> str:
    """A job with two events."""
    job_id = desk.job()
    desk("hold", job_id, "--reason", "the disk is full")
    return job_id


def test_a_job_is_exported_and_verified_without_a_store(desk: Desk, job_id: str, tmp_path: Path) -> None:
    file = str(tmp_path / "job.jsonl.zst")

    exported = desk("export", job_id, "--to", file, "--json")
    desk.path.unlink()
    verified = desk("verify", "--export", file)
    replayed = desk("replay", file)

    assert exported.document["events"] == 2
    assert verified.out == "verify: ok (1 job, 2 events)\n"
    assert replayed.out == "replay: as told (1 job, 2 events)\n"
    assert (exported.code, verified.code, replayed.code) == (0, 0, 0)


def test_the_output_can_be_the_bundle(desk: Desk, job_id: str) -> None:
    """As in `jobledger export --to - | jq`: nothing else is written there."""
    shown = desk("export", "--to", "-")

    lines = [json.loads(line) for line in shown.out.splitlines()]
    assert [line["line"] for line in lines] == ["bundle", "event", "event", "head", "manifest"]
    assert lines[-2]["stream"] == job_id


def test_a_changed_bundle_exits_4_and_names_the_rule(desk: Desk, job_id: str, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    desk("export", "--to", str(file))
    file.write_text(file.read_text("utf-8").replace("the disk is full", "the dish is full"), encoding="utf-8")

    verified = desk("verify", "--export", str(file), "--json")

    assert verified.code == 4
    assert {"manifest", "head"} <= {problem["rule"] for problem in verified.document["problems"]}
    assert job_id in {problem["job_id"] for problem in verified.document["problems"]}


def test_a_bundle_is_imported_into_a_store_of_its_own(desk: Desk, job_id: str, tmp_path: Path) -> None:
    """Once: a store that holds anything is left alone."""
    file, other = str(tmp_path / "all.jsonl.gz"), f"sqlite:///{tmp_path / 'copy.db'}"
    desk("export", "--to", file)

    first = desk("import", file, "--store", other)
    again = desk("import", file, "--store", other)

    assert (first.code, again.code) == (0, 2)
    assert desk("show", job_id, "--store", other, "--json").document["state"] == "paused"
    assert desk("verify", "--all", "--store", other).out == "verify: ok (1 job, 2 events)\n"


def test_a_replay_shows_what_comes_out_otherwise(desk: Desk, job_id: str) -> None:
    """Field by field, with what is stored and what this release makes of the events."""
    assert desk("replay").out == "replay: as told (1 job, 2 events)\n"
    tamper(desk.path, "UPDATE job_status SET job = replace(job, 'the disk is full', 'no reason')")

    shown, document = desk("replay"), desk("replay", "--json").document

    assert shown.code == 4
    assert "no reason" in shown.out
    assert [(each["job_id"], each["field"]) for each in document["differences"]] == [(job_id, "hold")]


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify", "x", "--export", "f"),
        ("verify", "--export", "{missing}"),
        ("import", "{missing}"),
        ("replay", "{missing}"),
        ("export", "nobody", "--to", "{missing}"),
        ("export", "--to", "{missing}/below.jsonl"),
    ],
)
def test_what_cannot_be_done_names_the_next_step(desk: Desk, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    shown = desk(*(argument.format(missing=tmp_path / "missing") for argument in arguments))

    assert shown.code in (1, 2, 3)
    assert shown.err.startswith("jobledger: ")
    assert not (tmp_path / "missing").exists()


def test_a_log_is_anchored_outside_and_held_against_it(desk: Desk, job_id: str, tmp_path: Path) -> None:
    """Signed; what was rewritten below an anchor is found, and then no further anchor is added."""
    anchors, key = str(tmp_path / "anchors.jsonl"), str(tmp_path / "audit.pem")
    public = desk("anchor", "--new-key", key, "--json").document["public_key"]
    first = desk("anchor", "--key", key, "--to", anchors, "--json")
    desk("release", job_id, "--reason", "mended")
    second = desk("anchor", "--key", key, "--to", anchors, "--json")

    assert (first.document["size"], second.document["size"]) == (2, 3)
    assert desk("verify", "--all", "--anchors", anchors, "--public-key", public).code == 0
    assert desk("verify", "--anchors", anchors).out == "verify: ok (3 events held against anchors)\n"
    unsigned = desk("verify", "--anchors", anchors, "--public-key", "00" * 32, "--json")
    assert {problem["rule"] for problem in unsigned.document["problems"]} == {"signature"}

    tamper(desk.path, "DELETE FROM stored_events WHERE originator_version = 3")

    refused = desk("anchor", "--key", key, "--to", anchors)
    assert (desk("verify", "--anchors", anchors).code, refused.code) == (4, 4)
    assert "nothing was added" in refused.out
    assert len(Path(anchors).read_bytes().splitlines()) == 2


def test_one_event_is_proved_without_the_store(desk: Desk, job_id: str, tmp_path: Path) -> None:
    anchors, proof = str(tmp_path / "anchors.jsonl"), tmp_path / "proof.json"
    assert desk("anchor", "--to", anchors).code == 0
    assert desk("prove", job_id, "2", "--anchors", anchors, "--to", str(proof)).code == 0
    desk.path.unlink()

    assert desk("verify", "--proof", str(proof)).code == 0
    proof.write_text(proof.read_text("utf-8").replace("the disk is full", "the dish is full"), encoding="utf-8")
    changed = desk("verify", "--proof", str(proof), "--json")

    assert changed.code == 4
    assert [problem["rule"] for problem in changed.document["problems"]] == ["proof"]
    assert desk("anchor", "--to", "-").code == 3


def test_an_event_that_is_not_there_is_refused_with_those_that_are(desk: Desk, job_id: str, tmp_path: Path) -> None:
    anchors = str(tmp_path / "anchors.jsonl")
    assert desk("anchor", "--to", anchors).code == 0

    proved, shown = desk("prove", job_id, "99", "--anchors", anchors), desk("show", job_id, "--at", "99")

    assert (proved.code, proved.err) == (1, shown.err)
