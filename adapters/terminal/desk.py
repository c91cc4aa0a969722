"""Where a command does its work: which store and namespace it is about, and how its answer is shown."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from jobledger.adapters.bootstrap import DEFAULT_URL, JobStore, is_served, sqlite_path
from jobledger.adapters.terminal.documents import document
from jobledger.adapters.terminal.failing import FolderMissingError, OtherDatabaseError, StoreMissingError
from jobledger.domain.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from rich.console import RenderableType

    from jobledger.domain.policies import Policy

Item = TypeVar("Item")

UNBOUNDED: Final = 4_000
"""The width, in columns, of an output that is no terminal: nothing is wrapped or cut in a file or a pipe.

Whatever COLUMNS says: it is inherited from terminals, and the output of a command must not hang on that.
"""


def screen(*, is_error: bool = False) -> Console:
    """The console of this process: it reads no markup in what it prints; colour follows the terminal and NO_COLOR."""
    stream = sys.stderr if is_error else sys.stdout
    width = None if stream.isatty() else UNBOUNDED
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False, soft_wrap=False)


@dataclass(frozen=True)
class Desk:
    """What every command is given: the store's URL, the namespace, and whether a program reads the answer."""

    url: str = DEFAULT_URL
    namespace: str = "default"
    as_json: bool = False

    @cached_property
    def console(self) -> Console:
        """The console on the standard output."""
        return screen()

    def open(self, *, policies: Mapping[str, Policy] | None = None) -> JobStore:
        """Open a store that exists and whose schema is current; nothing is made or changed by it.

        Raises:
            StoreMissingError: there is no such file.
            OtherDatabaseError: the file is a database of something else.
            SchemaMismatchError: the schema is older (``jobledger migrate`` brings it up to date) or newer.
            InvalidRequestError: the URL names no store, or one that lives in one process only.
        """
        self._require_lasting()
        if is_served(self.url):
            return JobStore.open(self.url, namespace=self.namespace, policies=policies, migrate=False)
        path = sqlite_path(self.url)
        if not path.is_file():
            raise StoreMissingError(os.fspath(path))
        if is_other_database(path):
            raise OtherDatabaseError(os.fspath(path))
        return JobStore.open(self.url, namespace=self.namespace, policies=policies, migrate=False)

    def make(self, *, policies: Mapping[str, Policy] | None = None) -> JobStore:
        """Open a store, made where there is none; one that exists is opened as it is, as ``open`` does.

        A store on a server is made by ``jobledger migrate`` alone, which needs other rights.

        Raises:
            FolderMissingError: the folder that it would stand in does not exist.
            OtherDatabaseError: the file is a database of something else.
            SchemaMismatchError: the schema is older (``jobledger migrate`` brings it up to date) or newer.
            InvalidRequestError: the URL names no store, or one that lives in one process only.
        """
        self._require_lasting()
        if is_served(self.url):
            return self.open(policies=policies)
        return self.migrated(policies=policies) if is_blank(sqlite_path(self.url)) else self.open(policies=policies)

    def migrated(self, *, policies: Mapping[str, Policy] | None = None) -> JobStore:
        """Open a store, made where there is none, with its schema brought up to date.

        Raises:
            FolderMissingError: the folder that it would stand in does not exist.
            SchemaMismatchError: the schema is newer.
            InvalidRequestError: the URL names no store, or one that lives in one process only.
        """
        self._require_lasting()
        if not is_served(self.url) and not (path := sqlite_path(self.url)).parent.is_dir():
            raise FolderMissingError(os.fspath(path.parent))
        return JobStore.open(self.url, namespace=self.namespace, policies=policies, migrate=True)

    def answer(self, answer: Any, *rendered: RenderableType) -> None:
        """Show an answer: to a program as one JSON document, to people as rendered."""
        if self.as_json:
            sys.stdout.write(f"{document(answer)}\n")
        else:
            for part in rendered:
                self.say(part)

    def line(self, answer: Any, rendered: RenderableType) -> None:
        """Show one entry of an answer that goes on: to a program as one line of JSON, to people as one line."""
        if self.as_json:
            sys.stdout.write(f"{document(answer, is_line=True)}\n")
            sys.stdout.flush()
        else:
            self.say(rendered)
            sys.stdout.flush()

    def counted(self, items: Iterable[Item], doing: str, total: int) -> Iterator[Item]:
        """Pass items on, with a bar on the error output that tells how far it is; without one where nobody looks."""
        console = screen(is_error=True)
        if not console.is_terminal:
            yield from items
            return
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        ) as progress:
            yield from progress.track(items, total=total, description=doing)

    def say(self, part: RenderableType) -> None:
        """Print something for people; where it is no terminal, without the spaces that only fill up a line."""
        if self.console.is_terminal:
            self.console.print(part)
            return
        with self.console.capture() as captured:
            self.console.print(part)
        for line in captured.get().splitlines():
            sys.stdout.write(f"{line.rstrip()}\n")

    def _require_lasting(self) -> None:
        if self.url == "memory:":
            raise InvalidRequestError(
                "store",
                "memory: lives and ends with one process; the command line needs a store that lasts, as in sqlite:///jobs.db",
            )


def is_blank(path: Path) -> bool:
    """Whether nothing stands there yet: no file, an empty one, or a database without a table (it is being made)."""
    if not path.exists():
        return True
    return path.is_file() and (path.stat().st_size == 0 or _names_in(path) == set())


def is_other_database(path: Path) -> bool:
    """Whether a file is a database, but without a schema of jobledger; it is only read."""
    names = _names_in(path)
    return names is not None and "schema_version" not in names


def _names_in(path: Path) -> set[str] | None:
    """The names of a database's tables and indexes; ``None`` where the file cannot be read as one."""
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection,
    ):
        return {row[0] for row in connection.execute("SELECT name FROM sqlite_schema")}
    return None
