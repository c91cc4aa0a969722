"""Waiting until something may have been appended, by this process or by another one."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

POLL_SECONDS: Final = 0.05
"""How often a waiter asks whether another process wrote."""


class Changes:
    """Wakes those who wait for a change: at once when this process announces one, else by asking for the version.

    Each thread is woken by whatever came after its own last wake-up, so that nothing that was appended between a read
    and the wait that follows it is slept through; now and then a thread is woken for what it has read already.
    """

    def __init__(self, version: Callable[[], Hashable]) -> None:
        """Compare the answers of ``version``, which differ whenever something was committed in between."""
        self._version = version
        self._changed = threading.Condition()
        self._thread = threading.local()
        self._first: Hashable = None

    def start(self) -> None:
        """Remember the version of now, from which threads that never waited before count."""
        self._first = self._version()

    def announce(self) -> None:
        """Wake everybody: this process has committed something."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Return when something changed since this thread's last wake-up, at the latest after ``seconds``."""
        deadline = time.monotonic() + seconds
        seen = getattr(self._thread, "seen", self._first)
        with self._changed:
            while (version := self._version()) == seen and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(min(left, POLL_SECONDS))
        self._thread.seen = version
