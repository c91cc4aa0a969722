"""The rules of one schedule: how it is folded, what operators may ask of it, and why neighbours are told apart."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from jobledger.domain.bounds import INSTANT_MAX, INSTANT_MIN, SPAN_MAX
from jobledger.domain.errors import (
    HistoryCorruptError,
    HoldInForceError,
    InvalidRequestError,
    NotHeldError,
    ScheduleBusyError,
    SequenceMovedError,
    UnknownJobError,
    UnknownScheduleError,
)
from jobledger.domain.history import Cause, read, record
from jobledger.domain.schedule_events import (
    EVERY_MIN,
    JITTER_MAX,
    Definition,
    ScheduleChanged,
    ScheduleCreated,
    ScheduleEvent,
    ScheduleFired,
    ScheduleHeld,
    ScheduleReleased,
    ScheduleRemoved,
    ScheduleSkipped,
)
from jobledger.domain.schedules import operating
from jobledger.domain.schedules.firing import SETTLED_MAX, Before, Made, give_up, settle
from jobledger.domain.schedules.state import ScheduleState, advance_schedule, evolve_schedule, require_sound
from jobledger.domain.schedules.timing import EPOCH, next_instant
from tests.domain.given import body, created
from tests.domain.schedules import CALENDAR, MINUTE, START, at, minutely, settled

ANN: Any = {"by": "ann", "reason": "look"}
BOB: Any = {"by": "bob", "reason": "look"}
MICROSECOND = timedelta(microseconds=1)


def after(state: ScheduleState, *events: ScheduleEvent) -> ScheduleState:
    """The fold of further events."""
    for event in events:
        state = evolve_schedule(state, event)
    return state


def fired(minute: float, job_id: str = "job", **said: Any) -> ScheduleFired:
    asked: dict[str, Any] = {"how": "due", "next_at": at(minute + 1)} | said
    return ScheduleFired(at=at(minute), instant=at(minute), job_id=job_id, **asked)


def held(**by: Any) -> ScheduleHeld:
    return ScheduleHeld(at=at(1), **(ANN | by))


def released(**by: Any) -> ScheduleReleased:
    return ScheduleReleased(at=at(2), **(ANN | by))


REMOVED = ScheduleRemoved(at=at(3), **ANN)


# The fold -------------------------------------------------------------------------------------------------------------


def test_every_event_is_counted_and_what_the_engine_settles_is_no_control() -> None:
    run = ScheduleSkipped(at=at(4), first=at(2), last=at(4), count=3, reason="missed", next_at=at(5))
    told: list[tuple[ScheduleEvent, int, int]] = [
        (fired(1), 2, 1),
        (run, 3, 1),
        (held(), 4, 4),
        (released(), 5, 5),
        (ScheduleChanged(at=at(6), definition=minutely().definition, by="ann", next_at=at(7)), 6, 6),
        (REMOVED, 7, 7),
    ]
    state = minutely()
    assert (state.sequence, state.control_sequence, state.fired, state.skipped) == (1, 1, 0, 0)

    for event, sequence, control in told:
        state = after(state, event)
        assert (state.sequence, state.control_sequence, state.updated_at) == (sequence, control, event.at)

    assert (state.fired, state.skipped) == (1, 3)


def test_a_schedule_that_is_put_again_goes_on_counting_behind_all_that_it_settled() -> None:
    state = after(minutely(), fired(1), REMOVED)
    assert (state.is_removed, state.hold, state.next_at, state.due_at) == (True, None, None, None)

    again = ScheduleCreated(
        at=at(0.5), namespace="default", name="s", definition=state.definition, by="bob", next_at=at(2)
    )
    state = after(state, again)

    assert (state.sequence, state.control_sequence, state.is_removed) == (4, 4, False)
    assert (state.settled_at, state.last_job_id, state.last_instant, state.fired) == (at(1), "job", at(1), 1)


def test_what_operators_ask_for_leaves_what_is_settled_as_it_is() -> None:
    """A trigger is the newest occurrence, a backfill stands beside all others; both are counted."""
    state = after(minutely(), fired(1, "job-1"))

    state = after(state, fired(1.5, "job-2", how="triggered", next_at=at(2)))
    assert (state.settled_at, state.last_job_id, state.last_instant, state.fired) == (at(1), "job-2", at(1.5), 2)
    state = after(state, fired(0.5, "job-3", how="backfilled", next_at=at(2)))
    assert (state.settled_at, state.last_job_id, state.last_instant, state.fired) == (at(1), "job-2", at(1.5), 3)
    state = after(state, fired(2, "job-4", how="caught_up"))
    assert (state.settled_at, state.last_job_id, state.last_instant, state.fired) == (at(2), "job-4", at(2), 4)


def test_a_hold_stops_what_is_due_until_it_is_released() -> None:
    state = after(minutely(), held())
    assert (state.hold and state.hold.by, state.due_at, state.released_by) == ("ann", None, None)

    state = after(state, released(by="bob"))

    assert (state.hold, state.due_at, state.released_by) == (None, at(1), "bob")


@pytest.mark.parametrize(("overlap", "waits_for"), [("skip", None), ("queue", "job"), ("allow", None)])
def test_only_occurrences_that_queue_wait_for_a_job(overlap: str, waits_for: str | None) -> None:
    assert after(minutely(overlap=overlap), fired(1)).waits_for == waits_for


@pytest.mark.parametrize("jitter", [MICROSECOND, MINUTE, timedelta(days=1)])
def test_jitter_is_drawn_from_the_names_and_never_another_one(jitter: timedelta) -> None:
    """Occurrences of a store that was moved, or upgraded, come as late as they did before."""
    named = b"".join(len(part).to_bytes(8, "big") + part for part in (b"jitter", b"default", b"s"))
    drawn = int.from_bytes(hashlib.sha256(named).digest()[:8], "big") % (jitter // MICROSECOND + 1)

    state = minutely(jitter=jitter)

    assert state.offset == drawn * MICROSECOND <= jitter
    assert state.due_at == at(1) + state.offset
    assert minutely().offset == timedelta(0)


def test_a_history_that_no_schedule_can_have_is_corrupt() -> None:
    def recorded(event: Any, sequence: int = 1) -> Any:
        return read(record("schedule:7:default:s", sequence, event, previous="", cause=Cause("c", "put", "")))

    first = advance_schedule(None, recorded(begun()))
    assert first.sequence == 1
    with pytest.raises(HistoryCorruptError, match="starts with ScheduleCreated"):
        advance_schedule(None, recorded(fired(1)))
    with pytest.raises(HistoryCorruptError, match="no event of a schedule"):
        advance_schedule(first, recorded(created(), 2))


def begun(**defined: Any) -> ScheduleCreated:
    definition = replace(minutely().definition, **defined)
    return ScheduleCreated(at=START, namespace="default", name="s", definition=definition, by="ann", next_at=at(1))


SPANS = {
    "jitter": (timedelta(0), JITTER_MAX),
    "window": (timedelta(0), SPAN_MAX),
    "every": (EVERY_MIN, SPAN_MAX),
}


@pytest.mark.parametrize("name", SPANS)
def test_spans_up_to_their_bounds_can_be_counted_with(name: str) -> None:
    least, most = SPANS[name]
    for span, is_sound in ((least, True), (most, True), (least - MICROSECOND, False), (most + MICROSECOND, False)):
        state = evolve_schedule(None, begun(**{name: span}))
        if is_sound:
            assert require_sound(state, "s") is state
        else:
            with pytest.raises(HistoryCorruptError, match="out of its range"):
                require_sound(state, "s")


@pytest.mark.parametrize("name", ["anchor", "start", "end", "settled_at", "next_at", "last_instant"])
def test_instants_up_to_their_bounds_can_be_counted_with(name: str) -> None:
    for instant, is_sound in ((INSTANT_MIN, True), (INSTANT_MAX, True), (INSTANT_MIN - MICROSECOND, False)):
        if name in ("anchor", "start", "end"):
            state = evolve_schedule(None, begun(**{name: instant}))
        else:
            state = replace(minutely(), **{name: instant})  # type: ignore[arg-type]  # an instant of the state
        if is_sound:
            assert require_sound(state, "s") is state
        else:
            with pytest.raises(HistoryCorruptError, match="out of its range"):
                require_sound(state, "s")


def test_a_definition_is_a_cron_expression_or_an_interval() -> None:
    for cron, every, is_sound in (
        ("* * * * *", None, True),
        (None, MINUTE, True),
        ("*", MINUTE, False),
        (None, None, False),
    ):
        state = evolve_schedule(None, begun(cron=cron, every=every))
        if is_sound:
            assert require_sound(state, "s") is state
        else:
            with pytest.raises(HistoryCorruptError, match="out of its range"):
                require_sound(state, "s")


# Operators ------------------------------------------------------------------------------------------------------------


def put(state: ScheduleState | None, minutes: float, **defined: Any) -> list[ScheduleEvent]:
    timed: dict[str, Any] = {"every": MINUTE, "overlap": "allow", "owner": "team"} | defined
    definition = Definition(kind="index", payload=body({}), **timed)
    return operating.put(state, definition, CALENDAR, namespace="default", name="s", by="ann", now=at(minutes))


def test_a_schedule_begins_changes_and_begins_again() -> None:
    [first] = put(None, 0.5)
    assert isinstance(first, ScheduleCreated)
    assert (first.at, first.next_at, first.name, first.by) == (at(0.5), at(1), "s", "ann")
    assert put(minutely(), 0.5) == []

    [changed] = put(minutely(), 0.5, every=2 * MINUTE)
    assert isinstance(changed, ScheduleChanged)
    assert changed.next_at == at(2)

    [again] = put(after(minutely(), REMOVED), 5.5)
    assert isinstance(again, ScheduleCreated)
    assert again.next_at == at(6)


def test_what_was_settled_is_in_no_further_definition() -> None:
    """Also where the clock stands before it: a change may come at a time that was settled already."""
    [changed] = put(after(minutely(), fired(3)), 1.5, priority=1)

    assert isinstance(changed, ScheduleChanged)
    assert changed.next_at == at(4)


@pytest.mark.parametrize("owner", ["a", "z"])
def test_a_schedule_keeps_its_owner(owner: str) -> None:
    for state in (minutely(), after(minutely(), REMOVED)):
        with pytest.raises(InvalidRequestError, match="'team'"):
            put(state, 1, owner=owner)


def test_a_hold_belongs_to_who_placed_it() -> None:
    [fact] = operating.hold_schedule(minutely(), **ANN, now=at(1))
    assert isinstance(fact, ScheduleHeld)
    assert (fact.by, fact.reason, fact.at) == ("ann", "look", at(1))

    state = after(minutely(), held())
    assert operating.hold_schedule(state, **ANN, now=at(2)) == []
    for other in ("aaa", "zoe"):
        with pytest.raises(HoldInForceError) as refusal:
            operating.hold_schedule(state, by=other, reason="mine", now=at(2))
        assert (refusal.value.by, refusal.value.reason) == ("ann", "look")


def test_a_release_needs_a_hold_or_its_own_release() -> None:
    [fact] = operating.release_schedule(after(minutely(), held()), **BOB, now=at(2))
    assert isinstance(fact, ScheduleReleased)

    state = after(minutely(), held(), released(by="bob"))
    assert operating.release_schedule(state, **BOB, now=at(3)) == []
    for other in ("ann", "zoe"):
        with pytest.raises(NotHeldError):
            operating.release_schedule(state, by=other, reason="", now=at(3))
    with pytest.raises(NotHeldError):
        operating.release_schedule(minutely(), **ANN, now=at(3))


CONTROLS: dict[str, tuple[Any, ScheduleState]] = {
    "hold": (operating.hold_schedule, after(minutely(), held(), released())),
    "release": (operating.release_schedule, after(minutely(), held(), released(), held())),
    "remove": (operating.remove_schedule, after(minutely(), held(), released())),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_an_operator_acts_on_the_schedule_that_he_saw(name: str) -> None:
    control, state = CONTROLS[name]
    known = state.control_sequence
    for seen in (None, known):
        assert len(control(state, **ANN, now=at(4), expected_sequence=seen)) == 1
    for seen in (known - 1, known + 1):
        with pytest.raises(SequenceMovedError) as refusal:
            control(state, **ANN, now=at(4), expected_sequence=seen)
        assert (refusal.value.expected, refusal.value.current) == (seen, known)


def test_an_occurrence_is_triggered_unless_held_or_beside_one_that_goes_on() -> None:
    going_on, ended = Before("job-1", None), Before("job-1", at(1))
    for overlap in ("skip", "queue"):
        operating.require_triggerable(minutely(overlap=overlap), None)
        operating.require_triggerable(minutely(overlap=overlap), ended)
        with pytest.raises(ScheduleBusyError):
            operating.require_triggerable(minutely(overlap=overlap), going_on)
    operating.require_triggerable(minutely(overlap="allow"), going_on)
    with pytest.raises(HoldInForceError):
        operating.require_triggerable(after(minutely(), held()), None)


def test_what_an_operator_asks_for_is_on_record_as_his_and_leaves_the_plan() -> None:
    state = minutely()
    for make, how in ((operating.triggered, "triggered"), (operating.backfilled, "backfilled")):
        fact = make(state, instant=at(0.5), job_id="job", **ANN, now=at(0.7))
        assert (fact.how, fact.instant, fact.at, fact.next_at) == (how, at(0.5), at(0.7), at(1))
        assert (fact.by, fact.reason, fact.job_id) == ("ann", "look", "job")


def backfilled(first: float, last: float, now: float = 5_000) -> list[float]:
    definition = minutely().definition
    found = operating.backfill_range(definition, CALENDAR, first=at(first), last=at(last), now=at(now))
    return [(instant - START) / MINUTE for instant in found]


def test_a_backfill_takes_both_ends_of_its_range() -> None:
    assert backfilled(1, 3) == [1, 2, 3]
    assert backfilled(1, 1) == [1]
    assert backfilled(0.5, 3.5) == [1, 2, 3]
    assert backfilled(1, 5, now=5) == [1, 2, 3, 4, 5]
    assert len(backfilled(1, 1_000)) == 1_000


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [(3, 2, "lies before"), (1, 5_001, "in the future"), (1.2, 1.8, "no instant"), (1, 1_001, "more than 1,000")],
)
def test_a_range_that_cannot_be_backfilled_says_why(first: float, last: float, said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said):
        backfilled(first, last)


def test_a_backfill_from_the_beginning_of_time_has_what_came_after_it() -> None:
    first = EPOCH
    definition = minutely().definition

    found = operating.backfill_range(definition, CALENDAR, first=first, last=first + 2 * MINUTE, now=START)

    assert found == [first + MINUTE * number for number in (1, 2)]


def test_a_schedule_that_is_not_there_or_not_any_more_is_unknown() -> None:
    assert operating.require_schedule(minutely(), "s").name == "s"
    for state in (None, after(minutely(), REMOVED)):
        with pytest.raises(UnknownScheduleError):
            operating.require_schedule(state, "s")


# Settling -------------------------------------------------------------------------------------------------------------


def made_as(fates: dict[float, Made]) -> Any:
    """Makes the job of an instant, but for those whose fate is given, in minutes."""
    return lambda instant, _: fates.get((instant - START) / MINUTE, Made(f"job-{instant}"))


OURS, TAKEN = Made("job-9", "fired_before"), Made("job-8", "key_taken")
REFUSED = Made(None, "refused", UnknownJobError("x"))


@pytest.mark.parametrize(
    "fates", [(OURS, TAKEN), (TAKEN, OURS), (REFUSED, OURS), (OURS, REFUSED), (Made(None), REFUSED)]
)
def test_neighbours_that_are_skipped_for_different_reasons_are_told_apart(fates: tuple[Made, Made]) -> None:
    """Each with its own job and its own sentence; those of one reason are one run."""
    one, other = fates
    make = made_as({1: one, 2: one, 3: other, 4: one})

    result = settle(minutely(catch_up="all"), CALENDAR, make, before=None, now=at(4.5))

    skipped: Any = result.facts
    assert [fact.count for fact in skipped] == [2, 1, 1]
    assert [fact.reason for fact in skipped] == [each.unmade or "refused" for each in (one, other, one)]
    assert [fact.job_id for fact in skipped] == [each.job_id for each in (one, other, one)]
    assert [fact.detail for fact in skipped] == [str(each.refusal or "") for each in (one, other, one)]
    assert [fact.next_at for fact in skipped] == [at(3), at(4), at(5)]


def test_lateness_counts_from_the_moment_at_which_the_jitter_has_passed() -> None:
    state = minutely(jitter=timedelta(hours=2), every=timedelta(hours=1), window=timedelta(minutes=90))
    due = state.next_at and state.next_at + state.offset
    assert due is not None
    minutes = (due - START) / MINUTE
    assert state.offset > timedelta(minutes=2)

    assert settled(state, minutes - 0.01)[0] == []
    assert [how for how, _ in settled(state, minutes + 0.9)[0]] == ["due"]
    assert [how for how, _ in settled(state, minutes + 1.1)[0]][:1] == ["caught_up"]


@pytest.mark.parametrize("overlap", ["skip", "allow"])
def test_only_occurrences_that_queue_are_not_late_for_what_they_waited(overlap: str) -> None:
    before = Before("job-0", at(24.5))

    assert settled(minutely(overlap=overlap, every=20 * MINUTE), 25, before=before)[0] == [("caught_up", 20)]
    waited = minutely(overlap="queue", every=20 * MINUTE)
    assert settled(waited, 25, before=Before("job-0", at(24.5)))[0] == [("due", 20)]
    assert settled(waited, 27, before=Before("job-0", at(24.5)))[0] == [("caught_up", 20)]


def test_what_is_settled_up_to_a_moment_includes_it_whatever_the_jitter() -> None:
    """So a change finds nothing of the old definition behind it."""
    state = minutely(jitter=timedelta(hours=2))
    for minutes, count in ((2, 2), (2.5, 2), (1.99, 1)):
        result = settle(state, CALENDAR, made_as({}), before=None, now=at(minutes), upto=at(minutes))
        assert len(result.facts) == count
        lost = give_up(state, CALENDAR, "changed", now=at(minutes), upto=at(minutes)).facts
        assert [fact.count for fact in lost if isinstance(fact, ScheduleSkipped)] == [count]


def test_a_settling_says_whether_it_settled_everything() -> None:
    """A hundred jobs at once, and twenty thousand instants, are a part; what waits for a job is no part of anything."""
    many = minutely(catch_up="all")
    assert settle(many, CALENDAR, made_as({}), before=None, now=at(100)).is_whole
    assert not settle(many, CALENDAR, made_as({}), before=None, now=at(101)).is_whole
    waiting = settle(minutely(overlap="queue"), CALENDAR, made_as({}), before=Before("job", None), now=at(9))
    assert (waiting.facts, waiting.is_whole) == ((), True)
    for minutes, is_whole in ((SETTLED_MAX, True), (SETTLED_MAX + 1, False)):
        parted = give_up(minutely(), CALENDAR, "held", now=at(minutes))
        assert (parted.is_whole, parted.facts[0].next_at) == (is_whole, at(SETTLED_MAX + 1))
    ending = give_up(minutely(end=at(2)), CALENDAR, "held", now=at(9))
    assert (ending.is_whole, ending.facts[-1].next_at) == (True, None)


def test_nothing_is_settled_where_nothing_is_planned() -> None:
    for state in (after(minutely(), REMOVED), replace(minutely(), next_at=None), replace(minutely(), is_removed=True)):
        assert settle(state, CALENDAR, made_as({}), before=None, now=at(9)).facts == ()
        assert give_up(state, CALENDAR, "held", now=at(9)).facts == ()


def test_a_start_is_an_instant_and_so_is_an_end() -> None:
    definition = minutely(start=at(2), end=at(4)).definition
    found = [next_instant(definition, CALENDAR, at(minute)) for minute in (0, 1, 2, 3, 4)]

    assert found == [at(2), at(2), at(3), at(4), None]
