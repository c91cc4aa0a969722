"""Oban for Python, on psycopg and uvloop, with a hundred jobs at once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import uvloop  # type: ignore[import-not-found, unused-ignore]  # it stands in the driver's own environment
from oban import Oban, worker  # type: ignore[import-not-found, unused-ignore]  # likewise
from oban.schema import install as install_schema  # type: ignore[import-not-found, unused-ignore]  # likewise
from psycopg_pool import AsyncConnectionPool

from tests.bench.drivers.driving import Answer, Command, Drain, batches, main, timed_async

LIMIT = 100
DRAINED = [Drain(0)]


@worker(queue="default")  # type: ignore[untyped-decorator, unused-ignore]  # seen where it is not installed
class Noop:
    """A job that does nothing."""

    async def process(self, _: object) -> None:
        """Count it."""
        DRAINED[-1].note()


@asynccontextmanager
async def opening(url: str) -> AsyncGenerator[Mapping[str, Command]]:
    async with AsyncConnectionPool(url, min_size=2, max_size=8, kwargs={"autocommit": True}) as pool:
        client = Oban(pool=pool)

        async def install(count: int) -> Answer:
            await install_schema(pool)
            return {"count": count, "seconds": 0}

        async def create_one(count: int) -> Answer:
            async def work() -> None:
                for i in range(count):
                    await client.enqueue(Noop.new({"i": i}))  # type: ignore[attr-defined, unused-ignore]  # the decorator makes it

            return await timed_async(work(), count)

        async def create_many(count: int) -> Answer:
            async def work() -> None:
                for size in batches(count):
                    jobs = [Noop.new({"i": i}) for i in range(size)]  # type: ignore[attr-defined, unused-ignore]  # likewise
                    await client.enqueue_many(*jobs)

            return await timed_async(work(), count)

        async def drain(count: int) -> Answer:
            DRAINED.append(Drain(count))
            async with Oban(pool=pool, queues={"default": LIMIT}, name=f"worker-{len(DRAINED)}"):
                return await DRAINED[-1].over()

        yield {"install": install, "create_one": create_one, "create_many": create_many, "drain": drain}


if __name__ == "__main__":
    main(opening, uvloop.run)
