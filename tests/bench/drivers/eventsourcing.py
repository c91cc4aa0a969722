"""The eventsourcing library as it comes: one Application on PostgreSQL, one save for each event."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

from tests.bench.drivers.driving import Answer, Command, main, timed


@asynccontextmanager
async def opening(url: str) -> AsyncGenerator[Mapping[str, Command]]:
    parts = urlsplit(url)
    os.environ |= {
        "PERSISTENCE_MODULE": "eventsourcing.postgres",
        "POSTGRES_DBNAME": parts.path.strip("/"),
        "POSTGRES_HOST": parse_qs(parts.query)["host"][0],
        "POSTGRES_PORT": parse_qs(parts.query).get("port", ["5432"])[0],
        "POSTGRES_USER": parts.username or "postgres",
        "POSTGRES_PASSWORD": "unused",  # the server trusts its own socket; the library wants one
    }
    from eventsourcing.application import Application  # noqa: PLC0415  # it reads the environment
    from eventsourcing.domain import Aggregate, event  # noqa: PLC0415  # likewise

    class Job(Aggregate):
        """A job as one would write it down first."""

        @event("Created")
        def __init__(self, owner: str, key: str, payload: dict[str, int]) -> None:
            self.owner, self.key, self.payload, self.done = owner, key, payload, 0

        @event("Reported")
        def report(self, done: int) -> None:
            """How far it is."""
            self.done = done

    app = Application()  # type: ignore[var-annotated]  # its ids are UUIDs, as by default

    def create_one(count: int) -> Answer:
        return timed(lambda: [app.save(Job("o", f"k{i}", {"i": 1})) for i in range(count)], count)

    def append_one(count: int) -> Answer:
        job = Job("o", "k", {"i": 1})
        app.save(job)

        def work() -> None:
            for done in range(count):
                job.report(done)
                app.save(job)

        return timed(work, count)

    yield {"create_one": create_one, "append_one": append_one}
    app.close()


if __name__ == "__main__":
    main(opening)
