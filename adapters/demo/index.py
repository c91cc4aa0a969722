"""A full-text index in SQLite, built batch by batch; building a batch again leaves what building it once leaves.

It is the application's own database, apart from the store: a batch and its checkpoint cannot commit together. What
makes a repeated batch harmless is that its rows are replaced, by batch and path, in one transaction.
"""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, LiteralString

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from jobledger.adapters.demo.corpus import Source

SCHEMA: Final[LiteralString] = """
    CREATE TABLE plan (batch INTEGER NOT NULL, path TEXT NOT NULL, module TEXT NOT NULL, PRIMARY KEY (batch, path));
    CREATE TABLE documents (
        id INTEGER PRIMARY KEY, batch INTEGER NOT NULL, path TEXT NOT NULL UNIQUE, module TEXT NOT NULL,
        bytes INTEGER NOT NULL, digest TEXT NOT NULL
    );
    CREATE INDEX documents_by_batch ON documents (batch);
    CREATE TABLE runs (
        number INTEGER PRIMARY KEY, batch INTEGER NOT NULL, worker TEXT NOT NULL, generation INTEGER NOT NULL,
        documents INTEGER NOT NULL, digest TEXT NOT NULL
    );
    CREATE VIRTUAL TABLE pages USING fts5 (module, text, tokenize = 'porter unicode61');
"""
"""``runs`` is written in the transaction of the rows it tells of, so it is the evidence of how often a batch ran."""

SELECT_HITS: Final[LiteralString] = """
    SELECT module, snippet(pages, 1, '«', '»', ' … ', 14) FROM pages WHERE pages MATCH :query
    ORDER BY bm25(pages, 5.0, 1.0) LIMIT :limit
"""

WAIT_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class BatchReceipt:
    """What a batch left in the index: how many documents of how many bytes, and one digest over them."""

    documents: int
    bytes: int
    digest: str


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a batch, as the index itself tells of it."""

    batch: int
    worker: str
    generation: int
    documents: int
    digest: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A module that answers a query, and the place in it that does."""

    module: str
    snippet: str


def has_full_text_search() -> bool:
    """Whether this build of SQLite can make such an index."""
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE probe USING fts5 (text)")
        except sqlite3.OperationalError:
            return False
    return True


class Index:
    """The index in one file; each call has its own connection and transaction, so any process may use it."""

    def __init__(self, path: Path | str) -> None:
        """Use the index in this file; ``make`` makes it."""
        self._path = path

    def make(self, batches: list[list[Source]]) -> None:
        """Make an empty index, with the plan of what belongs to which batch."""
        with closing(self._connect()) as connection:
            connection.executescript(f"PRAGMA journal_mode = WAL; {SCHEMA}")
        rows = [(batch, str(source.path), source.module) for batch, found in enumerate(batches) for source in found]
        with self._writing() as connection:
            connection.executemany("INSERT INTO plan (batch, path, module) VALUES (?, ?, ?)", rows)

    def rebuild_batch(self, batch: int, *, worker: str, generation: int) -> BatchReceipt:
        """Replace a batch's rows by the documents of its plan, in one transaction, and put the run on record."""
        with closing(self._connect()) as connection:
            plan = connection.execute(
                "SELECT path, module FROM plan WHERE batch = ? ORDER BY path", (batch,)
            ).fetchall()
        documents = [(path, module, *_contents(path)) for path, module in plan]
        receipt = _receipt(documents)
        with self._writing() as connection:
            old = "SELECT id FROM documents WHERE batch = ?"
            connection.execute(f"DELETE FROM pages WHERE rowid IN ({old})", (batch,))  # noqa: S608  # a constant
            connection.execute("DELETE FROM documents WHERE batch = ?", (batch,))
            for path, module, text, size, digest in documents:
                row = connection.execute(
                    "INSERT INTO documents (batch, path, module, bytes, digest) VALUES (?, ?, ?, ?, ?)",
                    (batch, path, module, size, digest),
                )
                connection.execute(
                    "INSERT INTO pages (rowid, module, text) VALUES (?, ?, ?)", (row.lastrowid, module, text)
                )
            connection.execute(
                "INSERT INTO runs (batch, worker, generation, documents, digest) VALUES (?, ?, ?, ?, ?)",
                (batch, worker, generation, receipt.documents, receipt.digest),
            )
        return receipt

    def runs(self, batch: int | None = None) -> list[Run]:
        """Every run that is on record, in its order, of one batch or of all."""
        statement = (
            "SELECT batch, worker, generation, documents, digest FROM runs WHERE :batch IS NULL OR batch = :batch"
            " ORDER BY number"
        )
        with closing(self._connect()) as connection:
            return [Run(*row) for row in connection.execute(statement, {"batch": batch})]

    def documents(self, batch: int | None = None) -> int:
        """How many documents the index holds, of one batch or of all."""
        statement = "SELECT count(*) FROM documents WHERE :batch IS NULL OR batch = :batch"
        with closing(self._connect()) as connection:
            count: int = connection.execute(statement, {"batch": batch}).fetchone()[0]
        return count

    def planned(self) -> int:
        """How many documents the plan asks for."""
        with closing(self._connect()) as connection:
            count: int = connection.execute("SELECT count(*) FROM plan").fetchone()[0]
        return count

    def changed(self, batch: int) -> int:
        """How many documents of a batch differ from their files now."""
        with closing(self._connect()) as connection:
            rows = connection.execute("SELECT path, digest FROM documents WHERE batch = ?", (batch,)).fetchall()
        return sum(_contents(path)[2] != digest for path, digest in rows)

    def search(self, query: str, limit: int = 5) -> list[Hit]:
        """The modules that hold all words of a query, the best first."""
        words = " ".join('"' + word.replace('"', '""') + '"' for word in query.replace("\0", " ").split())
        if not words:
            return []
        with closing(self._connect()) as connection:
            return [Hit(*row) for row in connection.execute(SELECT_HITS, {"query": words, "limit": limit})]

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=WAIT_SECONDS, isolation_level=None)
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    @contextmanager
    def _writing(self) -> Generator[sqlite3.Connection, None, None]:
        with closing(self._connect()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")  # an exception on the way here closes the connection, which rolls back


def _contents(path: str) -> tuple[str, int, str]:
    """A file's text, size and digest; a file that was taken away meanwhile is an empty one."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123  # the plan holds plain texts
            raw = file.read()
    except OSError:
        raw = b""
    return raw.decode("utf-8", "replace"), len(raw), hashlib.sha256(raw).hexdigest()


def _receipt(documents: list[tuple[str, str, str, int, str]]) -> BatchReceipt:
    digest = hashlib.sha256()
    for path, _, _, _, document in documents:
        digest.update(f"{path}\0{document}\n".encode())
    return BatchReceipt(len(documents), sum(row[3] for row in documents), digest.hexdigest())
