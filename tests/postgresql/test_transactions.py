"""The caller's statements in our transaction, and our jobs in the caller's: they commit together, or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from typing import Any, cast

import django  # type: ignore[import-untyped]  # it has no types
import psycopg
import pytest
import sqlalchemy
from django.conf import settings as django_settings  # type: ignore[import-untyped]  # the same
from sqlalchemy.orm import Session

from jobledger import Effect, JobRequest, JobStore, State
from tests.contracts.jobs import refuses, running
from tests.postgresql.conftest import Ledger
from tests.postgresql.server import server

REQUEST = JobRequest(owner="team", key="k", kind="index", labels={"l": "v"}, submission="s")


@pytest.fixture
def words(ledger: Ledger) -> Callable[[], list[str]]:
    """What stands in a table of the application's own, as everybody sees it."""
    with ledger.connect(autocommit=True) as connection:
        connection.execute("CREATE TABLE mine (word text)")

    def read() -> list[str]:
        with ledger.connect(autocommit=True) as connection:
            return [word for (word,) in connection.execute("SELECT word FROM mine")]

    return read


class TheirsError(Exception):
    """Something that went wrong in the caller's transaction."""


def write(ledger: Ledger, word: str) -> Callable[[Any], object]:
    """The application's own statement."""
    return lambda connection: connection.execute(f"INSERT INTO {ledger.schema}.mine VALUES (%s)", (word,))  # noqa: S608  # a name made by the test


# Their statements in our transaction ----------------------------------------------------------------------------------


def test_statements_inside_commit_with_the_command(
    ledger: Ledger, store: JobStore, words: Callable[[], list[str]]
) -> None:
    lease = running(store)

    store.checkpoint(lease.fence, 1, inside=write(ledger, "first"))
    store.complete(lease.fence, result=2, inside=write(ledger, "second"))

    assert words() == ["first", "second"]


def test_statements_inside_are_undone_when_the_command_is_refused(
    ledger: Ledger, store: JobStore, words: Callable[[], list[str]]
) -> None:
    """A conflict, a repeated command, or a stale fence leaves nothing of them."""
    lease = running(store)
    effect = Effect(resource="r", value=1, expected_version=3)
    inside = write(ledger, "never")

    refuses("effect_conflict", store.complete, lease.fence, result=1, effects=[effect], inside=inside)
    assert words() == []
    store.checkpoint(lease.fence, 1, inside=write(ledger, "once"), command_id="c")
    store.checkpoint(lease.fence, 1, inside=write(ledger, "once"), command_id="c")
    store.complete(lease.fence, result=1)
    refuses("already_terminal", store.complete, lease.fence, result=1, inside=inside)

    assert words() == ["once"]


def test_an_exception_inside_undoes_the_command_too(
    ledger: Ledger, store: JobStore, words: Callable[[], list[str]]
) -> None:
    """It reaches the caller as it is; the attempt stays open."""
    lease = running(store)

    def breaks(connection: psycopg.Connection[Any]) -> None:
        write(ledger, "never")(connection)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.complete(lease.fence, result=1, inside=breaks)

    assert words() == []
    assert store.status(lease.job_id).state is State.RUNNING
    assert store.complete(lease.fence, result=1).state is State.COMPLETE


def hidden_failure(connection: Any) -> None:
    """A statement that fails, which its caller does not tell of."""
    with pytest.raises(psycopg.Error):
        connection.execute("SELECT 1/0")


MISUSES: dict[str, Callable[[Any], object]] = {
    "commit": lambda connection: connection.commit(),
    "rollback": lambda connection: connection.rollback(),
    "commit and begin": lambda connection: connection.execute("COMMIT; BEGIN"),
    "rollback and begin": lambda connection: connection.execute("ROLLBACK; BEGIN"),
    "close": lambda connection: connection.close(),
    "a hidden failure": hidden_failure,
}


@pytest.mark.parametrize("misuse", MISUSES)
def test_statements_inside_may_not_end_our_transaction(store: JobStore, misuse: str) -> None:
    """However they do it: the command is refused, nothing of it is written, and the store goes on working."""
    lease = running(store)

    refuses("invalid_request", store.checkpoint, lease.fence, 1, inside=MISUSES[misuse])

    assert store.status(lease.job_id).checkpoint is None
    assert not store.checkpoint(lease.fence, 2).late


def test_a_savepoint_inside_is_the_callers_own_affair(
    ledger: Ledger, store: JobStore, words: Callable[[], list[str]]
) -> None:
    lease = running(store)

    def tries(connection: psycopg.Connection[Any]) -> None:
        write(ledger, "kept")(connection)
        with suppress(TheirsError), connection.transaction():
            write(ledger, "undone")(connection)
            raise TheirsError

    store.checkpoint(lease.fence, 1, inside=tries)

    assert words() == ["kept"]


def test_a_connection_that_was_lent_is_lent_to_nobody_else(store: JobStore) -> None:
    """Whoever kept it meets a closed one, and never another attempt's transaction."""
    lease = running(store)
    kept: list[psycopg.Connection[Any]] = []

    store.checkpoint(lease.fence, 1, inside=kept.append)

    assert kept[0].closed


def test_a_command_inside_a_command_is_refused(store: JobStore) -> None:
    """At once: it would wait for its own locks."""
    lease = running(store)

    def nested(_: object) -> None:
        store.renew(lease.fence)

    refuses("invalid_request", store.checkpoint, lease.fence, 1, inside=nested)


# Our jobs in their transaction ----------------------------------------------------------------------------------------


@contextmanager
def in_psycopg(ledger: Ledger) -> Generator[Any]:
    with ledger.connect() as connection:
        yield connection


