"""Event streams: one reader of the feed for many listeners, each with a bounded queue and a cursor to resume from."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi.sse import EventSourceResponse, format_sse_event

from jobledger.adapters.web.refusing import HttpProblemError
from jobledger.adapters.wire.histories import FeedEntryOut
from jobledger.domain.bounds import PAGE_MAX
from jobledger.domain.errors import JobledgerError
from jobledger.projections.windows import FeedEntry, position_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from jobledger.adapters.bootstrap import JobStore
    from jobledger.adapters.web.settings import WebSettings
    from jobledger.projections.windows import Feed

Answer = TypeVar("Answer")

LOOK_EVERY: Final = timedelta(milliseconds=250)
RETRY_MS: Final = 1_000
THREADS_MAX: Final = 4
CATCH_UP: Final = 100
"""How many entries a listener that is behind is sent between two looks at the clock."""


@dataclass(eq=False, slots=True)
class Listener:
    """One open stream: what waits for it, and whether it was too slow."""

    owner: str | None
    job_id: str | None
    most: int
    waiting: asyncio.Queue[FeedEntry] = field(default_factory=asyncio.Queue[FeedEntry])
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    is_woken_only: bool = False
    is_cut_off: bool = False

    def offer(self, entry: FeedEntry) -> None:
        """Let an entry wait for the listener; one that is too slow loses all that waits, and has to resume."""
        if self.is_cut_off or (self.job_id is not None and entry.job_id != self.job_id):
            return
        self.woken.set()
        if self.is_woken_only:
            return
        if self.waiting.qsize() >= self.most:
            self.is_cut_off = True
            while not self.waiting.empty():
                self.waiting.get_nowait()
        self.waiting.put_nowait(entry)


class Tail:
    """Follows the feed of one owner (or of all) for its listeners."""

    def __init__(self, owner: str | None) -> None:
        """Follow nothing yet."""
        self.owner = owner
        self.cursor: str | None = None
        self.listeners: set[Listener] = set()


class Hub:
    """All open streams of a process: one task looks for new events, however many listen."""

    def __init__(self, store: JobStore, settings: WebSettings) -> None:
        """Serve streams of this store."""
        self._store = store
        self._settings = settings
        self._tails: dict[str | None, Tail] = {}
        self._limiter: CapacityLimiter | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        """Whether the process is about to end."""
        return self._is_closed

    @property
    def listening(self) -> int:
        """How many streams are open."""
        return sum(len(tail.listeners) for tail in self._tails.values())

    async def close(self) -> None:
        """End the looking; open streams end by themselves."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def ask(self, call: Callable[[], Answer]) -> Answer:
        """Ask the store in a thread of the streams' own few, so that they take none from other requests."""
        if self._limiter is None:
            self._limiter = CapacityLimiter(THREADS_MAX)
        return await to_thread.run_sync(call, limiter=self._limiter)

    def require_room(self) -> None:
        """Require that one more stream may be opened.

        Raises:
            HttpProblemError: as many are open as are allowed.
        """
        if self.listening >= self._settings.streams_max:
            raise HttpProblemError("too_many_streams", "this server has as many open streams as it allows")

    async def listen(self, owner: str | None, job_id: str | None) -> tuple[Listener, str | None]:
        """Join the listeners; answers the listener and the cursor behind which it hears everything."""
        tail = self._tails.setdefault(owner, Tail(owner))
        listener = Listener(owner, job_id, self._settings.stream_entries_max)
        tail.listeners.add(listener)
        try:
            if tail.cursor is None:
                await self._find_end(tail)
        except BaseException:
            self.leave(listener)
            raise
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())
        return listener, tail.cursor

    async def end_of(self, owner: str | None) -> str | None:
        """The cursor at the end of the feed."""
        listener, cursor = await self.listen(owner, None)
        self.leave(listener)
        return cursor

    async def something_new(self, owner: str | None, longest: float) -> None:
        """Wait until the feed has something new, at most ``longest`` seconds."""
        self.require_room()
        listener, _ = await self.listen(owner, None)
        listener.is_woken_only = True
        try:
            async with asyncio.timeout(longest):
                await listener.woken.wait()
        except TimeoutError:
            pass
        finally:
            self.leave(listener)

    def leave(self, listener: Listener) -> None:
        """Leave the listeners; a tail that nobody listens to is forgotten."""
        tail = self._tails.get(listener.owner)
        if tail is not None:
            tail.listeners.discard(listener)
            if not tail.listeners:
                del self._tails[listener.owner]

    async def _find_end(self, tail: Tail) -> None:
        """Begin at the end of the feed."""
        end = await self.ask(self._store.feed_end)
        if tail.cursor is None:
            tail.cursor = end

    def _read(self, owner: str | None, cursor: str | None) -> Feed:
        return self._store.feed(after=cursor, limit=PAGE_MAX, owner=owner)

    async def _look(self) -> None:
        while self._tails and not self._is_closed:
            with contextlib.suppress(JobledgerError):  # a store that is away for a while is asked again
                for tail in list(self._tails.values()):
                    await self._advance(tail)
            await to_thread.run_sync(self._wait, limiter=self._limiter)

    def _wait(self) -> None:
        self._store.wait_for_change(LOOK_EVERY)

    async def _advance(self, tail: Tail) -> None:
        while tail.cursor is not None:
            feed = await self.ask(partial(self._read, tail.owner, tail.cursor))
            for entry in feed.entries:
                for listener in list(tail.listeners):
                    listener.offer(entry)
            tail.cursor = feed.cursor
            if len(feed.entries) < PAGE_MAX:
                return
            await asyncio.sleep(0)

    # What one listener is sent ----------------------------------------------------------------------------------------

    async def stream(
        self,
        *,
        owner: str | None,
        job_id: str | None,
        after: str | None,
        is_from_now: bool,
        show: Callable[[FeedEntry], FeedEntryOut],
    ) -> AsyncIterator[bytes]:
        """The stream of one listener, as bytes of Server-Sent Events; ``after`` is a cursor of the feed.

        Each event's id is its cursor. An event ``reset`` says that the listener was too slow, and where to resume.
        """
        listener, joined_at = await self.listen(owner, job_id)
        cursor = joined_at if is_from_now else after
        try:
            yield format_sse_event(comment="jobledger", retry=RETRY_MS, id=cursor or None)
            async for entry in self._missed(listener, cursor, joined_at):
                cursor = entry.cursor
                yield _event(show(entry))
            while not self._is_closed:
                try:
                    async with asyncio.timeout(self._settings.keep_alive_seconds):
                        entry = await listener.waiting.get()
                except TimeoutError:
                    yield format_sse_event(comment="keep-alive")
                    continue
                if listener.is_cut_off:
                    yield format_sse_event(event="reset", data_str=f'{{"resume_after":"{cursor or ""}"}}')
                    return
                if cursor is None or position_of(entry.cursor) > position_of(cursor):
                    cursor = entry.cursor
                    yield _event(show(entry))
        finally:
            self.leave(listener)

    async def _missed(self, listener: Listener, cursor: str | None, upto: str | None) -> AsyncIterator[FeedEntry]:
        """What happened between a listener's cursor and its joining."""
        end = position_of(upto)
        while position_of(cursor) < end:
            feed = await self.ask(partial(self._store.feed, after=cursor, limit=CATCH_UP, owner=listener.owner))
            for entry in feed.entries:
                if position_of(entry.cursor) > end:
                    return
                if listener.job_id is None or entry.job_id == listener.job_id:
                    yield entry
            if feed.cursor == cursor:
                return
            cursor = feed.cursor


def _event(entry: FeedEntryOut) -> bytes:
    return format_sse_event(data_str=entry.model_dump_json(), id=entry.cursor)


def event_stream(chunks: AsyncIterator[bytes]) -> EventSourceResponse:
    """A response that streams events, unbuffered by proxies."""
    headers = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
    return EventSourceResponse(chunks, headers=headers)
