"""The projecting thread: it folds the feed into every projection, and goes on after the store was away."""

from __future__ import annotations

import logging
import os
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from jobledger.adapters.worker.caution import pause_after, spread
from jobledger.adapters.worker.clock import elapsed
from jobledger.domain.errors import UnavailableError
from jobledger.projections.projecting import BATCH, PROJECTIONS, Runner, Turn

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from jobledger.adapters.bootstrap import JobStore
    from jobledger.projections.folding import Projection

LOG: Final = logging.getLogger("jobledger.projections")

EVERY: Final = 0.2
"""How many seconds it gathers before it folds what came meanwhile: one transaction for many events."""

LOOK_EVERY: Final = 1.0
"""How many seconds pass at most before it looks again, for what nobody told it of."""

REFRAIN: Final = 2.0
"""For how many seconds a projection is left that is parked, or that another runner folds."""


STOP_SECONDS: Final = 10.0
HOST_CHARACTERS_MAX: Final = 100


class Projecting:
    """Folds the feed of a store into its projections until it is stopped; any number of processes may do so.

    Each projection is supervised for itself: one that is parked, or fails, keeps no other from going on. Where the
    store does not answer it tries again, waiting longer each time.
    """

    def __init__(
        self, store: JobStore, *, name: str, projections: Sequence[Projection] = tuple(PROJECTIONS.values())
    ) -> None:
        """Fold nothing yet; ``name`` tells this runner from those of other processes."""
        self._store = store
        self._turns = [_Supervised(store, projection, name) for projection in projections]
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{name} projecting", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Fold nothing more; a transaction under way ends first."""
        self._stopped.set()

    def join(self, timeout: float) -> None:
        """Wait at most ``timeout`` seconds for the thread to end."""
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stopped.is_set():
            are_full = [supervised.turn(self._stopped) for supervised in self._turns]
            if not any(are_full) and not self._stopped.wait(EVERY):
                self._wait()

    def _wait(self) -> None:
        try:
            self._store.wait_for_change(LOOK_EVERY)
        except Exception as error:  # noqa: BLE001  # a store that does not answer is met again by the next fold
            LOG.debug("nothing is heard of the store: %s", error)
            self._stopped.wait(LOOK_EVERY)


@contextmanager
def projected(store: JobStore) -> Generator[None]:
    """Fold the feed of a store within a block: for a process that has no host."""
    projecting = Projecting(store, name=f"{socket.gethostname()[:HOST_CHARACTERS_MAX]}-{os.getpid()}")
    projecting.start()
    try:
        yield
    finally:
        projecting.stop()
        projecting.join(STOP_SECONDS)


class _Supervised:
    """One projection with its runner: when it may be folded again."""

    def __init__(self, store: JobStore, projection: Projection, name: str) -> None:
        self._name = projection.name
        setting = store.setting
        self._runner = Runner(setting.storage, projection, name=name, patience=setting.patience)
        self._failures = 0
        self._not_before = 0.0
        self._told: Turn | None = None

    def turn(self, stopped: threading.Event) -> bool:
        """Fold one batch, if it is time to; whether there is more at once."""
        if stopped.is_set() or elapsed() < self._not_before:
            return False
        try:
            step = self._runner.step()
        except Exception as error:
            self._failures += 1
            self._not_before = elapsed() + pause_after(self._failures)
            is_known = isinstance(error, UnavailableError)
            LOG.warning("projection %s could not be run: %s", self._name, error, exc_info=None if is_known else error)
            return False
        self._failures = 0
        self._tell(step.turn)
        if step.turn in {Turn.PARKED, Turn.STANDING_BY, Turn.OUTDATED}:
            self._not_before = elapsed() + spread(REFRAIN)
        return step.turn is Turn.MOVED and step.events >= BATCH

    def _tell(self, turn: Turn) -> None:
        """Log once that a projection is parked, or was left behind by a newer release; not each time."""
        if turn is self._told:
            return
        self._told = turn
        if turn is Turn.PARKED:
            LOG.error(
                "projection %s is parked at an event that it cannot fold; 'jobledger projections list' says which",
                self._name,
            )
        elif turn is Turn.OUTDATED:
            LOG.warning("projection %s is kept by a newer release; this one leaves it alone", self._name)
