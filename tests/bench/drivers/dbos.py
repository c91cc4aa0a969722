"""DBOS Transact for Python: workflows through its queue, and checkpointed steps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from dbos import DBOS  # type: ignore[import-not-found, unused-ignore]  # it stands in the driver's own environment

from tests.bench.drivers.driving import Answer, Command, main, timed

QUEUE = "q"


@asynccontextmanager
async def opening(url: str) -> AsyncIterator[Mapping[str, Command]]:
    settings = {"name": "bench", "system_database_url": url, "run_admin_server": False, "log_level": "ERROR"}
    DBOS(config=settings)

    @DBOS.workflow()  # type: ignore[untyped-decorator, unused-ignore]  # seen where it is not installed
    def noop(i: int) -> int:
        return i

    @DBOS.step()  # type: ignore[untyped-decorator, unused-ignore]  # likewise
    def step(i: int) -> int:
        return i

    @DBOS.workflow()  # type: ignore[untyped-decorator, unused-ignore]  # likewise
    def steps(count: int) -> int:
        for i in range(count):
            step(i)
        return count

    DBOS.launch()
    DBOS.register_queue(QUEUE)
    queue = DBOS.retrieve_queue(QUEUE)
    waiting: list[object] = []

    def create_one(count: int) -> Answer:
        return timed(lambda: waiting.extend(queue.enqueue(noop, i) for i in range(count)), count)

    def checkpoints(count: int) -> Answer:
        return timed(lambda: steps(count), count)

    # Its workers begin with the first enqueue, so that a drain by itself cannot be timed: both are one measure.
    def create_and_drain(count: int) -> Answer:
        def work() -> None:
            for handle in [queue.enqueue(noop, i) for i in range(count)]:
                handle.get_result()

        return timed(work, count)

    yield {"create_one": create_one, "checkpoints": checkpoints, "create_and_drain": create_and_drain}
    DBOS.destroy()


if __name__ == "__main__":
    main(opening)
