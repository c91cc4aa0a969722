"""Whatever a store is asked or told, it finds by an index, however many jobs and events there are."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from jobledger import Completion, Effect, JobRequest, JobStore, State
from jobledger.adapters.storage import postgresql_connecting
from jobledger.projections.projecting import live_of
from tests.contracts.jobs import created, running
from tests.postgresql.conftest import Ledger

PATIENCE = timedelta(seconds=30)

JOBS = 30_000

# Copies of one job, with its name replaced wherever it stands: their plans are those of as many real ones.
GROWN = """
    CREATE TEMP TABLE copies AS SELECT 'copy-' || n AS id, n FROM generate_series(1, %(jobs)s) AS n;
    INSERT INTO stored_events SELECT c.id, 1, e.topic, e.state, c.id, 1000 + c.n FROM stored_events AS e, copies AS c
    WHERE e.notification_id = 1;
    INSERT INTO job
    SELECT 1000 + c.n, c.id, j.namespace, 'owner-' || c.n %% 50, c.id, j.kind, j.queue, 0, j.created_at_us
    FROM job AS j, copies AS c WHERE j.position = 1;
    INSERT INTO job_status
    SELECT c.id, 1000 + c.n, s.namespace, s.queue, s.kind, 0, s.state, s.claimable, s.ready_at_us, false, 1, s.head,
        s.updated_at_us, convert_to(replace(convert_from(s.job, 'UTF8'), s.job_id, c.id), 'UTF8')
    FROM job_status AS s, copies AS c WHERE s.position = 1;
    INSERT INTO job_lease
    SELECT c.id, 'default', 1, 9999999999999999, 0, 'default', 1 FROM copies AS c WHERE c.n < 2000;
    UPDATE job_status AS s SET state = 'running', claimable = 'when_dead' FROM copies AS c
    WHERE c.id = s.job_id AND c.n < 2000;
    INSERT INTO job_label SELECT 'default', 'l', 'v' || c.n %% 1000, 1000 + c.n, c.id FROM copies AS c;
    INSERT INTO job_unit SELECT c.id, 'u', '{"size":1}', '', 1, 1 FROM copies AS c;
    INSERT INTO job_body SELECT c.id, 'd', false, 'x' FROM copies AS c;
    SELECT setval('position', 1000 + %(jobs)s)
