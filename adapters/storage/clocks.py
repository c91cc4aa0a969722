"""Clocks: the system's, and one that stands still until a test moves it."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Final

from jobledger.domain.bounds import require_instant
from jobledger.domain.errors import InvalidRequestError

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Where a manual clock starts when nobody says otherwise."""


class SystemClock:
    """The time of this machine, in UTC."""

    def now(self) -> datetime:
        """The time, aware and in UTC."""
        return datetime.now(UTC)


class ManualClock:
    """A clock that moves only when it is told to; any number of threads may read and move it."""

    def __init__(self, start: datetime = START) -> None:
        """Stand at ``start``, an aware instant.

        Raises:
            InvalidRequestError: it has no zone, or lies outside the years 1970 to 9998.
        """
        self._now = require_instant("start", start)
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """The time, aware and in UTC."""
        return self._now

    def advance(self, span: timedelta) -> None:
        """Let time pass.

        Raises:
            InvalidRequestError: a negative span; time does not pass backwards (``step`` sets a clock wrong on purpose).
        """
        if span < timedelta(0):
            raise InvalidRequestError("span", f"{span} is negative; use step() to set the clock back")
        self.step(span)

    def step(self, span: timedelta) -> None:
        """Set the clock forth or back, as an administrator or a leap does."""
        with self._lock:
            self._now += span
