"""What a handler is given to speak with its job: checkpoints, boundaries, units, progress, effects."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from jobledger.adapters.worker.core import AttemptCore
from jobledger.domain.bounds import require_text
from jobledger.domain.decisions.working import Effect
from jobledger.domain.values import Json, derived_id


class JobContext:
    """One attempt, as its handler sees it; may be used from several threads of the handler.

    Every method raises ``LeaseLost`` once this attempt may not write any more, and waits while that is in doubt. After
    the attempt has ended a context that was kept is closed in the same way. Methods that write pass on the store's
    refusals as they are: ``InvalidError`` where a value is wrong, ``CorruptError`` where the history is.
    """

    def __init__(self, core: AttemptCore) -> None:
        """Made by the host, one for each attempt."""
        facts = core.facts
        self.job_id: Final = facts.job_id
        self.kind: Final = facts.kind
        self.owner: Final = facts.owner
        self.key: Final = facts.key
        self.payload: Final = facts.payload
        self.generation: Final = facts.generation
        self.worker: Final = facts.worker
        self._core = core

    # What the attempt is ----------------------------------------------------------------------------------------------

    @property
    def attempt(self) -> int:
        """The number of this attempt: its generation, from 1."""
        return self.generation

    @property
    def state(self) -> Json:
        """The last checkpoint of the job, as it is stored; ``None`` where there is none."""
        return self._core.state

    @property
    def run_time_max(self) -> timedelta | None:
        """How long this attempt may run; ``None``: it may take its time."""
        span = self._core.facts.run_time_max
        return None if span is None else timedelta(seconds=span)

    @property
    def deadline(self) -> datetime | None:
        """When ``run_time_max`` ends this attempt, by this machine's clock; ``None``: it may take its time."""
        return self._core.deadline

    @property
    def cancellation_requested(self) -> bool:
        """Whether to stop for good: a cancel was requested (by the last renewal), or this attempt is over anyway."""
        return self._core.cancellation_requested

    @property
    def pause_requested(self) -> bool:
        """Whether the next boundary parks the job: a hold is in force, or the host drains."""
        return self._core.pause_requested

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
        self._core.raise_if_cancelled()

    def boundary(self) -> None:
        """A point where the job can stop without saving: its last checkpoint stands.

        Asks the store only if nothing was heard from it for one ``renew_every``.

        Raises:
            JobParked: a hold is in force, or the host drains.
            JobCancelled: a cancel was requested.
        """
        self._core.boundary()

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
        self._core.save(self._core.captured(state))

    # Units, progress, effects -----------------------------------------------------------------------------------------

    def unit(self, name: str, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Json:
        """Do a bounded piece of work once in the life of the job, and answer its receipt as it was stored.

        ``work(*args, **kwargs)`` is not called where any attempt recorded the unit before. A receipt is plain JSON, a
        pydantic model or a dataclass. A crash between the work and its record repeats the work: give a receiver outside
        ``effect_key(name)``. Threads that ask for one unit at once take turns: the first does it, the others read it.

        Raises:
            ReceiptTooLargeError, UnstorableValueError: the work was done, its receipt was not recorded.
        """
        return self._core.unit(name, work, *args, **kwargs)

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Say how far the attempt is; cheap, since only the last word in each ``progress_every`` is sent.

        Raises:
            InvalidRequestError, UnstorableValueError: a number below 0 or not finite, or a text too long.
        """
        self._core.progress(done, total, message)

    def stage(self, effect: Effect) -> None:
        """Add a compare-and-set write that commits with the next checkpoint, or with the result; one per resource.

        Raises:
            InvalidRequestError, UnstorableValueError: it cannot be staged.
        """
        self._core.stage(effect)

    def inside(self, statements: Callable[[Any], object]) -> None:
        """Run ``statements(connection)`` in the transaction of the next checkpoint, or of the result.

        They may run more than once, each time in a transaction that is rolled back or the one that commits. A store
        without connections refuses them at that checkpoint.

        Raises:
            InvalidRequestError: they cannot be called.
        """
        self._core.inside(statements)
