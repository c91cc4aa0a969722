"""What a caller may do with the connection that is lent to it; whatever it does, the next writer's turn comes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import timedelta

import pytest
from eventsourcing.persistence import StoredEvent

from jobledger.adapters.storage.sqlite import SQLiteStorage
from jobledger.domain.errors import InvalidRequestError
from tests.storage.given import PATIENCE, claim, created, loaded, tampered, written


@pytest.fixture
def mine(sqlite: SQLiteStorage) -> SQLiteStorage:
    """A store with a table of the caller's own."""
    tampered(sqlite.path, "CREATE TABLE mine (word TEXT)")
    return sqlite


def test_a_lent_connection_that_was_closed_keeps_nobody_from_writing(sqlite: SQLiteStorage) -> None:
    """The command is refused by name, and nothing of it is there."""

    def closes() -> None:
        with sqlite.writing(PATIENCE) as session:
            session.append([created("never")])
            session.connection.close()

    with pytest.raises(InvalidRequestError, match="closed"):
        closes()

    assert written(sqlite, created("never")) == [None]


def test_statements_of_ours_on_a_connection_that_was_closed_are_refused(sqlite: SQLiteStorage) -> None:
    """The caller is told of its own deed, not of what failed after it."""

    def closes() -> None:
        with sqlite.writing(PATIENCE) as session:
            session.connection.close()
            session.append([created("never")])

    with pytest.raises(InvalidRequestError, match="closed"):
        closes()

    assert written(sqlite, created("never")) == [None]


def test_a_callers_settings_are_its_own(mine: SQLiteStorage) -> None:
    """Neither the rest of the session nor later ones read through them; the caller goes on with them."""
    with mine.writing(PATIENCE) as session:
        connection = session.connection
        connection.row_factory, connection.text_factory = None, bytes
        assert session.append([created("with")]) == [None]
        assert connection.execute("SELECT 'x'").fetchone() == (b"x",)

    assert claim(mine, "with").job.generation == 1
    assert written(mine, created("later")) == [None]


def test_a_connection_that_was_kept_is_closed(mine: SQLiteStorage) -> None:
    """What its holder does later is not done on a connection that others write with."""
    with mine.writing(PATIENCE) as session:
        kept = session.connection

    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        kept.execute("BEGIN IMMEDIATE")

    assert written(mine, created()) == [None]


DEEDS: dict[str, str] = {
    "insert": "INSERT INTO job_label VALUES ('n', 'l', 'v', 1)",
    "replace": "REPLACE INTO job_label VALUES ('n', 'l', 'v', 1)",
    "update": "UPDATE job_status SET priority = 9",
    "delete": "DELETE FROM stored_events",
    "drop": "DROP TABLE job_unit",
    "drop an index": "DROP INDEX job_status_walk",
    "rename": "ALTER TABLE job_lease RENAME TO lease",
    "put a trigger on it": "CREATE TRIGGER t AFTER INSERT ON job_status BEGIN SELECT 1; END",
    "put a passing trigger on it": "CREATE TEMP TRIGGER t AFTER INSERT ON job_status BEGIN SELECT 1; END",
    "stand before it": "CREATE TEMP TABLE job_status (x)",
    "the text of a statement of ours": "DELETE FROM job_lease WHERE namespace = :namespace AND job_id = :job_id",
}


@pytest.mark.parametrize("is_swallowed", [False, True])
@pytest.mark.parametrize("deed", DEEDS)
def test_a_callers_statements_may_not_change_our_tables(mine: SQLiteStorage, deed: str, is_swallowed: bool) -> None:
    """Nothing is committed, also where the caller hides the error."""
    written(mine, created("before"))

    def changes() -> None:
        with mine.writing(PATIENCE) as session:
            session.append([created("never")])
            try:
                session.connection.execute(DEEDS[deed], {"namespace": "n", "job_id": "before"})
            except sqlite3.DatabaseError:
                if not is_swallowed:
                    raise

    with pytest.raises(InvalidRequestError, match="a table of jobledger's"):
        changes()

    with mine.reading() as reader:
        assert reader.job_ids("n", after="", limit=9) == ["before"]


def test_a_caller_may_read_our_tables_and_change_its_own(mine: SQLiteStorage) -> None:
    """The control of the test above, also for tables that only have the name of one of ours."""
    with mine.writing(PATIENCE) as session:
        execute = session.connection.execute
        session.append([created("with")])
        execute("INSERT INTO mine SELECT job_id FROM job_status")
        execute("PRAGMA table_info(job_status)").fetchall()
        execute("ATTACH ':memory:' AS other")
        execute("CREATE TABLE other.resource (x)")
        execute("INSERT INTO other.resource VALUES (1)")
        session.append([created("more")])
        execute("ALTER TABLE mine RENAME TO ours")
        assert [row["word"] for row in execute("SELECT word FROM ours")] == ["with"]

    assert loaded(mine, "more").job.id == "more"


WRITES: dict[str, Callable[[SQLiteStorage], object]] = {
    "a session": lambda store: written(store, created()),
    "a session of another store object": lambda store: written(SQLiteStorage(store.path, clock=store.clock), created()),
    "the library's append": lambda store: store.recorder.insert_events([StoredEvent("s", 1, "t", b"")]),
    "a migration": SQLiteStorage.migrate,
}


@pytest.mark.parametrize("write", WRITES)
def test_writing_inside_a_session_is_refused_at_once(sqlite: SQLiteStorage, write: str) -> None:
    """It would wait for its own thread; the session itself goes on."""
    with sqlite.writing(timedelta(days=1)) as session:
        with pytest.raises(InvalidRequestError, match="same store"):
            WRITES[write](sqlite)
        assert session.append([created("with")]) == [None]

    assert loaded(sqlite, "with").position == 1
    WRITES[write](sqlite)
