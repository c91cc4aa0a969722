"""The commands about schedules: put, list, show, hold, release, trigger, backfill, upcoming, remove, apply."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from jobledger.adapters.cli.commands import CONTROL, Limit, command
from jobledger.adapters.cli.controlling import By, Reason, operator
from jobledger.adapters.cli.creating import controls_of
from jobledger.adapters.cli.parsing import instant_of, labels_of, payload_of, span_of
from jobledger.adapters.cli.schedule_files import schedules_of
from jobledger.adapters.terminal.desk import Desk
from jobledger.adapters.terminal.schedules import plan_table, schedule_table, schedules_table, upcoming_table
from jobledger.adapters.terminal.texts import dated, instant, many, visible
from jobledger.domain.errors import InvalidRequestError
from jobledger.domain.schedules.definition import Schedule

if TYPE_CHECKING:
    from jobledger.adapters.bootstrap import JobStore, Schedules
    from jobledger.domain.schedules.answers import ScheduleReceipt
    from jobledger.projections.schedules import ScheduleDifference

Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.")]
Expect = Annotated[
    int | None,
    typer.Option("--expect", metavar="N", help="Refuse if the schedule's control sequence is not N any more."),
]
Seen = Annotated[
    int | None,
    typer.Option(
        "--expect", metavar="N", help="The control sequence that you looked at. Default: the one read just before."
    ),
]

RECENT: Final = 10
SOON: Final = 5


def register(app: typer.Typer) -> None:
    """Give these commands to an app, as a group of their own."""
    group = typer.Typer(
        name="schedules",
        help="Recurring jobs: each instant makes one job, or stands in the history as skipped.",
        no_args_is_help=True,
        rich_markup_mode="rich",
    )
    declare = _declare(group)
    declare(
        put,
        "put nightly --kind index --cron '30 2 * * *' --zone Europe/Berlin --payload '{\"day\": \"${date}\"}'",
        "put poll --kind fetch --every 5m --overlap queue",
    )
    declare(list_, "list")
    declare(show, "show nightly")
    declare(hold, "hold nightly --reason 'the disk is full'")
    declare(release, "release nightly --reason 'there is room again'")
    declare(trigger, "trigger nightly --reason 'the data came late'")
    declare(backfill, "backfill nightly --from '2026-11-01' --to '2026-11-07' --reason 'the host was down'")
    declare(upcoming, "upcoming nightly --count 10")
    declare(remove, "remove nightly --reason 'nobody needs it'")
    declare(apply, "apply schedules.toml", "apply schedules.toml --dry-run")
    app.add_typer(group, name="schedules", rich_help_panel=CONTROL)


def _declare(group: typer.Typer) -> Any:
    def declare(function: Any, *examples: str) -> None:
        command(group, None, *(f"schedules {example}" for example in examples))(function)

    return declare


def put(  # noqa: PLR0913, PLR0917  # a command has an argument for each of its options
    desk: Desk,
    name: Name,
    kind: Annotated[str, typer.Option("--kind", metavar="KIND", help="The kind of work, as workers register it.")],
    cron: Annotated[
        str | None,
        typer.Option("--cron", metavar="FIELDS", help="Minute, hour, day of month, month, day of week."),
    ] = None,
    every: Annotated[str | None, typer.Option("--every", metavar="SPAN", help="An interval instead: 90s, 5m, 2h.")] = (
        None
    ),
    zone: Annotated[str, typer.Option("--zone", metavar="ZONE", help="An IANA time zone.")] = "UTC",
    payload: Annotated[
        str, typer.Option("--payload", metavar="JSON", help="The input, with ${date} and the like: JSON, @FILE or -.")
    ] = "null",
    owner: Annotated[str, typer.Option("--owner", metavar="NAME", help="The tenant whose jobs they are.")] = "default",
    queue: Annotated[str, typer.Option("--queue", metavar="NAME", help="The queue they wait in.")] = "default",
    policy: Annotated[str, typer.Option("--policy", metavar="NAME", help="The policy they run under.")] = "default",
    priority: Annotated[int, typer.Option("--priority", metavar="N", help="Larger goes first.")] = 0,
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="NAME=VALUE", help="A label; give it again for more.")
    ] = None,
    control: Annotated[
        list[str] | None,
        typer.Option("--control", metavar="NAME", help="A control that operators get. Default: all."),
    ] = None,
    overlap: Annotated[
        str, typer.Option("--overlap", metavar="HOW", help="While the one before runs: skip, queue, allow.")
    ] = "skip",
    catch_up: Annotated[
        str, typer.Option("--catch-up", metavar="HOW", help="After an outage: none, one (the newest), all.")
    ] = "one",
    window: Annotated[str, typer.Option("--window", metavar="SPAN", help="How far back that reaches.")] = "31d",
    jitter: Annotated[str, typer.Option("--jitter", metavar="SPAN", help="Spread the jobs over this span.")] = "0s",
    anchor: Annotated[
        str | None, typer.Option("--anchor", metavar="TIME", help="From where an interval is counted.")
    ] = None,
    start: Annotated[str | None, typer.Option("--start", metavar="TIME", help="No instant before this time.")] = None,
    end: Annotated[str | None, typer.Option("--end", metavar="TIME", help="No instant after this time.")] = None,
    by: By = None,
) -> None:
    """Put a schedule, or change it; makes the store if there is none. What says the same already is left alone."""
    schedule = Schedule(
        name,
        kind,
        cron=cron,
        every=None if every is None else span_of("every", every),
        zone=zone,
        anchor=_instant("anchor", anchor),
        start=_instant("start", start),
        end=_instant("end", end),
        jitter=span_of("jitter", jitter),
        payload=payload_of(payload),
        owner=owner,
        policy=policy,
        queue=queue,
        priority=priority,
        controls=controls_of(control),
        labels=labels_of(label or ()),
        overlap=overlap,  # type: ignore[arg-type]  # checked when it is put
        catch_up=catch_up,  # type: ignore[arg-type]  # the same
        window=span_of("window", window),
    )
    with desk.make() as store:
        _tell(desk, "put", "it says that already:", store.schedules.put(schedule, by=operator(by)))


def list_(
    desk: Desk,
    after: Annotated[str | None, typer.Option("--after", metavar="NAME", help="Names behind this one.")] = None,
    limit: Limit = 100,
) -> None:
    """List the schedules by name."""
    with desk.open() as store:
        page = store.schedules.list(after=after, limit=limit)
    more = [Text(f"more with --after {visible(page.next_after)}", style="dim")] if page.next_after else []
    desk.answer(page, schedules_table(page.schedules, _now()), *more)


def show(
    desk: Desk,
    name: Name,
    at: Annotated[
        str | None, typer.Option("--at", metavar="N|TIME", help="As it was at a sequence, or at a time.")
    ] = None,
) -> None:
    """Show a schedule: what it is, its next instants, its last events."""
    with desk.open() as store:
        schedules = store.schedules
        moment = int(at) if at is not None and at.isdecimal() else _instant("at", at)
        status = schedules.get(name, at=moment)
        soon = () if at is not None else schedules.upcoming(name, SOON)
        recent = schedules.events(name, after=max(0, status.sequence - RECENT), limit=RECENT).events
    recent = tuple(event for event in recent if event.sequence <= status.sequence)
    answer = {"schedule": status, "upcoming": soon, "events": recent}
    desk.answer(answer, *schedule_table(status, soon, recent, _now()))


def hold(desk: Desk, name: Name, reason: Reason, by: By = None, expect: Expect = None) -> None:
    """Place a stop sign: nothing fires until it is released."""
    with desk.open() as store:
        receipt = store.schedules.hold(name, by=operator(by), reason=reason, expected_sequence=expect)
    _tell(desk, "held", "the hold stands already on", receipt)


def release(desk: Desk, name: Name, reason: Reason, by: By = None, expect: Seen = None) -> None:
    """Take the stop sign away; what came meanwhile stays unfired, and is counted in the history."""
    with desk.open() as store:
        seen = _seen(store.schedules, name, expect)
        receipt = store.schedules.release(name, by=operator(by), reason=reason, expected_sequence=seen)
    _tell(desk, "released", "the hold was released before from", receipt)


def trigger(desk: Desk, name: Name, reason: Reason, by: By = None) -> None:
    """Make an occurrence now, beside the plan."""
    with desk.open() as store:
        receipt = store.schedules.trigger(name, by=operator(by), reason=reason)
    desk.answer(receipt, Text(f"created job {receipt.job_id} of schedule {visible(name)}"))


def backfill(
    desk: Desk,
    name: Name,
    first: Annotated[str, typer.Option("--from", metavar="TIME", help="The first instant, at the earliest.")],
    last: Annotated[str, typer.Option("--to", metavar="TIME", help="The last instant, at the latest.")],
    reason: Reason,
    by: By = None,
) -> None:
    """Make the jobs of past instants that have none; asked again, it makes none twice."""
    begin, end = instant_of("from", first), instant_of("to", last)
    with desk.open() as store:
        receipt = store.schedules.backfill(name, begin, end, by=operator(by), reason=reason)
    made = f"created {many(len(receipt.job_ids), 'job')} of schedule {visible(name)}, {receipt.reused:,} were there"
    refused = [Text(f"{instant(at)} refused: {visible(why)}", style="red") for at, why in receipt.refused]
    desk.answer(receipt, Text(made), *refused)


def upcoming(
    desk: Desk,
    name: Name,
    count: Annotated[int, typer.Option("--count", metavar="N", help="How many instants.")] = SOON,
) -> None:
    """Tell the next instants, in UTC and in the schedule's zone."""
    with desk.open() as store:
        found = store.schedules.upcoming(name, count)
        status = store.schedules.get(name)
    answer = {"name": name, "upcoming": found, "hold": status.hold}
    none = (Text("no instant comes any more"),)
    desk.answer(answer, *(upcoming_table(status, found) if found else none))


