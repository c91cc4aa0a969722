"""JSON values at the edge, each with its verdict, as Python values and as raw JSON text.

``values.jsonl`` has one case a line: ``json`` is the JSON text itself, or a recipe in angle brackets: ``<nest:N>`` is
N arrays inside each other, ``<string:N>`` a text of N letters, ``<digits:N>`` an integer of N nines, ``<range:N>`` an
array of N numbers, ``<python:…>`` a Python object that no JSON text gives. ``verdict`` is ``stored`` (it comes back
equal, on every store and through every face) or the code of the refusal. The sizes are those of the default policy's
payloads.
"""

from __future__ import annotations

import enum
import json
import re
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

STORED: Final = "stored"

_FILE: Final = Path(__file__).with_name("values.jsonl")


@dataclass(frozen=True, slots=True)
class Case:
    """One value: its name (a test id), its verdict, and why.

    ``text`` is the raw JSON, or ``None`` where only Python can hold the value; ``has_value`` is false where only JSON
    text can (doubled keys).
    """

    name: str
    verdict: str
    why: str
    text: str | None
    has_value: bool
    recipe: str

    @property
    def is_stored(self) -> bool:
        """Whether the value is accepted and comes back equal."""
        return self.verdict == STORED

    def make(self) -> Any:
        """The Python value, made anew at each call.

        Raises:
            LookupError: only JSON text can hold it; see ``has_value``.
        """
        if not self.has_value:
            raise LookupError(f"{self.name!r} has no Python value; use its text")
        return _value_of(self.recipe)


@cache
def cases() -> list[Case]:
    """Every case, in the order of the file."""
    return [_case(json.loads(line)) for line in _FILE.read_text(encoding="utf-8").splitlines()]


def value_cases() -> list[Case]:
    """The cases that a Python caller can send."""
    return [case for case in cases() if case.has_value]


def text_cases() -> list[Case]:
    """The cases that raw JSON can carry."""
    return [case for case in cases() if case.text is not None]


def is_same(one: object, other: object) -> bool:
    """Whether two JSON values are written the same but for key order (``1``, ``1.0`` and ``True`` differ)."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


class Name(str):
    """A text that JSON would give back as a plain one."""

    __slots__ = ()


class Level(enum.IntEnum):
    """A number that JSON would give back as a plain one."""

    HIGH = 3


def _cycle() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


_PYTHON: Final[Mapping[str, Callable[[], Any]]] = {
    "(1, 2)": lambda: (1, 2),
    "{1}": lambda: {1},
    "b'x'": lambda: b"x",
    "datetime": lambda: datetime(2026, 1, 1, tzinfo=UTC),
    "Decimal('1.10')": lambda: Decimal("1.10"),
    "{1: 2}": lambda: {1: 2},
    "enum": lambda: {"text": Name("x"), "number": Level.HIGH},
    "str subclass": lambda: [Name("x")],
    "IntEnum": lambda: [Level.HIGH],
    "OrderedDict": lambda: OrderedDict(a=1),
    "cycle": _cycle,
}


def _case(line: dict[str, str]) -> Case:
    recipe = line["json"]
    text = _text_of(recipe)
    return Case(line["name"], line["verdict"], line["why"], text, _has_value(recipe), recipe)


def _part(recipe: str) -> tuple[str, str] | None:
    """A recipe's name and argument; ``None`` for plain JSON text."""
    found = re.fullmatch(r"<(nest|string|digits|range|python):(.*)>", recipe, re.DOTALL)
    return (found[1], found[2]) if found else None


def _text_of(recipe: str) -> str | None:
    match _part(recipe):
        case None:
            return recipe
        case ("nest", number):
            return "[" * int(number) + "]" * int(number)
        case ("string", number):
            return '"' + "a" * int(number) + '"'
        case ("digits", number):
            return "9" * int(number)
        case ("range", number):
            return json.dumps(list(range(int(number))))
        case _:
            return None


def _value_of(recipe: str) -> Any:
    match _part(recipe):
        case None:
            return json.loads(recipe)
        case ("nest", number):
            value: list[Any] = []
            for _ in range(int(number) - 1):
                value = [value]
            return value
        case ("string", number):
            return "a" * int(number)
        case ("digits", number):
            return 10 ** int(number) - 1
        case ("range", number):
            return list(range(int(number)))
        case (_, name):
            return _PYTHON[name]()


def _has_value(recipe: str) -> bool:
    """Whether Python can hold it: everything but an object with a key twice."""
    if _part(recipe) is not None:
        return True
    doubled: list[str] = []

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        doubled.extend(name for name in set(names) if names.count(name) > 1)
        return dict(pairs)

    json.loads(recipe, object_pairs_hook=build)
    return not doubled
