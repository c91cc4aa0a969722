"""Schemas in numbered SQL files, each applied once, by whoever comes first, and to no other program's database."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final, LiteralString

from pydantic import TypeAdapter

from jobledger.adapters.storage.rows import to_us
from jobledger.adapters.storage.sqlite_connecting import looking
from jobledger.domain.errors import HistoryCorruptError, InvalidRequestError
from jobledger.domain.values import sha256_hex

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from eventsourcing.sqlite import SQLiteCursor, SQLiteDatastore


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step of a schema: ``name`` is its file's, ``digest`` that of its text."""

    number: int
    name: str
    text: str

    @property
    def digest(self) -> str:
        """The digest of the text, however its lines end; it is recorded with the step."""
        return sha256_hex("\n".join(self.text.splitlines()).encode())


@cache
def migrations(dialect: str) -> tuple[Migration, ...]:
    """All steps of a dialect's schema, in their order; the files are part of this package."""
    folder = files("jobledger.adapters.storage") / "migrations" / dialect
    found = [(file.name, file.read_text("utf-8")) for file in folder.iterdir() if file.name.endswith(".sql")]
    return tuple(Migration(int(name[:4]), name.removesuffix(".sql"), text) for name, text in sorted(found))


CREATE_SCHEMA_VERSION: Final[LiteralString] = """
    CREATE TABLE IF NOT EXISTS schema_version (
        number INTEGER PRIMARY KEY,
        name TEXT NOT NULL,
        digest TEXT NOT NULL,
        applied_at_us INTEGER NOT NULL
    )
"""

RECORD_MIGRATION: Final[LiteralString] = """
    INSERT INTO schema_version (number, name, digest, applied_at_us)
    VALUES (:number, :name, :digest, :applied_at_us)
"""


def migrate_sqlite(datastore: SQLiteDatastore, now: datetime) -> int:
    """Bring a file's schema up to date, whoever else is doing the same; answers how many steps this call applied.

    Raises:
        eventsourcing.persistence.PersistenceError: the file could not be written; the steps before stand.
        InvalidRequestError: it is another program's database; nothing was touched.
        HistoryCorruptError: a step that was applied is not the one that this jobledger knows.
    """
    require_known_steps(datastore.pool.db_name)
    applied = 0
    for migration in migrations("sqlite"):
        # One transaction for each step, begun with the write lock: the others wait, and then find it applied.
        with datastore.transaction(commit=True) as cursor:
            cursor.execute(CREATE_SCHEMA_VERSION)
            if _version(cursor) < migration.number:
                _apply(cursor, migration, now)
                applied += 1
    return applied


def _apply(cursor: SQLiteCursor, migration: Migration, now: datetime) -> None:
    cursor.sqlite_cursor.connection.create_function("span_us", 1, span_us, deterministic=True)
    for statement in _statements(migration.text):
        cursor.execute(statement)
    row = {"number": migration.number, "name": migration.name, "digest": migration.digest, "applied_at_us": to_us(now)}
    cursor.execute(RECORD_MIGRATION, row)


_SPANS: Final = TypeAdapter(timedelta)
_MICROSECOND: Final = timedelta(microseconds=1)


def span_us(text: str) -> int:
    """A span of time in ISO 8601, as policies keep it, as whole microseconds."""
    return _SPANS.validate_python(text) // _MICROSECOND


def _statements(text: str) -> Iterator[str]:
    """Cut a script into its statements; the driver's own way of running one would commit first."""
    waiting = ""
    for line in text.splitlines(keepends=True):
        waiting += line
        if sqlite3.complete_statement(waiting):
            yield waiting
            waiting = ""


SELECT_SCHEMA_VERSION: Final[LiteralString] = "SELECT coalesce(max(number), 0) FROM schema_version"


def _version(cursor: SQLiteCursor) -> int:
    cursor.execute(SELECT_SCHEMA_VERSION)
    version: int = cursor.fetchone()[0]
    return version


# What a file says -----------------------------------------------------------------------------------------------------

SELECT_TABLES: Final[LiteralString] = "SELECT count(*) FROM sqlite_schema"
SELECT_SCHEMA_COLUMNS: Final[LiteralString] = "SELECT name FROM pragma_table_info('schema_version') ORDER BY name"
SELECT_STEPS: Final[LiteralString] = "SELECT number, name, digest FROM schema_version ORDER BY number"
_SCHEMA_COLUMNS: Final = ["applied_at_us", "digest", "name", "number"]


def applied_steps(name: str) -> list[tuple[int, str, str]]:
    """Number, name and digest of each step that was applied to a file, which is only looked at.

    Raises:
        eventsourcing.persistence.InterfaceError: the file cannot be read, or is no database.
        InvalidRequestError: it is another program's database.
    """
    with looking(name) as raw:
        columns = [column for (column,) in raw.execute(SELECT_SCHEMA_COLUMNS)]
        if columns == _SCHEMA_COLUMNS:
            return raw.execute(SELECT_STEPS).fetchall()
        if raw.execute(SELECT_TABLES).fetchone() == (0,):
            return []
    problem = f"{name} is the database of another program; nothing was touched: give jobledger a file of its own"
    raise InvalidRequestError("store", problem)


def require_known_steps(name: str) -> None:
    """Require that what was applied to a file, if there is one, is what this jobledger would apply.

    Raises:
        eventsourcing.persistence.InterfaceError: the file cannot be read, or is no database.
        InvalidRequestError: it is another program's database.
        HistoryCorruptError: a step has another text, or is missing.
    """
    if not name.startswith("file:") and not Path(name).exists():
        return
    applied = applied_steps(name)
    known = [(step.number, step.name, step.digest) for step in migrations("sqlite")]
    for position, (found, wanted) in enumerate(zip(applied, known, strict=False), start=1):
        if found != wanted:
            problem = f"its schema step {found[1]!r} is not the {wanted[1]!r} that this jobledger applies"
            raise HistoryCorruptError(name, position, problem)
