"""How fast this machine is with a store: calls and a host, timed in a place made for them, which is removed again."""

from __future__ import annotations

import secrets
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from psycopg.sql import SQL, Identifier

from jobledger.adapters.bootstrap import JobStore, is_served, sqlite_path
from jobledger.adapters.storage.postgresql_connecting import connect, place_of
from jobledger.adapters.worker.host import JobHost
from jobledger.adapters.worker.registration import durable_job
from jobledger.domain.decisions.creating import JobRequest
from jobledger.domain.errors import DeadlineExceededError, JobledgerError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from jobledger.domain.answers import Lease

BATCH: Final = 500
SINGLE_MAX: Final = 200
"""How many calls are timed one by one at most."""
PICKUPS: Final = 20
IDLE_SECONDS: Final = 0.06
CONCURRENCY: Final = 100
PATIENCE_SECONDS: Final = 600.0
MEASURES: Final = 7


@dataclass(frozen=True, slots=True)
class Measured:
    """One thing that was timed: how many of them, in how many seconds; and single calls, in milliseconds."""

    what: str
    count: int
    seconds: float
    p50_ms: float | None = None
    p99_ms: float | None = None

    @property
    def rate(self) -> float:
        """How many a second."""
        return self.count / self.seconds


@contextmanager
def place_beside(url: str) -> Generator[str]:
    """A place for an empty store beside the named one, which is not touched: another file, or another schema.

    Raises:
        InvalidRequestError: the URL names no store.
    """
    if not is_served(url):
        folder = sqlite_path(url).parent
        with tempfile.TemporaryDirectory(prefix="jobledger-bench-", dir=folder) as beside:
            yield f"sqlite:///{Path(beside).resolve() / 'bench.db'}"
        return
    schema = f"jobledger_bench_{secrets.token_hex(4)}"
    place = place_of(url)
    try:
        yield f"{place.conninfo}{'&' if '?' in place.conninfo else '?'}schema={schema}"
    finally:
        with connect(place) as connection:
            connection.execute(SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(Identifier(schema)))


def measure(url: str, jobs: int) -> Iterator[Measured]:
    """Time what a store at this empty place does with so many jobs, one measure after the other.

    Raises:
        JobledgerError: of the store.
        DeadlineExceededError: the host did not run all jobs in ten minutes.
    """
    single = min(jobs, SINGLE_MAX)
    with JobStore.open(url, migrate=True) as store:
        yield _each("create, one call a job", single, lambda: _create(store, "one"))
        yield _create_many(store, jobs)
        yield _drain(store, jobs)
        lease = _claimed(store)
        yield _each("checkpoint, each durable", single, lambda: store.checkpoint(lease.fence, {"done": 1}))
        yield _each("status of a job", single, lambda: store.status(lease.job_id))
        yield _pick_up(store)
        yield _read(store)


def _create(store: JobStore, kind: str) -> str:
    return store.create(JobRequest(owner="bench", kind=kind, payload={"i": 1})).job_id


def _claimed(store: JobStore) -> Lease:
    return store.claim(_create(store, "steps"), worker="bench")


def _each(what: str, count: int, call: Callable[[], object]) -> Measured:
    """Time calls, each by itself."""
    spans: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        call()
        spans.append(time.perf_counter() - began)
    return _measured(what, spans)


def _measured(what: str, spans: Sequence[float]) -> Measured:
    ordered = sorted(1_000 * span for span in spans)
    p50, p99 = (ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.5, 0.99))
    return Measured(what, len(spans), sum(spans), p50, p99)


def _create_many(store: JobStore, jobs: int) -> Measured:
    began = time.perf_counter()
    for first in range(0, jobs, BATCH):
        requests = [
            JobRequest(owner="bench", kind="noop", key=f"bench-{number}", payload={"i": number})
            for number in range(first, min(first + BATCH, jobs))
        ]
        for receipt in store.create_many(requests):
            if isinstance(receipt, JobledgerError):
                raise receipt
    return Measured("create, in bulk", jobs, time.perf_counter() - began)


def _drain(store: JobStore, jobs: int) -> Measured:
    """Run all of them on a host, until the last end is durable."""
    ran, all_ran = 0, threading.Event()

    @durable_job("noop")
    async def noop(i: int) -> None:
        nonlocal ran
        del i
        ran += 1
        if ran == jobs:
            all_ran.set()

    with JobHost(store, [noop], concurrency=CONCURRENCY) as host:
        began = time.perf_counter()
        host.admit()
        if not all_ran.wait(PATIENCE_SECONDS):
            waited_for = f"{jobs - ran:,} of {jobs:,} jobs to run"
            raise DeadlineExceededError(waited_for)
        host.drain(timedelta(seconds=PATIENCE_SECONDS))
        return Measured("claim, run and complete, on a host", jobs, time.perf_counter() - began)


def _pick_up(store: JobStore) -> Measured:
    """From the call of create to the handler's first line, on an idle host."""
    started, idle = threading.Event(), threading.Event()

    @durable_job("pickup")
    def pickup() -> None:
        started.set()

    def once() -> None:
        started.clear()
        _create(store, "pickup")
        if not started.wait(PATIENCE_SECONDS):
            waited_for = "a job to start"
            raise DeadlineExceededError(waited_for)

    spans: list[float] = []
    with JobHost(store, [pickup]) as host:
        host.admit()
        for _ in range(PICKUPS):
            idle.wait(IDLE_SECONDS)
            spans.append(_each("", 1, once).seconds)
    return _measured("create to the handler's start, idle host", spans)


def _read(store: JobStore) -> Measured:
    began, events, cursor = time.perf_counter(), 0, None
    while entries := (page := store.feed(after=cursor, limit=1_000)).entries:
        events, cursor = events + len(entries), page.cursor
    return Measured("events read from the feed", events, time.perf_counter() - began)
