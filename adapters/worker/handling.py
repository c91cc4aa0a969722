"""Running one handler: it is made, restored, called, and what it returned or raised is judged; it never raises."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, Final

from jobledger.adapters.worker.core import AttemptCore
from jobledger.adapters.worker.current import Contexts, enter
from jobledger.adapters.worker.depending import Provided
from jobledger.adapters.worker.endings import Abandon, AttemptEnding, Fail, Park, ending_of_error, ending_of_value, told
from jobledger.adapters.worker.registration import DurableJob

UNASKED: Final = (
    "JobParked: no hold is in force and the host does not drain, so there is nothing to park for; "
    "return Defer(…) to go on later"
)
LOG: Final = logging.getLogger("jobledger.worker")


class RestoreError(Exception):
    """A saved state could not be restored; it becomes the error of a failed attempt."""

    def __str__(self) -> str:
        return f"the saved state could not be restored: {self.args[0]}"


class Handling:
    """One handler and its contexts, in the thread, on the loop, or in the process where it runs."""

    __slots__ = ("_contexts", "_core", "_interrupt", "_job", "_provided", "_threads")

    def __init__(self, job: DurableJob, core: AttemptCore, threads: Executor | None) -> None:
        """A handler that does not run yet; an async one asks the store from ``threads`` (``None``: its loop's)."""
        self._job, self._core, self._threads = job, core, threads
        self._contexts = Contexts(core, threads if job.is_async else None)
        self._interrupt: Callable[[], object] | None = None
        self._provided = Provided() if job.parameters.needs else None

    @property
    def ids(self) -> dict[str, Any]:
        """What a line in the log says about this attempt."""
        facts = self._core.facts
        return {"job_id": facts.job_id, "generation": facts.generation, "kind": facts.kind}

    def run(self) -> AttemptEnding:
        """Run a sync handler to its end, in this thread."""
        return contextvars.copy_context().run(self._run_here)

    async def run_async(self) -> AttemptEnding:
        """Run an async handler to its end, on this loop."""
        enter(self._contexts)
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        try:
            # Made, restored and provided for in a thread, where its code may wait.
            if isinstance(self._job.target, type) or self._provided is not None:
                scope = contextvars.copy_context()
                handler = await loop.run_in_executor(self._threads, lambda: scope.run(self._prepared))
            else:
                handler = self._prepared()
            self._interrupt = lambda: task and loop.call_soon_threadsafe(task.cancel)
            value = await self._awaited(handler)
        except BaseException as error:  # noqa: BLE001  # it must not reach the loop
            return self._judged_error(error)
        finally:
            self._interrupt = None
        if forgotten := self._contexts.unawaited:
            call = f"job.{forgotten}"
            return Fail(f"the handler did not await {call}(), so it did not happen; write: await {call}(…)")
        return self._judged(ending_of_value(value))

    async def _awaited(self, handler: Callable[[], Any]) -> Any:
        """What an async handler answers; what it was provided with is cleaned up in a thread, however it ended."""
        if self._provided is None:
            return await handler()
        loop, close = asyncio.get_running_loop(), self._provided.close
        try:
            value = await handler()
        except BaseException as error:
            await asyncio.shield(loop.run_in_executor(self._threads, close, error))
            raise
        await asyncio.shield(loop.run_in_executor(self._threads, close, None))
        return value

    def interrupt(self) -> None:
        """Cancel the task of an async handler whose attempt is over; a sync one learns of it at its next call."""
        wake, self._interrupt = self._interrupt, None
        if wake is not None:
            wake()

    def _run_here(self) -> AttemptEnding:
        enter(self._contexts)
        try:
            return self._judged(ending_of_value(self._called()))
        except BaseException as error:  # noqa: BLE001  # whatever a handler raises ends its attempt, never the host
            return self._judged_error(error)

    def _called(self) -> Any:
        """What a sync handler answers; what it was provided with is cleaned up, however it ended."""
        if self._provided is None:
            return self._prepared()()
        try:
            value = self._prepared()()
        except BaseException as error:
            self._provided.close(error)
            raise
        self._provided.close(None)
        return value

    def _prepared(self) -> Callable[[], Any]:
        """The handler, made and restored, with its arguments."""
        facts, parameters = self._core.facts, self._job.parameters
        call, hooks = self._job.instance()
        arguments = parameters.bind(facts.payload)
        try:
            hooks.start(facts.state, is_fresh=facts.is_fresh)
        except Exception as error:
            if facts.is_fresh:
                raise
            raise RestoreError(told(error)) from error
        self._core.use_hooks(hooks)
        if parameters.context is not None:
            arguments[parameters.context] = self._contexts.awaitable if self._job.is_async else self._contexts.plain
        if self._provided is not None:
            arguments |= self._provided.fill(parameters.needs)
        return partial(call, **arguments)

    def _judged(self, ending: AttemptEnding) -> AttemptEnding:
        """A limit is a limit: what came after ``run_time_max`` does not count."""
        if self._core.is_overdue:
            return Fail(told(self._core.out_of_time))
        return ending

    def _judged_error(self, error: BaseException) -> AttemptEnding:
        if self._core.lost is not None:
            return Abandon(self._core.lost)
        ending = self._judged(ending_of_error(error))
        if isinstance(ending, Park) and not (self._core.is_parking or self._core.pause_requested):
            ending = Fail(UNASKED)
        if isinstance(ending, Fail):
            LOG.warning("an attempt failed: %s", ending.error, extra=self.ids, exc_info=error)
        return ending
