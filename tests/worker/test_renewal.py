"""Leases live as long as their handlers do: a failed call is no lost lease, and a lost one publishes nothing."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobledger.adapters.bootstrap import JobStore
from jobledger.adapters.storage.clocks import ManualClock
from jobledger.adapters.storage.memory import MemoryStorage
from jobledger.adapters.worker import Defer, JobContext, LeaseLost, durable_job, gathering
from jobledger.domain.decisions.working import Effect
from jobledger.domain.errors import OutcomeUnknownError
from jobledger.domain.job import State
from jobledger.domain.ports import Storage
from jobledger.domain.store.executing import Call, Command, execute
from tests.worker.hosting import PATIENCE, created, ended, happens, hosted, names, ran, until
from tests.worker.hosting import opened as opened_over
from tests.worker.outages import FragileStorage


def test_a_handler_that_waits_longer_than_its_lease_keeps_its_generation(on_disk: JobStore) -> None:
    @durable_job("k")
    def handler() -> str:
        threading.Event().wait(1.5)
        return "done"

    status = ran(on_disk, handler, "k")

    assert (status.result, status.generation) == ("done", 1)
    assert "LeaseRenewedLate" not in names(on_disk, status.job_id)


def test_a_handler_that_holds_the_interpreter_for_long_stretches_keeps_its_generation(memory: JobStore) -> None:
    """Each derivation is one call into C; the renewal thread gets its turn in between."""

    @durable_job("k")
    def handler() -> str:
        for _ in range(12):
            hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 150_000)
        return "done"

    assert ran(memory, handler, "k").generation == 1


def test_an_async_handler_that_blocks_its_loop_keeps_its_generation(memory: JobStore) -> None:
    """All slots are busy and the loop stands still; renewals do not need it."""

    @durable_job("k")
    async def handler(number: int) -> int:
        threading.Event().wait(1.2 if number == 0 else 0.0)
        return number

    with hosted(memory, handler, concurrency=3):
        jobs = [created(memory, "k", number) for number in range(3)]
        ends = [ended(memory, job_id) for job_id in jobs]

    assert [(end.result, end.generation) for end in ends] == [(0, 1), (1, 1), (2, 1)]


def test_a_failed_renewal_is_no_lost_lease(fragile: FragileStorage) -> None:
    began, over = threading.Event(), threading.Event()

    @durable_job("k")
    def handler(job: JobContext) -> str:
        began.set()
        assert over.wait(PATIENCE)
        job.checkpoint(1)
        return "done"

    with opened_over(fragile) as store, hosted(store, handler):
        job_id = created(store, "k")
        happens(began)
        fragile.refused.clear()
        fragile.is_down = True
        happens(fragile.refused)
        fragile.is_down = False
        over.set()

        status = ended(store, job_id)

        assert (status.result, status.generation) == ("done", 1)
        assert "LeaseRenewedLate" not in names(store, job_id)


def test_a_refused_renewal_loses_the_lease_at_once(fragile: FragileStorage) -> None:
    """The negative control of the test before: the same handler, but the store says no."""
    began = threading.Event()
    lost: list[str] = []

    @durable_job("k")
    def handler(job: JobContext) -> str:
        began.set()
        try:
            while True:
                job.raise_if_cancelled()
                threading.Event().wait(0.01)
        except LeaseLost as error:
            lost.append(error.reason)
            raise

    with opened_over(fragile) as store, hosted(store, handler):
        job_id = created(store, "k")
        happens(began)
        store.advance_epoch("default", by="ann", reason="a new release")
        until(store, lambda: bool(lost))

        assert "group 'default' is at epoch 2" in lost[0]
        assert names(store, job_id) == ["Created", "Claimed"]


def test_an_outage_longer_than_a_lease_is_waited_out_at_the_next_call(fragile: FragileStorage) -> None:
    """In doubt nothing is written and no work goes on; the renewal that comes late is on record."""
    began, saved = threading.Event(), threading.Event()

    @durable_job("k")
    def handler(job: JobContext) -> str:
        job.checkpoint(1)
        began.set()
        while fragile.is_down is False:
            threading.Event().wait(0.01)
        job.checkpoint(2)
        saved.set()
        return "done"

    with opened_over(fragile) as store, hosted(store, handler):
        job_id = created(store, "k", policy="steady")
        happens(began)
        fragile.is_down = True
        assert not saved.wait(2.1)
        fragile.is_down = False
        status = ended(store, job_id)

        assert (status.result, status.generation) == ("done", 1)
        assert names(store, job_id)[3:] == ["LeaseRenewedLate", "Checkpointed", "Completed"]


def test_an_outage_without_end_loses_no_lease_until_the_host_leaves_it(fragile: FragileStorage) -> None:
    """However long it lasts the handler waits at its call; a drain leaves it at its deadline, and then it unwinds."""
    began, stopped = threading.Event(), threading.Event()

    @durable_job("k")
    def handler(job: JobContext) -> None:
        began.set()
        try:
            while not fragile.is_down:
                threading.Event().wait(0.01)
            job.checkpoint(1)
        except LeaseLost:
            stopped.set()
            raise

    with opened_over(fragile) as store, hosted(store, handler) as host:
        job_id = created(store, "k")
        happens(began)
        fragile.is_down = True
        assert not stopped.wait(2.5)
        report = host.drain(timedelta(0))
        happens(stopped)
        fragile.is_down = False

    assert [left.job_id for left in report.left] == [job_id]


CLOSED: list[Callable[[JobContext], object]] = [
    lambda job: job.checkpoint(1),
    lambda job: job.boundary(),
    lambda job: job.raise_if_cancelled(),
    lambda job: job.unit("u", int),
    lambda job: job.progress(1),
    lambda job: job.stage(Effect(resource="r", value=1, expected_version=0)),
    lambda job: job.inside(lambda _: None),
]


def test_a_lost_lease_closes_the_context_and_publishes_nothing(memory: JobStore) -> None:
    began, gone = threading.Event(), threading.Event()
    refused: list[str] = []

    @durable_job("k")
    def handler(job: JobContext) -> str:
        job.stage(Effect(resource="r", value=1, expected_version=0))
        began.set()
        assert gone.wait(PATIENCE)
        while not job.cancellation_requested:
            threading.Event().wait(0.01)
        for call in CLOSED:
            with pytest.raises(LeaseLost) as refusal:
                call(job)
            refused.append(refusal.value.reason)
        return "published too late"

    with hosted(memory, handler):
        job_id = created(memory, "k")
        happens(began)
        memory.advance_epoch("default", by="ann", reason="a new release")
        gone.set()
        until(memory, lambda: len(refused) == len(CLOSED))

    assert names(memory, job_id) == ["Created", "Claimed"]
    assert memory.resource("team", "r") is None


def test_a_context_that_is_kept_after_the_end_is_closed(memory: JobStore) -> None:
    kept: list[JobContext] = []

    @durable_job("k")
    def handler(job: JobContext) -> None:
        kept.append(job)

    status = ran(memory, handler, "k")

    for call in CLOSED:
        with pytest.raises(LeaseLost):
            call(kept[0])
    assert kept[0].cancellation_requested
    assert memory.status(status.job_id).sequence == status.sequence


def test_a_lost_lease_wakes_an_async_handler(memory: JobStore) -> None:
    began, cleaned = threading.Event(), threading.Event()

    @durable_job("k")
    async def handler() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    with hosted(memory, handler):
        created(memory, "k")
        happens(began)
        memory.advance_epoch("default", by="ann", reason="a new release")
        happens(cleaned)


@pytest.mark.parametrize("lost", [1, 2, 5])
def test_a_completion_whose_reply_was_lost_is_completed_once(fragile: FragileStorage, lost: int) -> None:
    began, go = threading.Event(), threading.Event()

    @durable_job("k")
    def handler() -> str:
        began.set()
        assert go.wait(PATIENCE)
        fragile.replies_to_lose = lost
        return "done"

    with opened_over(fragile) as store, hosted(store, handler) as host:
        job_id = created(store, "k")
        happens(began)
        go.set()
        status = ended(store, job_id)
        report = host.drain(PATIENCE)

        assert status.result == "done"
        assert names(store, job_id) == ["Created", "Claimed", "Completed"]
        assert not report.left


@pytest.mark.parametrize("is_posted", [True, False])
def test_a_completion_whose_reply_was_lost_after_the_lease_is_completed(
    memory: JobStore, monkeypatch: pytest.MonkeyPatch, is_posted: bool
) -> None:
    """A renewal learns that the job has ended before the completion learns that it was the one that ended it."""
    replies_to_lose = [1]

    def lossy(storage: Storage, commands: Sequence[Command[Any]], call: Call) -> list[Any]:
        answers = execute(storage, commands, call)
        if replies_to_lose and commands[0].cause.name == "complete":
            replies_to_lose.clear()
            threading.Event().wait(0.5)
            return [OutcomeUnknownError("the reply was lost by the test", each.cause.id) for each in commands]
        return answers

    monkeypatch.setattr(gathering, "execute", lossy)

    @durable_job("k")
    def handler(job: JobContext) -> str:
        if not is_posted:
            job.progress(1)  # what has to be sent first is published by itself
        return "done"

    with hosted(memory, handler) as host:
        job_id = created(memory, "k")
        ended(memory, job_id)
        report = host.drain(PATIENCE)

    assert not replies_to_lose
    assert report.completed == ((job_id, 1, "complete"),)
    assert names(memory, job_id) == ["Created", "Claimed", *([] if is_posted else ["ProgressReported"]), "Completed"]


def test_a_lease_that_ran_out_by_the_stores_clock_is_renewed_and_the_write_repeated() -> None:
    """The store's clock was set forth: by the local clock the lease is certain, and still the store is right."""
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))

    @durable_job("k")
    def handler(job: JobContext) -> Defer:
        if job.attempt == 1:
            clock.advance(timedelta(hours=1))
            job.checkpoint(1)
        return Defer(timedelta(hours=1))

    # With its only slot taken the host takes nothing over, not even what looks dead by such a clock.
    with opened_over(MemoryStorage(clock=clock)) as store, hosted(store, handler, concurrency=1):
        job_id = created(store, "k")
        until(store, lambda: store.status(job_id).state is State.PAUSED)
        status = store.status(job_id)

        assert names(store, job_id) == ["Created", "Claimed", "LeaseRenewedLate", "Checkpointed", "Paused"]
        assert timedelta(minutes=59) < status.ready_at - clock.now() <= timedelta(hours=1, seconds=1)


