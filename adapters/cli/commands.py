"""How a command is declared: its group in the help, its examples, and the three options that all commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Final

import typer

from jobledger.adapters.terminal.desk import Desk

CREATE: Final = "Create and run"
READ: Final = "Read"
CONTROL: Final = "Control"
KEEP: Final = "Audit and upkeep"

StoreOption = Annotated[
    str | None,
    typer.Option("--store", metavar="URL", help="The store, as in sqlite:///jobs.db (or in JOBLEDGER_STORE)."),
]
NamespaceOption = Annotated[
    str | None,
    typer.Option("--namespace", metavar="NAME", help="The namespace in the store (or in JOBLEDGER_NAMESPACE)."),
]
JsonOption = Annotated[bool, typer.Option("--json", metavar="", help="Answer in JSON, for programs.")]

JobId = Annotated[str, typer.Argument(metavar="ID", help="The job's id, as `create` and `jobs` show it.")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", help="At most this many.")]
Policies = Annotated[
    str | None,
    typer.Option("--policies", metavar="FILE", help="A TOML file of policies, with a table for each."),
]

_SHARED: Final = {"store": StoreOption, "namespace": NamespaceOption, "as_json": JsonOption}

Body = Callable[..., None]


def command(
    app: typer.Typer, panel: str | None, *examples: str, name: str | None = None, uses_store: bool = True
) -> Callable[[Body], Body]:
    """Declare a function as a command of an app.

    The function's first parameter is the ``Desk``; Typer sees the shared options in its place. Each example is what is
    typed behind ``jobledger``. A command that ``uses_store`` not is not offered the options that name one.
    """
    shared = _SHARED if uses_store else {"as_json": JsonOption}

    def declare(function: Body) -> Body:
        app.command(
            name or function.__name__.rstrip("_"),
            rich_help_panel=panel,
            epilog=epilog(*examples),
            no_args_is_help=False,
        )(_seen_by_typer(function, shared))
        return function

    return declare


def epilog(*examples: str) -> str | None:
    """The examples below a help text, one on each line."""
    lines = [f"jobledger {example}" for example in examples]
    return "\n".join([f"Example{'s' * (len(lines) > 1)}:", *lines]) if lines else None


def _seen_by_typer(function: Body, shared: Mapping[str, Any]) -> Body:
    """The function with a signature in which the shared options stand for the desk."""

    def call(context: typer.Context, **given: Any) -> None:
        store, namespace, as_json = (given.pop(name, None) for name in _SHARED)
        desk: Desk = context.obj or Desk()
        if store is not None:
            desk = replace(desk, url=store)
        if namespace is not None:
            desk = replace(desk, namespace=namespace)
        function(replace(desk, as_json=desk.as_json or bool(as_json)), **given)

    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    kind = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter(name, kind, annotation=annotation, default=False if name == "as_json" else None)
        for name, annotation in shared.items()
    ]
    first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    parameters = [first, *(each.replace(kind=kind) for each in own), *added]
    seen: Any = call
    seen.__name__, seen.__doc__ = function.__name__, function.__doc__
    seen.__signature__ = inspect.Signature(parameters, return_annotation=None)
    seen.__annotations__ = {each.name: each.annotation for each in parameters}
    return call
