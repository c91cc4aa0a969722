"""Connections that are cut and sessions that are killed: each command takes effect once, and its answer is right."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from jobledger import JobContext, JobHost, JobledgerError, JobRequest, JobStore, State, durable_job
from tests.contracts.commands import COMMANDS
from tests.contracts.jobs import refuses, running
from tests.contracts.schedules import put
from tests.postgresql.conftest import Ledger
from tests.postgresql.proxy import CommitProxy, Cut
from tests.postgresql.server import server

KILLS = 20
ROUNDS = int(os.environ.get("JOBLEDGER_ROUNDS", "12"))
"""How often the opposite orders are tried; 1,200 take about a minute."""
JOBS = 60


@pytest.fixture
def proxy() -> Iterator[CommitProxy]:
    """A proxy before the tests' server."""
    with tempfile.TemporaryDirectory(prefix="jl-") as folder, CommitProxy(server().folder, Path(folder)) as opened:
        yield opened


@pytest.fixture
def far(ledger: Ledger, proxy: CommitProxy) -> Iterator[JobStore]:
    """A store behind the proxy."""
    with JobStore.open(ledger.url.replace(str(server().folder), str(proxy.folder))) as opened:
        yield opened


@pytest.mark.parametrize("plan", [["before"], ["after"], ["before", "after"]], ids="-".join)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_whose_connection_is_cut_takes_effect_once(
    store: JobStore, far: JobStore, proxy: CommitProxy, command: str, plan: list[Cut | None]
) -> None:
    """Whether the cut came before or after the commit; the answer is that of a command that met none."""
    ready = COMMANDS[command](far)
    before = len(store.feed(limit=1_000).entries)
    proxy.plan = list(plan)

    answer = ready.call("c1")

    assert proxy.plan == []
    assert ready.call("c1") == answer
    if (job_id := ready.job_id or getattr(answer, "job_id", None)) is not None:
        causes = [event.command_id for event in store.history(job_id)]
        assert causes.count("c1") == len(store.feed(limit=1_000).entries) - before
        assert store.verify(job_id).ok


def test_what_nobody_can_know_is_said_to_be_unknown(store: JobStore, far: JobStore, proxy: CommitProxy) -> None:
    """Where each try is cut; the same command id then tells."""
    lease = running(far)
    cut_off: list[Cut | None] = ["before"] * 20
    proxy.plan = ["after", *cut_off]

    refuses("outcome_unknown", far.checkpoint, lease.fence, 1, command_id="c1")

    proxy.plan = []
    assert far.checkpoint(lease.fence, 1, command_id="c1").expires_at == store.status(lease.job_id).lease.expires_at  # type: ignore[union-attr]  # it runs
    assert [event.command_id for event in store.history(lease.job_id)].count("c1") == 1


def test_claims_whose_reply_was_lost_are_not_lost(far: JobStore, proxy: CommitProxy) -> None:
    """The worker gets the very leases that the cut connection had committed."""
    far.create_many([JobRequest(owner="team", kind="index") for _ in range(3)])
    proxy.plan = ["after"]

    leases = far.claim_next(worker="w", limit=3)

    assert [lease.generation for lease in leases] == [1, 1, 1]
    assert [far.complete(lease.fence).state for lease in leases] == [State.COMPLETE] * 3


def test_a_server_that_was_restarted_is_met_by_no_error(ledger: Ledger, store: JobStore) -> None:
    """All connections of the pool are dead; the next command finds a living one."""
    with ThreadPoolExecutor(5) as threads:
        list(threads.map(lambda number: store.create(JobRequest(owner="o", kind="k", key=str(number))), range(30)))
    assert killed(ledger) > 1

    assert store.create(JobRequest(owner="o", kind="k", key="after")).sequence == 1
    assert store.jobs().total == 31


def killed(ledger: Ledger, most: int = 1_000) -> int:
    """End sessions of stores on this ledger; answers how many."""
    kill = """
        SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
        WHERE application_name = %s
        ORDER BY random() LIMIT %s
    """
    with ledger.connect(autocommit=True) as connection:
        return len(connection.execute(kill, (ledger.schema, most)).fetchall())


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_jobs_are_done_once_while_sessions_are_killed(ledger: Ledger) -> None:
    """Twenty times under load: every job ends complete, each of its units once, and the host goes on."""
    done: list[str] = []

    @durable_job("index")
    def index(job: JobContext) -> int:
        for unit in range(4):
            job.unit(f"u{unit}", lambda: 1)
            job.checkpoint(unit)
        done.append(job.job_id)
        return 1

    with ledger.open() as store:
        store.create_many([JobRequest(owner="team", kind="index") for _ in range(JOBS)])
        host = JobHost(store, jobs=[index], concurrency=4)
        host.start()
        host.admit()
        kills = 0
        while kills < KILLS:
            kills += killed(ledger, most=1)
            store.wait_for_change(0.05)
        for job in store.jobs(limit=1_000).jobs:
            store.wait(job.job_id, 120)
        host.drain(20)
        host.stop()

        assert store.counts()[State.COMPLETE] == JOBS
        assert all(job.units == 4 for job in store.jobs(limit=1_000).jobs)
        assert all(verification.ok for verification in store.verify_all())


