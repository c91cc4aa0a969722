"""The engines that are compared: each in an environment of its own, driven by a program that answers questions."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ANSWER_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Contestant:
    """An engine: what it is called, what pip installs, and the oldest Python that it runs on.

    ``share``: of the jobs that the others get, so that a slow engine does not take most of the time.
    """

    name: str
    module: str
    packages: tuple[str, ...] = ()
    python: tuple[int, int] = (3, 11)
    share: float = 1.0


OURS = Contestant("jobledger", "ours")
RIVALS = (
    Contestant("pgqueuer", "pgqueuer", ("pgqueuer==1.6.*", "asyncpg", "uvloop")),
    Contestant("oban", "oban", ("oban==0.7.*", "uvloop", "psycopg[binary,pool]"), (3, 12)),
    Contestant("awa", "awa", ("awa-pg==0.6.*", "awa-cli==0.6.*")),
    Contestant("procrastinate", "procrastinate", ("procrastinate==3.*", "psycopg[binary,pool]"), share=0.1),
    Contestant("dbos", "dbos", ("dbos==3.*",), share=0.5),
    Contestant("eventsourcing", "eventsourcing", ("eventsourcing[postgres]>=9.5,<10", "psycopg[binary,pool]")),
)


class NotAvailableError(Exception):
    """An engine cannot take part; its text says why."""


def cache_folder() -> Path:
    """Where the environments of the rivals are kept between runs; ``JOBLEDGER_BENCH_CACHE`` names another place."""
    named = os.environ.get("JOBLEDGER_BENCH_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "jobledger-bench"


def python_of(contestant: Contestant) -> Path:
    """The Python of a contestant's environment, which is made when it is not there yet.

    Raises:
        NotAvailableError: there is no Python that it runs on, or pip could not install it.
    """
    if not contestant.packages:
        return Path(sys.executable)
    folder = cache_folder() / contestant.name
    python, stamp, wanted = folder / "bin" / "python", folder / "installed", "\n".join(contestant.packages)
    if stamp.exists() and stamp.read_text("utf-8") == wanted:
        return python
    _tell([_base_python(contestant.python), "-m", "venv", "--clear", str(folder)])
    _tell([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *contestant.packages])
    stamp.write_text(wanted, "utf-8")
    return python


def _base_python(least: tuple[int, int]) -> str:
    candidates = [sys.executable, "python3.13", "python3.12", "python3.14", "python3"]
    question = f"import ensurepip, sys, venv; sys.exit(sys.version_info < {least})"
    for candidate in candidates:
        with suppress(OSError):
            if subprocess.run([candidate, "-c", question], capture_output=True, check=False).returncode == 0:
                return candidate
    msg = f"it needs Python {least[0]}.{least[1]} with venv, which is not on the PATH"
    raise NotAvailableError(msg)


def _tell(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise NotAvailableError(f"{' '.join(command[1:4])} failed: {''.join(last)}")


class Driver:
    """A running driver of a contestant."""

    def __init__(self, name: str, process: subprocess.Popen[str]) -> None:
        """Wait until it is ready."""
        self.name = name
        self._process = process
        self.commands: list[str] = self.hear()["ready"]

    def ask(self, command: str, count: int) -> dict[str, Any]:
        """Ask, and wait for the answer.

        Raises:
            NotAvailableError: it failed, or did not answer in time.
        """
        self.say(command, count)
        return self.hear()

    def say(self, command: str, count: int) -> None:
        """Ask without waiting."""
        assert self._process.stdin is not None
        print(json.dumps({"do": command, "n": count}), file=self._process.stdin, flush=True)

    def hear(self) -> dict[str, Any]:
        """Wait for an answer.

        Raises:
            NotAvailableError: it failed, or did not answer in time.
        """
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], ANSWER_SECONDS)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            reason = "it ended" if ready else f"it did not answer within {ANSWER_SECONDS:.0f} s"
            raise NotAvailableError(f"{self.name}: {reason}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise NotAvailableError(f"{self.name}: {answer['error']}")
        return answer


@contextmanager
def driving(contestant: Contestant, python: Path, url: str, log: Path) -> Generator[Driver]:
    """Start a contestant's driver on a database, and end it with the block.

    Raises:
        NotAvailableError: it cannot be started.
    """
    command = [str(python), "-P", "-m", f"tests.bench.drivers.{contestant.module}", url]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    with (
        log.open("a") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, cwd=ROOT
        ) as process,
    ):
        try:
            yield Driver(contestant.name, process)
        finally:
            with suppress(BrokenPipeError):
                assert process.stdin is not None
                process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
