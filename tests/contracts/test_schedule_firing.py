"""Firing over a store: outages, clocks that step, overlap, batches, and many schedulers; exactly one job an instant."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobledger import JobStore, ManualClock, ScheduleReceipt
from jobledger.adapters import calendars
from jobledger.domain.schedule_events import ScheduleSkipped
from jobledger.domain.schedules import firing as rules
from jobledger.domain.store import firing, occurring
from tests.contracts.jobs import refuses
from tests.contracts.schedules import WHY, end, fired, jobs_of, put, skipped

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
START = datetime(2026, 6, 1, 12, tzinfo=UTC)


def settled_once(store: JobStore, name: str, first: datetime, every: timedelta, count: int) -> None:
    """Require that each of so many instants was fired or skipped, once, in order, and has its own job if it fired."""
    covered: list[datetime] = []
    for event in (each.event for each in store.schedules.history(name)):
        if isinstance(event, ScheduleSkipped):
            run = [event.first + every * number for number in range(event.count)]
            assert run[-1] == event.last
            covered += run
        elif type(event).__name__ == "ScheduleFired":
            covered.append(event.instant)  # type: ignore[attr-defined]  # a ScheduleFired
    assert covered == [first + every * number for number in range(count)]
    keys = Counter(job.key for job in jobs_of(store, name))
    assert sorted(fired(store, name)) == fired(store, name)
    assert keys == Counter(
        f"schedule:{name}:{instant.replace(tzinfo=None).isoformat()}Z" for instant in fired(store, name)
    )
    assert store.schedules.verify(name).problems == ()


# Outages --------------------------------------------------------------------------------------------------------------


def test_after_ten_thousand_minutes_none_is_caught_up(store: JobStore, clock: ManualClock) -> None:
    """One event counts them all; what is due just now fires."""
    put(store, overlap="allow", catch_up="none")
    clock.advance(10_000 * MINUTE)

    report = store.schedules.fire_due()

    assert (report.fired, report.skipped, report.is_done) == (2, 9_998, True)
    assert fired(store) == [START + 9_999 * MINUTE, START + 10_000 * MINUTE]
    assert skipped(store) == [("missed", 9_998)]
    assert store.schedules.get("s").sequence == 4
    settled_once(store, "s", START + MINUTE, MINUTE, 10_000)


def test_after_ten_thousand_minutes_one_is_caught_up(store: JobStore, clock: ManualClock) -> None:
    """The newest stands for all; one that nothing newer replaces fires however late."""
    put(store, overlap="allow", catch_up="one", end=START + 10_000 * MINUTE)
    clock.advance(10_000 * MINUTE + HOUR)

    report = store.schedules.fire_due()

    assert (report.fired, report.skipped) == (1, 9_999)
    assert fired(store) == [START + 10_000 * MINUTE]
    assert skipped(store) == [("coalesced", 9_999)]
    settled_once(store, "s", START + MINUTE, MINUTE, 10_000)


def test_after_ten_thousand_minutes_all_within_the_window_are_caught_up(store: JobStore, clock: ManualClock) -> None:
    """Oldest first, no more in one transaction than its bound, and the rest is on record."""
    put(store, overlap="allow", catch_up="all", window=timedelta(minutes=450))
    clock.advance(10_000 * MINUTE)

    report = store.schedules.fire_due()

    assert (report.fired, report.skipped) == (451, 9_549)
    assert report.schedules == 451 // rules.FIRED_MAX + 1
    assert skipped(store) == [("out_of_window", 9_549)]
    settled_once(store, "s", START + MINUTE, MINUTE, 10_000)


def test_the_work_of_one_call_is_bounded_and_says_so(store: JobStore, clock: ManualClock) -> None:
    """A scheduler can be asked for little at a time; the rest stays due."""
    put(store, overlap="allow", catch_up="all")
    clock.advance(250 * MINUTE)

    first = store.schedules.fire_due(limit=1)

    assert (first.fired, first.is_done) == (rules.FIRED_MAX, False)
    assert store.schedules.fire_due().fired == 150
    settled_once(store, "s", START + MINUTE, MINUTE, 250)
    refuses("invalid_request", store.schedules.fire_due, 0)


def test_very_many_skipped_instants_are_settled_in_bounded_parts(store: JobStore, clock: ManualClock) -> None:
    """A hold of two years by the second releases in parts, none of which holds the store for long."""
    put(store, every=1, overlap="allow")
    store.schedules.hold("s", **WHY)
    clock.advance(timedelta(seconds=rules.SETTLED_MAX * 2 + 5))

    store.schedules.release("s", **WHY)

    assert skipped(store) == [("held", rules.SETTLED_MAX), ("held", rules.SETTLED_MAX), ("held", 5)]


# Clocks ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "steps",
    [
        (MINUTE, MINUTE, -timedelta(seconds=90), MINUTE, MINUTE, MINUTE),
        (2 * MINUTE - timedelta(milliseconds=1), -timedelta(seconds=90), timedelta(milliseconds=1), *[MINUTE] * 3),
        (2 * MINUTE, -timedelta(milliseconds=1), -timedelta(seconds=90), timedelta(milliseconds=1), *[MINUTE] * 3),
    ],
    ids=["after a tick", "before a tick", "on a tick"],
)
def test_a_clock_that_is_set_back_around_a_tick_fires_it_once(
    store: JobStore, clock: ManualClock, steps: tuple[timedelta, ...]
) -> None:
    """The store's clock loses 90 seconds: the instants that come a second time have their jobs already."""
    put(store, overlap="allow", catch_up="all")
    for step in steps:
        clock.step(step)
        store.schedules.fire_due()

    settled_once(store, "s", START + MINUTE, MINUTE, 3)
    assert len(fired(store)) == 3


