"""Schedules for asyncio: the same methods, awaitable, run in the threads of their store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial, wraps
from itertools import islice
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from jobledger.adapters.bootstrap import Schedules

if TYPE_CHECKING:
    from jobledger.domain.history import RecordedEvent

Given = ParamSpec("Given")
Answer = TypeVar("Answer")

PAGE: Final = 100


class InThread(Protocol):
    """Makes a blocking call in one of a store's threads."""

    def __call__(self, call: Callable[[], Answer], /) -> Awaitable[Answer]:
        """The call's answer, awaitable."""
        ...


def _awaitable(
    method: Callable[Concatenate[Schedules, Given], Answer],
) -> Callable[Concatenate[AsyncSchedules, Given], Awaitable[Answer]]:
    """Make one blocking method awaitable."""

    @wraps(method)
    async def call(self: AsyncSchedules, /, *given: Given.args, **named: Given.kwargs) -> Answer:
        return await self.in_thread(partial(method, self.schedules, *given, **named))

    return call


class AsyncSchedules:
    """The schedules of a store, whose methods are awaited."""

    def __init__(self, schedules: Schedules, in_thread: InThread) -> None:
        """Wrap the schedules of an open store."""
        self.schedules, self.in_thread = schedules, in_thread

    put = _awaitable(Schedules.put)
    hold = _awaitable(Schedules.hold)
    release = _awaitable(Schedules.release)
    remove = _awaitable(Schedules.remove)
    trigger = _awaitable(Schedules.trigger)
    backfill = _awaitable(Schedules.backfill)
    fire_due = _awaitable(Schedules.fire_due)
    next_due = _awaitable(Schedules.next_due)
    get = _awaitable(Schedules.get)
    list = _awaitable(Schedules.list)
    upcoming = _awaitable(Schedules.upcoming)
    events = _awaitable(Schedules.events)
    compare = _awaitable(Schedules.compare)
    verify = _awaitable(Schedules.verify)
    rebuild = _awaitable(Schedules.rebuild)

    async def history(self, name: str) -> AsyncIterator[RecordedEvent]:
        """Every event of a schedule, streamed in pages; raises what ``Schedules.history`` raises, at the first step."""
        events: Any = await self.in_thread(partial(self.schedules.history, name))
        while page := await self.in_thread(lambda: tuple(islice(events, PAGE))):
            for event in page:
                yield event
