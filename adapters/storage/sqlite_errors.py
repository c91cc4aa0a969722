"""What SQLite's errors mean to a caller: the store is unavailable or damaged, and what there is to mend."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from jobledger.domain.errors import (
    HistoryCorruptError,
    OutcomeUnknownError,
    StoreUnavailableError,
    UnavailableError,
)

_PRIMARY: Final = 0xFF
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


def code_of(error: sqlite3.Error) -> int:
    """SQLite's primary result code, or 0 for an error that the driver found by itself."""
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY


def is_busy(error: sqlite3.Error) -> bool:
    """Whether somebody else holds the lock, so that waiting helps."""
    return code_of(error) in _BUSY


def failure(error: sqlite3.Error, path: Path) -> StoreUnavailableError | HistoryCorruptError:
    """Say why a statement could not be executed; nothing of its transaction will be committed."""
    match code_of(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            reason = f"another writer keeps {path} locked"
        case sqlite3.SQLITE_FULL:
            reason = f"there is no room left for {path}: the disk is full or the file is at its page limit"
        case sqlite3.SQLITE_READONLY:
            reason = f"{path} is read-only"
        case sqlite3.SQLITE_NOTADB:
            return HistoryCorruptError(str(path), 0, "the file is not an SQLite database: restore it from a backup")
        case sqlite3.SQLITE_CORRUPT:
            return HistoryCorruptError(str(path), 0, "the file is damaged: restore it from a backup")
        case sqlite3.SQLITE_IOERR if not path.is_dir():
            reason = f"reading or writing {path} failed: {error}"
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_IOERR:
            reason = _cannot_open(path)
        case _:
            reason = f"{path}: {error}"
    return StoreUnavailableError(reason)


def after_commit(error: sqlite3.Error, path: Path, *, in_transaction: bool) -> UnavailableError | HistoryCorruptError:
    """Say what a failing COMMIT left behind.

    While the transaction is still open, nothing was committed and it can be rolled back. After an input or output error
    the last bytes may or may not have reached the disk, and a recovery would decide.
    """
    if in_transaction and code_of(error) != sqlite3.SQLITE_IOERR:
        return failure(error, path)
    return OutcomeUnknownError(f"committing to {path} failed: {error}")


def _cannot_open(path: Path) -> str:
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist: make it first"
    return f"{path} cannot be opened: look at its permissions and at those of its folder"
