"""Which attempt the running code belongs to: it follows the handler through calls and tasks."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from contextvars import ContextVar
from typing import cast

from jobledger.adapters.worker.awaiting import AsyncJobContext
from jobledger.adapters.worker.context import JobContext
from jobledger.adapters.worker.core import AttemptCore
from jobledger.domain.errors import InvalidRequestError


class Contexts:
    """The two contexts of one attempt, each made when it is first asked for: many handlers ask for none."""

    __slots__ = ("_awaitable", "_core", "_plain", "_threads")

    def __init__(self, core: AttemptCore, threads: Executor | None) -> None:
        """Of an attempt; its async handler asks the store from ``threads`` (``None``: its loop's)."""
        self._core, self._threads = core, threads
        self._plain: JobContext | None = None
        self._awaitable: AsyncJobContext | None = None

    @property
    def plain(self) -> JobContext:
        """The one of sync handlers, and of what an async handler calls in threads."""
        if self._plain is None:
            self._plain = JobContext(self._core)
        return self._plain

    @property
    def awaitable(self) -> AsyncJobContext:
        """The one of async handlers."""
        if self._awaitable is None:
            self._awaitable = AsyncJobContext(self.plain, self._core, self._threads)
        return self._awaitable

    @property
    def unawaited(self) -> str | None:
        """The name of a call that the handler made and did not await; ``None``: there is none."""
        calls = self._awaitable.unawaited if self._awaitable is not None else {}
        return next(iter(calls.values()), None)


_CURRENT: ContextVar[Contexts] = ContextVar("jobledger_job_context")


def enter(contexts: Contexts) -> None:
    """Make these the contexts of the running code and of what it starts; called by the host."""
    _CURRENT.set(contexts)


def current_facts() -> JobContext | None:
    """The plain context of the attempt whose handler runs here; ``None``: no handler does."""
    found = _CURRENT.get(None)
    return None if found is None else found.plain


def job_context() -> JobContext:
    """The context of the attempt whose handler runs here, also in what it calls and in its tasks.

    In code that an event loop runs the answer is an ``AsyncJobContext``, whose methods are awaited.

    Raises:
        InvalidRequestError: no handler runs here; a thread that a handler starts does not inherit its context.
    """
    found = _CURRENT.get(None)
    if found is None:
        raise InvalidRequestError(
            "job_context", "no handler runs here; hand the context over to threads that you start"
        )
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return found.plain
    return cast("JobContext", found.awaitable)
