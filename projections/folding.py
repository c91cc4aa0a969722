"""What a projection is: a fold of the feed into rows, each a JSON value under a key, and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pydantic_core import from_json, to_json

from jobledger.domain.errors import HistoryCorruptError
from jobledger.domain.events import Event
from jobledger.domain.history import TOPIC_OF

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jobledger.domain.history import RecordedEvent
    from jobledger.domain.values import Json

Key = tuple[str, ...]
"""A row's place: the kind of row first, then names. Rows stand in the order of their keys, part by part."""

PART_BYTES_MAX: Final = 200
"""A longer part of a key is shortened, so that an index can hold a key of eight parts."""

_KEPT_BYTES: Final = 100


def decoded(kind: str, value: bytes | None) -> Json:
    """A row's value, if there is one.

    Raises:
        HistoryCorruptError: it is not what a fold wrote.
    """
    try:
        return None if value is None else from_json(value)
    except ValueError as error:
        raise HistoryCorruptError(kind, 0, "a row of a projection cannot be read; rebuild the projection") from error


class Rows:
    """The rows of one build, as the events before have left them; what is put here is written with the batch.

    A value is plain JSON. What ``get`` answers may be changed and put again, but not changed alone.
    """

    def __init__(
        self, fetch: Callable[[Sequence[bytes]], dict[bytes, bytes]], known: dict[Key, Json] | None = None
    ) -> None:
        """Read unknown rows by ``fetch``; ``known`` are those that the batches before have read or written."""
        self._fetch = fetch
        self.known: dict[Key, Json] = {} if known is None else known
        self._changed: set[Key] = set()

    def look_up(self, keys: Iterable[Key]) -> None:
        """Read many rows at once that are going to be asked for."""
        wanted = {key: encode_key(key) for key in keys if key not in self.known}
        if wanted:
            found = self._fetch(list(wanted.values()))
            for key, encoded in wanted.items():
                self.known[key] = decoded(key[0], found.get(encoded))

    def get(self, *key: str) -> Json:
        """A row's value; ``None`` where there is no such row."""
        if key not in self.known:
            self.look_up([key])
        return self.known[key]

    def put(self, value: Json, *key: str) -> None:
        """Write a row."""
        self.known[key] = value
        self._changed.add(key)

    def drop(self, *key: str) -> None:
        """Remove a row, if it is there."""
        self.known[key] = None
        self._changed.add(key)

    def changes(self) -> dict[bytes, bytes | None]:
        """Every row that was put, encoded; ``None`` for those that were removed."""
        known = self.known
        return {encode_key(key): None if known[key] is None else to_json(known[key]) for key in self._changed}


Fold = Callable[[Rows, "RecordedEvent"], None]


@dataclass(frozen=True, kw_only=True)
class Projection:
    """A read model that follows the feed: a pure fold, and the events that it looks at.

    ``version`` is raised with every change of what the fold makes of the same events: a runner then builds anew beside
    the live one, and swaps. ``folds`` has a function for each kind of event; other events are passed over.
    """

    name: str
    version: int
    folds: Mapping[type[Event], Fold]
    topics: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        """Know the topics of the events."""
        object.__setattr__(self, "topics", frozenset(TOPIC_OF[event] for event in self.folds))


def encode_key(key: Key) -> bytes:
    """A key as bytes that stand in the order of its parts (long ones in that of their beginnings)."""
    joined = "\0".join(key).encode()
    return joined if len(joined) <= PART_BYTES_MAX else b"\0".join(_shortened(part.encode()) for part in key)


def _shortened(part: bytes) -> bytes:
    """The beginning of a long part, and a digest of the whole."""
    if len(part) <= PART_BYTES_MAX:
        return part
    return part[:_KEPT_BYTES] + hashlib.sha256(part).hexdigest().encode()


def below(*key: str) -> tuple[bytes, bytes]:
    """The bytes before and behind all keys that begin with these parts and have more."""
    start = encode_key(key)
    return start + b"\0", start + b"\1"


def ordered(number: int) -> str:
    """A whole number from 0 to 2^63 as text that stands in its order."""
    return f"{number:019d}"


def newest_first(number: int) -> str:
    """A whole number from 0 to 2^63 as text that stands in the opposite order."""
    return ordered(2**63 - 1 - number)
