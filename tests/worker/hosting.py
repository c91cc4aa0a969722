"""Short words for tests of hosts: make jobs, run hosts, wait for what becomes of jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

from jobledger.adapters.bootstrap import JobStore
from jobledger.adapters.storage.clocks import SystemClock
from jobledger.adapters.storage.entropy import SystemEntropy
from jobledger.adapters.storage.memory import MemoryStorage
from jobledger.adapters.worker import JobHost
from jobledger.domain.answers import JobStatus
from jobledger.domain.decisions.creating import JobRequest
from jobledger.domain.policies import Backoff, Policy
from jobledger.domain.ports import Storage
from jobledger.domain.store import Setting

PATIENCE: Final = 10.0
"""Seconds after which a test that waits for a signal fails."""

SECOND: Final = timedelta(seconds=1)
SOON: Final = Backoff(initial=timedelta(milliseconds=10), cap=timedelta(milliseconds=10), jitter=0.0)

POLICIES: Final = {
    "quick": Policy(lease=SECOND, backoff=SOON),
    "steady": Policy(lease=2 * SECOND, backoff=SOON),
    "twice": Policy(lease=SECOND, backoff=SOON, failures_max=2),
    "hasty": Policy(lease=SECOND, backoff=SOON, run_time_max=timedelta(milliseconds=200), failures_max=1),
    "small": Policy(backoff=SOON, failures_max=1, result_bytes_max=64, receipt_bytes_max=64, checkpoint_bytes_max=64),
}


def opened(storage: Storage | None = None) -> JobStore:
    """A store in memory, or over a storage that the test prepared."""
    setting = Setting(storage or MemoryStorage(clock=SystemClock()), SystemEntropy(), policies=POLICIES)
    return JobStore(setting)


@contextmanager
def hosted(store: JobStore, *jobs: Any, drain: float = PATIENCE, **options: Any) -> Generator[JobHost]:
    """An admitted host, drained and stopped at the end."""
    host = JobHost(store, jobs, **options)
    host.admit()
    try:
        yield host
    finally:
        host.drain(drain)
        host.stop()


def created(store: JobStore, kind: str, payload: Any = None, *, policy: str = "quick", **request: Any) -> str:
    """A job of that kind; answers its id."""
    return store.create(JobRequest(owner="team", kind=kind, payload=payload, policy=policy, **request)).job_id


def ended(store: JobStore, job_id: str) -> JobStatus:
    """The status of a job once it is terminal."""
    return store.wait(job_id, PATIENCE)


def ran(store: JobStore, job: Any, kind: str, payload: Any = None, *, policy: str = "quick") -> JobStatus:
    """Run one job of that kind to its end on a host of its own."""
    with hosted(store, job):
        return ended(store, created(store, kind, payload, policy=policy))


def until(store: JobStore, is_so: Callable[[], bool], *, patience: float = PATIENCE) -> None:
    """Wait until something is so; looks whenever the store changes."""
    give_up = threading.Event()
    timer = threading.Timer(patience, give_up.set)
    timer.daemon = True
    timer.start()
    try:
        while not is_so():
            assert not give_up.is_set(), "it never came to be"
            store.wait_for_change(0.05)
    finally:
        timer.cancel()


def names(store: JobStore, job_id: str) -> Sequence[str]:
    """The names of a job's events, in order."""
    return [event.name for event in store.history(job_id)]


def happens(event: threading.Event) -> None:
    """Require that a signal comes."""
    assert event.wait(PATIENCE), "the signal never came"
