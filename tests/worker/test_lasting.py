"""A host that has run many jobs is as it was: none of them has left a thread or an object of its attempt behind."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any, Final

import pytest

from jobledger import AsyncJobContext, JobContext, JobHost, JobStore, State, durable_job
from jobledger.adapters.worker.attempt import Attempt, PostedEnd
from jobledger.adapters.worker.held import HeldLease
from jobledger.domain.answers import Lease
from tests.worker.hosting import created, hosted, until

SLOTS: Final = 4
OF_AN_ATTEMPT: Final = (Attempt, PostedEnd, HeldLease, Lease, JobContext, AsyncJobContext)


@durable_job("thread")
def in_thread(job: JobContext, fails: bool) -> int:
    job.checkpoint(1)
    if fails and job.attempt == 1:
        raise ValueError
    return 2


@durable_job("loop")
async def on_loop(job: AsyncJobContext, fails: bool) -> int:
    await job.checkpoint(1)
    if fails and job.attempt == 1:
        raise ValueError
    return 2


@durable_job("quick")
async def quick() -> None: ...


@pytest.fixture(autouse=True)
def no_records_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    """The test's own capture of log records keeps the tracebacks in them, and so every frame and its attempt."""
    caplog.set_level("CRITICAL", "jobledger.worker")


def alive() -> int:
    gc.collect()
    return sum(issubclass(type(each), OF_AN_ATTEMPT) for each in gc.get_objects())  # asks no lazy object of others


def run_some(store: JobStore, host: JobHost, count: int) -> None:
    """Run jobs of each sort, some of which fail once, and wait until the host has none in hand."""
    before = store.counts().get(State.COMPLETE, 0)
    for number in range(count):
        created(store, "thread", {"fails": number % 4 == 0})
        created(store, "loop", {"fails": number % 4 == 0})
        created(store, "quick")
    until(store, lambda: store.counts()[State.COMPLETE] == before + 3 * count and host.health().running == 0)


def threads_of(host: JobHost) -> int:
    return sum(thread.name.startswith(host.name) for thread in threading.enumerate())


def kept_by(store: JobStore, host: JobHost, counted: Callable[[], int]) -> list[int]:
    """What is counted after a warm-up, and again after five times as many jobs."""
    run_some(store, host, 10)
    first = counted()
    run_some(store, host, 50)
    return [first, counted()]


def test_no_attempt_outlives_its_end(memory: JobStore) -> None:
    with hosted(memory, in_thread, on_loop, quick, concurrency=SLOTS) as host:
        first, last = kept_by(memory, host, alive)

    assert last <= max(first, SLOTS), f"of 150 more jobs {last - first} objects were left"


def test_an_attempt_that_is_kept_is_noticed(memory: JobStore) -> None:
    """The negative control of the one above: the same harness over a handler that keeps its context."""
    kept: list[Any] = []

    @durable_job("quick")
    async def hoarding(job: AsyncJobContext) -> None:
        kept.append(job)

    with hosted(memory, in_thread, on_loop, hoarding, concurrency=SLOTS) as host:
        first, last = kept_by(memory, host, alive)

    assert last - first >= 50


def test_a_host_has_no_more_threads_than_it_needs_however_many_jobs_it_ran(memory: JobStore) -> None:
    with hosted(memory, in_thread, on_loop, quick, concurrency=SLOTS) as host:
        _, last = kept_by(memory, host, lambda: threads_of(host))

    own = 5  # claims, renewals, housekeeping, commits, and the loop
    assert last <= own + 2 * SLOTS
