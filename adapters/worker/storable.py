"""Values of handlers as the JSON that is stored: plain values as they are, models and dataclasses by their fields."""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticSerializationError

from jobledger.domain.bounds import require_storable
from jobledger.domain.errors import UnstorableValueError
from jobledger.domain.values import Json, encode_json


@lru_cache(maxsize=256)
def _adapter_of(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def plain(what: str, value: Any) -> Json:
    """A value without a declared type: a pydantic model or a dataclass becomes an object, all else must be plain JSON.

    Raises:
        UnstorableValueError: it is not; nothing is converted silently.
    """
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


def load(adapter: TypeAdapter[Any], stored: Json) -> Any:
    """Read a stored value as a declared type.

    Raises:
        pydantic.ValidationError: it does not fit.
    """
    return adapter.validate_json(encode_json(stored))
