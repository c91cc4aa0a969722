"""The bounds of everything that enters: one check for values, texts, sizes, spans and instants, before any effect.

Every face of jobledger calls these functions, so that a value is refused by the same name on every path and store.
"""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from jobledger.domain.errors import InvalidRequestError, UnstorableValueError
from jobledger.domain.errors.invalid import TooLargeError

if TYPE_CHECKING:
    from collections.abc import Callable

DEPTH_MAX: Final = 64
NODES_MAX: Final = 5_000_000
INTEGER_MIN: Final = -(2**63)
INTEGER_MAX: Final = 2**63 - 1
NUMBER_CHARACTERS_MAX: Final = 400

NAME_CHARACTERS_MAX: Final = 255
REASON_CHARACTERS_MAX: Final = 2_000
ERROR_CHARACTERS_MAX: Final = 8_000
LABELS_MAX: Final = 32
EFFECTS_MAX: Final = 100
BATCH_MAX: Final = 1_000
PAGE_MAX: Final = 1_000
NAMES_MAX: Final = 100
BOUNDARY_BYTES_MAX: Final = 64 * 1024
PATH_CHARACTERS_MAX: Final = 120
JSON_TEXT_BYTES_MAX: Final = 256 * 1024 * 1024

PRIORITY_MAX: Final = 2**31 - 1
SPAN_MAX: Final = timedelta(days=3650)
LEASE_MIN: Final = timedelta(seconds=1)
LEASE_MAX: Final = timedelta(hours=24)
INSTANT_MIN: Final = datetime(1970, 1, 1, tzinfo=UTC)
INSTANT_MAX: Final = datetime(9999, 1, 1, tzinfo=UTC)

_SURROGATE = re.compile("[\ud800-\udfff]")
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]', re.DOTALL)
"""A string, finished or not, or a bracket; no text makes it look at a character twice."""


def require_storable(what: str, value: object, *, enclosing: int = 0) -> None:
    """Require plain JSON that every store gives back equal: exact types, finite, bounded in depth and number.

    ``enclosing`` levels of the value are a document's own, around the values that are stored.

    Raises:
        UnstorableValueError: names the place and the problem. A tuple, a set, a subclass of ``str`` or ``int``, NaN,
            an infinity, an integer beyond 64 bit, NUL or a lone surrogate, or nesting deeper than ``DEPTH_MAX``.
    """
    if _is_storable(value):
        return
    # Something is wrong with it; who is told where pays for keeping the paths.
    waiting: list[tuple[object, str, int]] = [(value, what, 1)]
    nodes = 0
    while waiting:
        item, path, depth = waiting.pop()
        nodes += 1
        if nodes > NODES_MAX:
            raise UnstorableValueError(what, path, f"beyond {NODES_MAX:,} values")
        kind = type(item)
        if kind is dict or kind is list:
            if depth > DEPTH_MAX + enclosing:
                raise UnstorableValueError(what, _short(path), f"nested deeper than {DEPTH_MAX + enclosing} levels")
            waiting.extend(_children(what, item, path, depth))
        elif problem := _scalar_problem(item):
            raise UnstorableValueError(what, _short(path), problem)


def _is_storable(value: object) -> bool:
    """Whether a value is surely storable: the bounds of ``require_storable``, level by level and without a path."""
    level: list[Any] = [value]
    nodes = 1
    for _ in range(DEPTH_MAX):
        below: list[Any] = []
        for item in level:
            kind = type(item)  # pyright: ignore[reportUnknownVariableType]  # compared by identity alone
            if kind is dict:
                if any(type(key) is not str or text_problem(key) for key in item):
                    return False
                below.extend(item.values())
            elif kind is list:
                below.extend(item)
            elif _scalar_problem(item):
                return False
            if nodes + len(below) > NODES_MAX:
                return False
        if not below:
            return True
        nodes += len(below)
        level = below
    return False


def _children(what: str, item: Any, path: str, depth: int) -> list[tuple[object, str, int]]:
    if type(item) is list:
        children = cast("list[object]", item)
        return [(child, f"{path}[{index}]", depth + 1) for index, child in enumerate(children)]
    for key in item:
        if type(key) is not str:
            raise UnstorableValueError(what, _short(path), f"an object with a key of type {type(key).__name__}")
        if problem := text_problem(key):
            raise UnstorableValueError(what, _short(path), f"an object with a key that has {problem}")
    return [(child, f"{path}.{key}", depth + 1) for key, child in item.items()]


