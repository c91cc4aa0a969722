"""Operators' commands: on record under a name and a reason, and never on a state that the operator did not see."""

from typing import Any

import pytest

from jobledger.adapters.bootstrap import JobStore
from tests.cli.given import Desk


def test_create_makes_a_job_once(empty: Desk) -> None:
    """The first create makes the store too; the same again answers the same job."""
    given = ("create", "--owner", "a", "--key", "k", "--kind", "rebuild", "--payload", '{"part": 7}', "--json")

    first, again = empty(*given).document, empty(*given).document

    assert (first["reused"], again["reused"]) == (False, True)
    assert first["job_id"] == again["job_id"]
    assert empty("show", first["job_id"], "--json").document["payload"] == {"part": 7}


def test_create_with_another_payload_under_the_same_key_is_refused(desk: Desk) -> None:
    desk.job(owner="a", key="k")

    shown = desk("create", "--owner", "a", "--key", "k", "--kind", "rebuild", "--payload", "8")

    assert shown.code == 1
    assert "payload_changed" in shown.err


def test_create_takes_everything_a_request_has(desk: Desk, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in.json").write_text('{"a": [1, 2]}', encoding="utf-8")
    (tmp_path / "p.toml").write_text("[quick]\nlease = 2\n[quick.backoff]\ninitial = 0.5\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    options = [
        "--queue",
        "q",
        "--priority",
        "-3",
        "--ready-at",
        "+1h",
        "--label",
        "x=1",
        "--label",
        "y=",
        "--submission",
    ]
    options += ["s-1", "--policy", "quick", "--policies", "p.toml", "--control", "cancel", "--payload", "@in.json"]

    made = desk("create", "--owner", "a", "--kind", "k", *options, "--json").document
    job = desk("show", made["job_id"], "--json").document

    assert (job["queue"], job["priority"], job["payload"], job["submission"]) == ("q", -3, {"a": [1, 2]}, "s-1")
    assert (job["labels"], job["controls"], job["policy"]) == ({"x": "1", "y": ""}, ["cancel"], "quick")
    assert (job["limits"]["lease"], job["limits"]["backoff"]["initial"]) == ("PT2S", "PT0.5S")
    assert job["ready_at"] > job["created_at"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--payload", "@no-such-file"), "the file 'no-such-file' cannot be read: no such file"),
        (("--payload", '{"a":1,"a":2}'), "the key 'a' twice"),
        (("--payload", "NaN"), "NaN, which is not JSON"),
        (("--label", "x"), "is no name=value"),
        (("--label", "x=1", "--label", "x=2"), "given twice"),
        (("--ready-at", "tomorrow"), "is no time; write it as 2026-11-29 13:52:44Z"),
        (("--control", "stop"), "stop"),
        (("--policy", "quick"), "there is no policy 'quick'"),
        (("--policies", "no-such-file"), "cannot be read"),
        (("--owner", ""), "must not be empty"),
    ],
)
def test_create_names_what_is_wrong(desk: Desk, options: tuple[str, ...], problem: str) -> None:
    shown = desk("create", "--owner", "a", "--kind", "k", *options)

    assert shown.code == 2
    assert problem in shown.err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("quick = 2", "a table is needed; write [quick]"),
        ("[quick]\nlease = 0", "outside 0:00:01"),
        ("[quick]\nlaese = 2", "laese"),
        ("[quick", "is no TOML file"),
        ("[quick]\nself = 2", "policies.quick"),
    ],
)
def test_a_mistaken_file_of_policies_is_named(desk: Desk, tmp_path: Any, text: str, problem: str) -> None:
    (tmp_path / "p.toml").write_text(text, encoding="utf-8")

    shown = desk("create", "--owner", "a", "--kind", "k", "--policies", str(tmp_path / "p.toml"))

    assert shown.code == 2
    assert problem in shown.err


