"""Making a schema: once, whoever else is making it, never in somebody else's, and known again by every worker."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from jobledger import JobStore, ManualClock
from jobledger.adapters.storage import migrating, postgresql_migrating
from jobledger.adapters.storage.migrating import migrations
from jobledger.adapters.storage.postgresql import SCHEMA_VERSION, PostgreSQLStorage
from jobledger.adapters.storage.postgresql_connecting import place_of
from jobledger.domain.errors import HistoryCorruptError, InvalidRequestError, SchemaMismatchError, StoreUnavailableError
from tests.contracts.jobs import refuses
from tests.postgresql.conftest import Ledger
from tests.postgresql.server import server
from tests.postgresql.stores import dropped, fresh_url

OPEN = """
    import sys
    from jobledger import JobRequest, JobStore

    print("ready", flush=True)
    sys.stdin.readline()
    with JobStore.open(sys.argv[1], migrate=True) as store:
        store.create(JobRequest(owner="team", key=sys.argv[2], kind="index"))
"""


@pytest.fixture
def url() -> Iterator[str]:
    """A schema that nobody has made yet."""
    made = fresh_url()
    yield made
    dropped(made)


def _started(url: str, key: str) -> subprocess.Popen[str]:
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(OPEN), url, key], text=True, **pipes)


@pytest.mark.parametrize("steps", [0, 1])
def test_sixteen_processes_that_start_at_once_make_one_schema(
    url: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On none, and on an old one: no error, and each does its work."""
    if steps:
        with monkeypatch.context() as older:
            older.setattr(postgresql_migrating, "migrations", lambda dialect: migrations(dialect)[:steps])
            PostgreSQLStorage(url).migrate()
    processes = [_started(url, f"k{number}") for number in range(16)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()

    for process in processes:
        _, complaint = process.communicate(timeout=100)
        assert process.returncode == 0, complaint
    with JobStore.open(url) as store:
        assert store.jobs().total == 16


def test_a_worker_on_an_older_schema_is_told_the_command(url: str) -> None:
    """It changes nothing; the command has no password in it."""
    with_password = url.replace("postgres@", "postgres:secret@")
    with pytest.raises(SchemaMismatchError, match="jobledger migrate") as mismatch:
        JobStore.open(with_password)

    assert "secret" not in str(mismatch.value)
    assert PostgreSQLStorage(url).schema_version() == 0


def test_a_worker_on_a_newer_schema_is_refused(ledger: Ledger) -> None:
    with ledger.connect(autocommit=True) as connection:
        connection.execute("INSERT INTO schema_version VALUES (%s, 'later', 'digest')", (SCHEMA_VERSION + 1,))

    for migrate in (False, True):
        with pytest.raises(SchemaMismatchError):
            JobStore.open(ledger.url, migrate=migrate)


def test_a_schema_of_somebody_else_is_not_touched(url: str) -> None:
    """Not even where it happens to have a table of that name."""
    schema = place_of(url).schema
    with server().connect() as connection:
        connection.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.theirs (x int)".encode())
        for table in ("", f"CREATE TABLE {schema}.schema_version (version int)"):
            connection.execute(table.encode())
            for migrate in (False, True):
                with pytest.raises(InvalidRequestError, match="another program"):
                    JobStore.open(url, migrate=migrate)


def test_an_empty_schema_that_was_made_for_us_is_taken(url: str) -> None:
    """So that the role which migrates needs no right to make schemas."""
    schema = place_of(url).schema
    with server().connect() as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())

    JobStore.open(url, migrate=True).close()


def test_a_step_that_was_changed_is_not_passed_over(ledger: Ledger) -> None:
    """Nobody can tell what it did."""
    with ledger.connect(autocommit=True) as connection:
        connection.execute("UPDATE schema_version SET digest = 'other' WHERE number = 2")

    for migrate in (False, True):
        with pytest.raises(HistoryCorruptError, match="0002"):
            JobStore.open(ledger.url, migrate=migrate)


def test_a_step_that_fails_leaves_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of itself, nor of those before it in the same call."""
    first, *_ = migrations("postgresql")
    broken = replace(first, number=2, text="CREATE TABLE jobledger.half (x int); SELECT 1/0")
    monkeypatch.setattr(postgresql_migrating, "migrations", lambda _: (first, broken))

    with pytest.raises(StoreUnavailableError, match="division by zero"):
        PostgreSQLStorage(url).migrate()

    assert PostgreSQLStorage(url).schema_version() == 0


def test_every_table_of_the_migrations_is_in_the_schema(ledger: Ledger) -> None:
    """None went anywhere else, by a name that was not replaced."""
    assert "jobledger." in "".join(migration.text for migration in migrating.migrations("postgresql"))
    with server().connect() as connection:
        others = connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'jobledger'").fetchall()
        found = connection.execute("SELECT prosrc FROM pg_proc WHERE pronamespace = %s::regnamespace", (ledger.schema,))
        bodies = [body for (body,) in found]
    assert others == [(0,)]
    assert bodies
    assert not [body for body in bodies if "jobledger." in body]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://h/db?schema=Upper",
        "postgresql://h/db?schema=pg_mine",
        'postgresql://h/db?schema=a";DROP',
        "postgresql://h/db?connections_max=0",
        "postgresql://h/db?no_such_parameter=1",
        "postgresql://[::1/db",
        "postgresql://h/\0",
    ],
)
def test_a_url_that_means_nothing_is_refused(url: str) -> None:
    """Before anything is opened."""
    refuses("invalid_request", JobStore.open, url)


@pytest.mark.parametrize(
    ("url", "known"),
    [
        ("postgresql://u:p@h:5433/db?schema=a_1&sslmode=require", ("u", "h", "5433", "db", "a_1")),
        ("postgres://h/db", (None, "h", None, "db", "jobledger")),
        ("postgresql:///db?host=/tmp&connections_max=3", (None, "/tmp", None, "db", "jobledger")),  # noqa: S108  # never opened
        ("postgresql://", (None, None, None, None, "jobledger")),
    ],
)
def test_every_form_of_url_is_read(url: str, known: tuple[str | None, ...]) -> None:
    place = place_of(url)
    found = conninfo_to_dict(place.conninfo)

    assert (found.get("user"), found.get("host"), found.get("port"), found.get("dbname"), place.schema) == known


def test_a_server_that_is_not_there_is_unavailable_at_once() -> None:
    """Its name is told, and no password."""
    with pytest.raises(StoreUnavailableError, match="nowhere") as unavailable:
        JobStore.open("postgresql://u:secret@127.0.0.1:1/nowhere")

    assert "secret" not in str(unavailable.value)


def test_a_clock_is_the_servers(ledger: Ledger) -> None:
    """Every machine sees the same time; nobody may bring another one."""
    refuses("invalid_request", JobStore.open, ledger.url, clock=ManualClock())
