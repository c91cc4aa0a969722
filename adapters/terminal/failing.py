"""When a command cannot be done: one sentence that names the next step, and an exit code that scripts can rely on.

0 done · 1 refused by the rules · 2 bad usage or input · 3 unavailable · 4 corrupt · 130 interrupted · 141 nobody reads
the output any more. With ``--json`` the error is the document on the standard output, and the error output stays empty.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final

import typer

from jobledger.adapters.terminal.documents import document, plain
from jobledger.adapters.terminal.texts import visible
from jobledger.domain.bounds import error_text
from jobledger.domain.errors import (
    CorruptError,
    InvalidError,
    JobledgerError,
    RefusedError,
    SchemaMismatchError,
    UnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobledger.domain.values import Json

DONE: Final = 0
REFUSED: Final = 1
INVALID: Final = 2
UNAVAILABLE: Final = 3
CORRUPT: Final = 4
FAULT: Final = 70
INTERRUPTED: Final = 130
UNREAD: Final = 141

FAMILIES: Final[Mapping[type[JobledgerError], tuple[int, str]]] = {
    RefusedError: (REFUSED, "refused"),
    InvalidError: (INVALID, "invalid"),
    UnavailableError: (UNAVAILABLE, "unavailable"),
    CorruptError: (CORRUPT, "corrupt"),
}
"""The exit code of each family, and the word that a sentence begins with."""

# Typer once took these classes from click and now carries them itself: this way to them holds for both.
USAGE_ERRORS: Final = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")

DEBUG: Final = "JOBLEDGER_DEBUG"


@dataclass(eq=False, repr=False)
class StoreMissingError(UnavailableError):
    """There is no store where the command looks for one; reading never makes one."""

    code = "store_missing"
    path: str

    def __str__(self) -> str:
        return (
            f"there is no store at {self.path!r}; name another one with --store, or make this one with "
            "'jobledger migrate', or with the first 'jobledger create' or 'jobledger schedules put'"
        )


@dataclass(eq=False, repr=False)
class FolderMissingError(UnavailableError):
    """A store cannot be made in a folder that does not exist."""

    code = "folder_missing"
    folder: str

    def __str__(self) -> str:
        return f"the folder {self.folder!r} does not exist; make it first, or name another store with --store"


@dataclass(eq=False, repr=False)
class TimedOutError(UnavailableError):
    """A command watched as long as it was allowed to; nothing was changed by it."""

    code = "timed_out"
    seen: str

    def __str__(self) -> str:
        return f"the time given with --timeout is over: {self.seen}; watch again, or give it longer"


@dataclass(eq=False, repr=False)
class OtherDatabaseError(UnavailableError):
    """The file is a database of something else; only opening it as a store would already change it."""

    code = "other_database"
    path: str

    def __str__(self) -> str:
        return (
            f"{self.path!r} is a database, but it holds no jobs; name another store with --store, or make it one with "
            "'jobledger migrate'"
        )


def family_of(error: JobledgerError) -> tuple[int, str]:
    """The exit code of an error's family, and the word that its sentence begins with."""
    return next((found for family, found in FAMILIES.items() if isinstance(error, family)), (FAULT, "fault"))


def met(error: JobledgerError) -> tuple[int, str]:
    """The exit code and the word of an error that was met: those of its family, but for a store without migration.

    Such a store is not corrupt; it can be used as soon as the command that is named has run.
    """
    if isinstance(error, SchemaMismatchError) and error.found < error.wanted:
        return UNAVAILABLE, "not migrated"
    return family_of(error)


def explain(error: BaseException, *, as_json: bool) -> int:
    """Tell what went wrong, on one line, and answer the exit code."""
    if isinstance(error, JobledgerError):
        code, word = met(error)
        return _tell(code, word, error.code, str(error), as_json=as_json, more=_fields(error))
    if isinstance(error, USAGE_ERRORS):
        return _tell(INVALID, "usage", "usage", _usage(error), as_json=as_json)
    if isinstance(error, OSError):
        place = f"{error.filename}: " if isinstance(error.filename, (str, os.PathLike)) else ""
        problem = f"{place}{error.strerror or error}; mend that and repeat the command"
        return _tell(UNAVAILABLE, "unavailable", "system", problem, as_json=as_json)
    if os.environ.get(DEBUG):
        raise error
    problem = f"jobledger has a fault: {error_text(error)}; please report it with what {DEBUG}=1 shows"
    return _tell(FAULT, "fault", "fault", problem, as_json=as_json)


def explain_miss(promise: str, *, as_json: bool) -> int:
    """Tell that a demonstration did not come to see what it promised."""
    return _tell(REFUSED, "missed", "missed", f"this was promised and not to be seen: {promise}", as_json=as_json)


def _tell(
    code: int, word: str, name: str, message: str, *, as_json: bool, more: Mapping[str, Json] | None = None
) -> int:
    if as_json:
        error = {"code": name, "family": word, "message": message}
        sys.stdout.write(f"{document({'error': {**(more or {}), **error}}, is_line=True)}\n")
        sys.stdout.flush()
    else:
        label = word if name == word else f"{word} ({name})"
        sys.stderr.write(f"jobledger: {label}: {visible(message)}\n")
        sys.stderr.flush()
    return code


def _usage(error: Any) -> str:
    """The sentence of a usage error, and where to read on."""
    context = getattr(error, "ctx", None)
    path = getattr(context, "command_path", "jobledger")
    message = " ".join(str(error.format_message()).split()).rstrip(".")
    return f"{message}; see '{path} --help'"


def _fields(error: JobledgerError) -> dict[str, Json]:
    if not is_dataclass(error):
        return {}
    return {field.name: plain(getattr(error, field.name)) for field in fields(error)}
