"""The commands that tell an auditor what became of one job: audit and diff."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from jobledger.adapters.auditing.page import page_of
from jobledger.adapters.bundles.files import written
from jobledger.adapters.cli.commands import KEEP, JobId, command
from jobledger.adapters.terminal.desk import Desk
from jobledger.adapters.terminal.documents import plain
from jobledger.adapters.terminal.failing import CORRUPT
from jobledger.adapters.terminal.showing import event_style, problems_table, table
from jobledger.adapters.terminal.texts import compact, instant, many, visible
from jobledger.projections.story import lasted

if TYPE_CHECKING:
    from jobledger.domain.values import Json
    from jobledger.projections.story import Sentence


def register(app: typer.Typer) -> None:
    """Give these commands to an app."""
    command(app, KEEP, "audit ID", "audit ID --html job.html")(audit)
    command(app, KEEP, "diff ID 12 40")(diff)


def audit(
    desk: Desk,
    job_id: JobId,
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Write one page of HTML that needs nothing else.")
    ] = None,
) -> None:
    """Tell a job's whole story: who did what, when, under which fence, how long each wait was; and verify it."""
    now = datetime.now(UTC)
    with desk.open() as store:
        found = store.verify(job_id)
        status, sentences = store.status(job_id), store.story(job_id)
        if html is not None:
            with written(html) as write:
                for part in page_of(status, store.timeline(job_id), sentences, found, now):
                    write(part.encode())
            if html != "-":
                desk.answer({"file": html, "ok": found.ok}, Text(f"wrote {visible(html)}"))
        elif desk.as_json:
            desk.answer({"job_id": job_id, "verification": found, "story": [plain(each) for each in sentences]})
        else:
            for each in sentences:
                desk.say(_line(each))
            desk.answer(None, *([] if found.ok else [problems_table([found])]), _verdict(found.events, ok=found.ok))
    if not found.ok:
        raise typer.Exit(CORRUPT)


def _line(each: Sentence) -> Text:
    number = f"#{each.sequence}" if each.sequence == each.last else f"#{each.sequence}-{each.last}"
    return Text.assemble(
        (f"{instant(each.at)}  ", "dim"),
        f"{number:<6} ",
        (f"+{lasted(each.since):<11} ", "dim"),
        (visible(each.who), event_style(each.name)),
        f" {visible(each.text)}",
        (f"  [{visible(each.fence)}]" if each.fence else "", "dim"),
    )


def _verdict(events: int, *, ok: bool) -> Text:
    return Text(f"verify: {'ok' if ok else 'NOT ok'} ({many(events, 'event')})", style="green" if ok else "bold red")


def diff(
    desk: Desk,
    job_id: JobId,
    first: Annotated[int, typer.Argument(metavar="N", help="A sequence.")],
    second: Annotated[int, typer.Argument(metavar="M", help="Another one.")],
) -> None:
    """Show in which fields a job differs between two of its sequences."""
    with desk.open() as store:
        found = store.diff(job_id, first, second)
    built = table("field", f"at {first}", f"at {second}", whole=("field",))
    for each in found:
        built.add_row(each.field, Text(_told(each.told)), Text(_told(each.folded)))
    answer = [{"field": each.field, "first": each.told, "second": each.folded} for each in found]
    desk.answer({"job_id": job_id, "first": first, "second": second, "differences": answer}, built)


def _told(value: Json) -> str:
    """A field of a state for people: a stored value itself, or how much is kept aside under which digest."""
    if not isinstance(value, dict) or set(value) != {"size", "value", "digest"}:
        return compact(value)
    return f"({value['size']:,} bytes, digest {value['digest'][:12]}…)" if value["digest"] else compact(value["value"])
