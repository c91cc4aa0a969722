"""The two documents that the project began with: their failure boundaries and recovery contract, line by line."""

import pytest

from jobledger.domain import decisions
from jobledger.domain.decisions.creating import Met
from jobledger.domain.decisions.working import Effect
from jobledger.domain.errors import (
    AlreadyTerminalError,
    CancelNotRequestedError,
    ControlUnavailableError,
    HoldInForceError,
    JobExistsError,
    LeaseExpiredError,
    LeaseLiveError,
    NothingToRecoverError,
    NotResumableError,
    PayloadChangedError,
    StaleEpochError,
    StaleFenceError,
)
from jobledger.domain.events import Cancelled, Claimed, Completed, JobEvent, Outcome
from jobledger.domain.job import State, fold
from jobledger.domain.lease import token_digest
from tests.domain import when
from tests.domain.given import (
    EXPIRY,
    HOUR,
    NOON,
    body,
    cancel_requested,
    checkpointed,
    claimed,
    completed,
    created,
    fence,
    hold_placed,
    hold_released,
    interrupted,
    paused,
    progress_reported,
    replay,
    standing,
    unit_recorded,
)

# First document: failure boundaries -----------------------------------------------------------------------------------


def test_same_key_changed_payload__create_refused_no_duplicate_job() -> None:
    """A changed payload cannot reuse the idempotency key, and no attempt starts."""
    job = replay([created(payload={"partition": "p7"})])

    with pytest.raises(PayloadChangedError) as refusal:
        decisions.create(when.request(payload={"partition": "p8"}), Met(job=job), now=NOON)

    assert refusal.value.job_id == job.id


def test_lease_still_live__recovery_refused_worker_keeps_ownership() -> None:
    """The worker that is alive goes on writing after the refused recovery."""
    now = standing([created(), claimed(1)], now=EXPIRY - HOUR / 3_600)

    with pytest.raises(LeaseLiveError):
        when.recover(now)

    assert when.names(when.checkpoint(now)) == ["Checkpointed"]


def test_expired_lease_claimed_directly__new_generation_interrupts_old_attempt_job_may_remain_running() -> None:
    """Its readers see a running job before and after; in between stands the interruption."""
    facts = [created(), claimed(1)]

    events = when.claim(standing(facts, now=EXPIRY))

    assert when.names(events) == ["Interrupted", "Claimed"]
    assert replay(facts).state is State.RUNNING
    after = replay([*facts, *events])
    assert (after.state, after.generation) == (State.RUNNING, 2)


def test_old_worker_finalizes__lease_fencing_refuses_newer_attempt_protected() -> None:
    """However late it wakes up, and whatever it wants to publish."""
    now = standing([created(), claimed(1), interrupted(1), claimed(2)])

    with pytest.raises(StaleFenceError):
        when.complete(now, fence(1))

    assert when.names(when.complete(now, fence(2))) == ["Completed"]


def test_pause_command_unavailable__operation_specific_refusal_no_assumed_pause() -> None:
    """The job goes on unheld, and the refusal says what it does support."""
    now = standing([created(controls=("cancel",)), claimed(1)])

    with pytest.raises(ControlUnavailableError) as refusal:
        when.hold(now)

    assert refusal.value.supported == ("cancel",)
    assert now.job.hold is None


def test_event_cursor_too_old__snapshot_and_the_events_behind_it_give_the_whole() -> None:
    """Wherever the boundary lies: what was folded before it, plus what comes behind it, is the job."""
    facts: list[JobEvent] = [
        created(),
        claimed(1),
        checkpointed(1, 4),
        unit_recorded(1),
        hold_placed(),
        paused(1, "hold"),
        hold_released(),
        claimed(2),
        completed(2),
    ]

    for floor in range(1, len(facts)):
        assert fold(facts[floor:], fold(facts[:floor])) == fold(facts)


# First document: the workflow -----------------------------------------------------------------------------------------


def test_queuing_alone_does_not_claim_a_worker() -> None:
    """Step 1."""
    job = replay(decisions.create(when.request(), Met(), now=NOON))

    assert (job.state, job.attempt) == (State.QUEUED, None)


