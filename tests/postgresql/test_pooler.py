"""Behind PgBouncer in transaction mode: every transaction may meet another session, which keeps nothing of the last."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase
from hypothesis.stateful import run_state_machine_as_test

from jobledger import JobContext, JobHost, JobRequest, JobStore, ManualClock, State, durable_job
from jobledger.adapters.cli.diagnosing import diagnose
from tests.contracts.commands import COMMANDS
from tests.contracts.histories import AnyHistory
from tests.contracts.lockstep import OPENERS
from tests.contracts.test_lockstep import settings_of
from tests.postgresql.conftest import Ledger
from tests.postgresql.pooler import PROGRAM, pooler
from tests.postgresql.server import server
from tests.postgresql.stores import LentStorage, WatchedClock

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="PgBouncer is not installed (Debian's package pgbouncer)")

HISTORIES = 15


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Where the pooler listens."""
    with tempfile.TemporaryDirectory(prefix="jl-") as made, pooler(Path(made)) as running:
        yield running


@pytest.fixture
def url(ledger: Ledger, folder: Path) -> str:
    """The ledger's URL through the pooler."""
    return ledger.url.replace(str(server().folder), str(folder))


def test_connections_through_a_pooler_prepare_nothing(url: str) -> None:
    """It is noticed by itself, and the doctor tells."""
    found = {finding.check: finding for finding in diagnose(url, "default")}

    assert "a pooler stands between" in found["connection"].found
    assert found["store"].mark == "ok"


def test_many_more_threads_than_sessions_work_side_by_side(url: str) -> None:
    """Twelve threads, twelve connections, four sessions; statements run often enough to be prepared, if they were."""
    with JobStore.open(f"{url}&connections_max=12") as store, ThreadPoolExecutor(12) as threads:

        def work(number: int) -> int:
            for turn in range(8):
                store.create(JobRequest(owner=f"o{number}", key=str(turn), kind="index", labels={"n": "1"}))
                for lease in store.claim_next(worker=f"w{number}", limit=2):
                    store.renew(lease.fence)
                    store.checkpoint(lease.fence, turn)
                    store.complete(lease.fence, result=turn)
                store.jobs(owner=f"o{number}")
                store.feed(limit=5)
            return number

        assert list(threads.map(work, range(12))) == list(range(12))
        assert all(verification.ok for verification in store.verify_all())
        assert store.jobs().total == 96


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_works_through_a_pooler(url: str, command: str) -> None:
    """And is answered equally when it is repeated."""
    with JobStore.open(url) as store:
        ready = COMMANDS[command](store)

        assert ready.call("c1") == ready.call("c1")


def test_nothing_of_a_transaction_is_left_in_its_session(ledger: Ledger, url: str, folder: Path) -> None:
    """Neither a setting nor a lock, which the pooler's next client would inherit."""
    with JobStore.open(url) as store:
        store.create_many([JobRequest(owner="o", kind="k") for _ in range(20)])
        for lease in store.claim_next(worker="w", limit=20):
            store.complete(lease.fence)
    changed = "SELECT name FROM pg_settings WHERE source = 'session' AND name IN ('lock_timeout', 'search_path')"
    with ledger.connect(autocommit=True) as direct:
        held = direct.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND (classid::bigint >> 16) = "
            "(SELECT mark(0) >> 48) AND objsubid = 1"
        ).fetchall()
    import psycopg  # noqa: PLC0415  # only here

    with psycopg.connect(f"postgresql://postgres@/postgres?host={folder}", autocommit=True) as other:
        other.prepare_threshold = None
        for _ in range(8):
            assert other.execute(changed).fetchall() == []
    assert held == [(0,)]


def test_a_host_works_through_a_pooler(url: str) -> None:
    """It finds new work by asking, since nobody can listen there."""

    @durable_job("index")
    def index(job: JobContext) -> int:
        job.checkpoint(1)
        return 1

    with JobStore.open(url) as store:
        host = JobHost(store, jobs=[index], concurrency=4)
        host.start()
        host.admit()
        ids = [store.create(JobRequest(owner="team", kind="index")).job_id for _ in range(10)]
        assert {store.wait(job_id, 60).state for job_id in ids} == {State.COMPLETE}
        host.drain(20)
        host.stop()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_pooler_changes_no_answer_in_any_history(folder: Path) -> None:
    """The lock-step machine, with the memory store beside it, which says what is right."""

    class PooledStorage(LentStorage):
        """A store whose sessions go through the pooler."""

        def __init__(self) -> None:
            super().__init__(through=folder)

        def close(self) -> None:
            """Close it for good: it is lent to nobody who asks for a direct one."""
            super().end()

    def pooled(_: Path, clock: ManualClock) -> Any:
        assert isinstance(clock, WatchedClock)
        return PooledStorage().lend(clock)

    class AnyHistoryThroughAPooler(AnyHistory):
        openers = {"memory": OPENERS["memory"], "pooled": pooled}  # noqa: RUF012  # as in the class it changes

    run_state_machine_as_test(AnyHistoryThroughAPooler, settings=settings_of(HISTORIES, Phase.generate))
