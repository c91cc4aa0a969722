"""The checker that shares no code with the library finds every broken rule by its name, and so does the library."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from io import BytesIO
from pathlib import Path

import pytest

from jobledger.projections.checking import verify_bundle
from tests.auditing.broken import BROKEN, Broken
from tests.auditing.independent import SCRIPT, check
from tests.auditing.resealing import sealed, taken_apart
from tests.auditing.stories import STORIES, told


@cache
def story(name: str) -> bytes:
    return told(STORIES[name])


@pytest.mark.parametrize("name", STORIES)
def test_a_seal_that_changes_nothing_breaks_nothing(name: str) -> None:
    """The negative control: what the tests below find is what was broken, never the seal."""
    bundle = sealed(taken_apart(story(name)))

    assert check(bundle) == []
    assert all(found.ok for found in verify_bundle(BytesIO(bundle)))


@pytest.mark.parametrize("broken", [pytest.param(broken, id=broken.name) for broken in BROKEN])
def test_each_broken_history_is_found_under_the_rule_it_breaks(broken: Broken) -> None:
    """Although every digest fits: the chain proves that nothing was changed since, the rules that it was legal."""
    draft = taken_apart(story(broken.story))
    broken.edit(draft)
    bundle = sealed(draft)

    checked = {rule for _, _, rule, _ in check(bundle)}
    verified = {problem.rule for found in verify_bundle(BytesIO(bundle)) for problem in found.problems}

    assert broken.rule in checked, (checked, verified)
    assert broken.rule in verified, (checked, verified)


def test_there_are_more_than_a_hundred_of_them() -> None:
    assert len(BROKEN) >= 100
    assert len({broken.name for broken in BROKEN}) == len(BROKEN)


@pytest.mark.parametrize(
    ("old", "new", "rules"),
    [
        (b'"worker":"w1"', b'"worker":"w9"', {"chained", "manifest"}),
        (b'"sequence":3,', b'"sequence":9,', {"contiguous", "manifest"}),
        (b'"position":3,', b'"position":1,', {"position", "order", "manifest"}),
        (b'"state":"complete"', b'"state":"failed"', {"replayed", "manifest"}),
        (b'{"line":"head"', b'{"line":"foot"', {"bundle", "head", "manifest"}),
        (b'{"line":"manifest"', b'{"line":"bundle"', {"bundle", "manifest"}),
        (b'"command_id":"', b'"command_id":"x', {"command", "manifest"}),
    ],
)
def test_a_bundle_that_was_changed_afterwards_is_found(old: bytes, new: bytes, rules: set[str]) -> None:
    """Without a new seal nothing fits any more."""
    bundle = story("completed")
    assert old in bundle

    changed = bundle.replace(old, new, 1)

    for found in (
        {rule for _, _, rule, _ in check(changed)},
        {problem.rule for each in verify_bundle(BytesIO(changed)) for problem in each.problems},
    ):
        assert found & rules, found
        assert found <= rules | {"head", "chained", "contiguous"}, found


def test_every_line_that_is_lost_or_doubled_is_found() -> None:
    """Whichever it is; the last one is the manifest."""
    lines = story("bodies").splitlines(keepends=True)
    for number in range(1, len(lines)):
        for changed in ([*lines[:number], *lines[number + 1 :]], [*lines[:number], lines[number], *lines[number:]]):
            assert check(b"".join(changed)), number
            assert not all(found.ok for found in verify_bundle(BytesIO(b"".join(changed)))), number


def test_the_script_runs_by_itself_and_answers_with_its_exit_code(tmp_path: Path) -> None:
    """Nothing of the project is on its path: -I leaves out all but the standard library."""
    good, bad, none = tmp_path / "good.jsonl", tmp_path / "bad.jsonl", tmp_path / "none.jsonl"
    good.write_bytes(story("held"))
    bad.write_bytes(story("held").replace(b'"by":"ops"', b'"by":"spy"', 1))
    none.write_bytes(b"[]\n")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-S", str(SCRIPT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert run(str(good)).returncode == 0
    told_of = run("--json", str(bad))
    assert told_of.returncode == 4
    assert "chained" in {problem["rule"] for problem in json.loads(told_of.stdout)["problems"]}
    assert run(str(none)).returncode == 2
    assert run().returncode == 2
    assert run(str(tmp_path / "missing")).returncode == 2
