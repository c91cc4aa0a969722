"""Starts PgBouncer in transaction mode before the tests' server, where it is installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.postgresql.server import identity, server

PROGRAM = shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin")

SETTINGS = """
[databases]
postgres = host={server} port=5432 dbname=postgres user=postgres
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
listen_port = 5432
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 300
logfile = {folder}/log
pidfile = {folder}/pid
ignore_startup_parameters = extra_float_digits
"""


@contextmanager
def pooler(folder: Path) -> Generator[Path]:
    """A pooler of four sessions; answers the folder of its socket."""
    assert PROGRAM is not None
    settings = folder / "pgbouncer.ini"
    settings.write_text(SETTINGS.format(server=server().folder, folder=folder), "utf-8")
    servant = identity()
    if servant:
        shutil.chown(folder, servant["user"], servant["group"])
    process: subprocess.Popen[Any] = subprocess.Popen(
        [PROGRAM, str(settings)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **servant
    )
    try:
        _wait_for(folder, process)
        yield folder
    finally:
        process.terminate()
        process.wait(20)


def _wait_for(folder: Path, process: subprocess.Popen[Any]) -> None:
    """Return when it takes connections."""
    while process.poll() is None:
        try:
            psycopg.connect(f"postgresql://postgres@/postgres?host={folder}").close()
        except psycopg.OperationalError:
            with server().connect() as connection:
                connection.execute("SELECT pg_sleep(0.02)")
        else:
            return
    msg = f"pgbouncer ended at once:\n{(folder / 'log').read_text('utf-8') if (folder / 'log').exists() else ''}"
    raise RuntimeError(msg)
