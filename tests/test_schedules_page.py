"""The page on schedules is true: its example prints what it says, its file can be applied, its commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

from jobledger.adapters.cli.schedule_files import schedules_of
from jobledger.domain.schedule_events import Reason
from jobledger.domain.schedules.firing import FIRED_MAX, SETTLED_MAX
from jobledger.domain.schedules.operating import BACKFILL_MAX

PAGE = (Path(__file__).parents[1] / "docs" / "schedules.md").read_text(encoding="utf-8")


def _block(language: str) -> str:
    [found] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def test_the_example_prints_what_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(_block("python"), encoding="utf-8")

    run = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )

    assert (run.returncode, run.stderr) == (0, "")
    assert [line.rstrip() for line in run.stdout.splitlines()] == [
        line.rstrip() for line in _block("text").splitlines()
    ]


def test_its_file_holds_schedules(tmp_path: Path) -> None:
    (tmp_path / "schedules.toml").write_text(_block("toml"), encoding="utf-8")

    assert [schedule.name for schedule in schedules_of(str(tmp_path / "schedules.toml"))] == ["nightly", "poll"]


def test_it_names_every_reason_and_bound() -> None:
    assert [reason for reason in get_args(Reason) if f"`{reason}`" not in PAGE] == []
    for bound in (FIRED_MAX, SETTLED_MAX, BACKFILL_MAX):
        assert f"{bound:,}" in PAGE


def test_the_commands_it_names_exist() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "jobledger", "schedules", "--help"],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    ).stdout

    named = set(re.findall(r"\$ jobledger schedules (\w+)", PAGE))
    assert named
    assert {name for name in named if not re.search(rf"^│ {name}\s", told, re.MULTILINE)} == set()
