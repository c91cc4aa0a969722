"""One attempt: make the handler, restore it, run it, and publish how it ended; it never raises."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final

from jobledger.adapters.worker.children import Children
from jobledger.adapters.worker.clock import elapsed
from jobledger.adapters.worker.core import ENDED, AttemptCore, AttemptFacts
from jobledger.adapters.worker.endings import AttemptEnding, Fail, Park, told
from jobledger.adapters.worker.handling import Handling
from jobledger.adapters.worker.places import Place
from jobledger.adapters.worker.publishing import Published, publish
from jobledger.adapters.worker.registration import DurableJob
from jobledger.adapters.worker.serving import Serving
from jobledger.adapters.worker.writes import FencedWrites
from jobledger.domain.answers import Lease

LOG: Final = logging.getLogger("jobledger.worker")


class Attempt:
    """One claimed lease and the handler that runs under it, here or in a child process.

    The lease is given back only when the handler has unwound, so that its cleanup still runs under it. Two may want to
    publish the end, the handler's thread and a host that ran out of patience: the first does, the other stays silent.
    """

    def __init__(
        self,
        job: DurableJob,
        lease: Lease,
        writes: FencedWrites,
        *,
        worker: str,
        is_draining: Callable[[], bool],
        threads: Executor,
    ) -> None:
        """An attempt that has not begun; async handlers ask the store from ``threads``."""
        self.job, self.lease = job, lease
        self.held = writes.held
        self.core = AttemptCore(AttemptFacts.of(lease, worker), writes, is_draining=is_draining)
        self._writes, self._threads, self._is_draining = writes, threads, is_draining
        self._handling = Handling(job, self.core, threads)
        self._serving: Serving | None = None
        self._end = threading.Lock()
        self._published: Published | None = None
        self._over_at: float | None = None
        self._is_given_up = False

    @property
    def ids(self) -> dict[str, Any]:
        """What a line in the log says about this attempt."""
        return self._handling.ids

    def run(self, unwound: Callable[[], None], ended: Callable[[Published], None]) -> None:
        """Run a sync handler to its end, in this thread.

        ``unwound`` is called when it has physically ended, ``ended`` when that is published, with what became of it.
        """
        ending = self._handling.run()
        unwound()
        ended(self._publish(ending))

    async def run_on_loop(self, unwound: Callable[[], None], ended: Callable[[Published], None]) -> None:
        """Run an async handler to its end, on this loop; the end is published in a thread."""
        ending = await self._handling.run_async()
        unwound()
        self._threads.submit(lambda: ended(self._publish(ending)))

    def run_in_process(
        self,
        children: Children,
        place: Place,
        unwound: Callable[[], None],
        ended: Callable[[Published], None],
    ) -> None:
        """Run a handler to its end in a child process; this thread serves it meanwhile."""
        self._serving = Serving(
            children, place, self.core, self._writes, is_draining=self._is_draining, ids=self._handling.ids
        )
        ending = self._serving.run()
        unwound()
        ended(self._publish(ending, is_handler=False))

    def give_back(self) -> Published:
        """Publish a pause without having run anything."""
        return self._publish(Park())

    def look_after(self) -> None:
        """Wake a handler whose attempt is over, tell a child what is asked of it, and give up on what is stuck.

        Called by the host every now and then. A thread cannot be ended: a sync handler learns of it at its next call.
        """
        if self._serving is not None:
            self._serving.look()
        if self.held.lost is not None or self.core.is_overdue:
            self._handling.interrupt()
            self._over_at = self._over_at or elapsed()
            if elapsed() - self._over_at >= self.held.span and not self._is_given_up:
                self._is_given_up = True
                threading.Thread(target=self._give_up, name="jobledger of a stuck job", daemon=True).start()
        self.core.flush_progress()

    @property
    def published(self) -> Published | None:
        """What became of the attempt; ``None`` before its end was published."""
        return self._published

    def _give_up(self) -> None:
        """End the process of a handler that is over for a whole lease, or publish that a thread is stuck.

        The slot of a stuck thread stays taken until it really ends.
        """
        if self.held.lost is None and self._published is None:
            self._publish(Fail(told(self.core.out_of_time)), is_handler=False)
        if self._serving is not None:
            self._serving.kill()

    # Publishing -------------------------------------------------------------------------------------------------------

    def _publish(self, ending: AttemptEnding, *, is_handler: bool = True) -> Published:
        with self._end:
            if self._published is None:
                self._published = self._publish_first(ending, is_handler=is_handler)
            return self._published

    def _publish_first(self, ending: AttemptEnding, *, is_handler: bool) -> Published:
        try:
            staged, progress = self.core.close(use_hook=is_handler)
            self.core.send_progress(progress)
            published = publish(ending, self._writes, staged)
        except BaseException as error:
            # The lease is left to expire, and the host goes on.
            LOG.exception("an attempt's end could not be recorded", extra=self.ids)
            published = Published("left", told(error))
        self.held.lose(ENDED)
        LOG.debug("attempt %s: %s", published.how, published.why, extra=self.ids)
        return published
