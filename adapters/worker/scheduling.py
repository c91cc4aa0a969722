"""The scheduling thread of a host: it fires what is due when it is due, and looks for what others changed."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from jobledger.adapters.worker.caution import pause_after
from jobledger.domain.errors import UnavailableError

if TYPE_CHECKING:
    from datetime import datetime

    from jobledger.adapters.bootstrap import JobStore

LOG: Final = logging.getLogger("jobledger.worker")

LOOK_EVERY: Final = 0.5
"""How many seconds pass at most before it looks again; another process may have put an earlier instant meanwhile."""


class Scheduling:
    """Fires the schedules of a store's namespace until it is stopped; any number of hosts may do so at once.

    It sleeps until the next instant by the store's clock. Where the store does not answer it tries again, waiting
    longer each time, and what was missed meanwhile is settled as each schedule says.
    """

    def __init__(self, store: JobStore, *, name: str) -> None:
        """Fire nothing yet."""
        self._schedules = store.schedules
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{name} scheduling", daemon=True)
        self._seen_at: datetime | None = None
        self._failed: dict[str, str] = {}

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Fire nothing more; a transaction under way ends first."""
        self._stopped.set()

    def join(self, timeout: float) -> None:
        """Wait at most ``timeout`` seconds for the thread to end."""
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        failures = 0
        wait = 0.0
        while not self._stopped.wait(wait):
            try:
                wait = self._fire()
                failures = 0
            except Exception as error:
                failures += 1
                wait = pause_after(failures)
                is_known = isinstance(error, UnavailableError)
                LOG.warning("schedules could not be fired: %s", error, exc_info=None if is_known else error)

    def _fire(self) -> float:
        """Fire what is due; answers for how many seconds there is nothing to do."""
        self._tell(dict(self._schedules.fire_due().failed))
        # Whatever was due when the clock was last read has had its turn: one that fails must not hide those behind it.
        due_at, now = self._schedules.next_due(after=self._seen_at)
        self._seen_at = now
        if due_at is None:
            return LOOK_EVERY
        return min(LOOK_EVERY, max(0.0, (due_at - now).total_seconds()))

    def _tell(self, failed: dict[str, str]) -> None:
        """Log each failure once, until it is another one or over."""
        for name, why in failed.items():
            if self._failed.get(name) != why:
                LOG.error("schedule %r cannot be settled: %s", name, why)
        self._failed = failed
