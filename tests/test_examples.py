"""Each example runs as it stands, and says what its own words promise."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

EXAMPLES: Final = Path(__file__).resolve().parent.parent / "examples"

SAYS: Final = {
    "async_crawler.py": r"complete: 100 pages",
    "data_migration.py": r"complete in 2 attempts: 5 units, 1000 rows",
    "fan_out.py": r"complete: 5050, in [2-9]\d* attempts of the parent",
    "hash_in_processes.py": r"4 found, 0 of them in the host's process",
    "index_rebuild.py": r"complete: 17 words, 'a' stands 5 times",
}


def test_every_example_is_run() -> None:
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == sorted(SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs_as_it_stands(name: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )

    assert re.fullmatch(SAYS[name], ran.stdout.strip()), ran.stdout + ran.stderr
    assert ran.returncode == 0, ran.stderr
    assert list(tmp_path.iterdir()) == []
