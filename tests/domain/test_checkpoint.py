"""Checkpoints: saved application state, and the effects that are committed with it."""

from typing import Any

import pytest

from jobledger.domain.bounds import EFFECTS_MAX
from jobledger.domain.decisions.working import Effect, stage
from jobledger.domain.errors import (
    CheckpointTooLargeError,
    EffectConflictError,
    InvalidRequestError,
    OutOfOrderError,
    ResultTooLargeError,
    UnstorableValueError,
)
from jobledger.domain.events import Checkpointed, JobEvent
from jobledger.domain.job import State, evolve
from jobledger.domain.policies import Policy
from jobledger.domain.values import INLINE_BYTES_MAX, keep
from tests.domain import when
from tests.domain.given import (
    NOON,
    SECOND,
    attempt_failed,
    body,
    cancel_requested,
    checkpointed,
    claimed,
    created,
    hold_placed,
    interrupted,
    replay,
    standing,
)

OPEN: list[JobEvent] = [created(), claimed(1)]


def test_a_checkpoint_saves_the_state_from_which_the_next_attempt_starts() -> None:
    """It is part of the history and of the job, with the sequence at which it was saved."""
    now = standing(OPEN, now=NOON + SECOND)

    saved = when.only(when.checkpoint(now, state={"next": 4}), Checkpointed)

    assert (saved.generation, saved.at, saved.state, saved.effects) == (1, NOON + SECOND, body({"next": 4}), ())
    job = evolve(now.job, saved)
    assert (job.state, job.checkpoint, job.checkpoint_sequence) == (State.RUNNING, body({"next": 4}), 3)


def test_the_newest_checkpoint_counts() -> None:
    """Each one replaces the one before."""
    job = replay([*OPEN, checkpointed(1, 4), checkpointed(1, 5)])

    assert (job.checkpoint, job.checkpoint_sequence) == (body(5), 4)


@pytest.mark.parametrize("asked", ["hold", "cancel"])
def test_requests_do_not_stop_a_checkpoint(asked: str) -> None:
    """The attempt saves what it has before it answers them."""
    now = standing([*OPEN, hold_placed() if asked == "hold" else cancel_requested()])

    assert when.names(when.checkpoint(now)) == ["Checkpointed"]


def test_a_checkpoint_may_be_as_large_as_the_policy_says_and_not_a_byte_larger() -> None:
    """Nothing was saved, and the last checkpoint stands; both sizes are told."""
    facts = [created(policy=Policy(checkpoint_bytes_max=10)), claimed(1)]

    assert when.names(when.checkpoint(standing(facts), state="x" * 8)) == ["Checkpointed"]
    with pytest.raises(CheckpointTooLargeError) as refusal:
        when.checkpoint(standing(facts), state="x" * 9)
    assert (refusal.value.size, refusal.value.limit) == (11, 10)


def test_a_large_state_is_kept_aside_and_the_event_carries_digest_and_size() -> None:
    """4 KiB stand in the event, one byte more does not."""
    fits, larger = "x" * (INLINE_BYTES_MAX - 2), "x" * (INLINE_BYTES_MAX - 1)

    inline, aside = keep("state", fits), keep("state", larger)

    assert (inline.body.value, inline.body.digest, inline.aside) == (fits, "", None)
    assert (aside.body.value, aside.body.size) == (None, INLINE_BYTES_MAX + 1)
    assert len(aside.body.digest) == 64
    assert aside.aside == f'"{larger}"'.encode()


def test_a_checkpoint_is_refused_in_the_stated_order() -> None:
    """The fence, the size, then what the effects meet."""
    facts = [created(policy=Policy(checkpoint_bytes_max=2)), claimed(1)]
    conflict = [Effect(resource="index", value=1, expected_version=3)]

    with pytest.raises(OutOfOrderError):
        when.checkpoint(standing(facts, step=1), state="xx", effects=conflict)
    with pytest.raises(CheckpointTooLargeError):
        when.checkpoint(standing(facts), state="xx", effects=conflict)
    with pytest.raises(EffectConflictError):
        when.checkpoint(standing(facts), state=1, effects=conflict)


# Effects --------------------------------------------------------------------------------------------------------------


def test_staged_effects_are_committed_with_the_checkpoint() -> None:
    """Each resource moves on by one version; absent is version 0."""
    effects = [
        Effect(resource="index", value={"n": 1}, expected_version=0),
        Effect(resource="alias", value="a", expected_version=7),
    ]

    saved = when.only(when.checkpoint(standing(OPEN), effects=effects, versions={"alias": 7}), Checkpointed)

    assert [(each.resource, each.version, each.value) for each in saved.effects] == [
        ("index", 1, body({"n": 1})),
        ("alias", 8, body("a")),
    ]


@pytest.mark.parametrize(
    ("expected", "versions", "current"),
    [(0, {"index": 1}, 1), (1, {}, 0), (2, {"index": 1}, 1), (1, {"index": 2}, 2)],
    ids=["exists", "absent", "ahead", "behind"],
)
def test_an_effect_on_a_changed_resource_commits_nothing(expected: int, versions: dict[str, int], current: int) -> None:
    """Neither the state nor the other effects; the refusal names the resource and both versions."""
    effects = [
        Effect(resource="other", value=1, expected_version=0),
        Effect(resource="index", value=1, expected_version=expected),
    ]

    with pytest.raises(EffectConflictError) as refusal:
        when.checkpoint(standing(OPEN), effects=effects, versions=versions)

    assert (refusal.value.resource, refusal.value.expected, refusal.value.current) == ("index", expected, current)


