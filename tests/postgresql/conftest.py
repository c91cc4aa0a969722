"""Stores in schemas of their own, with the server's own time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from jobledger import JobStore
from jobledger.adapters.storage.postgresql_connecting import place_of
from tests.postgresql.server import server
from tests.postgresql.stores import dropped, fresh_url


@dataclass(frozen=True, slots=True)
class Ledger:
    """A migrated schema: its URL and its name."""

    url: str
    schema: str

    def open(self, **settings: Any) -> JobStore:
        """A store on it."""
        return JobStore.open(self.url, **settings)

    def connect(self, **settings: Any) -> psycopg.Connection[Any]:
        """A connection of an application, in transactions unless it says otherwise; the schema is in its path."""
        return psycopg.connect(server().url(), options=f"-c search_path={self.schema}", **settings)


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """An empty ledger, removed at the end."""
    url = fresh_url()
    JobStore.open(url, migrate=True).close()
    yield Ledger(url, place_of(url).schema)
    dropped(url)


@pytest.fixture
def store(ledger: Ledger) -> Iterator[JobStore]:
    """A store on it."""
    with ledger.open() as opened:
        yield opened
