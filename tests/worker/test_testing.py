"""The testing kit for users: inline runs, a clock by hand, crashes where the test says, and what was created."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from jobledger import (
    AsyncJobContext,
    Defer,
    JobContext,
    JobRequest,
    JobStatus,
    JobStore,
    Policy,
    State,
    checkpoint,
    durable_job,
    restore,
)
from jobledger.domain.errors import AlreadyTerminalError, InvalidHookError, NotReadyError, UnknownKindError
from jobledger.testing import JobTester

pytest_plugins = ["jobledger.testing.pytest_plugin"]

Make = Callable[..., JobTester]


@durable_job("count", policy="counting")
class Count:
    """Counts to a number, with a checkpoint at each."""

    started_at: list[int] = []  # noqa: RUF012  # what a test wants to see of all instances

    def __init__(self) -> None:
        self.next = 0

    def run(self, job: JobContext, upto: int) -> int:
        self.started_at.append(self.next)
        while self.next < upto:
            self.next += 1
            job.checkpoint()
        return self.next

    @checkpoint
    def save(self) -> int:
        return self.next

    @restore
    def load(self, saved: int | None) -> None:
        self.next = saved or 0


@pytest.fixture(autouse=True)
def _afresh() -> None:
    Count.started_at.clear()


def test_a_job_runs_inline_to_its_end(job_tester: Make) -> None:
    jobs = job_tester(Count)

    status = jobs.run(jobs.create("count", {"upto": 3}))

    assert (status.state, status.result, status.checkpoint) == (State.COMPLETE, 3, 3)


def test_a_crash_at_a_checkpoint_is_taken_over_from_there(job_tester: Make) -> None:
    jobs = job_tester(Count)
    job_id = jobs.create("count", {"upto": 5})

    crashed = jobs.run(job_id, crash_at_checkpoint=2)
    ended = jobs.run(job_id)

    assert (crashed.state, crashed.checkpoint) == (State.RUNNING, 2)
    assert (ended.state, ended.result, ended.generation) == (State.COMPLETE, 5, 2)
    assert Count.started_at == [0, 2]
    assert jobs.store.verify(job_id).ok


def test_a_crash_that_never_came_is_said(job_tester: Make) -> None:
    jobs = job_tester(Count)

    with pytest.raises(AssertionError, match="ended before its checkpoint 4; it made 3"):
        jobs.run(jobs.create("count", {"upto": 3}), crash_at_checkpoint=4)


def test_an_async_handler_runs_inline_too(job_tester: Make) -> None:
    @durable_job("awaits")
    async def awaits(job: AsyncJobContext, n: int) -> int:
        await job.checkpoint({"n": n})
        return n + 1

    jobs = job_tester(awaits)

    assert jobs.run(jobs.create("awaits", {"n": 4})).result == 5


def test_time_goes_by_only_as_the_test_says(job_tester: Make) -> None:
    @durable_job("waits")
    def waits(job: JobContext) -> Any:
        return "done" if job.attempt > 1 else Defer(3600)

    jobs = job_tester(waits)
    job_id = jobs.create("waits")

    assert jobs.run(job_id).state is State.PAUSED
    with pytest.raises(NotReadyError):
        jobs.run(job_id)
    jobs.advance(3600)
    assert jobs.run(job_id).result == "done"
    with pytest.raises(AlreadyTerminalError):
        jobs.run(job_id)


def test_a_lease_that_ran_out_by_the_clock_is_renewed_late(job_tester: Make) -> None:
    """The handler moves the clock itself: as under a host it goes on where nobody took over, and else it is told."""
    made: list[JobTester] = []
    others: list[int] = []

    @durable_job("slow")
    def slow(job: JobContext) -> None:
        made[0].advance(31)
        job.checkpoint(1)
        made[0].advance(31)
        [lease] = made[0].store.claim_next(worker="another")
        others.append(lease.generation)
        job.checkpoint(2)

    made.append(job_tester(slow))
    made[0].store.create(JobRequest(owner="o", kind="slow"))
    [status] = made[0].drain()

    assert others == [2]
    assert (status.state, status.generation, status.checkpoint_sequence) == (State.RUNNING, 2, 4)


async def _within_a_loop(tester: JobTester) -> JobStatus:
    return tester.run(tester.store.create(JobRequest(owner="o", kind="later")).job_id)


def test_an_async_test_runs_async_handlers_too(job_tester: Make) -> None:
    """Its own loop is running already."""

    @durable_job("later")
    async def later() -> str:
        await asyncio.sleep(0)
        return "done"

    assert asyncio.run(_within_a_loop(job_tester(later))).result == "done"


def test_a_drain_runs_also_what_jobs_create(job_tester: Make) -> None:
    made: list[JobTester] = []

    @durable_job("parent")
    def parent(n: int) -> None:
        for number in range(n):
            made[0].create("child", {"number": number}, queue="default")

    @durable_job("child")
    def child(number: int) -> int:
        return number

    jobs = job_tester(parent, child)
    made.append(jobs)
    jobs.create("parent", {"n": 3})

    statuses = jobs.drain()

    assert [status.result for status in statuses] == [None, 0, 1, 2]
    assert [job.payload["number"] for job in jobs.created("child")] == [0, 1, 2]
    assert len(jobs.created("child", {"number": 2}, queue="default")) == 1


def test_a_job_that_was_not_created_is_missed_with_what_there_is(job_tester: Make) -> None:
    jobs = job_tester(Count)
    jobs.create("count", {"upto": 3})

    with pytest.raises(
        AssertionError, match=r"no job of kind 'count' with .*'upto': 4.* those of that kind: .*'upto': 3"
    ):
        jobs.created("count", {"upto": 4})


def test_a_failure_is_a_status_and_no_exception(job_tester: Make) -> None:
    @durable_job("fails", policy="once")
    def fails() -> None:
        raise ValueError(4)

    jobs = job_tester(fails, policies={"once": Policy(failures_max=1)})
    status = jobs.run(jobs.create("fails"))

    assert (status.state, status.error) == (State.FAILED, "ValueError: 4")


def test_mistakes_are_those_of_a_host(job_tester: Make) -> None:
    with pytest.raises(InvalidHookError):
        job_tester(print)
    with pytest.raises(UnknownKindError):
        job_tester(Count).create("other")


def test_a_tester_is_a_context_manager_over_a_real_store() -> None:
    with JobTester(Count) as jobs:
        assert isinstance(jobs.store, JobStore)
