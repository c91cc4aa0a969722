"""The operators' commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from jobledger.domain import decisions
from jobledger.domain.answers import ControlReceipt
from jobledger.domain.bounds import require_text
from jobledger.domain.decisions.creating import require_operator
from jobledger.domain.errors import CommandChangedError, OutcomeUnknownError, StoreUnavailableError
from jobledger.domain.events import EpochAdvanced
from jobledger.domain.history import read, record
from jobledger.domain.ports import GroupRow, RolledBackError
from jobledger.domain.store.answering import control_receipt
from jobledger.domain.store.base import Commands, require_expected
from jobledger.domain.store.executing import (
    CONFLICTS_MAX,
    Decision,
    cause_of,
    require_command_id,
)

if TYPE_CHECKING:
    from jobledger.domain.events import JobEvent
    from jobledger.domain.history import Cause
    from jobledger.domain.lease import Standing
    from jobledger.domain.ports import Session


class Control(Protocol):
    """The shape of an operator's decision."""

    def __call__(
        self, standing: Standing, *, by: str, reason: str, expected_sequence: int | None = None
    ) -> list[JobEvent]:
        """Decide."""
        ...


class OperatorCommands(Commands):
    """What operators may ask of a job; every refusal names what they can do instead."""

    def hold(
        self, job_id: str, *, by: str, reason: str, expected_sequence: int | None = None, command_id: str | None = None
    ) -> ControlReceipt:
        """Place a stop sign: what is not running is paused at once, what runs parks at its next boundary.

        Raises:
            AlreadyTerminalError, ControlUnavailableError, SequenceMovedError, HoldInForceError: nothing was changed.
        """
        return self._control("hold", decisions.hold, job_id, by, reason, expected_sequence, command_id)

    def release_hold(
        self, job_id: str, *, by: str, reason: str, expected_sequence: int | None = None, command_id: str | None = None
    ) -> ControlReceipt:
        """Take the stop sign away and renew the budget; paused work is claimable once it is due.

        Raises:
            AlreadyTerminalError, SequenceMovedError, NotHeldError: nothing was changed.
        """
        return self._control("release_hold", decisions.release_hold, job_id, by, reason, expected_sequence, command_id)

    def resume(
        self, job_id: str, *, by: str, reason: str, expected_sequence: int | None = None, command_id: str | None = None
    ) -> ControlReceipt:
        """Put a paused job that was never leased back into its queue.

        Raises:
            AlreadyTerminalError, ControlUnavailableError, SequenceMovedError, NotResumableError: nothing was changed.
        """
        return self._control("resume", decisions.resume, job_id, by, reason, expected_sequence, command_id)

    def request_cancel(
        self, job_id: str, *, by: str, reason: str, expected_sequence: int | None = None, command_id: str | None = None
    ) -> ControlReceipt:
        """Cancel what is not running at once; ask what runs to stop at its next boundary.

        Raises:
            AlreadyTerminalError, ControlUnavailableError, SequenceMovedError: nothing was changed.
        """
        return self._control(
            "request_cancel", decisions.request_cancel, job_id, by, reason, expected_sequence, command_id
        )

    def retry(
        self, job_id: str, *, by: str, reason: str, expected_sequence: int | None = None, command_id: str | None = None
    ) -> ControlReceipt:
        """Make waiting or parked work due now, with a new budget.

        Raises:
            AlreadyTerminalError, ControlUnavailableError, SequenceMovedError, LeaseLiveError, CancelPendingError,
            HoldInForceError: nothing was changed.
        """
        return self._control("retry", decisions.retry, job_id, by, reason, expected_sequence, command_id)

    def epoch(self, group: str) -> int:
        """The current epoch of a worker group (1 where it never advanced)."""
        require_text("group", group)
        with self._setting.storage.reading() as reader:
            return reader.group(self._setting.namespace, group).epoch

    def advance_epoch(self, group: str, *, by: str, reason: str, command_id: str | None = None) -> int:
        """Fence off all work of a group's current epoch at once; answers the new epoch.

        Raises:
            CommandChangedError: the command id belongs to another command.
        """
        require_text("group", group)
        require_operator(by, reason)
        known_id, _ = require_command_id(command_id, self._setting.entropy.new_id)
        cause = cause_of("advance_epoch", [group, by, reason], known_id)
        lost: OutcomeUnknownError | None = None
        for _ in range(CONFLICTS_MAX):
            try:
                with self._setting.storage.writing(self._setting.patience) as session:
                    epoch = _advance(session, self._setting.namespace, group, cause, by, reason)
                if epoch is not None:
                    return epoch
            except RolledBackError:
                continue
            except OutcomeUnknownError as unknown:
                lost = unknown
            except StoreUnavailableError as unavailable:
                raise (OutcomeUnknownError(unavailable.reason) if lost else unavailable) from None
        raise lost or StoreUnavailableError("others advanced the group at every try")

    def _control(
        self,
        name: str,
        control: Control,
        job_id: str,
        by: str,
        reason: str,
        expected_sequence: int | None,
        command_id: str | None,
    ) -> ControlReceipt:
        require_operator(by, reason)
        expected = require_expected(expected_sequence)

        def decide(_: Session, standing: Standing) -> Decision:
            return Decision(facts=control(standing, by=by, reason=reason, expected_sequence=expected))

        command = self._command(
            job_id, name, [by, reason, expected], command_id=command_id, decide=decide, answer=control_receipt
        )
        return self._run(command)


def group_stream(namespace: str, group: str) -> str:
    """The name of a group's own stream; the length keeps two pairs of names from meeting in one."""
    return f"group:{len(namespace)}:{namespace}:{group}"


def _advance(session: Session, namespace: str, group: str, cause: Cause, by: str, reason: str) -> int | None:
    """The new epoch, also of a repeated command; ``None`` where somebody else advanced the group meanwhile."""
    stream = group_stream(namespace, group)
    for stored in session.caused(stream, cause.id):
        known = read(stored)
        if known.cause != cause or not isinstance(known.event, EpochAdvanced):
            raise CommandChangedError(cause.id, stream)
        return known.event.epoch
    row = session.group(namespace, group)
    last = session.records(stream, after=row.sequence - 1, upto=row.sequence, limit=1) if row.sequence else []
    now = max([session.now(), *(read(stored).at for stored in last)])
    fact = EpochAdvanced(at=now, epoch=row.epoch + 1, by=by, reason=reason)
    stored = record(stream, row.sequence + 1, fact, previous=row.head, cause=cause)
    moved = GroupRow(fact.epoch, stored.sequence, stored.digest)
    return fact.epoch if session.append_group(namespace, group, row, moved, stored) else None
