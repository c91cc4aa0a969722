"""What PostgreSQL's errors mean to a caller: who is to wait, to mend something, to call an auditor, or to try again."""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg import errors
from psycopg_pool import PoolClosed, PoolTimeout

from jobledger.domain.errors import HistoryCorruptError, OutcomeUnknownError, StoreUnavailableError, UnavailableError
from jobledger.domain.ports import RolledBackError

_DAMAGED: Final = (errors.DataCorrupted, errors.IndexCorrupted)
_IN_THE_WAY: Final = (errors.SerializationFailure, errors.DeadlockDetected, errors.UniqueViolation)


def is_connection_lost(error: BaseException) -> bool:
    """Whether the server said nothing more: what it did last is then unknown."""
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    code = error.sqlstate
    # 57P01 to 57P05: the server, or an administrator, ended the session.
    return code is None or code.startswith(("08", "57P"))


def failure(error: psycopg.Error, place: str) -> StoreUnavailableError | HistoryCorruptError:
    """Say why a statement could not be executed; nothing of its transaction will be committed.

    ``place`` names the server and the database, without a password.
    """
    said = _said(error)
    match error:
        case PoolClosed():
            reason = "this store was closed"
        case PoolTimeout():
            reason = f"no connection to {place} became free in time"
        case errors.DataCorrupted() | errors.IndexCorrupted():
            return HistoryCorruptError(place, 0, f"the database is damaged ({said}): restore it from a backup")
        case errors.SerializationFailure() | errors.DeadlockDetected() | errors.UniqueViolation():
            return RolledBackError(f"{place}: {said}")
        case errors.LockNotAvailable():
            reason = f"another transaction keeps a job of {place} locked"
        case errors.ReadOnlySqlTransaction():
            reason = f"{place} is read-only: a standby, or a transaction of a reader; connect to the primary"
        case errors.InsufficientPrivilege():
            reason = f"{place}: {said}; ask the owner of the schema for the role's rights"
        case errors.UndefinedTable() | errors.UndefinedFunction() | errors.InvalidSchemaName():
            reason = f"{place}: {said}; run jobledger migrate"
        case _:
            reason = f"{place}: {said}"
    return StoreUnavailableError(reason)


def after_commit(error: psycopg.Error, place: str) -> UnavailableError | HistoryCorruptError:
    """Say what a failing COMMIT left behind: unknown, unless the server itself refused it."""
    if is_connection_lost(error):
        return OutcomeUnknownError(f"the connection to {place} broke while committing: {_said(error)}")
    return failure(error, place)


def _said(error: psycopg.Error) -> str:
    return error.diag.message_primary or str(error).strip().splitlines()[0] if str(error) else type(error).__name__