def test_a_clock_that_leaps_six_hours_and_back_fires_nothing_twice(store: JobStore, clock: ManualClock) -> None:
    """What the leap made due is settled by the rules for an outage; when the clock is right again, nothing is due."""
    put(store, every=3600, overlap="allow", catch_up="all")
    clock.step(HOUR - timedelta(seconds=1))
    store.schedules.fire_due()
    clock.step(6 * HOUR)
    assert store.schedules.fire_due().fired == 6
    clock.step(-6 * HOUR)

    for _ in range(7):
        clock.step(HOUR)
        store.schedules.fire_due()

    assert fired(store) == [START + HOUR * n for n in range(1, 8)]
    settled_once(store, "s", START + HOUR, HOUR, 7)


def test_the_stores_clock_alone_says_what_is_due(store: JobStore, clock: ManualClock) -> None:
    """Nobody's own time is asked: a millisecond early is early, on every host."""
    put(store, overlap="allow")
    clock.step(MINUTE - timedelta(milliseconds=1))
    assert store.schedules.fire_due().fired == 0
    assert store.schedules.next_due() == (START + MINUTE, clock.now())

    clock.step(timedelta(milliseconds=1))

    assert store.schedules.fire_due().fired == 1


# Overlap --------------------------------------------------------------------------------------------------------------


def test_overlap_skip_leaves_out_what_would_run_beside_its_predecessor(store: JobStore, clock: ManualClock) -> None:
    """The skipped instant names the job that had not ended; a parked job has not ended either."""
    put(store, overlap="skip", catch_up="all")
    clock.advance(MINUTE)
    store.schedules.fire_due()
    [first] = jobs_of(store)
    store.hold(first.job_id, **WHY)
    for _ in range(2):
        clock.advance(MINUTE)
        store.schedules.fire_due()
    skips = [each.event for each in store.schedules.history("s") if isinstance(each.event, ScheduleSkipped)]
    assert [(skip.reason, skip.job_id) for skip in skips] == [("overlap", first.job_id)] * 2

    store.request_cancel(first.job_id, **WHY)
    clock.advance(MINUTE)

    assert store.schedules.fire_due().fired == 1


def test_overlap_queue_makes_one_after_the_other(store: JobStore, clock: ManualClock) -> None:
    """While one has not ended nothing of its schedule is due; then the next one is, and waiting is no lateness."""
    put(store, overlap="queue", catch_up="none")
    clock.advance(MINUTE)
    store.schedules.fire_due()
    clock.advance(10 * MINUTE)
    assert store.schedules.fire_due().schedules == 0
    assert store.schedules.next_due()[0] is None

    for count in range(1, 11):
        end(store, jobs_of(store)[-1].job_id)
        assert store.schedules.fire_due().fired == 1
        assert len(jobs_of(store)) == count + 1

    assert fired(store) == [START + MINUTE * n for n in range(1, 12)]
    assert not skipped(store)