@contextmanager
def in_psycopg_autocommit(ledger: Ledger) -> Generator[Any]:
    with ledger.connect(autocommit=True) as connection, connection.transaction():
        yield connection


@contextmanager
def in_sqlalchemy(ledger: Ledger) -> Generator[Any]:
    engine = sqlalchemy.create_engine(
        f"postgresql+psycopg://postgres@/postgres?host={server().folder}",
        connect_args={"options": f"-c search_path={ledger.schema}"},
    )
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


@contextmanager
def in_a_session_of_sqlalchemy(ledger: Ledger) -> Generator[Any]:
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://postgres@/postgres?host={server().folder}")
    try:
        with Session(engine) as session, session.begin():
            session.execute(sqlalchemy.text(f"SET LOCAL search_path = {ledger.schema}"))
            yield session
    finally:
        engine.dispose()


@contextmanager
def in_django(ledger: Ledger) -> Generator[Any]:
    if not django_settings.configured:
        database = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "postgres",
            "USER": "postgres",
            "HOST": str(server().folder),
        }
        django_settings.configure(DATABASES={"default": database})
        django.setup()
    from django.db import connection, transaction  # type: ignore[import-untyped]  # noqa: PLC0415  # they ask for the settings

    try:
        # Its annotations take a context manager for a decorator alone.
        whole: AbstractContextManager[object] = cast("Any", transaction).atomic()
        with whole:
            with connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL search_path = {ledger.schema}")
            yield connection
    finally:
        connection.close()


CALLERS: dict[str, Callable[[Ledger], Any]] = {
    "psycopg": in_psycopg,
    "psycopg in autocommit": in_psycopg_autocommit,
    "sqlalchemy": in_sqlalchemy,
    "a session of sqlalchemy": in_a_session_of_sqlalchemy,
    "django": in_django,
}


@pytest.mark.parametrize("caller", CALLERS)
def test_a_job_commits_with_the_callers_transaction(ledger: Ledger, store: JobStore, caller: str) -> None:
    """Nobody sees it before; then everybody does."""
    with CALLERS[caller](ledger) as connection:
        receipt = store.create(REQUEST, connection=connection)
        assert store.find("team", "k") is None

    assert not receipt.reused
    assert store.status(receipt.job_id).state is State.QUEUED
    assert store.verify(receipt.job_id).ok
    assert [entry.job_id for entry in store.feed().entries] == [receipt.job_id]


@pytest.mark.parametrize("caller", CALLERS)
def test_a_rollback_of_the_caller_leaves_no_trace(ledger: Ledger, store: JobStore, caller: str) -> None:
    """No event, no row, no label, no submission: the next one makes it as if nothing had been."""
    with suppress(TheirsError), CALLERS[caller](ledger) as connection:
        store.create(REQUEST, connection=connection)
        raise TheirsError

    assert store.find("team", "k") is None
    assert store.feed().entries == ()
    assert not store.create(REQUEST).reused


def test_a_refused_job_does_not_break_the_callers_transaction(ledger: Ledger, store: JobStore) -> None:
    """What the caller wrote stands, and so do the caller's settings."""
    store.create(JobRequest(owner="team", key="k", kind="index", payload=1, submission="s"))
    with ledger.connect() as connection:
        connection.execute("SET lock_timeout = '7s'")
        connection.execute("CREATE TABLE mine (word text)")
        refuses("payload_changed", store.create, REQUEST, connection=connection)
        assert store.create(JobRequest(owner="team", key="k2", kind="index"), connection=connection).sequence == 1
        assert connection.execute("SHOW lock_timeout").fetchall() == [("7s",)]

    with ledger.connect() as connection:
        assert connection.execute("SELECT * FROM mine").fetchall() == []
    assert store.find("team", "k2") is not None


def test_a_connection_without_a_transaction_is_refused(ledger: Ledger, store: JobStore) -> None:
    """The job would not commit with anything; nor can it in a failed transaction, or on a closed connection."""
    with ledger.connect(autocommit=True) as connection:
        refuses("invalid_request", store.create, REQUEST, connection=connection)
    refuses("invalid_request", store.create, REQUEST, connection=connection)
    with ledger.connect() as connection:
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT 1/0")
        refuses("invalid_request", store.create, REQUEST, connection=connection)
    refuses("invalid_request", store.create, REQUEST, connection="postgresql://somewhere")


def test_a_second_creator_waits_for_the_first_one_only(ledger: Ledger, store: JobStore) -> None:
    """Of the same key until the first transaction ends; another key does not wait at all."""
    with ThreadPoolExecutor(1) as other:
        with ledger.connect() as connection:
            first = store.create(REQUEST, connection=connection)
            assert not store.create(JobRequest(owner="team", key="another", kind="index")).reused
            begun = threading.Event()

            def second() -> Any:
                begun.set()
                return store.create(REQUEST)

            waiting = other.submit(second)
            begun.wait()
            _until_somebody_waits(ledger)
            assert not waiting.done()
        receipt = waiting.result(timeout=20)

    assert (receipt.job_id, receipt.reused) == (first.job_id, True)


def test_the_wait_for_another_creator_ends_with_patience(ledger: Ledger, store: JobStore) -> None:
    with ledger.connect() as connection:
        store.create(REQUEST, connection=connection)

        refuses("store_unavailable", store.within(timedelta(seconds=0.1)).create, REQUEST)


def _until_somebody_waits(ledger: Ledger) -> None:
    """Return when a session of this database waits for a lock."""
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    with ledger.connect(autocommit=True) as connection:
        while connection.execute(waiting).fetchall() == [(0,)]:
            connection.execute("SELECT pg_sleep(0.01)")
