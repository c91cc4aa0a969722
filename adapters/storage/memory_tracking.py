"""Projections in a store in memory: their tracking and rows, read in a view and moved in a draft."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from jobledger.adapters.storage.memory_tables import PROJECTED, TRACKED, Draft, View
from jobledger.adapters.storage.tracking_rows import stands_as

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobledger.adapters.storage.memory_recorders import MemoryLedgerRecorder
    from jobledger.domain.tracking import Tracked


class MemoryTrackingReader:
    """Reads projections in one view."""

    _view: View
    _recorder: MemoryLedgerRecorder
    _upto: int

    def log_end(self) -> int:
        """The position up to which nothing further will appear to this view."""
        return self._upto

    def secret(self, name: str) -> bytes:
        """A secret of this store."""
        return self._recorder.secret(name)

    def tracked(self) -> list[Tracked]:
        """Every build of every projection, by name and number."""
        return [tracked for _, tracked in sorted(self._view.items(TRACKED), key=lambda each: each[0])]

    def projected(self, projection: str, build: int, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Rows of a build by key; unknown keys are missing."""
        found = {key: self._view.get(PROJECTED, (projection, build, key)) for key in keys}
        return {key: value for key, value in found.items() if value is not None}

    def projected_between(
        self, projection: str, build: int, *, after: bytes, before: bytes, limit: int
    ) -> list[tuple[bytes, bytes]]:
        """Rows of a build with ``after < key < before``, in the order of the keys' bytes, at most ``limit``."""
        found = [
            (key, value)
            for (name, number, key), value in self._view.items(PROJECTED)
            if (name, number) == (projection, build) and after < key < before
        ]
        return sorted(found)[:limit]


class MemoryTrackingSession(MemoryTrackingReader):
    """Moves projections in a draft, which nobody else writes meanwhile."""

    _draft: Draft

    def move_projection(
        self, seen: Tracked | None, moved: Tracked, rows: Mapping[bytes, bytes | None] | None = None
    ) -> bool:
        """Write a build's tracking and rows, if it still stands as it was ``seen``; whether it did."""
        name, build = moved.projection, moved.build
        standing = self._draft.get(TRACKED, (name, build))
        if (seen is None) != (standing is None):
            return False
        if seen is not None and standing is not None and not stands_as(standing, seen):
            return False
        if moved.is_live:
            for place, other in self._draft.items(TRACKED):
                if place[0] == name and place[1] != build and other.is_live:
                    self._draft.put(TRACKED, place, replace(other, is_live=False))
        self._draft.put(TRACKED, (name, build), moved)
        for key, value in (rows or {}).items():
            if value is None:
                self._draft.drop(PROJECTED, (name, build, key))
            else:
                self._draft.put(PROJECTED, (name, build, key), value)
        return True

    def drop_projected(self, projection: str, build: int, limit: int) -> int:
        """Remove at most ``limit`` rows of a build that is not live, and with the last of them its tracking."""
        standing = self._draft.get(TRACKED, (projection, build))
        if standing is None or standing.is_live:
            return 0
        keys = [key for key, _ in self._draft.items(PROJECTED) if key[:2] == (projection, build)]
        for key in keys[:limit]:
            self._draft.drop(PROJECTED, key)
        if len(keys) <= limit:
            self._draft.drop(TRACKED, (projection, build))
        return min(limit, len(keys))
