"""Wake-ups between processes: heard at once where one can listen, and never needed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from jobledger import JobRequest, JobStore
from jobledger.adapters.storage import changes
from jobledger.adapters.storage.postgresql import PostgreSQLStorage
from tests.contracts.jobs import created, running
from tests.postgresql.conftest import Ledger

LONG = timedelta(seconds=60)


def storage_of(store: JobStore) -> PostgreSQLStorage:
    """A store's storage."""
    storage: Any = store._setting.storage  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # its wake-ups are its own
    return storage  # type: ignore[no-any-return]  # that of PostgreSQL


@pytest.fixture
def never_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks by itself: what is not heard is slept through."""
    monkeypatch.setattr(changes, "POLL_SECONDS", 1_000.0)
    monkeypatch.setattr("jobledger.adapters.storage.postgresql_wakeups.HEARING_POLL_SECONDS", 1_000.0)


def woken_by(ledger: Ledger, act: Callable[[JobStore], object]) -> bool:
    """Whether a waiter of one process hears of what another one does."""
    with ledger.open() as here, ledger.open() as there, ThreadPoolExecutor(1) as threads:
        storage_of(here).wait(timedelta(seconds=0.01))
        assert storage_of(here).wakeups.is_hearing.wait(20)
        is_waiting = threading.Event()

        def wait() -> None:
            storage_of(here).wait(timedelta(seconds=0.01))
            is_waiting.set()
            storage_of(here).wait(LONG)

        waiting = threads.submit(wait)
        is_waiting.wait()
        act(there)
        waiting.result(timeout=20)
    return True


@pytest.mark.usefixtures("never_looking")
def test_a_commit_of_another_process_is_heard(ledger: Ledger) -> None:
    assert woken_by(ledger, created)


@pytest.mark.usefixtures("never_looking")
def test_a_commit_is_heard_although_the_feed_is_held_back(ledger: Ledger, store: JobStore) -> None:
    """There is work to be claimed, whatever followers of the feed have to wait for."""
    with ledger.connect() as connection:
        store.create(JobRequest(owner="slow", kind="k"), connection=connection)

        assert woken_by(ledger, created)


def test_a_broken_ear_is_mended(ledger: Ledger, store: JobStore) -> None:
    """And until it is, waiters look by themselves."""
    storage = storage_of(store)
    storage.wait(timedelta(seconds=0.01))
    assert storage.wakeups.is_hearing.wait(20)
    storage.wakeups.is_hearing.clear()
    with ledger.connect(autocommit=True) as connection:
        killed = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = %s"
        assert connection.execute(killed, (ledger.schema,)).fetchall() != [(0,)]

    assert storage.wakeups.is_hearing.wait(20)
    with ThreadPoolExecutor(1) as other, ledger.open() as there:
        storage.wait(timedelta(seconds=0.01))
        waiting = other.submit(storage.wait, LONG)
        created(there)
        waiting.result(timeout=20)


def test_renewals_tell_nobody(ledger: Ledger, store: JobStore) -> None:
    """They come all the time, and are no news to anybody."""
    lease = running(store)
    with ledger.connect(autocommit=True) as connection:
        connection.execute(f"LISTEN {ledger.schema}_news".encode())
        list(connection.notifies(timeout=1))  # what is still told of the beginning
        store.renew(lease.fence)
        store.claim_next(worker="w")
        assert list(connection.notifies(timeout=0.2)) == []

        store.report_progress(lease.fence, 1)
        assert len(list(connection.notifies(timeout=20, stop_after=1))) == 1


def test_many_commits_are_few_notifications(ledger: Ledger, store: JobStore) -> None:
    """A server commits one notifying transaction after the other, so they must not be many."""
    with ledger.connect(autocommit=True) as connection:
        connection.execute(f"LISTEN {ledger.schema}_news".encode())
        for number in range(50):
            created(store, str(number))

        heard = list(connection.notifies(timeout=1))

    assert 1 <= len(heard) < 45


def test_a_closed_store_has_no_threads(ledger: Ledger) -> None:
    """Neither an ear nor a voice."""
    others = set(threading.enumerate())

    with ledger.open() as store:
        created(store)
        storage_of(store).wait(timedelta(seconds=0.01))

    left = set(threading.enumerate()) - others
    assert not [thread for thread in left if thread.name == "jobledger-wakeups"]
