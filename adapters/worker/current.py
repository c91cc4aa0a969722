"""Which attempt the running code belongs to: it follows the handler through calls and tasks."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import cast

from jobledger.adapters.worker.awaiting import AsyncJobContext
from jobledger.adapters.worker.context import JobContext
from jobledger.domain.errors import InvalidRequestError

_CURRENT: ContextVar[tuple[JobContext, AsyncJobContext]] = ContextVar("jobledger_job_context")


def enter(context: JobContext, awaitable: AsyncJobContext) -> None:
    """Make this the context of the running code and of what it starts; called by the host."""
    _CURRENT.set((context, awaitable))


def current_facts() -> JobContext | None:
    """The plain context of the attempt whose handler runs here; ``None``: no handler does."""
    found = _CURRENT.get(None)
    return None if found is None else found[0]


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
    context, awaitable = found
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return context
    return cast("JobContext", awaitable)
