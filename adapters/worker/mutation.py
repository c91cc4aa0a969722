"""Finds per-run state that a class changes but could not restore, by reading its source."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

from jobledger.adapters.worker.places import place_of
from jobledger.domain.errors import InvalidHookError


def require_no_lost_state(job: type) -> None:
    """Require that a class without checkpoint and restore hooks assigns no attribute outside of its ``__init__``.

    ``self.x = 1``, ``self.x += 1``, ``self.x[key] = 1``, ``del self.x`` and the like count, in base classes too. Where
    no source is to be had nothing is found.

    Raises:
        InvalidHookError: it does; a take-over would start from a state that nobody saved.
    """
    for base in job.__mro__[:-1]:
        for name, method in _methods(base):
            if name in ("__init__", "__new__", "__post_init__"):
                continue
            for attribute, line in _assigned(method):
                raise InvalidHookError(
                    place_of(method, base, line),
                    f"'self.{attribute}' changes while the job runs, and nothing saves it for the next attempt; "
                    "add a @checkpoint and a @restore hook, or keep it in a local variable",
                )


def _methods(job: type) -> Iterator[tuple[str, Any]]:
    for name, value in vars(job).items():
        for function in (value, getattr(value, "fget", None), getattr(value, "fset", None)):
            if inspect.isfunction(function):
                yield name, inspect.unwrap(function)


def _assigned(method: Any) -> Iterator[tuple[str, int]]:
    """The attributes of its first argument that a method assigns, with their lines."""
    try:
        lines, first = inspect.getsourcelines(method)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return
    function = tree.body[0]
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    arguments = [*function.args.posonlyargs, *function.args.args]
    if not arguments:
        return
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            attribute = _attribute_of(node, arguments[0].arg)
            if attribute is not None:
                yield attribute, first + node.lineno - 1


def _attribute_of(node: ast.expr, instance: str) -> str | None:
    """The attribute of ``instance`` that a target is, or lies in."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        inner = node.value
        if isinstance(node, ast.Attribute) and isinstance(inner, ast.Name) and inner.id == instance:
            return node.attr
        node = inner
    return None
