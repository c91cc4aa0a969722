"""What a doctor looks at on a PostgreSQL server: durability, timeouts, poolers, old transactions, and the feed."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, LiteralString

import psycopg

from jobledger.adapters.cli.findings import Finding
from jobledger.adapters.storage.postgresql import PostgreSQLStorage
from jobledger.adapters.storage.postgresql_connecting import Connection, Place, connect
from jobledger.adapters.storage.postgresql_errors import failure

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from jobledger.adapters.bootstrap import JobStore

SERVER_MIN: Final = 150000
"""The oldest server that the tests run on, as `server_version_num` has it."""

OLD_SECONDS: Final = 300
FEED_HELD_SECONDS: Final = 5


def server(url: str) -> Iterator[Finding]:
    """The checks that need no schema of ours.

    Raises:
        StoreUnavailableError: the server cannot be reached, or does not answer.
        InvalidRequestError: libpq cannot read the URL.
    """
    storage = PostgreSQLStorage(url)
    try:
        with _connected(storage.place) as connection:
            yield _version(connection)
            yield _role(connection)
            yield _durability(connection)
            yield _pooler(connection)
            yield _old_transactions(connection)
    finally:
        storage.close()


def schema(url: str, store: JobStore) -> Iterator[Finding]:
    """The checks of a schema that is current: who holds the feed back, and how updates fare."""
    storage = PostgreSQLStorage(url)
    try:
        with _connected(storage.place) as connection:
            yield _feed(connection, storage.place)
            yield _updates(connection, storage.place)
            yield _clock(connection, store)
    finally:
        storage.close()


@contextmanager
def _connected(place: Place) -> Generator[Connection]:
    try:
        connection = connect(place)
        try:
            yield connection
        finally:
            connection.close()
    except psycopg.Error as error:
        raise failure(error, place.named) from error


def _settings(connection: Connection, *names: str) -> dict[str, str]:
    rows = connection.execute("SELECT name, setting FROM pg_settings WHERE name = ANY (%s)", (list(names),))
    return {name: setting for name, setting in rows}  # noqa: C416  # dict() would lose the rows' types


def _version(connection: Connection) -> Finding:
    number = connection.info.server_version
    named = str(connection.info.parameter_status("server_version"))
    if number < SERVER_MIN:
        return Finding("server", "fail", f"PostgreSQL {named}; at least {SERVER_MIN // 10000} is needed")
    [(is_standby, started)] = connection.execute(
        "SELECT pg_is_in_recovery(), date_trunc('second', pg_postmaster_start_time())::text"
    ).fetchall()
    if is_standby:
        return Finding("server", "fail", f"PostgreSQL {named} is a standby, which cannot be written; name the primary")
    return Finding("server", "ok", f"PostgreSQL {named}, up since {started}")


def _role(connection: Connection) -> Finding:
    [(name, is_superuser)] = connection.execute(
        "SELECT rolname, rolsuper FROM pg_roles WHERE rolname = current_user"
    ).fetchall()
    if is_superuser:
        return Finding("role", "warn", f"{name} is a superuser; give workers a role of their own (docs/postgresql.md)")
    return Finding("role", "ok", str(name))


def _durability(connection: Connection) -> Finding:
    found = _settings(connection, "fsync", "full_page_writes", "synchronous_commit")
    told = ", ".join(f"{name} {value}" for name, value in sorted(found.items()))
    if found["fsync"] == "off" or found["full_page_writes"] == "off":
        return Finding("durability", "fail", f"{told}: a crash of the machine can damage or lose everything")
    if found["synchronous_commit"] == "off":
        problem = "a crash loses what was committed last, also checkpoints and results that were answered"
        return Finding("durability", "fail", f"{told}: {problem}")
    return Finding("durability", "ok", told)


def _pooler(connection: Connection) -> Finding:
    if connection.prepare_threshold is None:
        told = "a pooler stands between: statements are not prepared, and new work is found by asking"
        return Finding("connection", "ok", told)
    return Finding("connection", "ok", "direct")


# The transaction that keeps dead rows from being cleared away, wherever in the server it is.
OLDEST: Final[LiteralString] = """
    SELECT pid, coalesce(usename, '?'), coalesce(application_name, ''), state, coalesce(datname, '?'),
        extract(epoch FROM clock_timestamp() - xact_start)::bigint
    FROM pg_stat_activity
    WHERE backend_xmin IS NOT NULL AND xact_start IS NOT NULL AND backend_type = 'client backend'
    ORDER BY xact_start LIMIT 1
