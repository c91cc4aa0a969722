"""DBOS Transact for Python: workflows through its queue, and checkpointed steps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from dbos import DBOS  # type: ignore[import-not-found, unused-ignore]  # it stands in the driver's own environment

from tests.bench.drivers.driving import Answer, Command, commands_of, main, timed

QUEUE = "q"


@DBOS.workflow()  # type: ignore[untyped-decorator, unused-ignore]  # seen where it is not installed
def noop(i: int) -> int:
    """A job that does nothing."""
    return i


@DBOS.step()  # type: ignore[untyped-decorator, unused-ignore]  # likewise
def step(i: int) -> int:
    """A step that does nothing but being recorded."""
    return i


@DBOS.workflow()  # type: ignore[untyped-decorator, unused-ignore]  # likewise
def steps(count: int) -> int:
    """Steps, each recorded before the next."""
    for i in range(count):
        step(i)
    return count


def launch(url: str) -> Any:
    """Start the engine, and make its queue."""
    settings = {"name": "bench", "system_database_url": url, "run_admin_server": False, "log_level": "ERROR"}
    DBOS(config=settings)
    DBOS.launch()
    DBOS.register_queue(QUEUE)
    return DBOS.retrieve_queue(QUEUE)


class Engine:
    """DBOS with one queue."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue

    def create_one(self, count: int) -> Answer:
        return timed(lambda: [self._queue.enqueue(noop, i) for i in range(count)], count)

    def checkpoints(self, count: int) -> Answer:
        return timed(lambda: steps(count), count)

    def create_and_drain(self, count: int) -> Answer:
        """Its workers begin with the first enqueue, so that a drain by itself cannot be timed: both are one measure."""

        def work() -> None:
            for handle in [self._queue.enqueue(noop, i) for i in range(count)]:
                handle.get_result()

        return timed(work, count)


@asynccontextmanager
async def opening(url: str) -> AsyncGenerator[Mapping[str, Command]]:
    queue = await asyncio.to_thread(launch, url)  # its calls without await refuse to run where a loop does
    yield commands_of(Engine(queue))
    await asyncio.to_thread(DBOS.destroy)


if __name__ == "__main__":
    main(opening)
