"""The commands that only look: what they show, in which order, and as of when."""

import re
from datetime import timedelta

import pytest

from tests.cli.given import Desk

READS = [
    "jobs",
    "show {id}",
    "show {id} --at 1",
    "events {id}",
    "units {id}",
    "controls {id}",
    "timeline {id}",
    "verify {id}",
    "verify --all",
    "rebuild status",
    "epoch show",
    "doctor",
    "migrate",
]


@pytest.fixture
def job_id(desk: Desk) -> str:
    """A job with two generations: the first failed, the second runs and has saved something."""
    job_id = desk.job()
    with desk.store() as store:
        first = store.claim(job_id, worker="worker-a")
        store.fail_attempt(first.fence, "no luck")
        store.retry(job_id, by="alice", reason="at once")
        second = store.claim(job_id, worker="worker-b", lease=timedelta(hours=1))
        store.record_unit(second.fence, "batch-0", {"rows": 12})
        store.checkpoint(second.fence, {"next": 1})
    return job_id


@pytest.mark.parametrize("command", READS)
def test_with_json_the_answer_is_one_document(desk: Desk, job_id: str, command: str) -> None:
    shown = desk(*command.format(id=job_id).split(), "--json")

    assert (shown.code, shown.err) == (0, "")
    assert isinstance(shown.document, dict)


@pytest.mark.parametrize("command", READS)
def test_lines_are_not_filled_up_where_nobody_sees_a_table(desk: Desk, job_id: str, command: str) -> None:
    shown = desk(*command.format(id=job_id).split())

    assert [line for line in shown.out.splitlines() if line != line.rstrip()] == []


def test_show_tells_who_works_and_what_may_be_asked(desk: Desk, job_id: str) -> None:
    out = desk("show", job_id).out

    assert re.search(r"state +running, generation 2", out)
    assert re.search(r"lease +worker-b, group default \(epoch 1\), until 20\d\d-\d\d-\d\d \d\d:\d\d:\d\dZ \(in ", out)
    assert re.search(r"sequence +7 \(control sequence 5\)", out)
    assert re.search(r"controls +hold, cancel, fork ", out)
    assert '{"next":1} (at sequence 7)' in out
    assert "no luck" in out


def test_show_at_a_sequence_is_the_job_as_it_stood(desk: Desk, job_id: str) -> None:
    then = desk("show", job_id, "--at", "2", "--json").document

    assert (then["state"], then["generation"], then["sequence"]) == ("running", 1, 2)
    assert then["lease"]["worker"] == "worker-a"
    assert "as it stood at sequence 2" in desk("show", job_id, "--at", "2").out


def test_show_at_a_time_copied_from_the_screen_includes_that_second(desk: Desk, job_id: str) -> None:
    """What is shown in whole seconds happened within them."""
    changed = re.search(r"changed +(\S+ \S+Z)", desk("show", job_id).out)
    assert changed is not None

    assert desk("show", job_id, "--at", changed[1], "--json").document["sequence"] == 7


def test_show_before_the_job_existed_is_refused(desk: Desk, job_id: str) -> None:
    shown = desk("show", job_id, "--at", "1999-01-01T00:00:00Z")

    assert shown.code == 1
    assert "unknown_sequence" in shown.err


def test_events_are_read_on_from_a_sequence(desk: Desk, job_id: str) -> None:
    window = desk("events", job_id, "--after", "2", "--limit", "2", "--json").document

    assert [event["name"] for event in window["events"]] == ["AttemptFailed", "RetryRequested"]
    assert (window["next_after"], window["head"], window["floor"], window["snapshot"]) == (4, 7, 1, None)
    assert "read on with --after 4 (head 7)" in desk("events", job_id, "--after", "2", "--limit", "2").out


