"""jobledger itself: the worker host with a handler that does nothing, and the calls of the store in batches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count as numbers

import psycopg

from jobledger import Completion, JobHost, JobRequest, JobStore, Lease, durable_job
from tests.bench.drivers.driving import Answer, Command, Drain, batches, commands_of, main, timed

CONCURRENCY = 200
CLAIMED_AT_ONCE = 200
PAGE = 1_000
DRAINED = [Drain(0)]


@durable_job("noop")
async def noop(i: int) -> None:
    """A job that does nothing."""
    del i
    DRAINED[-1].note()


class Ours:
    """The measures of one open store."""

    def __init__(self, store: JobStore, url: str = "") -> None:
        """Measure this store, which is at ``url``."""
        self.store, self.url = store, url
        self.keys = numbers()

    def _requests(self, count: int, kind: str = "noop") -> list[JobRequest]:
        """So many requests, each with a key that nobody used before."""
        prefix = f"{time.time_ns():x}"
        return [
            JobRequest(owner="team", kind=kind, key=f"{prefix}-{next(self.keys)}", payload={"i": 1})
            for _ in range(count)
        ]

    def create_one(self, count: int) -> Answer:
        """One call for each job."""
        requests = self._requests(count)
        return timed(lambda: [self.store.create(request) for request in requests], count)

    def create_many(self, count: int) -> Answer:
        """One call for a thousand jobs, requests included, as in the other drivers."""

        def work() -> None:
            for size in batches(count):
                for receipt in self.store.create_many(self._requests(size)):
                    if isinstance(receipt, Exception):
                        raise receipt

        return timed(work, count)

    def drain(self, count: int) -> Answer:
        """The worker host, with an async handler."""
        drained = Drain(count)
        DRAINED.append(drained)
        with JobHost(self.store, [noop], concurrency=CONCURRENCY) as host:
            host.admit()
            drained.wait()
            host.drain(timedelta(seconds=30))
            ended = time.monotonic()
        if drained.count < count:
            return drained.answer()  # others ran the rest
        # The last completion is durable now, not only its handler at its end.
        return drained.answer() | {"seconds": ended - drained.started, "last": ended}

    def drain_calls(self, count: int) -> Answer:
        """Claims and completions in batches, without a host."""
        drained = Drain(count)
        while leases := self.store.claim_next(worker="bench", limit=CLAIMED_AT_ONCE):
            for result in self.store.complete_many([Completion(lease.fence) for lease in leases]):
                if isinstance(result, Exception):
                    raise result
                drained.note()
        return drained.answer()

    def drain_held(self, count: int) -> Answer:
        """As ``drain_calls``, while somebody's old snapshot keeps every dead row from being cleared."""
        with psycopg.connect(self.url, options="-c default_transaction_isolation=repeatable\\ read") as old:
            old.execute("SELECT 1")
            return self.drain_calls(count)

    def create_and_drain(self, count: int) -> Answer:
        """Jobs made one by one while a host runs them, until the last of them is complete."""
        drained = Drain(count)
        DRAINED.append(drained)
        with JobHost(self.store, [noop], concurrency=CONCURRENCY) as host:
            host.admit()
            for request in self._requests(count):
                self.store.create(request)
            drained.wait()
            host.drain(timedelta(seconds=30))
            ended = time.monotonic()
        return drained.answer() | {"seconds": ended - drained.started}

    def checkpoints(self, count: int) -> Answer:
        """Checkpoints of one job, each durable before the next."""
        lease = self._lease()
        answer = timed(lambda: [self.store.checkpoint(lease.fence, {"next": i}) for i in range(count)], count)
        self.store.complete(lease.fence)
        return answer

    def append_one(self, count: int) -> Answer:
        """Events of one job, one for each call, under the fence."""
        lease = self._lease()
        answer = timed(lambda: [self.store.report_progress(lease.fence, i) for i in range(count)], count)
        self.store.complete(lease.fence)
        return answer

    def _lease(self) -> Lease:
        [request] = self._requests(1, "steps")
        return self.store.claim(self.store.create(request).job_id, worker="bench")

    def feed(self, count: int) -> Answer:
        """Every event of the store, by the feed."""

        def work() -> int:
            read, cursor = 0, None
            while entries := (page := self.store.feed(after=cursor, limit=PAGE)).entries:
                read, cursor = read + len(entries), page.cursor
                if read >= count:
                    break
            return read

        started = time.perf_counter()
        read = work()
        return {"count": read, "seconds": time.perf_counter() - started}

    def verify_long(self, count: int) -> Answer:
        """One history of so many events, checked."""
        lease = self._lease()
        for i in range(count):
            self.store.report_progress(lease.fence, i)
        started = time.perf_counter()
        verification = self.store.verify(lease.job_id)
        took = time.perf_counter() - started
        if not verification.ok:
            raise RuntimeError(verification.problems)
        return {"count": verification.events, "seconds": took}

    def verify(self, count: int) -> Answer:
        """Short histories, checked event by event, until ``count`` events were."""
        started, events = time.perf_counter(), 0
        for verification in self.store.verify_all():
            events += verification.events
            if not verification.ok:
                raise RuntimeError(verification.problems)
            if events >= count:
                break
        return {"count": events, "seconds": time.perf_counter() - started}


@asynccontextmanager
async def opening(url: str) -> AsyncGenerator[Mapping[str, Command]]:
    store = JobStore.open(url, migrate=True)
    yield commands_of(Ours(store, url))
    await asyncio.to_thread(store.close)


if __name__ == "__main__":
    main(opening)
