"""Publishing how an attempt ended: one command of the store for each ending, repeated until it is answered."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from jobledger.adapters.worker.endings import Abandon, AttemptEnding, Fail, Finish, Later, Park, Stop, told
from jobledger.adapters.worker.staging import Staged
from jobledger.adapters.worker.storable import plain, require_no_giant
from jobledger.adapters.worker.unwinding import LeaseLost
from jobledger.adapters.worker.writes import FencedWrites
from jobledger.domain.answers import ControlReceipt
from jobledger.domain.errors import CancelNotRequestedError, EffectConflictError, InvalidError
from jobledger.domain.job import TERMINAL, State
from jobledger.domain.store import KEEP, Completion

LOG: Final = logging.getLogger("jobledger.worker")

How = Literal["completed", "parked", "left"]

DEFER_MIN: Final = timedelta(seconds=1)
"""The shortest deferral, by the store's clock: one counts as no failure, so without it ``Defer(0)`` would spin."""


@dataclass(frozen=True, slots=True)
class Published:
    """What became of an attempt: the job ended, it was given back, or it was left to expire; and why."""

    how: How
    why: str


def publish(ending: AttemptEnding, writes: FencedWrites, staged: Staged, command_id: str | None = None) -> Published:
    """Record an ending; what was staged commits with a result and is dropped on every other end.

    A result that the store refuses becomes a failed attempt that says why. Never raises for a job's sake.
    ``command_id``: under which the completion of a ``Finish`` may have been accepted before.
    """
    try:
        return _published(ending, writes, staged, command_id)
    except LeaseLost as lost:
        return Published("left", lost.reason)


def completion_of(ending: Finish, writes: FencedWrites, staged: Staged) -> Completion:
    """What is sent for a job's end; what was staged goes along where there is a result.

    Raises:
        InvalidError: the result cannot be stored.
    """
    held = writes.held
    require_no_giant(ending.result, held.result_bytes_max)
    result = plain("result", ending.result)
    return Completion(held.fence, ending.outcome, result, ending.error, staged.effects if _has_effects(ending) else ())


def _has_effects(ending: Finish) -> bool:
    return ending.error is None or ending.result is not None


def _published(ending: AttemptEnding, writes: FencedWrites, staged: Staged, command_id: str | None) -> Published:
    match ending:
        case Finish():
            return _finished(ending, writes, staged, command_id)
        case Fail():
            return _failed(ending, writes)
        case Later():
            return _deferred(ending, writes)
        case Park():
            return _parked(writes)
        case Stop():
            return _stopped(ending, writes)
        case Abandon():
            return Published("left", ending.reason)


def _finished(ending: Finish, writes: FencedWrites, staged: Staged, command_id: str | None) -> Published:
    try:
        item = completion_of(ending, writes, staged)
        inside = staged.inside if _has_effects(ending) else None
        answer = writes.insist(
            lambda command_id: writes.store.complete(
                item.fence,
                item.outcome,
                item.result,
                item.error,
                item.effects,
                inside=inside,
                command_id=command_id,
            ),
            is_end=True,
            command_id=command_id,
        )
    except (InvalidError, EffectConflictError) as refusal:
        LOG.warning("a result was refused: %s", refusal, extra={"job_id": writes.held.fence.job_id})
        return _failed(Fail(f"{refusal.code}: {refusal}"), writes)
    except MemoryError as error:
        return _failed(Fail(f"the result could not be stored: {told(error)}"), writes)
    return Published("completed", answer.state.value)


def _failed(ending: Fail, writes: FencedWrites) -> Published:
    receipt = writes.insist(
        lambda command_id: writes.store.fail_attempt(
            writes.held.fence, ending.error, retry_after=ending.retry_after, command_id=command_id
        ),
        is_end=True,
    )
    return _given_back(receipt, "attempt_failed")


def _deferred(ending: Later, writes: FencedWrites) -> Published:
    now = writes.held.store_time()
    until = max(ending.until if isinstance(ending.until, datetime) else now + ending.until, now + DEFER_MIN)
    try:
        state = ending.state if ending.state is KEEP else plain("checkpoint", ending.state)
        receipt = writes.insist(
            lambda command_id: writes.store.defer(writes.held.fence, until, state, command_id=command_id), is_end=True
        )
    except InvalidError as refusal:
        return _failed(Fail(f"{refusal.code}: {refusal}"), writes)
    return _given_back(receipt, "deferred")


def _stopped(ending: Stop, writes: FencedWrites) -> Published:
    try:
        receipt = writes.insist(
            lambda command_id: writes.store.cancel(writes.held.fence, ending.boundary, command_id=command_id),
            is_end=True,
        )
    except (CancelNotRequestedError, InvalidError) as refusal:
        return _failed(Fail(f"{refusal.code}: {refusal}"), writes)
    return _given_back(receipt, State.CANCELLED.value)


def _parked(writes: FencedWrites) -> Published:
    receipt = writes.insist(
        lambda command_id: writes.store.pause(writes.held.fence, command_id=command_id), is_end=True
    )
    return _given_back(receipt, "parked")


def _given_back(receipt: ControlReceipt, why: str) -> Published:
    if receipt.state in TERMINAL:
        return Published("completed", receipt.state.value)
    return Published("parked", why)
