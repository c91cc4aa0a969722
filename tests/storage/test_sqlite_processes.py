"""Several processes on one SQLite file: everybody's turn comes, nobody is told of a lock, and all are woken."""

from __future__ import annotations

import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from jobledger.adapters.storage.sqlite import SQLiteStorage
from jobledger.domain.errors import StoreUnavailableError
from tests.storage.given import created, loaded, written
from tests.storage.processes import run, run_together

PROCESSES = 8
JOBS = 60

# Each process makes jobs, and for each of them claims it and renews its lease; it prints how many errors it met.
WORK = """
    from datetime import timedelta
    from jobledger.adapters.storage.clocks import ManualClock
    from jobledger.adapters.storage.sqlite import SQLiteStorage
    from jobledger.domain.errors import StoreUnavailableError
    from tests.storage.given import LEASE, NOON, claim, created, loaded, renewed, written

    storage = SQLiteStorage(sys.argv[1], clock=ManualClock(NOON))
    errors = 0
    wait_for_the_others()
    for number in range(int(sys.argv[3])):
        job_id = f"{sys.argv[2]}-{number}"
        try:
            assert written(storage, created(job_id)) == [None]
            running = claim(storage, job_id)
            assert written(storage, renewed(running, NOON + 2 * LEASE)) == [None]
        except StoreUnavailableError as error:
            errors += 1
    storage.close()
    print(errors)
"""

# The same on a twin that begins as sqlite3 does by default: reading first, asking for the lock later, waiting for none.
CARELESS = """
    from jobledger.adapters.storage.sqlite_connecting import SQLiteLedgerConnection

    def begin(self, patience):
        self.raw.execute("PRAGMA busy_timeout = 0")
        self.raw.execute("BEGIN")
        self.raw.execute("SELECT max(position) FROM job_status").fetchone()

    SQLiteLedgerConnection.begin_writing = begin
"""


def test_eight_processes_write_one_file_and_none_meets_a_lock(sqlite: SQLiteStorage) -> None:
    """Every job of every process is there, each with its lease moved."""
    errors = run_together(WORK, [[sqlite.path, number, JOBS] for number in range(PROCESSES)])

    assert errors == ["0\n"] * PROCESSES
    with sqlite.reading() as reader:
        job_ids = reader.job_ids("n", after="", limit=10_000)
        found = reader.load(job_ids)
    assert len(found) == PROCESSES * JOBS
    assert all(each.lease and each.job.sequence == 2 for each in found.values())
    assert sorted(each.position for each in found.values()) == sorted({each.position for each in found.values()})


def test_a_careless_twin_does_meet_locks(sqlite: SQLiteStorage) -> None:
    """The control of the test above: the same work is refused again and again."""
    errors = run_together(CARELESS + WORK, [[sqlite.path, number, JOBS] for number in range(PROCESSES)])

    assert sum(int(number) for number in errors) > 0


def test_a_writer_waits_for_another_process_as_long_as_its_patience(sqlite: SQLiteStorage) -> None:
    """Not shorter, and not much longer."""
    written(sqlite, created("before"))
    other = sqlite3.connect(sqlite.path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")

    begun = time.monotonic()
    with pytest.raises(StoreUnavailableError, match="locked"), sqlite.writing(timedelta(seconds=0.3)):
        pass
    assert 0.3 <= time.monotonic() - begun < 5

    assert loaded(sqlite, "before").position == 1
    threading.Timer(0.2, other.execute, ["ROLLBACK"]).start()
    assert written(sqlite, created("after")) == [None]
    other.close()


def test_an_append_of_another_process_wakes_who_waits(sqlite: SQLiteStorage) -> None:
    """Within one poll of the file, long before the timeout."""
    is_waiting = threading.Event()
    with sqlite.reading() as reader:
        assert reader.job_ids("n", after="", limit=1) == []

    def follow() -> float:
        sqlite.wait(timedelta(0))
        is_waiting.set()
        begun = time.monotonic()
        sqlite.wait(timedelta(seconds=60))
        return time.monotonic() - begun

    with ThreadPoolExecutor(1) as threads:
        waited = threads.submit(follow)
        is_waiting.wait()
        run(
            """
            from jobledger.adapters.storage.clocks import SystemClock
            from jobledger.adapters.storage.sqlite import SQLiteStorage
            from tests.storage.given import created, written
            written(SQLiteStorage(sys.argv[1], clock=SystemClock()), created())
            """,
            sqlite.path,
        )
        assert waited.result(timeout=70) < 30


def test_a_process_that_is_killed_leaves_nothing_half_done(sqlite: SQLiteStorage) -> None:
    """It dies with a session open; the next writer does not wait for it, and finds nothing of it."""
    run(
        """
        import os
        from jobledger.adapters.storage.clocks import SystemClock
        from jobledger.adapters.storage.sqlite import SQLiteStorage
        from tests.storage.given import PATIENCE, created, written
        storage = SQLiteStorage(sys.argv[1], clock=SystemClock())
        written(storage, created("kept"))
        with storage.writing(PATIENCE) as session:
            assert session.append([created("lost")]) == [None]
            os._exit(0)
        """,
        sqlite.path,
    )

    assert written(sqlite, created("next")) == [None]
    with sqlite.reading() as reader:
        assert reader.job_ids("n", after="", limit=9) == ["kept", "next"]
