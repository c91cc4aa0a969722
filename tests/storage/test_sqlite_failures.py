"""What goes wrong around a SQLite file is named, leaves nothing committed, and passes when it is mended."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from eventsourcing.persistence import PersistenceError as LibrarysError

from jobledger.adapters.storage.clocks import ManualClock
from jobledger.adapters.storage.sqlite import SQLiteStorage
from jobledger.adapters.storage.sqlite_connecting import SQLiteLedgerConnection
from jobledger.adapters.storage.sqlite_errors import after_commit, code_of, failure
from jobledger.domain.errors import HistoryCorruptError, OutcomeUnknownError, StoreUnavailableError
from jobledger.domain.ports import StoredBody, UnitRow
from tests.storage.given import PATIENCE, body, claim, created, loaded, progressed, tampered, written
from tests.storage.processes import run

PAGE = b"x" * 4096


def limit_pages(storage: SQLiteStorage, *, more: int) -> None:
    """Let the file grow by so many pages and no further, as a full disk would."""
    connection = storage.datastore.connections.get_connection(is_writer=True)
    [pages] = connection.raw.execute("PRAGMA page_count").fetchone()
    connection.raw.execute(f"PRAGMA max_page_count = {pages + more}")
    storage.datastore.connections.put_connection(connection)


def test_a_full_disk_refuses_the_write_and_keeps_the_rest(sqlite: SQLiteStorage) -> None:
    """The whole session is undone; reading goes on, and writing does once there is room."""
    written(sqlite, created("before"))
    limit_pages(sqlite, more=1)
    bodies = tuple(StoredBody(str(number), PAGE, is_checkpoint=True) for number in range(9))

    with pytest.raises(StoreUnavailableError, match="no room"):
        written(sqlite, created("small"), created("large", bodies=bodies))

    with sqlite.reading() as reader:
        assert reader.job_ids("n", after="", limit=9) == ["before"]
    limit_pages(sqlite, more=1000)
    assert written(sqlite, created("small"), created("large", bodies=bodies)) == [None, None]


def test_an_error_that_a_caller_hides_commits_nothing(sqlite: SQLiteStorage) -> None:
    """Even where SQLite has rolled the transaction back by itself."""
    limit_pages(sqlite, more=1)
    bodies = tuple(StoredBody(str(number), PAGE, is_checkpoint=True) for number in range(9))

    def hides() -> None:
        with sqlite.writing(PATIENCE) as session:
            session.append([created("a")])
            with contextlib.suppress(StoreUnavailableError):
                session.append([created("b", bodies=bodies)])
            with contextlib.suppress(StoreUnavailableError):
                session.append([created("c")])

    with pytest.raises(StoreUnavailableError, match="no room"):
        hides()

    with sqlite.reading() as reader:
        assert reader.job_ids("n", after="", limit=9) == []


def test_a_rollback_that_a_caller_hides_commits_nothing(sqlite: SQLiteStorage) -> None:
    """A conflict clause rolls back without a word of ours; what comes after it would commit by itself."""
    tampered(sqlite.path, "CREATE TABLE mine (x UNIQUE)", "INSERT INTO mine VALUES (1)")

    def hides() -> None:
        with sqlite.writing(PATIENCE) as session:
            session.append([created("a")])
            with contextlib.suppress(sqlite3.IntegrityError):
                session.connection.execute("INSERT OR ROLLBACK INTO mine VALUES (1)")
            with contextlib.suppress(StoreUnavailableError):
                session.append([created("b")])

    with pytest.raises(StoreUnavailableError, match="rolled"):
        hides()

    with sqlite.reading() as reader:
        assert reader.job_ids("n", after="", limit=9) == []


class Stubborn(sqlite3.Connection):
    """A connection that rolls nothing back."""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        """Refuse one statement."""
        if sql == "ROLLBACK":
            self.rollback()
        return super().execute(sql, *values)

    def rollback(self) -> None:
        """Refuse."""
        problem = "the disk failed again"
        raise sqlite3.OperationalError(problem)


@pytest.fixture
def stubborn(tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[SQLiteStorage]:
    """An empty store, none of whose transactions can be rolled back."""
    migrated = SQLiteStorage(tmp_path / "jobs.db", clock=clock)
    migrated.migrate()
    migrated.close()
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Stubborn))
    storage = SQLiteStorage(tmp_path / "jobs.db", clock=clock)
    yield storage
    storage.close()


def broken_off(storage: SQLiteStorage) -> sqlite3.Cursor:
    """Break a transaction off; answers a cursor with an unfinished statement, which somebody has kept."""
    kept: list[sqlite3.Cursor] = []
    with contextlib.suppress(ZeroDivisionError), storage.writing(PATIENCE) as session:
        session.append([created("a")])
        kept.append(session.connection.execute("SELECT 1 UNION SELECT 2"))
        raise ZeroDivisionError
    return kept[0]


def broken_off_by_the_library(storage: SQLiteStorage) -> sqlite3.Cursor:
    """The same through a transaction of the library's."""
    with (
        contextlib.suppress(LibrarysError),
        storage.datastore.transaction(commit=True) as cursor,
    ):
        cursor.execute("CREATE TABLE mine (x)")
        cursor.execute("SELECT 1 UNION SELECT 2")
        raise ZeroDivisionError
    return cast("sqlite3.Cursor", cursor)


