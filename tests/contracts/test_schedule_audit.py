"""Verification of schedules: what is whole is said to be whole, what somebody touched is named by its rule."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from enum import Enum
from pathlib import Path

import pytest

from jobledger import JobStore, ManualClock
from jobledger.domain.schedules.state import schedule_stream
from tests.contracts.jobs import refuses
from tests.contracts.schedules import WHY, jobs_of, put

MINUTE = timedelta(minutes=1)
STREAM = schedule_stream("default", "s")


def rich(store: JobStore, clock: ManualClock) -> None:
    """A schedule with a bit of everything, whose head is its event 12; a hundred more follow on request."""
    put(store, overlap="allow", catch_up="all")
    clock.advance(2 * MINUTE)
    store.schedules.fire_due()
    put(store, overlap="allow", catch_up="none", payload=[1])
    clock.advance(5 * MINUTE)
    store.schedules.fire_due()
    store.schedules.hold("s", **WHY)
    clock.advance(3 * MINUTE)
    store.schedules.release("s", **WHY)
    store.schedules.trigger("s", **WHY)
    store.schedules.backfill("s", clock.now() - 2 * MINUTE, clock.now() - MINUTE, **WHY)


def test_a_whole_schedule_is_whole(store: JobStore, clock: ManualClock) -> None:
    """Also when it was removed and put again; everything that is stored is looked at."""
    rich(store, clock)
    assert store.schedules.verify("s").problems == ()
    store.schedules.remove("s", **WHY)
    put(store, overlap="queue")

    found = list(store.verify_all())

    assert [each.problems for each in found] == [()] * len(found)
    assert STREAM in [each.job_id for each in found]
    assert len(found) == len(jobs_of(store)) + 1
    assert store.schedules.verify("s").events == store.schedules.get("s").sequence
    refuses("unknown_schedule", store.schedules.verify, "t")


class Tamper(Enum):
    """A change, and the rule by which it has to be found."""

    EDIT = ("chained", "UPDATE stored_events SET state = replace(state, 'ann', 'spy') WHERE {event} = 8")
    DELETE = ("contiguous", "DELETE FROM stored_events WHERE {event} = 3")
    TRUNCATE = ("schedule_row", "DELETE FROM stored_events WHERE {event} > 12")
    GARBAGE = ("readable", "UPDATE stored_events SET state = x'00' WHERE {event} = 3")
    ROW = ("schedule_row", "UPDATE schedule SET schedule = replace(schedule, '\"fired\":', '\"skipped\":')")
    UNREADABLE = ("schedule_row", "UPDATE schedule SET schedule = '[]'")
    HEAD = ("schedule_row", "UPDATE schedule SET head = 'feed'")
    DUE = ("columns", "UPDATE schedule SET due_at_us = due_at_us + 1")
    REMOVED = ("columns", "UPDATE schedule SET is_removed = 1")
    GONE = ("schedule_row", "DELETE FROM schedule")
    JOB = (
        "occurrence",
        "DELETE FROM job_status WHERE job_id = (SELECT job_id FROM job_status WHERE key LIKE '%12:02:00Z')",
    )
    # The instant moves by a minute, and the row says what the log says: only the rules can tell.
    EARLIER = (
        "instant",
        "UPDATE stored_events SET state = replace(state, 'T12:01:00Z', 'T12:00:30Z') WHERE {event} = 2",
    )


@pytest.mark.parametrize("tamper", Tamper)
def test_what_was_touched_is_named(tmp_path: Path, clock: ManualClock, tamper: Tamper) -> None:
    """The control is the test before: untouched, nothing is wrong with the same schedule."""
    rule, statement = tamper.value
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with JobStore.open(url, clock=clock) as store:
        rich(store, clock)
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        touched = connection.execute(statement.format(event=f"originator_id = '{STREAM}' AND originator_version"))
    connection.close()
    assert touched.rowcount > 0

    with JobStore.open(url, clock=clock) as store:
        problems = store.schedules.verify("s").problems
        whole = {each.job_id: each for each in store.verify_all()}

    assert rule in {problem.rule for problem in problems}, problems
    assert whole[STREAM].problems == problems


def test_kept_states_are_compared_with_the_fold(tmp_path: Path, clock: ManualClock) -> None:
    """Time travel starts from them."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with JobStore.open(url, clock=clock) as store:
        put(store, overlap="allow", catch_up="all")
        clock.advance(150 * MINUTE)
        store.schedules.fire_due()
        assert store.schedules.verify("s").ok
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        connection.execute("UPDATE schedule_snapshot SET schedule = replace(schedule, 'index', 'spies')")
    connection.close()

    with JobStore.open(url, clock=clock) as store:
        assert [problem.rule for problem in store.schedules.verify("s").problems] == ["snapshot"]
        assert store.schedules.rebuild() == ("s",)
        assert store.schedules.verify("s").ok
        assert store.schedules.rebuild() == ()


