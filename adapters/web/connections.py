"""A connection whose request heads have to come in time: who sends one byte a second is let go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

HEAD_SECONDS_MAX: Final = 10.0


class PromptConnection(H11Protocol):
    """Closes where the head of a request is not whole after ``head_seconds_max``, counted from its first moment.

    uvicorn itself bounds how long a connection idles between two requests, and not how long a head may trickle.
    """

    head_seconds_max = HEAD_SECONDS_MAX
    _head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the first head."""
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Take what came; the time for a head is over when it is whole."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._await_head()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        if self._head is None:
            self._head = self.loop.call_later(self.head_seconds_max, self._give_up)

    def _stop_waiting(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _give_up(self) -> None:
        self._head = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()
