"""What each role may do, listed: a worker cannot rewrite history, and a reader cannot write at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from jobledger import JobStore
from jobledger.adapters.storage.postgresql import PostgreSQLStorage
from tests.contracts.commands import COMMANDS
from tests.contracts.jobs import refuses, running
from tests.postgresql.conftest import Ledger
from tests.postgresql.server import server

LISTED = """
    SELECT c.relname, string_agg(p.may, ' ' ORDER BY p.may) FROM pg_class AS c,
        unnest(ARRAY['DELETE', 'INSERT', 'REFERENCES', 'SELECT', 'TRIGGER', 'TRUNCATE', 'UPDATE']) AS p (may)
    WHERE c.relnamespace = %(schema)s::regnamespace AND c.relkind = 'r'
        AND has_table_privilege(%(role)s, c.oid, p.may)
    GROUP BY c.relname
"""

TABLES = {
    "archived_event": ("", ""),
    "stored_events": ("INSERT", ""),
    "projection": ("DELETE INSERT UPDATE", ""),
    "projection_row": ("DELETE INSERT UPDATE", ""),
    "store_secret": ("", ""),
    "tracking": ("INSERT UPDATE", ""),
    "job": ("INSERT", ""),
    "job_status": ("INSERT UPDATE", ""),
    "job_label": ("INSERT", ""),
    "job_lease": ("DELETE INSERT UPDATE", ""),
    "worker_group": ("INSERT UPDATE", ""),
    "job_unit": ("INSERT", ""),
    "job_body": ("DELETE INSERT", ""),
    "job_snapshot": ("INSERT UPDATE", ""),
    "resource": ("INSERT UPDATE", ""),
    "submission": ("INSERT", ""),
    "schedule": ("INSERT UPDATE", ""),
    "schedule_snapshot": ("INSERT UPDATE", ""),
    "queue": ("INSERT UPDATE", ""),
    "queue_usage": ("INSERT UPDATE", ""),
    "schema_version": ("", ""),
}
"""What the app and what retention may do beside reading, which all roles may."""


@pytest.fixture
def granted(ledger: Ledger) -> Iterator[Ledger]:
    """A ledger with its roles, which are gone at the end."""
    storage = PostgreSQLStorage(ledger.url)
    for _ in range(2):
        storage.grant_roles()
    storage.close()
    yield ledger
    with server().connect() as connection:
        for role in ("app", "reader", "retention"):
            connection.execute(f"DROP OWNED BY {ledger.schema}_{role}; DROP ROLE {ledger.schema}_{role}".encode())


def listed(ledger: Ledger, role: str) -> dict[str, str]:
    """A role's rights on each table."""
    with server().connect() as connection:
        rows = connection.execute(LISTED, {"schema": ledger.schema, "role": f"{ledger.schema}_{role}"})
        return {table: rights for table, rights in rows}  # noqa: C416  # dict() would lose the rows' types


def with_reading(rights: str) -> str:
    """Rights, and that to read, in order."""
    return " ".join(sorted([*rights.split(), "SELECT"]))


def test_each_role_may_do_what_its_task_needs_and_nothing_else(granted: Ledger) -> None:
    assert listed(granted, "app") == {table: with_reading(app) for table, (app, _) in TABLES.items()}
    assert listed(granted, "retention") == {table: with_reading(rights) for table, (_, rights) in TABLES.items()}
    assert listed(granted, "reader") == dict.fromkeys(TABLES, "SELECT")


def test_nobody_else_may_do_anything(granted: Ledger) -> None:
    """Neither look into the schema nor call a function in it."""
    rights = """
        SELECT has_schema_privilege('public', %(schema)s, 'USAGE'), has_schema_privilege('public', %(schema)s, 'CREATE')
    """
    functions = """
        SELECT count(*) FROM pg_proc WHERE pronamespace = %(schema)s::regnamespace
            AND has_function_privilege('public', oid, 'EXECUTE')
    """
    with server().connect() as connection:
        assert connection.execute(rights, {"schema": granted.schema}).fetchall() == [(False, False)]
        assert connection.execute(functions, {"schema": granted.schema}).fetchall() == [(0,)]


