"""Many claims of one limited queue at once, and a twin that looks before its turn; run by itself, it is one claimer.

python -m tests.contracts.racing URL NAME [twin]
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any, cast

from jobledger import JobStore, State
from jobledger.adapters.bootstrap import open_storage
from jobledger.adapters.storage.entropy import SystemEntropy
from jobledger.domain.ports import Session, Storage
from jobledger.domain.store import Setting
from tests.contracts.faults import AlteredSession, PassingStorage

QUEUE = "small"
ENDS = ("Completed", "Cancelled", "Interrupted", "Paused", "AttemptFailed")


class HastyStorage(PassingStorage):
    """A twin whose claimers count once, what runs and what started, before they have their turn: others come between.

    Each thread is one claimer.
    """

    def __init__(self, inner: Storage, meet: Callable[[], object]) -> None:
        """Count, ``meet`` the others, and then take the turn."""
        super().__init__(inner)
        self._meet = meet
        self._here = threading.local()

    def writing(self, patience: timedelta, connection: object | None = None) -> AbstractContextManager[Session]:
        """A transaction that knows what was so before it began."""
        return self._writing(patience, connection)

    @contextmanager
    def _writing(self, patience: timedelta, connection: object | None) -> Generator[Session]:
        if not hasattr(self._here, "known"):
            self._here.known = self._counted()
            self._meet()
        with self.inner.writing(patience, connection) as session:
            yield cast("Session", AlteredSession(session, **self._here.known))

    def _counted(self) -> dict[str, Callable[..., Any]]:
        with self.inner.reading() as reader:
            running, usage = reader.running_in("default", QUEUE, None), reader.queue_usage("default", QUEUE)
        return {"running_in": lambda *_: running, "queue_usage": lambda *_: usage}


def claimer(storage: Storage) -> JobStore:
    """A store for one that claims."""
    return JobStore(Setting(storage, SystemEntropy()))


def drain(store: JobStore, worker: str, *, until_empty: bool) -> int:
    """Claim and complete, two at a time, until nothing waits or, else, nothing may start; answers how many it got."""
    taken = 0
    while True:
        leases = store.claim_next(worker=worker, queues=[QUEUE], limit=2)
        taken += len(leases)
        for lease in leases:
            store.complete(lease.fence)
        if not leases and (not until_empty or not _is_anything_left(store)):
            return taken


def _is_anything_left(store: JobStore) -> bool:
    counts = store.counts(queue=QUEUE)
    return counts[State.QUEUED] > 0


def in_threads(threads: int, work: Callable[[int], object]) -> list[Any]:
    """Let so many threads work, all beginning at once."""
    barrier = threading.Barrier(threads)

    def begin(number: int) -> object:
        barrier.wait(timeout=60)
        return work(number)

    with ThreadPoolExecutor(threads) as pool:
        return [each.result() for each in [pool.submit(begin, number) for number in range(threads)]]


def most_at_once(store: JobStore) -> int:
    """How many ran at once at most, by the order of the log."""
    running: set[str] = set()
    most = 0
    for entry in _entries(store):
        if entry.name == "Claimed":
            running.add(entry.job_id)
        elif entry.name in ENDS:
            running.discard(entry.job_id)
        most = max(most, len(running))
    return most


def starts(store: JobStore) -> int:
    """How many attempts started."""
    return sum(entry.name == "Claimed" for entry in _entries(store))


def _entries(store: JobStore) -> Generator[Any]:
    cursor: str | None = None
    while (page := store.feed(after=cursor, limit=1_000)).entries:
        yield from page.entries
        cursor = page.cursor


def main() -> None:
    """Open the store, say so, wait for the word, and drain the queue."""
    url, name = sys.argv[1:]
    with claimer(open_storage(url)) as store:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        sys.stdout.write(f"{drain(store, name, until_empty=True)}\n")


if __name__ == "__main__":
    main()
