"""Every invariant notices a violation that was made by hand, and stands in docs/guarantees.md."""

from __future__ import annotations

import pytest

from tests.domain.given import checkpointed
from tests.proof import guarantees
from tests.proof.history import History, Transition
from tests.proof.invariants import (
    ANSWER_INVARIANTS,
    HARNESS_INVARIANTS,
    HISTORY_INVARIANTS,
    INVARIANTS,
    STEP_INVARIANTS,
    check_answer,
    check_history,
    check_step,
)
from tests.proof.planted import ANSWERS, HISTORIES, OPEN, STEPS, log, met, stands, step


def _broken_by(transition: Transition) -> set[str]:
    found = check_step(
        transition.before,
        transition.event,
        transition.after,
        leading=transition.leading,
        following=transition.following,
        standing=transition.standing,
        met=transition.met,
    )
    return {violation.invariant for violation in found}


@pytest.mark.parametrize("name", STEPS)
def test_a_planted_step_is_noticed(name: str) -> None:
    assert name in _broken_by(STEPS[name]())


@pytest.mark.parametrize("name", ANSWERS)
def test_a_planted_answer_is_noticed(name: str) -> None:
    assert name in {violation.invariant for violation in check_answer(ANSWERS[name]())}


@pytest.mark.parametrize("name", HISTORIES)
def test_a_planted_history_is_noticed(name: str) -> None:
    assert name in {violation.invariant for violation in check_history(HISTORIES[name]())}


def test_every_invariant_has_a_planted_violation() -> None:
    assert STEPS.keys() == {invariant.name for invariant in STEP_INVARIANTS}
    assert ANSWERS.keys() == {invariant.name for invariant in ANSWER_INVARIANTS}
    assert HISTORIES.keys() == {invariant.name for invariant in HISTORY_INVARIANTS}


def test_what_is_lawful_is_left_alone() -> None:
    """That real histories are is what the simulation shows; here it is the ground that the planted ones stand on."""
    assert _broken_by(met(step(OPEN, checkpointed(1)), stands(OPEN))) == set()
    assert check_history(History(log())) == []


def test_names_and_sentences_are_used_once() -> None:
    assert len({invariant.name for invariant in INVARIANTS}) == len(INVARIANTS)
    assert len({invariant.sentence for invariant in INVARIANTS}) == len(INVARIANTS)
    assert all(invariant.sentence.endswith((".", ")")) and invariant.group for invariant in INVARIANTS)


def test_the_harness_notices_what_no_predicate_can() -> None:
    assert [invariant.name for invariant in HARNESS_INVARIANTS] == ["no_surprises"]


def test_the_page_of_guarantees_is_current() -> None:
    assert guarantees.PAGE.read_text(encoding="utf-8") == guarantees.page(), "run scripts/describe_guarantees"
