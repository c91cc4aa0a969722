"""When each command on a job is refused, and under which name: the table of refusals, said a second time.

The first reason that holds is the one that is given. What is looked at beside the job itself (versions of resources,
the first receipt of a unit) is left to other invariants: a refusal for it passes where nothing else refuses.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from jobledger.domain.job import State
from tests.proof.transitions import ENDED, ENGINE_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jobledger.domain.lease import Standing
    from tests.proof.history import Operation

BESIDE: Final = frozenset({"effect_conflict", "receipt_changed"})
"""Reasons that lie in what a job's rows do not show."""


@dataclass(slots=True)
class Answered:
    """A command on a job, what it was decided on, its group's epoch then, and the refusal's code (empty: accepted)."""

    operation: Operation
    standing: Standing
    epoch: int
    code: str


def refused_as_the_table_says(answered: Answered) -> str | None:
    """Compare with the table; commands that it does not speak of pass."""
    reasons = REASONS.get(answered.operation.name)
    if reasons is None:
        return None
    expected = next((code for code, holds in reasons(answered) if holds), "")
    if answered.code == expected or (not expected and answered.code in BESIDE):
        return None
    return f"it was {answered.code or 'accepted'}, the table says {expected or 'accepted'}"


def _is_live(standing: Standing) -> bool:
    lease, attempt = standing.lease, standing.job.attempt
    if lease is None or attempt is None or attempt.epoch != standing.epoch:
        return False
    return standing.now < lease.expires_at


def _of_a_control(answered: Answered, control: str | None) -> Iterator[tuple[str, bool]]:
    job, expected = answered.standing.job, answered.operation.arguments.get("expected_sequence")
    yield "already_terminal", job.state in ENDED
    yield "control_unavailable", control is not None and control not in job.controls
    yield "sequence_moved", expected is not None and expected != job.control_sequence


def _of_hold(answered: Answered) -> Iterator[tuple[str, bool]]:
    yield from _of_a_control(answered, "pause")
    hold = answered.standing.job.hold
    yield "hold_in_force", hold is not None and hold.by != answered.operation.arguments["by"]


def _of_release(answered: Answered) -> Iterator[tuple[str, bool]]:
    yield from _of_a_control(answered, None)
    job = answered.standing.job
    yield "not_held", job.hold is None and job.released_by != answered.operation.arguments["by"]


def _of_resume(answered: Answered) -> Iterator[tuple[str, bool]]:
    yield from _of_a_control(answered, "pause")
    job = answered.standing.job
    yield "not_resumable", job.state is not State.PAUSED or job.generation != 0


def _of_retry(answered: Answered) -> Iterator[tuple[str, bool]]:
    yield from _of_a_control(answered, "retry")
    job = answered.standing.job
    yield "lease_live", _is_live(answered.standing)
    yield "cancel_pending", job.cancel is not None
    yield "hold_in_force", job.hold is not None


def _of_recover(answered: Answered) -> Iterator[tuple[str, bool]]:
    job = answered.standing.job
    yield "already_terminal", job.state in ENDED
    yield "nothing_to_recover", job.state is not State.RUNNING
    yield "lease_live", _is_live(answered.standing)


def _of_claim(answered: Answered) -> Iterator[tuple[str, bool]]:
    standing, asked = answered.standing, answered.operation.arguments
    job, attempt = standing.job, standing.job.attempt
    yield "already_terminal", job.state in ENDED
    yield "stale_epoch", asked["epoch"] != answered.epoch
    yield "lease_live", _is_live(standing)
    yield "cancel_pending", job.cancel is not None
    yield "hold_in_force", job.hold is not None and (asked["respect_hold"] or job.hold.by == ENGINE_NAME)
    counts_now = attempt is not None and attempt.epoch == standing.epoch
    yield "budget_exhausted", job.interrupts + (1 if counts_now else 0) >= job.policy.interrupts_max
    yield "not_ready", attempt is None and job.ready_at > standing.now


def _of_a_fence(answered: Answered) -> Iterator[tuple[str, bool]]:
    standing, fence, step = answered.standing, answered.operation.fence, answered.operation.step
    job, lease = standing.job, standing.lease
    if fence is None:
        return
    digest = hashlib.sha256(fence.token.encode()).hexdigest()
    yield "stale_fence", fence.generation != job.generation or digest != job.last_token_digest
    yield "already_terminal", job.state in ENDED
    yield "stale_fence", job.attempt is None
    yield "stale_epoch", job.attempt is not None and job.attempt.epoch != standing.epoch
    is_renewal = answered.operation.name == "renew"
    yield "lease_expired", not is_renewal and (lease is None or standing.now >= lease.expires_at)
    yield "out_of_order", not is_renewal and step is not None and lease is not None and step <= lease.step


def _of_cancel(answered: Answered) -> Iterator[tuple[str, bool]]:
    yield from _of_a_fence(answered)
    yield "cancel_not_requested", answered.standing.job.cancel is None


REASONS: Final[dict[str, Callable[[Answered], Any]]] = {
    "hold": _of_hold,
    "release_hold": _of_release,
    "resume": _of_resume,
    "request_cancel": lambda answered: _of_a_control(answered, "cancel"),
    "retry": _of_retry,
    "recover": _of_recover,
    "claim": _of_claim,
    "cancel": _of_cancel,
    **dict.fromkeys(
        ("renew", "checkpoint", "record_unit", "report_progress", "pause", "defer", "fail_attempt", "complete"),
        _of_a_fence,
    ),
}
