"""Each explanation in docs/mutants.md is of a mutant that is there: what is gone needs no excuse."""

from __future__ import annotations

import re

import pytest

from tests.proof import explanations as page
from tests.proof import sql_mutants
from tests.proof.explanations import Explanation, explanations, gone, source_of

KNOWN = Explanation("domain/job.py", "assert_never(event) -> pass", "never reached")


def test_what_is_explained_of_the_domain_is_there_to_be_explained() -> None:
    left = gone(explanations("Domain"), source_of)

    assert not left, (
        "docs/mutants.md explains changes of lines that are gone: delete these explanations there. "
        "`scripts/mutate FILE` says whether the lines in their place need any.\n"
        + "\n".join(f"  {each.place}: {each.before}" for each in left)
    )


def test_what_is_explained_of_the_statements_is_there_to_be_explained() -> None:
    files = {*sql_mutants.FILES, *(path.name for path in sql_mutants.STORAGE.glob("sqlite_*.py"))}
    left = sql_mutants.explained() - {mutant.label for file in files for mutant in sql_mutants.mutants_of(file)}

    assert not left, (
        "docs/mutants.md explains changes of statements that are gone: delete these explanations there, and run "
        "`python -m tests.proof.sql_mutants`, which names what the new statements need:\n  " + "\n  ".join(sorted(left))
    )


@pytest.mark.parametrize(
    ("source", "is_gone"),
    [
        ("def evolve():\n    assert_never(event)\n", False),
        ("def evolve():\n    assert_never(events)\n", True),
        ("def evolve():\n    x = assert_never(event)\n", True),
        ("def evolve():\n    assert_never(\n    event)\n", True),
        ("", True),
    ],
)
def test_an_explanation_of_what_is_gone_is_noticed(source: str, is_gone: bool) -> None:
    """The control."""
    assert gone([KNOWN], lambda _: source) == ([KNOWN] if is_gone else [])


def test_lines_are_found_one_after_the_other() -> None:
    over_two = Explanation("domain/job.py", "msg = x raise ValueError(msg) -> pass", "nobody gets there")

    assert gone([over_two], lambda _: "if x:\n    msg = x\n    raise ValueError(msg)\nreturn x\n") == []


@pytest.mark.parametrize("change", ["a -> b", "def f() -> int: -> def f(/) -> int:"])
def test_arrows_of_the_code_are_no_changes(change: str) -> None:
    assert Explanation("domain/job.py", change, "").before in {"a", "def f() -> int:"}


def test_each_is_explained_once() -> None:
    every = [*explanations("Domain"), *explanations("Statements")]

    assert len({(each.place, each.change) for each in every}) == len(every)


def test_a_line_in_another_form_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would explain nothing, and nobody would notice."""
    monkeypatch.setattr(page, "LINE", re.compile("nothing like it"))

    with pytest.raises(ValueError, match="write each explanation"):
        explanations("Domain")
