"""Starts the attempts of leases, and sees each of them to its published end: most ends go out together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from jobledger.adapters.bootstrap import JobStore
from jobledger.adapters.worker.attempt import Attempt, PostedEnd
from jobledger.adapters.worker.caution import Caution
from jobledger.adapters.worker.children import Children
from jobledger.adapters.worker.endings import AttemptEnding, Park
from jobledger.adapters.worker.gathering import GroupCommit
from jobledger.adapters.worker.held import HeldLease
from jobledger.adapters.worker.places import place_in_module
from jobledger.adapters.worker.publishing import Published
from jobledger.adapters.worker.registration import DurableJob
from jobledger.adapters.worker.renewal import Renewals
from jobledger.adapters.worker.running import Running
from jobledger.adapters.worker.threads import LoopThread, SlotThreads
from jobledger.adapters.worker.writes import FencedWrites
from jobledger.domain.answers import Lease

Unwound = tuple[Attempt, AttemptEnding]
"""An attempt whose handler has physically ended, and how."""


class Launcher:
    """The threads, the loop and the children of one host, and the attempts that run there.

    A handler's end frees its slot at once. Then it is posted to the group commit, and no thread waits for it; only an
    end that is no plain result, or that the store did not accept, is published in a thread that repeats it.
    """

    def __init__(
        self,
        store: JobStore,
        jobs: Mapping[str, DurableJob],
        running: Running,
        renewals: Renewals,
        caution: Caution,
        is_draining: Callable[[], bool],
        *,
        worker: str,
    ) -> None:
        """Run ``jobs``, by their kinds, for ``worker``; nothing is made yet."""
        self._jobs, self._running, self._renewals, self._caution = jobs, running, renewals, caution
        self._worker, self._is_draining = worker, is_draining
        self._together = GroupCommit(store.setting, self._told, worker)
        self._shared = store.through(self._together)
        self._threads = SlotThreads(2 * running.limits.concurrency, worker)
        self._children = Children()
        self._loop: LoopThread | None = None
        self._ended_on_loop: list[Unwound] = []

    def start(self) -> None:
        """Open the loop, where there are async handlers."""
        if any(job.is_async for job in self._jobs.values()):
            self._loop = LoopThread(self._worker)
            self._loop.start()

    def allow(self, concurrency: int) -> None:
        """Have threads for so many slots from now on."""
        self._threads.allow(2 * concurrency)

    def stop(self, timeout: float) -> None:
        """End the loop, the children and the threads; waits at most ``timeout`` seconds, for what runs on the loop."""
        if self._loop is not None:
            self._loop.stop(timeout)
        self._children.end_all()
        self._threads.shutdown()
        self._together.close()

    def launch(self, leases: Sequence[Lease], sent_at: float) -> None:
        """Start the attempts of leases whose claim was sent at ``sent_at``.

        Those that arrive after the drain began are given back.
        """
        attempts = [self._attempt(lease, sent_at) for lease in leases]
        self._running.add(attempts)
        self._renewals.keep([attempt.held for attempt in attempts])
        if self._is_draining():
            self._threads.run(partial(self._publish, attempt, Park()) for attempt in attempts)
            return
        in_threads = [attempt for attempt in attempts if not attempt.job.is_async or attempt.job.executor == "process"]
        self._threads.run(partial(self._run, attempt) for attempt in in_threads)
        if self._loop is not None and len(in_threads) < len(attempts):
            on_loop = attempts if not in_threads else [each for each in attempts if each not in in_threads]
            self._loop.spawn([self._run_on_loop(attempt) for attempt in on_loop])

    def _attempt(self, lease: Lease, sent_at: float) -> Attempt:
        held = HeldLease(lease, sent_at, self._renewals.renew_soon)
        return Attempt(
            self._jobs[lease.status.kind],
            lease,
            FencedWrites(self._shared, held, self._caution),
            worker=self._worker,
            is_draining=self._is_draining,
            threads=self._threads,
        )

    # Running ----------------------------------------------------------------------------------------------------------

    def _run(self, attempt: Attempt) -> None:
        """Run a sync handler, or one in a process, in this thread."""
        job = attempt.job
        if job.executor == "process":
            ending = attempt.run_in_process(self._children, place_in_module(job.target))
        else:
            ending = attempt.run()
        for left in self._posted([(attempt, ending)]):
            self._publish(*left)

    async def _run_on_loop(self, attempt: Attempt) -> None:
        """Run an async handler; those that end in one turn of the loop go on together."""
        ending = await attempt.run_async()
        self._ended_on_loop.append((attempt, ending))
        if len(self._ended_on_loop) == 1:
            asyncio.get_running_loop().call_soon(self._pass_on)

    def _pass_on(self) -> None:
        ended, self._ended_on_loop = self._ended_on_loop, []
        self._threads.run(partial(self._publish, *each) for each in self._posted(ended))

    # Ending -----------------------------------------------------------------------------------------------------------

    def _posted(self, unwound: list[Unwound]) -> list[Unwound]:
        """Free the slots, and post the ends that can go together; answers those that have to be published alone."""
        self._running.unwound([attempt for attempt, _ in unwound])
        ends: list[PostedEnd] = []
        left: list[Unwound] = []
        for attempt, ending in unwound:
            end = attempt.post(ending)
            if end is None:
                left.append((attempt, ending))
            else:
                ends.append(end)
        if ends and not self._together.post(ends):
            self._told(ends)
        return left

    def _told(self, ends: Sequence[PostedEnd]) -> None:
        """Take what posted ends were answered; those that are not settled are published in threads."""
        settled: list[tuple[Attempt, Published]] = []
        left: list[PostedEnd] = []
        for end in ends:
            published = end.attempt.settle(end)
            if published is not None:
                settled.append((end.attempt, published))
            else:
                left.append(end)
        self._over(settled)
        self._threads.run(partial(self._publish_posted, end) for end in left)

    def _publish(self, attempt: Attempt, ending: AttemptEnding) -> None:
        self._over([(attempt, attempt.publish(ending))])

    def _publish_posted(self, end: PostedEnd) -> None:
        self._over([(end.attempt, end.attempt.publish_posted(end))])

    def _over(self, ended: Sequence[tuple[Attempt, Published]]) -> None:
        self._renewals.release([attempt.held for attempt, _ in ended])
        self._running.remove(ended)
