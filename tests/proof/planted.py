"""One violation of every invariant, made by hand: what the judges must notice, or they would prove nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from jobledger.domain.answers import CreateReceipt, ExecutionResult, Lease, Renewal, UnitReceipt
from jobledger.domain.decisions.working import Effect
from jobledger.domain.events import (
    AppliedEffect,
    Checkpointed,
    Completed,
    EpochAdvanced,
    JobEvent,
    Origin,
    Outcome,
)
from jobledger.domain.job import Job, State, evolve, fold
from jobledger.domain.lease import Fence, LeaseRow, Standing
from jobledger.domain.policies import Policy
from jobledger.domain.store.operating import group_stream
from tests.domain.given import (
    EXPIRY,
    HOUR,
    JOB_ID,
    NOON,
    SECOND,
    attempt_failed,
    body,
    cancel_requested,
    cancelled,
    checkpointed,
    claimed,
    completed,
    created,
    fence,
    hold_placed,
    interrupted,
    paused,
    renewed_late,
    resumed,
    retry_requested,
    unit_recorded,
)
from tests.proof.history import Entry, History, Operation, Served, Transition
from tests.proof.refusals import Answered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OPEN: Final[list[JobEvent]] = [created(), claimed(1)]
ASKED: Final[list[JobEvent]] = [*OPEN, cancel_requested("ann")]
LAST: Final[list[JobEvent]] = [created(policy=Policy(interrupts_max=1, failures_max=1)), claimed(1)]
WRITTEN: Final = AppliedEffect(resource="r1", version=1, value=body(1))


def job(facts: Sequence[JobEvent]) -> Job:
    """The fold of facts of which there is at least one."""
    folded = fold(facts)
    if folded is None:
        msg = "a job needs a fact"
        raise LookupError(msg)
    return folded


def step(facts: Sequence[JobEvent], event: JobEvent, **made: Any) -> Transition:
    """An event on its way after facts; ``made`` changes what it makes of the job."""
    before = job(facts)
    return Transition(before, event, replace(evolve(before, event), **made))


def changed(event: Any, **changes: Any) -> Any:
    """An event that says something else."""
    return replace(event, **changes)


def stands(facts: Sequence[JobEvent], *, expires_at: Any = EXPIRY, now: Any = NOON, epoch: int = 1) -> Standing:
    """A job under its lock, its lease row of the last generation."""
    known = job(facts)
    return Standing(known, LeaseRow(known.generation, expires_at), epoch, now)


def met(transition: Transition, standing: Standing) -> Transition:
    """The same event, decided on what stood."""
    transition.standing = standing
    return transition


def beside(transition: Transition, *, leading: JobEvent | None = None, following: JobEvent | None = None) -> Transition:
    """The same event, with others of its command."""
    transition.leading, transition.following = leading, following
    return transition


STEPS: Final[dict[str, Callable[[], Transition]]] = {
    "created_first": lambda: step(OPEN, created()),
    "sequences": lambda: step(OPEN, checkpointed(1), sequence=7),
    "time": lambda: step(OPEN, checkpointed(1, at=NOON - SECOND)),
    "end_is_final": lambda: step([*OPEN, completed(1)], hold_placed()),
    "fold": lambda: step(OPEN, checkpointed(1), priority=9),
    "generations": lambda: step([created()], claimed(3)),
    "one_attempt": lambda: step(OPEN, claimed(2)),
    "fence": lambda: step([*OPEN, interrupted(1), claimed(2)], checkpointed(1)),
    "live_writes": lambda: met(step(OPEN, checkpointed(1, at=EXPIRY)), stands(OPEN, now=EXPIRY)),
    "live_leases": lambda: step(OPEN, changed(interrupted(1), expires_at=EXPIRY)),
    "interruptions": lambda: met(step(OPEN, interrupted(1, at=EXPIRY)), stands(OPEN, now=EXPIRY, epoch=2)),
    "grants": lambda: step(OPEN, changed(checkpointed(1), expires_at=NOON)),
    "expiries": lambda: step([*OPEN, checkpointed(1, at=EXPIRY)], checkpointed(1)),
    "late_renewals": lambda: step(OPEN, renewed_late(1, late_by=-SECOND)),
    "parking": lambda: step(OPEN, interrupted(1, at=EXPIRY), state=State.QUEUED),
    "takeovers": lambda: met(step([*OPEN, interrupted(1)], claimed(2)), stands(OPEN, now=EXPIRY)),
    "claims_whole": lambda: step([created()], claimed(1), last_token_digest="other"),
    "due": lambda: step([created(ready_at=NOON + HOUR)], claimed(1)),
    "honest_states": lambda: step([created()], hold_placed(), state=State.QUEUED),
    "outcomes": lambda: step(OPEN, completed(1), state=State.FAILED),
    "recovery": lambda: beside(step(OPEN, completed(1)), leading=interrupted(1)),
    "lease_free_cancels": lambda: step(OPEN, cancelled(None)),
    "failures": lambda: step(LAST, attempt_failed(1)),
    "cancels_end": lambda: step(ASKED, paused(1)),
    "cancellations": lambda: step(OPEN, cancelled(1)),
    "boundaries": lambda: step([*OPEN, hold_placed()], paused(1, "drain")),
    "held": lambda: step([created(), hold_placed()], claimed(1)),
    "no_claim_after_cancel": lambda: step([*ASKED, interrupted(1)], claimed(2)),
    "budget": lambda: step([*LAST, interrupted(1)], claimed(2)),
    "crash_loops": lambda: step(LAST, interrupted(1, at=EXPIRY)),
    "holds": lambda: step([created(), hold_placed("ann")], hold_placed("bob")),
    "resumes": lambda: step([*OPEN, paused(1)], resumed()),
    "retries": lambda: step([created(), hold_placed()], retry_requested()),
    "cancel_requests": lambda: step([created()], cancel_requested()),
    "controls": lambda: step([created(controls=())], hold_placed()),
    "effect_steps": lambda: step(
        OPEN,
        changed(completed(1, Outcome.FAILED), effects=(WRITTEN,)),
    ),
}
"""By the name of the step invariant that is broken."""

ANSWERS: Final[dict[str, Callable[[], Answered]]] = {
    "refusals": lambda: Answered(operation("renew"), stands(OPEN), 1, "lease_expired"),
}

# Whole histories ------------------------------------------------------------------------------------------------------


def entry(
    position: int, event: Any, *, sequence: int = 0, stream: str = JOB_ID, by: str = "", command: str = "checkpoint"
) -> Entry:
    """An event in the log, by default at the sequence of its position."""
    return Entry(position, stream, sequence or position, event, by or f"c{position}", command)


def operation(name: str, by: str = "c3", *, answer: Any = None, result: Any = "ok", **changes: Any) -> Operation:
    """A request of the first generation's worker, sent before all and answered after it."""
    asked = Operation("w1", name, JOB_ID, by, {}, 0, fence=fence(1), step=1)
    told: dict[str, Any] = {"ended": 9, "result": result, "answer": answer}
    asked = replace(asked, **(told | changes))
    if not asked.served:
        asked.served = [Served(result, asked.code, answer, 9, 1)]
    return asked


