"""The command that takes the histories of ended jobs out of the store."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer
from rich.text import Text

from jobledger.adapters.cli.commands import KEEP, command
from jobledger.adapters.cli.controlling import By, operator
from jobledger.adapters.cli.parsing import span_of
from jobledger.adapters.terminal.desk import Desk
from jobledger.adapters.terminal.failing import CORRUPT
from jobledger.adapters.terminal.texts import many, visible

LIMIT: Final = 1_000


def register(app: typer.Typer) -> None:
    """Give the command to an app."""
    command(app, KEEP, "archive --older-than 90d --to 2026-11.jsonl.zst", "archive")(archive)


def archive(
    desk: Desk,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="SPAN", help="Jobs that ended so long ago (90d); else those that policies let go."
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most so many jobs.")] = LIMIT,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="FILE", help="First write a bundle: …jsonl, …jsonl.gz or …jsonl.zst, a new file."),
    ] = None,
    by: By = None,
) -> None:
    """Take the events of ended jobs out of the log; each keeps its status, its key, and one event that stands for all.

    With --to a bundle that proves itself is written and verified first. Without it the events are gone. Jobs whose
    histories do not hold are left alone and named; exit code 4 then.
    """
    age = None if older_than is None else span_of("older_than", older_than)
    with desk.open() as store:
        report = store.archive(older_than=age, limit=limit, to=to, by=operator(by))
    counted = f"{many(report.jobs, 'job')}, {many(report.events, 'event')}"
    place = f" to {visible(report.file)}" if report.file else ""
    lines: list[Any] = [Text(f"left alone: {visible(job_id)}: {visible(why)}") for job_id, why in report.left]
    if report.waiting:
        lines.append(Text(f"{many(report.waiting, 'job')} to be archived later: a projection has not read them yet"))
    if report.sha256:
        lines.append(Text(f"sha256 {report.sha256}", style="dim"))
    desk.answer(report, *lines, Text(f"archived {counted}{place}"))
    if report.left:
        raise typer.Exit(CORRUPT)