@pytest.mark.parametrize("sequence", [40, 120])
def test_a_state_that_is_kept_between_the_others_is_found(tmp_path: Path, clock: ManualClock, sequence: int) -> None:
    """Time travel would start from it, before and behind the last one that belongs there."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with JobStore.open(url, clock=clock) as store:
        put(store, overlap="allow", catch_up="all")
        clock.advance(150 * MINUTE)
        store.schedules.fire_due()
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        connection.execute(
            "INSERT INTO schedule_snapshot SELECT namespace, name, ?, "
            "replace(schedule, '\"sequence\":100', '\"sequence\":' || ?) FROM schedule_snapshot",
            (sequence, sequence),
        )
    connection.close()

    with JobStore.open(url, clock=clock) as store:
        assert [problem.rule for problem in store.schedules.verify("s").problems] == ["snapshot"]
        assert store.schedules.rebuild() == ("s",)
        assert store.schedules.verify("s").ok
        assert store.schedules.rebuild() == ()


def test_rows_of_schedules_that_nothing_accounts_for_are_strays(tmp_path: Path, clock: ManualClock) -> None:
    """Somebody put them there."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with JobStore.open(url, clock=clock) as store:
        put(store)
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        connection.execute("INSERT INTO schedule SELECT namespace, 'x', 1, head, 1, '', 0, schedule FROM schedule")
        connection.execute("INSERT INTO schedule_snapshot SELECT namespace, 's', 100, schedule FROM schedule LIMIT 1")
    connection.close()

    with JobStore.open(url, clock=clock) as store:
        [beside] = [each for each in store.verify_all() if not each.job_id]

    assert [problem.rule for problem in beside.problems] == ["stray", "stray"]


@pytest.mark.parametrize("tamper", [Tamper.ROW, Tamper.HEAD, Tamper.DUE, Tamper.REMOVED, Tamper.UNREADABLE])
def test_a_rebuild_mends_a_row_that_was_touched(tmp_path: Path, clock: ManualClock, tamper: Tamper) -> None:
    """The events are the truth; the row is made from them again."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with JobStore.open(url, clock=clock) as store:
        rich(store, clock)
        truth = store.schedules.get("s")
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        connection.execute(tamper.value[1])
    connection.close()

    with JobStore.open(url, clock=clock) as store:
        assert store.schedules.rebuild() == ("s",)
        assert store.schedules.get("s") == truth
        assert store.schedules.verify("s").ok


def test_an_unreadable_schedule_stops_no_other(tmp_path: Path, clock: ManualClock) -> None:
    """It is named as failed, however many are due with it."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with JobStore.open(url, clock=clock) as store:
        for name in ("a", "b", "c"):
            put(store, name, overlap="allow")
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        connection.execute("UPDATE schedule SET schedule = '[]' WHERE name = 'b'")
    connection.close()
    clock.advance(MINUTE)

    with JobStore.open(url, clock=clock) as store:
        report = store.schedules.fire_due()
        assert report.fired == 2
        assert [name for name, _ in report.failed] == ["b"]
        refuses("history_corrupt", store.schedules.get, "b")


def test_a_job_that_its_schedule_does_not_know_is_found(tmp_path: Path, clock: ManualClock) -> None:
    """Each occurrence has its job, and each such job its place in its schedule's history."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with JobStore.open(url, clock=clock) as store:
        for name in ("a", "s"):
            put(store, name, overlap="allow")
        clock.advance(MINUTE)
        store.schedules.fire_due()
        [job_id] = [job.job_id for job in store.jobs().jobs if job.origin and " of s " in job.origin]
        assert all(found.ok for found in store.verify_all())
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        statement = (
            'UPDATE stored_events SET state = replace(state, \'"of":"s"\', \'"of":"a"\') WHERE originator_id = ?'
        )
        assert connection.execute(statement, (job_id,)).rowcount == 1
    connection.close()

    with JobStore.open(url, clock=clock) as store:
        assert "occurrence" in {problem.rule for problem in store.verify(job_id).problems}
