"""The schema comes in numbered steps, each applied once by whoever is first; another one is refused by name."""

from __future__ import annotations

import re
import shlex
import sqlite3
from pathlib import Path

import pytest

from jobledger.adapters.storage import migrating
from jobledger.adapters.storage import sqlite as sqlite_module
from jobledger.adapters.storage.clocks import ManualClock
from jobledger.adapters.storage.memory import MemoryStorage
from jobledger.adapters.storage.migrating import Migration, migrations
from jobledger.adapters.storage.sqlite import SCHEMA_VERSION, SQLiteStorage
from jobledger.adapters.storage.sqlite_datastore import SQLiteLedgerDatastore
from jobledger.adapters.storage.sqlite_leash import OUR_TABLES
from jobledger.adapters.storage.sqlite_recorders import SQLiteLedgerRecorder
from jobledger.domain.errors import (
    HistoryCorruptError,
    InvalidRequestError,
    SchemaMismatchError,
    StoreUnavailableError,
)
from tests.storage.given import NOON, PATIENCE, created, tampered, written
from tests.storage.processes import run_together

MIGRATE = """
    from jobledger.adapters.storage.clocks import SystemClock
    from jobledger.adapters.storage.sqlite import SQLiteStorage
    storage = SQLiteStorage(sys.argv[1], clock=SystemClock())
    wait_for_the_others()
    print(storage.migrate(), storage.schema_version())
"""


@pytest.fixture
def unmade(tmp_path: Path, clock: ManualClock) -> SQLiteStorage:
    """A store whose file does not exist yet."""
    return SQLiteStorage(tmp_path / "some jobs?.db", clock=clock)


def set_version(storage: SQLiteStorage, number: int) -> None:
    """Pretend that another jobledger made the file."""
    with sqlite3.connect(storage.path) as connection:
        connection.execute("DELETE FROM schema_version WHERE number > ?", (number,))
        connection.execute("UPDATE schema_version SET number = ? WHERE number = ?", (number, SCHEMA_VERSION))
    connection.close()


def test_the_schema_is_made_once_and_put_on_record(unmade: SQLiteStorage) -> None:
    assert (unmade.migrate(), unmade.migrate()) == (SCHEMA_VERSION, 0)

    unmade.require_schema()
    with unmade.datastore.transaction(commit=False) as cursor:
        cursor.execute("SELECT number, name, digest, applied_at_us FROM schema_version")
        recorded = [tuple(row) for row in cursor.fetchall()]
    at = int(NOON.timestamp()) * 1_000_000
    assert recorded == [(step.number, step.name, step.digest, at) for step in migrations("sqlite")]


def test_steps_are_numbered_without_a_gap() -> None:
    steps = migrations("sqlite")

    assert [step.number for step in steps] == list(range(1, SCHEMA_VERSION + 1))
    assert all(re.fullmatch(r"[0-9]{4}_[a-z_]+", step.name) for step in steps)


def test_sixteen_processes_may_start_at_once_on_an_empty_file(tmp_path: Path) -> None:
    """Each step is made by one of them, the others find it; none is told of a lock."""
    answers = run_together(MIGRATE, [[tmp_path / "jobs.db"]] * 16)

    made = [tuple(map(int, answer.split())) for answer in answers]
    assert sum(applied for applied, _ in made) == SCHEMA_VERSION
    assert {found for _, found in made} == {SCHEMA_VERSION}


def test_a_file_without_a_schema_is_refused_with_the_command_that_makes_it(unmade: SQLiteStorage) -> None:
    """The command is one that a shell takes as it is; asking makes no file."""
    with pytest.raises(SchemaMismatchError) as refused:
        unmade.require_schema()
    with pytest.raises(SchemaMismatchError), unmade.reading():
        pass
    with pytest.raises(SchemaMismatchError), unmade.writing(PATIENCE):
        pass

    assert (refused.value.found, refused.value.wanted) == (0, SCHEMA_VERSION)
    assert shlex.split(refused.value.command) == ["jobledger", "migrate", "--store", f"sqlite:///{unmade.path}"]
    assert not unmade.path.exists()


def test_a_newer_schema_is_refused_untouched(sqlite: SQLiteStorage, clock: ManualClock) -> None:
    set_version(sqlite, SCHEMA_VERSION + 1)
    older = SQLiteStorage(sqlite.path, clock=clock)

    for attempt in (older.require_schema, older.migrate, older.reading().__enter__):
        with pytest.raises(SchemaMismatchError, match="upgrade jobledger"):
            attempt()