def test_what_is_only_looked_at_is_never_waited_for(ledger: Ledger, store: JobStore) -> None:
    """The job that a submission made, and a schedule's last occurrence: locks out of order would end in deadlocks."""
    made = store.create(JobRequest(owner="o", kind="k", key="made", submission="s")).job_id
    put(store, every=1, overlap="skip")
    while not store.schedules.fire_due().fired:
        store.wait_for_change(0.1)
    with ledger.connect() as connection:
        assert connection.execute("SELECT job_id FROM job_status FOR UPDATE").rowcount == 2

        refuses("payload_changed", store.within(1).create, JobRequest(owner="o", kind="k", key="other", submission="s"))
        while not store.within(1).schedules.fire_due().skipped:
            store.wait_for_change(0.1)

    assert store.verify(made).ok
    assert store.schedules.verify("s").ok


@pytest.mark.timeout(300)
def test_commands_in_opposite_orders_never_deadlock(ledger: Ledger) -> None:
    """Batches of creations, with and without a limit on the queue, and whatever operators do with the same jobs."""
    rounds = ROUNDS
    keys = [f"k{number:02}" for number in range(24)]
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"

    def create(store: JobStore, number: int) -> list[Any]:
        chance = random.Random(number)  # noqa: S311  # no secret hangs on it
        answers: list[Any] = []
        for turn in range(rounds):
            order = keys if (number + turn) % 2 else keys[::-1]
            chosen = [f"{key}-{turn % 10}" for key in order]
            answers += store.create_many([JobRequest(owner="o", kind="k", key=key, submission=key) for key in chosen])
            for lease in store.claim_next(worker=f"w{number}", limit=5):
                answers.append(lease)
                if chance.random() < 0.5:
                    answers += store.renew_many([lease.fence])
        return answers

    def operate(store: JobStore, number: int) -> list[Any]:
        chance = random.Random(number)  # noqa: S311  # no secret hangs on it
        answers: list[Any] = []
        for _ in range(rounds * 3):
            status = store.find("o", f"{chance.choice(keys)}-{chance.randrange(10)}")
            if status is not None:
                act = chance.choice([store.hold, store.request_cancel, store.retry, store.release_hold])
                try:
                    answers.append(act(status.job_id, by=f"op{number}", reason="r"))
                except JobledgerError as refusal:
                    answers.append(refusal)
            store.recover_expired()
        return answers

    with ledger.open() as store, ThreadPoolExecutor(6) as threads:
        with ledger.connect(autocommit=True) as connection:
            before = connection.execute(deadlocks).fetchall()
        working = [threads.submit(create, store, number) for number in range(4)]
        working += [threads.submit(operate, store, number) for number in range(2)]
        answers = [answer for each in working for answer in each.result(timeout=200)]
        with ledger.connect(autocommit=True) as connection:
            connection.execute("SELECT pg_stat_force_next_flush()")
            after = connection.execute(deadlocks).fetchall()

        unexpected = {answer.code for answer in answers if isinstance(answer, JobledgerError)} & {
            "store_unavailable",
            "outcome_unknown",
            "history_corrupt",
        }
        assert not unexpected
        assert before == after, "the server had to end a transaction that stood in another one's way"
        assert all(verification.ok for verification in store.verify_all())


def test_a_deadlock_with_somebody_elses_locks_is_got_over(ledger: Ledger, store: JobStore) -> None:
    """The server ends one of the two; where it was ours, the command is simply run again."""
    requests = [JobRequest(owner="o", kind="k", key=key) for key in ("a", "b")]
    first, second = sorted(store.create(request).job_id for request in requests)
    lock = "SELECT 1 FROM job_status WHERE job_id = %s FOR UPDATE"
    with ledger.connect() as connection, ThreadPoolExecutor(1) as other:
        connection.execute("SET deadlock_timeout = '1min'")  # ours finds the deadlock, and so is the one that ends
        connection.execute(lock, (second,))
        waiting = other.submit(store.create_many, requests)
        with ledger.connect(autocommit=True) as looking:
            while looking.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchall() == [(0,)]:
                looking.execute("SELECT pg_sleep(0.01)")
        connection.execute(lock, (first,))
        connection.rollback()

        receipts: list[Any] = waiting.result(timeout=20)

    assert [receipt.reused for receipt in receipts] == [True, True]
