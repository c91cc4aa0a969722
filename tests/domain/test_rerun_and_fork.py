"""Rerun and fork: a new job under its own key, linked to the one it comes from."""

import pytest

from jobledger.domain.decisions import fork, rerun
from jobledger.domain.decisions.creating import Met, NewJob, job_id_of, require_sequence
from jobledger.domain.errors import (
    AdmissionRefusedError,
    InvalidRequestError,
    JobExistsError,
    NotTerminalError,
    UnknownSequenceError,
)
from jobledger.domain.events import Created, JobEvent, Outcome
from jobledger.domain.job import Job, State, fold
from jobledger.domain.policies import Policy
from tests.domain.given import (
    HOUR,
    JOB_ID,
    NOON,
    archived,
    body,
    cancelled,
    checkpointed,
    claimed,
    completed,
    created,
    hold_placed,
    paused,
    replay,
    unit_recorded,
)
from tests.domain.when import derived, only

FAILED: list[JobEvent] = [
    created(policy=Policy(interrupts_max=2), payload={"n": 1}, ready_at=NOON + HOUR, submission="submit-42"),
    claimed(1),
    checkpointed(1, 4),
    unit_recorded(1),
    completed(1, Outcome.FAILED),
]

ENDS: dict[str, list[JobEvent]] = {
    "complete": [claimed(1), completed(1)],
    "partial": [claimed(1), completed(1, Outcome.PARTIAL)],
    "failed": [claimed(1), completed(1, Outcome.FAILED)],
    "unavailable": [claimed(1), completed(1, Outcome.UNAVAILABLE)],
    "cancelled": [cancelled()],
}


def made(new: NewJob, source: Job) -> Job:
    """The job that a rerun makes."""
    return replay(rerun(new, source, Met(), now=NOON))


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_job_that_has_ended_can_be_run_again(end: list[JobEvent]) -> None:
    """However it ended, the new job starts queued and due, with nobody working on it."""
    source = replay([created(), *end])

    job = made(derived(source, how="rerun"), source)

    assert (job.state, job.generation, job.ready_at, job.sequence) == (State.QUEUED, 0, NOON, 1)


def test_a_rerun_takes_over_what_was_asked_and_says_where_it_comes_from() -> None:
    """Kind, payload, policy and controls are those of the source, as they were resolved; key and id are its own."""
    source = replay(FAILED)

    fact = only(rerun(derived(source, how="rerun", payload={"n": 1}), source, Met(), now=NOON), Created)

    assert (fact.job_id, fact.key) == (job_id_of("default", "team-a", "again"), "again")
    assert (fact.owner, fact.kind, fact.payload, fact.queue, fact.controls) == (
        source.owner,
        source.kind,
        source.payload,
        source.queue,
        source.controls,
    )
    assert fact.policy_changes == source.policy_changes
    assert fact.submission is None
    assert fact.origin is not None
    assert (fact.origin.how, fact.origin.of, fact.origin.sequence) == ("rerun", JOB_ID, 5)
    assert (fact.origin.by, fact.origin.reason) == ("ann", "once more")


def test_a_rerun_starts_afresh_unless_it_is_asked_to_start_from_the_checkpoint() -> None:
    """By default the second run owes nothing to the first."""
    source = replay(FAILED)

    afresh = made(derived(source, how="rerun"), source)
    resumed = made(derived(source, how="rerun", from_checkpoint=True), source)

    assert (afresh.checkpoint, afresh.units) == (None, 0)
    assert (resumed.checkpoint, resumed.units) == (body(4), 1)


def test_a_fork_starts_from_the_checkpoint_and_the_receipts_of_its_sequence() -> None:
    """What the source did later is not part of the fork."""
    facts: list[JobEvent] = [
        created(),
        claimed(1),
        checkpointed(1, 4),
        unit_recorded(1),
        checkpointed(1, 9),
        unit_recorded(1, "2"),
    ]
    then = replay(facts[:4])

    new = derived(then, how="fork", from_checkpoint=True)
    fact = only(fork(new, then, Met(), now=NOON), Created)

    assert (fact.checkpoint, fact.units) == (body(4), 1)
    assert fact.origin is not None
    assert (fact.origin.how, fact.origin.sequence) == ("fork", 4)


@pytest.mark.parametrize(
    "since",
    [[], [hold_placed()], [claimed(1)], [claimed(1), paused(1)], [claimed(1), completed(1)]],
    ids=["queued", "held", "running", "paused", "complete"],
)
def test_any_job_can_be_forked_without_being_touched(since: list[JobEvent]) -> None:
    """A fork reads its source; the source needs no end, and goes on."""
    source = replay([created(), *since])

    events = fork(derived(source, how="fork", from_checkpoint=True), source, Met(), now=NOON)

    assert fold(events) is not None