@pytest.mark.parametrize("breaking_off", [broken_off, broken_off_by_the_library])
def test_what_cannot_be_rolled_back_gives_its_lock_on(
    stubborn: SQLiteStorage, breaking_off: Callable[[SQLiteStorage], sqlite3.Cursor]
) -> None:
    """Its connection is closed, with each statement that would keep it, and its lock, alive."""
    kept = breaking_off(stubborn)

    with stubborn.writing(timedelta(0)) as session:
        assert session.append([created("b")]) == [None]
    with stubborn.reading() as reader:
        assert reader.job_ids("n", after="", limit=9) == ["b"]
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        kept.fetchone()


def test_a_cursor_that_is_kept_would_keep_the_lock(stubborn: SQLiteStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: where a connection is closed as any other, the next writer never gets its turn."""
    monkeypatch.delattr(SQLiteLedgerConnection, "_close")
    kept = broken_off(stubborn)

    with pytest.raises(StoreUnavailableError, match="another writer"), stubborn.writing(timedelta(0)):
        pass

    del kept


def test_a_file_that_may_not_be_written_is_named_so(sqlite: SQLiteStorage) -> None:
    connection = sqlite.datastore.connections.get_connection(is_writer=True)
    connection.raw.execute("PRAGMA query_only = ON")
    sqlite.datastore.connections.put_connection(connection)

    with pytest.raises(StoreUnavailableError, match="read-only"):
        written(sqlite, created())


def test_a_folder_that_is_missing_is_named(tmp_path: Path, clock: ManualClock) -> None:
    """Nothing makes it: a store in a wrong place would look like an empty one."""
    storage = SQLiteStorage(tmp_path / "missing" / "jobs.db", clock=clock)

    for attempt in (storage.migrate, storage.schema_version, storage.require_schema, storage.reading().__enter__):
        with pytest.raises(StoreUnavailableError, match=r"the folder .*missing does not exist"):
            attempt()

    assert not (tmp_path / "missing").exists()


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, clock: ManualClock) -> None:
    path = tmp_path / "letter.txt"
    path.write_bytes(b"Dear reader, " * 1000)
    storage = SQLiteStorage(path, clock=clock)

    with pytest.raises(HistoryCorruptError, match="not an SQLite database") as refused:
        storage.migrate()

    assert "try again" not in str(refused.value)

    assert path.read_bytes() == b"Dear reader, " * 1000


def test_a_folder_in_the_place_of_the_file_is_named(tmp_path: Path, clock: ManualClock) -> None:
    with pytest.raises(StoreUnavailableError, match="cannot be opened"):
        SQLiteStorage(tmp_path, clock=clock).migrate()


def test_a_damaged_file_is_named_so(sqlite: SQLiteStorage) -> None:
    written(sqlite, *(created(str(number)) for number in range(200)))
    sqlite.close()
    path = sqlite.path
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    damaged = SQLiteStorage(path, clock=sqlite.clock)

    with pytest.raises(HistoryCorruptError, match="damaged") as refused:
        loaded(damaged, "7")

    assert "try again" not in str(refused.value)


def test_a_status_row_that_cannot_be_read_stops_its_job_only(sqlite: SQLiteStorage) -> None:
    """Broken JSON, another job's state, or one of another sequence."""
    written(sqlite, *(created(name) for name in ("broken", "foreign", "moved", "fine")))
    claim(sqlite, "moved")
    tampered(
        sqlite.path,
        "UPDATE job_status SET job = '{' WHERE job_id = 'broken'",
        "UPDATE job_status SET job = (SELECT job FROM job_status WHERE job_id = 'fine') WHERE job_id = 'foreign'",
        "UPDATE job_status SET sequence = 1 WHERE job_id = 'moved'",
    )

    for name in ("broken", "foreign", "moved"):
        with pytest.raises(HistoryCorruptError) as stopped:
            loaded(sqlite, name)
        assert stopped.value.job_id == name
    assert loaded(sqlite, "fine").job.id == "fine"


def test_a_receipt_that_cannot_be_read_stops_its_job(sqlite: SQLiteStorage) -> None:
    written(sqlite, created())
    written(sqlite, progressed(claim(sqlite), unit=UnitRow("u", body(1), 1, 3)))
    tampered(sqlite.path, "UPDATE job_unit SET receipt = '[]'")

    with pytest.raises(HistoryCorruptError), sqlite.reading() as reader:
        reader.unit("j", "u")


def test_a_state_that_does_not_exist_is_named_by_counts(sqlite: SQLiteStorage) -> None:
    """With a job that is said to be in it."""
    written(sqlite, created("fine"), created("odd"))
    tampered(sqlite.path, "UPDATE job_status SET state = 'garbage' WHERE job_id = 'odd'")

    with pytest.raises(HistoryCorruptError, match="garbage") as stopped, sqlite.reading() as reader:
        reader.counts("n", None, None)

    assert stopped.value.job_id == "odd"


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE job_lease SET expires_at_us = 9000000000000000000",
        "UPDATE job_lease SET expires_at_us = 1e300",
        "UPDATE job_lease SET expires_at_us = 'soon'",
        "UPDATE job_lease SET generation = 'one'",
    ],
)
def test_a_lease_that_cannot_be_read_stops_its_job(sqlite: SQLiteStorage, damage: str) -> None:
    """Also at an append, which compares with it."""
    written(sqlite, created("fine"), created("odd"))
    running = claim(sqlite, "odd")
    tampered(sqlite.path, damage)

    with pytest.raises(HistoryCorruptError) as stopped:
        written(sqlite, progressed(running))

    assert stopped.value.job_id == "odd"
    assert claim(sqlite, "fine").job.generation == 1


