"""How a host behaves after a failed store call: it waits before it claims anything."""

from __future__ import annotations

import random
import threading
from typing import Final

from jobledger.adapters.worker.clock import elapsed
from jobledger.domain.policies import Policy

PAUSE_FIRST: Final = 0.05
PAUSE_MAX: Final = 5.0
JITTER: Final = 0.25


def spread(seconds: float) -> float:
    """A span with a quarter of chance taken off, so that many hosts do not call in step."""
    return seconds * (1.0 - JITTER * random.random())  # noqa: S311  # it spreads load and guards nothing


def pause_after(failures: int, longest: float = PAUSE_MAX) -> float:
    """The wait in seconds before a call is repeated that failed that often in a row."""
    return spread(min(PAUSE_FIRST * 2 ** min(failures - 1, 20), longest))


class Caution:
    """Until when a host claims nothing, since a call of it failed.

    After an outage the leases of busy hosts may have run out while their work goes on. An idle host that claimed at
    once would take all of it over; so it leaves their renewals one ``renew_every`` to arrive first.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began = self._until = 0.0
        self._span: float | None = None
        self.failures = 0
        """How many calls have failed so far."""

    def learn(self, renew_every: float) -> None:
        """Know a span of renewals that is in use here, in seconds; the longest one counts."""
        with self._lock:
            self._span = max(self._span or 0.0, renew_every)

    def note_failure(self) -> None:
        """A store call failed."""
        span = self._span if self._span is not None else Policy().renew_every.total_seconds()
        with self._lock:
            self.failures += 1
            self._began = elapsed()
            self._until = self._began + span

    def waited(self, within: float) -> float:
        """How many of the last ``within`` seconds belong to the wait after the last failed call."""
        now = elapsed()
        return max(0.0, min(now, self._until) - max(now - within, self._began))

    @property
    def left(self) -> float:
        """For how many more seconds nothing is claimed."""
        return max(0.0, self._until - elapsed())
