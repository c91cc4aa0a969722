"""A thousand listeners on one server: each hears everything, memory stays flat, slow readers are cut off."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import resource
import sys
import time
from pathlib import Path
from typing import Any, Final

from jobledger import JobRequest, JobStore
from jobledger.adapters.web import WebSettings, create_app
from tests.web.serving import serving

LISTENERS: Final = 1_000
ROUNDS: Final = 5
JOBS_IN_A_ROUND: Final = 10
SLOW: Final = 5
BULKY_JOBS: Final = 3_000
BULK: Final = "x" * 3_500
REQUEST: Final = "GET /api/v1/feed?start=now HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"


def serve(pipe: Any) -> None:
    """Serve a store in memory in a process of its own, and do what the pipe asks for."""
    settings = WebSettings(streams_max=2_000)
    with JobStore.open("memory:") as store, serving(create_app(store, settings=settings)) as address:
        pipe.send(address)
        while (asked := pipe.recv()) is not None:
            first, count, payload = asked
            for number in range(first, first + count):
                store.create(JobRequest(owner="crowd", kind="k", key=f"k{number}", payload=payload))
            pipe.send(resident_bytes())


def resident_bytes() -> int:
    """How much memory this process has, in bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


async def connected(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """One listener, whose stream has begun."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(REQUEST.encode())
    await reader.readuntil(b": jobledger")
    return reader, writer


async def heard(reader: asyncio.StreamReader, count: int) -> None:
    """Read until so many events were heard."""
    while count:
        line = await reader.readline()
        if not line:
            msg = "a stream ended early"
            raise ConnectionError(msg)
        count -= line.startswith(b"data: ")


async def main() -> None:
    """Run it and tell the figures; a promise that is not kept is an error."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=serve, args=(theirs,))
    process.start()
    try:
        await listen(ours, int(ours.recv().rpartition(":")[2]))
    finally:
        ours.send(None)
        process.join(30)


async def listen(pipe: Any, port: int) -> None:
    """Connect everybody, and let things happen."""
    crowd = [await connected(port) for _ in range(LISTENERS)]
    sizes: list[int] = []
    began = time.monotonic()
    for turn in range(ROUNDS):
        pipe.send((turn * JOBS_IN_A_ROUND, JOBS_IN_A_ROUND, None))
        await asyncio.gather(*(heard(reader, JOBS_IN_A_ROUND) for reader, _ in crowd))
        sizes.append(pipe.recv())
    seconds = time.monotonic() - began
    events = LISTENERS * ROUNDS * JOBS_IN_A_ROUND
    growth = sizes[-1] - sizes[0]
    tell(f"{LISTENERS:,} listeners, {events:,} events delivered in {seconds:.1f} s ({events / seconds:,.0f}/s)")
    tell(f"memory after each round: {', '.join(f'{size / 1e6:.0f} MB' for size in sizes)}")
    if growth > 20e6:
        msg = f"memory grew by {growth / 1e6:.0f} MB"
        raise MemoryError(msg)
    for _, writer in crowd[SLOW:]:
        writer.close()
    await cut_off(pipe, [reader for reader, _ in crowd[:SLOW]])


async def cut_off(pipe: Any, slow: list[asyncio.StreamReader]) -> None:
    """Let much happen while nobody reads; then each of the slow is told to resume."""
    pipe.send((10**6, BULKY_JOBS, BULK))
    await asyncio.get_running_loop().run_in_executor(None, pipe.recv)
    for reader in slow:
        text = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(60):
                while b"event: reset" not in text:
                    chunk = await reader.read(1 << 20)
                    if not chunk:
                        break
                    text = text[-100:] + chunk
        if b"event: reset" not in text:
            msg = "a slow reader was not cut off"
            raise AssertionError(msg)
    tell(f"{len(slow)} slow readers were cut off with a reset")


def tell(text: str) -> None:
    """Say it at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 10_000), hard))
    asyncio.run(main())
