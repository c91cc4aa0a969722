"""The hot statements search an index and touch no more than they answer, also when the file is full of other work."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from jobledger.adapters.storage import sqlite_pool
from jobledger.adapters.storage.clocks import ManualClock
from jobledger.adapters.storage.sqlite import SQLiteStorage
from jobledger.adapters.storage.sqlite_claims import SQLiteFinder
from jobledger.adapters.storage.sqlite_connecting import SQLiteLedgerConnection, connect
from jobledger.adapters.storage.sqlite_listing import SQLiteReader
from jobledger.adapters.storage.sqlite_session import SQLiteSession
from jobledger.domain.decisions.claiming import Claimable
from jobledger.domain.job import State
from jobledger.domain.ports import JobFilter
from jobledger.domain.schedules.ports import DueSchedule
from jobledger.domain.tracking import Tracked
from tests.storage.given import (
    LEASE,
    NAMESPACE,
    NOON,
    PATIENCE,
    claim,
    claimed,
    created,
    loaded,
    progressed,
    renewed,
    tampered,
    written,
)

MANY = 3000
NEVER = Claimable.NEVER


@pytest.fixture(scope="module")
def full_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with thousands of jobs of many kinds: queued, planned, running, of other queues and namespaces."""
    storage = SQLiteStorage(tmp_path_factory.mktemp("full") / "jobs.db", clock=ManualClock(NOON))
    storage.migrate()
    later = NOON + timedelta(days=1)
    written(
        storage,
        *(created(f"queued {n}", key=f"k{n}", owner=f"o{n % 50}", labels={"l": str(n % 7)}) for n in range(MANY)),
        *(created(f"planned {n}", priority=n % 5, ready_at=later) for n in range(MANY)),
        *(created(f"backlog {n}", queue="backlog", priority=9) for n in range(MANY)),
        *(created(f"elsewhere {n}", namespace="elsewhere", priority=9) for n in range(MANY)),
        *(created(f"running {n}", kind="running") for n in range(300)),
        created("j", submission="s"),
    )
    with storage.reading() as reader:
        found = reader.load([f"running {n}" for n in range(300)])
    written(storage, *(claimed(each) for each in found.values()))
    storage.close()
    return storage.path


@pytest.fixture
def full(full_file: Path, tmp_path: Path, clock: ManualClock) -> Iterator[SQLiteStorage]:
    """A store on a copy of the full file."""
    storage = SQLiteStorage(shutil.copy(full_file, tmp_path / "jobs.db"), clock=clock)
    storage.require_schema()
    written(storage)  # the schema is known, and nothing of it is traced below
    yield storage
    storage.close()