def log(*more: Any, facts: Sequence[Any] = OPEN) -> list[Entry]:
    """Facts of one job, each of a command of its own, and what comes after them."""
    entries = [entry(number, fact) for number, fact in enumerate(facts, start=1)]
    return [*entries, *more]


def renewal(until: Any = EXPIRY + HOUR) -> Renewal:
    """A renewal until long after everything."""
    return Renewal(until, hold_requested=False, cancel_requested=False)


def lease(secret: str) -> Lease:
    """A lease of the first generation, with some of what belongs to it."""
    held = Fence(JOB_ID, 1, "default", 1, secret)
    return Lease(held, JOB_ID, None, None, 1, EXPIRY, timedelta(seconds=30), None)  # type: ignore[arg-type]  # no status


def receipt(value: int) -> UnitReceipt:
    """The receipt of a unit."""
    return UnitReceipt("batch-1", value, 1, 3)


def result(value: int) -> ExecutionResult:
    """A completion's answer."""
    return ExecutionResult(JOB_ID, None, State.COMPLETE, Outcome.COMPLETE, value, None, 1, 3)


CREATE: Final = {"owner": "team-a", "key": "rebuild-42", "payload": None, "kind": "rebuild"}
CLAIM: Final = {"token": "t", "worker": "w1", "group": "default", "epoch": 1}
END: Final = Completed(at=NOON, generation=1, outcome=Outcome.COMPLETE, result=body(1))
EFFECT: Final = Effect(resource="r1", value=2, expected_version=0)
SAVED: Final = Checkpointed(at=NOON, generation=1, state=body(1), effects=(WRITTEN,), expires_at=EXPIRY)
ADVANCED: Final = EpochAdvanced(at=NOON - SECOND, epoch=2, by="ann", reason="deploy")
FORKED: Final = created(origin=Origin(how="fork", of=JOB_ID, sequence=2, from_checkpoint=True), checkpoint=body(5))

