"""Every standing that a job can have towards the rules, one example each, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jobledger.domain.events import JobEvent, Outcome
from jobledger.domain.policies import Policy
from tests.domain.given import (
    EXPIRY,
    HOUR,
    NOON,
    cancel_requested,
    cancelled,
    claimed,
    completed,
    created,
    hold_placed,
    hold_released,
    interrupted,
    paused,
    standing,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from jobledger.domain.lease import Standing


def _at(facts: Sequence[JobEvent], *, now: datetime = NOON, epoch: int = 1) -> Standing:
    return standing(facts, now=now, epoch=epoch)


_NEW: Final[list[JobEvent]] = [created()]
_OPEN: Final[list[JobEvent]] = [created(), claimed(1)]
_LAST: Final[list[JobEvent]] = [created(policy=Policy(interrupts_max=1)), claimed(1)]

STANDINGS: Final[dict[str, Standing]] = {
    "queued": _at(_NEW),
    "queued-waiting": _at([created(ready_at=NOON + HOUR)]),
    "running-live": _at(_OPEN),
    "running-expired": _at(_OPEN, now=EXPIRY),
    "running-epoch-stale": _at(_OPEN, epoch=2),
    "running+hold": _at([*_OPEN, hold_placed("ann")]),
    "running+cancel": _at([*_OPEN, cancel_requested("ann")]),
    "expired+hold": _at([*_OPEN, hold_placed("ann")], now=EXPIRY),
    "expired+cancel": _at([*_OPEN, cancel_requested("ann")], now=EXPIRY),
    "expired-last": _at(_LAST, now=EXPIRY),
    "paused-never-leased": _at([*_NEW, hold_placed("bob"), hold_released("bob")]),
    "paused-leased": _at([*_OPEN, paused(1)]),
    "paused-deferred": _at([*_OPEN, paused(1, "deferred", ready_at=NOON + HOUR)]),
    "held-never-leased": _at([*_NEW, hold_placed("ann")]),
    "held-leased": _at([*_OPEN, hold_placed("ann"), paused(1, "hold")]),
    "held-by-engine": _at([*_LAST, interrupted(1), hold_placed("engine")]),
    "complete": _at([*_OPEN, completed(1)]),
    "partial": _at([*_OPEN, completed(1, Outcome.PARTIAL)]),
    "failed": _at([*_OPEN, completed(1, Outcome.FAILED)]),
    "unavailable": _at([*_OPEN, completed(1, Outcome.UNAVAILABLE)]),
    "cancelled": _at([*_OPEN, cancel_requested("ann"), cancelled(1)]),
}
"""``expired-last``: one more unproductive end uses the budget up; ``held-…``: paused under a hold."""