def _scalar_problem(item: object) -> str:
    """Say what is wrong with a leaf of a JSON value, or nothing."""
    kind = type(item)
    if kind is str:
        problem = text_problem(item)  # type: ignore[arg-type]  # its type was just compared
        return f"text with {problem}" if problem else ""
    if kind is bool or item is None:
        return ""
    if kind is int:
        return "" if INTEGER_MIN <= item <= INTEGER_MAX else "an integer beyond 64 bit"  # type: ignore[operator]  # an int
    if kind is float:
        return "" if math.isfinite(item) else "a number that is not finite"  # type: ignore[arg-type]  # a float
    return f"a Python {kind.__name__}, which JSON would not give back"


def _short(path: str) -> str:
    return path if len(path) <= PATH_CHARACTERS_MAX else f"{path[:60]}…{path[-50:]}"


def text_problem(text: str) -> str:
    """Say why no store may hold this text (NUL, a lone surrogate), or nothing."""
    if "\0" in text:
        return "a NUL character"
    if not text.isascii() and _SURROGATE.search(text):
        return "a lone surrogate"
    return ""


def require_text(field: str, value: object, longest: int = NAME_CHARACTERS_MAX, *, empty: bool = False) -> str:
    """Require a storable text of at most ``longest`` characters.

    Raises:
        UnstorableValueError: it has NUL or a lone surrogate.
        InvalidRequestError: it is no text, empty, or too long.
    """
    if type(value) is str and 0 < len(value) <= longest and value.isascii() and "\0" not in value and value[0] > " ":
        return value  # most names are, and each command has several
    if not isinstance(value, str):
        raise InvalidRequestError(field, f"a text is needed, not {type(value).__name__}")
    if problem := text_problem(value):
        raise UnstorableValueError(field, field, f"text with {problem}")
    if not value.strip() and not empty:
        raise InvalidRequestError(field, "it must not be empty")
    if len(value) > longest:
        raise InvalidRequestError(field, f"{len(value):,} characters, at most {longest:,} are allowed")
    return str(value)


def error_text(error: object) -> str:
    """Make any error report storable: visible escapes for NUL and surrogates, a visible mark where it was cut."""
    try:
        text = str(error)
    except Exception as problem:  # noqa: BLE001  # an error report must never fail, whatever its __str__ does
        text = f"(its text could not be made: {type(problem).__name__})"
    if isinstance(error, BaseException):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    text = _SURROGATE.sub(lambda found: f"\\u{ord(found.group()):04x}", text.replace("\0", "\\u0000"))
    if len(text) > ERROR_CHARACTERS_MAX:
        text = f"{text[:ERROR_CHARACTERS_MAX]}… ({len(text) - ERROR_CHARACTERS_MAX:,} characters cut)"
    return text or "(no text)"


def require_within(error: type[TooLargeError], size: int, limit: int) -> None:
    """Require that a value of ``size`` bytes of compact JSON is within ``limit`` bytes, or raise ``error``."""
    if size > limit:
        raise error(size, limit)


def require_count(field: str, count: int, longest: int) -> None:
    """Require at most ``longest`` items.

    Raises:
        InvalidRequestError: there are more.
    """
    if count > longest:
        raise InvalidRequestError(field, f"{count:,} items, at most {longest:,} are allowed; split the call")


def require_batch(field: str, items: object) -> list[Any]:
    """Require a batch of at most ``BATCH_MAX`` items, as a list or a tuple.

    Raises:
        InvalidRequestError: it is neither, or too long.
    """
    if not isinstance(items, list | tuple):
        raise InvalidRequestError(field, f"a list is needed, not {type(items).__name__}")
    batch = list(cast("list[Any]", items))
    require_count(field, len(batch), BATCH_MAX)
    return batch


def require_integer(field: str, value: object, least: int, most: int) -> int:
    """Require a whole number within a range (``True`` is no number).

    Raises:
        InvalidRequestError: it is no integer or outside ``least`` to ``most``.
    """
    if type(value) is not int:
        raise InvalidRequestError(field, f"a whole number is needed, not {type(value).__name__}")
    if not least <= value <= most:
        raise InvalidRequestError(field, f"{value} is outside {least} to {most}")
    return value


def require_flag(field: str, value: object) -> bool:
    """Require a truth value, and nothing that merely counts as one.

    Raises:
        InvalidRequestError: it is neither ``True`` nor ``False``.
    """
    if type(value) is not bool:
        raise InvalidRequestError(field, f"True or False is needed, not {value!r:.50}")
    return value


def require_names(field: str, values: object, longest: int = NAMES_MAX) -> list[str]:
    """Require a list of at most ``longest`` texts (a single text is no list).

    Raises:
        InvalidRequestError: it is no list or tuple, too long, or an item is empty or too long.
        UnstorableValueError: an item has NUL or a lone surrogate.
    """
    if not isinstance(values, list | tuple | set | frozenset):
        raise InvalidRequestError(field, f"a list of texts is needed, not {type(values).__name__}")
    names = list(cast("list[object]", values))
    require_count(field, len(names), longest)
    return [require_text(field, name) for name in names]