"""

EXPLAINING = {
    "session_preload_libraries": "auto_explain",
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_nested_statements": "on",
    "client_min_messages": "log",
}

SCAN = re.compile(r"Seq Scan on (stored_events|job|job_status|job_lease|job_label|job_unit|job_body)\b")


@pytest.fixture
def grown(ledger: Ledger, request: pytest.FixtureRequest) -> Ledger:
    """A ledger of many jobs, of which 2,000 run; the server has counted them, unless it is told not to."""
    with ledger.open() as store:
        created(store)
    with ledger.connect(autocommit=True) as connection:
        is_counted = getattr(request, "param", True)
        for table in ("stored_events", "job", "job_status", "job_lease", "job_label", "job_unit", "job_body"):
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = {is_counted})".encode())
        psycopg.ClientCursor(connection).execute(GROWN, {"jobs": JOBS})
        if is_counted:
            connection.execute("ANALYZE")
    return ledger


@pytest.fixture
def plans(grown: Ledger, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[JobStore, list[str]]]:
    """A store on it, and the plan of every statement that it executes, also of those inside of functions."""
    with explained(grown, monkeypatch) as told:
        yield told


@contextmanager
def explained(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Generator[tuple[JobStore, list[str]]]:
    """A store on a ledger, and the plans of what it executes."""
    told: list[str] = []
    configure = postgresql_connecting.configure

    def listening(connection: postgresql_connecting.Connection) -> None:
        connection.add_notice_handler(lambda notice: told.append(str(notice.message_primary)))
        configure(connection)

    monkeypatch.setattr(postgresql_connecting, "configure", listening)
    options = " ".join(f"-c {name}={value}" for name, value in EXPLAINING.items())
    with JobStore.open(f"{ledger.url}&options={options.replace(' ', '%20')}") as store:
        yield store, told


@pytest.mark.parametrize("grown", [True, False], ids=["counted", "never counted"], indirect=True)
def test_jobs_are_worked_on_by_index(plans: tuple[JobStore, list[str]]) -> None:
    """Commands, claims, what is asked of one job, and the feed: also before the server has counted any row."""
    store, told = plans
    effects = [Effect(resource="r", value=1, expected_version=0)]
    lease = running(store, "new", labels={"l": "v"}, submission="s")
    store.renew(lease.fence)
    store.record_unit(lease.fence, "u", 1)
    store.checkpoint(lease.fence, "s" * 5_000, effects=effects, command_id="c")
    store.checkpoint(lease.fence, "s" * 5_000, effects=effects, command_id="c")
    store.hold(lease.job_id, by="ops", reason="look")
    store.complete(lease.fence, result=1)
    store.create_many([JobRequest(owner="team", kind="index", queue="other") for _ in range(50)])
    assert len(store.claim_next(worker="w", queues=("default", "other"), limit=20)) == 20
    assert len(store.claim_next(worker="w", kinds=("index",), limit=5)) == 5
    for job_id in ("copy-77", lease.job_id):
        store.status(job_id)
        store.events(job_id)
        store.unit(job_id, "u")
        store.units(job_id)
    store.resource("team", "r")
    store.find("team", "new")
    assert len(store.feed(limit=100).entries) == 100
    assert len(store.feed(owner="owner-7", limit=20).entries) == 20

    require_no_scan(told)


@pytest.mark.parametrize("grown", [True, False], ids=["counted", "never counted"], indirect=True)
def test_limited_queues_are_worked_on_by_index(plans: tuple[JobStore, list[str]]) -> None:
    """Counting what runs, what waits in which order, each share in turn; and what unlimited ones look up."""
    store, told = plans
    why: dict[str, Any] = {"by": "ann", "reason": "small"}
    labels = [{"l": f"v{number % 3}"} for number in range(60)]
    store.create_many([JobRequest(owner="team", kind="index", queue="small", labels=each) for each in labels])
    for limits in (
        {"running_max": 3_000},
        {"running_max": 3_000, "ageing": 60, "starts_max": 1_000, "starts_span": 60},
        {"running_max": 3_000, "share_by": "owner"},
        {"running_max": 3_000, "share_by": "label:l", "running_max_per_share": 900},
    ):
        store.queues.limit("small", **limits, **why)
        assert len(store.claim_next(worker="w", queues=("default", "small"), limit=5)) == 5
        assert store.claim_next(worker="w", queues=("small",), kinds=("none",), limit=5) == []
    store.queues.limit("small", **why)
    store.queues.hold("small", **why)
    assert store.claim_next(worker="w", queues=("small",)) == []
    assert store.queues.get("default").running >= 1_999
    store.queues.list(limit=10)

    require_no_scan([plan for plan in told if "SELECT count(*)" not in plan])


def test_jobs_are_listed_by_index(plans: tuple[JobStore, list[str]]) -> None:
    """Pages by any filter, and the sweep for dead leases."""
    store, told = plans
    asked: list[dict[str, Any]] = [
        {},
        {"owner": "owner-7"},
        {"kind": "index"},
        {"queue": "default"},
        {"state": State.RUNNING},
        {"held": True},
        {"label": ("l", "v7")},
        {"owner": "owner-7", "state": State.QUEUED},
    ]
    for wanted in asked:
        store.jobs(limit=20, **wanted)
    store.recover_expired()

    require_no_scan([plan for plan in told if "SELECT count(*)" not in plan])


FOLDED = """
    INSERT INTO projection VALUES ('totals', 1, 1, true, 7, 'r', 0, NULL);
    INSERT INTO projection_row
    SELECT 'totals', b.build, convert_to('k' || n, 'UTF8'), '1'
    FROM (VALUES (1, 30000), (2, 300)) AS b (build, rows), generate_series(1, b.rows) AS n
