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
    SCHEDULE_STEP_INVARIANTS,
    STEP_INVARIANTS,
    check_answer,
    check_history,
    check_log,
    check_schedule_step,
    check_step,
)
from tests.proof.planted import ANSWERS, HISTORIES, OPEN, STEPS, log, met, stands, step
from tests.proof.planted_schedules import LAWFUL, SCHEDULE_HISTORIES, SCHEDULE_STEPS
from tests.proof.planted_schedules import history as history_of_schedule

EVERY_HISTORY = {**HISTORIES, **SCHEDULE_HISTORIES}


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


@pytest.mark.parametrize("name", SCHEDULE_STEPS)
def test_a_planted_step_of_a_schedule_is_noticed(name: str) -> None:
    assert name in {violation.invariant for violation in check_schedule_step(SCHEDULE_STEPS[name]())}


@pytest.mark.parametrize("name", LAWFUL)
def test_a_lawful_step_of_a_schedule_is_left_alone(name: str) -> None:
    assert check_schedule_step(LAWFUL[name]()) == []


@pytest.mark.parametrize("name", EVERY_HISTORY)
def test_a_planted_history_is_noticed(name: str) -> None:
    assert name in {violation.invariant for violation in check_history(EVERY_HISTORY[name]())}


def test_every_invariant_has_a_planted_violation() -> None:
    assert STEPS.keys() == {invariant.name for invariant in STEP_INVARIANTS}
    assert ANSWERS.keys() == {invariant.name for invariant in ANSWER_INVARIANTS}
    assert SCHEDULE_STEPS.keys() == {invariant.name for invariant in SCHEDULE_STEP_INVARIANTS}
    assert EVERY_HISTORY.keys() == {invariant.name for invariant in HISTORY_INVARIANTS}


def test_what_is_lawful_is_left_alone() -> None:
    """That real histories are is what the simulation shows; here it is the ground that the planted ones stand on."""
    assert _broken_by(met(step(OPEN, checkpointed(1)), stands(OPEN))) == set()
    assert check_history(History(log())) == []
    assert check_history(history_of_schedule()) == check_log(history_of_schedule()) == []


def test_names_and_sentences_are_used_once() -> None:
    assert len({invariant.name for invariant in INVARIANTS}) == len(INVARIANTS)
    assert len({invariant.sentence for invariant in INVARIANTS}) == len(INVARIANTS)
    assert all(invariant.sentence.endswith((".", ")")) and invariant.group for invariant in INVARIANTS)


def test_the_harness_notices_what_no_predicate_can() -> None:
    assert [invariant.name for invariant in HARNESS_INVARIANTS] == ["no_surprises", "nothing_due"]


def test_the_page_of_guarantees_is_current() -> None:
    assert guarantees.PAGE.read_text(encoding="utf-8") == guarantees.page(), "run scripts/describe_guarantees"
