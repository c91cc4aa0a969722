"""The README is true: its example runs as it stands, its commands exist, and its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_runs_twice_and_answers_the_recorded_result(tmp_path: Path) -> None:
    """The second run finds the same job under its key, ended, with the result of the first."""
    example = "\n".join(re.findall(r"```python\n(.*?)```", README, re.DOTALL))
    (tmp_path / "example.py").write_text(example, encoding="utf-8")

    runs = [
        subprocess.run(
            [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
        )
        for _ in range(2)
    ]

    assert [(run.returncode, run.stdout, run.stderr) for run in runs] == [(0, "p7:complete\n", "")] * 2


def test_the_commands_it_names_exist() -> None:
    """Each ``jobledger`` command in the README is one of the command line's own."""
    told = subprocess.run(
        [sys.executable, "-m", "jobledger", "--help"], capture_output=True, text=True, timeout=100, check=True
    )
    named = set(re.findall(r"\$ jobledger (\w+)", README)) | set(re.findall(r"`jobledger (\w+)", README))

    assert named >= {"show", "hold", "verify"}
    assert {name for name in named if not re.search(rf"^│ {name}\s", told.stdout, re.MULTILINE)} == set()
    for script in re.findall(r"^\$ (scripts/\w+)$", README, re.MULTILINE):
        assert (ROOT / script).is_file()


def test_its_links_lead_somewhere() -> None:
    """Every relative link is a file of the project."""
    targets = re.findall(r"\]\(([^)#:]+)\)", README)

    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []
