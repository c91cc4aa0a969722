"""The order of one attempt's writes: a growing number, and the lock that keeps threads from overtaking each other."""

from __future__ import annotations

import threading


class Steps:
    """The growing step number of one attempt's writes; ``order`` is held from drawing a step until its answer.

    So threads that share a fence never overtake each other, and only a packet that was given up on can arrive late.
    """

    __slots__ = ("last", "order")

    def __init__(self, last: int = 0) -> None:
        """Go on after the step ``last``."""
        self.last = last
        self.order = threading.RLock()

    def draw(self) -> int:
        """The next step; call it while holding ``order``."""
        self.last += 1
        return self.last
