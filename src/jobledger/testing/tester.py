"""Runs jobs inline, one attempt after the other, over a store in memory and a clock that only the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Final

from jobledger.adapters.bootstrap import JobStore
from jobledger.adapters.storage.clocks import ManualClock
from jobledger.adapters.worker.attempt import Attempt
from jobledger.adapters.worker.caution import Caution
from jobledger.adapters.worker.clock import elapsed
from jobledger.adapters.worker.endings import AttemptEnding
from jobledger.adapters.worker.held import HeldLease
from jobledger.adapters.worker.registration import DurableJob, registered
from jobledger.adapters.worker.staging import Staged
from jobledger.adapters.worker.unwinding import LeaseLost
from jobledger.adapters.worker.writes import FencedWrites
from jobledger.domain.answers import JobStatus, Lease, Progress
from jobledger.domain.bounds import require_integer, require_span
from jobledger.domain.decisions.creating import JobRequest
from jobledger.domain.errors import RefusedError, UnknownKindError
from jobledger.domain.policies import Policy
from jobledger.domain.values import Json

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
ATTEMPTS_MAX: Final = 10_000
CRASHED: Final = "the test let the worker crash here"


class JobTester(AbstractContextManager["JobTester"]):
    """Jobs of the given handlers, run inline: a call returns when the handler has ended, and its end is recorded.

    Everything but the hosting is the real engine: payloads are checked, fences are checked, hooks restore. ``store``
    may be asked and told anything, ``clock`` is its clock. Handlers for processes run in the calling thread.
    """

    def __init__(
        self,
        *handlers: Any,
        policies: Mapping[str, Policy] | None = None,
        start: datetime = START,
        owner: str = "tests",
    ) -> None:
        """Register the handlers as a host would.

        Raises:
            InvalidHookError: one has the wrong shape.
        """
        self._jobs: dict[str, DurableJob] = {job.kind: job for job in map(registered, handlers)}
        self._owner = owner
        self.clock = ManualClock(start)
        known = {job.policy: Policy() for job in self._jobs.values()}
        self.store = JobStore.open("memory:", clock=self.clock, policies=known | dict(policies or {}))

    # Jobs -------------------------------------------------------------------------------------------------------------

    def create(self, kind: str, payload: Json = None, **request: Any) -> str:
        """Create a job as a producer of that kind does, and answer its id.

        Args:
            kind: of the job.
            payload: its input.
            request: further fields of ``JobRequest``.

        Raises:
            UnknownKindError: no handler of that kind was given.
        """
        job = self._job(kind)
        given: dict[str, Any] = {"owner": self._owner, "policy": job.policy, "controls": job.controls} | request
        return self.store.create(JobRequest(kind=kind, payload=payload, **given)).job_id

    def run(self, job_id: str, *, crash_at_checkpoint: int | None = None) -> JobStatus:
        """Run the next attempt of a job, and answer what it came to.

        Args:
            job_id: of a job that is due, as a claim has it.
            crash_at_checkpoint: from 1: right after that checkpoint was saved, the worker is gone. The handler unwinds
                (which a real crash would not let it), nothing it does is recorded any more, and the clock moves on to
                where the lease has run out, so that the next run takes over.

        Raises:
            RefusedError: the job cannot be claimed now; NotReadyError says when: advance the clock.
            AssertionError: it ended before that checkpoint.
        """
        return self._attempt(self.store.claim(job_id, worker="tester"), crash_at_checkpoint)

    def drain(self, queues: Sequence[str] = ("default",)) -> list[JobStatus]:
        """Run whatever is due, also what that creates or retries at once, until nothing is; each attempt's status.

        Raises:
            AssertionError: ten thousand attempts were not enough.
        """
        statuses: list[JobStatus] = []
        while leases := self.store.claim_next(worker="tester", queues=tuple(queues), kinds=sorted(self._jobs)):
            statuses += [self._attempt(lease, None) for lease in leases]
            if len(statuses) >= ATTEMPTS_MAX:
                msg = f"{ATTEMPTS_MAX:,} attempts were run and jobs are still due; does one of them create itself?"
                raise AssertionError(msg)
        return statuses

    def advance(self, span: timedelta | float) -> None:
        """Move the clock on, in seconds or by a span: back-offs, deferrals and leases go by it."""
        self.clock.advance(require_span("span", span))

    def created(self, kind: str, payload: Json = ..., **wanted: Any) -> list[JobStatus]:
        """Require that jobs of a kind were created, and answer them, oldest first.

        Args:
            kind: of the jobs.
            payload: where given, what their payload equals.
            wanted: what further fields of their status equal, as ``queue="mail"``.

        Raises:
            AssertionError: there are none; the message says which jobs of that kind there are.
        """
        found: list[JobStatus] = []
        cursor = None
        while True:
            page = self.store.jobs(kind=kind, cursor=cursor, limit=100)
            found += page.jobs
            cursor = page.next_cursor
            if cursor is None:
                break
        expected = wanted if payload is ... else wanted | {"payload": payload}
        fitting = [
            job for job in reversed(found) if all(getattr(job, name) == value for name, value in expected.items())
        ]
        if not fitting:
            others = [{name: getattr(job, name) for name in expected} for job in reversed(found)] or "none at all"
            msg = f"no job of kind {kind!r} with {expected} was created; those of that kind: {others}"
            raise AssertionError(msg)
        return fitting

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the store."""
        self.close()

    # Attempts ---------------------------------------------------------------------------------------------------------

    def _job(self, kind: str) -> DurableJob:
        if kind not in self._jobs:
            raise UnknownKindError(kind, tuple(sorted(self._jobs)))
        return self._jobs[kind]

    def _attempt(self, lease: Lease, crash_at: int | None) -> JobStatus:
        held = _Held(lease, self.store, self.clock)
        writes = _Writes(self.store, held, crash_at)
        with ThreadPoolExecutor(1) as threads:
            job = self._job(lease.status.kind)
            attempt = Attempt(job, lease, writes, worker="tester", is_draining=lambda: False, threads=threads)
            attempt.publish(_looped(attempt) if job.is_async else attempt.run())
        if crash_at is not None:
            if not writes.has_crashed:
                msg = f"the attempt ended before its checkpoint {crash_at}; it made {writes.checkpoints}"
                raise AssertionError(msg)
            self.clock.advance(lease.span)
        return self.store.status(lease.job_id)