def test_a_gap_before_a_window_is_told(desk: Desk, tmp_path: object) -> None:
    """The window of this policy keeps ten events; what lies before is a snapshot, never silence."""
    policies = f"{tmp_path}/policies.toml"
    with open(policies, "w", encoding="utf-8") as file:  # noqa: PTH123  # a plain text is what is typed
        file.write("[short]\nwindow_events_max = 10\n")
    made = desk("create", "--owner", "a", "--kind", "k", "--policy", "short", "--policies", policies, "--json")
    job_id = made.document["job_id"]
    for _ in range(10):
        desk("hold", job_id, "--reason", "r")
        desk("release", job_id, "--reason", "r")

    shown = desk("events", job_id)

    assert "events before 12 are out of reach; at sequence 11 the job was:" in shown.out
    assert desk("events", job_id, "--json").document["snapshot"]["sequence"] == 11


def test_events_beyond_the_head_are_refused(desk: Desk, job_id: str) -> None:
    assert desk("events", job_id, "--after", "99").code == 1


def test_jobs_are_filtered_and_paged(desk: Desk) -> None:
    for number in range(5):
        desk.job(key=f"k{number}", labels={"quarter": str(number % 2)})

    first = desk("jobs", "--limit", "3", "--json").document
    rest = desk("jobs", "--limit", "3", "--cursor", first["next_cursor"], "--json").document
    odd = desk("jobs", "--label", "quarter=1", "--json").document

    assert [job["key"] for job in first["jobs"] + rest["jobs"]] == ["k4", "k3", "k2", "k1", "k0"]
    assert (first["total"], rest["next_cursor"]) == (5, None)
    assert [job["key"] for job in odd["jobs"]] == ["k3", "k1"]
    assert "3 of 5 jobs; read on with --cursor" in desk("jobs", "--limit", "3").out
    assert desk("jobs", "--owner", "nobody").out.startswith("no jobs match\n")


def test_an_unknown_job_is_refused(desk: Desk) -> None:
    shown = desk("show", "no-such-job")

    assert shown.code == 1
    assert shown.err == (
        "jobledger: refused (unknown_job): there is no job 'no-such-job' in this namespace; "
        "check the id and the store\n"
    )


def test_a_namespace_sees_only_its_own_jobs(desk: Desk) -> None:
    job_id = desk.job()

    assert desk("show", job_id, "--namespace", "other").code == 1
    assert desk("--namespace", "default", "show", job_id).code == 0


def test_the_store_is_named_by_option_before_and_behind_or_by_the_environment(
    desk: Desk, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBLEDGER_STORE", f"sqlite:///{tmp_path}/elsewhere.db")

    assert desk("jobs").code == 3
    assert desk("--store", desk.url, "jobs").code == 0
    assert desk("jobs", "--store", desk.url).code == 0


def test_units_controls_and_timeline_tell_of_the_work(desk: Desk, job_id: str) -> None:
    assert re.search(r'batch-0 +2 +6 +\{"rows":12\}', desk("units", job_id).out)
    assert re.search(r"recover +no +job .* is leased to worker 'worker-b'", desk("controls", job_id).out)
    assert re.search(r"1 +worker-a +\S+Z .* 0 +failed\n", desk("timeline", job_id).out)
    assert re.search(r"2 +worker-b +\S+Z .* 1 +it runs\n", desk("timeline", job_id).out)


def test_the_instant_that_is_shown_is_one_that_can_be_asked_about(desk: Desk) -> None:
    """To the microsecond: two events of one second have a moment each."""
    job_id = desk.job()
    desk("hold", job_id, "--reason", "r")
    held = desk("show", job_id, "--at", "2").out
    desk("release", job_id, "--reason", "r")
    [changed] = [line for line in held.splitlines() if line.startswith("changed")]
    at = changed.split(maxsplit=1)[1].split(" (")[0]

    shown = desk("show", job_id, "--at", at)

    assert shown.code == 0
    assert "as it stood at sequence 2" in shown.out
    assert desk("show", job_id, "--at", "3").out != shown.out
