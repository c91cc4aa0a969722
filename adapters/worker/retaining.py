"""What a host does for retention: it archives jobs whose policies let them go, a few at a time."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from jobledger.adapters.worker.caution import spread
from jobledger.adapters.worker.clock import elapsed
from jobledger.domain.errors import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobledger.adapters.bootstrap import JobStore

LOG: Final = logging.getLogger("jobledger.worker")

LOOK_EVERY: Final = 30.0
"""How many seconds lie between two looks for jobs whose time is over."""
BATCH: Final = 100
TURN_SECONDS: Final = 5.0
"""For how long one look goes on archiving where there is much to do: the other duties of housekeeping wait for it."""
DENIED: Final = "permission denied"


class Retention:
    """Archives jobs whose ``keep_finished`` is over, until the store says that this role may not.

    Their events are let go without a copy; 'jobledger archive --to' keeps one.
    """

    def __init__(self, store: JobStore, is_stopped: Callable[[], bool]) -> None:
        """Look for the first time some seconds from now; ``is_stopped`` ends a turn early."""
        self._store, self._is_stopped = store, is_stopped
        self._look_at = elapsed() + spread(LOOK_EVERY)
        self._is_allowed = True
        self._left: set[str] = set()

    def look(self) -> None:
        """Archive what is due, if it is time to look.

        Raises:
            UnavailableError: the store did not answer; what was archived stays so.
        """
        if not self._is_allowed or elapsed() < self._look_at:
            return
        self._look_at = elapsed() + spread(LOOK_EVERY)
        until = elapsed() + TURN_SECONDS
        try:
            while self._archive() == BATCH and elapsed() < until and not self._is_stopped():
                continue
        except StoreUnavailableError as error:
            if DENIED not in str(error):
                raise
            self._is_allowed = False
            LOG.warning("this host may not archive what policies let go; run 'jobledger archive' as who may: %s", error)

    def _archive(self) -> int:
        report = self._store.archive(limit=BATCH)
        for job_id, why in report.left:
            if job_id not in self._left:
                self._left.add(job_id)
                LOG.error("job %s is not archived, its history does not hold: %s", job_id, why)
        return report.jobs
