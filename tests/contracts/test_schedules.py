"""Schedules over a store: what operators ask, what they are answered, and what stays on record."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from jobledger import JobStore, ManualClock, Schedule, ScheduleReceipt, State
from jobledger.domain.schedule_events import ScheduleFired, ScheduleSkipped
from tests.contracts.jobs import created, refuses
from tests.contracts.schedules import BY, WHY, end, fired, jobs_of, put, skipped

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


# Putting --------------------------------------------------------------------------------------------------------------


def test_a_schedule_that_says_the_same_is_left_alone(store: JobStore) -> None:
    """A deployment may put its schedules each time it starts; only a difference is an event."""
    first = put(store, cron="30 2 * * *", zone="Europe/Berlin", payload={"n": 1})
    again = put(store, cron=" 30  2 * * * ", zone="Europe/Berlin", payload={"n": 1})
    changed = put(store, cron="30 2 * * *", zone="Europe/Berlin", payload={"n": 1.0})

    assert (first.sequence, first.reused) == (1, False)
    assert (again.sequence, again.reused, again.next_at) == (1, True, first.next_at)
    assert (changed.sequence, changed.reused) == (2, False)
    assert [event.name for event in store.schedules.history("s")] == ["ScheduleCreated", "ScheduleChanged"]


def test_a_repeated_command_is_answered_as_the_first_time(store: JobStore) -> None:
    """A reply that was lost changes nothing; the same id for anything else is refused."""
    schedule = Schedule("s", "index", every=60)
    first = store.schedules.put(schedule, **BY, command_id="c1")

    assert store.schedules.put(schedule, **BY, command_id="c1") == first
    refuses("command_changed", store.schedules.put, Schedule("s", "index", every=61), **BY, command_id="c1")
    refuses("command_changed", store.schedules.hold, "s", **WHY, command_id="c1")


def test_a_repeated_command_is_told_of_its_own_time_whatever_came_after(store: JobStore, clock: ManualClock) -> None:
    """Each receipt is the first one, also behind more events than are folded at once."""
    asked: list[tuple[Callable[[], ScheduleReceipt], ScheduleReceipt]] = []

    def ask(command: Callable[[], ScheduleReceipt]) -> None:
        asked.append((command, command()))
        clock.advance(MINUTE)
        store.schedules.fire_due()

    for number in range(55):
        hold, release = f"h{number}", f"r{number}"
        if number % 27 == 0:
            ask(
                partial(
                    store.schedules.put,
                    Schedule("s", "index", every=60, priority=number),
                    **BY,
                    command_id=f"p{number}",
                )
            )
        ask(partial(store.schedules.hold, "s", **WHY, command_id=hold))
        ask(partial(store.schedules.release, "s", **WHY, command_id=release))
    ask(partial(store.schedules.remove, "s", **WHY, command_id="gone"))

    assert asked[-1][1].sequence > 200
    assert [command() for command, _ in asked] == [told for _, told in asked]
    assert [told.next_at is None for _, told in asked[-2:]] == [False, True]


def test_a_change_never_fires_a_past_instant_again(store: JobStore, clock: ManualClock) -> None:
    """What was due under the old definition is settled by it; the new one counts from the change on."""
    put(store, every=60, overlap="allow")
    clock.advance(MINUTE)
    assert store.schedules.fire_due().fired == 1
    clock.advance(MINUTE)

    put(store, every=30, overlap="allow")

    assert store.schedules.fire_due().fired == 0
    clock.advance(MINUTE / 2)
    assert store.schedules.fire_due().fired == 1
    start = datetime(2026, 6, 1, 12, tzinfo=UTC)
    assert fired(store) == [start + MINUTE, start + 2 * MINUTE, start + 2.5 * MINUTE]
    assert not skipped(store)


def test_what_waits_when_a_schedule_changes_is_on_record(store: JobStore, clock: ManualClock) -> None:
    """An instant that waits for its predecessor makes no job under another definition, and is not lost in silence."""
    put(store, overlap="queue")
    clock.advance(3 * MINUTE)
    store.schedules.fire_due()

    put(store, overlap="queue", priority=1)

    assert [job.key for job in jobs_of(store)] == ["schedule:s:2026-06-01T12:02:00Z"]
    assert skipped(store) == [("coalesced", 1), ("changed", 1)]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cron": "61 * * * *"}, "column 1: '61' is no minute"),
        ({"cron": "0 0 1,45 * *"}, "column 7: '45' is no day of month"),
        ({"cron": "0 0 1-100000000 * *"}, "column 5"),
        ({"cron": "0 12 * * MON,FOO"}, "column 14: 'FOO' is no day of week"),
        ({"cron": "*/0 * * * *"}, "column 1"),
        ({"cron": "* * * *"}, "4 fields, five are needed"),
        ({"cron": "0 0 2 * * *"}, "6 fields, five are needed"),
        ({"cron": "@daily"}, "five are needed"),
        ({"cron": "0 0 30 2 *"}, "never fires"),
        ({"cron": "0 0 31 4,6,9,11 *"}, "never fires"),
        ({"cron": "0 0 1 1 *", "end": datetime(2026, 7, 1, tzinfo=UTC)}, "never fires"),
        ({"every": 3600, "end": datetime(2026, 6, 1, 12, 30, tzinfo=UTC)}, "never fires"),
        ({"every": 0.5}, "outside"),
        ({"every": True}, "timedelta"),
        ({"cron": "* * * * *", "every": 60}, "either"),
        ({"cron": None, "every": None}, "either"),
        ({"cron": "* * * * *", "anchor": datetime(2026, 1, 1, tzinfo=UTC)}, "only an interval has an anchor"),
        ({"cron": "* * * * *", "zone": "Europe/Atlantis"}, "no time zone"),
        ({"cron": "* * * * *", "zone": "../../etc/passwd"}, "no time zone"),
        ({"cron": "* * * * *", "zone": "localtime"}, "no time zone"),
        ({"cron": "* " * 500}, "at most 200"),
        ({"every": 60, "overlap": "sometimes"}, "one of skip, queue, allow"),
        ({"every": 60, "catch_up": "two"}, "one of none, one, all"),
        ({"every": 60, "jitter": timedelta(days=2)}, "outside"),
        ({"every": 60, "window": 1}, "outside"),
        ({"every": 60, "payload": {"at": "${yesterday}"}}, "there is no ${yesterday}"),
        ({"every": 60, "labels": {"schedule": "x"}}, "the schedule's own"),
        ({"every": 60, "queue": ""}, "empty"),
        ({"every": 60, "start": datetime(2026, 7, 1)}, "time zone"),  # noqa: DTZ001  # the mistake under test
        (
            {"every": 60, "start": datetime(2026, 8, 1, tzinfo=UTC), "end": datetime(2026, 7, 1, tzinfo=UTC)},
            "before the start",
        ),
    ],
)
def test_a_mistaken_schedule_is_refused_when_it_is_put(store: JobStore, given: dict[str, Any], said: str) -> None:
    """The refusal names the position and the reason; nothing is kept."""
    error = refuses("invalid_request", store.schedules.put, Schedule("s", "index", **given), **BY)

    assert said in str(error)
    refuses("unknown_schedule", store.schedules.get, "s")
    assert store.schedules.fire_due().schedules == 0


def test_a_schedule_keeps_its_owner(store: JobStore) -> None:
    """Keys belong to owners: under another one, a past instant would make a second job."""
    put(store, owner="a")

    refuses("invalid_request", store.schedules.put, Schedule("s", "index", every=60, owner="b"), **BY)
    store.schedules.remove("s", **WHY)
    refuses("invalid_request", store.schedules.put, Schedule("s", "index", every=60, owner="b"), **BY)


# Occurrences ----------------------------------------------------------------------------------------------------------


def test_an_occurrence_is_a_job_that_says_where_it_comes_from(store: JobStore, clock: ManualClock) -> None:
    """Its key is the schedule and the nominal instant, its payload the template filled in."""
    template = {"day": "${date}", "at": ["${instant}", "${local}"], "of": "${schedule}", "$${date}": "$${date}", "n": 7}
    put(store, "nightly", cron="30 2 * * *", zone="Europe/Berlin", payload=template, queue="slow", labels={"team": "x"})
    clock.advance(timedelta(hours=12, minutes=31))

    store.schedules.fire_due()

    [job] = jobs_of(store, "nightly")
    assert job.key == "schedule:nightly:2026-06-02T00:30:00Z"
    assert job.origin == "occurrence of nightly at 2026-06-02T00:30:00Z"
    assert job.labels == {"team": "x", "schedule": "nightly"}
    assert (job.owner, job.kind, job.queue, job.state) == ("default", "index", "slow", State.QUEUED)
    assert job.payload == {
        "day": "2026-06-02",
        "at": ["2026-06-02T00:30:00Z", "2026-06-02T02:30:00+02:00"],
        "of": "nightly",
        "$${date}": "${date}",
        "n": 7,
    }
    assert store.find("default", "schedule:nightly:2026-06-02T00:30:00Z") == job
    status = store.schedules.get("nightly")
    assert (status.last_job_id, status.fired, status.skipped) == (job.job_id, 1, 0)


def test_jitter_is_drawn_from_the_name_and_moves_the_job_not_the_instant(store: JobStore, clock: ManualClock) -> None:
    """Schedules of one instant spread, each by the same span every time; the keys stay those of the instants."""
    for number in range(40):
        put(store, f"s{number}", every=3600, jitter=timedelta(minutes=10))
    offsets = {}
    for number in range(40):
        status = store.schedules.get(f"s{number}")
        assert status.due_at is not None
        assert status.next_at is not None
        offsets[number] = status.due_at - status.next_at
    assert all(timedelta(0) <= offset <= timedelta(minutes=10) for offset in offsets.values())
    assert len(set(offsets.values())) > 30

    clock.advance(HOUR + timedelta(minutes=5))
    store.schedules.fire_due()

    early = [number for number, offset in offsets.items() if offset <= timedelta(minutes=5)]
    assert 0 < len(early) < 40
    for number in range(40):
        made = [job.key for job in jobs_of(store, f"s{number}")]
        assert made == ([f"schedule:s{number}:2026-06-01T13:00:00Z"] if number in early else [])


def test_start_and_end_bound_the_instants(store: JobStore, clock: ManualClock) -> None:
    """Both are inclusive; behind the end nothing is due any more."""
    start = clock.now() + timedelta(minutes=10)
    put(store, every=60, anchor=start, start=start, end=start + 2 * MINUTE, overlap="allow")

    for _ in range(20):
        clock.advance(MINUTE)
        store.schedules.fire_due()

    assert fired(store) == [start, start + MINUTE, start + 2 * MINUTE]
    status = store.schedules.get("s")
    assert (status.next_at, status.due_at) == (None, None)
    assert store.schedules.upcoming("s") == ()


def test_a_key_that_somebody_took_is_on_record_and_stops_nothing(store: JobStore, clock: ManualClock) -> None:
    """A job that was made by hand under an occurrence's key is not taken for the occurrence."""
    put(store, overlap="allow")
    taken = created(store, "schedule:s:2026-06-01T12:01:00Z", owner="default")
    clock.advance(2 * MINUTE)

    report = store.schedules.fire_due()

    assert (report.fired, report.skipped, report.failed) == (1, 1, ())
    [skip] = [each.event for each in store.schedules.history("s") if isinstance(each.event, ScheduleSkipped)]
    assert (skip.reason, skip.job_id) == ("key_taken", taken)


