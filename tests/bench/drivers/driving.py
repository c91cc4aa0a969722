"""What all drivers share: each answers one question a line; standard library only, since each has its own environment.

A question is ``{"do": name, "n": count}``; the answer ``{"count": …, "seconds": …}``, or ``{"error": …}``.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

Answer = dict[str, Any]
Command = Callable[[int], Answer | Awaitable[Answer]]
Opening = Callable[[str], AbstractAsyncContextManager[Mapping[str, Command]]]

BATCH = 1_000
QUIET_SECONDS = 3.0
"""A drain ends when its jobs are done, or when for so long none was."""


class Drain:
    """Counts the jobs that this process ran, and says when the last of them came."""

    def __init__(self, expected: int) -> None:
        """Wait for ``expected`` jobs."""
        self._expected = expected
        self.started = self._last = time.monotonic()
        self._is_done = asyncio.Event()
        self._is_done_anywhere = threading.Event()
        self.count = 0

    def note(self) -> None:
        """One job was run."""
        self.count += 1
        self._last = time.monotonic()
        if self.count >= self._expected:
            self._is_done.set()
            self._is_done_anywhere.set()

    @property
    def is_over(self) -> bool:
        """Whether all were run, or none has come for a while."""
        return self.count >= self._expected or time.monotonic() - self._last > QUIET_SECONDS

    async def over(self) -> Answer:
        """Wait for the end, on the loop on which the jobs run."""
        while not self.is_over:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_done.wait(), QUIET_SECONDS / 3)
        return self.answer()

    def wait(self) -> None:
        """Wait for the end, from a thread."""
        while not self.is_over:
            self._is_done_anywhere.wait(QUIET_SECONDS / 3)

    def answer(self) -> Answer:
        """How many, in how long, and when by the machine's clock."""
        return {"count": self.count, "seconds": self._last - self.started, "last": self._last}


def timed(work: Callable[[], object], count: int) -> Answer:
    """Run work that does ``count`` things."""
    started = time.perf_counter()
    work()
    return {"count": count, "seconds": time.perf_counter() - started}


async def timed_async(work: Awaitable[object], count: int) -> Answer:
    """Await work that does ``count`` things."""
    started = time.perf_counter()
    await work
    return {"count": count, "seconds": time.perf_counter() - started}


def batches(count: int) -> list[int]:
    """The sizes of batches of at most ``BATCH`` that make ``count``."""
    return [min(BATCH, count - start) for start in range(0, count, BATCH)]


def commands_of(engine: object) -> dict[str, Command]:
    """The questions that an engine answers: its public methods."""
    return {name: getattr(engine, name) for name in vars(type(engine)) if not name.startswith("_")}


async def serve(opening: Opening) -> None:
    """Open the engine at the URL of the command line, then answer questions until there are no more."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # what an engine prints is no answer
    async with opening(sys.argv[1]) as commands:
        print(json.dumps({"ready": sorted(commands)}), file=answers, flush=True)
        while line := sys.stdin.readline():
            question = json.loads(line)
            try:
                command = commands[question["do"]]
                if inspect.iscoroutinefunction(command):
                    answer = await command(question["n"])
                else:
                    answer = await asyncio.to_thread(command, question["n"])
            except Exception as error:  # noqa: BLE001  # whatever an engine raises is what it answers
                traceback.print_exc()
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), file=answers, flush=True)


def main(opening: Opening, run: Callable[[Any], object] = asyncio.run) -> None:
    """Serve, on the loop that the engine likes best."""
    run(serve(opening))
