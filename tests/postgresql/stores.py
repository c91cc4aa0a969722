"""Lends PostgreSQL stores to tests: each in an empty schema, and with the time of a clock that only the test moves."""

from __future__ import annotations

import atexit
import itertools
import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from eventsourcing.utils import get_topic
from typing_extensions import override

from jobledger import ManualClock
from jobledger.adapters.storage.clocks import START
from jobledger.adapters.storage.postgresql import PostgreSQLLedgerFactory, PostgreSQLStorage
from jobledger.adapters.storage.postgresql_connecting import place_of
from jobledger.adapters.storage.rows import to_us
from tests.postgresql.pooler import pooler
from tests.postgresql.server import server

CLEAR = """
    DELETE FROM {0}.stored_events; DELETE FROM {0}.tracking; DELETE FROM {0}.job; DELETE FROM {0}.job_status;
    DELETE FROM {0}.job_label; DELETE FROM {0}.job_lease; DELETE FROM {0}.worker_group; DELETE FROM {0}.job_unit;
    DELETE FROM {0}.job_body; DELETE FROM {0}.job_snapshot; DELETE FROM {0}.resource; DELETE FROM {0}.submission;
    DELETE FROM {0}.schedule; DELETE FROM {0}.schedule_snapshot; DELETE FROM {0}.projection;
    DELETE FROM {0}.projection_row; DELETE FROM {0}.queue; DELETE FROM {0}.queue_usage;
    DELETE FROM {0}.archived_event;
    SELECT setval('{0}.position', 1, false); INSERT INTO {0}.tracking VALUES ('__migration__', 1)
"""

# A sequence belongs to no snapshot, so that time moves in the middle of a view too. The days are added apart from the
# microseconds of a day, since a number of microseconds alone is rounded in far years.
CLOCK = """
    CREATE SEQUENCE {0}.test_clock MINVALUE 0;
    CREATE OR REPLACE FUNCTION {0}.jobledger_now() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
        SELECT (
            timestamp 'epoch' + (last_value / 86400000000)::integer * interval '1 day'
            + (last_value % 86400000000) * interval '1 microsecond'
        ) AT TIME ZONE 'UTC' FROM {0}.test_clock
    $$
"""


class WatchedClock(ManualClock):
    """A clock that tells when it is moved."""

    def __init__(self, start: datetime = START) -> None:
        """Stand at ``start``."""
        super().__init__(start)
        self.watchers: list[Callable[[datetime], object]] = []

    @override
    def step(self, span: timedelta) -> None:
        super().step(span)
        for tell in list(self.watchers):
            tell(self.now())


_numbers = itertools.count(1)


@cache
def _way() -> dict[str, str]:
    """Where stores look for the server: `JOBLEDGER_POOLER` sends all of a run's through a pooler of this process."""
    if not os.environ.get("JOBLEDGER_POOLER"):
        return {}
    kept = ExitStack()
    atexit.register(kept.close)
    folder = kept.enter_context(tempfile.TemporaryDirectory(prefix="jl-"))
    return {"through": str(kept.enter_context(pooler(Path(folder))))}


def fresh_url(**parameters: str) -> str:
    """The URL of a schema that does not exist yet."""
    schema = f"t{os.getpid()}_{next(_numbers)}"
    return server().url(schema=schema, **{"application_name": schema} | _way() | parameters)


@cache
def _operator() -> psycopg.Connection[Any]:
    """A connection for setting clocks and for clearing tables."""
    return server().connect()


class LentStorage(PostgreSQLStorage):
    """A store in a schema of its own that is given back, empty, instead of being closed."""

    def __init__(self, through: Path | None = None) -> None:
        """Make a schema with a clock for tests; ``through`` is the folder of a pooler's socket."""
        super().__init__(fresh_url() if through is None else fresh_url(through=str(through)))
        self.migrate()
        _operator().execute(CLOCK.format(self.place.schema).encode())
        self.clock: WatchedClock | None = None

    def lend(self, clock: WatchedClock) -> LentStorage:
        """Show the time of ``clock`` from now on."""
        self._is_closed = False
        self.clock = clock
        clock.watchers.append(self._show)
        self._show(clock.now())
        return self

    def _show(self, now: datetime) -> None:
        _operator().execute("SELECT setval(%s, %s)", (f"{self.place.schema}.test_clock", to_us(now)))

    @override
    def close(self) -> None:
        if self.clock is None:
            return
        self._is_closed = True
        self.clock.watchers.remove(self._show)
        self.clock = None
        _operator().execute(CLEAR.format(self.place.schema).encode())
        _free.append(self)

    def end(self) -> None:
        """Close the connections."""
        super().close()


_free: list[LentStorage] = []


@atexit.register
def _end() -> None:
    for storage in _free:
        storage.end()


def lent(clock: ManualClock) -> LentStorage:
    """An empty store that shows the time of a clock; closing it gives it back."""
    assert isinstance(clock, WatchedClock), "a PostgreSQL store can only follow a WatchedClock"
    return (_free.pop() if _free else LentStorage()).lend(clock)


def dropped(url: str) -> None:
    """Remove the schema of a URL, if it was made."""
    _operator().execute(f"DROP SCHEMA IF EXISTS {place_of(url).schema} CASCADE".encode())


def environment(url: str) -> dict[str, str]:
    """What an application of the library needs to open the store at a URL."""
    return {
        "PERSISTENCE_MODULE": get_topic(PostgreSQLLedgerFactory),
        "POSTGRES_DBNAME": "postgres",
        "POSTGRES_HOST": str(server().folder),
        "POSTGRES_USER": "postgres",
        "POSTGRES_PASSWORD": "none",
        "POSTGRES_POOL_SIZE": "1",
        "POSTGRES_SCHEMA": place_of(url).schema,
    }
