"""The writes of one attempt: each is repeated until the store's answer is certain, or the lease is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from jobledger.adapters.bootstrap import JobStore
from jobledger.adapters.telemetry import UNTRACED
from jobledger.adapters.worker.caution import Caution, pause_after
from jobledger.adapters.worker.clock import elapsed
from jobledger.adapters.worker.held import HeldLease
from jobledger.adapters.worker.staging import Staged
from jobledger.adapters.worker.unwinding import LeaseLost
from jobledger.domain.answers import Progress, Renewal, UnitReceipt
from jobledger.domain.errors import (
    AlreadyTerminalError,
    JobledgerError,
    LeaseExpiredError,
    OutcomeUnknownError,
    OutOfOrderError,
    StaleEpochError,
    StaleFenceError,
    UnavailableError,
)
from jobledger.domain.values import Json

LOG: Final = logging.getLogger("jobledger.worker")
Answer = TypeVar("Answer")


class FencedWrites:
    """Calls of a store under one lease."""

    __slots__ = ("_caution", "held", "span", "store")

    def __init__(self, store: JobStore, held: HeldLease, caution: Caution) -> None:
        """Write through ``store`` while ``held`` lasts; failed calls are told to ``caution``."""
        self.store, self.held, self._caution = store, held, caution
        self.span = UNTRACED
        """Where what is saved is noted; the attempt puts its own there when it begins."""

    # What a handler asks ----------------------------------------------------------------------------------------------

    def renew(self) -> None:
        """Renew the lease now, and learn what operators ask."""
        self.insist(lambda _: self.store.renew(self.held.fence))

    def checkpoint(self, state: Json, progress: Progress | None, staged: Staged) -> None:
        """Save application state, with progress and what was staged; refusals as ``JobStore.checkpoint`` has them."""
        self.insist(
            lambda command_id: self.store.checkpoint(
                self.held.fence,
                state,
                progress=progress,
                effects=staged.effects,
                inside=staged.inside,
                command_id=command_id,
            )
        )
        self.span.event("checkpoint", step=self.held.fence.steps.last)

    def unit(self, name: str) -> UnitReceipt | None:
        """The receipt of a unit that was recorded, by whichever attempt."""
        return self.insist(lambda _: self.store.unit(self.held.fence.job_id, name))

    def record_unit(self, name: str, receipt: Json) -> None:
        """Record that a unit was done; refusals as ``JobStore.record_unit`` has them."""
        self.insist(lambda command_id: self.store.record_unit(self.held.fence, name, receipt, command_id=command_id))
        self.span.event("unit", unit=name)

    def report_progress(self, progress: Progress) -> None:
        """Report progress once; a failure is no harm."""
        self.once(lambda: self.store.report_progress(self.held.fence, progress.done, progress.total, progress.message))

    # How it is asked --------------------------------------------------------------------------------------------------

    def insist(
        self, call: Callable[[str | None], Answer], *, is_end: bool = False, command_id: str | None = None
    ) -> Answer:
        """Make a call until it is answered; its argument is the command id under which it may have been accepted.

        That is ``None`` until a reply was lost: what certainly committed nothing is sent anew, under an id of its own,
        and the store need not look whether it came before.

        Args:
            call: one call of the store that presents the held fence.
            is_end: it ends the attempt. Its reply may be what was lost, and then the lease is gone because the call had
                been accepted: so it is repeated once more, which is safe, before the lease counts as lost.
            command_id: under which it may have been accepted already, where it was made before.

        Raises:
            LeaseLost: this attempt may not write any more.
            RefusedError, InvalidError, CorruptError: the command's own refusals.
        """
        sent_at = elapsed()
        failures = 0
        self.held.is_ending |= is_end
        while True:
            try:
                self.held.require()
            except LeaseLost:
                if is_end and (failures or command_id is not None):
                    return self._last_try(call, command_id)
                raise
            try:
                answer = call(command_id)
            except LeaseExpiredError:
                self.held.doubt()
            except (AlreadyTerminalError, StaleEpochError, StaleFenceError) as refusal:
                self.held.lose(str(refusal))
                raise LeaseLost(str(refusal)) from refusal
            except (OutOfOrderError, UnavailableError) as failure:
                failures += 1
                if isinstance(failure, OutcomeUnknownError):
                    command_id = failure.command_id
                self._note(failure)
                self.held.pause(pause_after(failures))
            else:
                if isinstance(answer, Renewal):
                    # A repeated call may be answered as it was at first: so it counts from when it was first sent.
                    self.held.accept(answer, sent_at)
                return answer

    def once(self, call: Callable[[], object]) -> None:
        """Make a call that may fail without harm; what it would have said is not needed."""
        if self.held.lost is not None or self.held.is_in_doubt:
            return
        try:
            sent_at = elapsed()
            answer = call()
        except JobledgerError as failure:
            self._note(failure)
        else:
            if isinstance(answer, Renewal):
                self.held.accept(answer, sent_at)

    def _last_try(self, call: Callable[[str | None], Answer], command_id: str | None) -> Answer:
        try:
            return call(command_id)
        except JobledgerError as failure:
            raise LeaseLost(str(failure)) from failure

    def _note(self, failure: JobledgerError) -> None:
        if isinstance(failure, UnavailableError):
            self._caution.note_failure()
        LOG.warning(
            "a call of the store failed: %s",
            failure,
            extra={"job_id": self.held.fence.job_id, "generation": self.held.fence.generation},
        )
