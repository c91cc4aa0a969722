"""A limit is never exceeded, however many claim at once: in threads, and in processes; twins that look too early do."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobledger import JobRequest, JobStore, State
from jobledger.adapters.bootstrap import open_storage
from jobledger.domain.ports import Storage
from tests.contracts.racing import QUEUE, HastyStorage, claimer, drain, in_threads, most_at_once, starts
from tests.postgresql.stores import dropped, fresh_url

ROOT = Path(__file__).resolve().parents[2]
JOBS, THREADS, PROCESSES, MOST = 60, 8, 4, 3
WHY: dict[str, Any] = {"by": "ann", "reason": "small"}


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    """A storage of each kind on the time of its machine, since threads do not wait for each other's clocks."""
    url = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path / 'jobs.db'}"}.get(request.param) or fresh_url()
    yield open_storage(url, migrate=True)
    if request.param == "postgresql":
        dropped(url)


def filled(store: JobStore) -> None:
    """Jobs of two owners that wait in the queue."""
    store.create_many([JobRequest(owner="ab"[number % 2], kind="index", queue=QUEUE) for number in range(JOBS)])


def test_eight_threads_never_run_more_than_the_limit(storage: Storage) -> None:
    with claimer(storage) as store:
        filled(store)
        store.queues.limit(QUEUE, running_max=MOST, share_by="owner", running_max_per_share=2, **WHY)

        taken = in_threads(THREADS, lambda number: drain(store, f"w{number}", until_empty=True))

        assert sum(taken) == JOBS
        assert 1 <= most_at_once(store) <= MOST
        assert store.counts()[State.COMPLETE] == JOBS


def test_eight_threads_never_start_more_than_the_rate(storage: Storage) -> None:
    with claimer(storage) as store:
        filled(store)
        store.queues.limit(QUEUE, starts_max=11, starts_span=3600, **WHY)

        taken = in_threads(THREADS, lambda number: drain(store, f"w{number}", until_empty=False))

        assert sum(taken) == starts(store) == 11


@pytest.mark.parametrize("limit", [{"running_max": MOST}, {"starts_max": MOST, "starts_span": 3600}])
def test_a_twin_that_counts_before_its_turn_exceeds_the_limit(storage: Storage, limit: dict[str, Any]) -> None:
    """The control: in the same race, with all of them counting before any of them writes."""
    meeting = threading.Barrier(THREADS)
    with claimer(storage) as store:
        filled(store)
        store.queues.limit(QUEUE, **limit, **WHY)
        hasty = claimer(HastyStorage(storage, lambda: meeting.wait(timeout=60)))

        in_threads(THREADS, lambda number: hasty.claim_next(worker=f"w{number}", queues=[QUEUE], limit=1))

        assert starts(store) > MOST
        assert most_at_once(store) > MOST


def raced(url: str) -> int:
    """Let four processes drain the queue at once; answers how many ran at once at most."""
    with JobStore.open(url, migrate=True) as store:
        filled(store)
        store.queues.limit(QUEUE, running_max=MOST, **WHY)
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.contracts.racing", url, f"w{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
        )
        for number in range(PROCESSES)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    taken = [int(process.communicate(timeout=100)[0]) for process in processes]
    assert sum(taken) == JOBS
    with JobStore.open(url) as store:
        assert all(verified.ok for verified in store.verify_all())
        return most_at_once(store)


def test_four_processes_never_run_more_than_the_limit(url: str) -> None:
    assert 1 <= raced(url) <= MOST
