"""Many workers beside each other: each finds work of its own, waits for nobody, and takes no more than it asked for."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from jobledger import JobRequest, JobStore, State
from tests.postgresql.conftest import Ledger

JOBS = 240
WORKERS = 8


def test_workers_take_all_jobs_once_and_none_goes_without(ledger: Ledger) -> None:
    """Eight at once: no job has two generations, and everybody has had a share."""
    with ledger.open() as store, ThreadPoolExecutor(WORKERS) as threads:
        store.create_many([JobRequest(owner="team", kind="index") for _ in range(JOBS)])

        def work(number: int) -> int:
            done = 0
            while leases := store.claim_next(worker=f"w{number}", limit=5):
                assert len(leases) <= 5
                done += len(leases)
                for lease in leases:
                    store.complete(lease.fence)
            return done

        done = list(threads.map(work, range(WORKERS)))

        assert sum(done) == JOBS
        assert min(done) > 0
        assert Counter(job.generation for job in store.jobs(limit=1_000).jobs) == {1: JOBS}
        assert store.counts()[State.COMPLETE] == JOBS


def test_a_claim_passes_over_what_another_is_taking(store: JobStore) -> None:
    """Also where the other one holds all that is best; it neither waits nor takes what is not its own."""
    storage: Any = store._setting.storage  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # an open transaction is its own
    ids = [receipt.job_id for receipt in store.create_many([JobRequest(owner="o", kind="k") for _ in range(40)])]  # type: ignore[union-attr]  # none is refused
    with storage.writing(timedelta(seconds=5)) as session:
        held = session.candidates("default", queues=["default"], kinds=None, limit=30)
        assert held == ids[:30]
        with ThreadPoolExecutor(1) as other:
            leases = other.submit(store.within(1).claim_next, worker="w", limit=5).result(timeout=20)
            assert [lease.job_id for lease in leases] == ids[30:35]
            leases = other.submit(store.within(1).claim_next, worker="w", limit=50).result(timeout=20)
            assert [lease.job_id for lease in leases] == ids[35:]
            assert other.submit(store.within(1).claim_next, worker="w").result(timeout=20) == []

    assert [lease.job_id for lease in store.claim_next(worker="w", limit=50)] == ids[:30]


def test_an_attempt_does_not_start_before_the_end_that_made_room_for_it(ledger: Ledger, store: JobStore) -> None:
    """A claim that waited for its turn in a limited queue reads the clock behind that wait."""
    job_id = store.create(JobRequest(owner="o", kind="k", queue="narrow")).job_id
    store.queues.limit("narrow", running_max=1, by="op", reason="small")
    with ledger.connect() as another, ThreadPoolExecutor(1) as other:
        another.execute("SELECT queue_turn('default', 'narrow')")
        waiting = other.submit(store.claim, job_id, worker="w")
        with ledger.connect(autocommit=True) as looking:
            while looking.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchall() == [(0,)]:
                looking.execute("SELECT pg_sleep(0.01)")
        made_room = store.create(JobRequest(owner="o", kind="k")).job_id
        another.rollback()
        waiting.result(timeout=20)

    assert store.status(job_id).updated_at > store.status(made_room).created_at


@pytest.mark.parametrize("planner", ["enable_nestloop", "enable_indexscan", "enable_sort", "enable_material"])
def test_a_claim_locks_no_more_than_it_was_asked_for(ledger: Ledger, planner: str) -> None:
    """Whatever the planner may not do."""
    with ledger.open() as store:
        store.create_many([JobRequest(owner="o", kind="k", priority=number % 3) for number in range(30)])
    with JobStore.open(f"{ledger.url}&options=-c%20{planner}=off") as store:
        storage: Any = store._setting.storage  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # an open transaction is its own
        with storage.writing(timedelta(seconds=5)) as session:
            assert len(session.candidates("default", queues=["default"], kinds=None, limit=4)) == 4
            with ledger.connect() as connection:
                free = connection.execute("SELECT count(*) FROM (SELECT FROM job_status FOR UPDATE SKIP LOCKED) AS f")
                assert free.fetchall() == [(26,)]