# Commits --------------------------------------------------------------------------------------------------------------


def test_a_commit_that_is_refused_commits_nothing(sqlite: SQLiteStorage) -> None:
    """A deferred constraint of the caller's own fails at the commit, while the transaction is still open."""
    connection = sqlite.datastore.connections.get_connection(is_writer=True)
    connection.raw.execute("PRAGMA foreign_keys = ON")
    connection.raw.execute("CREATE TABLE parent (x INTEGER PRIMARY KEY)")
    connection.raw.execute("CREATE TABLE child (x REFERENCES parent DEFERRABLE INITIALLY DEFERRED)")
    sqlite.datastore.connections.put_connection(connection)

    def dangles() -> None:
        with sqlite.writing(PATIENCE) as session:
            session.append([created()])
            session.connection.execute("INSERT INTO child VALUES (1)")

    with pytest.raises(StoreUnavailableError, match="FOREIGN KEY"):
        dangles()

    assert written(sqlite, created()) == [None]


COMMIT_ON_A_BROKEN_DISK = """
    import resource, signal
    from jobledger.domain.errors import OutcomeUnknownError, StoreUnavailableError
    from tests.storage.given import PATIENCE, created, tampered, written
    from jobledger.adapters.storage.clocks import SystemClock
    from jobledger.adapters.storage.sqlite import SQLiteStorage

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    storage = SQLiteStorage(sys.argv[1], clock=SystemClock())
    try:
        with storage.writing(PATIENCE) as session:
            assert session.append([created("lost")]) == [None]
            # From here on the system refuses to make any file longer: the log cannot take the commit.
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    except OutcomeUnknownError as unknown:
        print("unknown:", unknown)
    try:
        written(storage, created("refused"))
    except (OutcomeUnknownError, StoreUnavailableError) as error:
        print("next:", type(error).__name__)
    resource.setrlimit(resource.RLIMIT_FSIZE, resource.getrlimit(resource.RLIMIT_FSIZE)[1:] * 2)
    print("mended:", written(storage, created("mended")))
"""


