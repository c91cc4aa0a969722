"""A brake for sweeps: where many leases ran out at once, a clock or a server is likelier than so many dead workers."""

from __future__ import annotations

import logging
from typing import Final

from jobledger.adapters.worker.clock import elapsed
from jobledger.domain.decisions.sweeping import Dead
from jobledger.domain.policies import Policy
from jobledger.domain.store.sweeping import Survey

LOG: Final = logging.getLogger("jobledger.worker")


class Brake:
    """Decides which dead leases a sweep may recover now.

    Those that no claim may take are always recovered, so that nothing shows as running for ever. The others wait for
    one lease span, once, where a suspicious share of all running leases would be interrupted, or where calls of the
    store failed since the sweep before (its server may have been away, and renewals with it).
    """

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self._until: float | None = None
        self._failures = 0

    def look(self, survey: Survey, failures: int) -> Dead:
        """What a sweep may recover, by what it found and how many calls of the store have failed in all so far."""
        is_after_outage = failures > self._failures
        self._failures = failures
        if not survey.abandoned or not (survey.is_suspicious or is_after_outage or self._until is not None):
            self._until = None
            return Dead.ABANDONED
        if self._until is None or is_after_outage:
            span = survey.longest_lease or Policy().lease
            self._until = elapsed() + span.total_seconds()
            LOG.warning(
                "%d of %d running leases ran out at once or after an outage; they are left alone for %s",
                survey.abandoned,
                survey.running,
                span,
            )
        if elapsed() < self._until:
            return Dead.UNCLAIMABLE
        self._until = None
        return Dead.ABANDONED
