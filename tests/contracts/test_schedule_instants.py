"""The instants of schedules around every clock change: a pinned table, and a count of minutes that confirms it."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobledger import JobStore, ManualClock
from jobledger.adapters.calendars import ZoneCalendar
from tests.contracts.schedules import fired, put

Row = dict[str, Any]

TABLE: Final[list[Row]] = [
    json.loads(line) for line in (Path(__file__).parents[1] / "cases" / "instants.jsonl").read_text().splitlines()
]
ZONES: Final = sorted({row["zone"] for row in TABLE})
MINUTE: Final = timedelta(minutes=1)


def at(text: str) -> datetime:
    """An instant of the table."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%MZ").replace(tzinfo=UTC)


def test_the_table_has_every_zone_change_and_kind() -> None:
    """Six zones, both changes of two years, four kinds of schedules."""
    cells = {(row["zone"], row["change"], row["year"], row["kind"]) for row in TABLE}

    assert len(cells) == len(TABLE) == 6 * 2 * 2 * 4


def counted(row: Row) -> list[datetime]:
    """The instants of a row by its rule, minute for minute, without any library for cron."""
    zone, start, end = ZoneInfo(row["zone"]), at(row["after"]), at(row["upto"])
    span = range(int((end - start) / MINUTE))
    if row["kind"] == "interval":
        every, anchor = timedelta(seconds=row["every"]), at(row["anchor"])
        return [start + MINUTE * (n + 1) for n in span if (start + MINUTE * (n + 1) - anchor) % every == timedelta(0)]
    minute, hour, *_ = row["cron"].split()
    if hour == "*":
        minutes = {0, 30} if minute == "*/30" else {int(minute)}
        return [t for n in span if (t := start + MINUTE * (n + 1)).astimezone(zone).minute in minutes]
    # Once on each day: the first minute that shows this time, or else the first one after the gap.
    days: dict[date, datetime] = {}
    wanted = int(hour) * 60 + int(minute)
    for n in range(-1440, len(span) + 1440):
        instant = start + MINUTE * (n + 1)
        shown = instant.astimezone(zone)
        if shown.hour * 60 + shown.minute >= wanted:
            days.setdefault(shown.date(), instant)
    return sorted(instant for instant in days.values() if start < instant <= end)


@pytest.mark.parametrize("zone", ZONES)
def test_the_table_follows_the_stated_rules(zone: str) -> None:
    """Counted minute by minute: whoever doubts a row can see where it comes from."""
    for row in TABLE:
        if row["zone"] == zone:
            assert counted(row) == [at(text) for text in row["instants"]], row


@pytest.mark.parametrize("zone", ZONES)
def test_schedules_fire_at_exactly_these_instants(store: JobStore, clock: ManualClock, zone: str) -> None:
    """Daily, hourly, every half hour and at an interval, over both changes of two years; each instant once."""
    rows = sorted((row for row in TABLE if row["zone"] == zone), key=lambda row: row["after"])
    for number, row in enumerate(rows):
        clock.step(at(row["after"]) - clock.now())
        timed = {"cron": row["cron"]} if "cron" in row else {"every": row["every"], "anchor": at(row["anchor"])}
        put(store, f"s{number}", **timed, zone=zone, overlap="allow", catch_up="all", end=at(row["upto"]))
        while clock.now() < at(row["upto"]):
            clock.advance(timedelta(hours=2))
            store.schedules.fire_due()

        assert fired(store, f"s{number}") == [at(text) for text in row["instants"]], row
        store.schedules.remove(f"s{number}", by="ann", reason="next")


