"""Broken twins of the fence, of leases and of what claims and recovery rest on."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from jobledger.domain import decisions
from jobledger.domain.decisions import operating, working
from jobledger.domain.errors import (
    AlreadyTerminalError,
    LeaseExpiredError,
    OutOfOrderError,
    StaleEpochError,
    StaleFenceError,
)
from jobledger.domain.events import Cancelled, Claimed, Completed, HoldPlaced, Interrupted, LeaseRenewedLate, Outcome
from jobledger.domain.job import ENGINE, State
from jobledger.domain.lease import Fence, Standing, extended_expiry, require_fence, token_digest
from tests.proof.mutating import Mutant, as_dead, changing, with_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobledger.domain.events import JobEvent

SECOND: Final = timedelta(seconds=1)


def fence_without(*checks: str) -> dict[Any, Any]:
    """The fence, some of its checks left out."""

    def twin(standing: Standing, fence: Fence, step: int | None = None, *, late: bool = False) -> Any:
        job = standing.job
        is_other = "token" not in checks and token_digest(fence.token) != job.last_token_digest
        is_older = fence.generation < job.generation and "older" not in checks
        if is_other or is_older or fence.generation > job.generation:
            raise StaleFenceError(job.id, fence.generation, job.generation)
        if job.is_terminal and "end" not in checks:
            raise AlreadyTerminalError(job.id, job.state.value)
        if job.attempt is None or standing.lease is None:
            if "ended" in checks or job.is_terminal:
                return job.attempt
            raise StaleFenceError(job.id, fence.generation, job.generation, job.ended_by)
        if standing.is_epoch_stale and "epoch" not in checks:
            raise StaleEpochError(job.attempt.group, job.attempt.epoch, standing.epoch)
        if not late and standing.now >= standing.lease.expires_at and "expiry" not in checks:
            raise LeaseExpiredError(job.id, job.generation, standing.lease.expires_at)
        if step is not None and step <= standing.lease.step and "order" not in checks:
            raise OutOfOrderError(job.id, step, standing.lease.step)
        return job.attempt

    return {require_fence: twin}


def _lives_too_long(standing: Standing, fence: Fence, step: int | None = None, *, late: bool = False) -> Any:
    if standing.lease is not None and standing.lease.expires_at == standing.now:
        standing = replace(standing, lease=replace(standing.lease, expires_at=standing.now + SECOND))
    return require_fence(standing, fence, step, late=late)


def _revives(standing: Standing, fence: Fence) -> list[JobEvent]:
    """Renew an attempt that an event has ended, as if it were only late."""
    job = standing.job
    is_own = fence.generation == job.generation and token_digest(fence.token) == job.last_token_digest
    if is_own and job.attempt is None and not job.is_terminal:
        span = timedelta(seconds=10)
        return [
            LeaseRenewedLate(
                at=standing.now, generation=fence.generation, late_by=SECOND, expires_at=standing.now + span
            )
        ]
    return _renew(standing, fence)


_renew: Final = decisions.renew
_claim: Final = decisions.claim
_recover: Final = decisions.recover


def _claiming(change: Callable[[Standing, dict[str, Any]], Standing]) -> dict[Any, Any]:
    """A claim that is shown another standing; ``change`` may also change what is asked."""

    def twin(standing: Standing, **asked: Any) -> list[JobEvent]:
        return _claim(change(standing, asked), **asked)

    return {_claim: twin}


def _to_current_epoch(standing: Standing, asked: dict[str, Any]) -> Standing:
    asked["current_epoch"] = asked["epoch"]
    return standing


def _past_the_engine(standing: Standing, asked: dict[str, Any]) -> Standing:
    is_engines = standing.job.hold is not None and standing.job.hold.by == ENGINE
    return with_job(standing, hold=None) if is_engines and not asked.get("respect_hold", True) else standing


def _claimed(**changes: Callable[[Claimed], Any]) -> dict[Any, Any]:
    """A claim whose event says something else."""

    def change(event: Any) -> Any:
        return replace(event, **{name: made(event) for name, made in changes.items()})

    return {_claim: changing(Claimed, change, _claim)}


def _recovering(change: Callable[[Standing, list[JobEvent]], list[JobEvent]]) -> dict[Any, Any]:
    def twin(standing: Standing, *, by: str = ENGINE) -> list[JobEvent]:
        return change(standing, list(_recover(standing, by=by)))

    return {_recover: twin}


def _completed(standing: Standing, _: list[JobEvent]) -> list[JobEvent]:
    return [Completed(at=standing.now, generation=standing.job.generation, outcome=Outcome.COMPLETE)]


def _held_over(standing: Standing, events: list[JobEvent]) -> list[JobEvent]:
    is_used = standing.job.interrupts + 1 >= standing.job.policy.interrupts_max and standing.job.cancel is None
    if is_used and standing.job.hold is not None:
        events.append(HoldPlaced(at=standing.now, by=ENGINE, reason="over an operator's"))
    return events


FENCE_MUTANTS: Final = (
    Mutant("fence_takes_older_generations", "Any earlier generation may write.", fence_without("older", "token")),
    Mutant("fence_ignores_the_token", "The secret token is not compared.", fence_without("token")),
    Mutant(
        "fence_ignores_the_end_of_an_attempt",
        "A generation that was parked or interrupted goes on writing.",
        fence_without("ended"),
    ),
    Mutant("fence_ignores_the_end_of_the_job", "A worker writes after the outcome.", fence_without("end", "ended")),
    Mutant("fence_ignores_the_epoch", "Work of an epoch that has passed may write.", fence_without("epoch")),
    Mutant("fence_ignores_the_expiry", "An expired lease may write.", fence_without("expiry")),
    Mutant(
        "fence_lives_to_its_expiry", "A lease is live at its expiry, not only before.", {require_fence: _lives_too_long}
    ),
    Mutant("fence_ignores_the_order", "An older write is accepted after a newer one.", fence_without("order")),
    Mutant("renewal_revives_an_ended_attempt", "A renewal opens what an event has ended.", {_renew: _revives}),
    Mutant(
        "late_renewal_is_not_recorded",
        "A late renewal moves the lease without an event.",
        {_renew: changing(LeaseRenewedLate, lambda _: None, _renew)},
    ),
    Mutant(
        "late_renewal_bumps_the_generation",
        "A late renewal is written under the next generation.",
        {_renew: changing(LeaseRenewedLate, lambda e: replace(e, generation=e.generation + 1), _renew)},
    ),
    Mutant(
        "late_renewal_hides_how_late",
        "A late renewal says that it came in time.",
        {_renew: changing(LeaseRenewedLate, lambda e: replace(e, late_by=timedelta(0)), _renew)},
    ),
    Mutant(
        "writes_shorten_the_lease",
        "An accepted write may move the expiry back.",
        {extended_expiry: lambda standing, span: standing.now + span / 2},
    ),
    Mutant(
        "writes_do_not_renew",
        "An accepted write leaves the expiry as it was.",
        {working.renewed_expiry: lambda now: now.lease.expires_at if now.lease else now.now},
    ),
)

CLAIM_MUTANTS: Final = (
    Mutant(
        "claim_ignores_a_live_lease", "A running job is taken from a live worker.", _claiming(lambda s, _: as_dead(s))
    ),
    Mutant(
        "claim_ignores_holds",
        "An attempt starts under any hold.",
        _claiming(lambda s, _: with_job(s, hold=None)),
    ),
    Mutant(
        "claim_passes_the_engines_hold",
        "A claim that respects no holds passes the engine's.",
        _claiming(_past_the_engine),
    ),
    Mutant(
        "claim_ignores_the_end",
        "An attempt starts on an ended job.",
        _claiming(lambda s, _: with_job(s, state=State.QUEUED) if s.job.is_terminal else s),
    ),
    Mutant(
        "claim_ignores_a_cancel_request",
        "A job that is to be cancelled is taken over.",
        _claiming(lambda s, _: with_job(s, cancel=None)),
    ),
    Mutant(
        "claim_ignores_the_due_time",
        "Waiting work is claimed early.",
        _claiming(lambda s, _: with_job(s, ready_at=min(s.job.ready_at, s.now))),
    ),
    Mutant("claim_ignores_the_epoch", "A worker of a passed epoch starts attempts.", _claiming(_to_current_epoch)),
    Mutant("budget_is_ignored", "A crash loop goes on for ever.", {operating.is_budget_used: lambda _: False}),
    Mutant(
        "budget_forgets_the_open_attempt",
        "The interruption that is about to happen is not counted.",
        {operating.is_budget_used: lambda s: s.job.interrupts >= s.job.policy.interrupts_max},
    ),
    Mutant(
        "claim_keeps_the_generation",
        "A claim opens no new generation.",
        _claimed(generation=lambda e: e.generation - 1),
    ),
    Mutant(
        "claim_skips_a_generation", "A claim leaves a generation out.", _claimed(generation=lambda e: e.generation + 1)
    ),
    Mutant("claim_grants_no_time", "A claimed lease has ended already.", _claimed(expires_at=lambda e: e.at)),
    Mutant(
        "claim_records_another_token",
        "The token's digest is not the worker's.",
        _claimed(token_digest=lambda _: "0" * 64),
    ),
    Mutant("claim_forgets_the_epoch", "A claim is recorded under the first epoch.", _claimed(epoch=lambda _: 1)),
    Mutant(
        "takeover_skips_the_interruption",
        "A take-over opens a second attempt.",
        {_claim: changing(Interrupted, lambda _: None, _claim)},
    ),
)

RECOVERY_MUTANTS: Final = (
    Mutant(
        "recovery_ignores_a_live_lease",
        "Recovery ends live attempts.",
        {_recover: lambda standing, **given: _recover(as_dead(standing), **given)},
    ),
    Mutant("recovery_completes", "Recovery takes an interruption for a success.", _recovering(_completed)),
    Mutant(
        "recovery_forgets_the_cancel",
        "Recovery leaves a requested cancel pending on a parked job.",
        {_recover: changing(Cancelled, lambda _: None, _recover)},
    ),
    Mutant(
        "recovery_never_holds",
        "A crash loop is parked, and nobody is asked.",
        {_recover: changing(HoldPlaced, lambda _: None, _recover)},
    ),
    Mutant("recovery_holds_over_an_operator", "The engine's hold replaces an operator's.", _recovering(_held_over)),
    Mutant(
        "interruption_records_another_expiry",
        "An interruption records its own time as the expiry.",
        {_recover: changing(Interrupted, lambda e: replace(e, expires_at=e.at), _recover)},
    ),
    Mutant(
        "epochs_count_as_crashes",
        "An attempt that a new epoch ended is recorded as expired.",
        {operating.end_cause: lambda _: "lease_expired"},
    ),
)
