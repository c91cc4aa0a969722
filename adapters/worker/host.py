"""The worker host: it runs the jobs of registered handlers, keeps their leases, and drains without losing any."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from enum import StrEnum
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import Any, Final, Self

from jobledger.adapters.bootstrap import JobStore
from jobledger.adapters.deadlines import Deadline
from jobledger.adapters.worker.capacity import Limits, require_limits
from jobledger.adapters.worker.caution import Caution
from jobledger.adapters.worker.claiming import POLL_MAX, Claims
from jobledger.adapters.worker.clock import elapsed
from jobledger.adapters.worker.companions import companions
from jobledger.adapters.worker.health import RED_AFTER, Health, memory_bytes
from jobledger.adapters.worker.keeping import Housekeeping
from jobledger.adapters.worker.launching import Launcher
from jobledger.adapters.worker.places import mistake
from jobledger.adapters.worker.registration import DurableJob, registered
from jobledger.adapters.worker.renewal import Renewals
from jobledger.adapters.worker.running import DrainReport, Running
from jobledger.domain.bounds import INTEGER_MAX, require_integer, require_text
from jobledger.domain.errors import InvalidRequestError, ProducerUnavailableError, UnknownKindError

LOG: Final = logging.getLogger("jobledger.worker")

DRAIN: Final = timedelta(seconds=30)
RECYCLE_SECONDS: Final = 60.0
"""How long the last of ``max_jobs`` may go on before they are asked to park: others could use their host's slots."""
STOP_SECONDS: Final = 1.0
"""How long ``stop`` waits for each thread whose call of the store does not come back."""


class HostState(StrEnum):
    """Where a host stands; it only moves on."""

    NEW = "new"
    STARTED = "started"
    ADMITTED = "admitted"
    DRAINING = "draining"
    STOPPED = "stopped"


