"""Time: one instant serves guards, expiries and records alike, and never runs back within a job."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from jobledger.domain.events import Claimed, JobEvent
from tests.domain import when
from tests.domain.given import (
    EXPIRY,
    HOUR,
    LEASE,
    NOON,
    SECOND,
    cancel_requested,
    claimed,
    created,
    hold_placed,
    replay,
    standing,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobledger.domain.lease import Standing

    Command = Callable[[Standing], list[JobEvent]]

RUNNING: list[JobEvent] = [created(), claimed(1), cancel_requested(), hold_placed()]
LIVE: dict[str, Command] = {**when.WRITES, "release_hold": when.release_hold}


@pytest.mark.parametrize("command", LIVE.values(), ids=LIVE)
def test_every_fact_happens_at_the_stores_time(command: Command) -> None:
    """No event takes its time from anywhere else."""
    now = NOON + 7 * SECOND

    assert {event.at for event in command(standing(RUNNING, now=now))} == {now}


@pytest.mark.parametrize(
    ("command", "facts"),
    [
        (when.claim, [created(), claimed(1)]),
        (when.recover, [created(), claimed(1), cancel_requested()]),
        (when.retry, [created(), claimed(1)]),
        (when.resume, [created(), hold_placed()]),
    ],
    ids=["claim", "recover", "retry", "resume"],
)
def test_the_facts_of_one_command_happen_at_one_instant(command: Command, facts: list[JobEvent]) -> None:
    """They are one step: no time passes within it."""
    events = command(standing(facts, now=EXPIRY + HOUR))

    assert len(events) == 2
    assert {event.at for event in events} == {EXPIRY + HOUR}


def test_the_job_knows_when_it_was_changed_last() -> None:
    """So that a store can refuse to step back before it."""
    job = replay([created(), claimed(1, at=NOON + SECOND)])

    assert (job.created_at, job.updated_at) == (NOON, NOON + SECOND)


@pytest.mark.parametrize("step", [timedelta(microseconds=1), SECOND, LEASE - timedelta(microseconds=1)])
def test_a_lease_is_live_until_its_expiry_and_not_at_it(step: timedelta) -> None:
    """The same instant decides for the worker, for recovery and for the next claim: there is no gap and no overlap."""
    facts = [created(), claimed(1)]

    assert standing(facts, now=NOON + step).is_live
    assert not standing(facts, now=EXPIRY).is_live


def test_a_hold_stops_no_clock_of_a_lease() -> None:
    """The attempt still has to renew on its way to the boundary."""
    assert not standing([created(), claimed(1), hold_placed()], now=EXPIRY).is_live


def test_a_resumed_attempt_expires_like_any_other() -> None:
    """Nothing of an earlier hold is left in the lease of the next generation."""
    facts = [created(), claimed(1), hold_placed(), *when.pause(standing([created(), claimed(1), hold_placed()]))]
    facts += when.release_hold(standing(facts, now=NOON + HOUR))

    taken = when.only(when.claim(standing(facts, now=NOON + HOUR)), Claimed)

    assert taken.expires_at == NOON + HOUR + LEASE