def require_span(field: str, value: object, least: timedelta = timedelta(0), most: timedelta = SPAN_MAX) -> timedelta:
    """Require a span of time: a ``timedelta``, or a plain number of seconds.

    Raises:
        InvalidRequestError: ``True``, text, NaN, or outside ``least`` to ``most``.
    """
    if type(value) in (int, float):
        if not abs(value) <= SPAN_MAX.total_seconds():  # type: ignore[arg-type]  # a number here; NaN compares false
            raise InvalidRequestError(field, f"that number of seconds is no span within {least} to {most}")
        value = timedelta(seconds=value)  # type: ignore[arg-type]  # a number here
    if not isinstance(value, timedelta):
        raise InvalidRequestError(field, f"a timedelta or a number of seconds is needed, not {type(value).__name__}")
    if not least <= value <= most:
        raise InvalidRequestError(field, f"{value} is outside {least} to {most}")
    return value


def require_lease(field: str, value: object) -> timedelta:
    """Require a lease span of 1 second to 24 hours."""
    return require_span(field, value, LEASE_MIN, LEASE_MAX)


def require_instant(field: str, value: object) -> datetime:
    """Require an aware instant between 1970 and 9999; answers it in UTC.

    Raises:
        InvalidRequestError: it is no ``datetime``, has no zone, or lies outside that range.
    """
    if not isinstance(value, datetime):
        raise InvalidRequestError(field, f"a datetime is needed, not {type(value).__name__}")
    if value.utcoffset() is None:
        raise InvalidRequestError(field, "a datetime with a time zone is needed; use datetime.now(UTC)")
    try:
        instant = value.astimezone(UTC)
    except OverflowError:
        instant = INSTANT_MAX
    if not INSTANT_MIN <= instant < INSTANT_MAX:
        raise InvalidRequestError(field, f"{value.isoformat()} is outside the years 1970 to 9998")
    return instant


_TRACEPARENT: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def require_traceparent(field: str, value: object) -> str:
    """Require a ``traceparent`` of W3C Trace Context, version 00.

    Raises:
        InvalidRequestError: it is none.
    """
    text = require_text(field, value)
    if not _TRACEPARENT.fullmatch(text):
        raise InvalidRequestError(field, "a traceparent of W3C Trace Context is needed: 00-TRACE-SPAN-FLAGS, in hex")
    return text


# Raw JSON -------------------------------------------------------------------------------------------------------------


def parse_json(what: str, text: str | bytes, *, enclosing: int = 0) -> Any:
    """Read JSON text under the same bounds as Python values, without recursion bombs or silent repairs.

    ``enclosing`` levels of the text are a document's own, around the values that are stored.

    Raises:
        UnstorableValueError: it is JSON that may not be stored (doubled keys, numbers beyond bounds, too deep).
        InvalidRequestError: it is no JSON.
    """
    try:
        text = text.decode() if isinstance(text, bytes) else text
    except UnicodeDecodeError as error:
        raise InvalidRequestError(what, f"it is not UTF-8 text ({error.reason} at byte {error.start})") from None
    require_count(f"{what} (characters)", len(text), JSON_TEXT_BYTES_MAX)
    _require_shallow(what, text, DEPTH_MAX + enclosing)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object_of(what),
            parse_constant=_refuse_number(what),
            parse_int=_number(what, int),
            parse_float=_number(what, float),
        )
    except json.JSONDecodeError as error:
        raise InvalidRequestError(
            what, f"it is not JSON: {error.msg} at line {error.lineno} column {error.colno}"
        ) from None
    require_storable(what, value, enclosing=enclosing)
    return value


def _require_shallow(what: str, text: str, deepest: int) -> None:
    """Count brackets outside of strings, so that depth is refused before a parser recurses into it."""
    depth = 0
    for token in _TOKEN.finditer(text):
        first = token.group()[0]
        if first in "[{":
            depth += 1
            if depth > deepest:
                raise UnstorableValueError(what, what, f"nested deeper than {deepest} levels")
        elif first in "]}":
            depth -= 1


def _object_of(what: str) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        built = dict(pairs)
        if len(built) < len(pairs):
            seen: set[str] = set()
            doubled = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]  # add answers None
            raise UnstorableValueError(what, what, f"an object with the key {doubled!r} twice")
        return built

    return build


def _number(what: str, make: Callable[[str], int | float]) -> Callable[[str], int | float]:
    def build(digits: str) -> int | float:
        if len(digits) > NUMBER_CHARACTERS_MAX:
            raise UnstorableValueError(what, what, f"a number of {len(digits):,} characters")
        return make(digits)

    return build


def _refuse_number(what: str) -> Callable[[str], Any]:
    def refuse(name: str) -> Any:
        raise UnstorableValueError(what, what, f"{name}, which is not JSON")

    return refuse
