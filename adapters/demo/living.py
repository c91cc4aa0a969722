"""A living store to look at: jobs in every state, and a worker that goes on working as long as somebody looks."""

from __future__ import annotations

import random
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Self

from jobledger.adapters.worker import (
    JobContext,
    JobHost,
    Partial,
    Unavailable,
    checkpoint,
    durable_job,
    progress,
    restore,
)
from jobledger.domain.answers import Progress
from jobledger.domain.decisions.creating import JobRequest
from jobledger.domain.errors import JobledgerError
from jobledger.domain.schedules.definition import Schedule

if TYPE_CHECKING:
    from jobledger.adapters.bootstrap import JobStore

OWNER: Final = "demo"
PAUSE_S: Final = 0.25
NEW_EVERY_S: Final = 6.0
OPERATOR: Final = "ann"
PRICES: Final = "prices"
ZONE: Final = "Europe/Berlin"


@durable_job("rebuild-index")
class RebuildIndex:
    """Rebuilds an index batch by batch; a hold parks it between two, and a lost worker costs one."""

    def __init__(self) -> None:
        """Begin with the first batch."""
        self.next_batch = 0
        self.batches = 0

    def run(self, job: JobContext, part: str, batches: int = 60) -> dict[str, Any]:
        """Index one part."""
        self.batches = batches
        while self.next_batch < batches:
            job.unit(f"batch-{self.next_batch:03}", _work, part, self.next_batch)
            self.next_batch += 1
            job.checkpoint()
        return {"part": part, "rows": 1_000 * batches}

    @checkpoint
    def save(self) -> list[int]:
        """The next batch, and how many there are."""
        return [self.next_batch, self.batches]

    @restore
    def load(self, saved: list[int] | None) -> None:
        """Go on from there."""
        self.next_batch, self.batches = saved or (0, 0)

    @progress
    def done(self) -> Progress:
        """How far it is."""
        return Progress(self.next_batch, self.batches or None, f"batch {self.next_batch}")


def _work(part: str, batch: int) -> dict[str, Any]:
    threading.Event().wait(PAUSE_S)
    return {"part": part, "batch": batch, "rows": 1_000}


@durable_job("import-prices", policy="strict")
def import_prices(job: JobContext, feed: str, mood: str) -> Any:
    """Imports a price list, with whatever luck its mood brings."""
    job.progress(1, 2, f"reading {feed}")
    if mood == "broken":
        msg = f"line 4,711 of {feed} is no price"
        raise ValueError(msg)
    if mood == "away":
        return Unavailable(f"the server of {feed} was switched off")
    if mood == "partial":
        return Partial({"prices": 940}, "60 prices were in an unknown currency")
    return {"prices": 1_000}


def populate(store: JobStore) -> None:
    """Make schedules, and jobs that end in every state, or wait in one; what was made before is left as it is."""
    for number, mood in enumerate(["fine", "fine", "partial", "away", "broken"]):
        prices = {"feed": f"feed-{number}.csv", "mood": mood}
        _made(store, f"prices-{number}", "import-prices", prices, policy="strict", queue=PRICES)
    _made(store, "index-north", "rebuild-index", {"part": "north", "batches": 400}, priority=9)
    held = _made(store, "index-held", "rebuild-index", {"part": "held"})
    cancelled = _made(store, "index-cancelled", "rebuild-index", {"part": "old"})
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    _made(store, "index-tomorrow", "rebuild-index", {"part": "tomorrow"}, ready_at=tomorrow)
    _put(store)
    _asked(store, "hold", held, "the disk of the index host is full")
    _asked(store, "request_cancel", cancelled, "superseded by index-north")


def _put(store: JobStore) -> None:
    """Put schedules: one that fires while somebody looks, one for the nights, and one that is held."""
    prices = {"feed": "feed-${instant}.csv", "mood": "fine"}
    index = {"part": "${date}", "batches": 20}
    strict: Any = {"owner": OWNER, "policy": "strict"}
    for schedule in (
        Schedule("prices-each-minute", "import-prices", every=60, payload=prices, queue=PRICES, **strict),
        Schedule("index-nightly", "rebuild-index", cron="30 2 * * mon-fri", zone=ZONE, payload=index, owner=OWNER),
        Schedule("index-yearly", "rebuild-index", cron="0 4 1 1 *", zone=ZONE, payload=index, owner=OWNER),
    ):
        store.schedules.put(schedule, by=OPERATOR)
    try:
        store.schedules.hold("index-yearly", by=OPERATOR, reason="the archive moves to another host")
    except JobledgerError:
        return  # somebody else holds it


def _made(store: JobStore, key: str, kind: str, payload: Any, **more: Any) -> str:
    request = JobRequest(owner=OWNER, key=key, kind=kind, payload=payload, labels={"made-by": "demo"}, **more)
    return store.create(request).job_id


def _asked(store: JobStore, control: str, job_id: str, reason: str) -> None:
    try:
        getattr(store, control)(job_id, by=OPERATOR, reason=reason)
    except JobledgerError:
        return  # it was asked when the demo was served before


class Life:
    """Works on the jobs, and makes a new one now and then, until it is stopped."""

    def __init__(self, store: JobStore) -> None:
        """Bring a store to life."""
        self._store = store
        self._host = JobHost(
            store,
            jobs=[RebuildIndex, import_prices],
            concurrency=3,
            queues=("default", PRICES),
            name="demo-worker",
            schedules=True,
            projections=True,
        )
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="demo jobs", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        populate(self._store)
        self._host.start()
        self._host.admit()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop: what runs is parked at its next boundary."""
        self._is_over.set()
        self._thread.join()
        self._host.drain(5.0)
        self._host.stop()

    def _go_on(self) -> None:
        began = int(datetime.now(UTC).timestamp())
        number = 0
        while not self._is_over.wait(NEW_EVERY_S):
            number += 1
            payload = {"part": f"part-{number}", "batches": random.randint(8, 40)}  # noqa: S311  # it keeps no secret
            try:
                _made(self._store, f"index-{began}-{number}", "rebuild-index", payload)
            except JobledgerError:
                continue  # a store that is away for a while is asked again
