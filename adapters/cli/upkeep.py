"""The commands of maintainers: rebuild, epoch, migrate, doctor."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from jobledger.adapters.bootstrap import grant_roles, is_served, open_storage, shown_url, sqlite_path
from jobledger.adapters.cli.commands import KEEP, command, epilog
from jobledger.adapters.cli.controlling import By, Reason, operator
from jobledger.adapters.cli.diagnosing import diagnose, diagnosis_table, exit_code_of
from jobledger.adapters.terminal.desk import Desk
from jobledger.adapters.terminal.texts import many, visible

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The worker group.")]


def register(app: typer.Typer) -> None:
    """Give these commands to an app."""
    command(app, KEEP, "rebuild status", "rebuild totals")(rebuild)
    epochs = typer.Typer(help="Show or advance the epoch of a worker group.")
    epochs.callback(invoke_without_command=True)(show_help)
    command(epochs, None, "epoch show workers", name="show")(show_epoch)
    command(epochs, None, "epoch advance workers --reason 'the new release is out'", name="advance")(advance_epoch)
    app.add_typer(
        epochs, name="epoch", rich_help_panel=KEEP, epilog=epilog("epoch show", "epoch advance --reason 'new release'")
    )
    command(app, KEEP, "migrate", "migrate --store sqlite:////var/lib/jobs.db")(migrate)
    command(app, KEEP, "doctor")(doctor)


def rebuild(
    desk: Desk,
    projection: Annotated[
        str, typer.Argument(metavar="PROJECTION", help="What to rebuild: status, totals, workers, operators.")
    ],
) -> None:
    """Fold all events again: `status` mends rows that differ, any other is built beside the live one and swapped."""
    with desk.open() as store:
        report = store.rebuild(projection)
    summary = f"rebuilt {visible(report.projection)}: {many(report.jobs, 'job')}, {many(report.events, 'event')}"
    lines = [Text(f"mended {visible(job_id)}") for job_id in report.mended]
    desk.answer(report, *lines, Text(f"{summary}, {len(report.mended)} mended"))


def show_help(context: typer.Context) -> None:
    """Show or advance the epoch of a worker group."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def show_epoch(desk: Desk, group: Group = "default") -> None:
    """Show the epoch that a worker group is at."""
    with desk.open() as store:
        epoch = store.epoch(group)
    desk.answer({"group": group, "epoch": epoch}, Text(f"group {visible(group)} is at epoch {epoch}"))


def advance_epoch(desk: Desk, reason: Reason, group: Group = "default", by: By = None) -> None:
    """Fence off all work of a group's current epoch at once: its leases are not live from now on."""
    with desk.open() as store:
        epoch = store.advance_epoch(group, by=operator(by), reason=reason)
    desk.answer({"group": group, "epoch": epoch}, Text(f"group {visible(group)} is at epoch {epoch} from now on"))


def migrate(
    desk: Desk,
    roles: Annotated[  # noqa: FBT002  # a flag is typed by its name
        bool, typer.Option("--roles", metavar="", help="Also make the roles app, reader and retention (PostgreSQL).")
    ] = False,
) -> None:
    """Make the store, or bring its schema up to date; safe to repeat, and for any number of processes at once."""
    with desk.migrated():
        pass
    granted = grant_roles(desk.url) if roles else []
    url = shown_url(desk.url)
    named = url if is_served(desk.url) else str(sqlite_path(desk.url))
    version = schema_version(desk)
    answer = {"store": url, "schema": version, "roles": granted}
    lines = [Text(f"the roles {', '.join(map(visible, granted))} have their rights")] if roles else []
    desk.answer(answer, Text(f"the store {visible(named)} has schema version {version}, which is current"), *lines)


def schema_version(desk: Desk) -> int:
    """The number of the schema that the store has."""
    storage = open_storage(desk.url, migrate=False)
    try:
        version: int = getattr(storage, "schema_version", lambda: 0)()
    finally:
        storage.close()
    return version


def doctor(desk: Desk) -> None:
    """Look for what could make jobs unsafe or slow here: versions, the disk, the clock, and leases nobody recovered."""
    findings = diagnose(desk.url, desk.namespace)
    code = exit_code_of(findings)
    desk.answer({"ok": not code, "checks": findings}, diagnosis_table(findings))
    if code:
        raise typer.Exit(code)
