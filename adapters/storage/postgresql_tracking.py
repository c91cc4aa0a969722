"""Projections in a PostgreSQL store: their tracking and rows, read in a view and moved in a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, LiteralString

from jobledger.adapters.storage.postgresql_arrays import byte_strings
from jobledger.adapters.storage.postgresql_listing import PostgreSQLLister
from jobledger.adapters.storage.postgresql_reading import PostgreSQLRows, Row
from jobledger.adapters.storage.tracking_rows import decode_tracked, stands_as, tracked_row
from jobledger.domain.errors import HistoryCorruptError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobledger.domain.tracking import Tracked

_COLUMNS: Final = ("name", "build", "version", "is_live", "position", "runner", "moved_at_us", "trouble")


class PostgreSQLTrackingReader(PostgreSQLLister):
    """Reads projections within one transaction."""

    def log_end(self) -> int:
        """The position up to which nothing further will appear to this view."""
        return self._upto()

    SECRET: Final[LiteralString] = "SELECT secret FROM jobledger.store_secret WHERE name = %(name)s"  # noqa: S105  # a statement

    def secret(self, name: str) -> bytes:
        """A secret of this store."""
        row = self._one(self.SECRET, name=name)
        if row is None:
            raise HistoryCorruptError(name, 0, f"the store's secret {name!r} is missing")
        secret: bytes = row[0]
        return secret

    SELECT_TRACKED: Final[LiteralString] = """
        SELECT name, build, version, is_live, position, runner, moved_at_us, trouble FROM jobledger.projection
    """

    def tracked(self) -> list[Tracked]:
        """Every build of every projection, by name and number."""
        return [_tracked(row) for row in self._all(self.SELECT_TRACKED + " ORDER BY name, build")]

    # By the primary key.
    PROJECTED: Final[LiteralString] = """
        SELECT key, value FROM jobledger.projection_row
        WHERE name = %(name)s AND build = %(build)s AND key = ANY(%(keys)s)
    """

    def projected(self, projection: str, build: int, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Rows of a build by key; unknown keys are missing."""
        rows = self._all(self.PROJECTED, name=projection, build=build, keys=byte_strings(keys))
        return {key: value for key, value in rows}  # noqa: C416  # dict() would lose the rows' types

    # By the primary key.
    PROJECTED_BETWEEN: Final[LiteralString] = """
        SELECT key, value FROM jobledger.projection_row
        WHERE name = %(name)s AND build = %(build)s AND key > %(after)s AND key < %(before)s
        ORDER BY key LIMIT %(limit)s
    """

    def projected_between(
        self, projection: str, build: int, *, after: bytes, before: bytes, limit: int
    ) -> list[tuple[bytes, bytes]]:
        """Rows of a build with ``after < key < before``, in the order of the keys' bytes, at most ``limit``."""
        place = {"name": projection, "build": build, "after": after, "before": before, "limit": limit}
        return [(key, value) for key, value in self._all(self.PROJECTED_BETWEEN, **place)]


class PostgreSQLTrackingSession(PostgreSQLRows):
    """Moves projections; a build's row is locked from the comparison on, so that of two who move it one is refused."""

    STANDING: Final[LiteralString] = (
        PostgreSQLTrackingReader.SELECT_TRACKED + " WHERE name = %(name)s AND build = %(build)s FOR NO KEY UPDATE"
    )
    LEAVE: Final[LiteralString] = """
        UPDATE jobledger.projection SET is_live = false WHERE name = %(name)s AND build <> %(build)s AND is_live
    """
    MAKE: Final[LiteralString] = """
        INSERT INTO jobledger.projection (name, build, version, is_live, position, runner, moved_at_us, trouble)
        VALUES (
            %(name)s, %(build)s, %(version)s, %(is_live)s, %(position)s, %(runner)s, %(moved_at_us)s, %(trouble)s
        )
        ON CONFLICT DO NOTHING RETURNING build
    """
    MOVE: Final[LiteralString] = """
        UPDATE jobledger.projection SET
            version = %(version)s, is_live = %(is_live)s, position = %(position)s, runner = %(runner)s,
            moved_at_us = %(moved_at_us)s, trouble = %(trouble)s
        WHERE name = %(name)s AND build = %(build)s
    """
    PUT_ROWS: Final[LiteralString] = """
        INSERT INTO jobledger.projection_row (name, build, key, value)
        SELECT %(name)s, %(build)s, r.key, r.value FROM unnest(%(keys)s, %(rows)s) AS r (key, value)
        ON CONFLICT (name, build, key) DO UPDATE SET value = excluded.value
    """
    DROP_KEYS: Final[LiteralString] = """
        DELETE FROM jobledger.projection_row
        WHERE name = %(name)s AND build = %(build)s AND key = ANY(%(keys)s)
    """

    def move_projection(
        self, seen: Tracked | None, moved: Tracked, rows: Mapping[bytes, bytes | None] | None = None
    ) -> bool:
        """Write a build's tracking and rows, if it still stands as it was ``seen``; whether it did."""
        place: dict[str, object] = {"name": moved.projection, "build": moved.build}
        if seen is not None:
            standing = self._one(self.STANDING, **place)
            if standing is None or not stands_as(_tracked(standing), seen):
                return False
        if moved.is_live:
            self._execute(self.LEAVE, place)
        if seen is not None:
            self._execute(self.MOVE, tracked_row(moved))
        elif not self._all(self.MAKE, **tracked_row(moved)):
            return False
        changed = rows or {}
        if put := {key: value for key, value in changed.items() if value is not None}:
            columns = {"keys": byte_strings(list(put)), "rows": byte_strings(list(put.values()))}
            self._execute(self.PUT_ROWS, {**place, **columns})
        if dropped := [key for key, value in changed.items() if value is None]:
            self._execute(self.DROP_KEYS, {**place, "keys": byte_strings(dropped)})
        return True

    DROP_ROWS: Final[LiteralString] = """
        WITH dropped AS (
            DELETE FROM jobledger.projection_row WHERE name = %(name)s AND build = %(build)s AND key = ANY(ARRAY(
                SELECT key FROM jobledger.projection_row WHERE name = %(name)s AND build = %(build)s LIMIT %(limit)s
            )) RETURNING 1
        )
        SELECT count(*) FROM dropped
    """
    DROP_TRACKED: Final[LiteralString] = """
        DELETE FROM jobledger.projection WHERE name = %(name)s AND build = %(build)s AND NOT is_live AND NOT EXISTS (
            SELECT 1 FROM jobledger.projection_row AS r WHERE r.name = %(name)s AND r.build = %(build)s
        )
    """

    def drop_projected(self, projection: str, build: int, limit: int) -> int:
        """Remove at most ``limit`` rows of a build that is not live, and with the last of them its tracking."""
        place: dict[str, object] = {"name": projection, "build": build}
        standing = self._one(self.STANDING, **place)
        if standing is None or _tracked(standing).is_live:
            return 0
        [(dropped,)] = self._all(self.DROP_ROWS, **place, limit=limit)
        self._execute(self.DROP_TRACKED, place)
        return int(dropped)


def _tracked(row: Row) -> Tracked:
    return decode_tracked(dict(zip(_COLUMNS, row, strict=True)))
