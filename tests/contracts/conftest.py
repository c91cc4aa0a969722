"""The stores that the suite runs over; a further store is one more line in ``STORES``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jobledger import JobStore, ManualClock, Policy

POLICIES = {
    "quick": Policy(lease=2),
    "fragile": Policy(lease=2, interrupts_max=2, failures_max=2),
    "stepwise": Policy(window_events_max=40),
    "narrow": Policy(window_events_max=20),
    "small": Policy(payload_bytes_max=64, checkpoint_bytes_max=64, result_bytes_max=64, receipt_bytes_max=64),
    "forgetful": Policy(checkpoints_keep=2),
    "shallow": Policy(queue_depth_max=2),
}

STORES: dict[str, Callable[[Path], str]] = {
    "memory": lambda _: "memory:",
    "sqlite": lambda folder: f"sqlite:///{folder / 'jobs.db'}",
}


@pytest.fixture
def clock() -> ManualClock:
    """The store's time, which only the test moves."""
    return ManualClock(datetime(2026, 6, 1, 12, tzinfo=UTC))


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[JobStore]:
    """An empty store of each kind."""
    with JobStore.open(STORES[request.param](tmp_path), clock=clock, policies=POLICIES) as opened:
        yield opened


LEASE = timedelta(seconds=30)
"""The default policy's lease."""
