"""What a doctor looks at: versions, SQLite's safety, the file system, the disk, the clock, and leases nobody recovered.

A check answers with a mark: ``ok``, ``warn`` (works, but look at it) or ``fail`` (jobs are not safe, or cannot run).
"""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import sys
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.text import Text

from jobledger.adapters.bootstrap import JobStore, is_served, sqlite_path
from jobledger.adapters.cli.diagnosing_server import schema, server
from jobledger.adapters.cli.findings import Finding, Mark
from jobledger.adapters.storage.sqlite_connecting import connect
from jobledger.adapters.terminal.failing import CORRUPT, DONE, UNAVAILABLE, met
from jobledger.adapters.terminal.showing import table
from jobledger.adapters.terminal.texts import age, many, span, visible
from jobledger.domain.bounds import PAGE_MAX
from jobledger.domain.errors import CorruptError, JobledgerError
from jobledger.domain.job import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.table import Table

PYTHON_MIN: Final = (3, 11)
SQLITE_MIN: Final = (3, 35)
SQLITE_MENDED: Final = (3, 51, 3)
SQLITE_MENDED_LINES: Final[dict[tuple[int, ...], int]] = {(3, 44): 6, (3, 50): 7}
"""From which release on a write-ahead log cannot be reset wrongly any more, and two older lines that were mended too.

Source: https://sqlite.org/wal.html#walresetbug (two connections that write and checkpoint at the same instant).
"""

FREE_FAIL: Final = 64 * 1024 * 1024
FREE_WARN: Final = 1024 * 1024 * 1024
CLOCK_MIN: Final = datetime(2025, 1, 1, tzinfo=UTC)
CLOCK_SLACK: Final = timedelta(seconds=2)
RETENTION_SLACK: Final = timedelta(hours=1)
SHARED: Final = frozenset(
    {
        "9p",
        "afs",
        "ceph",
        "cifs",
        "fuse.glusterfs",
        "fuse.s3fs",
        "fuse.sshfs",
        "glusterfs",
        "lustre",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
    }
)
"""File systems that several machines share: write-ahead logs are not safe on them."""

PACKAGES: Final = ("jobledger", "eventsourcing", "psycopg", "pydantic", "typer", "rich")


def diagnose(url: str, namespace: str) -> list[Finding]:
    """Run every check; a store that does not exist or cannot be opened is a finding, not an error.

    Raises:
        InvalidRequestError: the URL names no store.
    """
    if is_served(url):
        findings = [_python(), _packages(), *_safely("server", lambda: server(url))]
        if all(finding.mark != "fail" for finding in findings if finding.check == "server"):
            findings += _safely("store", lambda: _served(url, namespace))
        return findings
    path = sqlite_path(url)
    findings = [_python(), sqlite_release(sqlite3.sqlite_version_info), _packages(), _file_system(path), _disk(path)]
    findings += _safely("store", lambda: _store(url, namespace, path))
    return findings


def exit_code_of(findings: list[Finding]) -> int:
    """0, or that of the worst finding."""
    failed = [finding for finding in findings if finding.mark == "fail"]
    if not failed:
        return DONE
    return CORRUPT if any(finding.is_corrupt for finding in failed) else UNAVAILABLE


def diagnosis_table(findings: list[Finding]) -> Table:
    """The findings, one on each line."""
    styles = {"ok": "green", "warn": "yellow", "fail": "bold red"}
    built = table("", "check", "found", whole=("", "check"))
    for finding in findings:
        built.add_row(Text(finding.mark, style=styles[finding.mark]), finding.check, Text(visible(finding.found)))
    return built


# The machine ----------------------------------------------------------------------------------------------------------


def _python() -> Finding:
    found = f"{platform.python_implementation()} {platform.python_version()}"
    return Finding("python", "ok" if sys.version_info >= PYTHON_MIN else "fail", found)


def sqlite_release(current: tuple[int, ...]) -> Finding:
    """A release of SQLite, judged by what jobledger needs and by the faults that it is known for."""
    named = ".".join(map(str, current))
    if current < SQLITE_MIN:
        oldest = ".".join(map(str, SQLITE_MIN))
        return Finding("sqlite", "fail", f"{named}; at least {oldest} is needed")
    mended_from = SQLITE_MENDED_LINES.get(current[:2])
    if current >= SQLITE_MENDED or (mended_from is not None and current[2] >= mended_from):
        return Finding("sqlite", "ok", named)
    problem = "a very rare fault can damage write-ahead logs; 3.51.3 mends it (also 3.50.7 and 3.44.6)"
    return Finding("sqlite", "warn", f"{named}: {problem}")


def _packages() -> Finding:
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            return Finding("packages", "fail", f"{name} is not installed")
    return Finding("packages", "ok", ", ".join(found))


def _file_system(path: Path) -> Finding:
    folder = _nearest(path)
    kind = _kind_of_file_system(folder)
    if kind is None:
        return Finding("file system", "ok", "its kind is not known on this system; it has to be a local disk")
    if kind in SHARED:
        problem = f"{kind} is shared between machines, where write-ahead logs are not safe; use a local disk"
        return Finding("file system", "fail", problem)
    if kind in {"tmpfs", "ramfs"}:
        return Finding("file system", "warn", f"{kind} is memory: everything is gone after a restart of the machine")
    return Finding("file system", "ok", kind)


