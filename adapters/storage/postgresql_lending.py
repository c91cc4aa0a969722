"""A transaction that somebody else began: found in what callers hold, entered by a savepoint, and left as it was."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, LiteralString

import psycopg
from psycopg.pq import Format, TransactionStatus
from psycopg.rows import TupleRow, tuple_row

from jobledger.adapters.storage.postgresql_arrays import register_arrays
from jobledger.domain.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Generator

_WRAPPERS_MAX: Final = 4

SET_PATIENCE: Final[LiteralString] = """
    SELECT current_setting('lock_timeout'), set_config('lock_timeout', %s, true)
"""


def driver_connection(given: object) -> psycopg.Connection[Any]:
    """The connection of psycopg 3 in what a caller holds.

    That is one of psycopg itself, a ``Connection`` or ``Session`` of SQLAlchemy 2, or Django's ``connection``.

    Raises:
        InvalidRequestError: there is none in it.
    """
    found: Any = given
    for _ in range(_WRAPPERS_MAX):
        if isinstance(found, psycopg.Connection):
            return found
        inner = getattr(found, "driver_connection", None) or getattr(found, "connection", None)
        if inner is None and callable(connect := getattr(found, "ensure_connection", None)):
            connect()  # Django opens its connection at the first statement
            inner = getattr(found, "connection", None)
        if inner is None:
            break
        found = inner() if callable(inner) and not isinstance(inner, psycopg.Connection) else inner
    problem = f"a connection of psycopg 3, SQLAlchemy 2 or Django is needed, not {type(given).__name__}"
    raise InvalidRequestError("connection", problem)


@contextmanager
def entered(raw: psycopg.Connection[Any], lock_ms: int) -> Generator[psycopg.Cursor[TupleRow]]:
    """A cursor in a savepoint of somebody's transaction; what fails in it undoes nothing of theirs.

    Raises:
        InvalidRequestError: no transaction is open, or the open one has failed.
    """
    _require_transaction(raw)
    cursor: psycopg.Cursor[TupleRow] = psycopg.Cursor(raw, row_factory=tuple_row)
    cursor.format = Format.BINARY
    register_arrays(cursor)
    if raw.info.transaction_status is TransactionStatus.IDLE:
        cursor.execute("SELECT 1")  # the caller's driver begins with the first statement
    with raw.transaction():
        cursor.execute(SET_PATIENCE, (str(lock_ms),))
        [(theirs, _)] = cursor.fetchall()
        try:
            yield cursor
        finally:
            with suppress(psycopg.Error):
                cursor.execute("SELECT set_config('lock_timeout', %s, true)", (theirs,))


def _require_transaction(raw: psycopg.Connection[Any]) -> None:
    match raw.info.transaction_status:
        case TransactionStatus.INTRANS:
            return
        case TransactionStatus.IDLE if not raw.autocommit:
            return
        case TransactionStatus.IDLE:
            problem = "it is in no transaction, so that a job would not commit with yours; begin one first"
        case TransactionStatus.INERROR:
            problem = "its transaction has failed; roll it back first"
        case _:
            problem = "it is closed, or busy with another statement"
    raise InvalidRequestError("connection", problem)
