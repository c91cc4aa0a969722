"""A host folds the feed while it is admitted, beside others; what is parked or away keeps nothing else back."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta

import pytest

from jobledger import JobRequest, JobStore, ManualClock
from jobledger.adapters.storage.memory import MemoryStorage
from jobledger.adapters.worker import JobHost, durable_job
from jobledger.adapters.worker.projecting import Projecting, projected
from jobledger.domain import events
from jobledger.domain.errors import InvalidRequestError, StoreUnavailableError
from jobledger.domain.history import RecordedEvent
from jobledger.projections.folding import Projection, Rows
from jobledger.projections.projecting import BUSY, PROJECTIONS
from tests.worker.hosting import PATIENCE, hosted, opened, until


@durable_job("index")
def index(part: str) -> str:
    return part


@pytest.fixture
def clock() -> ManualClock:
    """The store's time."""
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> JobStore:
    """A store in memory."""
    return opened(MemoryStorage(clock=clock))


def asked(store: JobStore, key: str) -> None:
    """One more job."""
    store.create(JobRequest(owner="team", key=key, kind="index", payload={"part": key}))


def finished(store: JobStore) -> int:
    """How many jobs the totals have seen end."""
    return sum(sum(total.finished.values()) for total in store.totals().totals)


def test_a_host_folds_what_its_jobs_do(store: JobStore) -> None:
    with hosted(store, index, projections=True):
        for count in (1, 2, 3):
            asked(store, f"k{count}")
            until(store, lambda count=count: finished(store) == count)  # type: ignore[misc]  # bound at once

    assert {each.state.value for each in store.projections()} == {"following"}


def test_a_host_folds_nothing_unless_it_is_asked_to(store: JobStore) -> None:
    asked(store, "k")
    with hosted(store, index):
        store.wait(store.jobs().jobs[0].job_id, PATIENCE)

    assert {each.state.value for each in store.projections()} == {"new"}
    with pytest.raises(InvalidRequestError, match="projections"):
        JobHost(store, [index], projections="yes")  # type: ignore[arg-type]  # the mistake under test


def test_another_process_takes_over_from_one_that_is_gone(store: JobStore, clock: ManualClock) -> None:
    """While the first one moves it stands by; what the first one left is not folded again."""
    asked(store, "k1")
    with projected(store):
        until(store, lambda: bool(store.totals().totals))
    asked(store, "k2")
    second = Projecting(store, name="second")
    second.start()
    clock.advance(BUSY)
    until(store, lambda: store.totals().totals[0].created == 2)
    second.stop()
    second.join(PATIENCE)

    assert {each.runner for each in store.projections()} == {"second"}


def test_one_that_is_parked_keeps_no_other_from_going_on(store: JobStore, caplog: pytest.LogCaptureFixture) -> None:
    """It is told once, and not each time that it is looked at."""
    looks = threading.Semaphore(0)

    def fold(_: Rows, __: RecordedEvent) -> None:
        looks.release()
        msg = "no"
        raise ValueError(msg)

    broken = Projection(name="broken", version=1, folds={events.Created: fold})
    asked(store, "k1")
    projecting = Projecting(store, name="p", projections=(broken, *PROJECTIONS.values()))
    with caplog.at_level(logging.ERROR, logger="jobledger.projections"):
        projecting.start()
        assert looks.acquire(timeout=10)
        asked(store, "k2")
        until(store, lambda: bool(store.totals().totals) and store.totals().totals[0].created == 2)
        projecting.stop()
        projecting.join(10)

    assert [record.getMessage().count("broken") for record in caplog.records] == [1]


def test_it_goes_on_after_the_store_was_away(
    store: JobStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It waits longer each time, and says why."""
    storage = store.setting.storage
    reading = storage.reading
    is_away = threading.Event()
    is_away.set()
    failures = threading.Semaphore(0)

    def refused() -> object:
        if threading.current_thread().name.endswith("projecting") and is_away.is_set():
            failures.release()
            reason = "it is away"
            raise StoreUnavailableError(reason)
        return reading()

    monkeypatch.setattr(storage, "reading", refused)
    asked(store, "k")
    with caplog.at_level(logging.WARNING, logger="jobledger.projections"), projected(store):
        for _ in range(6):
            assert failures.acquire(timeout=10)
        is_away.clear()
        until(store, lambda: bool(store.totals().totals))

    assert "it is away" in caplog.records[0].getMessage()
    assert store.projections()[0].lag == timedelta(0)
