"""The store for asyncio: the same methods, awaitable, run in a bounded number of threads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypeVar

from jobledger.adapters.bootstrap import JobStore

if TYPE_CHECKING:
    from types import TracebackType

Given = ParamSpec("Given")
Answer = TypeVar("Answer")

THREADS_MAX: Final = 16


def _awaitable(
    method: Callable[Concatenate[JobStore, Given], Answer],
) -> Callable[Concatenate[AsyncJobStore, Given], Awaitable[Answer]]:
    """Make one blocking method awaitable."""

    @wraps(method)
    async def call(self: AsyncJobStore, /, *given: Given.args, **named: Given.kwargs) -> Answer:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.threads, partial(method, self.store, *given, **named))

    return call


class AsyncJobStore:
    """A ``JobStore`` whose methods are awaited; they run in at most ``threads_max`` threads, never on the loop."""

    def __init__(self, store: JobStore, *, threads_max: int = THREADS_MAX) -> None:
        """Wrap an open store."""
        self.store = store
        self.threads = ThreadPoolExecutor(threads_max, thread_name_prefix="jobledger")

    @classmethod
    async def open(cls, url: str, *, threads_max: int = THREADS_MAX, **given: Any) -> Self:
        """Open a store; takes what ``JobStore.open`` takes and raises what it raises."""
        store = await asyncio.get_running_loop().run_in_executor(None, partial(JobStore.open, url, **given))
        return cls(store, threads_max=threads_max)

    async def __aenter__(self) -> Self:
        """Use the store."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the store."""
        await self.close()

    async def close(self) -> None:
        """Let running calls end, then close the store."""
        await asyncio.get_running_loop().run_in_executor(None, partial(self.threads.shutdown, wait=True))
        self.store.close()

    create = _awaitable(JobStore.create)
    create_many = _awaitable(JobStore.create_many)
    rerun = _awaitable(JobStore.rerun)
    fork = _awaitable(JobStore.fork)
    claim = _awaitable(JobStore.claim)
    claim_next = _awaitable(JobStore.claim_next)
    hold = _awaitable(JobStore.hold)
    release_hold = _awaitable(JobStore.release_hold)
    resume = _awaitable(JobStore.resume)
    request_cancel = _awaitable(JobStore.request_cancel)
    retry = _awaitable(JobStore.retry)
    recover = _awaitable(JobStore.recover)
    recover_expired = _awaitable(JobStore.recover_expired)
    epoch = _awaitable(JobStore.epoch)
    advance_epoch = _awaitable(JobStore.advance_epoch)
    renew = _awaitable(JobStore.renew)
    renew_many = _awaitable(JobStore.renew_many)
    checkpoint = _awaitable(JobStore.checkpoint)
    record_unit = _awaitable(JobStore.record_unit)
    report_progress = _awaitable(JobStore.report_progress)
    pause = _awaitable(JobStore.pause)
    defer = _awaitable(JobStore.defer)
    cancel = _awaitable(JobStore.cancel)
    fail_attempt = _awaitable(JobStore.fail_attempt)
    complete = _awaitable(JobStore.complete)
    complete_many = _awaitable(JobStore.complete_many)
    status = _awaitable(JobStore.status)
    find = _awaitable(JobStore.find)
    wait = _awaitable(JobStore.wait)
    wait_for_change = _awaitable(JobStore.wait_for_change)
    events = _awaitable(JobStore.events)
    feed = _awaitable(JobStore.feed)
    jobs = _awaitable(JobStore.jobs)
    counts = _awaitable(JobStore.counts)
    units = _awaitable(JobStore.units)
    unit = _awaitable(JobStore.unit)
    timeline = _awaitable(JobStore.timeline)
    controls = _awaitable(JobStore.controls)
    resource = _awaitable(JobStore.resource)
    verify = _awaitable(JobStore.verify)
    rebuild = _awaitable(JobStore.rebuild)

    async def history(self, job_id: str) -> list[Any]:
        """Every event of a job; see ``JobStore.history``."""
        return await _awaitable(lambda store: list(store.history(job_id)))(self)

    async def verify_all(self) -> list[Any]:
        """Verify every job of the namespace; see ``JobStore.verify_all``."""
        return await _awaitable(lambda store: list(store.verify_all()))(self)
