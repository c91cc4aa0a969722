"""Finds per-run state that a class changes but could not restore, by reading its source."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any, Final

from jobledger.adapters.worker.places import mistake

BEGINNINGS: Final = ("__init__", "__new__", "__post_init__")

CHANGING: Final = frozenset(
    {
        *(
            "add",
            "append",
            "appendleft",
            "clear",
            "discard",
            "extend",
            "extendleft",
            "insert",
            "pop",
            "popitem",
            "popleft",
        ),
        *("remove", "reverse", "rotate", "setdefault", "sort", "subtract", "update"),
        *("difference_update", "intersection_update", "symmetric_difference_update"),
    }
)
"""Methods of lists, sets, dicts and the like that change them."""

COLLECTIONS: Final = frozenset({"Counter", "OrderedDict", "bytearray", "defaultdict", "deque", "dict", "list", "set"})
"""What makes one, beside a display such as ``[]``."""


def require_no_lost_state(job: type) -> None:
    """Require that a class without checkpoint and restore hooks changes no attribute outside of its ``__init__``.

    ``self.x = 1``, ``self.x += 1``, ``self.x[key] = 1``, ``del self.x`` and the like count, in base classes too; and
    ``self.x.append(1)`` and the like, where ``__init__`` made ``self.x`` a list, dict or set. Where no source is to be
    had nothing is found.

    Raises:
        InvalidHookError: it does; a take-over would start from a state that nobody saved.
    """
    made = {name for base in job.__mro__[:-1] for name in _collections(base)}
    for base in job.__mro__[:-1]:
        for name, method in _methods(base):
            if name in BEGINNINGS:
                continue
            for attribute, line in [*_assigned(method), *_changed(method, made)]:
                raise mistake(
                    method,
                    f"'self.{attribute}' changes while the job runs, and nothing saves it for the next attempt; "
                    "add a @checkpoint and a @restore hook, or keep it in a local variable",
                    owner=base,
                    line=line,
                )


def _methods(job: type) -> Iterator[tuple[str, Any]]:
    for name, value in vars(job).items():
        for function in (value, getattr(value, "fget", None), getattr(value, "fset", None)):
            if inspect.isfunction(function):
                yield name, inspect.unwrap(function)


def _assigned(method: Any) -> Iterator[tuple[str, int]]:
    """The attributes of its first argument that a method assigns, with their lines."""
    for node, instance, first in _nodes(method):
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            attribute = _attribute_of(node, instance)
            if attribute is not None:
                yield attribute, first + node.lineno - 1


def _changed(method: Any, made: set[str]) -> Iterator[tuple[str, int]]:
    """The attributes, of those that hold collections, that a method changes by a call, with their lines."""
    for node, instance, first in _nodes(method):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
            attribute = _attribute_of(node.func.value, instance)
            if attribute in made:
                yield attribute, first + node.lineno - 1


def _collections(base: type) -> Iterator[str]:
    """The attributes that the class's ``__init__`` makes a collection."""
    for name, method in _methods(base):
        if name not in BEGINNINGS:
            continue
        for node, instance, _ in _nodes(method):
            if isinstance(node, ast.Assign | ast.AnnAssign) and _is_collection(node.value):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    attribute = _attribute_of(target, instance)
                    if attribute is not None:
                        yield attribute


def _is_collection(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        made = value.func.value if isinstance(value.func, ast.Subscript) else value.func
        return (made.attr if isinstance(made, ast.Attribute) else getattr(made, "id", None)) in COLLECTIONS
    return isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp)


def _nodes(method: Any) -> Iterator[tuple[ast.AST, str, int]]:
    """What a method's source consists of, with the name of its first argument and the number of its first line."""
    try:
        lines, first = inspect.getsourcelines(method)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return
    function = tree.body[0]
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    arguments = [*function.args.posonlyargs, *function.args.args]
    if arguments:
        for node in ast.walk(function):
            yield node, arguments[0].arg, first


def _attribute_of(node: ast.expr, instance: str) -> str | None:
    """The attribute of ``instance`` that a target is, or lies in."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        inner = node.value
        if isinstance(node, ast.Attribute) and isinstance(inner, ast.Name) and inner.id == instance:
            return node.attr
        node = inner
    return None
