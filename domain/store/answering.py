"""How answers are made from the facts: alike for a first command and for a repeated one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobledger.domain.answers import ControlReceipt, ExecutionResult, Renewal, UnitReceipt
from jobledger.domain.decisions.working import FirstReceipt
from jobledger.domain.errors import HistoryCorruptError
from jobledger.domain.events import LeaseRenewedLate, Outcome, UnitRecorded
from jobledger.domain.replaying import value_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobledger.domain.ports import Session
    from jobledger.domain.store.executing import Told


def control_receipt(told: Told) -> ControlReceipt:
    """What a control left behind."""
    return ControlReceipt(told.job.id, told.job.state, told.job.sequence, told.is_reused)


def renewal(told: Told) -> Renewal:
    """An accepted write, and what operators ask of the attempt (a hold only if it respects holds)."""
    job = told.job
    is_held = job.hold is not None and job.attempt is not None and job.attempt.respects_hold
    late = any(isinstance(fact, LeaseRenewedLate) for fact in told.facts)
    return Renewal(told.expires_at or job.updated_at, is_held, job.cancel is not None, late)


def execution_result(told: Told) -> ExecutionResult:
    """A job's state and outcome."""
    job = told.job
    return ExecutionResult(
        job_id=job.id,
        key=job.key,
        state=job.state,
        outcome=job.outcome,
        result=told.value(job.result),
        error=None if job.outcome is Outcome.COMPLETE else job.error,
        generation=job.generation,
        sequence=job.sequence,
        reused=told.is_reused,
    )


def unit_answer(unit: str) -> Callable[[Told], UnitReceipt]:
    """The receipt of a unit: the one just recorded, or the first."""

    def answer(told: Told) -> UnitReceipt:
        for fact in told.facts:
            if isinstance(fact, UnitRecorded):
                return UnitReceipt(unit, told.value(fact.receipt), fact.generation, told.job.sequence)
        first = first_receipt(told.session, told.job.id, unit)
        if first is None:
            raise HistoryCorruptError(told.job.id, told.job.sequence, f"the receipt of unit {unit!r} is missing")
        return UnitReceipt(unit, first.value, first.generation, first.sequence, reused=True)

    return answer


def first_receipt(session: Session, job_id: str, unit: str) -> FirstReceipt | None:
    """The receipt that a unit has already, of any generation."""
    row = session.unit(job_id, unit)
    if row is None:
        return None
    return FirstReceipt(row.receipt, value_of(session, job_id, row.receipt), row.generation, row.sequence)
