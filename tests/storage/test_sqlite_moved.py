"""A file that is removed or replaced while it is open: nothing is acknowledged that goes into nowhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from eventsourcing.persistence import OperationalError, StoredEvent

from jobledger.adapters.storage.clocks import ManualClock
from jobledger.adapters.storage.sqlite import SQLiteStorage
from jobledger.adapters.storage.sqlite_connecting import OpenedFile
from jobledger.domain.errors import StoreUnavailableError
from tests.storage.given import NOON, PATIENCE, created, loaded, written


@pytest.fixture
def moved(tmp_path: Path, clock: ManualClock) -> SQLiteStorage:
    """A store in a folder of its own, with one job."""
    (tmp_path / "folder").mkdir()
    storage = SQLiteStorage(tmp_path / "folder" / "jobs.db", clock=clock)
    storage.migrate()
    written(storage, created("before"))
    assert loaded(storage, "before").position == 1
    return storage


def remove(path: Path) -> None:
    """Take the file away."""
    path.unlink()


def remove_folder(path: Path) -> None:
    """Take everything away."""
    shutil.rmtree(path.parent)


def replace_by_copy(path: Path) -> None:
    """Put another store in its place."""
    other = SQLiteStorage(path.with_name("other.db"), clock=ManualClock(NOON))
    other.migrate()
    other.close()
    other.path.replace(path)


MISFORTUNES: dict[str, Callable[[Path], None]] = {
    "removed": remove,
    "its folder removed": remove_folder,
    "replaced": replace_by_copy,
}


@pytest.mark.parametrize("misfortune", MISFORTUNES)
def test_a_file_that_is_gone_is_neither_written_nor_read(moved: SQLiteStorage, misfortune: str) -> None:
    """However often one asks; nothing is made in its place."""
    MISFORTUNES[misfortune](moved.path)
    was_there = moved.path.exists()

    for _ in range(3):
        with pytest.raises(StoreUnavailableError, match="removed or replaced"):
            written(moved, created("lost"))
        with pytest.raises(StoreUnavailableError, match="removed or replaced"):
            loaded(moved, "before")

    assert moved.path.exists() == was_there


@pytest.mark.parametrize("misfortune", MISFORTUNES)
def test_a_file_that_goes_in_the_middle_of_a_session_takes_no_commit(moved: SQLiteStorage, misfortune: str) -> None:
    """Neither a session's nor the library's."""

    def session() -> None:
        with moved.writing(PATIENCE) as opened:
            assert opened.append([created("lost")]) == [None]
            MISFORTUNES[misfortune](moved.path)

    with pytest.raises(StoreUnavailableError, match="removed or replaced"):
        session()


def test_a_file_that_goes_in_the_middle_of_the_librarys_append_takes_no_commit(moved: SQLiteStorage) -> None:
    """The library is told in its own words."""

    def append() -> None:
        with moved.datastore.transaction(commit=True):
            moved.path.unlink()

    with pytest.raises(OperationalError, match="removed or replaced"):
        append()

    with pytest.raises(Exception, match="removed or replaced"):
        moved.recorder.insert_events([StoredEvent("s", 1, "t", b"")])


def test_a_file_that_is_put_back_is_used_again(moved: SQLiteStorage) -> None:
    """With what it held, and without a restart."""
    away = moved.path.with_name("away.db")
    moved.path.rename(away)
    with pytest.raises(StoreUnavailableError):
        written(moved, created("refused"))

    away.rename(moved.path)

    assert written(moved, created("after")) == [None]
    with moved.reading() as reader:
        assert reader.job_ids("n", after="", limit=9) == ["after", "before"]


def test_a_store_that_does_not_look_acknowledges_into_nowhere(
    moved: SQLiteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the tests above."""
    monkeypatch.setattr(OpenedFile, "require_in_place", lambda _: None)
    remove_folder(moved.path)

    assert written(moved, created("lost")) == [None]

    assert not moved.path.exists()