def test_a_job_that_is_refused_is_on_record_with_the_refusal(store: JobStore, clock: ManualClock) -> None:
    """The queue is full, or the policy unknown here: the instant is skipped, and the next one tries again."""
    put(store, policy="shallow", overlap="allow", catch_up="all")
    clock.advance(4 * MINUTE)

    report = store.schedules.fire_due()

    assert (report.fired, report.skipped) == (2, 2)
    [skip] = [each.event for each in store.schedules.history("s") if isinstance(each.event, ScheduleSkipped)]
    assert (skip.reason, skip.count) == ("refused", 2)
    assert "at most 2 are allowed" in skip.detail


# Holding --------------------------------------------------------------------------------------------------------------


def test_a_held_schedule_fires_nothing_and_says_so(store: JobStore, clock: ManualClock) -> None:
    """What came while it was held never fires; one event counts it when it is released."""
    put(store, overlap="allow", catch_up="all")
    store.schedules.hold("s", **WHY)
    clock.advance(timedelta(minutes=90))

    report = store.schedules.fire_due()

    assert (report.fired, report.skipped, report.schedules) == (0, 0, 0)
    status = store.schedules.get("s")
    assert status.hold is not None
    assert (status.hold.by, status.hold.reason, status.due_at) == ("ann", "look", None)
    refuses("hold_in_force", store.schedules.trigger, "s", **WHY)
    refuses("hold_in_force", store.schedules.backfill, "s", clock.now() - HOUR, clock.now(), **WHY)

    store.schedules.release("s", **WHY)

    assert store.schedules.fire_due().fired == 0
    assert skipped(store) == [("held", 90)]
    clock.advance(MINUTE)
    assert store.schedules.fire_due().fired == 1


