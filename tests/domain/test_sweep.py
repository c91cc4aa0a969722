"""Sweeping: which dead attempts maintenance recovers, when it leaves them to a claim, and when it looks twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobledger.domain.decisions.sweeping import Dead, is_dead, is_suspicious
from jobledger.domain.events import JobEvent
from jobledger.domain.policies import Policy
from tests.domain.given import EXPIRY, HOUR, LEASE, SECOND, cancel_requested, claimed, created, hold_placed, standing
from tests.domain.standings import STANDINGS

MICROSECOND = SECOND / 1_000_000
RENEWAL = Policy().renewal_of(LEASE)
OPEN: list[JobEvent] = [created(), claimed(1)]

NO_OPEN_ATTEMPT = sorted(set(STANDINGS) - {name for name in STANDINGS if name.startswith(("running", "expired"))})
LIVE = ["running-live", "running+hold", "running+cancel"]
NO_CLAIM_TAKES = ["running-epoch-stale", "expired+hold", "expired+cancel", "expired-last"]


@pytest.mark.parametrize("which", Dead)
@pytest.mark.parametrize("name", [*NO_OPEN_ATTEMPT, *LIVE])
def test_what_has_no_attempt_or_a_live_one_is_not_dead(name: str, which: Dead) -> None:
    """In no sense of it: maintenance takes nothing from a worker whose lease lives."""
    assert not is_dead(STANDINGS[name], which)


@pytest.mark.parametrize("which", Dead)
@pytest.mark.parametrize("name", NO_CLAIM_TAKES)
def test_what_no_claim_may_take_is_dead_in_every_sense_at_once(name: str, which: Dead) -> None:
    """Nobody but maintenance will end it, so nothing is waited for."""
    assert is_dead(STANDINGS[name], which)


def test_what_a_claim_may_take_is_left_to_it_for_one_renewal() -> None:
    """A host that was only slow to claim it saves a parked job; after that it is abandoned."""
    for now, is_abandoned in ((EXPIRY + RENEWAL - MICROSECOND, False), (EXPIRY + RENEWAL, True), (EXPIRY + HOUR, True)):
        assert is_dead(standing(OPEN, now=now), Dead.ABANDONED) is is_abandoned


def test_what_a_claim_may_take_is_among_all_at_its_expiry_and_never_among_the_unclaimable() -> None:
    for now in (EXPIRY, EXPIRY + RENEWAL, EXPIRY + HOUR):
        assert is_dead(standing(OPEN, now=now), Dead.ALL)
        assert not is_dead(standing(OPEN, now=now), Dead.UNCLAIMABLE)
    assert not is_dead(standing(OPEN, now=EXPIRY - MICROSECOND), Dead.ALL)


def test_a_lease_row_that_is_missing_is_not_taken_for_an_expired_one() -> None:
    """That is damage for an auditor, and no worker's end."""
    assert not is_dead(replace(standing(OPEN, now=EXPIRY + HOUR), lease=None), Dead.ALL)


def test_a_hold_and_a_cancel_request_make_a_dead_attempt_unclaimable() -> None:
    for asked in (hold_placed("ann"), cancel_requested("ann")):
        assert is_dead(standing([*OPEN, asked], now=EXPIRY), Dead.UNCLAIMABLE)


@pytest.mark.parametrize(
    ("abandoned", "running", "expected"),
    [
        (9, 9, False),  # fewer than ten tell nothing
        (10, 10, True),
        (2, 10, False),  # one of five
        (3, 10, True),
        (3, 12, True),
        (3, 15, False),
        (4, 15, True),
        (0, 10, False),
        (0, 1_000, False),
    ],
)
def test_more_than_a_fifth_of_at_least_ten_leases_do_not_die_at_once(
    abandoned: int, running: int, expected: bool
) -> None:
    """A clock that jumped or a server that was away is likelier than so many workers."""
    assert is_suspicious(abandoned, running) is expected
