"""Cursors: places in a list as opaque text that its store has signed, so that none is forged or taken elsewhere."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Any, Final, cast

from jobledger.domain.errors import UnknownCursorError

if TYPE_CHECKING:
    from jobledger.domain.values import Json

CURSOR_CHARACTERS_MAX: Final = 2_400
"""No cursor of ours is longer."""

FEED: Final = "feed"
"""What the whole log is called as a list."""

VERSION: Final = 2
MARK_BYTES: Final = 16


class Cursors:
    """Gives and reads the cursors of one namespace of one store."""

    def __init__(self, secret: bytes, namespace: str) -> None:
        """Sign with the store's secret."""
        self._secret, self._space = secret, namespace.encode() + b"\0"

    def give(self, of: str, place: Json) -> str:
        """A place in the list ``of`` that name as text."""
        told = json.dumps({"v": VERSION, "of": of, "at": place}, separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(self._mark(told) + told).decode().rstrip("=")

    def place(self, of: str, cursor: str | None) -> Json:
        """The place that a cursor stands for; ``None`` (of ``None``) is the beginning.

        Raises:
            UnknownCursorError: this list of this namespace and store did not give it.
        """
        if cursor is None:
            return None
        mark, told = _parts(of, cursor)
        if not hmac.compare_digest(mark, self._mark(told)):
            raise UnknownCursorError(of)
        place = _read(of, told)
        if place["of"] != of:
            raise UnknownCursorError(of, str(place["of"]))
        return place["at"]

    def give_position(self, of: str, position: int) -> str:
        """A place in the feed as text (inside: one position for each shard, today one shard)."""
        return self.give(of, {"0": position})

    def position(self, of: str, cursor: str | None) -> int:
        """The place in the feed that a cursor stands for; ``None`` is the beginning.

        Raises:
            UnknownCursorError: this list of this namespace and store did not give it.
        """
        return 0 if cursor is None else position_at(self.place(of, cursor))

    def _mark(self, told: bytes) -> bytes:
        return hmac.digest(self._secret, self._space + told, hashlib.sha256)[:MARK_BYTES]


def unproven(cursor: str) -> Json:
    """The place that a cursor names, whoever made it: for comparing cursors that a store gave.

    Raises:
        UnknownCursorError: the text is no cursor.
    """
    return _read(FEED, _parts(FEED, cursor)[1])["at"]


def position_at(place: Json) -> int:
    """The position that stands in a cursor.

    Raises:
        UnknownCursorError: none does.
    """
    found: Any = cast("dict[str, Any]", place).get("0") if isinstance(place, dict) else None
    if type(found) is not int or not 0 <= found < 2**63:
        raise UnknownCursorError
    return found


def _parts(of: str, cursor: str) -> tuple[bytes, bytes]:
    """The signature of a cursor, and what is signed."""
    if not isinstance(cursor, str) or len(cursor) > CURSOR_CHARACTERS_MAX:
        raise UnknownCursorError(of)
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        whole = base64.b64decode(padded, altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise UnknownCursorError(of) from None
    return whole[:MARK_BYTES], whole[MARK_BYTES:]


def _read(of: str, told: bytes) -> dict[str, Any]:
    try:
        read: Any = json.loads(told)
    except (ValueError, RecursionError):
        raise UnknownCursorError(of) from None
    place = cast("dict[str, Any]", read) if isinstance(read, dict) else {}
    if set(place) != {"v", "of", "at"} or place["v"] != VERSION:
        raise UnknownCursorError(of)
    return place