def _kind_of_file_system(folder: Path) -> str | None:
    """The kind of the file system that holds a folder, from the mounts that Linux tells of."""
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    kinds = {}
    for line in lines:
        _, place, kind, *_ = [*line.split(" "), "", "", ""]
        kinds[place.encode("latin-1", "replace").decode("unicode_escape", "replace")] = kind
    for parent in (folder, *folder.parents):
        if str(parent) in kinds:
            return kinds[str(parent)]
    return None


def _disk(path: Path) -> Finding:
    folder = _nearest(path)
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding("disk", "warn", f"its free space is not known: {error.strerror}")
    mark: Mark = "fail" if free < FREE_FAIL else "warn" if free < FREE_WARN else "ok"
    return Finding("disk", mark, f"{free / 2**30:,.1f} GiB free at {folder}")


def _nearest(path: Path) -> Path:
    """The nearest folder above a file that exists."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100  # resolving links would name another place than people know
    return next((parent for parent in absolute.parents if parent.is_dir()), Path("/"))


# The store ------------------------------------------------------------------------------------------------------------


def _safely(check: str, look: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """What a group of checks found, up to the one that could not look."""
    findings: list[Finding] = []
    try:
        findings.extend(look())
    except CorruptError as error:
        is_corrupt = met(error)[0] == CORRUPT
        findings.append(Finding(check, "fail", str(error), is_corrupt=is_corrupt))
    except (JobledgerError, sqlite3.Error, OSError) as error:
        findings.append(Finding(check, "fail", str(error)))
    return findings


def _store(url: str, namespace: str, path: Path) -> Iterator[Finding]:
    if not path.exists():
        yield Finding("store", "warn", f"there is none at {path}; make it with 'jobledger migrate'")
        return
    with JobStore.open(url, namespace=namespace, migrate=False) as store:
        counts = store.counts()
        yield Finding("store", "ok", f"{path}, schema current, {many(sum(counts.values()), 'job')}")
        yield _durability(path)
        yield _writable(path)
        yield _clock(store)
        yield _leases(store)
        yield _retention(store)


def _served(url: str, namespace: str) -> Iterator[Finding]:
    with JobStore.open(url, namespace=namespace, migrate=False) as store:
        counts = store.counts()
        yield Finding("store", "ok", f"schema current, {many(sum(counts.values()), 'job')}")
        yield from schema(url, store)
        yield _leases(store)
        yield _retention(store)


def _retention(store: JobStore) -> Finding:
    """Whether jobs that their policies let go are archived: hosts do it, if their role may."""
    waiting, since = store.overdue(limit=PAGE_MAX)
    if since is None or datetime.now(UTC) - since < RETENTION_SLACK:
        return Finding("retention", "ok", f"{many(waiting, 'job')} to be archived now")
    more = "or more " if waiting == PAGE_MAX else ""
    problem = f"{many(waiting, 'job')} {more}should have been archived, the first {age(since, datetime.now(UTC))}"
    return Finding("retention", "warn", f"{problem}; let a host do it, or run 'jobledger archive' as who may")


def _durability(path: Path) -> Finding:
    connection = connect(os.fspath(path))
    try:
        [mode] = connection.raw.execute("PRAGMA journal_mode").fetchone()
        [synchronous] = connection.raw.execute("PRAGMA synchronous").fetchone()
    finally:
        connection.close()
    names = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}
    is_safe = mode == "wal" and synchronous >= 2  # noqa: PLR2004  # FULL, as PRAGMA synchronous numbers it
    return Finding("durability", "ok" if is_safe else "fail", f"journal {mode}, synchronous {names.get(synchronous)}")


def _writable(path: Path) -> Finding:
    if os.access(path, os.W_OK) and os.access(_nearest(path), os.W_OK):
        return Finding("permissions", "ok", "the file and its folder can be written")
    return Finding("permissions", "fail", "the file or its folder cannot be written by you")


def _clock(store: JobStore) -> Finding:
    now = datetime.now(UTC)
    if now < CLOCK_MIN:
        return Finding("clock", "fail", f"the machine says {now:%Y-%m-%d}; set its clock")
    newest = max((job.updated_at for job in store.jobs(limit=PAGE_MAX).jobs), default=now)
    if newest > now + CLOCK_SLACK:
        problem = f"the store's last event lies {span(newest - now)} ahead of this machine's clock; set the clock"
        return Finding("clock", "warn", problem)
    return Finding("clock", "ok", f"{now:%Y-%m-%d %H:%M:%S}Z, last event {age(newest, now)}")


def _leases(store: JobStore) -> Finding:
    now = datetime.now(UTC)
    running = store.jobs(state=State.RUNNING, limit=PAGE_MAX).jobs
    dead = [job for job in running if job.lease is not None and job.lease.expires_at <= now]
    if not dead:
        return Finding("leases", "ok", f"{many(len(running), 'job')} running, no lease has run out")
    oldest = min(job.lease.expires_at for job in dead if job.lease is not None)
    problem = f"{many(len(dead), 'lease')} ran out, the first {age(oldest, now)}"
    return Finding("leases", "warn", f"{problem}; start a worker, or run 'jobledger recover --expired'")
