"""awa (a Rust core with a Python face), as its migration leaves it, with 256 workers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from awa import AsyncClient  # type: ignore[import-not-found, unused-ignore]  # it stands in the driver's own environment

from tests.bench.drivers.driving import Answer, Command, Drain, batches, commands_of, main, timed_async

WORKERS = 256


@dataclass
class Noop:
    """A job that does nothing."""

    i: int


class Engine:
    """awa with one client, which is made once its schema stands."""

    def __init__(self, url: str) -> None:
        self._url = url.replace("@/", "@localhost/")  # its driver wants a host, also where a socket is named
        self._client: AsyncClient | None = None
        self._drained = Drain(0)

    def _open(self) -> AsyncClient:
        if self._client is None:
            self._client = AsyncClient(self._url)

            @self._client.task(Noop, queue="q")  # type: ignore[untyped-decorator, unused-ignore]  # seen where it is not installed
            async def noop(_: object) -> None:
                self._drained.note()

        return self._client

    async def install(self, count: int) -> Answer:
        program = Path(sys.executable).with_name("awa")
        migrating = await asyncio.create_subprocess_exec(
            program, "--database-url", self._url, "migrate", stdout=asyncio.subprocess.DEVNULL
        )
        if await migrating.wait():
            msg = "awa migrate failed"
            raise RuntimeError(msg)
        return {"count": count, "seconds": 0}

    async def create_one(self, count: int) -> Answer:
        client = self._open()

        async def work() -> None:
            for i in range(count):
                await client.insert(Noop(i=i), queue="q")

        return await timed_async(work(), count)

    async def create_many(self, count: int) -> Answer:
        client = self._open()

        async def work() -> None:
            for size in batches(count):
                await client.insert_many_copy([Noop(i=i) for i in range(size)], queue="q")

        return await timed_async(work(), count)

    async def drain(self, count: int) -> Answer:
        client, self._drained = self._open(), Drain(count)
        await client.start([("q", WORKERS)])
        answer = await self._drained.over()
        await client.shutdown()
        return answer


@asynccontextmanager
async def opening(url: str) -> AsyncGenerator[Mapping[str, Command]]:
    yield commands_of(Engine(url))


if __name__ == "__main__":
    main(opening)