def test_holds_name_their_holder_and_follow_the_looks_of_operators(store: JobStore) -> None:
    """The same operator again is answered as reused, another one is told who holds it; late commands are refused."""
    put(store)
    held = store.schedules.hold("s", **WHY)

    assert store.schedules.hold("s", **WHY).reused
    error = refuses("hold_in_force", store.schedules.hold, "s", by="bob", reason="me too")
    assert str(error) == "schedule 's' is held by 'ann' (look); release that hold first"
    refuses("sequence_moved", store.schedules.release, "s", **WHY, expected_sequence=held.sequence - 1)
    assert not store.schedules.release("s", **WHY, expected_sequence=held.sequence).reused
    assert store.schedules.release("s", **WHY).reused
    refuses("not_held", store.schedules.release, "s", by="bob", reason="me too")
    refuses("unknown_schedule", store.schedules.hold, "t", **WHY)
    refuses("invalid_request", store.schedules.hold, "s", by="engine", reason="no")


# Triggering and backfilling -------------------------------------------------------------------------------------------


def test_a_trigger_makes_one_job_beside_the_plan(store: JobStore, clock: ManualClock) -> None:
    """Asked again with the same command id it answers the same job; the plan stays."""
    planned = put(store, every=3600).next_at
    first = store.schedules.trigger("s", **WHY, command_id="t1")

    assert store.schedules.trigger("s", **WHY, command_id="t1") == first
    assert len(jobs_of(store)) == 1
    assert store.schedules.get("s").next_at == planned
    error = refuses("schedule_busy", store.schedules.trigger, "s", **WHY)
    assert first.job_id in str(error)
    clock.advance(HOUR)
    assert store.schedules.fire_due().skipped == 1

    end(store, first.job_id)

    assert store.schedules.trigger("s", **WHY).job_id != first.job_id
    [one, _] = [each.event for each in store.schedules.history("s") if isinstance(each.event, ScheduleFired)]
    assert (one.how, one.by, one.reason) == ("triggered", "ann", "look")


