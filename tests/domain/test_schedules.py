"""The rules of schedules: what becomes of each instant, and what operators may ask."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobledger.domain.errors import HoldInForceError, InvalidRequestError, ScheduleBusyError
from jobledger.domain.schedule_events import (
    Definition,
    ScheduleChanged,
    ScheduleFired,
    ScheduleHeld,
    ScheduleReleased,
    ScheduleRemoved,
    ScheduleSkipped,
)
from jobledger.domain.schedules import firing
from jobledger.domain.schedules.firing import Before, give_up
from jobledger.domain.schedules.operating import backfill_range, put, require_triggerable
from jobledger.domain.schedules.state import evolve_schedule
from jobledger.domain.schedules.templates import filled, require_template, values_of
from jobledger.domain.schedules.timing import instants, next_instant
from tests.domain.given import body
from tests.domain.schedules import CALENDAR, MINUTE, START, at, minutely, minutes_of, settled

OPEN = Before("job-0", None)


# Lateness and catching up ---------------------------------------------------------------------------------------------


def test_nothing_is_due_before_its_instant() -> None:
    assert settled(minutely(), 0.999)[0] == []
    assert settled(minutely(), 1)[0] == [("due", 1)]


def test_an_instant_is_late_when_more_than_a_minute_has_passed() -> None:
    """Up to a minute is no matter of catching up, whatever the schedule says."""
    assert settled(minutely(catch_up="none"), 2)[0] == [("due", 1), ("due", 2)]
    assert settled(minutely(catch_up="none"), 2.001)[0] == [("missed", 1), ("due", 2)]


def test_one_is_caught_up_only_where_nothing_newer_is_due() -> None:
    hourly = minutely(catch_up="one", every=60 * MINUTE)

    assert settled(hourly, 70)[0] == [("caught_up", 60)]
    assert settled(hourly, 190)[0] == [("coalesced", 60), ("coalesced", 120), ("caught_up", 180)]


def test_all_are_caught_up_oldest_first() -> None:
    assert settled(minutely(catch_up="all"), 4)[0] == [("caught_up", 1), ("caught_up", 2), ("due", 3), ("due", 4)]


def test_what_is_older_than_the_window_never_fires() -> None:
    """However it is to be caught up; the edge itself is within."""
    state = minutely(catch_up="all", window=2 * MINUTE)

    assert settled(state, 4)[0] == [("out_of_window", 1), ("caught_up", 2), ("due", 3), ("due", 4)]


def test_jitter_moves_what_is_due_and_not_what_is_planned() -> None:
    state = minutely(jitter=MINUTE / 2)

    fates, after = settled(state, 1 + state.offset / MINUTE)

    assert timedelta(0) <= state.offset <= MINUTE / 2
    assert fates == [("due", 1)]
    assert (after.last_instant, after.next_at) == (at(1), at(2))
    if state.offset:
        assert settled(state, 1 + state.offset / MINUTE - 0.000_1)[0] == []


# Overlap --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("overlap", "fates"), [("skip", [("overlap", 1)]), ("queue", []), ("allow", [("due", 1)])])
def test_overlap_says_what_an_open_predecessor_does(overlap: str, fates: list[Any]) -> None:
    assert settled(minutely(overlap=overlap), 1, before=OPEN)[0] == fates
    assert settled(minutely(overlap=overlap), 1, before=Before("job-0", START))[0] == [("due", 1)]


def test_what_fires_is_the_predecessor_of_what_follows() -> None:
    """Within one settlement too: with skip the first fires, with queue the others wait."""
    assert settled(minutely(overlap="skip", catch_up="all"), 3)[0] == [("caught_up", 1), ("overlap", 2), ("overlap", 3)]
    fates, after = settled(minutely(overlap="queue", catch_up="all"), 3)
    assert (fates, after.next_at, after.waits_for) == ([("caught_up", 1)], at(2), "job-1")


def test_an_occurrence_that_was_refused_stands_in_nobodys_way() -> None:
    assert settled(minutely(overlap="skip"), 2, refused=(1,))[0] == [("refused", 1), ("due", 2)]


def test_waiting_for_a_predecessor_is_no_lateness() -> None:
    """Late counts from when the predecessor ended; an outage after that counts."""
    state = minutely(overlap="queue", catch_up="none")

    assert settled(state, 30, before=Before("job-0", at(29.5)))[0] == [("due", 1)]
    assert settled(state, 3, before=Before("job-0", at(0)))[0] == [("missed", 1), ("due", 2)]


# Bounds and order -----------------------------------------------------------------------------------------------------


def test_one_settlement_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the jobs that it makes, and by the instants that it looks at; the rest stays planned."""
    monkeypatch.setattr(firing, "FIRED_MAX", 3)
    monkeypatch.setattr(firing, "SETTLED_MAX", 5)

    many, after = settled(minutely(catch_up="all"), 9)
    skipped, later = settled(minutely(catch_up="none"), 60)

    assert (len(many), after.next_at) == (3, at(4))
    assert (skipped, later.next_at) == ([("missed", number) for number in range(1, 6)], at(6))