def test_half_past_two_comes_once_in_spring_and_once_in_autumn(store: JobStore, clock: ManualClock) -> None:
    """Europe/Berlin skips it on 29 March and shows it twice on 25 October 2026."""
    clock.step(datetime(2026, 3, 28, 12, tzinfo=UTC) - clock.now())
    put(store, cron="30 2 * * *", zone="Europe/Berlin", overlap="allow", catch_up="all")

    clock.step(datetime(2026, 3, 30, 12, tzinfo=UTC) - clock.now())
    store.schedules.fire_due()
    spring = fired(store)
    put(store, cron="30 2 * * *", zone="Europe/Berlin", overlap="allow", catch_up="none")
    clock.step(datetime(2026, 10, 24, 12, tzinfo=UTC) - clock.now())
    store.schedules.fire_due()
    put(store, cron="30 2 * * *", zone="Europe/Berlin", overlap="allow", catch_up="all")
    clock.step(datetime(2026, 10, 26, 12, tzinfo=UTC) - clock.now())
    store.schedules.fire_due()
    autumn = fired(store)[len(spring) :]

    assert [instant.isoformat() for instant in spring] == ["2026-03-29T01:00:00+00:00", "2026-03-30T00:30:00+00:00"]
    assert [instant.isoformat() for instant in autumn] == ["2026-10-25T00:30:00+00:00", "2026-10-26T01:30:00+00:00"]


@pytest.mark.parametrize(
    ("zone", "after"),
    [
        ("Australia/Lord_Howe", "2026-04-04T00:00Z"),  # from 2:00 back to 1:30
        ("Australia/Lord_Howe", "2026-10-03T00:00Z"),  # from 2:00 on to 2:30
        ("America/Caracas", "2016-04-30T00:00Z"),  # from 2:30 on to 3:00
        ("Asia/Pyongyang", "2018-05-04T00:00Z"),  # from 23:30 on to 0:00
        ("Pacific/Apia", "2011-12-29T00:00Z"),  # a whole day is left out
    ],
)
@pytest.mark.parametrize(
    ("cron", "minutes", "hours"),
    [
        ("0 * * * *", {0}, set(range(24))),
        ("15 * * * *", {15}, set(range(24))),
        ("45 */1 * * *", {45}, set(range(24))),
        ("0 */2 * * *", {0}, set(range(0, 24, 2))),
        ("*/20 1-3/2 * * *", {0, 20, 40}, {1, 3}),
        ("*/30 * * * *", {0, 30}, set(range(24))),
    ],
)
def test_elapsed_time_passes_over_nothing_where_clocks_change_by_half_an_hour(
    zone: str, after: str, cron: str, minutes: set[int], hours: set[int]
) -> None:
    """Every minute that shows a wanted time is an instant: those right behind the change, and both that show one."""
    start, place = at(after), ZoneInfo(zone)
    minute_by_minute = [start + MINUTE * (n + 1) for n in range(2 * 1440)]
    shown = [(t, t.astimezone(place)) for t in minute_by_minute]

    found = list(islice(ZoneCalendar().instants(cron, zone, start), 200))

    wanted = [t for t, local in shown if local.minute in minutes and local.hour in hours]
    assert [t for t in found if t <= minute_by_minute[-1]] == wanted


CRONS: Final = st.sampled_from(
    [
        "30 2 * * *",
        "0,30 1-3 * * *",
        "*/20 * * * *",
        "15 * * * *",
        "59 23 * * *",
        "0 0 * * *",
        "0 3 1 * *",
        "0 */2 * * *",
    ]
)


@given(
    cron=CRONS,
    zone=st.sampled_from([*ZONES, "Australia/Lord_Howe"]),
    start=st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 1), timezones=st.just(UTC)),  # noqa: DTZ001  # the strategy sets it
    later=st.timedeltas(timedelta(0), timedelta(days=3)),
)
@settings(max_examples=60)
def test_instants_do_not_hang_on_where_they_are_asked_from(
    cron: str, zone: str, start: datetime, later: timedelta
) -> None:
    """A scheduler that was restarted in between plans the same instants as one that ran through."""
    calendar = ZoneCalendar()
    through = [t for t in islice(calendar.instants(cron, zone, start), 300) if t > start + later]

    restarted = list(islice(calendar.instants(cron, zone, start + later), len(through)))

    assert through == restarted
    assert through == sorted(set(through))