class JobHost(AbstractContextManager["JobHost"]):
    """Claims and runs jobs of the registered kinds, up to ``concurrency`` at once, until it is drained.

    ``start`` begins to renew and pins the host to its group's epoch; ``admit`` begins to claim, and lets producers
    submit over the host; ``drain`` asks what runs to park or complete; ``stop`` ends every thread, renewals last. In a
    ``with`` block it is started, and drained and stopped at the end.
    """

    def __init__(
        self,
        store: JobStore,
        jobs: Sequence[Any],
        *,
        concurrency: int = 10,
        concurrency_by_queue: Mapping[str, int] | None = None,
        concurrency_by_kind: Mapping[str, int] | None = None,
        queues: Sequence[str] = ("default",),
        group: str = "default",
        name: str | None = None,
        max_jobs: int | None = None,
        max_memory: int | None = None,
        schedules: bool = False,
        projections: bool = False,
    ) -> None:
        """Check every handler and make nothing yet.

        Args:
            store: an open store; the caller closes it, after the host was stopped.
            jobs: classes and functions registered with ``@durable_job``, one for each kind.
            concurrency: slots; each handler owns one until it has physically ended.
            concurrency_by_queue: how many jobs of a queue run here at most; those that are not named share the slots.
            concurrency_by_kind: likewise of a kind.
            queues: from which jobs are claimed.
            group: the worker group; the host works in the epoch that the group has at ``start``.
            name: for people; ``None``: made of the machine, the process and chance.
            max_jobs: after it has started so many attempts the host drains by itself, for a supervisor to replace it.
            max_memory: likewise once this process has more bytes of memory resident.
            schedules: also fire the store's schedules, from ``admit`` until it drains.
            projections: also fold the feed into the store's projections, likewise.

        Raises:
            InvalidHookError: a handler has the wrong shape, its policy is not known to the store, or two have one kind.
            InvalidRequestError: another argument is out of its range.
        """
        self.store = store
        self.name = require_text("name", _own_name() if name is None else name)
        self._group = require_text("group", group)
        self._jobs = _by_kind(jobs, policies=store.policies)
        self._queues, self._kinds = _texts("queues", queues), sorted(self._jobs)
        self._running = Running(
            self._limits(concurrency, concurrency_by_queue, concurrency_by_kind), _at_least_one("max_jobs", max_jobs)
        )
        self._caution = Caution()
        self._renewals = Renewals(store, self._caution, self.name)
        self._launcher = Launcher(
            store, self._jobs, self._running, self._renewals, self._caution, self._is_draining, worker=self.name
        )
        self._claims = Claims(
            store,
            self._running,
            self._caution,
            worker=self.name,
            queues=self._queues,
            kinds=self._kinds,
            group=group,
            launch=self._launcher.launch,
            give_up=self._begin_to_drain,
        )
        self._housekeeping = Housekeeping(
            store, self._running, self._caution, name=self.name, may_sweep=self._is_admitted, recycle=self._recycle
        )
        self._max_memory = _at_least_one("max_memory", max_memory)
        self._companions = companions(store, name=self.name, schedules=schedules, projections=projections)
        self._lock = threading.RLock()
        self._state = HostState.NEW
        self._report = DrainReport()

    # Life -------------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> HostState:
        """Where the host stands: new, started, admitted, draining or stopped."""
        return self._state

    @property
    def report(self) -> DrainReport:
        """What became of the attempts that ran when the drain began; empty before it ended."""
        return self._report

    def health(self) -> Health:
        """Whether the host does its work; asks nobody, so a probe may call it often.

        It is not well when it should look for work and no look succeeded for three intervals, or when it was stopped.
        The wait after a failed call is no look that failed: only the last one is left out, so that an outage is told.
        """
        before = self._claims.looked_before
        is_late = before is None or before - self._caution.waited(before) > RED_AFTER * POLL_MAX
        is_deaf = self._state is HostState.ADMITTED and is_late
        problem = f"no look for work succeeded for {before or 0:.1f} s" if is_deaf else None
        if self._state is HostState.STOPPED:
            problem = "it was stopped"
        running = len(self._running.attempts())
        return Health(problem is None, self._state.value, problem, running, self._running.free, before)

    def start(self) -> None:
        """Pin the group's epoch and start to renew; nothing is claimed yet. A host that was started stays as it is.

        Raises:
            UnavailableError: the store did not answer; the host is as it was.
            InvalidRequestError: it was stopped.
        """
        with self._lock:
            if self._state is not HostState.NEW:
                self._require_not_over("start")
                return
            self._claims.pin(self.store.epoch(self._group))
            self._renewals.start()
            self._housekeeping.start()
            self._launcher.start()
            self._state = HostState.STARTED
        LOG.info("host %s started", self.name)

    def admit(self) -> None:
        """Begin to claim and to serve producers; starts a new host first. Raises what ``start`` raises."""
        with self._lock:
            self.start()
            if self._state is HostState.STARTED:
                self._claims.start()
                for companion in self._companions:
                    companion.start()
                self._state = HostState.ADMITTED
        LOG.info("host %s admitted", self.name)

    def drain(self, deadline: datetime | timedelta | float) -> DrainReport:
        """Claim nothing more, ask what runs to park at its next boundary, and wait for it until the deadline.

        A handler that had not ended by then is left: its lease is not renewed any more, it can write nothing, and its
        job is claimed again when the lease has run out. None is called cancelled for that.
        """
        until = elapsed() + Deadline(deadline).left.total_seconds()
        self._begin_to_drain("it was asked to")
        self._running.wait_until_idle(until)
        return self._end_drain()

    def stop(self) -> None:
        """End every thread; what still runs is left, as at the deadline of a drain. Renewals end last."""
        with self._lock:
            if self._state is HostState.STOPPED:
                return
        self._begin_to_drain("it was stopped")
        self._end_drain()
        self._claims.join(STOP_SECONDS)
        for companion in self._companions:
            companion.join(STOP_SECONDS)
        self._housekeeping.stop(STOP_SECONDS)
        self._launcher.stop(STOP_SECONDS)
        self._renewals.stop()
        with self._lock:
            self._state = HostState.STOPPED
        LOG.info("host %s stopped", self.name)

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drain, then stop; after an exception without waiting."""
        self.drain(DRAIN if error is None else timedelta(0))
        self.stop()

    def run(self, deadline: timedelta | float = DRAIN) -> int:
        """Start, admit, and work until SIGTERM or SIGINT asks for a drain; a second signal ends its wait at once.

        Args:
            deadline: how long the drain may wait.

        Returns:
            The exit code: 0 when every attempt completed or parked, 1 when some were left to expire.

        Raises:
            InvalidRequestError: this is not the main thread, which alone is told of signals.
        """
        patience = Deadline(deadline).left.total_seconds()
        if threading.current_thread() is not threading.main_thread():
            raise InvalidRequestError(
                "run", "only the main thread is told of signals; elsewhere use admit() and drain()"
            )
        signals: SimpleQueue[int] = SimpleQueue()

        def note(number: int, frame: FrameType | None) -> None:
            del frame
            signals.put(number)  # safe in a signal handler, unlike events and locks

        before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            self.admit()
            self._work_until_asked(signals)
            report = self._drain_until(signals, elapsed() + patience)
        finally:
            self.stop()
            for number, handler in before.items():
                signal.signal(number, handler)
        return 1 if report.left else 0

    # Limits -----------------------------------------------------------------------------------------------------------

    def limit(
        self,
        *,
        concurrency: int,
        concurrency_by_queue: Mapping[str, int] | None = None,
        concurrency_by_kind: Mapping[str, int] | None = None,
    ) -> None:
        """Put other limits in force at once, all of them; what runs goes on, also where it is more than they allow.

        Raises:
            InvalidRequestError: a number is out of its range, or a name is none that this host works on.
        """
        limits = self._limits(concurrency, concurrency_by_queue, concurrency_by_kind)
        self._launcher.allow(limits.concurrency)
        self._running.change(limits)

    def _limits(
        self, concurrency: int, by_queue: Mapping[str, int] | None, by_kind: Mapping[str, int] | None
    ) -> Limits:
        return require_limits(concurrency, by_queue, by_kind, queues=self._queues, kinds=self._kinds)

    # Producers --------------------------------------------------------------------------------------------------------

    def producing(self) -> JobStore:
        """The store, for producers that submit over this host.

        Raises:
            ProducerUnavailableError: the host is not admitted yet, or drains.
        """
        if self._state is not HostState.ADMITTED:
            raise ProducerUnavailableError(self._state.value)
        return self.store

    def request_defaults(self, kind: str) -> tuple[str, tuple[str, ...]]:
        """The policy and the controls that a registered kind's jobs get.

        Raises:
            UnknownKindError: the host has no handler of that kind.
        """
        job = self._jobs.get(kind)
        if job is None:
            raise UnknownKindError(kind, tuple(sorted(self._jobs)))
        return job.policy, job.controls

    def _is_admitted(self) -> bool:
        return self._state is HostState.ADMITTED

    def _is_draining(self) -> bool:
        return self._state in (HostState.DRAINING, HostState.STOPPED)

    # Draining ---------------------------------------------------------------------------------------------------------

    def _begin_to_drain(self, why: str) -> None:
        with self._lock:
            if self._is_draining():
                return
            self._running.record_ends()
            self._state = HostState.DRAINING
        LOG.info("host %s drains: %s", self.name, why)
        self._claims.stop()
        for companion in self._companions:
            companion.stop()

    def _end_drain(self) -> DrainReport:
        """Leave what still runs, and report; only the first report counts."""
        with self._lock:
            if self._state is HostState.STOPPED:
                return self._report
        self._report = self._running.report()
        for attempt in self._running.attempts():
            attempt.held.lose("it was left at the deadline of its host's drain")
            self._renewals.release([attempt.held])
        return self._report

    def _recycle(self) -> None:
        """Drain where this process has done or grown enough; called by the housekeeping."""
        if self._is_draining():
            return
        if self._running.has_done_all(RECYCLE_SECONDS):
            self._begin_to_drain("it has run as many jobs as it was to")
        elif self._max_memory is not None and (size := memory_bytes()) > self._max_memory:
            self._begin_to_drain(f"its {size:,} bytes of memory are more than {self._max_memory:,}")

    def _work_until_asked(self, signals: SimpleQueue[int]) -> None:
        while self._state is HostState.ADMITTED:
            if _arrived(signals, 0.5):
                return

    def _drain_until(self, signals: SimpleQueue[int], until: float) -> DrainReport:
        self._begin_to_drain("a signal asked for it")
        while not self._running.wait_until_idle(min(until, elapsed() + 0.1)):
            if elapsed() >= until or _arrived(signals, 0):
                break
        return self._end_drain()

    def _require_not_over(self, call: str) -> None:
        if self._is_draining():
            raise InvalidRequestError(call, f"the host is {self._state.value}; make a new one")


def _arrived(signals: SimpleQueue[int], timeout: float) -> bool:
    try:
        signals.get(timeout=timeout) if timeout else signals.get_nowait()
    except Empty:
        return False
    return True


def _by_kind(jobs: Sequence[Any], *, policies: Sequence[str]) -> dict[str, DurableJob]:
    known: dict[str, DurableJob] = {}
    if not isinstance(jobs, Sequence) or not jobs:
        raise InvalidRequestError("jobs", "a list of classes and functions registered with @durable_job is needed")
    for target in jobs:
        job = registered(target)
        if job.policy not in policies:
            raise mistake(
                target,
                f"the store knows no policy {job.policy!r}; known ones: {', '.join(policies)}; give it to open()",
            )
        if job.kind in known and known[job.kind].target is target:
            raise mistake(target, "it is given twice; name each handler once")
        if job.kind in known:
            other = known[job.kind].target.__name__
            raise mistake(
                target, f"kind {job.kind!r} is already handled by {other!r}; a host has one handler of a kind"
            )
        known[job.kind] = job
    return known


def _at_least_one(field: str, given: int | None) -> int | None:
    return None if given is None else require_integer(field, given, 1, INTEGER_MAX)


def _texts(field: str, given: Sequence[str]) -> list[str]:
    if isinstance(given, str) or not given:
        raise InvalidRequestError(field, "a list of names is needed")
    return [require_text(field, each) for each in given]


def _own_name() -> str:
    """Machine, process and chance: two hosts never share a name, not even in one process."""
    return f"{socket.gethostname()[:200]}-{os.getpid()}-{secrets.token_hex(3)}"
