"""A private PostgreSQL server for the benchmark, as durable as one in production, and gone when the run ends."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SETTINGS = {
    "listen_addresses": "",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "max_connections": "200",
    "jit": "off",
    "log_min_messages": "error",
}
"""All else is as PostgreSQL ships it: fsync, synchronous_commit and full_page_writes are on."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running server: the folder of its socket, and its programs."""

    folder: Path
    programs: Path

    def url(self, database: str) -> str:
        """A URL of a database, as every driver reads it."""
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def psql(self, statement: str, database: str = "postgres") -> str:
        """What a statement answers."""
        arguments = ["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]
        return _run("", self.programs / "psql", *arguments, "--dbname", self.url(database), "--command", statement)

    def fresh(self, database: str) -> str:
        """An empty database in place of what had this name before; answers its URL."""
        self.psql(f'DROP DATABASE IF EXISTS "{database}" WITH (FORCE)')
        self.psql(f'CREATE DATABASE "{database}"')
        return self.url(database)

    def version(self) -> str:
        """The server's version, for people."""
        return self.psql("SHOW server_version").strip()

    def single_row_commits(self, clients: int, seconds: int) -> float:
        """Transactions a second of one insert of one row each: what this machine's disk and server can do at most."""
        url = self.fresh("floor")
        self.psql("CREATE TABLE floor (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text)", "floor")
        script = self.folder / "floor.sql"
        script.write_text("INSERT INTO floor (body) VALUES (repeat('x', 300));\n", "utf-8")
        arguments = ["--no-vacuum", "--protocol=prepared", f"--client={clients}", f"--jobs={min(clients, 2)}"]
        told = _run("", self.programs / "pgbench", *arguments, f"--time={seconds}", f"--file={script}", url)
        [line] = [each for each in told.splitlines() if each.startswith("tps = ")]
        return float(line.split()[2])


@contextmanager
def running(where: Path | None = None) -> Generator[Cluster]:
    """Make a cluster in a folder of its own, run its server for the block, and remove both.

    Raises:
        LookupError: no server's programs are installed.
    """
    programs = find_programs()
    user = _servant()
    folder = Path(tempfile.mkdtemp(prefix="jobledger-bench-", dir=where))
    try:
        folder.chmod(0o755)
        if user:
            shutil.chown(folder, user)
        data = folder / "data"
        initdb = ["--username", "postgres", "--auth", "trust", "--encoding", "UTF8", "--locale", "C"]
        _run(user, programs / "initdb", "--pgdata", data, *initdb, "--no-instructions")
        options = "".join(f" -c {name}='{value}'" for name, value in SETTINGS.items()) + f" -k {folder}"
        control = [programs / "pg_ctl", "--pgdata", data, "--silent", "--wait"]
        _run(user, *control, "--log", folder / "log", "--options", options, "start")
        try:
            yield Cluster(folder, programs)
        finally:
            _run(user, *control, "--mode", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def find_programs() -> Path:
    """The folder of the newest server's programs; ``JOBLEDGER_POSTGRESQL`` names another.

    Raises:
        LookupError: none is installed.
    """
    named = os.environ.get("JOBLEDGER_POSTGRESQL")
    versions = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if path.parent.name.isdecimal()]
    found = [Path(named)] if named else sorted(versions, key=lambda path: int(path.parent.name), reverse=True)
    if config := shutil.which("pg_config"):
        found.append(
            Path(subprocess.run([config, "--bindir"], capture_output=True, text=True, check=True).stdout.strip())
        )
    for programs in found:
        if (programs / "initdb").exists():
            return programs
    msg = "no PostgreSQL server is installed: install Debian's postgresql, or name its programs by JOBLEDGER_POSTGRESQL"
    raise LookupError(msg)


def _servant() -> str:
    """The user whom the server runs as: it refuses root, and otherwise it is this one."""
    if os.getuid() != 0:
        return ""
    return "postgres" if "postgres" in {entry.pw_name for entry in pwd.getpwall()} else "nobody"


def _run(user: str, *command: object) -> str:
    known = pwd.getpwnam(user) if user else None
    ended = subprocess.run(
        [str(part) for part in command],
        user=known.pw_uid if known else None,
        group=known.pw_gid if known else None,
        extra_groups=[] if known else None,
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
    return ended.stdout
