"""The context of an async handler: the methods of ``JobContext``, awaitable, with no call of the store on the loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Executor
from functools import partial
from typing import Any, Generic, TypeVar

from jobledger.adapters.worker.context import JobContext
from jobledger.adapters.worker.core import AttemptCore
from jobledger.domain.bounds import require_text
from jobledger.domain.values import Json

Answer = TypeVar("Answer")


class _Call(Awaitable[Answer], Generic[Answer]):
    """A call that begins when it is awaited, and is missed when it never is."""

    def __init__(self, owner: AsyncJobContext, name: str, begin: Callable[[], Awaitable[Answer]]) -> None:
        self._owner, self._name, self._begin = owner, name, begin
        self._mark = object()
        owner.unawaited[self._mark] = name

    def __await__(self) -> Generator[Any, Any, Answer]:
        self._owner.unawaited.pop(self._mark, None)
        return self._begin().__await__()


class _Turn:
    """A lock of tasks that lets the task that has it in again, as the one of threads does."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._owner: asyncio.Task[Any] | None = None
        self._depth = 0

    async def __aenter__(self) -> None:
        if self._owner is not asyncio.current_task():
            await self._lock.acquire()
            self._owner = asyncio.current_task()
        self._depth += 1

    async def __aexit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None
            self._lock.release()


class AsyncJobContext:
    """One attempt, as its async handler sees it; ``JobContext`` says what each method does and raises.

    Methods that may ask the store are awaited; all else, properties included, answers at once. A call that the handler
    never awaited would have been a checkpoint that was not saved: the attempt then fails and says so.
    """

    def __init__(self, context: JobContext, core: AttemptCore, threads: Executor | None) -> None:
        """Made by the host; blocking calls wait in ``threads`` (``None``: the running loop's own)."""
        self._context, self._core, self._threads = context, core, threads
        self._turns: dict[str, _Turn] = {}
        self.unawaited: dict[object, str] = {}

    def __getattr__(self, name: str) -> Any:
        """What does not wait is the plain context's: ``job_id``, ``pause_requested``, ``progress`` and so on."""
        return getattr(self._context, name)

    def checkpoint(self, state: Any = None) -> Awaitable[None]:
        """Save application state; the checkpoint hook is asked on the loop, where the handler lives."""

        async def save() -> None:
            captured = self._core.captured(state)
            await self._in_thread(self._core.save, captured)

        return _Call(self, "checkpoint", save)

    def boundary(self) -> Awaitable[None]:
        """A point where the job can stop without saving."""
        return _Call(self, "boundary", partial(self._in_thread, self._context.boundary))

    def raise_if_cancelled(self) -> Awaitable[None]:
        """Stop here if a cancel was requested."""
        return _Call(self, "raise_if_cancelled", partial(self._in_thread, self._context.raise_if_cancelled))

    def stage(self, effect: Any) -> Awaitable[None]:
        """Add an effect to the next checkpoint, or to the result."""
        return _Call(self, "stage", partial(self._in_thread, self._context.stage, effect))

    def inside(self, statements: Callable[[Any], object]) -> Awaitable[None]:
        """Run blocking statements in the transaction of the next checkpoint, in a thread."""
        return _Call(self, "inside", partial(self._in_thread, self._context.inside, statements))

    def unit(self, name: str, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Awaitable[Json]:
        """Do a unit once: ``work`` may be a coroutine function; a plain one runs on the loop, as if called by hand."""

        async def once() -> Json:
            turn = self._turns.setdefault(require_text("unit", name), _Turn())
            async with turn:
                return await done()

        async def done() -> Json:
            known = await self._in_thread(self._core.recorded, name)
            if known is not None:
                return known.receipt
            receipt = work(*args, **kwargs)
            if inspect.isawaitable(receipt):
                receipt = await receipt
            return await self._in_thread(self._core.record, name, receipt)

        return _Call(self, "unit", once)

    async def _in_thread(self, method: Callable[..., Answer], *given: Any) -> Answer:
        """Run one blocking method of the plain context in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(method, *given))
