"""What holds in every history: random commands, clocks, epochs and late workers against the pure decisions.

Each history is folded one event at a time and each event is held against ``tests.domain.laws``. The same machine must
fail on twins that were broken on purpose, or it would prove nothing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from jobledger.domain import decisions
from jobledger.domain.decisions.claiming import Claimable
from jobledger.domain.decisions.working import Effect, FirstReceipt, renewed_expiry, stage
from jobledger.domain.errors import InvalidError, RefusedError
from jobledger.domain.events import (
    AppliedEffect,
    Claimed,
    Completed,
    HoldPlaced,
    Interrupted,
    JobEvent,
    Outcome,
    Paused,
    UnitRecorded,
)
from jobledger.domain.history import read, record_all
from jobledger.domain.job import Job, evolve, fold
from jobledger.domain.lease import Fence, LeaseRow, Standing, token_digest
from jobledger.domain.policies import Backoff, Policy
from tests.domain.given import EVERY_CONTROL, HOUR, JOB_ID, LEASE, NOON, SECOND, body, created, fence, token
from tests.domain.laws import Step, require_lawful

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OPERATORS = st.sampled_from(["ann", "bob"])
GROUPS = st.sampled_from(["cpu", "gpu"])
WHICH = st.sampled_from([0, 0, 0, 0, 1, 2])
"""Which of the fences that were ever handed out is presented: mostly the newest."""
LATE = st.sampled_from([False, False, False, True])
VALUES = st.sampled_from([None, 1, 1.0, True, "x", {"a": 1}])


class Rules:
    """The decisions and the fold under test; a broken twin replaces one of them."""

    evolve: ClassVar[Any] = staticmethod(evolve)
    hold: ClassVar[Any] = staticmethod(decisions.hold)
    recover: ClassVar[Any] = staticmethod(decisions.recover)
    retry: ClassVar[Any] = staticmethod(decisions.retry)
    claim: ClassVar[Any] = staticmethod(decisions.claim)
    renew: ClassVar[Any] = staticmethod(decisions.renew)
    checkpoint: ClassVar[Any] = staticmethod(decisions.checkpoint)
    pause: ClassVar[Any] = staticmethod(decisions.pause)
    complete: ClassVar[Any] = staticmethod(decisions.complete)


class AnyHistory(RuleBasedStateMachine):
    """One job, its operators, its workers (also those who think that they still own it), and a world that moves on."""

    tested: ClassVar[type[Rules]] = Rules

    def __init__(self) -> None:
        super().__init__()
        self.clock = NOON
        self.epochs = {"cpu": 1, "gpu": 1}
        self.log: list[JobEvent] = []
        self.fences: list[Fence] = []
        self.lease: LeaseRow | None = None
        self.receipts: dict[str, FirstReceipt] = {}
        self.versions: dict[str, int] = {}
        self.step = 0
        self.patience = 0
        """How many events pass before somebody ends the job: after its end a history has little left to tell."""

    @initialize(
        interrupts_max=st.integers(1, 3),
        failures_max=st.integers(1, 3),
        controls=st.sampled_from([EVERY_CONTROL, EVERY_CONTROL, EVERY_CONTROL, ("cancel",), ()]),
        wait=st.sampled_from([timedelta(0), timedelta(0), HOUR]),
        patience=st.sampled_from([3, 6, 12]),
        claims=st.sampled_from([0, 1, 2, 2, 3]),
    )
    def a_job_is_created(
        self,
        interrupts_max: int,
        failures_max: int,
        controls: tuple[str, ...],
        wait: timedelta,
        patience: int,
        claims: int,
    ) -> None:
        self.patience = patience
        policy = Policy(
            interrupts_max=interrupts_max,
            failures_max=failures_max,
            backoff=Backoff(initial=20 * SECOND),
            checkpoint_bytes_max=6,
        )
        first = created(policy=policy, controls=controls, ready_at=NOON + wait)
        self.log.append(first)
        self.job: Job = self.tested.evolve(None, first)
        for _ in range(claims):
            self.time_passes(span=HOUR)
            self.a_worker_claims(group="cpu", behind=0, respect_hold=True)

    # The world --------------------------------------------------------------------------------------------------------

    @rule(span=st.sampled_from([timedelta(microseconds=1), SECOND, LEASE, LEASE, HOUR]))
    def time_passes(self, span: timedelta) -> None:
        self.clock = max(self.clock, self.job.updated_at) + span

    @rule(span=st.sampled_from([SECOND, LEASE, HOUR]))
    def the_clock_is_set_back(self, span: timedelta) -> None:
        self.clock -= span

    @rule(group=GROUPS)
    def an_epoch_advances(self, group: str) -> None:
        self.epochs[group] += 1

    # Operators --------------------------------------------------------------------------------------------------------

    @rule(by=OPERATORS)
    def an_operator_holds(self, by: str) -> None:
        self.command(lambda now: self.tested.hold(now, by=by, reason="look"))

    @rule(by=OPERATORS)
    def an_operator_releases(self, by: str) -> None:
        self.command(lambda now: decisions.release_hold(now, by=by, reason="looked"))

    @rule(by=OPERATORS)
    def an_operator_resumes(self, by: str) -> None:
        self.command(lambda now: decisions.resume(now, by=by, reason="go on"))

    @rule(by=OPERATORS)
    @precondition(lambda self: self.job.attempt is not None or self.job.sequence >= self.patience)
    def an_operator_asks_for_a_cancel(self, by: str) -> None:
        self.command(lambda now: decisions.request_cancel(now, by=by, reason="not needed"))

    @rule(by=OPERATORS)
    def an_operator_retries(self, by: str) -> None:
        self.command(lambda now: self.tested.retry(now, by=by, reason="mended"))

    @rule()
    def the_engine_recovers(self) -> None:
        self.command(self.tested.recover)

    # Workers ----------------------------------------------------------------------------------------------------------

    @rule(group=GROUPS, respect_hold=st.sampled_from([True, True, False]))
    @precondition(lambda self: self.job.attempt is not None)
    def a_worker_vanishes_and_another_takes_over(self, group: str, respect_hold: bool) -> None:
        self.time_passes(span=LEASE)
        self.a_worker_claims(group=group, behind=0, respect_hold=respect_hold)

    @rule(group=GROUPS, respect_hold=st.sampled_from([True, True, False]))
    @precondition(lambda self: self.job.attempt is None)
    def a_worker_waits_for_the_job_and_claims(self, group: str, respect_hold: bool) -> None:
        self.clock = max(self.clock, self.job.ready_at)
        self.a_worker_claims(group=group, behind=0, respect_hold=respect_hold)

    @rule(group=GROUPS, behind=st.sampled_from([0, 0, 0, 1]), respect_hold=st.sampled_from([True, True, False]))
    def a_worker_claims(self, group: str, behind: int, respect_hold: bool) -> None:
        secret, epoch = token(len(self.log)), self.epochs[group] - behind
        events = self.command(
            lambda now: self.tested.claim(
                now,
                worker="w",
                lease=LEASE,
                group=group,
                epoch=epoch,
                current_epoch=self.epochs[group],
                token_digest=token_digest(secret),
                respect_hold=respect_hold,
            )
        )
        if events:
            self.fences.append(fence(self.job.generation, secret=secret, group=group, epoch=epoch))

    @rule(which=WHICH)
    @precondition(lambda self: self.fences)
    def a_worker_renews(self, which: int) -> None:
        presented, now = self.presented(which), self.standing()
        events = self.command(lambda now: self.tested.renew(now, presented), presented=presented)
        if events == [] and self.lease is not None:
            expiry = renewed_expiry(now)
            assert expiry >= self.lease.expires_at, "a renewal moved the expiry back"
            self.lease = replace(self.lease, expires_at=expiry)

    @rule(which=WHICH, late=LATE, state=VALUES, expected=st.integers(0, 2))
    @precondition(lambda self: self.fences)
    def a_worker_checkpoints(self, which: int, late: bool, state: Any, expected: int) -> None:
        presented, step = self.presented(which), self.next_step(late=late)
        effects = stage([Effect(resource="index", value=1, expected_version=expected)]) if expected < 2 else ()
        events = self.command(
            lambda now: self.tested.checkpoint(
                now, presented, step, state=body(state), effects=effects, versions=self.versions
            ),
            presented=presented,
            step=step,
        )
        self.apply(events)

    @rule(which=WHICH, late=LATE, unit=st.sampled_from(["u1", "u2"]), receipt=VALUES)
    @precondition(lambda self: self.fences)
    def a_worker_records_a_unit(self, which: int, late: bool, unit: str, receipt: Any) -> None:
        presented, step, first = self.presented(which), self.next_step(late=late), self.receipts.get(unit)
        events = self.command(
            lambda now: decisions.record_unit(now, presented, step, unit=unit, receipt=body(receipt), first=first),
            presented=presented,
            step=step,
        )
        if any(isinstance(event, UnitRecorded) for event in events or ()):
            assert first is None, "a unit was recorded twice"
            self.receipts[unit] = FirstReceipt(body(receipt), receipt, self.job.generation, self.job.sequence)

    @rule(which=WHICH, late=LATE)
    @precondition(lambda self: self.fences)
    def a_worker_reports_progress(self, which: int, late: bool) -> None:
        presented, step = self.presented(which), self.next_step(late=late)
        self.command(
            lambda now: decisions.report_progress(now, presented, step, done=1, total=1, message=None),
            presented=presented,
            step=step,
        )

    @rule(which=WHICH, late=LATE, saves=st.booleans())
    @precondition(lambda self: self.fences)
    def a_worker_parks(self, which: int, late: bool, saves: bool) -> None:
        presented, step = self.presented(which), self.next_step(late=late)

        def park(now: Standing) -> list[JobEvent]:
            before = self.tested.checkpoint(now, presented, step, state=body(7), versions={}) if saves else []
            parked: list[JobEvent] = self.tested.pause(now, presented, step, before=before)
            return parked

        self.command(park, presented=presented, step=step)

    @rule(which=WHICH, late=LATE, span=st.sampled_from([timedelta(0), HOUR]))
    @precondition(lambda self: self.fences)
    def a_worker_defers(self, which: int, late: bool, span: timedelta) -> None:
        presented, step, ready_at = self.presented(which), self.next_step(late=late), self.clock + span
        self.command(
            lambda now: decisions.defer(now, presented, step, ready_at=ready_at), presented=presented, step=step
        )

    @rule(which=WHICH, late=LATE, chance=st.floats(0, 1))
    @precondition(lambda self: self.fences)
    def a_worker_fails(self, which: int, late: bool, chance: float) -> None:
        presented, step = self.presented(which), self.next_step(late=late)
        self.command(
            lambda now: decisions.fail_attempt(now, presented, step, error="boom", chance=chance),
            presented=presented,
            step=step,
        )

    @rule(which=WHICH, late=LATE)
    @precondition(lambda self: self.fences)
    def a_worker_records_its_cancel(self, which: int, late: bool) -> None:
        presented, step = self.presented(which), self.next_step(late=late)
        self.command(lambda now: decisions.cancel(now, presented, step, boundary=None), presented=presented, step=step)

    @rule(which=st.sampled_from([0, 1, 1]), late=LATE, outcome=st.sampled_from([Outcome.COMPLETE, Outcome.PARTIAL]))
    @precondition(lambda self: self.fences and self.job.sequence >= self.patience)
    def a_worker_completes(self, which: int, late: bool, outcome: Outcome) -> None:
        presented, step = self.presented(which), self.next_step(late=late)
        events = self.command(
            lambda now: self.tested.complete(
                now, presented, step, outcome=outcome, result=body(1), error=None, versions=self.versions
            ),
            presented=presented,
            step=step,
        )
        self.apply(events)

    # What holds between commands --------------------------------------------------------------------------------------

    @invariant()
    def a_store_finds_exactly_what_a_claim_would_take(self) -> None:
        now = self.standing()
        try:
            decisions.claim(
                now, worker="w", lease=LEASE, group="cpu", epoch=1, current_epoch=1, token_digest=token_digest("t")
            )
            is_taken = True
        except RefusedError:
            is_taken = False

        wanted = {
            Claimable.NEVER: False,
            Claimable.WHEN_READY: self.job.ready_at <= now.now,
            Claimable.WHEN_DEAD: not now.is_live,
            Claimable.WHEN_FENCED: now.is_epoch_stale,
        }[decisions.claimable(self.job)]
        assert is_taken == wanted, f"claimable says {decisions.claimable(self.job)}, the claim was taken: {is_taken}"

    @invariant()
    def the_budget_is_never_overdrawn(self) -> None:
        policy = self.job.policy
        assert self.job.interrupts <= policy.interrupts_max
        assert self.job.failures <= policy.failures_max

    def teardown(self) -> None:
        """The log alone gives the job, also when it went through its stored form."""
        if not self.log:
            return
        records = record_all(JOB_ID, 0, list(self.log), previous="", cause=None)
        events = [read(stored) for stored in records]
        assert [event.event for event in events] == self.log, "an event changed by being stored"
        assert [event.previous for event in events] == ["", *(stored.digest for stored in records[:-1])]
        folded = self.job
        for number, event in enumerate(self.log):
            folded = self.tested.evolve(folded if number else None, event)
        assert folded == self.job, "the log does not give the job"

    # How a command runs -----------------------------------------------------------------------------------------------

    def standing(self) -> Standing:
        """The job under its lock; the store's clock, but never before the job's last event."""
        attempt = self.job.attempt
        now: datetime = max(self.clock, self.job.updated_at)
        return Standing(self.job, self.lease, self.epochs[attempt.group] if attempt else 0, now)

    def presented(self, which: int) -> Fence:
        """One of the fences that were handed out, counted from the newest."""
        return self.fences[-1 - which % len(self.fences)]

    def next_step(self, *, late: bool) -> int:
        """The number of a write: a new one, or that of a packet that was overtaken."""
        if late and self.lease is not None:
            return max(self.lease.step - 1, 0)
        self.step += 1
        return self.step

    def command(
        self,
        decide: Callable[[Standing], Sequence[JobEvent]],
        *,
        presented: Fence | None = None,
        step: int | None = None,
    ) -> Sequence[JobEvent] | None:
        """Decide and fold; ``None`` is a refusal, which leaves everything as it was."""
        now, before = self.standing(), repr(self.job)
        try:
            events = decide(now)
        except (RefusedError, InvalidError):
            assert repr(self.job) == before, "a refused command changed something"
            return None
        if presented is not None:
            assert presented == self.fences[-1], "an older fence was accepted"
        if step is not None:
            assert self.lease is None or step > self.lease.step, "an older step was accepted"
        is_current = not now.is_epoch_stale
        for event, following in zip_longest(events, events[1:]):
            self.fold(event, following, now.now, is_current=is_current)
        if step is not None and self.lease is not None:
            self.lease = replace(self.lease, step=step)
        return events

    def fold(self, event: JobEvent, following: JobEvent | None, now: datetime, *, is_current: bool) -> None:
        """Fold one event and hold it against the laws."""
        claims = sum(1 for each in self.log if isinstance(each, Claimed))
        after = self.tested.evolve(self.job, event)
        require_lawful(Step(self.job, event, after, following, now, self.lease, is_current, claims))
        self.log.append(event)
        self.job = after
        if after.attempt is None:
            self.lease = None
        elif isinstance(event, Claimed):
            self.lease = LeaseRow(event.generation, event.expires_at)
        elif self.lease is not None and not isinstance(event, Interrupted):
            self.lease = replace(self.lease, expires_at=getattr(event, "expires_at", self.lease.expires_at))

    def apply(self, events: Sequence[JobEvent] | None) -> None:
        """Write the effects that were committed: each one moves its resource on by one version."""
        for event in events or ():
            effects: tuple[AppliedEffect, ...] = getattr(event, "effects", ())
            for effect in effects:
                assert effect.version == self.versions.get(effect.resource, 0) + 1, "a version was skipped"
                self.versions[effect.resource] = effect.version


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(stateful_step_count=100)


# The control: on each of these twins the same machine must fail -------------------------------------------------------


def _dead(now: Standing) -> Standing:
    """The same standing with a lease that ran out."""
    return replace(now, lease=now.lease and replace(now.lease, expires_at=now.now))


def _live(now: Standing) -> Standing:
    """The same standing with a lease that lives on, of the current epoch."""
    job = now.job
    return replace(
        now,
        lease=now.lease and replace(now.lease, expires_at=now.now + LEASE),
        epoch=job.attempt.epoch if job.attempt else now.epoch,
    )


class ClaimsPastALiveLease(Rules):
    claim = staticmethod(lambda now, **asked: decisions.claim(_dead(now), **asked))


class RecoversALiveLease(Rules):
    recover = staticmethod(lambda now: decisions.recover(_dead(now)))


class ClaimsPastACancelRequest(Rules):
    claim = staticmethod(lambda now, **asked: decisions.claim(replace(now, job=replace(now.job, cancel=None)), **asked))


class ClaimsWithoutBudget(Rules):
    claim = staticmethod(
        lambda now, **asked: decisions.claim(replace(now, job=replace(now.job, interrupts=0)), **asked)
    )


class WritesUnderAnExpiredLease(Rules):
    checkpoint = staticmethod(lambda now, *args, **asked: decisions.checkpoint(_live(now), *args, **asked))


class TakesEveryFence(Rules):
    @staticmethod
    def checkpoint(now: Standing, presented: Fence, step: int, **asked: Any) -> list[JobEvent]:  # pyright: ignore[reportIncompatibleVariableOverride]  # a twin replaces it
        job = replace(now.job, generation=presented.generation, last_token_digest=token_digest(presented.token))
        return decisions.checkpoint(replace(now, job=job), presented, step, **asked)


class TakesEveryStep(Rules):
    @staticmethod
    def checkpoint(now: Standing, presented: Fence, _: int, **asked: Any) -> list[JobEvent]:  # pyright: ignore[reportIncompatibleVariableOverride]  # a twin replaces it
        return decisions.checkpoint(now, presented, 1_000_000, **asked)


class RenewsEveryGeneration(Rules):
    renew = staticmethod(lambda _now, _presented: [])


class ParksUnderACancelRequest(Rules):
    @staticmethod
    def pause(now: Standing, presented: Fence, step: int, *, before: Sequence[JobEvent]) -> list[JobEvent]:  # pyright: ignore[reportIncompatibleVariableOverride]  # a twin replaces it
        return decisions.pause(replace(now, job=replace(now.job, cancel=None)), presented, step, before=before)


class LosesItsHoldOnRetry(Rules):
    retry = staticmethod(lambda now, **asked: decisions.retry(replace(now, job=replace(now.job, hold=None)), **asked))


def _twin(broken: Callable[[Job, Job, JobEvent], Job]) -> Callable[[Job | None, JobEvent], Job]:
    """A fold that spoils what the true one makes."""

    def fold_wrongly(job: Job | None, event: JobEvent) -> Job:
        after = evolve(job, event)
        return after if job is None else broken(job, after, event)

    return fold_wrongly


class HoldsWithoutPausing(Rules):
    evolve = staticmethod(
        _twin(lambda job, after, event: replace(after, state=job.state) if isinstance(event, HoldPlaced) else after)
    )


class ParksWithAnOpenAttempt(Rules):
    evolve = staticmethod(
        _twin(lambda job, after, event: replace(after, attempt=job.attempt) if isinstance(event, Paused) else after)
    )


class EndsWithItsHold(Rules):
    evolve = staticmethod(
        _twin(lambda job, after, event: replace(after, hold=job.hold) if isinstance(event, Completed) else after)
    )


class ForgetsInterruptions(Rules):
    evolve = staticmethod(
        _twin(lambda _, after, event: replace(after, interrupts=9) if isinstance(event, Interrupted) else after)
    )


@pytest.mark.parametrize("twin", Rules.__subclasses__(), ids=lambda twin: twin.__name__)
def test_the_machine_fails_on_a_broken_twin(twin: type[Rules]) -> None:
    """Were it not to fail here, its passing above would mean nothing."""
    machine = type(f"AnyHistoryOf{twin.__name__}", (AnyHistory,), {"tested": twin})
    looking = settings(
        max_examples=3_000,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        derandomize=True,
        print_blob=False,
        suppress_health_check=list(HealthCheck),  # pyright: ignore[reportArgumentType]  # its metaclass leaves out old ones
    )

    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=looking)


def test_a_history_folds_from_any_known_state() -> None:
    """The three invariants are checked on states, so the fold must not care where it starts from."""
    log = [created(), *decisions.hold(Standing(evolve(None, created()), None, 0, NOON), by="ann", reason="look")]

    assert fold(log[1:], fold(log[:1])) == fold(log)