HISTORIES: Final[dict[str, Callable[[], History]]] = {
    "no_gaps": lambda: History(log(entry(3, SAVED, sequence=5))),
    "keys": lambda: History(log(entry(3, replace(created(), job_id="other"), sequence=1, stream="other"))),
    "applied_once": lambda: History(log(entry(3, SAVED, by="c1"))),
    "rows": lambda: History(log(), jobs={JOB_ID: job([created()])}),
    "epochs": lambda: History([entry(1, replace(ADVANCED, epoch=3), stream=group_stream("default", "cpu"))]),
    "epoch_fence": lambda: History(
        log(entry(3, ADVANCED, sequence=1, stream=group_stream("default", "default")), entry(4, SAVED, sequence=3))
    ),
    "one_holder": lambda: History(
        log(),
        [
            operation("claim", "c2", answer=lease("a"), arguments=CLAIM),
            operation("claim", "c8", answer=lease("b"), arguments=CLAIM),
        ],
    ),
    "token": lambda: History(log(entry(3, SAVED)), [operation("checkpoint", fence=fence(1, secret="forged"))]),
    "stale_stays_stale": lambda: History(
        log(entry(3, SAVED)),
        [
            operation("renew", "c9", result="refused", served=[Served("refused", "stale_fence", None, 2, 1)]),
            operation("checkpoint", answer=renewal(), served=[Served("ok", "", renewal(), 3, 2)]),
        ],
    ),
    "steps": lambda: History(
        log(entry(3, SAVED), entry(4, SAVED)),
        [operation("checkpoint", step=2), operation("checkpoint", "c4", step=1)],
    ),
    "told_leases": lambda: History(
        log(entry(3, interrupted(1, at=EXPIRY))),
        [operation("renew", "c9", answer=renewal(), served=[Served("ok", "", renewal(), 2, 1)])],
    ),
    "acknowledged": lambda: History(log(), [operation("complete", answer=result(1), arguments={"result": 1})]),
    "cause_first": lambda: History(log(entry(3, SAVED)), [operation("checkpoint", invoked=5)]),
    "no_trace": lambda: History(
        log(entry(3, SAVED)), [operation("checkpoint", result="refused", code="lease_expired")]
    ),
    "first_answer": lambda: History(
        log(entry(3, SAVED)),
        [operation("checkpoint", served=[Served("ok", "", renewal(), 3, 1), Served("ok", "", renewal(NOON), 3, 2)])],
    ),
    "results": lambda: History(
        log(entry(3, END, command="complete")),
        [operation("complete", answer=result(2), arguments={"result": 2, "outcome": "complete"})],
    ),
    "creates": lambda: History(
        log(),
        [
            operation(
                "create",
                "c1",
                answer=CreateReceipt(JOB_ID, reused=False, sequence=1, state=State.QUEUED),
                arguments={**CREATE, "payload": 7},
            )
        ],
    ),
    "looked": lambda: History(
        log(entry(3, hold_placed(), command="hold")), [operation("hold", arguments={"expected_sequence": 1})]
    ),
    "claims_asked": lambda: History(log(), [operation("claim", "c2", arguments=CLAIM)]),
    "derived": lambda: History(log(entry(3, replace(FORKED, job_id="other"), sequence=1, stream="other"))),
    "compare_and_set": lambda: History(
        log(entry(3, replace(SAVED, effects=(replace(WRITTEN, version=2),)))), resources={}
    ),
    "effects_asked": lambda: History(log(entry(3, SAVED)), [operation("checkpoint", arguments={"effects": [EFFECT]})]),
    "units": lambda: History(log(entry(3, unit_recorded()), entry(4, unit_recorded()))),
    "receipts": lambda: History(
        log(entry(3, unit_recorded(receipt=1))), [operation("record_unit", answer=receipt(2), arguments={"receipt": 2})]
    ),
    "feed": lambda: History(log(entry(3, SAVED)), followed=[1, 3]),
}
"""By the name of the history invariant that is broken."""
