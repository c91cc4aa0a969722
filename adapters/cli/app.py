"""The command ``jobledger``: its commands in one place, and the entry point that turns every end into an exit code."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, TextIO

import typer

from jobledger.adapters.bootstrap import DEFAULT_URL
from jobledger.adapters.cli import (
    anchoring,
    archiving,
    auditing,
    benching,
    controlling,
    creating,
    projecting,
    queueing,
    reading,
    running,
    scheduling,
    serving,
    telling,
    upkeep,
    watching,
)
from jobledger.adapters.cli.commands import epilog
from jobledger.adapters.terminal.desk import Desk
from jobledger.adapters.terminal.documents import document
from jobledger.adapters.terminal.failing import DONE, INTERRUPTED, UNAVAILABLE, UNREAD, explain
from jobledger.domain.bounds import text_problem
from jobledger.domain.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM: Final = "jobledger"

app = typer.Typer(
    name=PROGRAM,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog=epilog(
        "demo",
        "create --owner me --key k1 --kind rebuild --payload '{\"part\": 7}'",
        "worker myproject.jobs",
        "watch ID",
    ),
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    store: Annotated[
        str,
        typer.Option(
            "--store",
            metavar="URL",
            envvar="JOBLEDGER_STORE",
            help="The store: sqlite:///relative.db, sqlite:////absolute.db, postgresql://…",
        ),
    ] = DEFAULT_URL,
    namespace: Annotated[
        str,
        typer.Option("--namespace", metavar="NAME", envvar="JOBLEDGER_NAMESPACE", help="The namespace in the store."),
    ] = "default",
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Answer in JSON, for programs.")] = False,  # noqa: FBT002  # a flag
    is_version: Annotated[bool, typer.Option("--version", metavar="", help="Tell the version.")] = False,  # noqa: FBT002  # a flag
) -> None:
    """Durable, event-sourced jobs: create them, run them, watch them, and prove what happened.

    Exit codes: 0 done, 1 refused, 2 bad usage or input, 3 unavailable, 4 corrupt.
    """
    context.obj = Desk(store, namespace, as_json)
    if is_version:
        found = version(PROGRAM)
        sys.stdout.write(f"{document({'version': found}) if as_json else f'{PROGRAM} {found}'}\n")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for commands in (
    creating,
    running,
    reading,
    projecting,
    watching,
    controlling,
    scheduling,
    queueing,
    serving,
    auditing,
    telling,
    anchoring,
    archiving,
    upkeep,
    benching,
):
    commands.register(app)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command of the command line, and leave with its exit code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command and answer its exit code; a traceback is never shown."""
    _have_streams()
    try:
        return _answer(arguments)
    except BrokenPipeError:
        _forget(sys.stdout)
        return UNREAD
    except OSError:
        _forget(sys.stdout)  # the output could not be written, and then neither could the JSON that was to say so
        return UNAVAILABLE
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        for stream in (sys.stdout, sys.stderr):
            _flush_or_forget(stream)


@cache
def _program() -> Any:
    """The app as typer builds it."""
    return typer.main.get_command(app)


def _answer(arguments: Sequence[str]) -> int:
    as_json = "--json" in arguments
    try:
        _require_text(arguments)
        # Typer's own way to run it would make exit code 1, which means refused, of an output that nobody reads.
        with _program().make_context(PROGRAM, list(arguments)) as context:
            context.command.invoke(context)
        sys.stdout.flush()
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except typer.Exit as end:
        sys.stdout.flush()
        return end.exit_code
    except typer.Abort:
        return INTERRUPTED
    except SystemExit as end:
        # So rich ends a program whose output nobody reads any more.
        if isinstance(end.__context__, BrokenPipeError):
            raise BrokenPipeError from end
        return explain(end, as_json=as_json)
    except BaseException as error:  # noqa: BLE001  # whatever it is, people get a sentence and scripts an exit code
        return explain(error, as_json=as_json)
    return DONE


def _require_text(arguments: Sequence[str]) -> None:
    """Require that what was typed is text.

    Raises:
        InvalidRequestError: it is not (NUL, or bytes that are no UTF-8).
    """
    for place, argument in enumerate(arguments, start=1):
        if problem := text_problem(argument):
            raise InvalidRequestError("arguments", f"number {place} holds {problem}; type plain text in UTF-8")


# The standard streams -------------------------------------------------------------------------------------------------


def _have_streams() -> None:
    """Have three streams that can show any text: closed ones lead nowhere, and what an encoding lacks is escaped."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream: TextIO | None = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115  # open for the whole life
        elif name != "stdin" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _flush_or_forget(stream: TextIO) -> None:
    try:
        stream.flush()
    except (OSError, ValueError):
        _forget(stream)


def _forget(stream: TextIO) -> None:
    """Lead a stream that nobody reads into nothing, so that Python's own last flush has nothing to complain about."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