def test_a_run_that_is_skipped_is_one_fact() -> None:
    state = minutely(catch_up="none")

    [skipped, *fired] = firing.settle(state, CALENDAR, lambda *_: firing.Made("j"), before=None, now=at(1_000)).facts

    assert skipped == ScheduleSkipped(
        at=at(1_000), first=at(1), last=at(998), count=998, reason="missed", next_at=at(999)
    )
    assert [type(fact) for fact in fired] == [ScheduleFired] * 2


def test_the_last_instant_plans_none() -> None:
    fates, after = settled(minutely(end=at(2), catch_up="all"), 10)

    assert fates == [("caught_up", 1), ("caught_up", 2)]
    assert (after.next_at, after.due_at) == (None, None)


def test_nothing_is_settled_of_what_is_held_or_removed() -> None:
    held = evolve_schedule(minutely(), ScheduleHeld(at=START, by="ann", reason="r"))
    removed = evolve_schedule(minutely(), ScheduleRemoved(at=START, by="ann", reason="r"))

    assert settled(held, 9)[0] == settled(removed, 9)[0] == []
    assert (held.due_at, removed.due_at) == (None, None)
    [skipped] = give_up(held, CALENDAR, "held", now=at(9)).facts
    assert isinstance(skipped, ScheduleSkipped)
    assert (skipped.count, skipped.reason, skipped.next_at) == (9, "held", at(10))


CHOICES = st.fixed_dictionaries(
    {
        "catch_up": st.sampled_from(["none", "one", "all"]),
        "overlap": st.sampled_from(["skip", "queue", "allow"]),
        "window": st.sampled_from([2 * MINUTE, 10 * MINUTE, 90 * MINUTE]),
        "jitter": st.sampled_from([timedelta(0), MINUTE / 2, 5 * MINUTE]),
        "every": st.sampled_from([MINUTE, 3 * MINUTE]),
    }
)
LOOKS = st.lists(st.tuples(st.floats(0, 40), st.booleans(), st.booleans()), max_size=12)


@given(choices=CHOICES, looks=LOOKS)
def test_in_any_history_each_instant_is_settled_once_and_in_order(
    choices: dict[str, Any], looks: list[tuple[float, bool, bool]]
) -> None:
    """Whenever schedulers look, whatever ends meanwhile, however often it is held: no gap, no double, nothing early."""
    state, now = minutely(**choices), 0.0
    covered: list[float] = []
    has_ended = True
    for passes, ends, is_held in looks:
        now += passes
        has_ended = has_ended or ends
        before = Before("job", at(now) if has_ended else None) if state.last_job_id else None
        if is_held:
            state = evolve_schedule(state, ScheduleHeld(at=at(now), by="ann", reason="r"))
            result = give_up(state, CALENDAR, "held", now=at(now))
        else:
            result = firing.settle(state, CALENDAR, lambda *_: firing.Made("job"), before=before, now=at(now))
        for fact in result.facts:
            covered += minutes_of(state, fact)
            has_ended = has_ended and not isinstance(fact, ScheduleFired)
            state = evolve_schedule(state, fact)
        if is_held:
            state = evolve_schedule(state, ScheduleReleased(at=at(now), by="ann", reason="r"))

    expected = islice(instants(state.definition, CALENDAR, START), len(covered))
    assert covered == [(instant - START) / MINUTE for instant in expected]
    assert all(instant <= now for instant in covered)
    assert state.next_at == next_instant(state.definition, CALENDAR, at(covered[-1]) if covered else START)


