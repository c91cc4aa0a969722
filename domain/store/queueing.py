"""The operators' commands on queues: each loads the queue under its lock, decides, and appends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jobledger.domain.bounds import require_text
from jobledger.domain.decisions.creating import require_operator
from jobledger.domain.errors import CommandChangedError, OutcomeUnknownError, StoreUnavailableError
from jobledger.domain.history import read, record_all
from jobledger.domain.ports import RolledBackError
from jobledger.domain.queue_events import UNLIMITED, QueueEvent, QueueLimits
from jobledger.domain.queues.answers import QueueReceipt
from jobledger.domain.queues.operating import hold_queue, limit_queue, release_queue, require_limits
from jobledger.domain.queues.ports import QueueAppend
from jobledger.domain.queues.state import evolve_queue, queue_stream
from jobledger.domain.store.base import require_expected
from jobledger.domain.store.executing import CONFLICTS_MAX, cause_of, require_command_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime, timedelta

    from jobledger.domain.history import Cause
    from jobledger.domain.ports import Session
    from jobledger.domain.queues.state import QueueState
    from jobledger.domain.store.base import Setting

    Decide = Callable[[QueueState | None, datetime], list[QueueEvent]]

OTHERS: Final = "others changed the queue at every try"


def require_queue(name: str | None) -> str:
    """The name of a queue as it is stored; ``None``, the whole namespace, is empty there.

    Raises:
        InvalidRequestError, UnstorableValueError: it is no name that a queue can have.
    """
    return "" if name is None else require_text("queue", name)


class QueueCommands:
    """What operators may ask of queues, at any time; hosts need not be told."""

    def __init__(self, setting: Setting) -> None:
        """Run commands in this setting."""
        self._setting = setting

    def limit(
        self,
        name: str,
        *,
        by: str,
        reason: str,
        running_max: int | None = None,
        starts_max: int | None = None,
        starts_span: timedelta | float | None = None,
        share_by: str | None = None,
        running_max_per_share: int | None = None,
        ageing: timedelta | float | None = None,
        expected_sequence: int | None = None,
        command_id: str | None = None,
    ) -> QueueReceipt:
        """Give a queue these limits in the place of those that it has; without any, it is not limited.

        They hold over all hosts from this moment on. What runs goes on, also where that is more than a new limit.

        Args:
            name: of the queue; it need not have jobs yet.
            by: who asks.
            reason: why.
            running_max: so many of its jobs run at once.
            starts_max: so many attempts start within any ``starts_span``; both are given, or none.
            starts_span: 0.1 seconds to 366 days.
            share_by: ``owner``, ``kind`` or ``label:NAME``: the queue is served share by share in turn.
            running_max_per_share: so many jobs of each share run at once.
            ageing: a job that waits so long counts as one priority more.
            expected_sequence: of the queue as the caller saw it (0: it was never limited or held).
            command_id: for a repeated call.

        Raises:
            InvalidRequestError: a limit is out of its range, or one misses the other that it needs.
            SequenceMovedError, CommandChangedError: nothing was changed.
        """
        limits = require_limits(
            running_max=running_max,
            starts_max=starts_max,
            starts_span=starts_span,
            share_by=share_by,
            running_max_per_share=running_max_per_share,
            ageing=ageing,
        )
        queue, expected = require_text("queue", name), require_expected_queue(expected_sequence)

        def decide(state: QueueState | None, now: datetime) -> list[QueueEvent]:
            return limit_queue(state, limits, **self._terms(queue, by, reason, now, expected))

        return self._run(queue, "limit", [repr(limits), by, reason, expected], decide, by, reason, command_id)

    def hold(
        self,
        name: str | None,
        *,
        by: str,
        reason: str,
        expected_sequence: int | None = None,
        command_id: str | None = None,
    ) -> QueueReceipt:
        """Let no attempt of a queue's jobs start, or of the whole namespace's (``None``), until it is released.

        Jobs may be created, and wait. What runs goes on; hold such a job by itself to stop it.

        Raises:
            HoldInForceError, SequenceMovedError, CommandChangedError: nothing was changed.
        """
        queue, expected = require_queue(name), require_expected_queue(expected_sequence)

        def decide(state: QueueState | None, now: datetime) -> list[QueueEvent]:
            return hold_queue(state, **self._terms(queue, by, reason, now, expected))

        return self._run(queue, "hold", [by, reason, expected], decide, by, reason, command_id)

    def release(
        self,
        name: str | None,
        *,
        by: str,
        reason: str,
        expected_sequence: int | None = None,
        command_id: str | None = None,
    ) -> QueueReceipt:
        """Take the hold of a queue, or of the whole namespace (``None``), away.

        Raises:
            NotHeldError, SequenceMovedError, CommandChangedError: nothing was changed.
        """
        queue, expected = require_queue(name), require_expected_queue(expected_sequence)

        def decide(state: QueueState | None, now: datetime) -> list[QueueEvent]:
            return release_queue(state, **self._terms(queue, by, reason, now, expected))

        return self._run(queue, "release", [by, reason, expected], decide, by, reason, command_id)

    def _terms(self, queue: str, by: str, reason: str, now: datetime, expected: int | None) -> dict[str, Any]:
        return {
            "namespace": self._setting.namespace,
            "name": queue,
            "by": by,
            "reason": reason,
            "now": now,
            "expected_sequence": expected,
        }

    def _run(
        self,
        queue: str,
        what: str,
        arguments: Any,
        decide: Decide,
        by: str,
        reason: str,
        command_id: str | None,
    ) -> QueueReceipt:
        """Run a command until it is done; a repeated one is answered from the events that it caused, before any guard.

        Raises:
            StoreUnavailableError, OutcomeUnknownError: nobody could answer; repeating with the same id is safe.
        """
        require_operator(by, reason)
        known_id, _ = require_command_id(command_id, self._setting.entropy.new_id)
        cause = cause_of(what, arguments, known_id)
        lost: OutcomeUnknownError | None = None
        for _ in range(CONFLICTS_MAX):
            try:
                with self._setting.storage.writing(self._setting.patience) as session:
                    receipt = _receipt(session, self._setting.namespace, queue, cause, decide)
                if receipt is not None:
                    return receipt
            except RolledBackError:
                continue
            except OutcomeUnknownError as unknown:
                lost = unknown
            except StoreUnavailableError as unavailable:
                raise (OutcomeUnknownError(unavailable.reason, known_id) if lost else unavailable) from None
        raise lost or StoreUnavailableError(OTHERS)


def require_expected_queue(expected_sequence: Any) -> int | None:
    """Require a queue's sequence, which may be 0, or none."""
    return expected_sequence if expected_sequence == 0 else require_expected(expected_sequence)


