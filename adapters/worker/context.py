"""What a handler is given to speak with its job: checkpoints, boundaries, units, progress, effects."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

from jobledger.adapters.worker.clock import elapsed
from jobledger.adapters.worker.held import HeldLease
from jobledger.adapters.worker.staging import Staged, Staging
from jobledger.adapters.worker.storable import plain
from jobledger.adapters.worker.unwinding import JobCancelled, JobParked, LeaseLost, OutOfTime
from jobledger.adapters.worker.writes import FencedWrites
from jobledger.domain.answers import Lease, Progress, UnitReceipt
from jobledger.domain.bounds import require_text
from jobledger.domain.decisions.working import Effect, require_progress
from jobledger.domain.errors import EffectConflictError, InvalidError, InvalidRequestError, ReceiptChangedError
from jobledger.domain.values import Json, derived_id

ENDED: Final = "the attempt has ended"
LOG: Final = logging.getLogger("jobledger.worker")


class Hooked(Protocol):
    """The hooks of one handler instance; a function has none."""

    def saved(self, state: Any) -> Json:
        """The state to store: the given one, or (``None``) what the checkpoint hook answers.

        Raises:
            InvalidRequestError: none was given, and there is no hook.
            UnstorableValueError: the state is not of the hook's type.
        """
        ...

    def reported(self) -> Progress | None:
        """What the progress hook answers; ``None`` where there is no hook."""
        ...


class JobContext:
    """One attempt, as its handler sees it; may be used from several threads of the handler.

    Every method raises ``LeaseLost`` once this attempt may not write any more, and waits while that is in doubt. After
    the attempt has ended a context that was kept is closed in the same way. Methods that write pass on the store's
    refusals as they are: ``InvalidError`` where a value is wrong, ``CorruptError`` where the history is.
    """

    def __init__(self, lease: Lease, writes: FencedWrites, *, worker: str, is_draining: Callable[[], bool]) -> None:
        """Made by the host, one for each attempt."""
        status = lease.status
        self.job_id: Final = lease.job_id
        self.kind: Final = status.kind
        self.owner: Final = status.owner
        self.key: Final = status.key
        self.payload: Final = lease.payload
        self.generation: Final = lease.generation
        self.worker: Final = worker
        self.state: Json = lease.checkpoint
        self.run_time_max: Final = status.limits.run_time_max
        self._stop_at = None if self.run_time_max is None else elapsed() + self.run_time_max.total_seconds()
        self._progress_every = status.limits.progress_every.total_seconds()
        self._inherited_units = status.units
        self._writes, self._is_draining = writes, is_draining
        self._held: HeldLease = writes.held
        self._hooks: Hooked | None = None
        self._staging = Staging()
        self._receipts: dict[str, Json] = {}
        self._boundary = threading.RLock()
        self._progress: Progress | None = None
        self._flushed_at = elapsed() - self._progress_every
        self._is_closed = False
        self.is_parking = False
        """Whether a boundary asked the handler to park: a hold that is released while it unwinds changes nothing."""
        self._unit_locks: dict[str, threading.RLock] = {}
        self._units = threading.Lock()

    # What the attempt is ----------------------------------------------------------------------------------------------

    @property
    def attempt(self) -> int:
        """The number of this attempt: its generation, from 1."""
        return self.generation

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
    def _is_over(self) -> bool:
        return self._is_closed or self._held.lost is not None or self.is_overdue

    def effect_key(self, name: str) -> str:
        """A key for a receiver outside that deduplicates: one for each name, the same in every attempt of this job.

        Raises:
            InvalidRequestError: the name is no text.
        """
        return derived_id("effect", self.job_id, require_text("name", name))

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
        if elapsed() - self._held.heard_at > self._held.renew_every:
            self._writes.insist(lambda _: self._writes.store.renew(self._held.fence))
        self._stop_if_asked()

    def checkpoint(self, state: Any = None) -> None:
        """Save application state at a boundary, with the progress and the effects staged so far; then stop if asked to.

        Args:
            state: what the next attempt starts from. A class leaves it out: its ``@checkpoint`` hook is asked.

        Raises:
            JobParked, JobCancelled: saved, and to stop here.
            EffectConflictError: nothing was saved, and what was staged is dropped: read the resource and stage again.
            CheckpointTooLargeError, UnstorableValueError: nothing was saved; what was staged stays staged.
            InvalidRequestError: a function gave no state, or the store cannot run what ``inside`` was given.
        """
        self.save(self.captured(state))

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
            staged = self._staging.take()
            try:
                self._writes.insist(
                    lambda command_id: self._writes.store.checkpoint(
                        self._held.fence,
                        state,
                        progress=progress,
                        effects=staged.effects,
                        inside=staged.inside,
                        command_id=command_id,
                    )
                )
            except EffectConflictError:
                self._put_progress_back(progress)
                raise
            except InvalidError:
                self._staging.put_back(staged)
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
            raise OutOfTime(self.run_time_max)
        self._held.require()

    # Units ------------------------------------------------------------------------------------------------------------

    def unit(self, name: str, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Json:
        """Do a bounded piece of work once in the life of the job, and answer its receipt as it was stored.

        ``work(*args, **kwargs)`` is not called where any attempt recorded the unit before. A receipt is plain JSON, a
        pydantic model or a dataclass. A crash between the work and its record repeats the work: give a receiver outside
        ``effect_key(name)``. Threads that ask for one unit at once take turns: the first does it, the others read it.

        Raises:
            ReceiptTooLargeError, UnstorableValueError: the work was done, its receipt was not recorded.
        """
        require_text("unit", name)
        with self._units:
            turn = self._unit_locks.setdefault(name, threading.RLock())
        with turn:
            known = self.recorded(name)
            return known.receipt if known else self.record(name, work(*args, **kwargs))

    def recorded(self, name: str) -> UnitReceipt | None:
        """The first half of a unit: its receipt, where it was recorded before."""
        self._require_open()
        require_text("unit", name)
        if name in self._receipts:
            return UnitReceipt(name, self._receipts[name], self.generation, 0, reused=True)
        if not self._inherited_units:
            return None
        return self._writes.insist(lambda _: self._writes.store.unit(self.job_id, name))

    def record(self, name: str, receipt: Any) -> Json:
        """The second half of a unit: record that it was done; a first receipt from elsewhere wins."""
        self._require_open()
        stored = plain("receipt", receipt)
        try:
            self._writes.insist(
                lambda command_id: self._writes.store.record_unit(self._held.fence, name, stored, command_id=command_id)
            )
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
        if self._progress is None or self._is_over or elapsed() - self._flushed_at < self._progress_every:
            return
        self.send_progress(self._take_progress())

    def send_progress(self, progress: Progress | None) -> None:
        """Report progress once; a failure is no harm."""
        if progress is not None:
            self._writes.once(
                lambda: self._writes.store.report_progress(
                    self._held.fence, progress.done, progress.total, progress.message
                )
            )

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
        self._staging.stage(effect)

    def inside(self, statements: Callable[[Any], object]) -> None:
        """Run ``statements(connection)`` in the transaction of the next checkpoint, or of the result.

        They may run more than once, each time in a transaction that is rolled back or the one that commits. A store
        without connections refuses them at that checkpoint.

        Raises:
            InvalidRequestError: they cannot be called.
        """
        self._require_open()
        self._staging.inside(statements)

    # The host's side --------------------------------------------------------------------------------------------------

    def use_hooks(self, hooks: Hooked) -> None:
        """Know the hooks of the handler instance; called by the host."""
        self._hooks = hooks

    def close(self, *, use_hook: bool = True) -> tuple[Staged, Progress | None]:
        """Refuse everything from now on; answers what was staged and the progress not sent yet. Called by the host.

        ``use_hook``: the handler has ended, so that its progress hook may be asked.
        """
        with self._boundary:
            self._is_closed = True
            try:
                progress = self._reported() if use_hook else self._take_progress()
            except Exception:
                LOG.exception("the progress hook failed", extra={"job_id": self.job_id, "generation": self.generation})
                progress = None
            return self._staging.take(), progress