def as_role(ledger: Ledger, role: str) -> str:
    """The URL of the ledger for a login that has one role only."""
    return f"{ledger.url}&options=-c%20role%3D{ledger.schema}_{role}"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_app_role_is_enough_for_every_command(granted: Ledger, command: str) -> None:
    with JobStore.open(as_role(granted, "app")) as store:
        ready = COMMANDS[command](store)

        assert ready.call("c1") == ready.call("c1")
        assert all(verification.ok for verification in store.verify_all())


def test_the_reader_role_reads_everything_and_writes_nothing(granted: Ledger, store: JobStore) -> None:
    lease = running(store, labels={"l": "v"})
    store.record_unit(lease.fence, "u", 1)
    with JobStore.open(as_role(granted, "reader")) as reading:
        assert reading.status(lease.job_id) == store.status(lease.job_id)
        assert reading.feed() == store.feed()
        assert reading.jobs(label=("l", "v")).total == 1
        assert reading.counts() == store.counts()
        assert reading.verify(lease.job_id).ok
        refusal: Any = refuses("store_unavailable", reading.hold, lease.job_id, by="o", reason="r")
        assert "permission denied" in str(refusal)


def test_the_app_role_cannot_rewrite_history(granted: Ledger, store: JobStore) -> None:
    """Not even by hand."""
    running(store)
    with psycopg.connect(server().url(), options=f"-c role={granted.schema}_app", autocommit=True) as connection:
        for statement in ("UPDATE {}.stored_events SET topic = 'x'", "DELETE FROM {}.stored_events", "TRUNCATE {}.job"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.format(granted.schema).encode())


def test_retention_archives_with_one_function_and_no_right_on_a_table(granted: Ledger, store: JobStore) -> None:
    """It may call what takes whole ended histories out, and read; the app may not call it."""
    ended, open_ = running(store, "a"), running(store, "b")
    store.complete(ended.fence, result="r" * 5_000)

    with JobStore.open(as_role(granted, "app")) as app:
        refusal: Any = refuses("store_unavailable", app.archive, older_than=0)
        assert "permission denied" in str(refusal)
    with JobStore.open(as_role(granted, "retention")) as retention:
        assert retention.archive(older_than=0).jobs == 1
        refuses("store_unavailable", retention.hold, open_.job_id, by="o", reason="r")

    assert [store.status(each.job_id).archived for each in (ended, open_)] == [4, 0]
    assert all(verification.ok for verification in store.verify_all())


CALL = """
    SELECT {0}.archive(
        ARRAY[%(job)s], ARRAY[%(sequence)s::bigint], ARRAY[%(topic)s], ARRAY['x'::bytea], ARRAY['never'],
        ARRAY[0::bigint], ARRAY['head'], ARRAY[0::bigint], ARRAY['{{}}'::bytea], ARRAY[1, 1]::bigint[],
        %(positions)s::bigint[], ARRAY['x', 'x']::bytea[], ARRAY[]::bigint[], ARRAY[]::text[]
    )
"""


def test_the_function_takes_nothing_but_whole_histories_that_ended(granted: Ledger, store: JobStore) -> None:
    """Called by hand, too: an open job, another sequence or topic is left alone, and a part of a history is refused."""
    open_, ended = running(store, "a"), running(store, "b")
    store.complete(ended.fence)
    statement = CALL.format(granted.schema).encode()
    with psycopg.connect(server().url(), options=f"-c role={granted.schema}_retention", autocommit=True) as connection:
        for job, sequence, topic in (
            (open_.job_id, 3, "job.archived"),
            (ended.job_id, 3, "job.archived"),
            (ended.job_id, 4, "job.completed"),
            ("nobody", 2, "job.archived"),
        ):
            given = {"job": job, "sequence": sequence, "topic": topic, "positions": [1, 2]}
            assert connection.execute(statement, given).fetchall() == [([False],)]
        part = {"job": ended.job_id, "sequence": 4, "topic": "job.archived", "positions": [3, 4]}
        with pytest.raises(psycopg.errors.DataCorrupted):
            connection.execute(statement, part)

    assert all(verification.ok for verification in store.verify_all())
