"""The commands that make jobs: create, rerun, fork."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from jobledger.adapters.cli.commands import CREATE, JobId, Policies, command
from jobledger.adapters.cli.controlling import By, Reason, operator
from jobledger.adapters.cli.parsing import labels_of, payload_of, policies_of, ready_of
from jobledger.adapters.terminal.desk import Desk
from jobledger.adapters.terminal.showing import receipt_line
from jobledger.domain.decisions.creating import CONTROLS, JobRequest

if TYPE_CHECKING:
    from jobledger.domain.answers import CreateReceipt

Key = Annotated[str, typer.Option("--key", metavar="KEY", help="The new job's own key.")]

NO_CONTROLS: Final = "none"


def register(app: typer.Typer) -> None:
    """Give these commands to an app."""
    command(
        app,
        CREATE,
        "create --owner me --key k1 --kind rebuild --payload '{\"part\": 7}'",
        "create --owner me --kind report --payload @in.json --ready-at +10m",
    )(create)
    command(app, CREATE, "rerun ID --key rebuild-43 --reason 'the input was mended'")(rerun)
    command(app, CREATE, "fork ID --at 12 --key rebuild-44 --reason 'try the new parser'")(fork)


def create(  # noqa: PLR0913, PLR0917  # a command has an argument for each of its options
    desk: Desk,
    owner: Annotated[str, typer.Option("--owner", metavar="NAME", help="The tenant whose key it is.")],
    kind: Annotated[str, typer.Option("--kind", metavar="KIND", help="The kind of work, as workers register it.")],
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="The idempotency key; without one, each call makes a new job."),
    ] = None,
    payload: Annotated[
        str, typer.Option("--payload", metavar="JSON", help="The input: JSON, @FILE, or - for the standard input.")
    ] = "null",
    queue: Annotated[str, typer.Option("--queue", metavar="NAME", help="The queue it waits in.")] = "default",
    priority: Annotated[int, typer.Option("--priority", metavar="N", help="Larger goes first.")] = 0,
    ready_at: Annotated[
        str | None,
        typer.Option("--ready-at", metavar="TIME", help="Not before this time (UTC), or a span from now: +90s, +5m."),
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="NAME=VALUE", help="A label; give it again for more.")
    ] = None,
    submission: Annotated[
        str | None, typer.Option("--submission", metavar="ID", help="A submission id, unique for the owner.")
    ] = None,
    policy: Annotated[str, typer.Option("--policy", metavar="NAME", help="The policy it runs under.")] = "default",
    policies: Policies = None,
    control: Annotated[
        list[str] | None,
        typer.Option(
            "--control", metavar="NAME", help="A control that operators get (pause, cancel, retry; none). Default: all."
        ),
    ] = None,
) -> None:
    """Create a job, or find the one that this owner, key and payload made before; makes the store if there is none."""
    request = JobRequest(
        owner=owner,
        kind=kind,
        key=key,
        payload=payload_of(payload),
        policy=policy,
        queue=queue,
        priority=priority,
        ready_at=ready_of(ready_at, datetime.now(UTC)),
        controls=controls_of(control),
        labels=labels_of(label or ()),
        submission=submission,
    )
    known = policies_of(policies)
    with desk.make(policies=known) as store:
        _show(desk, store.create(request))


def rerun(
    desk: Desk,
    job_id: JobId,
    key: Key,
    reason: Reason,
    by: By = None,
    from_checkpoint: Annotated[  # noqa: FBT002  # a flag is typed by its name
        bool,
        typer.Option(
            "--from-checkpoint", metavar="", help="Start from the last checkpoint and its receipts, not from nothing."
        ),
    ] = False,
) -> None:
    """Run a job that has ended again, as a new job under its own key."""
    with desk.open() as store:
        _show(desk, store.rerun(job_id, by=operator(by), reason=reason, key=key, from_checkpoint=from_checkpoint))


def fork(
    desk: Desk,
    job_id: JobId,
    at: Annotated[int, typer.Option("--at", metavar="N", help="The sequence from which the new job starts.")],
    key: Key,
    reason: Reason,
    by: By = None,
) -> None:
    """Start a new job from the checkpoint and receipts that a job had at a sequence."""
    with desk.open() as store:
        _show(desk, store.fork(job_id, at_sequence=at, by=operator(by), reason=reason, key=key))


def controls_of(given: list[str] | None) -> tuple[str, ...]:
    """The controls that were typed; all where none was."""
    if given is None:
        return CONTROLS
    return () if given == [NO_CONTROLS] else tuple(given)


def _show(desk: Desk, receipt: CreateReceipt) -> None:
    what = "it was created before:" if receipt.reused else "created"
    desk.answer(receipt, receipt_line(what, receipt.job_id, receipt.state, receipt.sequence))
