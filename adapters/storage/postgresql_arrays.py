"""Columns of many rows as PostgreSQL's binary arrays, which one call can carry hundreds of; and whole numbers."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from psycopg.adapt import Dumper
from psycopg.pq import Format

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from psycopg.abc import AdaptContext

_HEADER: Final = struct.Struct(">iiIii")
"""Dimensions (one), whether there are NULLs (it is only a hint), the element's type, the length, the first index."""

_LENGTH: Final = struct.Struct(">i")
_INTEGER: Final = struct.Struct(">iq")
_NUMBER: Final = struct.Struct(">q")
_NULL: Final = _LENGTH.pack(-1)
_TRUE: Final = b"\0\0\0\1\1"
_FALSE: Final = b"\0\0\0\1\0"

_BOOL, _BYTEA, _INT8, _TEXT = 16, 17, 20, 25
_BOOLS, _BYTEAS, _INT8S, _TEXTS = 1000, 1001, 1016, 1009


class Texts(bytes):
    """An encoded ``text[]``."""


class Bytes(bytes):
    """An encoded ``bytea[]``."""


class Integers(bytes):
    """An encoded ``bigint[]``."""


class Booleans(bytes):
    """An encoded ``boolean[]``."""


class Integer(bytes):
    """An encoded ``bigint``: a statement is prepared once, not once for each size that a number may have."""


def texts(values: Sequence[str | None]) -> Texts:
    """A column of texts."""
    return Texts(_header(_TEXT, len(values)) + _elements(values, _text))


def byte_strings(values: Sequence[bytes]) -> Bytes:
    """A column of byte strings."""
    pack = _LENGTH.pack
    return Bytes(
        b"".join([_header(_BYTEA, len(values)), *[part for each in values for part in (pack(len(each)), each)]])
    )


def integers(values: Sequence[int | None]) -> Integers:
    """A column of whole numbers of 64 bits."""
    return Integers(_header(_INT8, len(values)) + _elements(values, _integer))


def booleans(values: Sequence[bool]) -> Booleans:
    """A column of truth values."""
    return Booleans(_header(_BOOL, len(values)) + b"".join([_TRUE if value else _FALSE for value in values]))


def integer(value: int | None) -> Integer | None:
    """A whole number of 64 bits."""
    return None if value is None else Integer(_NUMBER.pack(value))


def _header(element: int, length: int) -> bytes:
    return _HEADER.pack(1, 1, element, length, 1)


def _elements(values: Sequence[Any], encode: Callable[[Any], bytes]) -> bytes:
    """The elements of a column; most columns of a batch say the same in each row, and are encoded once."""
    if values and values.count(values[0]) == len(values):
        return encode(values[0]) * len(values)
    return b"".join(map(encode, values))


def _text(value: str | None) -> bytes:
    if value is None:
        return _NULL
    encoded = value.encode()
    return _LENGTH.pack(len(encoded)) + encoded


def _integer(value: int | None) -> bytes:
    return _NULL if value is None else _INTEGER.pack(8, value)


class _EncodedDumper(Dumper):
    """Hands over what is encoded already."""

    format = Format.BINARY

    def dump(self, obj: Any) -> bytes:
        """The bytes themselves."""
        return obj  # type: ignore[no-any-return]  # one of the five classes above, which are bytes


class _TextsDumper(_EncodedDumper):
    oid = _TEXTS


class _BytesDumper(_EncodedDumper):
    oid = _BYTEAS


class _IntegersDumper(_EncodedDumper):
    oid = _INT8S


class _BooleansDumper(_EncodedDumper):
    oid = _BOOLS


class _IntegerDumper(_EncodedDumper):
    oid = _INT8


def register_arrays(context: AdaptContext) -> None:
    """Let a connection, or a cursor, take encoded arrays as arguments."""
    for kind, dumper in (
        (Texts, _TextsDumper),
        (Bytes, _BytesDumper),
        (Integers, _IntegersDumper),
        (Booleans, _BooleansDumper),
        (Integer, _IntegerDumper),
    ):
        context.adapters.register_dumper(kind, dumper)
