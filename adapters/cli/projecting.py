"""The commands over what the feed was folded into: totals, workers, operators, projections."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from jobledger.adapters.cli.commands import KEEP, READ, Limit, command, epilog
from jobledger.adapters.cli.upkeep import show_help
from jobledger.adapters.terminal.desk import Desk
from jobledger.adapters.terminal.projections import (
    operators_table,
    paces_table,
    projections_table,
    totals_table,
    workers_table,
)

Owner = Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only this owner's.")]
Queue = Annotated[str | None, typer.Option("--queue", metavar="NAME", help="Only of this queue.")]
Kind = Annotated[str | None, typer.Option("--kind", metavar="KIND", help="Only of this kind.")]
Cursor = Annotated[
    str | None, typer.Option("--cursor", metavar="TEXT", help="Read on behind a page, with the text it gave.")
]
OneName = Annotated[str, typer.Argument(metavar="NAME", help="totals, workers or operators.")]
AnyName = Annotated[str | None, typer.Argument(metavar="[NAME]", help="totals, workers or operators. Default: all.")]


def register(app: typer.Typer) -> None:
    """Give these commands to an app."""
    command(app, READ, "totals", "totals --queue mail", "totals --per minute --last 60")(totals)
    command(app, READ, "workers", "workers --holding")(workers)
    command(app, READ, "operators", "operators --by ann")(operators)
    projections = typer.Typer(help="See, run and release what the feed is folded into.")
    projections.callback(invoke_without_command=True)(show_help)
    command(projections, None, "projections list", name="list")(list_projections)
    command(projections, None, "projections run", "projections run totals", name="run")(run_projections)
    command(projections, None, "projections release totals", name="release")(release_projection)
    examples = epilog("projections list", "projections run")
    app.add_typer(projections, name="projections", rich_help_panel=KEEP, epilog=examples)


def totals(
    desk: Desk,
    owner: Owner = None,
    queue: Queue = None,
    kind: Kind = None,
    per: Annotated[
        str | None, typer.Option("--per", metavar="minute|day", help="What happened in each minute or day instead.")
    ] = None,
    last: Annotated[int, typer.Option("--last", metavar="N", help="How many minutes or days, with --per.")] = 60,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> None:
    """Tell what was created, stands where, ended how and took how long, by queue and kind."""
    with desk.open() as store:
        if per is not None:
            span: Any = per
            paces = store.paces(per=span, last=last, owner=owner, queue=queue, kind=kind)
            desk.answer(paces, *paces_table(paces))
            return
        page = store.totals(owner=owner, queue=queue, kind=kind, cursor=cursor, limit=limit)
    desk.answer(page, *totals_table(page, datetime.now(UTC)))


def workers(
    desk: Desk,
    owner: Owner = None,
    holding: Annotated[
        bool | None, typer.Option("--holding/--idle", metavar="", help="Only those that hold a lease, or none.")
    ] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> None:
    """Tell who holds which leases and until when, what became of their attempts, and which leases they lost."""
    with desk.open() as store:
        page = store.workers(owner=owner, holding=holding, cursor=cursor, limit=limit)
    desk.answer(page, *workers_table(page, datetime.now(UTC)))


def operators(
    desk: Desk,
    owner: Owner = None,
    by: Annotated[str | None, typer.Option("--by", metavar="NAME", help="Only what this operator asked.")] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> None:
    """Tell who asked what of which job, schedule or group, and why; the newest first."""
    with desk.open() as store:
        page = store.operators(owner=owner, by=by, cursor=cursor, limit=limit)
    desk.answer(page, *operators_table(page, datetime.now(UTC)))


def list_projections(desk: Desk) -> None:
    """Tell how far each projection has read, which is parked at what, and what to do about it."""
    with desk.open() as store:
        found = store.projections()
    desk.answer({"projections": found}, *projections_table(found, datetime.now(UTC)))


def run_projections(desk: Desk, name: AnyName = None) -> None:
    """Fold what the feed has, to its end; safe beside hosts and servers that do so all the time."""
    with desk.open() as store:
        found = store.run_projections(name)
    desk.answer({"projections": found}, *projections_table(found, datetime.now(UTC)))


def release_projection(desk: Desk, name: OneName) -> None:
    """Let a parked projection read on, from the event that it was parked at."""
    with desk.open() as store:
        status = store.release_projection(name)
    desk.answer(status, *projections_table([status], datetime.now(UTC)))