def remove(desk: Desk, name: Name, reason: Reason, by: By = None, expect: Seen = None) -> None:
    """End a schedule; its jobs and its history stay."""
    with desk.open() as store:
        seen = _seen(store.schedules, name, expect)
        receipt = store.schedules.remove(name, by=operator(by), reason=reason, expected_sequence=seen)
    _tell(desk, "removed", "removed", receipt)


def apply(
    desk: Desk,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A TOML file with a table for each schedule.")],
    by: By = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", metavar="", help="Show the plan, and do nothing.")] = False,  # noqa: FBT002  # a flag
    remove_others: Annotated[  # noqa: FBT002  # a flag
        bool, typer.Option("--remove-others", metavar="", help="Remove the schedules that the file does not name.")
    ] = False,
) -> None:
    """Make the schedules what a file says: the plan is printed first, and nothing is done if any part is mistaken."""
    wanted = schedules_of(file)
    who = operator(by)
    with desk.make() as store:
        plan = [_compared(store, schedule) for schedule in wanted]
        named = {schedule.name for schedule in wanted}
        others = [name for name in _names(store) if name not in named] if remove_others else []
        if not desk.as_json:
            desk.say(plan_table(plan, others, _now()))
        if not dry_run:
            for schedule in wanted:
                store.schedules.put(schedule, by=who)
            for name in others:
                store.schedules.remove(name, by=who, reason=f"{file} does not name it")
    answer = {"plan": plan, "removed": others, "is_applied": not dry_run}
    desk.answer(answer, Text("nothing was done" if dry_run else "done", style="dim"))


def _compared(store: JobStore, schedule: Schedule) -> ScheduleDifference:
    try:
        return store.schedules.compare(schedule)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"FILE.{schedule.name}", str(error)) from None


def _names(store: JobStore) -> list[str]:
    names: list[str] = []
    after = None
    while True:
        page = store.schedules.list(after=after)
        names += [status.name for status in page.schedules]
        after = page.next_after
        if after is None:
            return names


def _seen(schedules: Schedules, name: str, expect: int | None) -> int:
    """The control sequence that the operator saw, or that of now."""
    return schedules.get(name).control_sequence if expect is None else expect


def _instant(field: str, given: str | None) -> datetime | None:
    return None if given is None else instant_of(field, given)


def _now() -> datetime:
    return datetime.now(UTC)


def _tell(desk: Desk, what: str, reused: str, receipt: ScheduleReceipt) -> None:
    following = f"next {dated(receipt.next_at, _now())}" if receipt.next_at else "no instant follows"
    sentence = f"{reused if receipt.reused else what} schedule {visible(receipt.name)}: sequence {receipt.sequence}"
    desk.answer(receipt, Text(f"{sentence}, {following}"))
