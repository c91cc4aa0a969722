"""The commands of auditors: verify, export, import, replay."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from jobledger.adapters.auditing.verifying import verify_everything
from jobledger.adapters.bootstrap import JobStore
from jobledger.adapters.cli.anchoring import anchors_in, verify_proof, verify_signatures
from jobledger.adapters.cli.commands import KEEP, command
from jobledger.adapters.cli.parsing import label_filter
from jobledger.adapters.terminal.desk import Desk
from jobledger.adapters.terminal.documents import plain
from jobledger.adapters.terminal.failing import CORRUPT
from jobledger.adapters.terminal.showing import problems_table, table, verification_text
from jobledger.adapters.terminal.texts import compact, many, visible
from jobledger.domain.errors import InvalidRequestError
from jobledger.projections.audit import is_job

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jobledger.projections.audit import Verification


def register(app: typer.Typer) -> None:
    """Give these commands to an app."""
    command(app, KEEP, "verify ID", "verify --all --json", "verify --all --anchors anchors.jsonl")(verify)
    command(app, KEEP, "export ID --to job.jsonl", "export --owner team-a --to team-a.jsonl.zst")(export)
    command(app, KEEP, "import jobs.jsonl.zst --store sqlite:///post-mortem.db", name="import")(import_)
    command(app, KEEP, "replay", "replay jobs.jsonl.zst")(replay)


def verify(
    desk: Desk,
    job_id: Annotated[str | None, typer.Argument(metavar="ID", help="The job's id.")] = None,
    all_: Annotated[bool, typer.Option("--all", metavar="", help="Every job of the namespace.")] = False,  # noqa: FBT002  # a flag
    bundle: Annotated[
        str | None, typer.Option("--export", metavar="FILE", help="A bundle that `export` wrote; no store is needed.")
    ] = None,
    anchors: Annotated[
        str | None, typer.Option("--anchors", metavar="FILE", help="Hold the log against anchors; also with --all.")
    ] = None,
    proof: Annotated[
        str | None, typer.Option("--proof", metavar="FILE", help="A proof that `prove` wrote; no store is needed.")
    ] = None,
    public_key: Annotated[
        str | None, typer.Option("--public-key", metavar="HEX", help="Require anchors to be signed with this key.")
    ] = None,
) -> None:
    """Check a job's whole history: every digest, every fence, every rule; exit code 4 if anything is wrong."""
    asked = (job_id is not None, all_ or anchors is not None, bundle is not None, proof is not None)
    if sum(asked) != 1:
        raise InvalidRequestError("ID", "give one job's id, --all (and --anchors FILE), --export FILE, or --proof FILE")
    if bundle is not None:
        is_ok = _verify_all(desk, JobStore.verify_export(bundle))
    elif proof is not None:
        is_ok = _verify_one(desk, verify_proof(proof, public_key))
    elif job_id is not None:
        with desk.open() as store:
            found = store.verify(job_id)
        is_ok = _verify_one(desk, found)
    else:
        is_ok = _verify_all(desk, _everything(desk, all_=all_, anchors=anchors, public_key=public_key))
    if not is_ok:
        raise typer.Exit(CORRUPT)


def _everything(desk: Desk, *, all_: bool, anchors: str | None, public_key: str | None) -> Iterator[Verification]:
    """What `--all` and `--anchors` ask for, one after the other."""
    with desk.open() as store:
        total = sum(store.counts().values())
        if anchors is not None:
            known = anchors_in(anchors)
            yield verify_signatures(known, public_key)
            yield store.verify_anchors(known)
    if all_:
        yield from desk.counted(verify_everything(desk.url, desk.namespace), "verifying", total)


def _verify_one(desk: Desk, found: Verification) -> bool:
    desk.answer(_verdict([found], found.events, 1), *_verdict_lines(found))
    return found.ok


File = Annotated[str, typer.Argument(metavar="FILE", help="The bundle (- is the standard input).")]
Owner = Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only this owner's.")]


