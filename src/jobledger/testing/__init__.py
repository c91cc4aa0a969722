"""A kit for testing handlers: jobs run inline, on a clock that only the test moves, and crash where the test says."""

from __future__ import annotations

from jobledger.adapters.storage.clocks import ManualClock
from jobledger.testing.tester import JobTester

__all__ = ["JobTester", "ManualClock"]
