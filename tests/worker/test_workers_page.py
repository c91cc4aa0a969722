"""The page for those who write handlers is true: its code runs, and what it names exists."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from jobledger import JobContext, JobStore, State
from tests.worker.hosting import ran

PAGE: Final = (Path(__file__).parents[2] / "docs" / "workers.md").read_text(encoding="utf-8")


BLOCKS: Final = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def block(word: str) -> str:
    """The one block of code that names something."""
    [found] = [each for each in BLOCKS if word in each]
    return str(found)


def test_its_limits_are_set_as_they_stand(memory: JobStore) -> None:
    exec(block("queues.limit"), {"store": memory})  # noqa: S102  # the page's own code

    assert memory.queues.get("index").limits.running_max == 8
    assert memory.queues.get("index").is_held


def test_its_dependency_is_made_as_it_stands(memory: JobStore) -> None:
    class Pool(AbstractContextManager["Pool"]):
        def __exit__(self, *_: object) -> None:
            """Close."""

    names: dict[str, Any] = {"Pool": Pool, "open_pool": Pool}
    exec(block("Depends(make_pool)"), names)  # noqa: S102  # the page's own code

    assert ran(memory, names["import_rows"], "import", {"day": "monday"}).state is State.COMPLETE


def test_its_handler_and_its_test_run_as_they_stand(tmp_path: Path) -> None:
    handler, *_, test = BLOCKS
    given = "from jobledger import Policy\ndef rebuild_batch(partition: str, number: int) -> int: return number\n"
    program = f"{given}{handler}{test}\ntest_a_rebuild_goes_on_after_a_crash()\n"
    (tmp_path / "page.py").write_text(program, encoding="utf-8")

    ran = subprocess.run(
        [sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )

    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_calls_of_its_table_are_those_that_a_context_has() -> None:
    """All of them, and none of the host's own."""
    table = PAGE[PAGE.index("| call |") : PAGE.index("In an async handler")]
    named = set(re.findall(r"`job\.(\w+)", table))
    facts = {"attempt", "state", "run_time_max"}

    assert {name for name in vars(JobContext) if not name.startswith("_")} - facts == named


def test_the_options_it_names_exist() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "jobledger", "worker", "--help"], capture_output=True, text=True, timeout=100, check=True
    )
    options = set(re.findall(r"(--[a-z]+(?:-[a-z]+)*)", PAGE[PAGE.index("### On the command line") :]))

    assert options >= {"--processes", "--max-jobs", "--log-format"}
    assert {option for option in options if option not in told.stdout} == set()