def _looped(attempt: Attempt) -> AttemptEnding:
    """Run an async handler on a loop of its own, in a thread of its own: the test may be running on one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(attempt.run_async())).result()


class _Held(HeldLease):
    """A lease whose time is the test's: a span from now is that span, to the microsecond."""

    __slots__ = ("_clock", "_store")

    def __init__(self, lease: Lease, store: JobStore, clock: ManualClock) -> None:
        super().__init__(lease, elapsed(), lambda _: None)
        self._store, self._clock = store, clock

    def require(self) -> None:
        """As a host's: a lease that ran out by the test's clock is renewed late, or found to be lost."""
        if self.lost is None and self.is_in_doubt:
            sent_at = elapsed()
            try:
                self.accept(self._store.renew(self.fence), sent_at)
            except RefusedError as refusal:
                self.lose(str(refusal))
        super().require()

    def store_time(self) -> datetime:
        """The store's clock."""
        return self._clock.now()


class _Writes(FencedWrites):
    """The writes of an attempt whose worker may crash at one of its checkpoints."""

    def __init__(self, store: JobStore, held: HeldLease, crash_at: int | None) -> None:
        super().__init__(store, held, Caution())
        self._crash_at = None if crash_at is None else require_integer("crash_at_checkpoint", crash_at, 1, ATTEMPTS_MAX)
        self.checkpoints = 0
        self.has_crashed = False

    def checkpoint(self, state: Json, progress: Progress | None, staged: Staged) -> None:
        """Save, and be gone if this is the one."""
        super().checkpoint(state, progress, staged)
        self.checkpoints += 1
        if self.checkpoints == self._crash_at:
            self.has_crashed = True
            self.held.lose(CRASHED)
            raise LeaseLost(CRASHED)
