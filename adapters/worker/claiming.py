"""The claim thread of a host: it takes due jobs, never more than there are free slots."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from jobledger.adapters.bootstrap import JobStore
from jobledger.adapters.worker.capacity import Share
from jobledger.adapters.worker.caution import Caution, pause_after, spread
from jobledger.adapters.worker.clock import elapsed
from jobledger.adapters.worker.pacing import Pace
from jobledger.adapters.worker.running import Running
from jobledger.domain.answers import Lease
from jobledger.domain.bounds import BATCH_MAX
from jobledger.domain.errors import StaleEpochError, UnavailableError

LOG: Final = logging.getLogger("jobledger.worker")

POLL_FIRST: Final = 0.05
POLL_MAX: Final = 1.0
NAP_MAX: Final = 0.1
"""In seconds. While nothing changes, polls grow from the first to the second; in between, a nap of the third lets the
thread notice that it is to stop."""


class Claims:
    """Claims until it is stopped, pinned to one epoch of its group."""

    def __init__(
        self,
        store: JobStore,
        running: Running,
        caution: Caution,
        *,
        worker: str,
        queues: Sequence[str],
        kinds: Sequence[str],
        group: str,
        launch: Callable[[Sequence[Lease], float], None],
        give_up: Callable[[str], None],
    ) -> None:
        """Claim for ``worker``; leases are handed to ``launch`` with the moment when their claim was sent.

        ``give_up`` is told why no claim can succeed any more.
        """
        self._store, self._running, self._caution = store, running, caution
        self._worker, self._queues, self._kinds, self._group = worker, tuple(queues), tuple(kinds), group
        self._launch, self._give_up = launch, give_up
        self._epoch = 1
        self._turn = 0
        self._pace = Pace()
        self._looked_at: float | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{worker} claims", daemon=True)

    def pin(self, epoch: int) -> None:
        """Belong to this epoch of the group."""
        self._epoch = epoch

    def start(self) -> None:
        """Begin to claim."""
        self._looked_at = elapsed()
        self._thread.start()

    @property
    def looked_before(self) -> float | None:
        """Seconds since a look for work last succeeded, or none was needed; ``None``: none was made yet."""
        return None if self._looked_at is None else elapsed() - self._looked_at

    def stop(self) -> None:
        """Send no further claim; one that is under way may still be answered."""
        self._stopped.set()
        self._running.wake()

    def join(self, timeout: float) -> None:
        """Wait at most ``timeout`` seconds for the thread to end."""
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _run(self) -> None:
        poll, failures = POLL_FIRST, 0
        while not self._stopped.is_set():
            if self._caution.left:
                self._stopped.wait(min(self._caution.left, POLL_MAX))
                continue
            reserved = self._running.reserve(POLL_MAX)
            if not reserved:
                self._looked_at = elapsed()
                continue
            try:
                is_empty = self._claim(min(reserved, BATCH_MAX))
            except StaleEpochError as stale:
                self._stopped.set()
                self._give_up(str(stale))
                return
            except Exception as error:  # noqa: BLE001  # whatever the store does, the host goes on
                failures += 1
                self._note(error)
                self._stopped.wait(pause_after(failures))
                continue
            finally:
                self._running.settle(reserved)
            failures, self._looked_at = 0, elapsed()
            poll = self._wait(poll) if is_empty else POLL_FIRST

    def _claim(self, limit: int) -> bool:
        """Claim and launch, share by share; answers whether nothing more is due."""
        began = elapsed()
        shares = self._running.limits.shares(self._queues, self._kinds)
        self._turn = (self._turn + 1) % len(shares)  # so that none is always the last
        left = limit
        for share in shares[self._turn :] + shares[: self._turn]:
            room = min(left, self._running.room(share))
            if room and not self._stopped.is_set():
                left -= self._claim_share(share, room)
        self._pace.looked(elapsed() - began, is_in_vain=left == limit)
        return left > 0

    def _claim_share(self, share: Share, limit: int) -> int:
        sent_at = elapsed()
        leases = self._store.claim_next(
            worker=self._worker,
            queues=share.queues,
            kinds=share.kinds,
            limit=limit,
            group=self._group,
            epoch=self._epoch,
        )
        if leases:
            self._launch(leases, sent_at)
        return len(leases)

    def _wait(self, poll: float) -> float:
        """Wait for a change or the next poll; answers how long the poll after that may wait, in seconds.

        Where queues or kinds have limits, an attempt that has ended may make room for one that was passed over.
        """
        end, ends, limits = elapsed() + spread(poll), self._running.ends, self._running.limits
        while not self._stopped.is_set():
            if (limits.by_queue or limits.by_kind) and self._running.ends != ends:
                return POLL_FIRST
            began, left = elapsed(), end - elapsed()
            if left <= 0:
                return min(poll * 2, POLL_MAX)
            self._store.wait_for_change(min(left, NAP_MAX))
            waited = elapsed() - began
            if waited < min(left, NAP_MAX) * 0.9:
                self._stopped.wait(self._pace.left)
                return POLL_FIRST
        return poll

    def _note(self, error: Exception) -> None:
        self._caution.note_failure()
        if isinstance(error, UnavailableError):
            LOG.warning("a claim failed and is repeated: %s", error, extra={"worker": self._worker})
        else:
            LOG.error("a claim failed and is repeated", extra={"worker": self._worker}, exc_info=error)
