"""One attempt: make the handler, restore it, run it, and publish how it ended; it never raises."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final

from jobledger.adapters.telemetry import AttemptSpan
from jobledger.adapters.worker.children import Children
from jobledger.adapters.worker.clock import elapsed
from jobledger.adapters.worker.core import ENDED, AttemptCore, AttemptFacts
from jobledger.adapters.worker.endings import AttemptEnding, Fail, Finish, told
from jobledger.adapters.worker.handling import Handling
from jobledger.adapters.worker.places import Place
from jobledger.adapters.worker.publishing import Published, completion_of, publish
from jobledger.adapters.worker.registration import DurableJob
from jobledger.adapters.worker.serving import Serving
from jobledger.adapters.worker.staging import Staged
from jobledger.adapters.worker.writes import FencedWrites
from jobledger.domain.answers import ExecutionResult, Lease
from jobledger.domain.errors import OutcomeUnknownError
from jobledger.domain.store.executing import Command

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
        self.writes, self._is_draining, self._worker = writes, is_draining, worker
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

    def run(self) -> AttemptEnding:
        """Run a sync handler to its physical end, in this thread; its end is to be published then."""
        with self._begin_span().current():
            return self._handling.run()

    async def run_async(self) -> AttemptEnding:
        """Run an async handler to its physical end, on this loop; its end is to be published then."""
        with self._begin_span().current():
            return await self._handling.run_async()

    def run_in_process(self, children: Children, place: Place) -> AttemptEnding:
        """Run a handler to its physical end in a child process; this thread serves it meanwhile."""
        self._begin_span()
        self._serving = Serving(
            children, place, self.core, self.writes, is_draining=self._is_draining, ids=self._handling.ids
        )
        return self._serving.run()

    def _begin_span(self) -> AttemptSpan:
        span = self.writes.span = AttemptSpan.begin(self.lease, self._worker)
        return span

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
            self.publish(Fail(told(self.core.out_of_time)), use_hook=False)
        if self._serving is not None:
            self._serving.kill()

    # Publishing -------------------------------------------------------------------------------------------------------

    def publish(self, ending: AttemptEnding, *, use_hook: bool = True) -> Published:
        """Record how the attempt ended, in this thread, and answer what became of it; never raises.

        ``use_hook``: the handler has ended, so that its progress hook may be asked.
        """
        with self._end:
            return self._published or self._publish_first(ending, use_hook=use_hook)

    def post(self, ending: AttemptEnding) -> PostedEnd | None:
        """Begin to publish an end together with others'; ``None``: it has to be published by itself.

        Waits for nothing. What this answers has to be settled or published: nobody else can publish until then.
        """
        if not isinstance(ending, Finish) or not self.held.is_certain or not self._end.acquire(blocking=False):
            return None
        staged = self.core.close_at_once() if self._published is None else None
        if staged is None or staged.statements:
            if staged is not None:
                self.core.leave(staged, None)
            self._end.release()
            return None
        return PostedEnd(self, ending, staged)

    def settle(self, end: PostedEnd) -> Published | None:
        """Take the answer of a posted end, and say what became of the attempt; ``None``: it is to be published yet."""
        if not isinstance(end.answer, ExecutionResult):
            return None
        published = self._conclude(Published("completed", end.answer.state.value), end.ending)
        self._end.release()
        return published

    def publish_posted(self, end: PostedEnd) -> Published:
        """Publish, in this thread, a posted end that could not be settled."""
        try:
            command_id = end.answer.command_id if isinstance(end.answer, OutcomeUnknownError) else None
            return self._conclude(publish(end.ending, self.writes, end.staged, command_id), end.ending)
        except BaseException as error:  # noqa: BLE001  # see there
            return self._conclude(self._broken(error), end.ending)
        finally:
            self._end.release()

    def _publish_first(self, ending: AttemptEnding, *, use_hook: bool) -> Published:
        try:
            staged, progress = self.core.close(use_hook=use_hook)
            self.core.send_progress(progress)
            return self._conclude(publish(ending, self.writes, staged), ending)
        except BaseException as error:  # noqa: BLE001  # see there
            return self._conclude(self._broken(error), ending)

    def _broken(self, error: BaseException) -> Published:
        """The lease is left to expire, and the host goes on."""
        LOG.error("an attempt's end could not be recorded", extra=self.ids, exc_info=error)
        return Published("left", told(error))

    def _conclude(self, published: Published, ending: AttemptEnding) -> Published:
        self._published = published
        self.held.lose(ENDED)
        self.writes.span.end(published.how, published.why, error=_error(ending, published))
        if LOG.isEnabledFor(logging.DEBUG):
            LOG.debug("attempt %s: %s", published.how, published.why, extra=self.ids)
        return published


def _error(ending: AttemptEnding, published: Published) -> str | None:
    """What went wrong with an attempt, for its span."""
    if published.how == "left":
        return f"LeaseLost: {published.why}"
    return ending.error if isinstance(ending, Fail | Finish) else None


class PostedEnd:
    """The end of one attempt on its way into a batch, with what was staged, and its answer."""

    __slots__ = ("answer", "attempt", "ending", "staged")

    def __init__(self, attempt: Attempt, ending: Finish, staged: Staged) -> None:
        """The end of an attempt that nobody else publishes meanwhile."""
        self.attempt, self.ending, self.staged = attempt, ending, staged
        self.answer: Any = None

    def prepare(self) -> Command[Any] | None:
        """Its command; ``None`` where it has to be published by itself.

        That is where the lease is in doubt, the result cannot be stored, or a thread that the handler left writes.
        """
        writes = self.attempt.writes
        held = writes.held
        order = held.fence.steps.order
        if not held.is_certain or not order.acquire(blocking=False):
            return None
        try:
            held.is_ending = True
            return writes.store.completing(completion_of(self.ending, writes, self.staged))
        except BaseException:  # noqa: BLE001  # whoever publishes it by itself meets it again, and says so
            return None
        finally:
            order.release()

    def tell(self, answer: Any) -> None:
        """Take the answer."""
        self.answer = answer
