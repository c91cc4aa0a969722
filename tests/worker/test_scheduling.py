"""A host fires the store's schedules while it is admitted, goes on after the store was away, and tells what fails."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobledger import ManualClock, Schedule
from jobledger.adapters import calendars
from jobledger.adapters.bootstrap import JobStore
from jobledger.adapters.storage.memory import MemoryStorage
from jobledger.adapters.worker import JobHost, durable_job
from jobledger.adapters.worker.scheduling import Scheduling
from jobledger.domain.errors import InvalidRequestError, StoreUnavailableError
from tests.worker.hosting import PATIENCE, SECOND, hosted, opened, until

START = datetime(2026, 6, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@durable_job("tick")
def tick(at: str) -> str:
    return at


@pytest.fixture
def clock() -> ManualClock:
    """The store's time."""
    return ManualClock(START)


@pytest.fixture
def store(clock: ManualClock) -> JobStore:
    """A store in memory with one schedule, every minute."""
    store = opened(MemoryStorage(clock=clock))
    store.schedules.put(
        Schedule("s", "tick", every=60, overlap="allow", catch_up="all", payload={"at": "${instant}"}), by="ann"
    )
    return store


def results(store: JobStore) -> list[Any]:
    """What the handler answered, oldest job first."""
    return [job.result for job in reversed(store.jobs(state="complete").jobs)]


def test_a_host_fires_schedules_and_runs_their_jobs(store: JobStore, clock: ManualClock) -> None:
    with hosted(store, tick, schedules=True):
        for count in (1, 2, 3):
            clock.advance(MINUTE)
            until(store, lambda count=count: len(results(store)) == count)  # type: ignore[misc]  # bound at once

    assert results(store) == [f"2026-06-01T12:0{minute}:00Z" for minute in (1, 2, 3)]
    assert store.schedules.verify("s").ok


def test_a_host_fires_nothing_unless_it_is_asked_to_and_admitted(store: JobStore, clock: ManualClock) -> None:
    """Not by default, not before admission, and not after the drain began."""
    clock.advance(MINUTE)
    with hosted(store, tick):
        store.wait_for_change(0.7)
    host = JobHost(store, [tick], schedules=True)
    host.start()
    store.wait_for_change(0.7)
    assert store.schedules.get("s").fired == 0

    host.admit()
    until(store, lambda: len(results(store)) == 1)
    host.drain(PATIENCE)
    clock.advance(MINUTE)
    store.wait_for_change(0.7)
    host.stop()

    assert store.schedules.get("s").fired == 1
    with pytest.raises(InvalidRequestError, match="schedules"):
        JobHost(store, [tick], schedules="yes")  # type: ignore[arg-type]  # the mistake under test


def test_a_scheduler_sleeps_until_the_next_instant(store: JobStore, clock: ManualClock) -> None:
    """By the store's clock; at most half a second, since others may put an earlier one."""
    scheduling = Scheduling(store, name="h")

    assert scheduling._fire() == 0.5  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # its one step, without its thread
    clock.advance(MINUTE - timedelta(milliseconds=20))
    assert scheduling._fire() == pytest.approx(0.02)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # the same
    clock.advance(timedelta(milliseconds=20))
    scheduling._fire()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # the same

    assert store.schedules.get("s").fired == 1


def test_a_store_that_is_away_is_asked_again(
    store: JobStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What was due meanwhile fires when it is back."""
    fire_due, calls = store.schedules.fire_due, iter(range(1_000))

    def failing() -> Any:
        if next(calls) < 3:
            reason = "it is away"
            raise StoreUnavailableError(reason)
        return fire_due()

    monkeypatch.setattr(store.schedules, "fire_due", failing)
    clock.advance(2 * MINUTE)
    with caplog.at_level(logging.WARNING, "jobledger.worker"), hosted(store, tick, schedules=True):
        until(store, lambda: len(results(store)) == 2)

    told = [record.message for record in caplog.records if "schedules could not be fired" in record.message]
    assert len(told) == 3
    assert "it is away" in told[0]


def test_a_schedule_that_fails_is_logged_once_and_hides_no_other(
    store: JobStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It stays due for ever, and must not keep the scheduler from sleeping, nor from waking for others."""
    store.schedules.put(Schedule("t", "tick", cron="* * * * *", zone="Asia/Tokyo"), by="ann")
    monkeypatch.setattr(calendars, "_known_zones", lambda: frozenset({"UTC"}))
    scheduling = Scheduling(store, name="h")
    waits: list[float] = []
    with caplog.at_level(logging.ERROR, "jobledger.worker"):
        for step in (MINUTE, SECOND, SECOND, MINUTE - 2 * SECOND - timedelta(milliseconds=10)):
            clock.advance(step)
            waits.append(scheduling._fire())  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # without its thread

    assert waits[1:] == [0.5, 0.5, pytest.approx(0.01)]
    assert [record.message.partition(":")[0] for record in caplog.records] == ["schedule 't' cannot be settled"]
    assert store.schedules.get("s").fired == 1