@pytest.fixture
def statements(full: SQLiteStorage, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is executed on the full file from now on."""
    executed: list[str] = []

    def traced(name: str) -> SQLiteLedgerConnection:
        connection = connect(name)
        connection.raw.set_trace_callback(executed.append)
        return connection

    full.datastore.connections.before_fork()
    full.datastore.connections.after_fork_in_parent()
    monkeypatch.setattr(sqlite_pool, "connect", traced)
    yield executed
    monkeypatch.undo()


def plans(storage: SQLiteStorage, executed: list[str]) -> list[str]:
    """How SQLite goes about each statement."""
    found = []
    with storage.reading() as reader:
        assert isinstance(reader, SQLiteReader)
        for statement in dict.fromkeys(executed):
            if re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE)", statement):
                steps = explained(storage, statement)
                found += [f"{step}   <-   {' '.join(statement.split())}" for step in steps]
    return found


def explained(storage: SQLiteStorage, statement: str) -> list[str]:
    """The steps of one statement's plan."""
    connection = connect(str(storage.path))
    steps = [row["detail"] for row in connection.raw.execute(f"EXPLAIN QUERY PLAN {statement}")]
    connection.close()
    return steps


def walks(plan: list[str]) -> list[str]:
    """The steps that go through a whole table or index, or through all jobs by their place, or sort what they found."""
    walk = r"SCAN (?!json_each|\(|CONSTANT)|SEARCH s USING INTEGER PRIMARY KEY \(rowid[<>]|USE TEMP B-TREE"
    return [step for step in plan if re.match(walk, step)]


def look(wanted: JobFilter) -> Callable[[SQLiteReader], object]:
    """List the newest jobs of a filter."""
    return lambda reader: reader.jobs(wanted, before=999_999, limit=10)


def finder(reader: SQLiteReader) -> SQLiteFinder:
    """The same reader, which finds schedules too."""
    assert isinstance(reader, SQLiteFinder)
    return reader


N = NAMESPACE
READS: dict[str, Callable[[SQLiteReader], object]] = {
    "load": lambda reader: reader.load(["j", "k"]),
    "records": lambda reader: reader.records("j", after=1, upto=9, limit=9),
    "caused": lambda reader: reader.caused("j", "c"),
    "snapshot": lambda reader: reader.snapshot("j", 9),
    "body": lambda reader: reader.body("j", "d"),
    "unit": lambda reader: reader.unit("j", "u"),
    "units": lambda reader: reader.units("j", after="a", limit=9),
    "resource": lambda reader: reader.resource(N, "o", "r"),
    "versions": lambda reader: reader.versions(N, "o", ["r", "s"]),
    "submitted": lambda reader: reader.submitted(N, "o", "s"),
    "group": lambda reader: reader.group(N, "g"),
    "queued": lambda reader: reader.queued(N, "default", 9),
    "counts": lambda reader: reader.counts(N, None, None),
    "counts of an owner": lambda reader: reader.counts(N, "o1", None),
    "counts of a queue": lambda reader: reader.counts(N, None, "default"),
    "walk": lambda reader: reader.job_ids(N, after="j", limit=9),
    "feed": lambda reader: reader.feed(N, after=9, limit=9, topics=["job.created"], owner="o"),
    "schedules": lambda reader: finder(reader).schedules(N, ["s", "t"]),
    "schedules by name": lambda reader: finder(reader).schedule_names(N, after="s", limit=9, with_removed=False),
    "due schedules": lambda reader: finder(reader).due_schedules(N, after=DueSchedule(NOON, "s"), limit=9),
    "next due": lambda reader: finder(reader).next_due(N, after=NOON),
    "schedule snapshot": lambda reader: finder(reader).schedule_snapshot(N, "s", 200),
    "rows of a projection": lambda reader: finder(reader).projected("totals", 1, [b"a", b"b"]),
    "rows between": lambda reader: finder(reader).projected_between("totals", 1, after=b"a", before=b"b", limit=9),
    "secret": lambda reader: finder(reader).secret("cursors"),
    "newest": look(JobFilter(namespace=N)),
    "newest of an owner": look(JobFilter(namespace=N, owner="o1")),
    "newest of a kind": look(JobFilter(namespace=N, kind="k")),
    "newest of a queue": look(JobFilter(namespace=N, queue="default")),
    "newest in a state": look(JobFilter(namespace=N, state=State.RUNNING)),
    "newest held": look(JobFilter(namespace=N, is_held=True)),
    "newest with a label": look(JobFilter(namespace=N, label=("l", "1"))),
    "newest with a label's name": look(JobFilter(namespace=N, label=("l", None))),
    "newest of an owner and state": look(JobFilter(namespace=N, owner="o1", state=State.QUEUED)),
}

TRACKED = Tracked(
    projection="totals", build=2, version=1, is_live=True, position=9, runner="r", moved_at=NOON, trouble=None
)


def fold(storage: SQLiteStorage) -> None:
    """Write what a batch of a projection writes, and remove a part of a build that is not live."""
    with storage.writing(PATIENCE) as session:
        assert session.move_projection(None, TRACKED)
        assert session.move_projection(TRACKED, replace(TRACKED, position=10), {b"a": b"1", b"b": None})
        assert session.move_projection(None, replace(TRACKED, build=1, is_live=False), {b"a": b"1"})
        assert session.drop_projected("totals", 1, 1) == 1


WRITES: dict[str, Callable[[SQLiteStorage], object]] = {
    "create": lambda storage: written(storage, created("new", submission="new", labels={"l": "1"})),
    "claim": claim,
    "fold": fold,
    "renew": lambda storage: written(storage, renewed(loaded(storage, "running 1"), NOON + 2 * LEASE)),
    "report": lambda storage: written(storage, progressed(loaded(storage, "running 2"))),
}


@pytest.mark.parametrize("reading", READS)
def test_reading_searches_an_index(full: SQLiteStorage, statements: list[str], reading: str) -> None:
    """And lists come in order from it, without being sorted."""
    with full.reading() as reader:
        READS[reading](reader)

    plan = plans(full, statements)

    assert plan
    assert walks(plan) == []


@pytest.mark.parametrize("writing", WRITES)
def test_writing_searches_an_index(full: SQLiteStorage, statements: list[str], writing: str) -> None:
    WRITES[writing](full)

    plan = plans(full, statements)

    assert plan
    assert walks(plan) == []


def test_a_list_by_the_beginning_of_keys_sorts_only_what_it_finds(full: SQLiteStorage, statements: list[str]) -> None:
    with full.reading() as reader:
        reader.jobs(JobFilter(namespace=N, key_prefix="k299"), before=None, limit=9)

    [sort, *others] = walks(plans(full, statements))

    assert sort.startswith("USE TEMP B-TREE FOR ORDER BY")
    assert others == []


def test_claims_and_recovery_search_their_indexes(full: SQLiteStorage, statements: list[str]) -> None:
    """Only what is dead is sorted; live leases are looked at in an index that has no other job."""
    with full.writing(PATIENCE) as session:
        session.candidates(N, queues=["default", "backlog"], kinds=None, limit=9)
        session.candidates(N, queues=["default"], kinds=["k", "running"], limit=9)
        session.dead(N, after="", limit=9)

    plan = plans(full, statements)

    assert {step.split("   <-")[0] for step in walks(plan)} == {"USE TEMP B-TREE FOR ORDER BY"}
    for index in ("job_status_waiting", "job_status_running"):
        assert any(index in step for step in plan)


def test_a_plan_without_its_index_is_noticed(full: SQLiteStorage, statements: list[str]) -> None:
    """The control of the tests above."""
    indexes = ("owner", "owner_state", "newest", "state", "queue", "queue_state", "kind", "walk")
    tampered(full.path, *(f"DROP INDEX job_status_{index}" for index in indexes))
    statements.clear()
    with full.reading() as reader:
        READS["newest of an owner"](reader)

    assert walks(plans(full, statements))


# The price of a claim, in steps of SQLite's machine -------------------------------------------------------------------


def steps(storage: SQLiteStorage, work: Callable[[SQLiteSession], object]) -> int:
    """How many steps some work takes, to the next ten."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 10
        return 0

    with storage.writing(PATIENCE) as session:
        raw = session.connection
        raw.set_progress_handler(count, 10)
        try:
            work(session)
        finally:
            raw.set_progress_handler(None, 0)
    return counted


def look_for_work(session: SQLiteSession) -> object:
    """What a worker of one queue asks."""
    return session.candidates(N, queues=["mine"], kinds=None, limit=10)


def test_the_backlog_of_others_costs_a_claim_nothing(sqlite: SQLiteStorage) -> None:
    """Thousands of jobs in another queue, of another namespace, ended or held, leave the price as it is."""
    written(sqlite, *(created(f"mine {n}", queue="mine") for n in range(20)))
    alone = steps(sqlite, look_for_work)

    written(
        sqlite,
        *(created(f"other {n}", queue="other", priority=9) for n in range(MANY)),
        *(created(f"elsewhere {n}", queue="mine", namespace="elsewhere", priority=9) for n in range(MANY)),
        *(replace(created(f"held {n}", queue="mine", priority=9), claimable=NEVER) for n in range(MANY)),
    )

    assert steps(sqlite, look_for_work) <= alone + 50


def test_work_that_is_not_due_costs_a_claim_one_look_for_each_priority(sqlite: SQLiteStorage) -> None:
    """Thousands of planned jobs of larger priority are stepped over, not walked through."""
    written(sqlite, *(created(f"mine {n}", queue="mine") for n in range(20)))
    alone = steps(sqlite, look_for_work)
    later = NOON + timedelta(days=1)

    written(sqlite, *(created(f"later {n}", queue="mine", priority=1 + n % 3, ready_at=later) for n in range(MANY)))

    assert steps(sqlite, look_for_work) <= alone + 3 * 100


def test_one_job_among_thousands_that_may_not_be_taken_is_found_at_once(
    sqlite: SQLiteStorage, clock: ManualClock
) -> None:
    """Dead leases of held jobs, and of jobs whose budget is used up, keep nobody from the one that is free."""
    written(sqlite, *(created(f"{n:05}", policy_changes={"interrupts_max": 1}) for n in range(MANY)), created("z free"))
    with sqlite.reading() as reader:
        job_ids = reader.job_ids(N, after="", limit=MANY + 1)
        running = reader.load(job_ids)
    held = [replace(claimed(running[job_id]), claimable=NEVER) for job_id in job_ids[: MANY // 2]]
    written(sqlite, *held, *(claimed(running[job_id]) for job_id in job_ids[MANY // 2 :]))
    clock.advance(LEASE)

    with sqlite.writing(PATIENCE) as session:
        assert session.candidates(N, queues=["default"], kinds=None, limit=1) == ["z free"]
        assert session.dead(N, after="z", limit=1) == ["z free"]