def test_an_effects_value_is_bounded_as_a_result_is() -> None:
    """One byte more is refused."""
    facts = [created(policy=Policy(result_bytes_max=4)), claimed(1)]

    def write(value: str) -> list[JobEvent]:
        return when.checkpoint(standing(facts), effects=[Effect(resource="r", value=value, expected_version=0)])

    assert len(write("xx")) == 1
    with pytest.raises(ResultTooLargeError):
        write("xxx")


def test_one_effect_per_resource_and_step() -> None:
    """Two writes of one resource have no order among themselves."""
    twice = [Effect(resource="r", value=n, expected_version=n) for n in (0, 1)]

    with pytest.raises(InvalidRequestError, match="one effect per resource"):
        stage(twice)


def test_the_number_of_effects_is_bounded() -> None:
    """As every list is."""
    effects = [Effect(resource=str(n), value=1, expected_version=0) for n in range(EFFECTS_MAX + 1)]

    assert len(stage(effects[:-1])) == EFFECTS_MAX
    with pytest.raises(InvalidRequestError):
        stage(effects)


@pytest.mark.parametrize(
    "fields",
    [{"resource": ""}, {"resource": "x" * 256}, {"expected_version": -1}, {"expected_version": 2**63}],
    ids=str,
)
def test_an_effect_out_of_its_bounds_is_refused(fields: dict[str, Any]) -> None:
    """Before anything is decided."""
    values: dict[str, Any] = {"resource": "r", "value": 1, "expected_version": 0} | fields
    effect = Effect(**values)

    with pytest.raises(InvalidRequestError):
        stage([effect])


@pytest.mark.parametrize("fields", [{"value": float("nan")}, {"value": "\0"}, {"resource": "\ud800"}], ids=repr)
def test_an_effect_that_no_store_may_hold_is_refused(fields: dict[str, Any]) -> None:
    """Values and names follow the rules of payloads."""
    values: dict[str, Any] = {"resource": "r", "value": 1, "expected_version": 0} | fields
    effect = Effect(**values)

    with pytest.raises(UnstorableValueError):
        stage([effect])


def test_an_effect_needs_its_expected_version() -> None:
    """There is no default that overwrites blindly."""
    blind: dict[str, Any] = {"resource": "r", "value": 1}

    with pytest.raises(InvalidRequestError, match="expected_version"):
        Effect(**blind)


@pytest.mark.parametrize("mistaken", [{"resource": "r"}, ("r", 1, 0), None], ids=repr)
def test_what_is_no_effect_is_refused(mistaken: object) -> None:
    """A look-alike would skip the checks."""
    with pytest.raises(InvalidRequestError, match="Effect"):
        stage([mistaken])  # type: ignore[list-item]  # the mistake under test


# Progress, and what is retained ---------------------------------------------------------------------------------------


def test_a_state_that_differs_renews_the_budget() -> None:
    """The attempt got somewhere."""
    facts = [created(), claimed(1), attempt_failed(1), claimed(2), interrupted(2), claimed(3)]
    assert (replay(facts).interrupts, replay(facts).failures) == (1, 1)

    job = replay([*facts, checkpointed(3, 4)])

    assert (job.interrupts, job.failures) == (0, 0)


@pytest.mark.parametrize(("first", "second"), [(1, 1.0), (1, True), ({"a": 1, "b": 2}, {"a": 1, "b": 3}), (None, 0)])
def test_states_that_are_written_differently_differ(first: object, second: object) -> None:
    """What is compared are the bytes that are stored."""
    facts = [created(), claimed(1), checkpointed(1, first), interrupted(1), claimed(2)]

    assert replay([*facts, checkpointed(2, second)]).interrupts == 0


@pytest.mark.parametrize("state", [None, 4, {"a": [1, 2]}, "x" * 5_000], ids=["null", "number", "object", "large"])
def test_the_same_state_again_is_no_progress(state: object) -> None:
    """A crash loop that saves what it found is a crash loop all the same."""
    facts = [created(), claimed(1), checkpointed(1, state), interrupted(1), claimed(2)]

    job = replay([*facts, checkpointed(2, state)])

    assert job.interrupts == 1
    assert job.checkpoint_sequence == 6


def test_old_checkpoint_bodies_are_retained_up_to_the_policys_number() -> None:
    """Only bodies that are kept aside count; the newest is always among them."""
    facts: list[JobEvent] = [created(policy=Policy(checkpoints_keep=2)), claimed(1)]
    states = [f"{n}" * 5_000 for n in range(4)]
    for state in states:
        facts += [checkpointed(1, state), checkpointed(1, 1)]

    job = replay(facts)

    assert job.kept == (body(states[2]).digest, body(states[3]).digest)


def test_a_state_that_comes_back_is_retained_once() -> None:
    """The same bytes are one body, and the newest mention counts."""
    large, other = "a" * 5_000, "b" * 5_000
    facts = [*OPEN, checkpointed(1, large), checkpointed(1, other), checkpointed(1, large)]

    assert replay(facts).kept == (body(other).digest, body(large).digest)
