"""One attempt: make the handler, restore it, run it, and publish how it ended; it never raises."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, Final

from jobledger.adapters.worker.awaiting import AsyncJobContext
from jobledger.adapters.worker.clock import elapsed
from jobledger.adapters.worker.context import JobContext
from jobledger.adapters.worker.core import ENDED, AttemptCore, AttemptFacts
from jobledger.adapters.worker.current import enter
from jobledger.adapters.worker.endings import Abandon, AttemptEnding, Fail, Park, ending_of_error, ending_of_value, told
from jobledger.adapters.worker.publishing import Published, publish
from jobledger.adapters.worker.registration import DurableJob
from jobledger.adapters.worker.writes import FencedWrites
from jobledger.domain.answers import Lease

UNASKED: Final = (
    "JobParked: no hold is in force and the host does not drain, so there is nothing to park for; "
    "return Defer(…) to go on later"
)
LOG: Final = logging.getLogger("jobledger.worker")


class RestoreError(Exception):
    """A saved state could not be restored; it becomes the error of a failed attempt."""

    def __str__(self) -> str:
        return f"the saved state could not be restored: {self.args[0]}"


class Attempt:
    """One claimed lease and the handler that runs under it.

    The lease is given back only when the handler has unwound, so that its cleanup still runs under it. Two may want to
    publish the end, the handler's thread and a host that ran out of patience: the first does, the other stays silent.
    """

    def __init__(
        self,
        job: DurableJob,
        lease: Lease,
        writes: FencedWrites,
        *,
        worker: str,
        is_draining: Callable[[], bool],
        threads: Executor,
    ) -> None:
        """An attempt that has not begun; async handlers ask the store from ``threads``."""
        self.job, self.lease = job, lease
        self.held = writes.held
        self.core = AttemptCore(AttemptFacts.of(lease, worker), writes, is_draining=is_draining)
        self._writes, self._threads = writes, threads
        self._context = JobContext(self.core)
        self._awaitable = AsyncJobContext(self._context, self.core, threads if job.is_async else None)
        self._end = threading.Lock()
        self._published: Published | None = None
        self._interrupt: Callable[[], object] | None = None
        self._late_at: float | None = None
        self._is_given_up = False

    @property
    def ids(self) -> dict[str, Any]:
        """What a line in the log says about this attempt."""
        return {"job_id": self.lease.job_id, "generation": self.lease.generation, "kind": self.job.kind}

    def run(self, unwound: Callable[[], None], ended: Callable[[Published], None]) -> None:
        """Run a sync handler to its end, in this thread.

        ``unwound`` is called when it has physically ended, ``ended`` when that is published, with what became of it.
        """
        ending = contextvars.copy_context().run(self._run_here)
        unwound()
        ended(self._publish(ending))

    async def run_on_loop(self, unwound: Callable[[], None], ended: Callable[[Published], None]) -> None:
        """Run an async handler to its end, on this loop; the end is published in a thread."""
        ending = await self._run_async()
        unwound()
        self._threads.submit(lambda: ended(self._publish(ending)))

    def give_back(self) -> Published:
        """Publish a pause without having run anything."""
        return self._publish(Park())

    def interrupt(self) -> None:
        """Cancel the task of an async handler whose attempt is over; a sync one learns of it at its next call."""
        wake, self._interrupt = self._interrupt, None
        if wake is not None:
            wake()

    @property
    def published(self) -> Published | None:
        """What became of the attempt; ``None`` before its end was published."""
        return self._published

    def is_given_up(self) -> bool:
        """Whether ``run_time_max`` passed a whole lease ago and the handler still runs; true once."""
        if self._is_given_up or self._published is not None or not self.core.is_overdue:
            return False
        self._late_at = self._late_at or elapsed()
        self._is_given_up = elapsed() - self._late_at >= self.held.span
        return self._is_given_up

    def fail_stuck(self) -> None:
        """Publish the failure of a stuck handler; its slot stays taken until it really ends."""
        self._publish(Fail(told(self.core.out_of_time)), is_handler=False)

    # Running the handler ----------------------------------------------------------------------------------------------

    def _run_here(self) -> AttemptEnding:
        enter(self._context, self._awaitable)
        try:
            return self._judged(ending_of_value(self._prepared(self._context)()))
        except BaseException as error:  # noqa: BLE001  # whatever a handler raises ends its attempt, never the host
            return self._judged_error(error)

    async def _run_async(self) -> AttemptEnding:
        enter(self._context, self._awaitable)
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        try:
            scope = contextvars.copy_context()
            handler = await loop.run_in_executor(self._threads, lambda: scope.run(self._prepared, self._awaitable))
            self._interrupt = lambda: task and loop.call_soon_threadsafe(task.cancel)
            value = await handler()
        except BaseException as error:  # noqa: BLE001  # the same; it must not reach the loop either
            return self._judged_error(error)
        finally:
            self._interrupt = None
        if forgotten := list(self._awaitable.unawaited.values()):
            call = f"job.{forgotten[0]}"
            return Fail(f"the handler did not await {call}(), so it did not happen; write: await {call}(…)")
        return self._judged(ending_of_value(value))

    def _prepared(self, context: Any) -> Callable[[], Any]:
        """The handler, made and restored, with its arguments."""
        call, hooks = self.job.instance()
        arguments = self.job.parameters.bind(self.lease.payload)
        is_fresh = self.core.facts.is_fresh
        try:
            hooks.start(self.lease.checkpoint, is_fresh=is_fresh)
        except Exception as error:
            if is_fresh:
                raise
            raise RestoreError(told(error)) from error
        self.core.use_hooks(hooks)
        if self.job.parameters.context is not None:
            arguments[self.job.parameters.context] = context
        return partial(call, **arguments)

    def _judged(self, ending: AttemptEnding) -> AttemptEnding:
        """A limit is a limit: what came after ``run_time_max`` does not count."""
        if self.core.is_overdue:
            return Fail(told(self.core.out_of_time))
        return ending

    def _judged_error(self, error: BaseException) -> AttemptEnding:
        if self.held.lost is not None:
            return Abandon(self.held.lost)
        ending = self._judged(ending_of_error(error))
        if isinstance(ending, Park) and not (self.core.is_parking or self.core.pause_requested):
            ending = Fail(UNASKED)
        if isinstance(ending, Fail):
            LOG.warning("an attempt failed: %s", ending.error, extra=self.ids, exc_info=error)
        return ending

    # Publishing -------------------------------------------------------------------------------------------------------

    def _publish(self, ending: AttemptEnding, *, is_handler: bool = True) -> Published:
        with self._end:
            if self._published is None:
                self._published = self._publish_first(ending, is_handler=is_handler)
            return self._published

    def _publish_first(self, ending: AttemptEnding, *, is_handler: bool) -> Published:
        try:
            staged, progress = self.core.close(use_hook=is_handler)
            self.core.send_progress(progress)
            published = publish(ending, self._writes, staged)
        except BaseException as error:
            # The lease is left to expire, and the host goes on.
            LOG.exception("an attempt's end could not be recorded", extra=self.ids)
            published = Published("left", told(error))
        self.held.lose(ENDED)
        LOG.debug("attempt %s: %s", published.how, published.why, extra=self.ids)
        return published
