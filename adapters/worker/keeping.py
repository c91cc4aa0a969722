"""The housekeeping thread of a host: progress is sent, time limits are kept, dead leases are recovered, old jobs go."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from jobledger.adapters.bootstrap import JobStore
from jobledger.adapters.worker.braking import Brake
from jobledger.adapters.worker.caution import Caution, spread
from jobledger.adapters.worker.clock import elapsed
from jobledger.adapters.worker.retaining import Retention
from jobledger.adapters.worker.running import Running
from jobledger.domain.errors import UnavailableError
from jobledger.domain.policies import Policy

LOG: Final = logging.getLogger("jobledger.worker")

TICK: Final = 0.25
SWEEP_EVERY: Final = Policy().renew_every.total_seconds()
SWEEP_MAX: Final = 100


class Housekeeping:
    """Looks after the attempts of a host until it is stopped, and sweeps while the host is admitted.

    Sweeps leave a lease that ran out to claims for one ``renew_every``, since these go on with the work instead of
    parking it; and they brake where many leases ran out at once.
    """

    def __init__(
        self,
        store: JobStore,
        running: Running,
        caution: Caution,
        *,
        name: str,
        may_sweep: Callable[[], bool],
        recycle: Callable[[], object],
    ) -> None:
        """Look after ``running``; sweeps wait after a failed call as claims do. ``recycle`` sees to the host's end."""
        self._store, self._running, self._caution = store, running, caution
        self._may_sweep, self._recycle = may_sweep, recycle
        self._stopped = threading.Event()
        self._brake = Brake()
        self._retention = Retention(store, self._stopped.is_set)
        self._sweep_at = elapsed() + spread(SWEEP_EVERY)
        self._thread = threading.Thread(target=self._run, name=f"{name} housekeeping", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """End the thread; waits at most ``timeout`` seconds for a call under way."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stopped.wait(TICK):
            for attempt in self._running.attempts():
                try:
                    attempt.look_after()
                except Exception:
                    LOG.exception("an attempt could not be looked after", extra=attempt.ids)
            self._recycle()
            if self._may_sweep() and not self._caution.left:
                if elapsed() >= self._sweep_at:
                    self._sweep()
                self._retain()

    def _retain(self) -> None:
        try:
            self._retention.look()
        except Exception as error:
            self._caution.note_failure()
            is_known = isinstance(error, UnavailableError)
            LOG.warning("ended jobs could not be archived: %s", error, exc_info=None if is_known else error)

    def _sweep(self) -> None:
        self._sweep_at = elapsed() + spread(SWEEP_EVERY)
        try:
            which = self._brake.look(self._store.survey(), self._caution.failures)
            while not self._stopped.is_set() and len(self._store.recover_expired(SWEEP_MAX, which=which)) == SWEEP_MAX:
                pass
        except Exception as error:
            self._caution.note_failure()
            is_known = isinstance(error, UnavailableError)
            LOG.warning("dead leases could not be recovered: %s", error, exc_info=None if is_known else error)
