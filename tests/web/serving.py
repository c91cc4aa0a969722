"""A real server on the loopback address."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    from starlette.types import ASGIApp


@contextmanager
def serving(app: ASGIApp, port: int = 0) -> Generator[str]:
    """Serve an app until the block ends; gives its address."""
    # Named as TCP, so that asyncio turns Nagle's algorithm off: else each answer on an open connection waits 40 ms.
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    config = uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=1, access_log=False)
    server = uvicorn.Server(config)
    started = threading.Event()
    startup = server.startup

    async def tell(sockets: list[socket.socket] | None = None) -> None:
        await startup(sockets)
        started.set()

    server.startup = tell  # type: ignore[method-assign]  # uvicorn has no other way to tell that it listens
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, name="server under test")
    thread.start()
    try:
        assert started.wait(20), "the server did not start"
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        sock.close()
        assert not thread.is_alive(), "the server did not stop"
