"""The page of the state machine is what the code says, and says what the hand-written table says."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any, Final

import pytest

from tests.domain.standings import STANDINGS
from tests.domain.test_matrix import MATRIX, expected

ROOT: Final = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    """The program that writes the page, loaded without being run."""
    return runpy.run_path(str(ROOT / "scripts" / "describe_states"))


def test_the_page_of_the_state_machine_is_current(script: dict[str, Any]) -> None:
    """Whoever changes a rule sees the change on the page, and reviews it there."""
    written = (ROOT / "docs" / "states.md").read_text(encoding="utf-8")

    assert written == script["page"](), "run scripts/describe_states and look at what changed"


def test_the_page_describes_every_standing(script: dict[str, Any]) -> None:
    """It reaches by commands what the table of the tests is given as facts."""
    assert list(script["standings"]()) == list(STANDINGS)


@pytest.mark.parametrize("name", STANDINGS)
def test_the_page_says_what_the_table_says(script: dict[str, Any], name: str) -> None:
    """Two ways to the same standing, one answer."""
    answers = {command: cell.answer for command, cell in script["cells"]()[name].items()}

    assert answers == {command: expected(command, name) for command in answers}
    assert set(answers) <= set(MATRIX)