def test_a_checkpoint_during_an_outage_is_repeated_until_it_is_saved(fragile: FragileStorage) -> None:
    began, down = threading.Event(), threading.Event()

    @durable_job("k")
    def handler(job: JobContext) -> Any:
        began.set()
        assert down.wait(PATIENCE)
        job.checkpoint({"saved": True})
        return job.state

    with opened_over(fragile) as store, hosted(store, handler):
        job_id = created(store, "k")
        happens(began)
        fragile.refused.clear()
        fragile.is_down = True
        down.set()
        happens(fragile.refused)
        fragile.is_down = False

        assert ended(store, job_id).result == {"saved": True}
        assert names(store, job_id) == ["Created", "Claimed", "Checkpointed", "Completed"]


def test_after_a_failed_call_a_host_leaves_expired_leases_alone_for_one_renewal(fragile: FragileStorage) -> None:
    """An outage must not end with idle hosts taking the work of busy ones."""

    @durable_job("k")
    def handler(job: JobContext) -> int:
        return job.generation

    with opened_over(fragile) as store:
        job_id = created(store, "k")
        busy = store.claim(job_id, worker="busy", lease=1)
        with hosted(store, handler):
            fragile.is_down = True
            happens(fragile.refused)
            threading.Event().wait(1.2)
            fragile.is_down = False
            store.wait_for_change(0.5)
            renewal = store.renew(busy.fence)
            store.complete(busy.fence, result="busy")

        assert renewal.late
        assert store.status(job_id).state is State.COMPLETE
        assert store.status(job_id).generation == 1


def test_a_lease_that_writes_keep_alive_needs_no_renewals(memory: JobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every accepted write renews; a silent handler beside it shows that renewals go out where none is made."""
    renewed: list[str] = []
    renew_many = memory.renew_many

    def counting(fences: Any) -> Any:
        renewed.extend(fence.job_id for fence in fences)
        return renew_many(fences)

    monkeypatch.setattr(memory, "renew_many", counting)
    go = threading.Event()

    @durable_job("k")
    def handler(job: JobContext, is_silent: bool) -> None:
        while not go.wait(0.02):
            if not is_silent:
                job.checkpoint(1)

    with hosted(memory, handler):
        silent, busy = (created(memory, "k", {"is_silent": it}, policy="steady") for it in (True, False))
        until(memory, lambda: renewed.count(silent) >= 4)
        go.set()
        assert {ended(memory, job_id).generation for job_id in (silent, busy)} == {1}

    # A machine that pauses the busy one for so long may owe it a renewal.
    assert renewed.count(busy) <= renewed.count(silent) / 2