def test_an_older_schema_is_refused_until_it_is_migrated(
    sqlite: SQLiteStorage, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer jobledger names the command; what stands in the file is kept."""
    written(sqlite, created())
    steps = (*migrations("sqlite"), Migration(SCHEMA_VERSION + 1, "0002_more", "CREATE TABLE more (x);\n"))
    monkeypatch.setattr(migrating, "migrations", lambda _: steps)
    monkeypatch.setattr(sqlite_module, "SCHEMA_VERSION", SCHEMA_VERSION + 1)
    newer = SQLiteStorage(sqlite.path, clock=clock)

    with pytest.raises(SchemaMismatchError, match="run: jobledger migrate --store"):
        newer.require_schema()
    assert newer.migrate() == 1

    with newer.reading() as reader:
        assert reader.job_ids("n", after="", limit=9) == ["j"]


def test_a_step_that_fails_leaves_nothing_of_itself(sqlite: SQLiteStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a schema would be neither the old one nor the new one."""
    broken = Migration(SCHEMA_VERSION + 1, "0002_broken", "CREATE TABLE half (x);\nCREATE TABLE half (x);\n")
    monkeypatch.setattr(migrating, "migrations", lambda _: (*migrations("sqlite"), broken))

    with pytest.raises(StoreUnavailableError, match="already exists"):
        sqlite.migrate()

    assert sqlite.schema_version() == SCHEMA_VERSION
    with sqlite.datastore.transaction(commit=False) as cursor:
        cursor.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'half'")
        assert cursor.fetchone()[0] == 0


def test_a_step_that_was_changed_after_it_was_applied_is_noticed(sqlite: SQLiteStorage, clock: ManualClock) -> None:
    """The file then has another schema under the same number."""
    tampered(sqlite.path, "UPDATE schema_version SET digest = 'other'")
    store = SQLiteStorage(sqlite.path, clock=clock)

    for attempt in (store.require_schema, store.migrate, store.reading().__enter__):
        with pytest.raises(HistoryCorruptError, match="schema step"):
            attempt()


OTHERS: dict[str, str] = {
    "a table": "CREATE TABLE theirs (x)",
    "a table of versions": "CREATE TABLE schema_version (version INTEGER)",
    "a view": "CREATE VIEW theirs AS SELECT 1",
}


@pytest.mark.parametrize("other", OTHERS)
def test_the_database_of_another_program_is_left_as_it_is(unmade: SQLiteStorage, other: str) -> None:
    """Nobody brings it into another mode or adds a table, not even who migrates."""
    tampered(unmade.path, OTHERS[other])
    before = unmade.path.read_bytes()
    recorder = SQLiteLedgerRecorder(SQLiteLedgerDatastore(str(unmade.path)))

    for attempt in (unmade.require_schema, unmade.migrate, unmade.reading().__enter__, recorder.create_table):
        with pytest.raises(InvalidRequestError, match="another program"):
            attempt()

    assert unmade.path.read_bytes() == before
    assert [file.name for file in unmade.path.parent.iterdir()] == [unmade.path.name]


def test_an_empty_file_becomes_a_store(unmade: SQLiteStorage) -> None:
    """The control of the test above: it is nobody's."""
    unmade.path.touch()

    assert unmade.migrate() == SCHEMA_VERSION


def test_a_callers_tables_are_known_from_ours(sqlite: SQLiteStorage) -> None:
    """The leash of a caller's statements names every table of the schema, and no other."""
    with sqlite.datastore.transaction(commit=False) as cursor:
        cursor.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        tables = {row["name"] for row in cursor.fetchall()}

    assert tables == OUR_TABLES


def test_the_library_makes_the_same_schema(unmade: SQLiteStorage) -> None:
    """Whichever comes first, a recorder of the library or a store of ours."""
    recorder = SQLiteLedgerRecorder(SQLiteLedgerDatastore(str(unmade.path)))
    recorder.create_table()

    unmade.require_schema()
    assert written(unmade, created()) == [None]
    recorder.datastore.close()


def test_a_database_in_memory_is_no_file(clock: ManualClock) -> None:
    """Each connection would have one for itself; the message names the store that keeps jobs in memory."""
    with pytest.raises(InvalidRequestError, match=MemoryStorage.__name__):
        SQLiteLedgerDatastore(":memory:")
    with pytest.raises(InvalidRequestError, match=MemoryStorage.__name__):
        SQLiteStorage("file:jobs?mode=memory&cache=shared", clock=clock)
