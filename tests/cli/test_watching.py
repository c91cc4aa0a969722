"""Watching: every event once and in order, up to the end; what does not end can be given up on."""

import pytest

from tests.cli.given import Desk


@pytest.fixture
def ended(desk: Desk) -> str:
    """A job that was cancelled while it waited."""
    job_id = desk.job()
    with desk.store() as store:
        store.hold(job_id, by="alice", reason="wait")
        store.request_cancel(job_id, by="alice", reason="enough")
    return job_id


def test_watching_a_job_shows_every_event_and_its_end(desk: Desk, ended: str) -> None:
    shown = desk("watch", ended)

    assert shown.code == 0
    assert [line.split()[3] for line in shown.out.splitlines()[:-1]] == ["Created", "HoldPlaced", "Cancelled"]
    assert shown.out.splitlines()[-1] == f"ended: job {ended}: cancelled, sequence 3"


def test_with_json_each_line_is_an_event_and_the_last_one_the_status(desk: Desk, ended: str) -> None:
    *events, last = desk("watch", ended, "--json").lines

    assert [entry["event"]["sequence"] for entry in events] == [1, 2, 3]
    assert last["status"]["state"] == "cancelled"


def test_a_job_that_does_not_end_can_be_given_up_on(desk: Desk) -> None:
    job_id = desk.job()

    shown = desk("watch", job_id, "--timeout", "0")

    assert shown.code == 3
    assert f"timed_out): the time given with --timeout is over: job {job_id} is queued" in shown.err


def test_a_long_history_is_watched_in_pages(desk: Desk) -> None:
    job_id = desk.job()
    with desk.store() as store:
        for _ in range(120):
            store.hold(job_id, by="alice", reason="r")
            store.release_hold(job_id, by="alice", reason="r")
        store.request_cancel(job_id, by="alice", reason="r")

    *events, _ = desk("watch", job_id, "--json").lines

    assert [entry["event"]["sequence"] for entry in events] == list(range(1, 243))


def test_the_feed_shows_all_jobs_from_the_start_or_from_a_cursor(desk: Desk) -> None:
    first, second = desk.job(key="k1"), desk.job(key="k2")

    all_of_it = desk("watch", "--after", "start", "--timeout", "0", "--json").lines[:-1]
    cursor = all_of_it[0]["event"]["cursor"]
    rest = desk("watch", "--after", cursor, "--timeout", "0", "--json").lines[:-1]

    assert [entry["event"]["job_id"] for entry in all_of_it] == [first, second]
    assert [entry["event"]["job_id"] for entry in rest] == [second]


def test_the_feed_is_watched_from_now_on_unless_said_otherwise(desk: Desk) -> None:
    """The place that it names resumes there: nothing is lost between two calls."""
    desk.job(key="k1")

    shown = desk("watch", "--timeout", "0")
    cursor = shown.out.split()[4]
    later = desk.job(key="k2")

    assert shown.out.startswith("watching all jobs from ")
    assert later in desk("watch", "--after", cursor, "--timeout", "0").out


def test_a_cursor_that_nobody_gave_is_bad_input(desk: Desk) -> None:
    assert desk("watch", "--after", "yesterday", "--timeout", "0").code == 2