def test_a_command_is_on_record_under_a_name_and_a_reason(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --by it is the login name."""
    job_id = desk.job()
    monkeypatch.setenv("LOGNAME", "carol")

    desk("hold", job_id, "--reason", "the disk is full")
    hold = desk("show", job_id, "--json").document["hold"]

    assert (hold["by"], hold["reason"]) == ("carol", "the disk is full")


def test_a_reason_is_required(desk: Desk) -> None:
    assert desk("hold", desk.job()).code == 2
    assert desk("hold", desk.job(), "--reason", " ").code == 2


def test_hold_release_and_cancel_do_what_they_say(desk: Desk) -> None:
    job_id = desk.job()

    held = desk("hold", job_id, "--reason", "r")
    again = desk("hold", job_id, "--reason", "r")
    released = desk("release", job_id, "--reason", "r")
    cancelled = desk("cancel", job_id, "--reason", "r")

    assert held.out == f"held job {job_id}: paused, sequence 2\n"
    assert again.out == f"the hold stands already on job {job_id}: paused, sequence 2\n"
    assert released.out == f"released job {job_id}: paused, sequence 3\n"
    assert cancelled.out == f"cancelled job {job_id}: cancelled, sequence 4\n"


def test_resume_and_retry_do_what_they_say(desk: Desk) -> None:
    job_id = desk.job()
    desk("hold", job_id, "--reason", "r")

    resumed = desk("resume", job_id, "--reason", "r", "--json").document
    retried = desk("retry", job_id, "--reason", "r", "--json").document

    assert (resumed["state"], resumed["reused"]) == ("queued", False)
    assert (retried["state"], retried["reused"]) == ("queued", True)


@pytest.mark.parametrize("command", ["release", "resume", "retry"])
def test_what_must_not_act_late_carries_the_sequence_that_was_read(
    desk: Desk, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody acts between the reading and the command: it is refused, and the newer decision stands."""
    job_id = desk.job()
    with desk.store() as store:
        store.hold(job_id, by="alice", reason="wait")
    reading = JobStore.status

    def interrupted(store: JobStore, job_id: str, **given: Any) -> Any:
        status = reading(store, job_id, **given)
        store.release_hold(job_id, by="bob", reason="go")
        store.hold(job_id, by="bob", reason="no, stop")
        return status

    monkeypatch.setattr(JobStore, "status", interrupted)
    shown = desk(command, job_id, "--reason", "r")
    monkeypatch.undo()

    assert shown.code == 1
    assert "sequence_moved" in shown.err
    with desk.store() as store:
        hold = store.status(job_id).hold
    assert hold is not None
    assert hold.reason == "no, stop"


@pytest.mark.parametrize("command", ["hold", "release", "resume", "cancel", "retry"])
def test_the_sequence_that_was_looked_at_can_be_given(desk: Desk, command: str) -> None:
    job_id = desk.job()
    desk("hold", job_id, "--reason", "r")

    shown = desk(command, job_id, "--reason", "r", "--by", "other", "--expect", "1")

    assert shown.code == 1
    assert "sequence_moved" in shown.err
    assert "(control sequence 2, you expected 1)" in shown.err


def test_recover_parks_a_job_whose_lease_ran_out_and_no_other(desk: Desk) -> None:
    """An advanced epoch ends leases at once, as time would."""
    job_id, other = desk.job(), desk.job(key="other")
    with desk.store() as store:
        store.claim(job_id, worker="w")
        store.claim(other, worker="w")

    live = desk("recover", job_id)
    desk("epoch", "advance", "--reason", "new release")
    named = desk("recover", other, "--by", "ann", "--command-id", "c1", "--json").document
    again = desk("recover", other, "--by", "ann", "--command-id", "c1", "--json").document
    swept = desk("recover", "--expired", "--json").document

    assert live.code == 1
    assert "lease_live" in live.err
    assert again == named
    with desk.store() as store:
        assert [event.data["by"] for event in store.history(other) if event.name == "Interrupted"] == ["ann"]
    assert [receipt["job_id"] for receipt in swept["recovered"]] == [job_id]
    assert desk("recover", "--expired", "--by", "ann").code == 2
    assert desk("recover").code == 2
    assert desk("recover", job_id, "--expired").code == 2


def test_rerun_and_fork_make_new_jobs(desk: Desk) -> None:
    job_id = desk.job()

    early = desk("rerun", job_id, "--key", "k2", "--reason", "r")
    desk("cancel", job_id, "--reason", "r")
    rerun = desk("rerun", job_id, "--key", "k2", "--reason", "r", "--json").document
    fork = desk("fork", job_id, "--at", "1", "--key", "k3", "--reason", "r", "--json").document

    assert early.code == 1
    assert "not_terminal" in early.err
    assert len({job_id, rerun["job_id"], fork["job_id"]}) == 3
    assert desk("show", rerun["job_id"], "--json").document["origin"] == f"rerun of {job_id} at 2"
    assert desk("fork", job_id, "--at", "9", "--key", "k4", "--reason", "r").code == 1
