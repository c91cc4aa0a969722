"""The stores that the suite runs over; a further store is one more line in ``STORES``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jobledger import JobStore, ManualClock, Policy
from jobledger.adapters.storage.entropy import SystemEntropy
from jobledger.domain.store import Setting
from tests.postgresql.stores import WatchedClock, lent

POLICIES = {
    "quick": Policy(lease=2),
    "fragile": Policy(lease=2, interrupts_max=2, failures_max=2),
    "stepwise": Policy(window_events_max=40),
    "narrow": Policy(window_events_max=20),
    "small": Policy(payload_bytes_max=64, checkpoint_bytes_max=64, result_bytes_max=64, receipt_bytes_max=64),
    "forgetful": Policy(checkpoints_keep=2),
    "shallow": Policy(queue_depth_max=2),
}


def _lent(_: Path, clock: ManualClock) -> JobStore:
    return JobStore(Setting(lent(clock), SystemEntropy(), policies=POLICIES))


STORES: dict[str, Callable[[Path, ManualClock], JobStore]] = {
    "memory": lambda _, clock: JobStore.open("memory:", clock=clock, policies=POLICIES),
    "sqlite": lambda folder, clock: JobStore.open(f"sqlite:///{folder / 'jobs.db'}", clock=clock, policies=POLICIES),
    "postgresql": _lent,
}


@pytest.fixture
def clock() -> WatchedClock:
    """The store's time, which only the test moves."""
    return WatchedClock(datetime(2026, 6, 1, 12, tzinfo=UTC))


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: WatchedClock) -> Iterator[JobStore]:
    """An empty store of each kind."""
    with STORES[request.param](tmp_path, clock) as opened:
        yield opened


LEASE = timedelta(seconds=30)
"""The default policy's lease."""