@pytest.mark.parametrize("since", [[claimed(1)], [hold_placed()]], ids=["live lease", "operator hold"])
def test_a_live_lease_or_a_respected_hold_prevents_claiming(since: list[JobEvent]) -> None:
    """Step 2: no pretence that a new worker started."""
    with pytest.raises((LeaseLiveError, HoldInForceError)):
        when.claim(standing([created(), *since]))


def test_progress_is_no_substitute_for_a_terminal_result() -> None:
    """Step 4."""
    job = replay([created(), claimed(1), progress_reported(1, 100, 100)])

    assert (job.state, job.outcome) == (State.RUNNING, None)


def test_recovery_parks_an_expired_attempt_as_paused_never_complete() -> None:
    """Step 5."""
    facts = [created(), claimed(1), progress_reported(1, 100, 100)]

    assert replay([*facts, *when.recover(standing(facts, now=EXPIRY))]).state is State.PAUSED


def test_saved_work_is_resumed_by_release_and_claim() -> None:
    """Step 6: resume alone is restricted to never-leased jobs."""
    facts = [created(), claimed(1), checkpointed(1, 4), hold_placed(), paused(1, "hold")]

    with pytest.raises(NotResumableError):
        when.resume(standing(facts))
    facts += when.release_hold(standing(facts))
    facts += when.claim(standing(facts))

    job = replay(facts)
    assert (job.generation, job.checkpoint) == (2, body(4))


def test_a_cancellation_is_no_rollback() -> None:
    """Step 7: the worker records its boundary; completed work remains evidence."""
    facts = [created(), claimed(1), unit_recorded(1), cancel_requested()]

    ended = when.only(when.cancel(standing(facts)), Cancelled)

    assert (ended.generation, ended.units) == (1, 1)
    assert replay([*facts, ended]).units == 1


def test_a_cancellation_needs_a_request() -> None:
    """Step 7: a worker cannot cancel on its own account."""
    with pytest.raises(CancelNotRequestedError):
        when.cancel(standing([created(), claimed(1)]))


@pytest.mark.parametrize("since", [[], [claimed(1), paused(1)]], ids=["queued", "paused"])
def test_a_lease_free_cancellation_is_a_control_path_of_its_own(since: list[JobEvent]) -> None:
    """Step 8: queued or paused work has no worker that could record the stop."""
    ended = when.only(when.request_cancel(standing([created(), *since])), Cancelled)

    assert ended.generation is None


def test_an_expired_worker_must_not_publish_a_successful_result() -> None:
    """Step 8."""
    with pytest.raises(LeaseExpiredError):
        when.complete(standing([created(), claimed(1)], now=EXPIRY))


def test_complete_partial_failed_and_unavailable_remain_separate_outcomes() -> None:
    """Step 8: and none of them is the cancellation."""
    ends = [
        completed(1, Outcome.COMPLETE),
        completed(1, Outcome.PARTIAL),
        completed(1, Outcome.FAILED),
        completed(1, Outcome.UNAVAILABLE),
    ]

    states = [replay([created(), claimed(1), end]).state for end in ends]

    assert states == [State.COMPLETE, State.PARTIAL, State.FAILED, State.UNAVAILABLE]


# Second document: the recovery contract -------------------------------------------------------------------------------


def test_a_fresh_run_receives_nothing() -> None:
    """Per-run state is reset: there is no checkpoint before the first one."""
    facts = [created()]

    assert replay([*facts, *when.claim(standing(facts))]).checkpoint is None


def test_a_claim_is_pinned_to_its_group_and_epoch() -> None:
    """When the group moves on, every write of the old epoch is fenced off."""
    facts = [created(), claimed(1, group="native", epoch=3)]

    presented = fence(1, group="native", epoch=3)

    assert when.names(when.checkpoint(standing(facts, epoch=3), presented)) == ["Checkpointed"]
    with pytest.raises(StaleEpochError):
        when.checkpoint(standing(facts, epoch=4), presented)


def test_renewal_keeps_the_current_fence() -> None:
    """The generation and the token are those of the claim, however often it was renewed."""
    facts = [created(), claimed(1)]

    renewed = when.renew(standing(facts, now=EXPIRY))

    assert when.names(when.checkpoint(standing([*facts, *renewed], now=EXPIRY), fence(1))) == ["Checkpointed"]


