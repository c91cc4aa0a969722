"""How soon after a look for work the next one may follow: at once on an idle host, seldom amid news of others."""

from __future__ import annotations

from typing import Final

from jobledger.adapters.worker.clock import elapsed

GAP_FIRST: Final = 0.001
GAP_MAX: Final = 0.02
"""In seconds. After looks in vain, though something had changed, the gap grows from the first to the second."""


class Pace:
    """The gap between two looks, by what the last ones found.

    A look that found work may be followed after as long as it took itself: so looking takes half of a host's time at
    most, and what comes meanwhile is claimed together. Each further look in vain doubles the gap, since what changes is
    then not for this host. A gap counts from the end of a look: who has been idle for longer looks at once.
    """

    def __init__(self) -> None:
        self._looked_at = 0.0
        self._gap = 0.0
        self._in_vain = 0

    def looked(self, seconds: float, *, is_in_vain: bool) -> None:
        """A look that took so long has ended."""
        self._looked_at = elapsed()
        self._in_vain = min(self._in_vain + 1, 10) if is_in_vain else 0
        wanted = GAP_FIRST * 2 ** (self._in_vain - 1) if is_in_vain else seconds
        self._gap = min(wanted, GAP_MAX)

    @property
    def left(self) -> float:
        """How many seconds the next look has to wait yet."""
        return max(0.0, self._looked_at + self._gap - elapsed())
