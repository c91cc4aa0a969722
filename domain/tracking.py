"""What projections that follow the feed need from a storage: their rows, and how far each has read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime  # pydantic resolves the annotations when it reads a stored trouble
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from jobledger.domain.events import STORED_SHAPE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CURSOR_SECRET: Final = "cursors"  # noqa: S105  # the name of a secret, not one
"""The secret under which a store signs the cursors that it gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """The event that a projection could not fold, and why; it reads on when it is released."""

    __pydantic_config__: ClassVar[Any] = STORED_SHAPE
    position: int
    stream: str
    sequence: int
    topic: str
    error: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracked:
    """One build of a projection: everything up to ``position`` is folded into its rows, and nothing behind it.

    The live build is the one that is read; another one is under construction. ``runner`` moved it last, at
    ``moved_at`` by the store's clock. With a ``trouble`` it is parked before that event.
    """

    projection: str
    build: int
    version: int
    is_live: bool
    position: int
    runner: str
    moved_at: datetime
    trouble: Trouble | None = None


class TrackingReader(Protocol):
    """What a consistent view of a store tells of projections."""

    def log_end(self) -> int:
        """The position up to which nothing further will appear; 0 for an empty log."""
        ...

    def secret(self, name: str) -> bytes:
        """A secret of this store, made with its schema; no other store has it.

        Raises:
            HistoryCorruptError: it is missing.
        """
        ...

    def tracked(self) -> list[Tracked]:
        """Every build of every projection, by name and number."""
        ...

    def projected(self, projection: str, build: int, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Rows of a build by key; unknown keys are missing."""
        ...

    def projected_between(
        self, projection: str, build: int, *, after: bytes, before: bytes, limit: int
    ) -> list[tuple[bytes, bytes]]:
        """Rows of a build with ``after < key < before``, in the order of the keys' bytes, at most ``limit``."""
        ...


class TrackingWriter(Protocol):
    """What a transaction writes of projections."""

    def move_projection(
        self, seen: Tracked | None, moved: Tracked, rows: Mapping[bytes, bytes | None] | None = None
    ) -> bool:
        """Write a build's tracking and rows (``None``: removed), if it still stands as it was ``seen``; whether it did.

        ``None`` for ``seen``: it must not exist. A build that becomes live is the only live one from then on.
        """
        ...

    def drop_projected(self, projection: str, build: int, limit: int) -> int:
        """Remove at most ``limit`` rows of a build that is not live, and with the last of them its tracking."""
        ...
