"""Edges of decisions that examples elsewhere do not reach: budgets beyond their use, large numbers, other orders."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from jobledger.domain import decisions
from jobledger.domain.decisions.claiming import Claimable, claimable
from jobledger.domain.decisions.creating import JobRequest, Met, prepare, require_operator, require_sequence
from jobledger.domain.decisions.working import StagedEffect, require_outcome, stage
from jobledger.domain.errors import (
    AdmissionRefusedError,
    BudgetExhaustedError,
    EffectConflictError,
    HoldInForceError,
    InvalidRequestError,
    JobExistsError,
    NotHeldError,
    PayloadChangedError,
    SequenceMovedError,
    StaleEpochError,
    UnknownSequenceError,
)
from jobledger.domain.events import Cancelled, Completed, Created, Interrupted, JobEvent, RetryRequested
from jobledger.domain.job import ENGINE, Job
from jobledger.domain.policies import Policy
from jobledger.domain.values import keep
from tests.domain import when
from tests.domain.given import (
    EXPIRY,
    HOUR,
    NOON,
    SECOND,
    attempt_failed,
    claimed,
    completed,
    created,
    fence,
    hold_placed,
    hold_released,
    interrupted,
    paused,
    replay,
    standing,
)
from tests.domain.when import derived, only, request

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobledger.domain.lease import Standing

MANY: Final = 1_000
"""Beyond the numbers that Python keeps once only, so that nobody can compare identities unnoticed."""


def made_anew(text: str) -> str:
    """An equal text that is another object, as texts from a store are."""
    return "".join(list(text))


def with_counts(now: Standing, *, interrupts: int = 0, failures: int = 0, **policy: int) -> Standing:
    """The same standing with other counts and limits."""
    changes = Policy(**policy).changes()  # type: ignore[arg-type]  # limits that are counts
    return replace(now, job=replace(now.job, interrupts=interrupts, failures=failures, policy_changes=changes))


# Budgets --------------------------------------------------------------------------------------------------------------

PARKED: Final[list[JobEvent]] = [created(), claimed(1), interrupted(1)]


@pytest.mark.parametrize(("interrupts", "limit"), [(2, 2), (3, 2), (MANY, MANY), (MANY + 1, MANY)])
def test_a_budget_that_is_used_up_and_more_binds_every_claim(interrupts: int, limit: int) -> None:
    now = with_counts(standing(PARKED), interrupts=interrupts, interrupts_max=limit)

    assert claimable(now.job) is Claimable.NEVER
    with pytest.raises(BudgetExhaustedError) as refusal:
        when.claim(now)

    assert refusal.value.interrupts == interrupts


@pytest.mark.parametrize(("interrupts", "limit"), [(1, 2), (MANY - 1, MANY)])
def test_the_last_interruption_of_a_budget_is_no_claims_to_cause(interrupts: int, limit: int) -> None:
    now = with_counts(standing([created(), claimed(1)], now=EXPIRY), interrupts=interrupts, interrupts_max=limit)

    assert claimable(now.job) is Claimable.WHEN_FENCED
    with pytest.raises(BudgetExhaustedError) as refusal:
        when.claim(now)

    assert refusal.value.interrupts == limit


@pytest.mark.parametrize(("failures", "limit"), [(1, 2), (5, 2), (MANY - 1, MANY)])
def test_failures_at_and_beyond_their_budget_end_the_job(failures: int, limit: int) -> None:
    now = with_counts(standing([created(), claimed(1)]), failures=failures, failures_max=limit)

    only(when.fail_attempt(now), Completed)


@pytest.mark.parametrize(("interrupts", "failures"), [(1, 1), (1, 0), (0, 1), (MANY, MANY)])
def test_a_retry_renews_any_budget_that_was_touched(interrupts: int, failures: int) -> None:
    now = with_counts(standing(PARKED), interrupts=interrupts, failures=failures, interrupts_max=MANY * 2)

    only(decisions.retry(now, by="ann", reason="mended"), RetryRequested)


def test_work_that_has_been_due_for_long_needs_no_retry() -> None:
    assert decisions.retry(standing([created()], now=NOON + HOUR), by="ann", reason="now") == []


# Holds and who placed them --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["ann", "zoe", "Engine", "engineer"])
def test_an_operators_hold_does_not_bind_who_ignores_holds(by: str) -> None:
    assert when.claim(standing([created(), hold_placed(by)]), respect_hold=False)
    require_operator(by, "to look")


def test_an_engine_hold_binds_whoever_read_its_name_from_where() -> None:
    held = standing([created(), hold_placed(made_anew(ENGINE))])

    with pytest.raises(HoldInForceError):
        when.claim(held, respect_hold=False)
    with pytest.raises(InvalidRequestError):
        require_operator(made_anew(ENGINE), "to look")


def test_a_claim_respects_holds_unless_it_says_otherwise() -> None:
    terms: dict[str, Any] = {"worker": "w", "lease": HOUR, "group": "g", "epoch": 1, "current_epoch": 1}

    with pytest.raises(HoldInForceError):
        decisions.claim(standing([created(), hold_placed()]), token_digest="t", **terms)


def test_an_operator_is_known_by_name() -> None:
    """Holding and releasing again is answered as reused, also by a text that is another object."""
    held = standing([created(), hold_placed("operator")])
    released = standing([created(), hold_placed("operator"), hold_released("operator")])

    assert decisions.hold(held, by=made_anew("operator"), reason="r") == []
    assert decisions.release_hold(released, by=made_anew("operator"), reason="r") == []
    with pytest.raises(NotHeldError):
        decisions.release_hold(released, by="another", reason="r")


# Numbers --------------------------------------------------------------------------------------------------------------


def test_a_claim_of_a_large_epoch_is_compared_by_value() -> None:
    queued = standing([created()])
    same = int(str(MANY))

    assert when.claim(queued, epoch=same, current_epoch=MANY)
    with pytest.raises(StaleEpochError):
        when.claim(queued, epoch=MANY + 1, current_epoch=MANY)


def test_an_expected_sequence_is_compared_by_value_in_both_directions() -> None:
    far = standing([created()])
    far = replace(far, job=replace(far.job, sequence=MANY, control_sequence=MANY))

    assert decisions.hold(far, by="ann", reason="r", expected_sequence=int(str(MANY)))
    for moved in (MANY - 1, MANY + 1):
        with pytest.raises(SequenceMovedError):
            decisions.hold(far, by="ann", reason="r", expected_sequence=moved)


def test_a_large_version_is_compared_by_value() -> None:
    staged = (StagedEffect("r", int(str(MANY)), keep("effect", 1)),)
    now, own = standing([created(), claimed(1)]), fence(1)
    state = keep("state", 1).body

    assert decisions.checkpoint(now, own, 1, state=state, effects=staged, versions={"r": MANY})
    with pytest.raises(EffectConflictError):
        decisions.checkpoint(now, own, 1, state=state, effects=staged, versions={"r": MANY + 1})


def test_a_running_job_is_taken_over_by_its_lease_alone() -> None:
    """What it was waiting for once is no matter while it runs."""
    now = standing([created(), claimed(1)], now=EXPIRY)
    now = replace(now, job=replace(now.job, ready_at=EXPIRY + HOUR))

    assert [type(event).__name__ for event in when.claim(now)] == ["Interrupted", "Claimed"]


def test_an_interruption_records_the_expiry_that_was_seen() -> None:
    """The one that renewals moved, or now where its row is gone."""
    renewed = standing([created(), claimed(1)], now=NOON + HOUR, lease=EXPIRY + SECOND)
    gone = replace(renewed, lease=None)

    assert only(decisions.recover(renewed), Interrupted).expires_at == EXPIRY + SECOND
    assert only(decisions.recover(gone), Interrupted).expires_at == NOON + HOUR


# Creating -------------------------------------------------------------------------------------------------------------


def of_submission(submission: str | None, payload: Any = None, job_id: str = "b") -> Job:
    """A job that was submitted."""
    return replace(
        replay(decisions.create(request(submission=submission, payload=payload, job_id=job_id), Met(), now=NOON)),
        id=job_id,
    )


@pytest.mark.parametrize("other", ["a", "c"])
def test_a_submission_of_another_job_is_refused_whichever_id_is_larger(other: str) -> None:
    new = request(submission="s", job_id="b")

    assert decisions.create(new, Met(submitted=of_submission("s", job_id=made_anew("b"))), now=NOON) == []
    with pytest.raises(PayloadChangedError):
        decisions.create(new, Met(submitted=of_submission("s", job_id=other)), now=NOON)


def test_a_submission_with_another_payload_is_refused_whichever_mark_is_larger() -> None:
    marks = sorted((request(payload=number).fingerprint, number) for number in range(2))
    for (_, mine), (_, theirs) in (marks, marks[::-1]):
        new = request(submission="s", payload=mine, job_id="b")
        with pytest.raises(PayloadChangedError):
            decisions.create(new, Met(submitted=of_submission("s", theirs)), now=NOON)


@pytest.mark.parametrize("other", ["a", "c"])
def test_another_submission_of_a_known_key_is_refused_whichever_is_larger(other: str) -> None:
    with pytest.raises(JobExistsError):
        decisions.create(request(submission="b"), Met(job=of_submission(other)), now=NOON)


def test_the_same_submission_of_a_known_key_finds_its_job() -> None:
    new, known = request(submission="submission"), of_submission(made_anew("submission"))

    assert decisions.create(new, Met(job=known), now=NOON) == []
    assert decisions.create(request(), Met(job=known), now=NOON) == []


@pytest.mark.parametrize(("queued", "depth"), [(2, 2), (5, 2), (MANY, MANY)])
def test_a_queue_at_and_beyond_its_depth_admits_no_job(queued: int, depth: int) -> None:
    new = request(policy=Policy(queue_depth_max=depth))

    with pytest.raises(AdmissionRefusedError):
        decisions.create(new, Met(queued=queued), now=NOON)
    only(decisions.create(new, Met(queued=depth - 1), now=NOON), Created)


def test_a_create_meets_nobody_unless_it_is_said() -> None:
    assert Met() == Met(job=None, submitted=None, queued=0, unadmitted=None)
    only(decisions.create(request(policy=Policy(queue_depth_max=1)), Met(), now=NOON), Created)


def test_a_label_may_be_empty() -> None:
    asked = JobRequest(owner="o", kind="k", key="k", labels={"flag": ""})

    assert prepare(asked, job_id="j", namespace="n", policies={}).request.labels == {"flag": ""}


def test_a_request_asks_for_nothing_special_unless_it_says_so() -> None:
    plain = JobRequest(owner="o", kind="k")

    assert (plain.priority, plain.queue, plain.policy, plain.key, plain.ready_at) == (
        0,
        "default",
        "default",
        None,
        None,
    )
    assert JobRequest(owner="o", kind="k", controls=cast("tuple[str, ...]", ["pause"])).controls == ("pause",)


def test_forks_of_two_sequences_have_two_marks() -> None:
    source = replay([created(), claimed(1), paused(1)])
    earlier = replace(source, sequence=2)

    marks = {derived(job, how="fork").fingerprint for job in (source, earlier)}

    assert len(marks) == 2


def test_a_key_that_is_taken_is_named() -> None:
    source, taken = replay([created(), claimed(1), completed(1)]), replay([created(key="again")])

    for decide in (decisions.rerun, decisions.fork):
        with pytest.raises(JobExistsError) as refusal:
            decide(derived(source, how="rerun", key="again"), source, Met(job=taken), now=NOON)
        assert refusal.value.key == "again"


def test_effects_are_a_list_of_effects() -> None:
    with pytest.raises(InvalidRequestError, match="a list of Effect is needed, not str"):
        stage("effects")  # type: ignore[arg-type]  # the mistake


def test_an_unknown_sequence_is_named_as_it_was_asked_for() -> None:
    job = replay([created()])
    for asked, named in ((7, 7), (0, 0), ("7", "not '7'"), (True, "not True"), (1.0, "not 1.0")):
        with pytest.raises(UnknownSequenceError) as refusal:
            require_sequence(job, asked)
        assert refusal.value.sequence == named


# Words ----------------------------------------------------------------------------------------------------------------


def test_a_mistaken_outcome_is_told_all_that_a_worker_may_publish() -> None:
    with pytest.raises(InvalidRequestError) as refusal:
        require_outcome("done", None, None, ())

    assert "one of complete, partial, failed, unavailable is needed" in str(refusal.value)
    assert Cancelled.__name__.lower() not in str(refusal.value)


DECISIONS: Final[dict[str, Callable[..., object]]] = {
    name: function for name, function in vars(decisions).items() if inspect.isfunction(function)
}


@pytest.mark.parametrize("name", DECISIONS)
def test_what_a_decision_is_about_is_given_by_name(name: str) -> None:
    """Only the job, the fence, the step, and what is created come in order; nobody mixes up two texts."""
    in_order = {"job", "standing", "fence", "step", "new", "source", "met"}
    for parameter in inspect.signature(DECISIONS[name]).parameters.values():
        is_first = parameter.name in in_order
        expected = parameter.POSITIONAL_OR_KEYWORD if is_first else parameter.KEYWORD_ONLY
        assert parameter.kind is expected, parameter.name


def test_failures_and_ends_of_other_examples_stand() -> None:
    """The control: an untouched budget ends nothing."""
    now = with_counts(standing([created(), claimed(1)]), failures=0, failures_max=2)

    assert [type(event).__name__ for event in when.fail_attempt(now)] == ["AttemptFailed"]
    assert replay([created(), claimed(1), attempt_failed(1)]).failures == 1
    assert replay([created(), claimed(1), completed(1)]).is_terminal