"""


def _old_transactions(connection: Connection) -> Finding:
    rows = connection.execute(OLDEST).fetchall()
    if not rows or rows[0][-1] < OLD_SECONDS:
        return Finding("transactions", "ok", f"none is older than {OLD_SECONDS // 60} minutes")
    pid, user, program, state, database, seconds = rows[0]
    problem = f"process {pid} ({user}, {program or 'no name'}, in {database}) has one that is {seconds // 60} min old"
    return Finding("transactions", "warn", f"{problem}, {state}: dead rows pile up behind it, and claims get slower")


# Every append in progress holds such a mark; the one that was published first holds the feed back.
HOLDERS: Final[LiteralString] = """
    SELECT l.pid, coalesce(a.usename, '?'), coalesce(a.application_name, ''), coalesce(a.state, '?'),
        coalesce(extract(epoch FROM clock_timestamp() - a.xact_start), 0)::bigint
    FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
    WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND (l.classid::bigint >> 16) = jobledger.mark(0) >> 48
        AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
    ORDER BY a.xact_start LIMIT 1
"""
POSITIONS: Final[LiteralString] = """
    SELECT jobledger.horizon(), coalesce(pg_sequence_last_value('jobledger.position'::regclass), 0)
"""


def _feed(connection: Connection, place: Place) -> Finding:
    [(horizon, last)] = connection.execute(place.statement(POSITIONS)).fetchall()
    holders = connection.execute(place.statement(HOLDERS)).fetchall()
    if not holders or holders[0][-1] < FEED_HELD_SECONDS:
        return Finding("feed", "ok", f"readable up to position {horizon} of {last}")
    pid, user, program, state, seconds = holders[0]
    problem = f"process {pid} ({user}, {program or 'no name'}, {state}) holds it back for {seconds} s"
    return Finding("feed", "warn", f"{problem}, at position {horizon} of {last}; jobs themselves are not held back")


UPDATES: Final[LiteralString] = """
    SELECT relname, n_tup_upd, n_tup_hot_upd, n_dead_tup, n_live_tup FROM pg_stat_user_tables
    WHERE schemaname = %(schema)s AND relname IN ('job_lease', 'job_status')
"""
UPDATES_MIN: Final = 10_000
HOT_MIN: Final = 0.9
DEAD_MAX: Final = 2


def _updates(connection: Connection, place: Place) -> Finding:
    found = {row[0]: row[1:] for row in connection.execute(UPDATES, {"schema": place.schema})}
    problems = []
    updated, hot, *_ = found.get("job_lease", (0, 0))
    if updated >= UPDATES_MIN and hot < HOT_MIN * updated:
        problems.append(f"only {100 * hot // updated} % of renewals found room beside the old row")
    for table, (*_, dead, live) in sorted(found.items()):
        if dead >= UPDATES_MIN and dead > DEAD_MAX * live:
            problems.append(f"{table} has {dead} dead rows for {live} live ones: autovacuum cannot keep up")
    if problems:
        return Finding("tables", "warn", "; ".join(problems))
    return Finding("tables", "ok", "updates find room, and dead rows are cleared away")


def _clock(connection: Connection, store: JobStore) -> Finding:
    [(now,)] = connection.execute("SELECT clock_timestamp()").fetchall()
    newest: Any = max((job.updated_at for job in store.jobs(limit=100).jobs), default=None)
    if newest is not None and (ahead := (newest - now).total_seconds()) > 1:
        problem = f"the store's last event lies {ahead:.0f} s ahead of the server's clock, which was set back"
        return Finding("clock", "warn", problem)
    return Finding("clock", "ok", f"{re.sub(r'[.].*', '', str(now))}, the server's, which is the store's")