# Operators ------------------------------------------------------------------------------------------------------------


def test_a_put_counts_from_what_was_settled() -> None:
    """A clock that was set back cannot bring a settled instant into a new plan."""
    _, state = settled(minutely(), 1)
    changed = Definition(owner="team", kind="index", payload=body({}), every=MINUTE / 2)

    [fact] = put(state, changed, CALENDAR, namespace="default", name="s", by="ann", now=at(0.5))

    assert isinstance(fact, ScheduleChanged)
    assert fact.next_at == at(1.5)


@pytest.mark.parametrize("overlap", ["skip", "queue"])
def test_a_trigger_respects_holds_and_overlap(overlap: str) -> None:
    state = minutely(overlap=overlap)

    require_triggerable(state, None)
    require_triggerable(state, Before("job-0", START))
    require_triggerable(minutely(overlap="allow"), OPEN)
    with pytest.raises(ScheduleBusyError) as refusal:
        require_triggerable(state, OPEN)
    assert refusal.value.job_id == "job-0"
    with pytest.raises(HoldInForceError):
        require_triggerable(evolve_schedule(state, ScheduleHeld(at=START, by="ann", reason="r")), None)


def test_a_backfill_covers_both_its_ends() -> None:
    definition = minutely().definition

    assert backfill_range(definition, CALENDAR, first=at(-3), last=at(-1), now=START) == [at(-3), at(-2), at(-1)]
    for first, last in ((-1, -2), (-1, 1), (-0.9, -0.1), (-1_001, 0)):
        with pytest.raises(InvalidRequestError):
            backfill_range(definition, CALENDAR, first=at(first), last=at(last), now=START)


@pytest.mark.parametrize("sign", [1, -1])
def test_an_interval_is_counted_from_its_anchor_in_both_directions(sign: int) -> None:
    """The anchor gives the phase, whether it lies before or after."""
    anchor = START + sign * (1_000 * MINUTE + MINUTE / 4)
    definition = minutely(every=7 * MINUTE, anchor=anchor).definition

    found: list[datetime] = list(islice(instants(definition, CALENDAR, START), 3))

    assert all((instant - anchor) % (7 * MINUTE) == timedelta(0) for instant in found)
    assert START < found[0] <= START + 7 * MINUTE
    assert [later - earlier for earlier, later in pairwise(found)] == [7 * MINUTE] * 2


# Templates ------------------------------------------------------------------------------------------------------------


def test_a_template_fills_texts_and_nothing_else() -> None:
    values = values_of("s", START, START)
    payload = {"${date}": ["${date}T", 1, 1.0, True, None, "$5", "$${date}", "$$", "${ date}"]}

    with pytest.raises(InvalidRequestError, match=r"there is no \$\{ date\}"):
        require_template("payload", payload)
    assert filled({"${date}": payload["${date}"][:8]}, values) == {
        "${date}": ["2026-01-01T", 1, 1.0, True, None, "$5", "${date}", "$$"]
    }
    assert values["instant"] == "2026-01-01T12:00:00Z"


@given(st.recursive(st.text(max_size=20) | st.integers() | st.none(), lambda inner: st.lists(inner, max_size=3)))
def test_what_names_no_place_comes_through_untouched(payload: Any) -> None:
    try:
        require_template("payload", payload)
    except InvalidRequestError:
        return
    if "${" not in str(payload):
        assert filled(payload, values_of("s", START, START)) == payload
