"""Hypothesis strategies for any event, read off the types of its fields."""

from __future__ import annotations

import enum
import types
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from jobledger.domain.bounds import INTEGER_MAX, INTEGER_MIN
from jobledger.domain.values import Body, keep

Kind = TypeVar("Kind")

TEXTS: Final = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
LEAVES: Final = (
    st.none()
    | st.booleans()
    | st.integers(INTEGER_MIN, INTEGER_MAX)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
JSON: Final = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4)
)
INSTANTS: Final = st.datetimes(datetime(1970, 1, 1), datetime(9998, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001  # the zone is set by the strategy
BODIES: Final = (JSON | st.text("ab", min_size=4_095, max_size=4_100)).map(lambda value: keep("value", value).body)

PLAIN: Final[dict[Any, st.SearchStrategy[Any]]] = {
    str: TEXTS,
    bool: st.booleans(),
    int: st.integers(0, INTEGER_MAX),
    float: st.floats(0, allow_infinity=False),
    datetime: INSTANTS,
    timedelta: st.timedeltas(timedelta(0), timedelta(days=3_650)),
    type(None): st.none(),
    Any: JSON,
    Body: BODIES,
}


def any_of(kind: type[Kind]) -> st.SearchStrategy[Kind]:
    """Any value of a frozen dataclass, every field filled by its type."""
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # a dataclass
    return st.builds(kind, **{name: _of(hints[name]) for name in names})


def _of(hint: Any) -> st.SearchStrategy[Any]:
    if hint in PLAIN:
        return PLAIN[hint]
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return st.one_of([_of(part) for part in parts])
    if origin is Literal or (isinstance(hint, type) and issubclass(hint, enum.Enum)):
        return st.sampled_from(parts or list(hint))
    if origin is tuple:
        return st.lists(_of(parts[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(_of(parts[0]), _of(parts[1]), max_size=3)
    if is_dataclass(hint):
        return any_of(hint)  # type: ignore[arg-type]  # a class, not an instance
    raise LookupError(f"no strategy for {hint!r}; add one")