def test_a_backfill_makes_what_is_missing_once(store: JobStore, clock: ManualClock) -> None:
    """Instants that have their job are counted, not doubled; a range without bound, or ahead, is refused."""
    put(store, every=60, overlap="allow")
    clock.advance(MINUTE)
    store.schedules.fire_due()
    now = clock.now()

    receipt = store.schedules.backfill("s", now - timedelta(minutes=249), now, **WHY)

    assert (len(receipt.job_ids), receipt.reused, receipt.refused) == (249, 1, ())
    again = store.schedules.backfill("s", now - timedelta(minutes=249), now, **WHY)
    assert (again.job_ids, again.reused) == ((), 250)
    assert len(jobs_of(store)) == 250
    refuses("invalid_request", store.schedules.backfill, "s", now - timedelta(minutes=1_000), now, **WHY)
    refuses("invalid_request", store.schedules.backfill, "s", now, now + MINUTE, **WHY)
    refuses("invalid_request", store.schedules.backfill, "s", now, now - MINUTE, **WHY)
    refuses("invalid_request", store.schedules.backfill, "s", now + MINUTE / 3 - MINUTE, now - MINUTE / 3, **WHY)
    refuses("unknown_schedule", store.schedules.backfill, "t", now - MINUTE, now, **WHY)