def test_overlap_allow_makes_each_when_it_is_due(store: JobStore, clock: ManualClock) -> None:
    """Whatever became of the others."""
    put(store, overlap="allow")
    for _ in range(3):
        clock.advance(MINUTE)
        store.schedules.fire_due()

    assert store.counts()[jobs_of(store)[0].state] == 3


# Many -----------------------------------------------------------------------------------------------------------------


def test_hundreds_of_schedules_due_at_once_are_fired_in_batches(
    store: JobStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No transaction takes more than its share, and none is left over."""
    sizes: list[int] = []
    settled = firing.FiringCommands._settled_page  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # only watched

    def watched(self: Any, after: Any, size: int) -> Any:
        page = settled(self, after, size)
        sizes.append(len(page.taken))
        return page

    monkeypatch.setattr(firing.FiringCommands, "_settled_page", watched)
    for number in range(350):
        put(store, f"s{number:04}", every=3600, overlap="allow")
    clock.advance(HOUR)

    report = store.schedules.fire_due()

    assert (report.fired, report.schedules, report.is_done) == (350, 350, True)
    assert max(sizes) <= firing.BATCH
    assert sum(store.counts().values()) == 350


def test_eight_schedulers_make_one_job_an_instant(store: JobStore, clock: ManualClock) -> None:
    """All at once, over twenty schedules and ten ticks, each in a transaction of its own."""
    for number in range(20):
        put(store, f"s{number}", overlap="allow", catch_up="all")
    for _ in range(10):
        clock.advance(MINUTE)
        threads = [threading.Thread(target=store.schedules.fire_due) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

    for number in range(20):
        settled_once(store, f"s{number}", START + MINUTE, MINUTE, 10)


def test_eight_who_put_one_schedule_at_once_make_one(store: JobStore) -> None:
    """Whoever comes first creates it; the others find it as they want it, and none is told of a conflict."""
    receipts: list[ScheduleReceipt] = []
    threads = [threading.Thread(target=lambda: receipts.append(put(store))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert sorted(receipt.reused for receipt in receipts) == [False] + [True] * 7
    assert {receipt.sequence for receipt in receipts} == {1}


def test_a_twin_without_the_key_of_the_instant_doubles(
    local_store: JobStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: where keys come from chance and rows are set back, each instant makes another job."""
    store = local_store
    put(store, overlap="allow", catch_up="all")
    with store._setting.storage.reading() as reader:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # set back below
        before = reader.schedules("default", ["s"])["s"]
    clock.advance(3 * MINUTE)
    store.schedules.fire_due()
    honest = len(jobs_of(store))

    def set_back() -> None:
        """What a store that was restored from a backup says: nothing has fired yet."""
        with store._setting.storage.writing(MINUTE) as session:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # as above
            now = session.schedules("default", ["s"])["s"]
            stale: Any = {"settled_at": before.state.settled_at, "next_at": before.state.next_at}
            session.rewrite_schedule(replace(now.state, **stale), now.head, ())

    set_back()
    assert store.schedules.fire_due().fired == 0
    assert len(jobs_of(store)) == honest == 3
    assert skipped(store) == [("fired_before", 1)] * 3

    numbers = iter(range(1_000))
    monkeypatch.setattr(occurring, "occurrence_key", lambda *_: f"k{next(numbers)}")
    set_back()
    store.schedules.fire_due()
    assert len(jobs_of(store)) == 2 * honest


# Failures -------------------------------------------------------------------------------------------------------------


def test_one_schedule_that_cannot_be_settled_stops_no_other(
    store: JobStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named with the reason, and tried again; here its zone is gone from the machine."""
    put(store, "a", cron="* * * * *", zone="Asia/Tokyo", overlap="allow")
    put(store, "b", overlap="allow")
    clock.advance(MINUTE)
    monkeypatch.setattr(calendars, "_known_zones", lambda: frozenset({"UTC"}))

    report = store.schedules.fire_due()

    assert report.fired == 1
    [(name, why)] = report.failed
    assert name == "a"
    assert "no time zone 'Asia/Tokyo'" in why
    monkeypatch.undo()
    assert store.schedules.fire_due().fired == 1
