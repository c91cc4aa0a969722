"""Holds and cancels reach a running handler at its boundaries: it stops there, cleans up, and nothing is lost."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from jobledger.adapters.bootstrap import JobStore
from jobledger.adapters.worker import (
    AsyncJobContext,
    JobCancelled,
    JobContext,
    JobParked,
    checkpoint,
    durable_job,
    restore,
)
from jobledger.domain.job import State
from tests.worker.hosting import PATIENCE, created, ended, happens, hosted, names, until


def test_a_hold_parks_at_a_checkpoint_and_a_release_goes_on_from_it(store: JobStore) -> None:
    began, go = threading.Event(), threading.Event()

    @durable_job("k")
    class Handler:
        def __init__(self) -> None:
            self.count = 0

        def run(self, job: JobContext) -> list[int]:
            first = self.count
            began.set()
            assert go.wait(PATIENCE)
            while self.count < 5:
                self.count += 1
                job.checkpoint()
            return [first, self.count]

        @checkpoint
        def save(self) -> int:
            return self.count

        @restore
        def load(self, saved: int | None) -> None:
            self.count = saved or 0

    with hosted(store, Handler):
        job_id = created(store, "k")
        happens(began)
        store.hold(job_id, by="ann", reason="look")
        go.set()
        until(store, lambda: store.status(job_id).state is State.PAUSED)
        parked = store.status(job_id)
        store.release_hold(job_id, by="ann", reason="fine")
        status = ended(store, job_id)

    assert parked.checkpoint == 1
    assert status.result == [1, 5]
    assert names(store, job_id)[:7] == [
        "Created",
        "Claimed",
        "HoldPlaced",
        "Checkpointed",
        "Paused",
        "HoldReleased",
        "Claimed",
    ]


def test_a_boundary_parks_without_saving_and_learns_of_a_hold_by_renewal(memory: JobStore) -> None:
    began = threading.Event()

    @durable_job("k")
    def handler(job: JobContext) -> None:
        began.set()
        while True:
            job.boundary()
            threading.Event().wait(0.01)

    with hosted(memory, handler):
        job_id = created(memory, "k")
        happens(began)
        memory.hold(job_id, by="ann", reason="look")
        until(memory, lambda: memory.status(job_id).state is State.PAUSED)

    assert names(memory, job_id) == ["Created", "Claimed", "HoldPlaced", "Paused"]


def test_the_lease_is_kept_while_a_parked_handler_cleans_up(memory: JobStore) -> None:
    """Otherwise the next attempt could start beside the cleanup of this one."""
    began, held, cleaning, cleaned = (threading.Event() for _ in range(4))

    @durable_job("k")
    def handler(job: JobContext) -> None:
        began.set()
        assert held.wait(PATIENCE)
        try:
            job.checkpoint(1)
        finally:
            cleaning.set()
            assert cleaned.wait(PATIENCE)

    with hosted(memory, handler):
        job_id = created(memory, "k")
        happens(began)
        memory.hold(job_id, by="ann", reason="look")
        held.set()
        happens(cleaning)
        while_cleaning = memory.status(job_id)
        cleaned.set()
        until(memory, lambda: memory.status(job_id).state is State.PAUSED)

    assert while_cleaning.state is State.RUNNING


def test_a_broad_except_does_not_swallow_a_stop(memory: JobStore) -> None:
    began, held = threading.Event(), threading.Event()

    @durable_job("k")
    def handler(job: JobContext) -> str:
        began.set()
        assert held.wait(PATIENCE)
        try:
            job.checkpoint(1)
        except Exception:  # noqa: BLE001  # the careless handler under test
            return "swallowed"
        return "went on"

    with hosted(memory, handler):
        job_id = created(memory, "k")
        happens(began)
        memory.hold(job_id, by="ann", reason="look")
        held.set()
        until(memory, lambda: memory.status(job_id).state is not State.RUNNING)

    assert memory.status(job_id).state is State.PAUSED


@pytest.mark.parametrize("call", ["checkpoint", "boundary", "raise_if_cancelled"])
def test_a_cancel_is_recorded_at_a_boundary_after_cleanup(store: JobStore, call: str) -> None:
    began = threading.Event()
    cleaned: list[State] = []

    @durable_job("k")
    def handler(job: JobContext) -> None:
        job.checkpoint(0)
        job.unit("u", int)
        began.set()
        try:
            while True:
                job.checkpoint(1) if call == "checkpoint" else getattr(job, call)()
                threading.Event().wait(0.01)
        finally:
            cleaned.append(store.status(job.job_id).state)

    with hosted(store, handler):
        job_id = created(store, "k")
        happens(began)
        store.request_cancel(job_id, by="ann", reason="enough")
        status = ended(store, job_id)

    assert status.state is State.CANCELLED
    assert cleaned == [State.RUNNING]
    assert names(store, job_id)[-1] == "Cancelled"
    assert status.units == 1


def test_an_async_handler_is_cancelled_at_a_boundary(store: JobStore) -> None:
    began = threading.Event()

    @durable_job("k")
    async def handler(job: AsyncJobContext) -> None:
        while True:
            await job.checkpoint(1)
            began.set()

    with hosted(store, handler):
        job_id = created(store, "k")
        happens(began)
        store.request_cancel(job_id, by="ann", reason="enough")

        assert ended(store, job_id).state is State.CANCELLED


def test_a_handler_may_say_where_it_stopped(memory: JobStore) -> None:
    began = threading.Event()

    @durable_job("k")
    def handler(job: JobContext) -> None:
        began.set()
        while not job.cancellation_requested:
            threading.Event().wait(0.01)
        raise JobCancelled({"batch": 4})

    with hosted(memory, handler):
        job_id = created(memory, "k")
        happens(began)
        memory.request_cancel(job_id, by="ann", reason="enough")
        ended(memory, job_id)

    cancelled: Any = list(memory.history(job_id))[-1].event
    assert cancelled.boundary.value == {"batch": 4}


def test_a_result_after_a_cancel_request_stands(memory: JobStore) -> None:
    """A request is a request: the work was done."""
    began, asked = threading.Event(), threading.Event()

    @durable_job("k")
    def handler(job: JobContext) -> str:
        began.set()
        assert asked.wait(PATIENCE)
        try:
            job.checkpoint(1)
        except JobCancelled:
            return "done anyway"
        return "not asked"

    with hosted(memory, handler):
        job_id = created(memory, "k")
        happens(began)
        memory.request_cancel(job_id, by="ann", reason="enough")
        asked.set()

        assert ended(memory, job_id).result == "done anyway"


def test_a_failure_under_a_cancel_request_ends_as_cancelled_with_the_error(memory: JobStore) -> None:
    began, asked = threading.Event(), threading.Event()

    @durable_job("k")
    def handler() -> None:
        began.set()
        assert asked.wait(PATIENCE)
        raise ValueError("broken")

    with hosted(memory, handler):
        job_id = created(memory, "k")
        happens(began)
        memory.request_cancel(job_id, by="ann", reason="enough")
        asked.set()
        status = ended(memory, job_id)

    assert status.state is State.CANCELLED
    assert status.error == "ValueError: broken"


def test_parking_raises_what_a_handler_may_clean_up_on(memory: JobStore) -> None:
    seen: list[type[BaseException]] = []
    began, held = threading.Event(), threading.Event()

    @durable_job("k")
    def handler(job: JobContext) -> None:
        began.set()
        assert held.wait(PATIENCE)
        try:
            job.checkpoint(1)
        except JobParked:
            seen.append(JobParked)
            raise

    with hosted(memory, handler):
        job_id = created(memory, "k")
        happens(began)
        memory.hold(job_id, by="ann", reason="look")
        held.set()
        until(memory, lambda: memory.status(job_id).state is State.PAUSED)

    assert seen == [JobParked]
