"""The list of faults names tests that exist, so that none of them is guarded on paper only."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.cases.faults import GUARDED, NOT_YET

TESTS = Path(__file__).resolve().parents[1]


def is_there(test: str) -> bool:
    """Whether a test stands where its name says."""
    file, _, name = test.partition("::")
    path = TESTS / f"{file}.py"
    if not path.exists():
        return False
    found = ast.walk(ast.parse(path.read_text("utf-8")))
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name for node in found)


@pytest.mark.parametrize("kind", GUARDED)
def test_a_fault_is_guarded_by_tests_that_exist(kind: str) -> None:
    assert GUARDED[kind]
    assert [test for test in GUARDED[kind] if not is_there(test)] == []


def test_a_test_that_was_renamed_is_noticed() -> None:
    assert not is_there("cases/test_faults::test_a_fault_is_guarded_by_nobody")
    assert not is_there("cases/test_nowhere::test_a_fault_is_guarded_by_tests_that_exist")


def test_no_fault_is_guarded_and_open_at_once() -> None:
    assert not GUARDED.keys() & NOT_YET.keys()
    assert all(NOT_YET.values())
