"""One attempt from inside: its boundaries, units, progress and effects, in halves that a thread or a loop may call."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol, Self

from jobledger.adapters.worker.clock import elapsed
from jobledger.adapters.worker.staging import NOTHING, Staged, Staging
from jobledger.adapters.worker.storable import plain
from jobledger.adapters.worker.unwinding import JobCancelled, JobParked, LeaseLost, OutOfTime
from jobledger.domain.answers import Lease, Progress, UnitReceipt
from jobledger.domain.bounds import require_text
from jobledger.domain.decisions.working import Effect, require_progress
from jobledger.domain.errors import EffectConflictError, InvalidError, InvalidRequestError, ReceiptChangedError
from jobledger.domain.values import Json

ENDED: Final = "the attempt has ended"
LOG: Final = logging.getLogger("jobledger.worker")


@dataclass(slots=True)  # not frozen: one is made for each attempt, at three times the price
class AttemptFacts:
    """What a handler may know of its attempt, as plain values that can be told to another process.

    ``state`` is the last checkpoint; ``is_fresh`` says that there is none. ``units`` counts the receipts that earlier
    attempts recorded. Spans are in seconds, ``run_time_max`` from now; ``result_bytes_max`` is the policy's.
    """

    job_id: str
    kind: str
    owner: str
    key: str | None
    payload: Json
    generation: int
    worker: str
    state: Json
    is_fresh: bool
    units: int
    run_time_max: float | None
    progress_every: float
    result_bytes_max: int

    @classmethod
    def of(cls, lease: Lease, worker: str) -> Self:
        """Those of a lease."""
        status, limits = lease.status, lease.status.limits
        return cls(
            job_id=lease.job_id,
            kind=status.kind,
            owner=status.owner,
            key=status.key,
            payload=lease.payload,
            generation=lease.generation,
            worker=worker,
            state=lease.checkpoint,
            is_fresh=status.checkpoint_sequence is None,
            units=status.units,
            run_time_max=None if limits.run_time_max is None else limits.run_time_max.total_seconds(),
            progress_every=limits.progress_every.total_seconds(),
            result_bytes_max=limits.result_bytes_max,
        )


class Hooked(Protocol):
    """The hooks of one handler instance; a function has none."""

    def saved(self, state: Any) -> Json:
        """The state to store: the given one, or (``None``) what the checkpoint hook answers.

        Raises:
            InvalidRequestError: none was given, and there is no hook.
            UnstorableValueError: the state is not of the hook's type.
        """
        ...

    @property
    def reports(self) -> bool:
        """Whether there is a progress hook."""
        ...

    def reported(self) -> Progress | None:
        """What the progress hook answers; ``None`` where there is no hook."""
        ...


class AttemptLease(Protocol):
    """The lease of an attempt, as the attempt sees it."""

    @property
    def is_hold_requested(self) -> bool:
        """Whether an operator's hold is in force, by the last answer."""
        ...

    @property
    def is_cancel_requested(self) -> bool:
        """Whether a cancel was requested, by the last answer."""
        ...

    @property
    def lost(self) -> str | None:
        """Why the lease was lost; ``None`` while it is held."""
        ...

    @property
    def is_stale(self) -> bool:
        """Whether nothing was heard from the store for one ``renew_every``."""
        ...

    def require(self) -> None:
        """Require that this attempt may write; in doubt, wait.

        Raises:
            LeaseLost: it may not.
        """
        ...


class AttemptWrites(Protocol):
    """What an attempt asks of its store. Every call raises ``LeaseLost`` where the attempt may not write any more."""

    @property
    def held(self) -> AttemptLease:
        """The lease under which all is written."""
        ...

    def renew(self) -> None:
        """Renew the lease now, and learn what operators ask."""
        ...

    def checkpoint(self, state: Json, progress: Progress | None, staged: Staged) -> None:
        """Save application state, with progress and what was staged."""
        ...

    def unit(self, name: str) -> UnitReceipt | None:
        """The receipt of a unit that was recorded, by whichever attempt."""
        ...

    def record_unit(self, name: str, receipt: Json) -> None:
        """Record that a unit was done.

        Raises:
            ReceiptChangedError: it has another receipt, which the error carries.
        """
        ...

    def report_progress(self, progress: Progress) -> None:
        """Report progress once; a failure is no harm, and no error."""
        ...