def _receipt(session: Session, namespace: str, queue: str, cause: Cause, decide: Decide) -> QueueReceipt | None:
    """Decide under the queue's lock, and write; ``None`` where somebody else wrote all the same.

    Raises:
        CommandChangedError: the command's id belongs to another command, or to other arguments.
    """
    loaded = session.queues(namespace, [queue]).get(queue)
    state = loaded.state if loaded else None
    stream, name = queue_stream(namespace, queue), queue or None
    for stored in session.caused(stream, cause.id):
        if (known := read(stored)).cause != cause:
            raise CommandChangedError(cause.id, stream)
        return QueueReceipt(name, known.sequence)
    clock = session.now()
    facts = decide(state, max(clock, state.updated_at) if state else clock)
    if not facts:
        return QueueReceipt(name, state.sequence if state else 0, reused=True)
    append = draft_queue(state, loaded.head if loaded else "", facts, cause)
    if not session.append_queue(append):
        return None
    _divide(session, state.limits if state else UNLIMITED, append.state)
    return QueueReceipt(name, append.state.sequence)


def _divide(session: Session, before: QueueLimits, after: QueueState) -> None:
    """Let waiting jobs belong to the shares that the queue is divided into now."""
    if before.share_by == after.limits.share_by:
        return
    if before.share_by is not None:
        session.end_shares(after.namespace, after.name)
    if after.limits.share_by is not None:
        session.share_out(after.namespace, after.name, after.limits.share_by, SHARED_OUT_MAX)


SHARED_OUT_MAX: Final = 1_000_000
"""So many waiting jobs are assigned to their shares at once; claims assign the rest."""


def draft_queue(state: QueueState | None, head: str, facts: Sequence[QueueEvent], cause: Cause) -> QueueAppend:
    """What is to be written for facts: their records, chained to what came before, and the state that they fold to."""
    sequence = state.sequence if state else 0
    for fact in facts:
        state = evolve_queue(state, fact)
    if state is None:
        msg = "a queue's row needs at least one fact"
        raise LookupError(msg)
    records = record_all(state.stream, sequence, list(facts), previous=head, cause=cause)
    return QueueAppend(sequence=sequence, state=state, records=records, head=records[-1].digest)
