"""Projections in a SQLite store: their tracking and rows, read in a view and moved in a transaction."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final, LiteralString

from jobledger.adapters.storage.rows import as_bytes
from jobledger.adapters.storage.sqlite_reading import SQLiteRows
from jobledger.adapters.storage.tracking_rows import decode_tracked, stands_as, tracked_row
from jobledger.domain.errors import HistoryCorruptError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobledger.domain.tracking import Tracked


class SQLiteTrackingReader(SQLiteRows):
    """Reads projections within one transaction."""

    # By the log's rowid.
    LOG_END: Final[LiteralString] = "SELECT coalesce(max(rowid), 0) AS position FROM stored_events"

    def log_end(self) -> int:
        """The position up to which nothing further will appear: one writer at a time, so nothing comes in between."""
        [row] = self._all(self.LOG_END)
        position: int = row["position"]
        return position

    SECRET: Final[LiteralString] = "SELECT secret FROM store_secret WHERE name = :name"  # noqa: S105  # a statement

    def secret(self, name: str) -> bytes:
        """A secret of this store."""
        row = self._one(self.SECRET, name=name)
        if row is None:
            raise HistoryCorruptError(name, 0, f"the store's secret {name!r} is missing")
        return as_bytes(row["secret"])

    TRACKED: Final[LiteralString] = "SELECT * FROM projection ORDER BY name, build"

    def tracked(self) -> list[Tracked]:
        """Every build of every projection, by name and number."""
        return [decode_tracked(dict(row)) for row in self._all(self.TRACKED)]

    # By the primary key.
    PROJECTED: Final[LiteralString] = """
        SELECT value FROM projection_row WHERE name = :name AND build = :build AND key = :key
    """

    def projected(self, projection: str, build: int, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Rows of a build by key; unknown keys are missing."""
        found: dict[bytes, bytes] = {}
        for key in keys:
            row = self._one(self.PROJECTED, name=projection, build=build, key=key)
            if row is not None:
                found[key] = as_bytes(row["value"])
        return found

    # By the primary key.
    PROJECTED_BETWEEN: Final[LiteralString] = """
        SELECT key, value FROM projection_row
        WHERE name = :name AND build = :build AND key > :after AND key < :before
        ORDER BY key LIMIT :limit
    """

    def projected_between(
        self, projection: str, build: int, *, after: bytes, before: bytes, limit: int
    ) -> list[tuple[bytes, bytes]]:
        """Rows of a build with ``after < key < before``, in the order of the keys' bytes, at most ``limit``."""
        place = {"name": projection, "build": build, "after": after, "before": before, "limit": limit}
        return [(as_bytes(row["key"]), as_bytes(row["value"])) for row in self._all(self.PROJECTED_BETWEEN, **place)]


class SQLiteTrackingSession(SQLiteTrackingReader):
    """Moves projections in a transaction that holds the write lock: what it compares stays true until it ends."""

    STANDING: Final[LiteralString] = "SELECT * FROM projection WHERE name = :name AND build = :build"
    LEAVE: Final[LiteralString] = (
        "UPDATE projection SET is_live = 0 WHERE name = :name AND build <> :build AND is_live = 1"
    )
    PUT_TRACKED: Final[LiteralString] = """
        INSERT INTO projection (name, build, version, is_live, position, runner, moved_at_us, trouble)
        VALUES (:name, :build, :version, :is_live, :position, :runner, :moved_at_us, :trouble)
        ON CONFLICT (name, build) DO UPDATE SET
            version = excluded.version, is_live = excluded.is_live, position = excluded.position,
            runner = excluded.runner, moved_at_us = excluded.moved_at_us, trouble = excluded.trouble
    """
    PUT_ROW: Final[LiteralString] = """
        INSERT INTO projection_row (name, build, key, value) VALUES (?, ?, ?, ?)
        ON CONFLICT (name, build, key) DO UPDATE SET value = excluded.value
    """
    DROP_ROW: Final[LiteralString] = "DELETE FROM projection_row WHERE name = ? AND build = ? AND key = ?"

    def move_projection(
        self, seen: Tracked | None, moved: Tracked, rows: Mapping[bytes, bytes | None] | None = None
    ) -> bool:
        """Write a build's tracking and rows, if it still stands as it was ``seen``; whether it did."""
        name, build = moved.projection, moved.build
        standing = self._one(self.STANDING, name=name, build=build)
        if (seen is None) != (standing is None):
            return False
        if seen is not None and standing is not None and not stands_as(decode_tracked(dict(standing)), seen):
            return False
        if moved.is_live:
            self._execute(self.LEAVE, name=name, build=build)
        self._execute(self.PUT_TRACKED, **tracked_row(moved))
        changed = rows or {}
        self._many(self.PUT_ROW, [(name, build, key, value) for key, value in changed.items() if value is not None])
        self._many(self.DROP_ROW, [(name, build, key) for key, value in changed.items() if value is None])
        return True

    def _many(self, statement: LiteralString, rows: Sequence[tuple[object, ...]]) -> None:
        try:
            self._raw.executemany(statement, rows)
        except sqlite3.Error as error:
            raise self._failed(error) from error

    # By the primary key.
    DROP_ROWS: Final[LiteralString] = """
        DELETE FROM projection_row WHERE name = :name AND build = :build AND key IN (
            SELECT key FROM projection_row WHERE name = :name AND build = :build LIMIT :limit
        )
    """
    DROP_TRACKED: Final[LiteralString] = """
        DELETE FROM projection WHERE name = :name AND build = :build AND is_live = 0 AND NOT EXISTS (
            SELECT 1 FROM projection_row AS r WHERE r.name = :name AND r.build = :build
        )
    """

    def drop_projected(self, projection: str, build: int, limit: int) -> int:
        """Remove at most ``limit`` rows of a build that is not live, and with the last of them its tracking."""
        standing = self._one(self.STANDING, name=projection, build=build)
        if standing is None or standing["is_live"]:
            return 0
        dropped = self._execute(self.DROP_ROWS, name=projection, build=build, limit=limit).rowcount
        self._execute(self.DROP_TRACKED, name=projection, build=build)
        return dropped
