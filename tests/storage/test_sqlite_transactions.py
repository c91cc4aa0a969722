"""How SQLite is used: locks taken first, every commit synced, readers beside writers, callers' statements, forks."""

from __future__ import annotations

import sqlite3
import textwrap
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from eventsourcing.persistence import OperationalError, StoredEvent, Tracking

from jobledger.adapters.storage import sqlite_pool
from jobledger.adapters.storage.sqlite import SQLiteStorage
from jobledger.adapters.storage.sqlite_connecting import SQLiteLedgerConnection, connect
from jobledger.adapters.storage.sqlite_recorders import SQLiteLedgerProcessRecorder
from jobledger.domain.errors import InvalidRequestError
from tests.storage.given import (
    LEASE,
    NOON,
    PATIENCE,
    advance_epoch,
    candidates,
    claim,
    created,
    loaded,
    progressed,
    renewed,
    tampered,
    written,
)
from tests.storage.processes import run


@pytest.fixture
def traced(sqlite: SQLiteStorage, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The statements that a store executes from now on, on whichever connection."""
    statements: list[str] = []

    def traced_connect(name: str) -> SQLiteLedgerConnection:
        connection = connect(name)
        connection.raw.set_trace_callback(statements.append)
        return connection

    written(sqlite, created("j"), created("k"))  # the schema is known, and nothing of it is traced below
    sqlite.datastore.connections.before_fork()
    sqlite.datastore.connections.after_fork_in_parent()
    monkeypatch.setattr(sqlite_pool, "connect", traced_connect)
    yield statements
    monkeypatch.undo()


def rewrite(storage: SQLiteStorage) -> None:
    """Rebuild a row."""
    row = loaded(storage)
    with storage.writing(PATIENCE) as session:
        session.rewrite(row.job, created().claimable, row.head, [row.job])


def insert(storage: SQLiteStorage) -> None:
    """Write as the library does."""
    storage.recorder.insert_events([StoredEvent("stream", 1, "topic", b"state")])


def track(storage: SQLiteStorage) -> None:
    """Write a projection's place, with an event and without."""
    recorder = SQLiteLedgerProcessRecorder(storage.datastore)
    recorder.insert_tracking(Tracking("p", 1))
    recorder.insert_events([StoredEvent("stream", 2, "topic", b"state")], tracking=Tracking("p", 2))


WRITES: dict[str, Callable[[SQLiteStorage], object]] = {
    "an append": lambda storage: written(storage, created("new")),
    "an append that is refused": lambda storage: written(storage, created("j")),
    "a claim": claim,
    "a renewal": lambda storage: written(storage, renewed(claim(storage, "k"), NOON + LEASE)),
    "a look for candidates": candidates,
    "a group's event": advance_epoch,
    "a rebuilt row": rewrite,
    "the library's append": insert,
    "a projection's place": track,
    "a migration": SQLiteStorage.migrate,
}

CHANGES = ("INSERT", "UPDATE", "DELETE", "CREATE", "REPLACE")


@pytest.mark.parametrize("path", WRITES)
def test_every_write_begins_with_the_lock_in_hand(sqlite: SQLiteStorage, traced: list[str], path: str) -> None:
    """A transaction that reads first and locks later can be refused at any moment, however patient it is."""
    WRITES[path](sqlite)

    begin = ""
    for statement in (" ".join(each.split()) for each in traced):
        if statement.startswith("BEGIN"):
            begin = statement
        if statement.startswith(CHANGES):
            assert begin == "BEGIN IMMEDIATE", statement
    assert "BEGIN IMMEDIATE" in traced


def test_reading_takes_no_lock(sqlite: SQLiteStorage, traced: list[str]) -> None:
    loaded(sqlite)

    assert "BEGIN" in traced
    assert "BEGIN IMMEDIATE" not in traced


def test_every_commit_is_synced_to_a_write_ahead_log(sqlite: SQLiteStorage) -> None:
    """On each connection, whether it reads or writes; an older file is brought over."""
    for is_writer in (True, False):
        connection = sqlite.datastore.connections.get_connection(is_writer=is_writer)
        assert connection.raw.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert connection.raw.execute("PRAGMA synchronous").fetchone()[0] == 2
        sqlite.datastore.connections.put_connection(connection)


@pytest.mark.parametrize(
    ("ignored", "says"), [("PRAGMA synchronous = ", "synchronous is 1"), ("PRAGMA journal_mode = ", "mode is 'delete'")]
)
def test_a_connection_that_does_not_sync_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ignored: str, says: str
) -> None:
    """A build or a file system that ignores the request is noticed, because the answer is read back."""

    class Ignorant(sqlite3.Connection):
        def execute(self, sql: str, values: Any = ()) -> sqlite3.Cursor:
            return super().execute("SELECT 'delete'" if sql.startswith(ignored) else sql, values)

    original = sqlite3.connect

    def ignorant(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = original(*arguments, **options, factory=Ignorant)
        connection.execute("PRAGMA synchronous=NORMAL")
        return connection

    monkeypatch.setattr(sqlite3, "connect", ignorant)

    with pytest.raises(sqlite3.NotSupportedError, match=says):
        connect(str(tmp_path / "jobs.db"))


def test_readers_do_not_wait_for_writers_or_for_each_other(sqlite: SQLiteStorage) -> None:
    """Any number of views beside an open session, in one thread, where waiting would be for ever."""
    written(sqlite, created())

    with sqlite.writing(PATIENCE) as session:
        session.append([created("draft")])
        for _ in range(40):
            assert loaded(sqlite).position == 1
        with sqlite.reading() as first, sqlite.reading() as second:
            assert first.load(["j"]) == second.load(["j"])
            assert sqlite.recorder.max_notification_id() == 1


def test_a_position_is_never_given_twice(sqlite: SQLiteStorage) -> None:
    """Also after the newest rows of the log were deleted, as an archive does."""
    written(sqlite, created("a"), created("b"))
    tampered(sqlite.path, "DELETE FROM stored_events WHERE originator_id = 'b'")

    written(sqlite, created("c"))

    assert loaded(sqlite, "c").position == 3


def test_a_report_touches_no_index(sqlite: SQLiteStorage, traced: list[str]) -> None:
    """Progress sets no column that an index hangs on; a claim does."""
    claim(sqlite)
    traced.clear()

    written(sqlite, progressed(loaded(sqlite)))

    [update] = [" ".join(statement.split()) for statement in traced if "UPDATE job_status" in statement]
    assert "claimable" not in update.split(" job = ")[0]


# The caller's own statements ------------------------------------------------------------------------------------------


@pytest.fixture
def mine(sqlite: SQLiteStorage) -> SQLiteStorage:
    """A store with a table of the caller's own."""
    with sqlite.writing(PATIENCE) as session:
        session.connection.execute("CREATE TABLE mine (word TEXT)")
    return sqlite


def words(storage: SQLiteStorage) -> list[str]:
    """What stands in the caller's own table."""
    with sqlite3.connect(storage.path) as connection:
        found = [word for (word,) in connection.execute("SELECT word FROM mine")]
    connection.close()
    return found


def test_a_callers_statements_commit_with_the_session(mine: SQLiteStorage) -> None:
    with mine.writing(PATIENCE) as session:
        session.connection.execute("INSERT INTO mine VALUES ('with')")
        session.append([created()])
        session.connection.execute("SAVEPOINT own")
        session.connection.execute("INSERT INTO mine VALUES ('undone')")
        session.connection.execute("ROLLBACK TO own")

    assert words(mine) == ["with"]
    assert loaded(mine).position == 1


def test_a_callers_error_reaches_the_caller(mine: SQLiteStorage) -> None:
    def errs() -> None:
        with mine.writing(PATIENCE) as session:
            session.connection.execute("INSERT INTO mine VALUES ('never')")
            session.connection.execute("INSERT INTO nowhere VALUES (1)")

    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        errs()

    assert words(mine) == []


ENDINGS: dict[str, Callable[[sqlite3.Connection], object]] = {
    "COMMIT": lambda connection: connection.execute("COMMIT"),
    "ROLLBACK": lambda connection: connection.execute("ROLLBACK"),
    "the driver's commit": sqlite3.Connection.commit,
    "the driver's rollback": sqlite3.Connection.rollback,
    "a script, which commits first": lambda connection: connection.executescript("SELECT 1"),
    "a block that commits at its end": lambda connection: connection.__exit__(None, None, None),
}


@pytest.mark.parametrize("is_swallowed", [False, True])
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_callers_statements_may_not_end_the_transaction(mine: SQLiteStorage, ending: str, is_swallowed: bool) -> None:
    """Neither half of the work is committed, also where the caller hides the error."""

    def ends() -> None:
        with mine.writing(PATIENCE) as session:
            session.append([created("never")])
            session.connection.execute("INSERT INTO mine VALUES ('never')")
            try:
                ENDINGS[ending](session.connection)
            except sqlite3.DatabaseError:
                if not is_swallowed:
                    raise

    with pytest.raises(InvalidRequestError, match="commit"):
        ends()

    assert words(mine) == []
    assert written(mine, created("never")) == [None]


# Forks ----------------------------------------------------------------------------------------------------------------

FORK = """
    import os
    from datetime import timedelta
    from jobledger.adapters.storage.clocks import SystemClock
    from jobledger.adapters.storage.sqlite import SQLiteStorage
    from jobledger.domain.errors import StoreUnavailableError

    def locks():
        return [line for line in open("/proc/locks") if f" {os.getpid()} " in line]

    def in_child(work):
        child = os.fork()
        if child == 0:
            try:
                work()
            except BaseException as error:
                print(repr(error), flush=True)
                os._exit(1)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    storage = SQLiteStorage(sys.argv[1], clock=SystemClock())
    storage.migrate()
"""


def forked(script: str, path: Path) -> str:
    """What a process prints that forks."""
    return run(textwrap.dedent(FORK) + textwrap.dedent(script), path)


def test_a_child_opens_the_store_anew(tmp_path: Path) -> None:
    """It reads under locks of its own: with its parent's connection in its memory, it would hold none at all."""
    out = forked(
        """
        with storage.reading() as reader:
            reader.job_ids("n", after="", limit=1)
        storage.wait(timedelta(0))

        def work():
            with storage.reading() as reader:
                reader.job_ids("n", after="", limit=1)
                print("locks:", len(locks()) > 0)
            with storage.writing(timedelta(seconds=5)) as session:
                session.connection.execute("CREATE TABLE child (x)")

        assert in_child(work) == 0
        with storage.writing(timedelta(seconds=5)) as session:
            session.connection.execute("INSERT INTO child VALUES (1)")
        print("parent goes on")
        """,
        tmp_path / "jobs.db",
    )

    if Path("/proc/locks").exists():
        assert "locks: True" in out
    assert "parent goes on" in out


def test_a_connection_that_is_carried_across_a_fork_holds_no_locks(tmp_path: Path) -> None:
    """The control of the test above: this is the harm that closing before a fork prevents."""
    if not Path("/proc/locks").exists():
        pytest.skip("this system does not list its locks")
    out = forked(
        """
        import sqlite3
        storage.close()
        parent = sqlite3.connect(sys.argv[1], isolation_level=None)
        parent.execute("BEGIN")
        parent.execute("SELECT * FROM job_status").fetchall()

        def work():
            child = sqlite3.connect(sys.argv[1], isolation_level=None)
            child.execute("BEGIN")
            child.execute("SELECT * FROM job_status").fetchall()
            print("locks:", len(locks()) > 0)

        assert in_child(work) == 0
        """,
        tmp_path / "jobs.db",
    )

    assert "locks: False" in out


def test_a_child_of_an_open_transaction_is_refused_the_store(tmp_path: Path) -> None:
    """It cannot tell its parent's locks from its own; the parent's transaction is not touched."""
    out = forked(
        """
        def work():
            for attempt in (storage.reading, lambda: storage.writing(timedelta(seconds=5))):
                try:
                    with attempt():
                        print("opened")
                except StoreUnavailableError as refusal:
                    print(refusal)
            storage.wait(timedelta(0))

        with storage.writing(timedelta(seconds=5)) as session:
            session.connection.execute("CREATE TABLE parent (x)")
            assert in_child(work) == 0
        with storage.reading() as reader:
            print("parent goes on", reader.job_ids("n", after="", limit=1))
        """,
        tmp_path / "jobs.db",
    )

    assert out.count("forked in the middle of a transaction") == 2
    assert "opened" not in out
    assert "parent goes on" in out


def test_a_transaction_is_ended_by_the_process_that_began_it(tmp_path: Path) -> None:
    """A child that runs on to the end of the block commits nothing and rolls nothing back."""
    out = forked(
        """
        def unwinds():
            with storage.writing(timedelta(seconds=5)) as session:
                session.connection.execute("CREATE TABLE both (x)")
                return os.fork(), session

        def unwinds_in_library():
            with storage.datastore.transaction(commit=True) as cursor:
                cursor.execute("INSERT INTO both VALUES (1)")
                return os.fork()

        for block in (unwinds, unwinds_in_library):
            try:
                child = block()
            except Exception as error:
                print(type(error).__name__, error, flush=True)
                os._exit(0)
            child = child[0] if isinstance(child, tuple) else child
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with storage.datastore.transaction(commit=False) as cursor:
            cursor.execute("SELECT count(*) FROM both")
            print("rows:", cursor.fetchone()[0])
        """,
        tmp_path / "jobs.db",
    )

    assert "StoreUnavailableError" in out
    assert "OperationalError" in out
    assert "rows: 1" in out


def test_a_fork_waits_for_the_transactions_of_other_threads(tmp_path: Path) -> None:
    out = forked(
        """
        import threading
        is_open, may_end = threading.Event(), threading.Event()

        def other():
            with storage.writing(timedelta(seconds=5)) as session:
                session.connection.execute("CREATE TABLE other (x)")
                is_open.set()
                may_end.wait()

        def work():
            with storage.reading() as reader:
                print("child reads", reader.job_ids("n", after="", limit=1))

        thread = threading.Thread(target=other)
        thread.start()
        is_open.wait()
        threading.Timer(0.2, may_end.set).start()
        assert in_child(work) == 0
        thread.join()
        """,
        tmp_path / "jobs.db",
    )

    assert "child reads []" in out


FORK_TOGETHER = """
    import faulthandler, multiprocessing, threading
    from tests.storage.given import created, written

    faulthandler.dump_traceback_later(int(os.environ.get("PATIENCE", 60)), exit=True)
    failures = []

    def repeatedly(work):
        def run():
            for number in range(25):
                try:
                    work(number)
                except BaseException as error:
                    failures.append(repr(error))
        return threading.Thread(target=run)

    def create(number):
        assert written(storage, created(f"{threading.get_ident()}-{number}")) == [None]

    def start(number):
        process = multiprocessing.get_context("fork").Process(target=int)
        process.start()
        process.join()

    def fork(number):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)

    threads = [repeatedly(work) for work in (create, start, fork) * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with storage.reading() as reader:
        print("jobs:", len(reader.job_ids("n", after="", limit=1000)), failures)
"""


def test_threads_that_fork_at_once_do_not_stop_the_store(tmp_path: Path) -> None:
    """One fork after the other, while others write; every job is there and nobody waits for ever."""
    out = forked(FORK_TOGETHER, tmp_path / "jobs.db")

    assert out == "jobs: 75 []\n"


# The same on a twin in which one fork overtakes another that still waits for an open transaction.
OVERTAKING = """
    from types import SimpleNamespace
    from jobledger.adapters.storage import sqlite_pool

    os.environ["PATIENCE"] = "5"
    sqlite_pool._forks._turn = SimpleNamespace(acquire=int, release=int)
"""


def test_forks_that_overtake_each_other_stop_the_store(tmp_path: Path) -> None:
    """The control of the test above."""
    with pytest.raises(AssertionError, match="Timeout"):
        forked(textwrap.dedent(OVERTAKING) + textwrap.dedent(FORK_TOGETHER), tmp_path / "jobs.db")


@contextmanager
def _writing_elsewhere(storage: SQLiteStorage) -> Generator[None]:
    other = sqlite3.connect(storage.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


def test_the_librarys_recorder_is_told_when_its_turn_does_not_come(sqlite: SQLiteStorage) -> None:
    """In the library's own words."""
    written(sqlite, created())
    sqlite.datastore.connections.write_patience = 0.02

    with _writing_elsewhere(sqlite), pytest.raises(OperationalError, match="locked"):
        insert(sqlite)

    insert(sqlite)
