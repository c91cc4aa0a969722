"""Values of handlers as the JSON that is stored: plain values as they are, models and dataclasses by their fields."""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticSerializationError

from jobledger.domain.bounds import require_storable, require_within
from jobledger.domain.errors import ResultTooLargeError, UnstorableValueError
from jobledger.domain.values import Json, encode_json

_SCALARS: Final = frozenset({str, int, float, bool})


@lru_cache(maxsize=256)
def _adapter_of(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def plain(what: str, value: Any) -> Json:
    """A value without a declared type: a pydantic model or a dataclass becomes an object, all else must be plain JSON.

    Raises:
        UnstorableValueError: it is not; nothing is converted silently.
    """
    if value is None or type(value) in _SCALARS:
        require_storable(what, value)
        return value
    if isinstance(value, BaseModel) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        return dump(what, _adapter_of(type(value)), value)
    require_storable(what, value)
    return value


def dump(what: str, adapter: TypeAdapter[Any], value: Any) -> Json:
    """A value of a declared type as JSON; the type reads it back equal.

    Raises:
        UnstorableValueError: the value is not of that type, or holds what no store may hold.
    """
    try:
        stored = adapter.dump_python(value, mode="json", by_alias=True, warnings="error")
    except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
        problem = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UnstorableValueError(what, what, f"not of its declared type ({problem})") from None
    require_storable(what, stored)
    return stored


def require_no_giant(value: Any, limit: int) -> None:
    """Refuse a result whose texts and items alone come to more than ``limit`` bytes, before anything is made of it.

    So a result of gigabytes costs no second copy of itself; what passes is measured exactly where it is stored.

    Raises:
        ResultTooLargeError: it is at least that large.
    """
    size, waiting = 0, [value]
    while waiting and size <= limit:
        each = waiting.pop()
        is_long = isinstance(each, str | bytes | bytearray | dict | list | tuple)
        size += len(each) + 2 if is_long else 1
        if size <= limit and isinstance(each, dict):
            waiting += [*each, *each.values()]
        elif size <= limit and isinstance(each, list | tuple):
            waiting += each
    require_within(ResultTooLargeError, size, limit)


def load(adapter: TypeAdapter[Any], stored: Json) -> Any:
    """Read a stored value as a declared type.

    Raises:
        pydantic.ValidationError: it does not fit.
    """
    return adapter.validate_json(encode_json(stored))
