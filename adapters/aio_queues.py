"""Queues for asyncio: the same methods, awaitable, run in the threads of their store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial, wraps
from itertools import islice
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from jobledger.adapters.bootstrap import Queues

if TYPE_CHECKING:
    from jobledger.adapters.aio_schedules import InThread
    from jobledger.domain.history import RecordedEvent

Given = ParamSpec("Given")
Answer = TypeVar("Answer")

PAGE: Final = 100


def _awaitable(
    method: Callable[Concatenate[Queues, Given], Answer],
) -> Callable[Concatenate[AsyncQueues, Given], Awaitable[Answer]]:
    """Make one blocking method awaitable."""

    @wraps(method)
    async def call(self: AsyncQueues, /, *given: Given.args, **named: Given.kwargs) -> Answer:
        return await self.in_thread(partial(method, self.queues, *given, **named))

    return call


class AsyncQueues:
    """The queues of a store, whose methods are awaited."""

    def __init__(self, queues: Queues, in_thread: InThread) -> None:
        """Wrap the queues of an open store."""
        self.queues, self.in_thread = queues, in_thread

    limit = _awaitable(Queues.limit)
    hold = _awaitable(Queues.hold)
    release = _awaitable(Queues.release)
    get = _awaitable(Queues.get)
    list = _awaitable(Queues.list)
    events = _awaitable(Queues.events)
    verify = _awaitable(Queues.verify)
    rebuild = _awaitable(Queues.rebuild)

    async def history(self, name: str | None) -> AsyncIterator[RecordedEvent]:
        """Every event of a queue, streamed in pages; raises what ``Queues.history`` raises."""
        events: Any = await self.in_thread(partial(self.queues.history, name))
        while page := await self.in_thread(lambda: tuple(islice(events, PAGE))):
            for event in page:
                yield event
