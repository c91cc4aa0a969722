"""What tests of the command line are given: a store in a folder of its own, and a way to type commands."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jobledger.adapters.bootstrap import JobStore
from jobledger.adapters.cli.app import run
from jobledger.domain.decisions.creating import JobRequest

HOSTILE = "a\x1b[31mred\x1b[0m\u202egnp.exe\x07\x9b2J[bold]b[/bold]\r\n\u2066:smile:\x7f"
"""Text that would colour, clear, ring, turn and forge, if a terminal ever came to see it."""


@dataclass(frozen=True)
class Shown:
    """What a command left on the screen, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The answer as a program reads it."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The answer as a program reads JSON Lines."""
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True)
class Desk:
    """A store that the commands use, and the place to type them."""

    url: str
    path: Path
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> Shown:
        """Type a command, in this process."""
        self.capsys.readouterr()
        code = run(arguments)
        captured = self.capsys.readouterr()
        return Shown(code, captured.out, captured.err)

    def store(self) -> JobStore:
        """The store itself."""
        return JobStore.open(self.url)

    def job(self, **given: Any) -> str:
        """A job that waits in its queue; answers its id."""
        usual: dict[str, Any] = {"owner": "team-a", "key": "k1", "kind": "rebuild", "payload": {"part": 7}}
        request = JobRequest(**(usual | given))
        with self.store() as store:
            return store.create(request).job_id


def program(*arguments: str) -> list[str]:
    """The command line as a process of its own, for ``subprocess``."""
    return [sys.executable, "-m", "jobledger", *arguments]


def process(
    *arguments: str, url: str, environment: Mapping[str, str] | None = None, **given: Any
) -> "subprocess.CompletedProcess[str]":
    """Run the command line as a process of its own, to its end."""
    return subprocess.run(
        program(*arguments),
        env={**os.environ, "JOBLEDGER_STORE": url, **(environment or {})},
        text=True,
        timeout=60,
        check=False,
        **given,
    )


def tamper(path: Path, statement: str) -> None:
    """Change the recorded history behind the store's back."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


def characters_that_act(text: str) -> list[str]:
    """Characters in an output that a terminal would not simply show."""
    return [character for character in text if character != "\n" and not character.isprintable()]
