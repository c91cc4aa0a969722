"""What an order that is not refused leaves behind, said in other words than the rules, from DESIGN's table of commands.

Refusals are judged by the table in ``refusals``; here stand only those two that depend on more than the job's rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobledger.domain.events import Checkpointed, Completed, JobEvent, Outcome
from tests.proof.explorer_ledger import EPOCH, NOW, POLICY, RECEIPT, RESOURCE, VERSION
from tests.proof.refusals import BESIDE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobledger.domain.job import Job
    from tests.proof.explorer_ledger import Ledger
    from tests.proof.explorer_orders import Order


def beside(ledger: Ledger, order: Order) -> str:
    """The refusal for a reason that lies beside the job's rows, where the fence lets the order pass."""
    if order.effect_expects not in (None, VERSION):
        return "effect_conflict"
    first = ledger.first
    is_changed = order.verb == "record_unit" and first is not None and order.name != "record_unit a"
    return "receipt_changed" if is_changed else ""


def misleft(ledger: Ledger, order: Order, refusal: str, facts: Sequence[JobEvent]) -> list[str]:
    """What is wrong with the facts that an order left, or with a refusal that the table does not speak of."""
    if refusal and refusal not in BESIDE:
        return []
    expected = beside(ledger, order)
    if refusal != expected:
        return [f"answers: it was {refusal or 'accepted'}, DESIGN says {expected or 'accepted'}"]
    if refusal:
        return []
    found, asked = tuple(type(fact).__name__ for fact in facts), _facts(ledger, order)
    broken = [f"answers: it left {_worded(found)}, DESIGN says {_worded(asked)}"] if found != asked else []
    return broken + [wrong for fact in facts for wrong in _miscarried(order, fact)]


def is_live(ledger: Ledger) -> bool:
    """Whether a live lease protects the job."""
    lease = ledger.standing.lease
    return lease is not None and lease.expires_at > NOW and not is_fenced_off(ledger)


def is_fenced_off(ledger: Ledger) -> bool:
    """Whether the open attempt's group moved on."""
    attempt = ledger.job.attempt
    return attempt is not None and attempt.epoch != EPOCH


def _miscarried(order: Order, fact: JobEvent) -> list[str]:
    """What a fact fails to carry of its order: effects at their new version, the outcome that the worker named."""
    if not isinstance(fact, Checkpointed | Completed):
        return []
    effects = [(effect.resource, effect.version) for effect in fact.effects]
    asked = [] if order.effect_expects is None else [(RESOURCE, VERSION + 1)]
    broken = [f"effects: {effects} were recorded, {asked} were asked for"] if effects != asked else []
    if isinstance(fact, Completed) and fact.outcome is not _outcome(order):
        broken.append(f"outcomes: {fact.outcome} was recorded for {order.name}")
    return broken


def _outcome(order: Order) -> Outcome:
    if order.verb == "fail_attempt":
        return Outcome.FAILED
    named = order.name.split()[1:2]
    return Outcome(named[0]) if named and named[0] in set(Outcome) else Outcome.COMPLETE


def _interrupts_after(ledger: Ledger) -> int:
    """The count of unproductive interruptions if the open attempt, being dead, were ended now."""
    expires = ledger.job.attempt is not None and not is_live(ledger) and not is_fenced_off(ledger)
    return ledger.job.interrupts + expires


def _facts(ledger: Ledger, order: Order) -> tuple[str, ...]:
    """The names of the facts; none: what was asked stands already."""
    running = ledger.job.attempt is not None
    if order.actor == "worker":
        return _written(ledger, order)
    if order.verb == "claim":
        return ("Interrupted", "Claimed") if running else ("Claimed",)
    if order.verb == "recover":
        return ("Interrupted", *_recovered(ledger))
    return _controlled(ledger, order.verb)


def _controlled(ledger: Ledger, verb: str) -> tuple[str, ...]:
    job, held = ledger.job, ledger.job.hold is not None
    if verb == "hold":
        return () if held else ("HoldPlaced",)
    if verb == "release_hold":
        return ("HoldReleased",) if held else ()
    if verb == "resume":
        return ("HoldReleased", "Resumed") if held else ("Resumed",)
    if verb == "request_cancel":
        return ("Cancelled",) if job.attempt is None else ("CancelRequested",) if job.cancel is None else ()
    if job.attempt is not None:
        return ("Interrupted", "RetryRequested")
    return ("RetryRequested",) if job.ready_at > NOW or job.interrupts or job.failures else ()


def _recovered(ledger: Ledger) -> tuple[str, ...]:
    if ledger.job.cancel is not None:
        return ("Cancelled",)
    is_used = _interrupts_after(ledger) >= POLICY.interrupts_max
    return ("HoldPlaced",) if is_used and ledger.job.hold is None else ()


def _written(ledger: Ledger, order: Order) -> tuple[str, ...]:
    job, verb = ledger.job, order.verb
    if verb == "renew":
        return () if is_live(ledger) else ("LeaseRenewedLate",)
    if verb == "record_unit":
        return () if ledger.first is not None and ledger.first.receipt == RECEIPT else ("UnitRecorded",)
    if verb in ("pause", "defer"):
        saved = ("Checkpointed",) if "saving" in order.name else ()
        return (*saved, "Cancelled" if job.cancel else "Paused")
    ends = {"cancel": "Cancelled", "complete": "Completed", "fail_attempt": _failed(job)}
    return (ends.get(verb) or {"checkpoint": "Checkpointed", "report_progress": "ProgressReported"}[verb],)


def _failed(job: Job) -> str:
    if job.cancel is not None:
        return "Cancelled"
    return "Completed" if job.failures + 1 >= POLICY.failures_max else "AttemptFailed"


def _worded(names: tuple[str, ...]) -> str:
    return " + ".join(names) or "nothing new"
