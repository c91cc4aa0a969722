"""PgQueuer, on asyncpg and uvloop, with the batch size that drains fastest here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import asyncpg  # type: ignore[import-not-found, unused-ignore]  # it stands in the driver's own environment
import uvloop  # type: ignore[import-not-found, unused-ignore]  # likewise
from pgqueuer import PgQueuer  # type: ignore[import-not-found, unused-ignore]  # likewise
from pgqueuer.db import AsyncpgDriver  # type: ignore[import-not-found, unused-ignore]  # likewise
from pgqueuer.queries import Queries  # type: ignore[import-not-found, unused-ignore]  # likewise

from tests.bench.drivers.driving import Answer, Command, Drain, batches, commands_of, main, timed_async

BATCH_SIZE = 100


class Engine:
    """PgQueuer on one connection."""

    def __init__(self, driver: AsyncpgDriver) -> None:
        self._driver = driver
        self._queries = Queries(driver)

    async def install(self, count: int) -> Answer:
        await self._queries.install()
        return {"count": count, "seconds": 0}

    async def create_one(self, count: int) -> Answer:
        async def work() -> None:
            for _ in range(count):
                await self._queries.enqueue("noop", b'{"i":1}', 0)

        return await timed_async(work(), count)

    async def create_many(self, count: int) -> Answer:
        async def work() -> None:
            for size in batches(count):
                await self._queries.enqueue(["noop"] * size, [b'{"i":1}'] * size, [0] * size)

        return await timed_async(work(), count)

    async def drain(self, count: int) -> Answer:
        engine, drained = PgQueuer(self._driver), Drain(count)

        @engine.entrypoint("noop")  # type: ignore[untyped-decorator, unused-ignore]  # seen where it is not installed
        async def noop(_: object) -> None:
            drained.note()

        async def watch() -> None:
            await drained.over()
            engine.shutdown.set()

        watching = asyncio.create_task(watch())
        await engine.run(batch_size=BATCH_SIZE)
        await watching
        return drained.answer()


@asynccontextmanager
async def opening(url: str) -> AsyncGenerator[Mapping[str, Command]]:
    connection = await asyncpg.connect(url)
    yield commands_of(Engine(AsyncpgDriver(connection)))
    await connection.close()


if __name__ == "__main__":
    main(opening, uvloop.run)