def test_a_new_owner_after_expiry_gets_new_authority() -> None:
    """Another generation and another token."""
    facts = [created(), claimed(1)]

    taken = when.claim(standing(facts, now=EXPIRY))[-1]

    assert isinstance(taken, Claimed)
    assert taken.generation == 2
    assert taken.token_digest != token_digest("secret of claim 1")


@pytest.mark.parametrize("write", [when.checkpoint, when.complete], ids=["checkpoint", "complete"])
def test_a_retained_old_context_cannot_stage_new_protected_effects(write: when.Write) -> None:
    """Neither with a checkpoint nor with a result."""
    now = standing([created(), claimed(1), interrupted(1), claimed(2)])
    effects = [Effect(resource="index", value=1, expected_version=0)]

    with pytest.raises(StaleFenceError):
        write(now, fence(1), effects=effects)


def test_completion_commits_the_staged_effects_with_the_result() -> None:
    """One event holds both."""
    effects = [Effect(resource="index", value=1, expected_version=0)]

    ended = when.only(when.complete(standing([created(), claimed(1)]), effects=effects), Completed)

    assert (ended.result, [effect.resource for effect in ended.effects]) == (body("indexed"), ["index"])


def test_the_index_rebuild_resumes_at_batch_four() -> None:
    """The worked scenario: the first worker saves 4 and disappears, a replacement restores 4 under a newer fence."""
    facts: list[JobEvent] = [created()]
    facts += when.claim(standing(facts), worker="first")
    for batch in range(1, 5):
        facts += when.checkpoint(standing(facts), fence(1), step=batch, state=batch)
    facts += when.recover(standing(facts, now=EXPIRY))
    facts += when.claim(standing(facts, now=EXPIRY), worker="replacement")

    job = replay(facts)

    assert (job.generation, job.checkpoint) == (2, body(4))
    with pytest.raises(StaleFenceError):
        when.checkpoint(standing(facts, now=EXPIRY), fence(1), step=5, state=5)
    for batch in range(5, 11):
        facts += when.checkpoint(standing(facts, now=EXPIRY), fence(2), step=batch, state=batch)
    facts += when.complete(standing(facts, now=EXPIRY), fence(2), step=11, result="p7:complete")
    assert replay(facts).result == body("p7:complete")


def test_a_committed_completion_remains_completed_after_recovery() -> None:
    """A lost reply is no lost result: reading the job is enough."""
    facts = [created(), claimed(1), completed(1)]

    with pytest.raises(AlreadyTerminalError):
        when.recover(standing(facts, now=EXPIRY + HOUR))
    with pytest.raises(AlreadyTerminalError):
        when.claim(standing(facts, now=EXPIRY + HOUR))


def test_recovery_of_a_parked_job_changes_nothing() -> None:
    """Recovery may be asked any number of times."""
    with pytest.raises(NothingToRecoverError):
        when.recover(standing([created(), claimed(1), interrupted(1)], now=EXPIRY))


def test_a_submission_is_answered_by_what_was_recorded() -> None:
    """``submit("submit-42", "rebuild-42", …)`` twice is one job."""
    job = replay([created(key="rebuild-42", submission="submit-42")])

    again = decisions.create(when.request(submission="submit-42"), Met(job=job, submitted=job), now=NOON)

    assert again == []


def test_a_separate_submission_requires_its_own_business_identity() -> None:
    """Another submission id for the same identity is refused."""
    job = replay([created(key="rebuild-42", submission="submit-42")])

    with pytest.raises(JobExistsError):
        decisions.create(when.request(submission="submit-43"), Met(job=job), now=NOON)


def test_cancellation_and_failure_are_no_proof_that_the_code_has_stopped() -> None:
    """So the old fence is refused for good, rather than trusted to be silent."""
    facts = [created(), claimed(1), cancel_requested()]
    ended = [*facts, *when.fail_attempt(standing(facts))]

    with pytest.raises(AlreadyTerminalError):
        when.checkpoint(standing(ended), fence(1), step=9)
