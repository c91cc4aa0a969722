"""Faults of growth: what a job leaves behind is bounded, however long it runs and however often it is tried."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest

from jobledger import Completion, JobStore, ManualClock, State
from tests.contracts.jobs import created, running

EVENTS = 5_000


def test_a_history_of_thousands_of_events_ends_as_any_other(clock: ManualClock) -> None:
    """No run is ended for its length; a window of it is bounded, and an old cursor is told where it starts."""
    with JobStore.open("memory:", clock=clock) as store:
        lease = running(store)
        for done in range(EVENTS):
            store.report_progress(lease.fence, done, EVENTS)

        assert store.complete(lease.fence, result=1).state is State.COMPLETE

        window = store.events(lease.job_id, after=0, limit=10**9)
        assert len(window.events) <= 1_100
        assert window.snapshot is not None
        assert window.snapshot.sequence == window.floor - 1 > 0
        assert window.events[0].sequence == window.floor


def test_a_job_of_many_attempts_has_a_row_of_the_same_size(sqlite: JobStore, file: Path) -> None:
    """Nothing that is kept of a job is a list that grows with its attempts."""
    job_id = created(sqlite, policy="quick")
    sizes = []
    for number in range(120):
        lease = sqlite.claim(job_id, worker="w")
        sqlite.checkpoint(lease.fence, {"next": number})
        sqlite.fail_attempt(lease.fence, "it broke", retry_after=timedelta(0))
        if number in (9, 119):
            sizes.append(_one(file, "SELECT length(job) FROM job_status"))

    early, late = sizes
    assert late < early * 1.1


def test_a_checkpoint_costs_what_it_holds(sqlite: JobStore, file: Path) -> None:
    """A large state is kept once, its event and row stay small, and old ones are let go by policy."""
    lease = running(sqlite, policy="forgetful")

    for number in range(8):
        sqlite.checkpoint(lease.fence, {"number": number, "state": "s" * 500_000})

    assert _one(file, "SELECT count(*) FROM job_body WHERE is_checkpoint = 1") == 2
    assert _one(file, "SELECT sum(length(bytes)) FROM job_body") < 2 * 501_000
    assert _one(file, "SELECT max(length(state)) FROM stored_events") < 2_000
    assert _one(file, "SELECT length(job) FROM job_status") < 4_000


@pytest.mark.parametrize("last", [2**31 - 3, 2**53 - 3])
def test_positions_beyond_any_common_size_are_positions(sqlite: JobStore, file: Path, last: int) -> None:
    """Cursors are texts, so no reader ever rounds one."""
    created(sqlite, "first")
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'stored_events'", (last,))
    connection.close()
    cursor = sqlite.feed().cursor

    jobs = [created(sqlite, f"k{number}") for number in range(6)]

    news = sqlite.feed(after=cursor)
    assert [entry.job_id for entry in news.entries] == jobs
    assert sqlite.feed(after=news.entries[2].cursor).entries == news.entries[3:]
    page = sqlite.jobs(limit=4)
    assert [status.job_id for status in page.jobs] == jobs[:1:-1]
    assert [status.job_id for status in sqlite.jobs(limit=4, cursor=page.next_cursor).jobs][:2] == jobs[1::-1]


def test_an_error_text_that_no_store_can_hold_stops_no_other(store: JobStore) -> None:
    """One of fifty outcomes that are published together has such a text: all are recorded, it with a visible escape."""
    leases = [running(store, f"k{number}") for number in range(50)]
    errors = ["it broke"] * 50
    errors[17] = "it \0 broke \ud800"

    store.complete_many(
        [Completion(lease.fence, "failed", error=error) for lease, error in zip(leases, errors, strict=True)]
    )

    states = [store.status(lease.job_id) for lease in leases]
    assert {status.state for status in states} == {State.FAILED}
    assert states[17].error == "it \\u0000 broke \\ud800"


def _one(file: Path, question: str) -> int:
    with sqlite3.connect(file) as connection:
        [answer] = connection.execute(question).fetchone()
    connection.close()
    return int(answer)
