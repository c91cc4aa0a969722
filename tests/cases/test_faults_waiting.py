"""Faults of waiting: a store that does not answer blocks no event loop, and nobody for longer than it was told to."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest

from jobledger import AsyncJobStore, JobRequest, JobStore, ManualClock
from jobledger.adapters.storage.entropy import SystemEntropy
from jobledger.adapters.storage.memory import MemoryStorage
from jobledger.domain.errors import StoreUnavailableError
from jobledger.domain.store import Setting

REQUEST = JobRequest(owner="team", kind="index", key="k")


def test_an_event_loop_turns_while_a_store_makes_its_caller_wait(clock: ManualClock) -> None:
    """The call waits in a thread of its own for as long as somebody else writes."""
    storage = MemoryStorage(clock=clock)
    store = AsyncJobStore(JobStore(Setting(storage, SystemEntropy())))

    async def turns() -> int:
        count = 0
        with storage.writing(timedelta(seconds=5)):
            waiting = asyncio.ensure_future(store.create(REQUEST))
            for _ in range(200):
                await asyncio.sleep(0)
                count += not waiting.done()
        receipt = await waiting
        assert not receipt.reused
        await store.close()
        return count

    assert asyncio.run(turns()) == 200


def test_a_call_gives_up_when_its_patience_ends(local_store: JobStore) -> None:
    """Somebody holds what the call needs for ever: it says so in time, and works once that is free."""
    storage = local_store._setting.storage  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # somebody else's transaction
    job_id = local_store.create(REQUEST).job_id
    hasty = local_store.within(0.05)
    began = time.monotonic()

    with storage.writing(timedelta(seconds=5)) as session:
        session.load([job_id])
        answer = _in_a_thread(hasty, job_id)

    assert isinstance(answer, StoreUnavailableError)
    assert time.monotonic() - began < 5
    assert not hasty.hold(job_id, by="ann", reason="look").reused


def _in_a_thread(store: JobStore, job_id: str) -> object:
    async def ask() -> object:
        awaitable = AsyncJobStore(store)
        with pytest.raises(StoreUnavailableError) as refusal:
            await awaitable.hold(job_id, by="ann", reason="look")
        awaitable.threads.shutdown()
        return refusal.value

    return asyncio.run(ask())
