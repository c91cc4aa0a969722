"""The store for asyncio: the same methods, awaitable, run in a bounded number of threads."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import partial, wraps
from itertools import islice
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, Self, TypeVar

from jobledger.adapters.aio_queues import AsyncQueues
from jobledger.adapters.aio_schedules import AsyncSchedules
from jobledger.adapters.bootstrap import DEFAULT_URL, JobStore
from jobledger.domain.bounds import require_span
from jobledger.domain.errors import StoreUnavailableError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from jobledger.domain.answers import JobStatus
    from jobledger.domain.decisions.creating import JobRequest
    from jobledger.domain.history import RecordedEvent
    from jobledger.domain.policies import Policy
    from jobledger.domain.ports import Clock
    from jobledger.projections.audit import Verification
    from jobledger.projections.checking import Replay
    from jobledger.projections.story import Sentence
    from jobledger.projections.windows import FeedEntry

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
Item = TypeVar("Item")

THREADS_MAX: Final = 16
PAGE: Final = 100
CLOSED: Final = "this store was closed"
SLICE: Final = timedelta(seconds=0.25)
"""How long the one thread that watches for changes is in a call: no longer does ``close`` wait for it."""


def _awaitable(
    method: Callable[Concatenate[JobStore, Given], Answer],
) -> Callable[Concatenate[AsyncJobStore, Given], Awaitable[Answer]]:
    """Make one blocking method awaitable."""

    @wraps(method)
    async def call(self: AsyncJobStore, /, *given: Given.args, **named: Given.kwargs) -> Answer:
        return await self.in_thread(partial(method, self.store, *given, **named))

    return call


class AsyncJobStore:
    """A ``JobStore`` whose methods are awaited; they run in at most ``threads_max`` threads, never on the loop.

    However many wait for jobs, one thread more watches for all of them, so that waits take no thread from other calls.
    Once it is closed, every method raises ``StoreUnavailableError``.
    """

    def __init__(self, store: JobStore, *, threads_max: int = THREADS_MAX) -> None:
        """Wrap an open store."""
        self.store = store
        self.schedules = AsyncSchedules(store.schedules, self.in_thread)
        self.queues = AsyncQueues(store.queues, self.in_thread)
        self.threads = ThreadPoolExecutor(threads_max, thread_name_prefix="jobledger")
        self._watcher = ThreadPoolExecutor(1, thread_name_prefix="jobledger watcher")
        self._lock = threading.Lock()
        self._watch: Future[bool] | None = None
        self._is_closed = False

    @classmethod
    async def open(
        cls,
        url: str = DEFAULT_URL,
        *,
        namespace: str = "default",
        policies: Mapping[str, Policy] | None = None,
        clock: Clock | None = None,
        migrate: bool | None = None,
        admit: Callable[[JobRequest], str | None] | None = None,
        threads_max: int = THREADS_MAX,
    ) -> Self:
        """Open a store; takes what ``JobStore.open`` takes and raises what it raises."""
        opening = partial(
            JobStore.open, url, namespace=namespace, policies=policies, clock=clock, migrate=migrate, admit=admit
        )
        return cls(await asyncio.get_running_loop().run_in_executor(None, opening), threads_max=threads_max)

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
        self._is_closed = True
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        self.threads.shutdown()
        self._watcher.shutdown()
        self.store.close()

    @property
    def policies(self) -> tuple[str, ...]:
        """The names of the policies that jobs may run under here, in order."""
        return self.store.policies

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
    survey = _awaitable(JobStore.survey)
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
    archive = _awaitable(JobStore.archive)
    overdue = _awaitable(JobStore.overdue)
    export = _awaitable(JobStore.export)
    export_job = _awaitable(JobStore.export_job)
    import_bundle = _awaitable(JobStore.import_bundle)
    replay = _awaitable(JobStore.replay)
    diff = _awaitable(JobStore.diff)
    anchor = _awaitable(JobStore.anchor)
    verify_anchors = _awaitable(JobStore.verify_anchors)
    prove = _awaitable(JobStore.prove)
    rebuild = _awaitable(JobStore.rebuild)
    totals = _awaitable(JobStore.totals)
    paces = _awaitable(JobStore.paces)
    workers = _awaitable(JobStore.workers)
    operators = _awaitable(JobStore.operators)
    projections = _awaitable(JobStore.projections)
    run_projections = _awaitable(JobStore.run_projections)
    release_projection = _awaitable(JobStore.release_projection)
    feed_end = _awaitable(JobStore.feed_end)

    async def wait(self, job_id: str, timeout: timedelta | float) -> JobStatus:  # noqa: ASYNC109  # the store's own name
        """Wait until a job is terminal, and answer its status; raises what ``JobStore.wait`` raises."""
        deadline = time.monotonic() + require_span("timeout", timeout).total_seconds()
        while not (status := await self.status(job_id)).is_terminal:
            left = deadline - time.monotonic()
            if left <= 0:
                return await self.in_thread(partial(self.store.wait, job_id, 0))  # says what it waited for
            await self._watched(left)
        return status

    async def wait_for_change(self, timeout: timedelta | float) -> None:  # noqa: ASYNC109  # the store's own name
        """Return when something may have been appended, at the latest after ``timeout``; a hint, never a promise."""
        deadline = time.monotonic() + require_span("timeout", timeout).total_seconds()
        while (left := deadline - time.monotonic()) > 0 and not await self._watched(left):
            pass

    async def follow(
        self,
        *,
        after: str | None = None,
        topics: Sequence[str] = (),
        owner: str | None = None,
        idle: timedelta | float | None = None,
    ) -> AsyncIterator[FeedEntry]:
        """Every event behind a cursor, and then each as it comes; ends when nothing came for ``idle``, else never."""
        longest = None if idle is None else require_span("idle", idle).total_seconds()
        quiet_since = time.monotonic()
        while True:
            page = await self.feed(after=after, limit=PAGE, topics=topics, owner=owner)
            after = page.cursor
            for entry in page.entries:
                yield entry
            if page.entries:
                quiet_since = time.monotonic()
                continue
            left = SLICE.total_seconds() if longest is None else quiet_since + longest - time.monotonic()
            if left <= 0:
                return
            await self._watched(left)

    async def history(self, job_id: str) -> AsyncIterator[RecordedEvent]:
        """Every event of a job, streamed in pages; raises what ``JobStore.history`` raises, at the first step."""
        async for event in self._streamed(partial(self.store.history, job_id), PAGE):
            yield event

    async def story(self, job_id: str) -> AsyncIterator[Sentence]:
        """A job's history as sentences; raises what ``JobStore.story`` raises, at the first step."""
        async for sentence in self._streamed(partial(self.store.story, job_id), PAGE):
            yield sentence

    async def verify_all(self) -> AsyncIterator[Verification]:
        """Verify every job of the namespace, in the order of their ids, as far as it is read on."""
        async for verification in self._streamed(self.store.verify_all, 1):
            yield verification

    async def replay_export(self, file: Path | str) -> Replay:
        """Fold a bundle's events with this release's code; raises what ``JobStore.replay_export`` raises."""
        return await self.in_thread(partial(self.store.replay_export, file))

    async def namespace_of_export(self, file: Path | str) -> str:
        """The namespace that a bundle is of; raises what ``JobStore.namespace_of_export`` raises."""
        return await self.in_thread(partial(self.store.namespace_of_export, file))

    async def verify_export(self, file: Path | str) -> AsyncIterator[Verification]:
        """Verify a bundle without a store; raises what ``JobStore.verify_export`` raises, at the first step."""
        async for verification in self._streamed(partial(self.store.verify_export, file), 1):
            yield verification

    async def in_thread(self, call: Callable[[], Answer]) -> Answer:
        """Make a blocking call in one of the threads.

        Raises:
            StoreUnavailableError: this store was closed.
        """
        with self._open():
            answer = self.threads.submit(call)
        return await asyncio.wrap_future(answer)

    async def _streamed(self, begin: Callable[[], Iterator[Item]], page: int) -> AsyncIterator[Item]:
        items = await self.in_thread(begin)
        while taken := await self.in_thread(lambda: list(islice(items, page))):
            for each in taken:
                yield each

    async def _watched(self, longest: float) -> bool:
        """Wait for the slice of watching that is under way, at most ``longest`` seconds; whether something changed."""
        with self._open(), self._lock:
            if self._watch is None or self._watch.done():
                self._watch = self._watcher.submit(self._changes_within_a_slice)
            watch = self._watch
        waiting = asyncio.wrap_future(watch)
        try:
            await asyncio.wait({waiting}, timeout=longest)
        finally:
            waiting.cancel()  # else it would call upon a loop that may be closed by then; a slice that began goes on
        return watch.done() and not watch.cancelled() and watch.result()

    def _changes_within_a_slice(self) -> bool:
        began = time.monotonic()
        self.store.wait_for_change(SLICE)
        return time.monotonic() - began < SLICE.total_seconds()

    @contextmanager
    def _open(self) -> Generator[None]:
        """Say of a closed store that it was closed; its threads only say that they were shut down."""
        try:
            yield
        except RuntimeError as error:
            if not self._is_closed:
                raise
            raise StoreUnavailableError(CLOSED) from error
