"""The commands of auditors: verify."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from jobledger.adapters.auditing.verifying import verify_everything
from jobledger.adapters.cli.commands import KEEP, command
from jobledger.adapters.terminal.desk import Desk
from jobledger.adapters.terminal.failing import CORRUPT
from jobledger.adapters.terminal.showing import problems_table, verification_text
from jobledger.adapters.terminal.texts import many
from jobledger.domain.errors import InvalidRequestError
from jobledger.projections.audit import is_job

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobledger.projections.audit import Verification


def register(app: typer.Typer) -> None:
    """Give these commands to an app."""
    command(app, KEEP, "verify ID", "verify --all --json")(verify)


def verify(
    desk: Desk,
    job_id: Annotated[str | None, typer.Argument(metavar="ID", help="The job's id.")] = None,
    all_: Annotated[bool, typer.Option("--all", metavar="", help="Every job of the namespace.")] = False,  # noqa: FBT002  # a flag
) -> None:
    """Check a job's whole history: every digest, every fence, every rule; exit code 4 if anything is wrong."""
    if (job_id is None) is not all_:
        raise InvalidRequestError("ID", "give one job's id, or --all for every job of the namespace")
    if job_id is None:
        with desk.open() as store:
            total = sum(store.counts().values())
        is_ok = _verify_all(desk, desk.counted(verify_everything(desk.url, desk.namespace), "verifying", total))
    else:
        with desk.open() as store:
            found = store.verify(job_id)
        desk.answer(_verdict([found], found.events, 1), *_verdict_lines(found))
        is_ok = found.ok
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
        jobs, events = jobs + is_job(found.job_id), events + found.events
        if not found.ok:
            broken.append(found)
    broken.sort(key=lambda found: found.job_id)
    verdict = "ok" if not broken else f"{many(len(broken), 'stream')} NOT ok"
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
