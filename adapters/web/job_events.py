"""One job's events for one caller: windows, and a stream that holds nothing but its place in the history."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fastapi.sse import format_sse_event

from jobledger.adapters.web.showing import window_out
from jobledger.adapters.web.streaming import RETRY_MS
from jobledger.domain.bounds import PAGE_MAX

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from jobledger.adapters.web.access import Principal
    from jobledger.adapters.web.service import Service
    from jobledger.adapters.wire.histories import EventWindowOut


class JobEvents:
    """Reads one job's events as one caller may see them."""

    def __init__(self, face: Service, caller: Principal, job_id: str) -> None:
        """Read the events of this job."""
        self._face, self._caller, self._job_id = face, caller, job_id

    async def window(self, after: int, limit: int) -> EventWindowOut:
        """A bounded slice behind a sequence; raises what ``JobStore.events`` raises."""
        return await self._face.hub.ask(lambda: self._read(after, limit))

    def _read(self, after: int, limit: int) -> EventWindowOut:
        self._caller.require_sight(self._face.store, self._job_id)
        return window_out(self._face, self._caller, self._face.store.events(self._job_id, after=after, limit=limit))

    async def stream(self, after: int) -> AsyncIterator[bytes]:
        """The events behind a sequence, and those to come, as bytes of Server-Sent Events.

        However slow its reader is, nothing waits in memory: what it missed is read when it comes to it, and where that
        has left the window an event ``reset`` carries the snapshot that the stream goes on from.
        """
        hub = self._face.hub
        listener, _ = await hub.listen(self._caller.owner, self._job_id)
        listener.is_woken_only = True
        try:
            yield format_sse_event(comment="jobledger", retry=RETRY_MS)
            while not hub.is_closed:
                window = await self.window(after, PAGE_MAX)
                if window.snapshot is not None:
                    yield format_sse_event(
                        event="reset", data_str=window.snapshot.model_dump_json(), id=str(window.floor - 1)
                    )
                for event in window.events:
                    yield format_sse_event(data_str=event.model_dump_json(), id=str(event.sequence))
                after = window.next_after
                if after >= window.head and not await self._is_woken(listener.woken):
                    yield format_sse_event(comment="keep-alive")
        finally:
            hub.leave(listener)

    async def _is_woken(self, woken: asyncio.Event) -> bool:
        """Wait until the job has new events, at most until it is time to show that the stream is alive."""
        try:
            async with asyncio.timeout(self._face.settings.keep_alive_seconds):
                await woken.wait()
        except TimeoutError:
            return False
        woken.clear()
        return True
