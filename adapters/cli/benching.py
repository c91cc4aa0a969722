"""The command that measures this machine with a store: bench."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from jobledger.adapters.bootstrap import is_served, shown_url, sqlite_path
from jobledger.adapters.cli.commands import KEEP, command
from jobledger.adapters.measuring import MEASURES, Measured, measure, place_beside
from jobledger.adapters.terminal.desk import Desk
from jobledger.adapters.terminal.failing import FolderMissingError
from jobledger.adapters.terminal.showing import table

JOBS: int = 2_000
JOBS_MIN: int = 20
JOBS_MAX: int = 1_000_000


def register(app: typer.Typer) -> None:
    """Give this command to an app."""
    command(app, KEEP, "bench", "bench --jobs 20000 --store postgresql://db.example/jobs")(bench)


def bench(
    desk: Desk,
    jobs: Annotated[
        int, typer.Option("--jobs", metavar="N", min=JOBS_MIN, max=JOBS_MAX, help="How many jobs are made and run.")
    ] = JOBS,
) -> None:
    """Time calls and a host on this machine, in a file or a schema beside the store that is removed again.

    The store itself is neither read nor written. On PostgreSQL it takes the right to create a schema.
    """
    if not is_served(desk.url) and not (path := sqlite_path(desk.url)).parent.is_dir():
        raise FolderMissingError(os.fspath(path.parent))
    with place_beside(desk.url) as url:
        found = list(desk.counted(measure(url, jobs), "measuring", MEASURES))
    shown = table("what", "count", "a second", "p50", "p99", whole=("what",))
    for each in found:
        shown.add_row(each.what, f"{each.count:,}", f"{each.rate:,.0f}", _span(each.p50_ms), _span(each.p99_ms))
    desk.answer({"store": shown_url(desk.url), "jobs": jobs, "measures": [_told(each) for each in found]}, shown)


def _span(milliseconds: float | None) -> str:
    return "" if milliseconds is None else f"{milliseconds:.2f} ms"


def _told(each: Measured) -> dict[str, object]:
    return {
        "what": each.what,
        "count": each.count,
        "seconds": each.seconds,
        "rate": each.rate,
        "p50_ms": each.p50_ms,
        "p99_ms": each.p99_ms,
    }
