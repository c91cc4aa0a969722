"""The schema in a PostgreSQL database: numbered SQL files, each applied once, whoever comes first."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Final, LiteralString

import psycopg
from psycopg.sql import SQL, Identifier

from jobledger.adapters.storage.migrating import Migration, migrations
from jobledger.adapters.storage.postgresql_connecting import Connection, Place, in_schema, quoted
from jobledger.domain.errors import HistoryCorruptError, InvalidRequestError

SCHEMA_VERSION: Final = migrations("postgresql")[-1].number
"""The schema that this version of jobledger reads and writes."""

MIGRATION_LOCK: Final[LiteralString] = "SELECT pg_advisory_xact_lock(hashtextextended('jobledger migrate', 0))"

# Nothing else is created by jobledger in a schema, so one with other tables and without this one is somebody else's.
CREATE_SCHEMA_VERSION: Final[LiteralString] = """
    CREATE TABLE IF NOT EXISTS jobledger.schema_version (
        number integer PRIMARY KEY,
        name text NOT NULL,
        digest text NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
    )
"""

RECORD_MIGRATION: Final[LiteralString] = """
    INSERT INTO jobledger.schema_version (number, name, digest) VALUES (%(number)s, %(name)s, %(digest)s)
"""

SELECT_STEPS: Final[LiteralString] = "SELECT number, name, digest FROM jobledger.schema_version ORDER BY number"

FIND_TABLES: Final[LiteralString] = """
    SELECT c.relname FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
"""


def grant_roles(connection: Connection, place: Place) -> None:
    """Make the roles of a schema, and give each the rights of its task; safe to repeat, and needed after a migration.

    Raises:
        psycopg.Error: the role may not make roles, or does not own the schema; nothing was changed.
    """
    file = files("jobledger.adapters.storage") / "migrations" / "postgresql_roles" / "roles.sql"
    text = re.sub(r"\bjobledger_(app|reader|retention)\b", rf"{place.schema}_\1", file.read_text("utf-8"))
    text = text.replace("SCHEMA jobledger ", f"SCHEMA {quoted(place.schema)} ")
    with connection.transaction():
        connection.execute(MIGRATION_LOCK)
        connection.execute(in_schema(text, place.schema).encode())


@dataclass(frozen=True, slots=True)
class Step:
    """A step that was applied: its number, its file's name, and its text's digest."""

    number: int
    name: str
    digest: str


def migrate(connection: Connection, place: Place) -> int:
    """Bring a schema up to date, whoever else is doing the same; answers how many steps this call applied.

    All of it is one transaction: a step that fails leaves the schema as it was.

    Raises:
        psycopg.Error: the database refused something; nothing was changed.
        InvalidRequestError: the schema is another program's; nothing was touched.
        HistoryCorruptError: a step that was applied is not the one that this jobledger knows.
    """
    with connection.transaction():
        connection.execute(MIGRATION_LOCK)  # held until the end of the transaction; everybody else waits here
        applied = applied_steps(connection, place)
        require_known_steps(applied, place)
        missing = migrations("postgresql")[len(applied) :]
        if missing and not applied:
            connection.execute(SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(place.schema)))
            connection.execute(place.statement(CREATE_SCHEMA_VERSION))
        for migration in missing:
            _apply(connection, place, migration)
    return len(missing)


def _apply(connection: Connection, place: Place, migration: Migration) -> None:
    # Functions are named in full and take no name from the caller's search path; neither may those that they call.
    connection.execute(in_schema(migration.text, place.schema).encode())
    row = {"number": migration.number, "name": migration.name, "digest": migration.digest}
    connection.execute(place.statement(RECORD_MIGRATION), row)


def applied_steps(connection: Connection, place: Place) -> list[Step]:
    """The steps that were applied to a schema, in their order; none where there is no schema.

    Raises:
        psycopg.Error: the database cannot be asked.
        InvalidRequestError: the schema is another program's.
    """
    tables = {name for (name,) in connection.execute(FIND_TABLES, {"schema": place.schema})}
    if not tables:
        return []
    try:
        if "schema_version" not in tables:
            raise psycopg.errors.UndefinedTable  # noqa: TRY301  # the same as if its columns were others
        return [Step(*row) for row in connection.execute(place.statement(SELECT_STEPS))]
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
        problem = f"the schema {place.schema} belongs to another program; nothing was touched: add ?schema=… to the URL"
        raise InvalidRequestError("store", problem) from None


def require_known_steps(applied: list[Step], place: Place) -> None:
    """Require that what was applied is what this jobledger would apply.

    Raises:
        HistoryCorruptError: a step has another text, or is missing.
    """
    known = [Step(step.number, step.name, step.digest) for step in migrations("postgresql")]
    for position, (found, wanted) in enumerate(zip(applied, known, strict=False), start=1):
        if found != wanted:
            problem = f"its schema step {found.name!r} is not the {wanted.name!r} that this jobledger applies"
            raise HistoryCorruptError(place.named, position, problem)