class AttemptCore:
    """What the contexts of sync and async handlers stand on, and what the host does with an attempt from outside."""

    def __init__(self, facts: AttemptFacts, writes: AttemptWrites, *, is_draining: Callable[[], bool]) -> None:
        """Made for each attempt, where its handler runs."""
        self.facts: Final = facts
        self.state: Json = facts.state
        self._stop_at: float | None = None
        self.begin()
        self._writes, self._is_draining = writes, is_draining
        self._held = writes.held
        self._hooks: Hooked | None = None
        self._staging: Staging | None = None
        self._receipts: dict[str, Json] = {}
        self._boundary = threading.RLock()
        self._progress: Progress | None = None
        self._flushed_at = elapsed() - facts.progress_every
        self._is_closed = False
        self.is_parking = False
        """Whether a boundary asked the handler to park: a hold that is released while it unwinds changes nothing."""
        self._unit_locks: dict[str, threading.RLock] = {}
        self._lazily = threading.Lock()

    def begin(self, grace: float = 0.0) -> None:
        """Count the run time from now on; ``grace``: in seconds, how long the handler may take to begin at all."""
        if self.facts.run_time_max is not None:
            self._stop_at = elapsed() + grace + self.facts.run_time_max

    # What the attempt is ----------------------------------------------------------------------------------------------

    @property
    def deadline(self) -> datetime | None:
        """When ``run_time_max`` ends this attempt, by this machine's clock; ``None``: it may take its time."""
        if self._stop_at is None:
            return None
        return datetime.now(UTC) + timedelta(seconds=self._stop_at - elapsed())

    @property
    def cancellation_requested(self) -> bool:
        """Whether to stop for good: a cancel was requested (by the last renewal), or this attempt is over anyway."""
        return self._held.is_cancel_requested or self._is_over

    @property
    def pause_requested(self) -> bool:
        """Whether the next boundary parks the job: a hold is in force, or the host drains."""
        return self._held.is_hold_requested or self._is_draining()

    @property
    def is_overdue(self) -> bool:
        """Whether ``run_time_max`` has passed."""
        return self._stop_at is not None and elapsed() >= self._stop_at

    @property
    def lost(self) -> str | None:
        """Why the attempt may write nothing any more; ``None`` while it may."""
        return self._held.lost

    @property
    def out_of_time(self) -> OutOfTime:
        """What ends an attempt that is overdue."""
        span = self.facts.run_time_max
        return OutOfTime(None if span is None else timedelta(seconds=span))

    @property
    def _is_over(self) -> bool:
        return self._is_closed or self._held.lost is not None or self.is_overdue

    # Stopping ---------------------------------------------------------------------------------------------------------

    def raise_if_cancelled(self) -> None:
        """Stop here if a cancel was requested, by what the last renewal said; the store is not asked.

        Raises:
            JobCancelled: it was.
        """
        self._require_open()
        if self._held.is_cancel_requested:
            raise JobCancelled

    def boundary(self) -> None:
        """A point where the job can stop without saving: its last checkpoint stands.

        Asks the store only if nothing was heard from it for one ``renew_every``.

        Raises:
            JobParked: a hold is in force, or the host drains.
            JobCancelled: a cancel was requested.
        """
        self._require_open()
        if self._held.is_stale:
            self._writes.renew()
        self._stop_if_asked()

    def captured(self, state: Any) -> Json:
        """The first half of a checkpoint: the state to store, from the hook where none is given."""
        self._require_open()
        if self._hooks is None:
            raise InvalidRequestError("checkpoint", "the handler is not set up yet; restore hooks only restore")
        return self._hooks.saved(state)

    def save(self, state: Json) -> None:
        """The second half of a checkpoint: store a state that was captured, then stop if asked to."""
        with self._boundary:
            self._require_open()
            progress = self._reported()
            staged = self._staging.take() if self._staging else NOTHING
            try:
                self._writes.checkpoint(state, progress, staged)
            except EffectConflictError:
                self._put_progress_back(progress)
                raise
            except InvalidError:
                self._stage().put_back(staged)
                self._put_progress_back(progress)
                raise
            self.state = state
        self._stop_if_asked()

    def _stop_if_asked(self) -> None:
        if self._held.is_cancel_requested:
            raise JobCancelled
        if self.pause_requested:
            self.is_parking = True
            raise JobParked

    def _require_open(self) -> None:
        """Raise what unwinds an attempt that is over; in doubt about the lease, wait."""
        if self._is_closed:
            raise LeaseLost(ENDED)
        if self.is_overdue:
            raise self.out_of_time
        self._held.require()

    # Units ------------------------------------------------------------------------------------------------------------

    def unit(self, name: str, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Json:
        """Do a unit once; threads that ask for one at once take turns."""
        require_text("unit", name)
        with self._lazily:
            turn = self._unit_locks.setdefault(name, threading.RLock())
        with turn:
            known = self.recorded(name)
            return known.receipt if known else self.record(name, work(*args, **kwargs))

    def recorded(self, name: str) -> UnitReceipt | None:
        """The first half of a unit: its receipt, where it was recorded before."""
        self._require_open()
        require_text("unit", name)
        if name in self._receipts:
            return UnitReceipt(name, self._receipts[name], self.facts.generation, 0, reused=True)
        if not self.facts.units:
            return None
        return self._writes.unit(name)

    def record(self, name: str, receipt: Any) -> Json:
        """The second half of a unit: record that it was done; a first receipt from elsewhere wins."""
        self._require_open()
        stored = plain("receipt", receipt)
        try:
            self._writes.record_unit(name, stored)
        except ReceiptChangedError as changed:
            stored = changed.first
        self._receipts[name] = stored
        return stored

    # Progress ---------------------------------------------------------------------------------------------------------

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Say how far the attempt is; cheap, since only the last word in each ``progress_every`` is sent.

        Raises:
            InvalidRequestError, UnstorableValueError: a number below 0 or not finite, or a text too long.
        """
        if self._is_over:
            self._require_open()
        require_progress(done, total, message)
        self._progress = Progress(done, total, message)

    def flush_progress(self) -> None:
        """Send what was said, if it is due; called by the host."""
        if self._progress is None or self._is_over or elapsed() - self._flushed_at < self.facts.progress_every:
            return
        self.send_progress(self._take_progress())

    def send_progress(self, progress: Progress | None) -> None:
        """Report progress once; a failure is no harm."""
        if progress is not None:
            self._writes.report_progress(progress)

    def _take_progress(self) -> Progress | None:
        said, self._progress = self._progress, None
        self._flushed_at = elapsed()
        return said

    def _reported(self) -> Progress | None:
        """What to report at a boundary: the handler's last word since the one before, else what its hook answers."""
        said = self._take_progress()
        return said if said is not None or self._hooks is None else self._hooks.reported()

    def _put_progress_back(self, progress: Progress | None) -> None:
        self._progress = self._progress or progress

    # Effects ----------------------------------------------------------------------------------------------------------

    def stage(self, effect: Effect) -> None:
        """Add a compare-and-set write that commits with the next checkpoint, or with the result; one per resource.

        Raises:
            InvalidRequestError, UnstorableValueError: it cannot be staged.
        """
        self._require_open()
        self._stage().stage(effect)

    def inside(self, statements: Callable[[Any], object]) -> None:
        """Run ``statements(connection)`` in the transaction of the next checkpoint, or of the result.

        They may run more than once, each time in a transaction that is rolled back or the one that commits. A store
        without connections refuses them at that checkpoint.

        Raises:
            InvalidRequestError: they cannot be called.
        """
        self._require_open()
        self._stage().inside(statements)

    def _stage(self) -> Staging:
        """Where things are staged; made by the first who does, from whichever thread."""
        with self._lazily:
            self._staging = self._staging or Staging()
        return self._staging

    # The host's side --------------------------------------------------------------------------------------------------

    def use_hooks(self, hooks: Hooked) -> None:
        """Know the hooks of the handler instance; called by the host."""
        self._hooks = hooks

    def leave(self, staged: Staged, progress: Progress | None) -> None:
        """What a handler in another process left to be committed with its end; called by the host."""
        self._stage().put_back(staged)
        self._progress = progress or self._progress

    def close_at_once(self) -> Staged | None:
        """Close where that asks and waits for nothing, and answer what was staged; else ``None``, and nothing is done.

        ``None`` where a boundary is under way in another thread, progress is to be sent, or a hook is to be asked.
        """
        if self._progress is not None or (self._hooks is not None and self._hooks.reports):
            return None
        if not self._boundary.acquire(blocking=False):
            return None
        try:
            return self.close()[0]
        finally:
            self._boundary.release()

    def close(self, *, use_hook: bool = True) -> tuple[Staged, Progress | None]:
        """Refuse everything from now on; answers what was staged and the progress not sent yet. Called by the host.

        ``use_hook``: the handler has ended, so that its progress hook may be asked.
        """
        with self._boundary:
            self._is_closed = True
            try:
                progress = self._reported() if use_hook else self._take_progress()
            except Exception:
                LOG.exception(
                    "the progress hook failed", extra={"job_id": self.facts.job_id, "generation": self.facts.generation}
                )
                progress = None
            return self._staging.take() if self._staging else NOTHING, progress