"""


@pytest.mark.parametrize("is_counted", [True, False], ids=["counted", "never counted"])
def test_projections_are_read_and_moved_by_index(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, *, is_counted: bool
) -> None:
    """However many rows there are: single ones, stretches of them, what a batch writes, and what a rebuild leaves."""
    with ledger.open() as store:
        created(store)
    with ledger.connect(autocommit=True) as connection:
        connection.execute(f"ALTER TABLE projection_row SET (autovacuum_enabled = {is_counted})".encode())
        connection.execute(FOLDED)
        if is_counted:
            connection.execute("ANALYZE")
    with explained(ledger, monkeypatch) as (store, told):
        storage = store.setting.storage
        with storage.reading() as reader:
            assert len(reader.projected("totals", 1, [b"k%d" % n for n in range(100)])) == 99
            assert len(reader.projected_between("totals", 1, after=b"k1", before=b"k3", limit=50)) == 50
            seen = live_of(reader, "totals")
            assert seen is not None
        with storage.writing(PATIENCE) as session:
            rows = {b"k%d" % n: b"2" if n % 2 else None for n in range(100)}
            assert session.move_projection(seen, replace(seen, position=8), rows)
            assert session.move_projection(None, replace(seen, build=2, is_live=False))
            assert session.drop_projected("totals", 2, 100) == 100

    plans = [plan for plan in told if "projection_row" in plan]
    assert len(plans) >= 5
    assert not [plan for plan in plans if "Seq Scan on projection_row" in plan]


def require_no_scan(told: list[str]) -> None:
    """Require that no plan reads a whole table; counts up to a limit may."""
    assert any("Index Scan" in plan for plan in told)
    scans = [plan for plan in told if SCAN.search(plan)]
    assert not scans, "\n\n".join(scans)


FILTERED = re.compile(r"Join Filter: .*\bjob_id\b")
"""A join that compares all jobs of both sides: the square of their number."""


def test_a_batch_costs_what_it_writes_on_a_store_that_was_counted_empty(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plans are made once and kept: none may rest on a table that has no row yet, or one."""
    with ledger.connect(autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    with explained(ledger, monkeypatch) as (store, told):
        created(store)
        store.create_many([JobRequest(owner="team", kind="index", submission=f"s{n}") for n in range(20)])
        leases = store.claim_next(worker="w", limit=20)
        store.renew_many([lease.fence for lease in leases])
        effect = Effect(resource="r", value=1, expected_version=0)
        store.checkpoint(leases[0].fence, "s" * 5_000, effects=[effect])
        store.checkpoint(leases[0].fence, "t" * 5_000)
        store.record_unit(leases[0].fence, "u", 1)
        store.report_progress(leases[0].fence, 1)
        store.complete_many([Completion(lease.fence) for lease in leases])
        store.recover_expired()
        store.jobs(limit=20)

    assert any("jobledger.append" in plan or ".append(" in plan for plan in told)
    found = [plan for plan in told if FILTERED.search(plan)]
    assert not found, "\n\n".join(found)


def test_the_plans_are_looked_at(plans: tuple[JobStore, list[str]]) -> None:
    """The control: a statement without an index is found out."""
    store, told = plans
    storage = store._setting.storage  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # no public way to a bad statement
    bad = "SELECT 1 FROM jobledger.job_status AS s JOIN jobledger.job_lease AS l ON l.job_id < s.job_id LIMIT 1"
    with storage.reading() as reader:
        reader._all(bad)  # type: ignore[attr-defined]  # noqa: SLF001  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]  # the same

    assert [plan for plan in told if SCAN.search(plan)]
    assert [plan for plan in told if FILTERED.search(plan)]


def test_reports_and_renewals_touch_no_index(ledger: Ledger) -> None:
    """The new row stands beside the old one (HOT) in most of many updates: in all for which old rows could be cleared.

    Other tests' open views keep some of them; with an index on what is updated it would be none at all.
    """
    with ledger.open() as store:
        store.create_many([JobRequest(owner="team", kind="index") for _ in range(20)])
        leases = store.claim_next(worker="w", limit=20)
        for number in range(32):
            store.renew_many([lease.fence for lease in leases])
            for lease in leases:
                store.report_progress(lease.fence, number)
    updates = """
        SELECT relname, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables
        WHERE schemaname = %s AND relname IN ('job_lease', 'job_status')
    """
    with ledger.connect(autocommit=True) as connection:
        connection.execute("SELECT pg_stat_force_next_flush()")
        found = {row[0]: row[1:] for row in connection.execute(updates, (ledger.schema,))}

    for table, share in (("job_lease", 0.5), ("job_status", 0.3)):
        updated, hot = found[table]
        assert updated >= 600
        assert hot >= share * updated, found
