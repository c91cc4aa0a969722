"""The commands that only look: jobs, show, events, units, controls, timeline."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text

from jobledger.adapters.cli.commands import READ, JobId, Limit, command
from jobledger.adapters.cli.parsing import label_filter, moment_of
from jobledger.adapters.terminal.courses import course_table
from jobledger.adapters.terminal.desk import Desk
from jobledger.adapters.terminal.documents import plain
from jobledger.adapters.terminal.showing import (
    controls_table,
    counts_line,
    events_table,
    jobs_footer,
    jobs_table,
    status_table,
    units_table,
)

Owner = Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only this owner's.")]


def register(app: typer.Typer) -> None:
    """Give these commands to an app."""
    command(app, READ, "jobs", "jobs --state running --owner team-a", "jobs --label quarter=3 --json")(jobs)
    command(app, READ, "show ID", "show ID --at 7", "show ID --at '2026-11-29 13:52:44Z'")(show)
    command(app, READ, "events ID", "events ID --after 100 --limit 50")(events)
    command(app, READ, "units ID")(units)
    command(app, READ, "controls ID")(controls)
    command(app, READ, "timeline ID")(timeline)


def jobs(
    desk: Desk,
    owner: Owner = None,
    kind: Annotated[str | None, typer.Option("--kind", metavar="KIND", help="Only of this kind.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", metavar="NAME", help="Only in this queue.")] = None,
    state: Annotated[
        str | None, typer.Option("--state", metavar="STATE", help="Only in this state: queued, running, paused, …")
    ] = None,
    label: Annotated[
        str | None, typer.Option("--label", metavar="NAME[=VALUE]", help="Only with this label, or label and value.")
    ] = None,
    key_prefix: Annotated[
        str | None, typer.Option("--key-prefix", metavar="TEXT", help="Only with keys that begin so.")
    ] = None,
    held: Annotated[
        bool | None, typer.Option("--held/--not-held", metavar="", help="Only held ones, or only the others.")
    ] = None,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="TEXT", help="Read on behind a page, with the text it gave.")
    ] = None,
    limit: Limit = 50,
) -> None:
    """List jobs, newest first, with how many stand in each state."""
    with desk.open() as store:
        page = store.jobs(
            owner=owner,
            kind=kind,
            queue=queue,
            state=state,
            label=label_filter(label),
            key_prefix=key_prefix,
            held=held,
            cursor=cursor,
            limit=limit,
        )
        counts = store.counts(owner=owner, queue=queue)
    now = datetime.now(UTC)
    desk.answer(
        plain(page) | {"counts": counts}, jobs_table(page, now), Text(""), jobs_footer(page), counts_line(counts)
    )


def show(
    desk: Desk,
    job_id: JobId,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="N|TIME", help="As it stood at a sequence, or at a time (UTC, to the end of its second)."
        ),
    ] = None,
) -> None:
    """Show a job as it stands with the controls it has now, or as it stood before."""
    moment = moment_of(at)
    now = datetime.now(UTC)
    with desk.open() as store:
        status = store.status(job_id, at=moment)
        if moment is not None:
            head = f"as it stood at sequence {status.sequence}"
            desk.answer(status, Text(head, style="yellow"), status_table(status, now, is_past=True))
            return
        available = store.controls(job_id)
    desk.answer(plain(status) | {"available": available}, status_table(status, now, available))


def events(
    desk: Desk,
    job_id: JobId,
    after: Annotated[int, typer.Option("--after", metavar="N", help="Those behind this sequence.")] = 0,
    limit: Limit = 100,
) -> None:
    """List what happened to a job, from a sequence on."""
    with desk.open() as store:
        window = store.events(job_id, after=after, limit=limit)
    desk.answer(window, *events_table(window, datetime.now(UTC)))


def units(
    desk: Desk,
    job_id: JobId,
    after: Annotated[str | None, typer.Option("--after", metavar="UNIT", help="Those behind this unit.")] = None,
    limit: Limit = 100,
) -> None:
    """List the receipts of the units that a job has done."""
    with desk.open() as store:
        page = store.units(job_id, after=after, limit=limit)
    more = [Text(f"there are more: --after {page.next_after!r}", style="dim")] if page.next_after else []
    desk.answer(page, units_table(page.units), *more)


def controls(desk: Desk, job_id: JobId) -> None:
    """Show what may be asked of a job now, and why the rest may not."""
    with desk.open() as store:
        found, status = store.controls(job_id), store.status(job_id)
    desk.answer(plain(found) | {"control_sequence": status.control_sequence}, *controls_table(found, status))


def timeline(desk: Desk, job_id: JobId) -> None:
    """Show a job's course: when it waited, and which attempt ran when."""
    with desk.open() as store:
        course = store.timeline(job_id)
    desk.answer(course, *course_table(course, datetime.now(UTC)))