def export(
    desk: Desk,
    to: Annotated[
        str, typer.Option("--to", metavar="FILE", help="Where to: …jsonl, …jsonl.gz or …jsonl.zst (- is the output).")
    ],
    job_id: Annotated[str | None, typer.Argument(metavar="ID", help="One job; else all that match.")] = None,
    owner: Owner = None,
    kind: Annotated[str | None, typer.Option("--kind", metavar="KIND", help="Only of this kind.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", metavar="NAME", help="Only in this queue.")] = None,
    state: Annotated[str | None, typer.Option("--state", metavar="STATE", help="Only in this state.")] = None,
    label: Annotated[str | None, typer.Option("--label", metavar="NAME[=VALUE]", help="Only with this label.")] = None,
    key_prefix: Annotated[
        str | None, typer.Option("--key-prefix", metavar="TEXT", help="Only with keys that begin so.")
    ] = None,
) -> None:
    """Write histories as a bundle that proves itself: everything of the namespace, what matches, or one job."""
    with desk.open() as store:
        if job_id is not None:
            report = store.export_job(job_id, to)
        else:
            report = store.export(
                to,
                owner=owner,
                kind=kind,
                queue=queue,
                state=state,
                label=label_filter(label),
                key_prefix=key_prefix,
            )
    if to == "-":
        return  # the output is the bundle
    counted = f"{many(report.jobs, 'job')}, {many(report.events, 'event')}"
    desk.answer(report, Text(f"exported {counted} to {visible(to)}"), Text(f"sha256 {report.sha256}", style="dim"))


def import_(desk: Desk, file: File) -> None:
    """Bring a bundle into a new store of its own, to look at what happened elsewhere."""
    namespace = JobStore.namespace_of_export(file)
    with replace(desk, namespace=namespace).migrated() as store:
        report = store.import_bundle(file)
    counted = f"{many(report.jobs, 'job')}, {many(report.events, 'event')}"
    desk.answer(report, Text(f"imported {counted} into the namespace {visible(report.namespace)}"))


def replay(
    desk: Desk,
    file: Annotated[str | None, typer.Argument(metavar="FILE", help="A bundle; else the store.")] = None,
) -> None:
    """Fold every history with this release's code, and show each state that comes out otherwise; exit code 4 then."""
    if file is not None:
        found = JobStore.replay_export(file)
    else:
        with desk.open() as store:
            found = store.replay()
    lines: list[Any] = []
    if found.differences:
        built = table("job", "field", "was", "is now", whole=("job", "field"))
        for each in found.differences:
            built.add_row(Text(visible(each.job_id)), each.field, Text(compact(each.told)), Text(compact(each.folded)))
        lines.append(built)
    verdict = "as told" if found.ok else f"{many(len(found.differences), 'field')} NOT as told"
    lines.append(Text(f"replay: {verdict} ({many(found.jobs, 'job')}, {many(found.events, 'event')})"))
    desk.answer(plain(found) | {"ok": found.ok}, *lines)
    if not found.ok:
        raise typer.Exit(CORRUPT)


def _verdict_lines(found: Verification) -> list[Any]:
    line = (
        f"verify: ok ({many(found.events, 'event')})" if found.ok else f"verify: {many(len(found.problems), 'problem')}"
    )
    return [verification_text(found), *([] if found.ok else [problems_table([found])]), Text(line)]


def _verify_all(desk: Desk, verifications: Iterable[Verification]) -> bool:
    jobs = events = anchored = 0
    broken: list[Verification] = []
    for found in verifications:
        jobs += is_job(found.job_id)
        if found.job_id:
            events += found.events
        else:
            anchored += found.events
        if not found.ok:
            broken.append(found)
    broken.sort(key=lambda found: found.job_id)
    verdict = "ok" if not broken else f"{many(len(broken), 'stream')} NOT ok"
    counted = [] if anchored and not events else [many(jobs, "job"), many(events, "event")]
    counted += [f"{many(anchored, 'event')} held against anchors"] if anchored else []
    summary = Text(f"verify: {verdict} ({', '.join(counted)})")
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
