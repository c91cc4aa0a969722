"""Operators take old histories out of a store, with a bundle that they can look into later."""

from pathlib import Path

from tests.cli.given import Desk, tamper


def test_ended_jobs_are_archived_to_a_bundle(desk: Desk, tmp_path: Path) -> None:
    """What is open stays, and the status says where the rest is."""
    ended, open_ = desk.job(), desk.job(key="other")
    desk("cancel", ended, "--reason", "superseded")
    file = tmp_path / "old.jsonl"

    archived = desk("archive", "--older-than", "0s", "--to", str(file), "--by", "ann", "--json")

    assert (archived.code, archived.document["jobs"], archived.document["events"]) == (0, 1, 2)
    assert archived.document["file"] == str(file)
    assert desk("verify", "--export", str(file)).code == 0
    assert desk("show", ended, "--json").document["archived"] == 3
    assert desk("show", open_, "--json").document["archived"] == 0
    assert "events 1 to 2" in desk("show", ended).out
    assert f"archived the events before this one to {file}" in desk("audit", ended).out
    assert desk("verify", "--all").code == 0


def test_what_was_archived_is_refused_with_its_place(desk: Desk, tmp_path: Path) -> None:
    job_id, file = desk.job(), str(tmp_path / "old.jsonl.gz")
    desk("cancel", job_id, "--reason", "superseded")
    desk("archive", "--older-than", "0s", "--to", file)

    shown = desk("show", job_id, "--at", "1")

    assert shown.code == 1
    assert "history_archived" in shown.err
    assert file in shown.err
    window = desk("events", job_id)
    assert window.code == 0
    assert "events before 3 are out of reach" in window.out


def test_nothing_to_archive_is_no_mistake(desk: Desk) -> None:
    """Without a span only what policies let go is archived; no bundle is made of nothing."""
    desk.job()

    assert desk("archive").out == "archived 0 jobs, 0 events\n"


def test_a_bundle_that_exists_is_not_written_over(desk: Desk, tmp_path: Path) -> None:
    job_id, file = desk.job(), tmp_path / "old.jsonl"
    desk("cancel", job_id, "--reason", "superseded")
    file.write_text("mine", encoding="utf-8")

    refused = desk("archive", "--older-than", "0s", "--to", str(file))

    assert refused.code == 2
    assert file.read_text("utf-8") == "mine"


def test_a_history_that_does_not_hold_stays_and_exits_4(desk: Desk) -> None:
    job_id = desk.job()
    desk("cancel", job_id, "--reason", "superseded")
    tamper(desk.path, "UPDATE stored_events SET state = replace(state, 'superseded', 'forgotten')")

    archived = desk("archive", "--older-than", "0s")

    assert archived.code == 4
    assert f"left alone: {job_id}" in archived.out
    assert desk("doctor").code in (0, 3)