# Removing, reading ----------------------------------------------------------------------------------------------------


def test_a_removed_schedule_fires_no_more_and_keeps_its_history(store: JobStore, clock: ManualClock) -> None:
    """Its name may be put again: the history goes on, and no past instant fires."""
    put(store, overlap="allow")
    clock.advance(2 * MINUTE)

    store.schedules.remove("s", **WHY)

    clock.advance(5 * MINUTE)
    assert store.schedules.fire_due().schedules == 0
    refuses("unknown_schedule", store.schedules.get, "s")
    refuses("unknown_schedule", store.schedules.remove, "s", **WHY)
    assert store.schedules.list().schedules == ()
    assert skipped(store) == [("removed", 2)]
    again = put(store, overlap="allow")
    assert (again.sequence, again.reused) == (4, False)
    assert store.schedules.fire_due().fired == 0
    clock.advance(MINUTE)
    assert store.schedules.fire_due().fired == 1


def test_a_schedule_is_read_as_it_was_at_any_sequence_and_instant(store: JobStore, clock: ManualClock) -> None:
    """Time travel folds from the nearest kept state, and knows nothing of what came later."""
    put(store, overlap="allow")
    seen = {1: store.schedules.get("s")}
    for _ in range(120):
        clock.advance(MINUTE)
        store.schedules.fire_due()
        seen[len(seen) + 1] = store.schedules.get("s")

    for sequence in (1, 2, 99, 100, 101, 120, 121):
        assert store.schedules.get("s", at=sequence) == seen[sequence]
    assert store.schedules.get("s", at=seen[77].updated_at + MINUTE / 2) == seen[77]
    refuses("unknown_sequence", store.schedules.get, "s", at=122)
    refuses("unknown_sequence", store.schedules.get, "s", at=0)
    refuses("unknown_sequence", store.schedules.get, "s", at=datetime(2026, 5, 1, tzinfo=UTC))
    window = store.schedules.events("s", after=100, limit=3)
    assert [event.sequence for event in window.events] == [101, 102, 103]
    assert (window.next_after, window.head) == (103, 121)
    refuses("unknown_sequence", store.schedules.events, "s", after=122)


def test_schedules_are_listed_by_name_in_pages(store: JobStore) -> None:
    """Other namespaces have their own."""
    for name in ("b", "a", "c", "é"):
        put(store, name)
    store.schedules.remove("c", **WHY)

    first = store.schedules.list(limit=2)

    assert [each.name for each in first.schedules] == ["a", "b"]
    assert first.next_after == "b"
    rest = store.schedules.list(after=first.next_after, limit=2)
    assert ([each.name for each in rest.schedules], rest.next_after) == (["é"], None)


def test_upcoming_instants_are_told_also_before_a_schedule_is_put(store: JobStore) -> None:
    """In UTC, from the plan on, bounded."""
    schedule = Schedule("s", "index", cron="0 9 * * MON-FRI", zone="America/New_York")
    before = store.schedules.upcoming(schedule, 3)
    store.schedules.put(schedule, **BY)

    assert store.schedules.upcoming("s", 3) == before
    assert [instant.isoformat() for instant in before] == [
        "2026-06-01T13:00:00+00:00",
        "2026-06-02T13:00:00+00:00",
        "2026-06-03T13:00:00+00:00",
    ]
    refuses("invalid_request", store.schedules.upcoming, "s", 1_001)
    refuses("unknown_schedule", store.schedules.upcoming, "t")


def test_rows_of_schedules_are_a_fold_of_their_events(store: JobStore, clock: ManualClock) -> None:
    """A rebuild finds nothing to mend."""
    put(store, overlap="queue")
    put(store, "t", cron="*/5 * * * *")
    for _ in range(12):
        clock.advance(MINUTE)
        store.schedules.fire_due()
    store.schedules.remove("t", **WHY)

    assert store.schedules.rebuild() == ()