def test_a_disk_that_fails_at_the_commit_leaves_the_outcome_unknown(sqlite: SQLiteStorage) -> None:
    """Nobody can say what a recovery would find; the store works again once the disk does."""
    written(sqlite, created("before"))

    out = run(COMMIT_ON_A_BROKEN_DISK, sqlite.path)

    assert "unknown: it is unknown whether the command was committed" in out
    assert "mended: [None]" in out
    with sqlite.reading() as reader:
        assert {"before", "mended"} <= set(reader.job_ids("n", after="", limit=9))


def sqlite_error(code: int, text: str = "text") -> sqlite3.OperationalError:
    """An error as the driver raises it."""
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("code", "in_transaction", "expected"),
    [
        (sqlite3.SQLITE_FULL, True, StoreUnavailableError),
        (sqlite3.SQLITE_BUSY, True, StoreUnavailableError),
        (sqlite3.SQLITE_FULL, False, OutcomeUnknownError),
        (sqlite3.SQLITE_IOERR_FSYNC, True, OutcomeUnknownError),
        (sqlite3.SQLITE_IOERR_WRITE, False, OutcomeUnknownError),
    ],
)
def test_only_an_open_transaction_is_surely_not_committed(code: int, in_transaction: bool, expected: type) -> None:
    error = after_commit(sqlite_error(code), Path("/jobs.db"), in_transaction=in_transaction)

    assert type(error) is expected


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (sqlite3.SQLITE_BUSY_SNAPSHOT, "locked"),
        (sqlite3.SQLITE_LOCKED, "locked"),
        (sqlite3.SQLITE_FULL, "no room"),
        (sqlite3.SQLITE_READONLY_DBMOVED, "read-only"),
        (sqlite3.SQLITE_IOERR_READ, "reading or writing"),
        (sqlite3.SQLITE_CANTOPEN, "permissions"),
        (sqlite3.SQLITE_ERROR, "text"),
    ],
)
def test_each_reason_says_what_to_mend(code: int, says: str) -> None:
    error = failure(sqlite_error(code), Path("/jobs.db"))

    assert isinstance(error, StoreUnavailableError)
    assert says in error.reason
    assert "/jobs.db" in error.reason


@pytest.mark.parametrize(
    ("code", "says"), [(sqlite3.SQLITE_NOTADB, "not an SQLite database"), (sqlite3.SQLITE_CORRUPT_INDEX, "damaged")]
)
def test_a_file_that_no_waiting_mends_is_corrupt(code: int, says: str) -> None:
    error = failure(sqlite_error(code), Path("/jobs.db"))

    assert isinstance(error, HistoryCorruptError)
    assert says in str(error)
    assert "/jobs.db" in str(error)


def test_an_error_without_a_code_is_told_as_it_is() -> None:
    plain: Any = sqlite3.ProgrammingError("Cannot operate on a closed database.")

    assert code_of(plain) == 0
    assert "closed database" in str(failure(plain, Path("/jobs.db")))
