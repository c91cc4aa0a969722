"""Moves the rows of a table in units; each unit is done once, however often the migration is interrupted.

Run it: python examples/data_migration.py
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from jobledger import JobContext, JobHost, JobRequest, JobStore, durable_job

ROWS, UNIT = 1_000, 200


@durable_job("migrate")
def migrate(job: JobContext, database: str, rows: int) -> int:
    """Copy unit by unit; a unit that has a receipt is not run again."""
    moved = 0
    for first in range(0, rows, UNIT):
        receipt = job.unit(f"rows {first}", copy, database, first)
        moved += receipt["moved"]
        job.progress(moved, rows)
        if first == 2 * UNIT and job.attempt == 1:
            raise ConnectionError(first)  # the first attempt loses its connection in the middle
        job.boundary()
    return moved


def copy(database: str, first: int) -> dict[str, int]:
    """Copy some rows; after a crash between its commit and its receipt it runs again, so it replaces what is there."""
    with closing(sqlite3.connect(database)) as connection, connection:
        cursor = connection.execute(
            "INSERT OR REPLACE INTO new_users SELECT id, upper(name) FROM old_users WHERE id >= ? AND id < ?",
            (first, first + UNIT),
        )
        return {"first": first, "moved": cursor.rowcount}


def main() -> None:
    """Make a table, migrate it, and count what has arrived."""
    with tempfile.TemporaryDirectory() as folder:
        database = str(Path(folder) / "app.db")
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute("CREATE TABLE old_users (id INTEGER PRIMARY KEY, name TEXT)")
            connection.execute("CREATE TABLE new_users (id INTEGER PRIMARY KEY, name TEXT)")
            connection.executemany(
                "INSERT INTO old_users VALUES (?, ?)", [(each, f"user {each}") for each in range(ROWS)]
            )
        with JobStore.open(f"sqlite:///{Path(folder) / 'jobs.db'}") as store, JobHost(store, [migrate]) as host:
            host.admit()
            request = JobRequest(
                owner="ops", key="users-2026", kind="migrate", payload={"database": database, "rows": ROWS}
            )
            status = store.wait(store.create(request).job_id, 60)
        with closing(sqlite3.connect(database)) as connection:
            (arrived,) = connection.execute("SELECT count(*) FROM new_users WHERE name LIKE 'USER %'").fetchone()
        print(f"{status.state.value} in {status.generation} attempts: {status.units} units, {arrived} rows")


if __name__ == "__main__":
    main()
