"""A schema for the demonstration alone in somebody's PostgreSQL database."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from psycopg.sql import SQL, Identifier

from jobledger.adapters.bootstrap import is_served
from jobledger.adapters.storage.postgresql_connecting import connect, place_of
from jobledger.domain.errors import InvalidRequestError

if TYPE_CHECKING:
    from contextlib import ExitStack


def schema_of_its_own(stack: ExitStack, url: str, *, is_kept: bool) -> str:
    """The URL of a schema that does not exist yet; it is removed when the stack ends, unless it is kept.

    Raises:
        InvalidRequestError: the URL is not that of a PostgreSQL database.
    """
    if not is_served(url):
        raise InvalidRequestError("store", "the demo takes a postgresql:// URL, or makes a file of its own")
    separator = "&" if "?" in url else "?"
    own = f"{url}{separator}schema=jobledger_demo_{secrets.token_hex(4)}"
    place = place_of(own)

    def remove() -> None:
        with connect(place) as connection:
            connection.execute(SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(Identifier(place.schema)))

    if not is_kept:
        stack.callback(remove)
    return own