@pytest.mark.parametrize(
    "since",
    [[], [hold_placed()], [claimed(1)], [claimed(1), paused(1)]],
    ids=["queued", "held", "running", "paused"],
)
def test_a_job_that_has_not_ended_is_not_run_again(since: list[JobEvent]) -> None:
    """Two runs of unfinished work would race; the refusal points to fork."""
    source = replay([created(), *since])

    with pytest.raises(NotTerminalError) as refusal:
        rerun(derived(source, how="rerun"), source, Met(), now=NOON)

    assert "fork" in str(refusal.value)


@pytest.mark.parametrize("how", ["rerun", "fork"])
def test_the_same_origin_and_key_again_are_reused(how: str) -> None:
    """Whoever asks, and whatever reason is given: one wish makes one job."""
    source = replay(FAILED)
    decide = rerun if how == "rerun" else fork
    kind = "rerun" if how == "rerun" else "fork"
    first = replay(decide(derived(source, how=kind), source, Met(), now=NOON))  # type: ignore[arg-type]  # one of the two

    again = derived(source, how=kind, by="bob", reason="I did not see yours")  # type: ignore[arg-type]  # one of the two

    assert decide(again, source, Met(job=first), now=NOON + HOUR) == []


def test_a_rerun_is_reused_also_after_its_source_was_archived() -> None:
    """The origin is the ended job; what upkeep appends to it later makes no other origin."""
    source = replay(FAILED)
    first = replay(rerun(derived(source, how="rerun"), source, Met(), now=NOON))
    kept_away = replay([*FAILED, archived()])

    assert rerun(derived(kept_away, how="rerun"), kept_away, Met(job=first), now=NOON) == []


@pytest.mark.parametrize(
    "other",
    ["plain", "fork", "rerun from its checkpoint"],
)
def test_a_key_that_belongs_to_another_job_is_refused(other: str) -> None:
    """Another origin under the same key is another job, also when only the starting point differs."""
    source = replay(FAILED)
    holder = {
        "plain": replay([created()]),
        "fork": replay(fork(derived(source, how="fork"), source, Met(), now=NOON)),
        "rerun from its checkpoint": made(derived(source, how="rerun", from_checkpoint=True), source),
    }[other]

    with pytest.raises(JobExistsError) as refusal:
        rerun(derived(source, how="rerun"), source, Met(job=holder), now=NOON)

    assert (refusal.value.job_id, refusal.value.key) == (holder.id, "again")


def test_forks_at_two_sequences_are_two_origins() -> None:
    """One key cannot stand for both."""
    early, late = replay(FAILED[:3]), replay(FAILED[:4])
    holder = replay(fork(derived(early, how="fork"), early, Met(), now=NOON))

    with pytest.raises(JobExistsError):
        fork(derived(late, how="fork"), late, Met(job=holder), now=NOON)


def test_a_rerun_is_refused_in_the_stated_order() -> None:
    """A key that belongs to another job first, then an end that has not come, then whether there is room."""
    source = replay([created(), claimed(1)])
    holder = replay([created()])

    with pytest.raises(JobExistsError):
        rerun(derived(source, how="rerun"), source, Met(job=holder), now=NOON)
    with pytest.raises(NotTerminalError):
        rerun(derived(source, how="rerun"), source, Met(unadmitted="closed"), now=NOON)
    ended = replay([created(), claimed(1), completed(1)])
    with pytest.raises(AdmissionRefusedError):
        rerun(derived(ended, how="rerun"), ended, Met(unadmitted="closed"), now=NOON)
    with pytest.raises(AdmissionRefusedError):
        fork(derived(source, how="fork"), source, Met(unadmitted="closed"), now=NOON)


@pytest.mark.parametrize("sequence", [0, -1, 6, 2**70, True, 1.0, "3", None])
def test_a_sequence_that_the_history_does_not_have_is_refused(sequence: object) -> None:
    """The refusal says how far the history reaches."""
    job = replay(FAILED)

    with pytest.raises(UnknownSequenceError) as refusal:
        require_sequence(job, sequence)

    assert refusal.value.head == 5
    assert [require_sequence(job, known) for known in (1, 5)] == [1, 5]


@pytest.mark.parametrize(
    "mistake",
    [{"key": ""}, {"key": "x" * 256}, {"by": ""}, {"by": "engine"}, {"reason": ""}],
    ids=str,
)
def test_a_rerun_names_its_key_its_operator_and_its_reason(mistake: dict[str, str]) -> None:
    """Nothing is made up for the caller."""
    with pytest.raises(InvalidRequestError):
        derived(replay(FAILED), how="rerun", **mistake)  # type: ignore[arg-type]  # one text argument
