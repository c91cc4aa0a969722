"""A host archives jobs whose policies let them go, if its role may, and tells of histories that do not hold."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobledger import JobRequest, JobStore, ManualClock, Policy
from jobledger.adapters.bundles.archiving import ArchiveReport
from jobledger.adapters.storage.entropy import SystemEntropy
from jobledger.adapters.storage.memory import MemoryStorage
from jobledger.adapters.worker import durable_job, retaining
from jobledger.adapters.worker.retaining import BATCH, Retention
from jobledger.domain.errors import StoreUnavailableError
from jobledger.domain.store import Setting
from tests.worker.hosting import hosted, until

KEPT = timedelta(hours=1)


@durable_job("tick", policy="kept")
def tick() -> None:
    """Nothing is to be done."""


@pytest.fixture
def clock() -> ManualClock:
    """The store's time."""
    return ManualClock(datetime(2026, 6, 1, 12, tzinfo=UTC))


@pytest.fixture
def store(clock: ManualClock) -> JobStore:
    """A store in memory whose jobs are kept for an hour."""
    setting = Setting(MemoryStorage(clock=clock), SystemEntropy(), policies={"kept": Policy(keep_finished=KEPT)})
    return JobStore(setting)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts look all the time."""
    monkeypatch.setattr(retaining, "LOOK_EVERY", 0.0)


def ended(store: JobStore, key: str) -> str:
    """A job that completed."""
    job_id = store.create(JobRequest(owner="team", kind="tick", key=key, payload={}, policy="kept")).job_id
    store.complete(store.claim(job_id, worker="w").fence)
    return job_id


def test_a_host_archives_what_its_policy_lets_go(store: JobStore, clock: ManualClock) -> None:
    with hosted(store, tick):
        job_id = store.create(JobRequest(owner="team", kind="tick", payload={}, policy="kept")).job_id
        store.wait(job_id, 10)
        assert store.status(job_id).archived == 0
        clock.advance(KEPT)
        until(store, lambda: store.status(job_id).archived > 0)

    assert store.verify(job_id).ok


def test_a_turn_goes_on_while_there_is_much_to_do(store: JobStore, clock: ManualClock) -> None:
    """In small batches, and ends when the host does."""
    for number in range(BATCH + 1):
        ended(store, f"{number}")
    clock.advance(KEPT)

    Retention(store, lambda: True).look()
    assert store.overdue()[0] == 1
    Retention(store, lambda: False).look()

    assert store.overdue()[0] == 0


class Answering:
    """A store whose archive answers what it is told to."""

    def __init__(self, answer: ArchiveReport | StoreUnavailableError) -> None:
        """Answer so."""
        self.answer, self.asked = answer, 0

    def archive(self, *, limit: int) -> ArchiveReport:
        """Answer or raise."""
        self.asked += limit > 0
        if isinstance(self.answer, StoreUnavailableError):
            raise self.answer
        return self.answer


def test_a_host_whose_role_may_not_archive_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    """It does not ask again; an outage is another thing, and is told to whoever looks after it."""
    denied: Any = Answering(StoreUnavailableError("permission denied for function archive"))
    retention = Retention(denied, lambda: False)

    with caplog.at_level(logging.WARNING, "jobledger.worker"):
        retention.look()
        retention.look()

    assert denied.asked == 1
    assert len(caplog.records) == 1
    away: Any = Answering(StoreUnavailableError("connection refused"))
    with pytest.raises(StoreUnavailableError):
        Retention(away, lambda: False).look()


def test_a_history_that_does_not_hold_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    broken: Any = Answering(ArchiveReport(0, 0, "", "", (("j1", "a digest does not fit"),)))
    retention = Retention(broken, lambda: False)

    with caplog.at_level(logging.ERROR, "jobledger.worker"):
        retention.look()
        retention.look()

    assert [record.getMessage() for record in caplog.records] == [
        "job j1 is not archived, its history does not hold: a digest does not fit"
    ]
