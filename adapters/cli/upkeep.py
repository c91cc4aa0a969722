"""The commands of auditors and maintainers: verify, rebuild, epoch, migrate, doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from jobledger.adapters.bootstrap import open_storage, sqlite_path
from jobledger.adapters.cli.commands import KEEP, command, epilog
from jobledger.adapters.cli.controlling import By, Reason, operator
from jobledger.adapters.cli.diagnosing import diagnose, diagnosis_table, exit_code_of
from jobledger.adapters.terminal.desk import Desk
from jobledger.adapters.terminal.failing import CORRUPT
from jobledger.adapters.terminal.showing import problems_table, verification_text
from jobledger.adapters.terminal.texts import many, visible
from jobledger.domain.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobledger.projections.audit import Verification

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The worker group.")]


def register(app: typer.Typer) -> None:
    """Give these commands to an app."""
    command(app, KEEP, "verify ID", "verify --all --json")(verify)
    command(app, KEEP, "rebuild status")(rebuild)
    epochs = typer.Typer(help="Show or advance the epoch of a worker group.")
    epochs.callback(invoke_without_command=True)(show_help)
    command(epochs, None, "epoch show workers", name="show")(show_epoch)
    command(epochs, None, "epoch advance workers --reason 'the new release is out'", name="advance")(advance_epoch)
    app.add_typer(
        epochs, name="epoch", rich_help_panel=KEEP, epilog=epilog("epoch show", "epoch advance --reason 'new release'")
    )
    command(app, KEEP, "migrate", "migrate --store sqlite:////var/lib/jobs.db")(migrate)
    command(app, KEEP, "doctor")(doctor)


def verify(
    desk: Desk,
    job_id: Annotated[str | None, typer.Argument(metavar="ID", help="The job's id.")] = None,
    all_: Annotated[bool, typer.Option("--all", metavar="", help="Every job of the namespace.")] = False,  # noqa: FBT002  # a flag
) -> None:
    """Check a job's whole history: every digest, every fence, every rule; exit code 4 if anything is wrong."""
    if (job_id is None) is not all_:
        raise InvalidRequestError("ID", "give one job's id, or --all for every job of the namespace")
    with desk.open() as store:
        if job_id is not None:
            found = store.verify(job_id)
            desk.answer(_verdict([found], found.events, 1), *_verdict_lines(found))
            is_ok = found.ok
        else:
            is_ok = _verify_all(desk, store.verify_all())
    if not is_ok:
        raise typer.Exit(CORRUPT)


def _verdict_lines(found: Verification) -> list[Any]:
    line = (
        f"verify: ok ({many(found.events, 'event')})" if found.ok else f"verify: {many(len(found.problems), 'problem')}"
    )
    return [verification_text(found), *([] if found.ok else [problems_table([found])]), Text(line)]


def _verify_all(desk: Desk, verifications: Iterable[Verification]) -> bool:
    jobs = events = 0
    broken: list[Verification] = []
    for found in verifications:
        jobs, events = jobs + 1, events + found.events
        if not found.ok:
            broken.append(found)
    verdict = "ok" if not broken else f"{many(len(broken), 'job')} NOT ok"
    summary = Text(f"verify: {verdict} ({many(jobs, 'job')}, {many(events, 'event')})")
    lines = [verification_text(found) for found in broken]
    desk.answer(_verdict(broken, events, jobs), *lines, *([problems_table(broken)] if broken else []), summary)
    return not broken


def _verdict(found: list[Verification], events: int, jobs: int) -> dict[str, Any]:
    problems = [
        {"job_id": each.job_id, "sequence": problem.sequence, "rule": problem.rule, "text": problem.text}
        for each in found
        for problem in each.problems
    ]
    return {"ok": not problems, "jobs": jobs, "events": events, "problems": problems}


def rebuild(
    desk: Desk, projection: Annotated[str, typer.Argument(metavar="PROJECTION", help="What to rebuild: status.")]
) -> None:
    """Fold every job's events again, and mend the rows that differ from them."""
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


def migrate(desk: Desk) -> None:
    """Make the store, or bring its schema up to date; safe to repeat, and for any number of processes at once."""
    with desk.migrated():
        pass
    path = sqlite_path(desk.url)
    version = schema_version(desk)
    answer = {"store": desk.url, "schema": version}
    desk.answer(answer, Text(f"the store {visible(str(path))} has schema version {version}, which is current"))


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
