"""The caller's own statements in our transaction: they commit with the command, or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobledger import Effect, JobRequest, JobStore, ManualClock, State
from tests.contracts.jobs import refuses, running


@pytest.fixture
def sqlite(tmp_path: Path, clock: ManualClock) -> Iterator[tuple[JobStore, Path]]:
    """A SQLite store with a table of the application's own."""
    path = tmp_path / "jobs.db"
    with JobStore.open(f"sqlite:///{path}", clock=clock) as store:
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE mine (word TEXT)")
        connection.close()
        yield store, path


def _write(word: str) -> object:
    return lambda connection: connection.execute("INSERT INTO mine VALUES (?)", (word,))


def _words(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    words = [word for (word,) in connection.execute("SELECT word FROM mine")]
    connection.close()
    return words


def test_statements_inside_commit_with_the_command(sqlite: tuple[JobStore, Path]) -> None:
    """The row, the checkpoint and the completion are there together."""
    store, path = sqlite
    lease = running(store)

    store.checkpoint(lease.fence, 1, inside=_write("first"))  # type: ignore[arg-type]  # it takes the connection
    store.complete(lease.fence, result=2, inside=_write("second"))  # type: ignore[arg-type]  # as above

    assert _words(path) == ["first", "second"]


def test_statements_inside_are_undone_when_the_command_is_refused(sqlite: tuple[JobStore, Path]) -> None:
    """A stale fence, a conflict, or a repeated command leaves nothing of them."""
    store, path = sqlite
    lease = running(store)
    effect = Effect(resource="r", value=1, expected_version=3)
    inside = _write("never")

    refuses("effect_conflict", store.complete, lease.fence, result=1, effects=[effect], inside=inside)
    assert _words(path) == []
    store.checkpoint(lease.fence, 1, inside=_write("once"), command_id="c")  # type: ignore[arg-type]  # as above
    store.checkpoint(lease.fence, 1, inside=_write("once"), command_id="c")  # type: ignore[arg-type]  # as above
    store.complete(lease.fence, result=1)
    refuses("already_terminal", store.complete, lease.fence, result=1, inside=inside)

    assert _words(path) == ["once"]


def test_an_exception_inside_undoes_the_command_too(sqlite: tuple[JobStore, Path]) -> None:
    """It reaches the caller as it is; the attempt stays open."""
    store, path = sqlite
    lease = running(store)

    def breaks(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO mine VALUES ('never')")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.complete(lease.fence, result=1, inside=breaks)

    assert _words(path) == []
    assert store.status(lease.job_id).state is State.RUNNING
    assert store.complete(lease.fence, result=1).state is State.COMPLETE


def test_statements_inside_may_not_end_our_transaction(sqlite: tuple[JobStore, Path]) -> None:
    """A commit of their own is refused, and the command is not accepted."""
    store, _ = sqlite
    lease = running(store)

    refuses("invalid_request", store.checkpoint, lease.fence, 1, inside=lambda connection: connection.commit())

    assert store.status(lease.job_id).checkpoint is None


def test_a_store_that_cannot_run_them_says_so(clock: ManualClock) -> None:
    """The memory store has no statements; neither store here takes a caller's connection."""
    with JobStore.open("memory:", clock=clock) as store:
        lease = running(store)
        refuses("invalid_request", store.checkpoint, lease.fence, 1, inside=lambda _: None)
        refuses("invalid_request", store.create, JobRequest(owner="a", kind="b"), connection=object())
        assert store.status(lease.job_id).checkpoint is None
