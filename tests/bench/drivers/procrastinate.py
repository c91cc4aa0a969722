"""Procrastinate, on psycopg, with twenty jobs at once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import procrastinate  # type: ignore[import-not-found, unused-ignore]  # it stands in the driver's own environment

from tests.bench.drivers.driving import Answer, Command, Drain, batches, main, timed_async

CONCURRENCY = 20


@asynccontextmanager
async def opening(url: str) -> AsyncGenerator[Mapping[str, Command]]:
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))
    drained = Drain(0)

    @app.task(queue="q", name="noop")  # type: ignore[untyped-decorator, unused-ignore]  # seen where it is not installed
    async def noop(i: int) -> None:
        del i
        drained.note()

    async def install(count: int) -> Answer:
        await app.schema_manager.apply_schema_async()
        return {"count": count, "seconds": 0}

    async def create_one(count: int) -> Answer:
        async def work() -> None:
            for i in range(count):
                await noop.defer_async(i=i)

        return await timed_async(work(), count)

    async def create_many(count: int) -> Answer:
        async def work() -> None:
            for size in batches(count):
                await noop.batch_defer_async(*[{"i": i} for i in range(size)])

        return await timed_async(work(), count)

    async def drain(count: int) -> Answer:
        nonlocal drained
        drained = Drain(count)
        await app.run_worker_async(wait=False, concurrency=CONCURRENCY, install_signal_handlers=False)
        return drained.answer()

    async with app.open_async():
        yield {"install": install, "create_one": create_one, "create_many": create_many, "drain": drain}


if __name__ == "__main__":
    main(opening)
