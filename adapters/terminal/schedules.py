"""Tables of schedules for people: all of them, one of them, its instants to come, and what a file would change."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from rich.text import Text

from jobledger.adapters.terminal.showing import VALUE, event_line, pairs, table
from jobledger.adapters.terminal.texts import compact, dated, instant, many, span, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

    from jobledger.domain.history import RecordedEvent
    from jobledger.domain.schedules.answers import ScheduleStatus
    from jobledger.projections.schedules import ScheduleDifference

SHORT = 40


def timing_text(status: ScheduleStatus) -> str:
    """When a schedule is due, in its own words."""
    if status.cron is not None:
        return f"{status.cron} ({status.zone})"
    return f"every {span(status.every)}" if status.every is not None else ""


def schedules_table(found: Sequence[ScheduleStatus], now: datetime) -> RenderableType:
    """Schedules, one on each line; a held one says so."""
    if not found:
        return Text("no schedules were put")
    built = table("name", "kind", "when", "next", "fired", "skipped", right=("fired", "skipped"), whole=("next",))
    for status in found:
        counts = (f"{status.fired:,}", f"{status.skipped:,}")
        name, kind = Text(visible(status.name)), Text(visible(status.kind))
        built.add_row(name, kind, Text(visible(timing_text(status))), _next(status, now), *counts)
    return built


def _next(status: ScheduleStatus, now: datetime) -> Text:
    if status.hold is not None:
        return Text(f"held by {visible(status.hold.by)}", style="yellow")
    return Text(dated(status.next_at, now) if status.next_at else "never again")


def schedule_table(
    status: ScheduleStatus, upcoming: Sequence[datetime], recent: Iterable[RecordedEvent], now: datetime
) -> tuple[RenderableType, ...]:
    """One schedule: what it is, where it stands, its next instants and its last events."""
    parts: list[RenderableType] = [pairs([*_definition_rows(status), *_standing_rows(status, now)])]
    if upcoming:
        parts += [Text(""), *upcoming_table(status, upcoming)]
    events = [event_line(event) for event in recent]
    return (*parts, Text(""), *events)


def _definition_rows(status: ScheduleStatus) -> Iterable[tuple[str, RenderableType]]:
    yield "schedule", Text(visible(status.name), style="bold")
    yield "when", Text(visible(timing_text(status)))
    for name, at in (("anchor", status.anchor), ("start", status.start), ("end", status.end)):
        if at is not None:
            yield name, Text(instant(at))
    if status.jitter:
        yield "jitter", Text(f"up to {span(status.jitter)}")
    yield "job", Text(f"{visible(status.kind)} of {visible(status.owner)}, queue {visible(status.queue)}")
    yield "policy", Text(f"{visible(status.policy)} (priority {status.priority})")
    yield "payload", Text(compact(status.payload, VALUE))
    yield "overlap", Text(status.overlap)
    yield "catch up", Text(f"{status.catch_up}, within {span(status.window)}")


def _standing_rows(status: ScheduleStatus, now: datetime) -> Iterable[tuple[str, RenderableType]]:
    if status.hold is not None:
        held = f"by {visible(status.hold.by)}, {dated(status.hold.at, now)}: {visible(status.hold.reason)}"
        yield "hold", Text(f"{held}; nothing fires", style="yellow")
    if status.last_job_id is not None and status.last_instant is not None:
        yield "last", Text(f"{dated(status.last_instant, now)}, job {status.last_job_id}")
    yield "instants", Text(f"{many(status.fired, 'fired', 'fired')}, {many(status.skipped, 'skipped', 'skipped')}")
    yield "sequence", Text(f"{status.sequence} (control sequence {status.control_sequence})")


def upcoming_table(status: ScheduleStatus, upcoming: Sequence[datetime]) -> tuple[RenderableType, ...]:
    """Instants to come, in UTC and in the schedule's own zone."""
    built = table("instant", visible(status.zone), whole=("instant", visible(status.zone)))
    for at in upcoming:
        built.add_row(instant(at), Text(f"{_local(at, status.zone):%a %Y-%m-%d %H:%M:%S %Z}"))
    if status.hold is None:
        return (built,)
    return built, Text(f"it is held by {visible(status.hold.by)}: none of these fires before a release", style="yellow")


def _local(at: datetime, zone: str) -> datetime:
    return at.astimezone(UTC if zone == "UTC" else ZoneInfo(zone))


def plan_table(plan: Sequence[ScheduleDifference], removed: Sequence[str], now: datetime) -> RenderableType:
    """What a file would do to each schedule."""
    built = table("schedule", "plan", "next", whole=("next",))
    for each in plan:
        what = {"create": "create", "keep": "keep as it is"}.get(each.what, f"change {', '.join(each.fields)}")
        style = {"create": "green", "change": "yellow"}.get(each.what, "dim")
        following = dated(each.next_at, now) if each.next_at else "never again"
        built.add_row(Text(visible(each.name)), Text(what, style=style), following)
    for name in removed:
        built.add_row(Text(visible(name)), Text("remove", style="red"), "")
    return built
