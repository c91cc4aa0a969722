"""What a caller's own statements may do on our connection: all but end the transaction and change our tables."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from jobledger.domain.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Generator

OUR_TABLES: Final = frozenset(
    {
        "archived_event",
        "job_body",
        "job_label",
        "job_lease",
        "job_snapshot",
        "job_status",
        "job_unit",
        "projection",
        "projection_row",
        "resource",
        "queue",
        "queue_usage",
        "schedule",
        "schedule_snapshot",
        "schema_version",
        "store_secret",
        "stored_events",
        "submission",
        "tracking",
        "worker_group",
    }
)
"""Every table of the schema; a caller may read them."""

_TABLE_AT: Final = {
    sqlite3.SQLITE_INSERT: 0,
    sqlite3.SQLITE_UPDATE: 0,
    sqlite3.SQLITE_DELETE: 0,
    sqlite3.SQLITE_DROP_TABLE: 0,
    sqlite3.SQLITE_CREATE_TEMP_TABLE: 0,
    sqlite3.SQLITE_CREATE_TEMP_VIEW: 0,
    sqlite3.SQLITE_ALTER_TABLE: 1,
    sqlite3.SQLITE_CREATE_INDEX: 1,
    sqlite3.SQLITE_DROP_INDEX: 1,
    sqlite3.SQLITE_CREATE_TRIGGER: 1,
    sqlite3.SQLITE_CREATE_TEMP_TRIGGER: 1,
}
"""Which argument of an action names the table that it writes, changes, or would stand before."""

_OUR_DATABASES: Final = frozenset({None, "main", "temp"})


class Leash:
    """Refuses some statements of one connection, and remembers that, also where the caller hides the error."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        """Put ``raw``, as it is set now, on the leash."""
        self.misuse: InvalidRequestError | None = None
        self._raw = raw
        self._settings = (raw.row_factory, raw.text_factory)
        self._is_on = True
        raw.set_authorizer(self._authorize)

    @contextmanager
    def off(self) -> Generator[None]:
        """Let jobledger's statements through, with its own settings; afterwards everything is as the caller left it."""
        if not self._is_on:
            yield
            return
        theirs = (self._raw.row_factory, self._raw.text_factory)
        self.drop()
        self._raw.row_factory, self._raw.text_factory = self._settings
        try:
            yield
        finally:
            self._raw.row_factory, self._raw.text_factory = theirs
            self._is_on = True
            with suppress(sqlite3.ProgrammingError):  # closed meanwhile: nothing is left to refuse
                self._raw.set_authorizer(self._authorize)

    def drop(self) -> None:
        """Let everything through."""
        self._is_on = False
        with suppress(sqlite3.ProgrammingError):  # closed by the caller: nothing is left to let through
            self._raw.set_authorizer(None)

    def _authorize(self, action: int, *arguments: str | None) -> int:
        if action == sqlite3.SQLITE_TRANSACTION:
            self._refuse("begin, commit or roll back: jobledger does")
            return sqlite3.SQLITE_DENY
        place = _TABLE_AT.get(action)
        if place is not None and arguments[2] in _OUR_DATABASES and arguments[place] in OUR_TABLES:
            self._refuse(f"change {arguments[place]!r}, a table of jobledger's: use the methods of its store")
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    def _refuse(self, deed: str) -> None:
        problem = f"its statements may not {deed}; everything was rolled back"
        self.misuse = self.misuse or InvalidRequestError("connection", problem)
