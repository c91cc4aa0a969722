"""The commands about queues: list, show, limit, hold, release."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from jobledger.adapters.cli.commands import CONTROL, Limit, command
from jobledger.adapters.cli.controlling import By, CommandId, Reason, operator, require_seen
from jobledger.adapters.cli.parsing import span_of
from jobledger.adapters.terminal.desk import Desk
from jobledger.adapters.terminal.queues import queue_table, queues_table
from jobledger.adapters.terminal.texts import visible
from jobledger.domain.errors import InvalidRequestError

if TYPE_CHECKING:
    from jobledger.domain.queues.answers import QueueReceipt

Name = Annotated[str, typer.Argument(metavar="NAME", help="The queue's name.")]
AnyName = Annotated[str | None, typer.Argument(metavar="NAME", help="The queue's name; or give --all.")]
All = Annotated[bool, typer.Option("--all", metavar="", help="The whole namespace, instead of one queue.")]
Expect = Annotated[
    int | None, typer.Option("--expect", metavar="N", help="Refuse if the queue's sequence is not N any more.")
]
Seen = Annotated[
    int | None,
    typer.Option("--expect", metavar="N", help="The sequence that you looked at. Default: the one read just before."),
]

RECENT: Final = 10


def register(app: typer.Typer) -> None:
    """Give these commands to an app, as a group of their own."""
    group = typer.Typer(
        name="queues",
        help="Limits and holds of queues, over all hosts and while they run.",
        no_args_is_help=True,
        rich_markup_mode="rich",
    )
    declare = _declare(group)
    declare(list_, "list")
    declare(show, "show index", "show --all")
    declare(
        limit,
        "limit index --running 8 --rate 100/60s --reason 'the machine is small'",
        "limit index --share-by owner --per-share 2 --ageing 10m --reason 'a fair share for each'",
        "limit index --reason 'it has room again'",
    )
    declare(hold, "hold index --reason 'the disk is full'", "hold --all --reason 'maintenance'")
    declare(release, "release index --reason 'there is room again'")
    app.add_typer(group, name="queues", rich_help_panel=CONTROL)


def _declare(group: typer.Typer) -> Any:
    def declare(function: Any, *examples: str) -> None:
        command(group, None, *(f"queues {example}" for example in examples))(function)

    return declare


def list_(
    desk: Desk,
    after: Annotated[str | None, typer.Option("--after", metavar="NAME", help="Names behind this one.")] = None,
    limit: Limit = 100,
) -> None:
    """List the queues that have jobs, limits or holds, with what runs and waits in them."""
    with desk.open() as store:
        page = store.queues.list(after=after, limit=limit)
    more = [Text(f"more with --after {visible(page.next_after)}", style="dim")] if page.next_after else []
    desk.answer(page, *queues_table(page), *more)


def show(desk: Desk, name: AnyName = None, all_: All = False) -> None:  # noqa: FBT002  # a flag is typed by its name
    """Show a queue, or the whole namespace: its limits, its hold, what runs and waits, its last events."""
    queue = _named(name, all_=all_)
    with desk.open() as store:
        status = store.queues.get(queue)
        recent = store.queues.events(queue, after=max(0, status.sequence - RECENT), limit=RECENT).events
    answer = {"queue": status, "events": recent}
    desk.answer(answer, *queue_table(status, recent, datetime.now(UTC)))


def limit(
    desk: Desk,
    name: Name,
    reason: Reason,
    running: Annotated[int | None, typer.Option("--running", metavar="N", help="At most N run at once.")] = None,
    rate: Annotated[
        str | None, typer.Option("--rate", metavar="N/SPAN", help="At most N start within any span, as in 100/60s.")
    ] = None,
    share_by: Annotated[
        str | None,
        typer.Option("--share-by", metavar="WHAT", help="Serve share by share in turn: owner, kind or label:NAME."),
    ] = None,
    per_share: Annotated[
        int | None, typer.Option("--per-share", metavar="N", help="At most N of each share run at once.")
    ] = None,
    ageing: Annotated[
        str | None, typer.Option("--ageing", metavar="SPAN", help="Waiting so long counts as one priority more.")
    ] = None,
    by: By = None,
    expect: Expect = None,
    command_id: CommandId = None,
) -> None:
    """Give a queue these limits in the place of those that it has; without any, it is not limited."""
    starts_max, starts_span = _rate(rate)
    with desk.open() as store:
        receipt = store.queues.limit(
            name,
            by=operator(by),
            reason=reason,
            running_max=running,
            starts_max=starts_max,
            starts_span=starts_span,
            share_by=share_by,
            running_max_per_share=per_share,
            ageing=None if ageing is None else span_of("ageing", ageing),
            expected_sequence=expect,
            command_id=command_id,
        )
    _tell(desk, "limited", "these are already the limits of", receipt)


def hold(
    desk: Desk,
    reason: Reason,
    name: AnyName = None,
    all_: All = False,  # noqa: FBT002  # a flag is typed by its name
    by: By = None,
    expect: Expect = None,
    command_id: CommandId = None,
) -> None:
    """Place a stop sign: no attempt starts until it is released; what runs goes on, and jobs may be created."""
    queue = _named(name, all_=all_)
    with desk.open() as store:
        receipt = store.queues.hold(
            queue, by=operator(by), reason=reason, expected_sequence=expect, command_id=command_id
        )
    _tell(desk, "held", "the hold stands already, with the reason it was placed for, on", receipt)


def release(
    desk: Desk,
    reason: Reason,
    name: AnyName = None,
    all_: All = False,  # noqa: FBT002  # a flag is typed by its name
    by: By = None,
    expect: Seen = None,
    command_id: CommandId = None,
) -> None:
    """Take the stop sign away."""
    queue = _named(name, all_=all_)
    require_seen(expect, command_id)
    with desk.open() as store:
        seen = store.queues.get(queue).sequence if expect is None else expect
        receipt = store.queues.release(
            queue, by=operator(by), reason=reason, expected_sequence=seen, command_id=command_id
        )
    _tell(desk, "released", "the hold was released before from", receipt)


def _named(name: str | None, *, all_: bool) -> str | None:
    if (name is None) is not all_:
        raise InvalidRequestError("NAME", "give one queue's name, or --all for the whole namespace")
    return name


def _rate(given: str | None) -> tuple[int | None, timedelta | None]:
    """A rate as it is typed: ``100/60s``."""
    if given is None:
        return None, None
    found = re.fullmatch(r"([0-9]{1,18})/(.+)", given, re.ASCII)
    if found is None:
        raise InvalidRequestError("rate", f"{given!r} is no rate; write it as 100/60s: a number and a span")
    return int(found[1]), span_of("rate", found[2])


def _tell(desk: Desk, what: str, reused: str, receipt: QueueReceipt) -> None:
    name = "the whole namespace" if receipt.name is None else f"queue {visible(receipt.name)}"
    desk.answer(receipt, Text(f"{reused if receipt.reused else what} {name}: sequence {receipt.sequence}"))
