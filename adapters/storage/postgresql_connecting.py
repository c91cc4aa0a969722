"""Connections to a PostgreSQL server: what a URL says, how they are opened, and the pool that keeps them."""

from __future__ import annotations

import os
import re
import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, LiteralString
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import psycopg
from psycopg import generators
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import ExecStatus
from psycopg.rows import TupleRow, tuple_row
from psycopg_pool import ConnectionPool

from jobledger.adapters.storage.postgresql_arrays import register_arrays
from jobledger.domain.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

Connection = psycopg.Connection[TupleRow]

SCHEMA: Final = "jobledger"
"""The schema that the statements and migrations name; another one is put in its place."""

CONNECTIONS_MAX: Final = 10
SCHEMES: Final = ("postgresql://", "postgres://")

# A half-open socket is noticed: by the kernel after some silence, and at once where something waits to be sent.
_WATCHFUL: Final[Mapping[str, str]] = {
    "application_name": "jobledger",
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a store is: a libpq connection string, and the schema in that database."""

    url: str
    conninfo: str
    schema: str
    connections_max: int

    @property
    def named(self) -> str:
        """The place for people, without a password."""
        known = conninfo_to_dict(self.conninfo)
        host, port = known.get("host") or "localhost", known.get("port") or "5432"
        return f"{known.get('dbname') or known.get('user') or 'postgres'} at {host}:{port}, schema {self.schema}"

    @property
    def shown_url(self) -> str:
        """The URL, without a password, as a command may repeat it."""
        base, mark, query = self.url.partition("?")
        return re.sub(r"^(\w+://[^:/@]*):[^@]*@", r"\1@", base) + mark + re.sub(r"(^|&)password=[^&]*", "", query)

    def statement(self, text: LiteralString) -> bytes:
        """A statement of ours for this schema."""
        return _statement(text, self.schema)


@lru_cache(maxsize=1_000)
def _statement(text: str, schema: str) -> bytes:
    """A statement of ours for a schema: the same few are executed again and again."""
    return in_schema(text, schema).encode()


def in_schema(text: str, schema: str) -> str:
    """Put another schema's name in the place of ours."""
    return text if schema == SCHEMA else re.sub(r"\bjobledger\.", lambda _: f"{quoted(schema)}.", text)


def quoted(name: str) -> str:
    """A name as SQL has it; only those are let in that need no more than this."""
    return f'"{name}"'


def place_of(url: str) -> Place:
    """Read a URL: any form of libpq's, with ``schema`` and ``connections_max`` as further parameters.

    Raises:
        InvalidRequestError: it is no such URL, or one of the two is out of its range; its password is never repeated.
    """
    if "\0" in url:
        raise InvalidRequestError("url", "it contains a NUL character")
    base, _, query = url.partition("?")
    try:
        password = urlsplit(base).password
        given = parse_qsl(query, keep_blank_values=True)
    except ValueError:
        raise InvalidRequestError("url", "it cannot be read as a URL") from None
    ours = {name: value for name, value in given if name in ("schema", "connections_max")}
    theirs = urlencode([each for each in given if each[0] not in ours], quote_via=quote)
    conninfo = f"{base}?{theirs}" if theirs else base
    try:
        conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError as error:
        problem = str(error).strip().replace(url, "the URL")
        raise InvalidRequestError("url", f"libpq cannot read it: {_without_password(problem, password)}") from None
    schema = ours.get("schema", SCHEMA)
    if re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", schema) is None or schema.startswith("pg_"):
        raise InvalidRequestError("url", f"schema={schema!r}: small letters, digits and _ are needed, at most 63")
    most = ours.get("connections_max", str(CONNECTIONS_MAX))
    if re.fullmatch(r"[1-9][0-9]{0,3}", most) is None:
        raise InvalidRequestError("url", f"connections_max={most!r}: a whole number from 1 to 9999 is needed")
    return Place(url, conninfo, schema, int(most))


def _without_password(text: str, password: str | None) -> str:
    return text.replace(password, "…") if password else text


def connect(place: Place, **settings: Any) -> Connection:
    """Open one connection of ours.

    Raises:
        psycopg.OperationalError: the server cannot be reached, or refuses.
    """
    connection = psycopg.connect(
        place.conninfo, autocommit=True, row_factory=tuple_row, **_settings(place.conninfo), **settings
    )
    configure(connection)
    return connection


def _settings(conninfo: str) -> dict[str, Any]:
    """Our settings, where the URL has none of its own."""
    given = conninfo_to_dict(conninfo)
    return {name: value for name, value in _WATCHFUL.items() if name not in given}


def configure(connection: Connection) -> None:
    """Let a connection take our arrays, and prepare statements only where it always meets the same session."""
    register_arrays(connection)
    [(session,)] = connection.execute("SELECT pg_backend_pid()").fetchall()
    if session != connection.info.backend_pid:
        connection.prepare_threshold = None  # a pooler stands between, and every transaction may meet another session


def command(connection: Connection, statements: bytes) -> str:
    """Execute statements without arguments and rows by the shortest way; answers the tag of the last one.

    A cursor costs the client as much again as the statement does, and every transaction begins and ends.

    Raises:
        psycopg.Error: a statement failed, or the connection is broken.
    """
    with connection.lock:
        connection.pgconn.send_query(statements)
        results = connection.wait(generators.execute(connection.pgconn))
    for result in results:
        if result.status == ExecStatus.FATAL_ERROR:
            raise psycopg.errors.error_from_result(result, connection.info.encoding)
    return (results[-1].command_status or b"").decode()


class Pool:
    """The connections of one process; a fork starts with none, and leaves those of its parent alone."""

    def __init__(self, place: Place) -> None:
        """Open nothing yet."""
        self._place = place
        self._lock = threading.Lock()
        self._opened: tuple[int, ConnectionPool[Connection]] | None = None
        self._inherited: list[object] = []
        self._is_closed = False

    def get(self, patience: float) -> Connection:
        """Lend a connection, once one is free.

        Raises:
            psycopg_pool.PoolTimeout: none was within ``patience`` seconds.
            psycopg_pool.PoolClosed: the store was closed.
        """
        return self._pool().getconn(timeout=max(patience, 0.001))

    def put(self, connection: Connection) -> None:
        """Give a connection back; a broken one is replaced."""
        self._pool().putconn(connection)

    def _pool(self) -> ConnectionPool[Connection]:
        opened = self._opened
        if opened is not None and opened[0] == os.getpid():
            return opened[1]
        with self._lock:
            if self._opened is not None and self._opened[0] != os.getpid():
                self._inherited.append(self._opened)  # kept: closing it would end the parent's sessions
                self._opened = None
            if self._opened is None:
                self._opened = os.getpid(), self._open()
            return self._opened[1]

    def _open(self) -> ConnectionPool[Connection]:
        pool: ConnectionPool[Connection] = ConnectionPool(
            self._place.conninfo,
            kwargs={"autocommit": True, "row_factory": tuple_row, **_settings(self._place.conninfo)},
            min_size=0,
            max_size=self._place.connections_max,
            configure=configure,
            open=False,
            name="jobledger",
        )
        if self._is_closed:
            pool.close()
        else:
            pool.open()
        return pool

    def close(self) -> None:
        """Close every connection; those in use follow when they are given back."""
        self._is_closed = True
        opened = self._opened
        if opened is not None and opened[0] == os.getpid():
            opened[1].close()
