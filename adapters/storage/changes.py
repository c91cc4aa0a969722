"""Waiting until something may have been appended, by this process or by another one."""

from __future__ import annotations

import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

POLL_SECONDS: Final = 0.05
"""How often a waiter asks whether another process wrote."""


class Changes:
    """Wakes those who wait for new records: at once when this process announces some, else by asking now and then.

    Each thread is woken by whatever came after its own last wake-up, so that nothing that was appended between a read
    and the wait that follows it is slept through; now and then a thread is woken for what it has read already.
    """

    def __init__(self, last_position: Callable[[], int | None]) -> None:
        """Compare the answers of ``last_position``; ``None`` says that the store cannot be asked now."""
        self._last_position = last_position
        self._first: tuple[int | None, int] = (None, 0)
        self.poll_seconds: float | None = None
        self._start_afresh()
        _all_changes.add(self)

    def _start_afresh(self) -> None:
        self._announced = 0
        self._told = 0
        self._news = threading.Condition()
        self._thread = threading.local()

    def start(self) -> None:
        """Remember the last position of now, from which threads that never waited before count."""
        self._first = self._standing()

    def tell(self) -> None:
        """Wake everybody: something was committed, also where the last position cannot show it yet."""
        with self._news:
            self._told += 1
            self._announced += 1
            self._news.notify_all()

    def announce(self) -> None:
        """Wake everybody who waits for what this process has just committed."""
        with self._news:
            self._announced += 1
            self._news.notify_all()

    def wait(self, seconds: float) -> None:
        """Return when records were added since this thread's last wake-up, at the latest after ``seconds``."""
        deadline = time.monotonic() + seconds
        seen = getattr(self._thread, "seen", self._first)
        announced = self._announced
        while (last := self._standing()) == seen and (left := deadline - time.monotonic()) > 0:
            announced = self._pause(announced, min(left, self.poll_seconds or POLL_SECONDS))
        self._thread.seen = last

    def _standing(self) -> tuple[int | None, int]:
        told = self._told  # first: what is told of between the two is news for the next look
        return self._last_position(), told

    def _pause(self, announced: int, seconds: float) -> int:
        with self._news:
            self._news.wait_for(lambda: self._announced != announced, seconds)
            return self._announced

    def after_fork_in_child(self) -> None:
        """Forget who waited in the parent: those threads do not exist here, and may have held the lock."""
        self._start_afresh()


_all_changes: weakref.WeakSet[Changes] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for changes in list(_all_changes):
        changes.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
