"""The rules of limited queues: what is counted, whose turn it is, and what no window of time may exceed."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobledger.domain.errors import HistoryCorruptError, InvalidRequestError
from jobledger.domain.queue_events import UNLIMITED, QueueHeld, QueueLimited, QueueLimits, QueueReleased
from jobledger.domain.queues.choosing import (
    BUCKETS,
    Usage,
    Waiting,
    choose,
    full_shares,
    remember,
    room,
    started,
    starts_left,
)
from jobledger.domain.queues.operating import hold_queue, limit_queue, release_queue, require_limits
from jobledger.domain.queues.state import QueueState, evolve_queue, queue_stream, require_sound
from jobledger.projections.audit import place_of
from tests.domain.given import HOUR, NOON

WHY: dict[str, Any] = {"namespace": "default", "name": "index", "by": "ann", "reason": "small", "now": NOON}
SECOND = timedelta(seconds=1)


def waits(name: str, *, priority: int = 0, at: int = 0, share: str = "", is_waiting: bool = True) -> Waiting:
    """A candidate that has been due since so many microseconds; its number is its place."""
    return Waiting(name, priority, at, int(name[1:]), share, is_waiting)


def chosen(limits: QueueLimits, waiting: list[Waiting], **given_: Any) -> list[str]:
    """The names that are chosen, in their order."""
    terms: dict[str, Any] = {"running": {}, "dead": [], "wanted": 100, "now": NOON} | given_
    usage = terms.pop("usage", Usage())
    return [each.job_id for each in choose(limits, usage, waiting=waiting, **terms)]


# What is counted ------------------------------------------------------------------------------------------------------


def test_what_runs_leaves_so_much_room() -> None:
    limits = QueueLimits(running_max=5)
    assert room(limits, {"": 3}, 10) == 2
    assert room(limits, {"": 3}, 1) == 1
    assert room(limits, {"": 9}, 10) == 0
    assert room(UNLIMITED, {"": 9}, 10) == 10


def test_a_share_is_full_at_its_limit() -> None:
    assert full_shares(QueueLimits(share_by="owner", running_max_per_share=2), {"b": 2, "a": 3, "c": 1}) == ("a", "b")
    assert full_shares(QueueLimits(share_by="owner"), {"a": 99}) == ()


spans = st.integers(100_000, 10**9).map(lambda us: timedelta(microseconds=us))


@given(
    most=st.integers(1, 5),
    span=spans,
    steps=st.lists(st.tuples(st.floats(0, 1.5), st.integers(1, 4)), min_size=1, max_size=60),
)
def test_no_window_of_a_span_ever_holds_more_starts(most: int, span: timedelta, steps: list[tuple[float, int]]) -> None:
    """And a start is forgotten one step of the span later at the latest."""
    limits = QueueLimits(starts_max=most, starts_span=span)
    usage, now, starts = Usage(), NOON, list[Any]()
    for wait, wanted in steps:
        now += span * wait
        count = starts_left(limits, usage, now, wanted)
        live = sum(now - start < span + span / BUCKETS + timedelta(microseconds=1) for start in starts)
        assert count >= min(wanted, most - live)
        usage = started(limits, usage, now, count)
        starts += [now] * count
        assert len(usage.starts) <= BUCKETS + 2

    for first in starts:
        assert sum(first <= start < first + span for start in starts) <= most


# Whose turn it is -----------------------------------------------------------------------------------------------------


def test_larger_priority_then_earlier_due_then_earlier_created() -> None:
    waiting = [waits("j1", at=2), waits("j2", at=1), waits("j3", at=1), waits("j4", priority=1, at=9)]
    assert chosen(QueueLimits(running_max=9), waiting) == ["j4", "j2", "j3", "j1"]


def test_ageing_makes_a_priority_worth_so_much_waiting() -> None:
    limits = QueueLimits(ageing=SECOND)
    tie = [waits("j1", at=0), waits("j2", priority=2, at=2_000_000), waits("j3", priority=2, at=2_000_001)]
    assert chosen(limits, tie) == ["j2", "j1", "j3"]


def test_dead_work_goes_first_and_needs_no_room() -> None:
    limits = QueueLimits(running_max=1)
    dead = [waits("j1", is_waiting=False)]
    assert chosen(limits, [waits("j2", priority=9)], dead=dead, running={"": 1}) == ["j1"]
    assert chosen(limits, [waits("j2")], running={"": 1}) == []
    assert chosen(limits, [waits("j2")], dead=dead, running={"": 0}, wanted=1) == ["j1"]


def test_the_rate_holds_everything_back() -> None:
    limits = QueueLimits(starts_max=2, starts_span=SECOND)
    usage = started(limits, Usage(), NOON, 1)
    dead = [waits("j1", is_waiting=False)]
    assert chosen(limits, [waits("j2")], dead=dead, usage=usage) == ["j1"]
    assert chosen(limits, [waits("j2")], usage=usage, now=NOON + 2 * SECOND) == ["j2"]


def test_shares_take_turns_behind_the_one_that_was_served_last() -> None:
    limits = QueueLimits(share_by="owner")
    waiting = [waits(f"j{number}", share=share) for number, share in enumerate("aaabbc")]
    assert chosen(limits, waiting) == ["j0", "j3", "j5", "j1", "j4", "j2"]
    assert chosen(limits, waiting, usage=Usage(last_share="a"), wanted=3) == ["j3", "j5", "j0"]
    assert chosen(limits, waiting, usage=Usage(last_share="z"), wanted=2) == ["j0", "j3"]


def test_a_share_gets_no_more_than_its_limit() -> None:
    limits = QueueLimits(share_by="owner", running_max_per_share=2, running_max=4)
    waiting = [waits(f"j{number}", share=share) for number, share in enumerate("aaabbc")]
    assert chosen(limits, waiting, running={"a": 1, "b": 2}) == ["j0"]
    assert chosen(limits, waiting, running={"a": 2}) == ["j3", "j5"]


def test_the_share_that_was_served_last_is_remembered() -> None:
    limits = QueueLimits(share_by="owner")
    taken = [waits("j1", share="b"), waits("j2", share="a"), waits("j3", share="", is_waiting=False)]
    assert remember(limits, Usage(last_share="z"), taken, NOON) == Usage(last_share="a")
    assert remember(limits, Usage(last_share="z"), taken[2:], NOON) == Usage(last_share="z")


@given(
    shares=st.lists(st.sampled_from("abcdef"), min_size=1, max_size=40),
    wanted=st.integers(1, 10),
)
def test_no_share_is_ever_served_twice_more_than_another(shares: list[str], wanted: int) -> None:
    """As long as both have something that waits, however the claims are cut."""
    limits = QueueLimits(share_by="owner")
    waiting = [waits(f"j{number}", share=share) for number, share in enumerate(shares)]
    usage, served = Usage(), Counter[str]()
    while waiting:
        taken = choose(limits, usage, running={}, dead=[], waiting=waiting, wanted=wanted, now=NOON)
        usage = remember(limits, usage, taken, NOON)
        served.update(each.share for each in taken)
        waiting = [each for each in waiting if each not in taken]

        counts = [served[share] for share in {each.share for each in waiting}]
        assert max(counts, default=0) - min(counts, default=0) <= 1


# Limits, holds, state -------------------------------------------------------------------------------------------------


def test_a_queue_is_what_its_last_events_say() -> None:
    state = None
    limits = require_limits(running_max=3, starts_max=5, starts_span=60)
    for event in (
        *limit_queue(None, limits, **WHY),
        QueueHeld(at=NOON, namespace="default", queue="index", by="bob", reason="a leak"),
        QueueReleased(at=NOON + HOUR, namespace="default", queue="index", by="ann", reason="mended"),
        QueueLimited(at=NOON + HOUR, namespace="default", queue="index", limits=UNLIMITED, by="ann", reason="big"),
    ):
        state = evolve_queue(state, event)

    assert state == QueueState(
        namespace="default", name="index", created_at=NOON, updated_at=NOON + HOUR, sequence=4, released_by="ann"
    )
    assert state is not None
    assert not state.is_limited


def test_a_name_of_nothing_is_the_whole_namespace() -> None:
    assert place_of(queue_stream("a:b", "")) == ("queue", "a:b", "")
    whole: dict[str, Any] = WHY | {"name": ""}
    [held] = hold_queue(None, **whole)
    assert evolve_queue(None, held).stream == "queue:7:default:"
    assert release_queue(evolve_queue(None, held), **whole) != []


@pytest.mark.parametrize(
    "limits",
    [
        QueueLimits(running_max=0),
        QueueLimits(starts_max=1),
        QueueLimits(starts_max=1, starts_span=timedelta(0)),
        QueueLimits(share_by="label:"),
        QueueLimits(ageing=timedelta(days=-1)),
    ],
)
def test_limits_that_nobody_could_have_set_are_a_corrupt_history(limits: QueueLimits) -> None:
    """Claims would divide by them, or wait for ever."""
    with pytest.raises(HistoryCorruptError):
        require_sound(
            QueueState(namespace="n", name="q", created_at=NOON, updated_at=NOON, sequence=1, limits=limits), "s"
        )


def test_a_rate_needs_both_numbers() -> None:
    with pytest.raises(InvalidRequestError, match="give starts_max and starts_span both"):
        require_limits(starts_max=1)
