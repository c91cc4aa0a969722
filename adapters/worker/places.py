"""Where a mistake in a handler stands in its source, and what an annotation in it means."""

from __future__ import annotations

import inspect
import linecache
import re
import sys
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial, partialmethod
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Final

from jobledger.adapters.worker.awaiting import AsyncJobContext
from jobledger.adapters.worker.context import JobContext
from jobledger.domain.answers import Progress
from jobledger.domain.errors import InvalidHookError

_DEFINITION: Final = re.compile(r"\s*(async\s+def|def|class)\b")

OFFERED: Mapping[str, Any] = {
    "AsyncJobContext": AsyncJobContext,
    "JobContext": JobContext,
    "Progress": Progress,
}
"""Names that are understood in annotations even where a module imports them for type checkers only."""


def mistake(target: object, problem: str, *, owner: type | None = None, line: int | None = None) -> InvalidHookError:
    """The error for a mistake in a function or class, with its source line (or the one given).

    ``owner`` is the class that a method belongs to.
    """
    raw = _raw(target)
    name = getattr(raw, "__name__", None) or type(raw).__name__
    if owner is not None:
        name = f"{owner.__name__}.{name}"
    try:
        path = Path(inspect.getsourcefile(raw) or "")  # type: ignore[arg-type]  # what has no source raises TypeError
        lines, first = inspect.getsourcelines(raw)  # type: ignore[arg-type]  # the same
    except (OSError, TypeError):
        return InvalidHookError(name, problem)
    number = line or first + next((place for place, text in enumerate(lines) if _DEFINITION.match(text)), 0)
    source = linecache.getline(str(path), number).strip()
    return InvalidHookError(f"{_shortened(path)}:{number} {name}", problem, source)


def _raw(target: object) -> object:
    """What stands in the source: the function behind decorators and partials."""
    while isinstance(target, partial | partialmethod):
        target = target.func
    return inspect.unwrap(target) if callable(target) and not isinstance(target, type) else target


@dataclass(frozen=True, slots=True)
class Place:
    """Where another process finds a handler: its module (and the file of that), and its name there."""

    module: str
    name: str
    file: str | None


def place_in_module(target: Any) -> Place:
    """Where another process finds a class or function.

    Raises:
        InvalidHookError: it was made inside a function, where no other process can reach it.
    """
    name = target.__qualname__
    if "<" in name:
        raise mistake(
            target, "a child process finds its handler by name; define it at the top level of its module, not inside"
        )
    module = sys.modules.get(target.__module__)
    spec = getattr(module, "__spec__", None) if target.__module__ == "__main__" else None
    file = getattr(module, "__file__", None)
    return Place(target.__module__ if spec is None else spec.name, name, file and str(Path(file).resolve()))


def _shortened(path: Path) -> Path:
    try:
        return path.relative_to(Path.cwd())
    except (OSError, ValueError):
        return path


def meaning(annotation: Any, function: Any, names: Mapping[str, Any]) -> Any:
    """The type that an annotation stands for; ``names`` are the local ones where the handler was defined.

    Raises:
        NameError: it names something that is not defined (yet).
        InvalidHookError: it is no type.
    """
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    local = {name: value for name, value in OFFERED.items() if name not in scope} | dict(names)
    holder = SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, scope, local, include_extras=True)["it"]
    except NameError:
        raise
    except Exception as error:  # noqa: BLE001  # an annotation as text may be any expression, and raise anything
        problem = f"the annotation {annotation!r} cannot be understood ({type(error).__name__}: {error})"
        raise mistake(function, f"{problem}; write a type") from None


def members(kind: Any) -> tuple[Any, ...]:
    """The types of a union, or the type alone, in the order in which they were written."""
    if typing.get_origin(kind) in (typing.Union, UnionType):
        return typing.get_args(kind)
    return (kind,)


def allows_none(kind: Any) -> bool:
    """Whether ``None`` is among the values of a type."""
    return kind in (Any, object) or any(each in (None, NoneType, Any) for each in members(kind))
