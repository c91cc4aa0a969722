"""Runs all of the proof at its full size, and writes docs/proof.md: what was run, on what, and what it came to."""

from __future__ import annotations

import argparse
import os
import platform
import re
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.proof.invariants import INVARIANTS
from tests.proof.killing import SEEDS_MAX, kill_all
from tests.proof.mutants import MUTANTS
from tests.proof.running import Progress, Setup
from tests.proof.simulate import simulate, too_rare
from tests.proof.sometimes import SITUATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.proof.running import Store, Tally

ROOT: Final = Path(__file__).resolve().parent.parent.parent
PAGE: Final = ROOT / "docs" / "proof.md"
SEEDS: Final[dict[Store, int]] = {"simulated": 100_000, "memory": 10_000, "sqlite": 1_000}
LOCKSTEP: Final = ("tests/contracts/test_lockstep.py", 1_000)
DECODERS: Final = ("tests/proof/test_fuzz_decoders.py tests/proof/test_fuzz_documents.py", 500)
"""Tests that run with more examples than usual."""

OPENING: Final = """\
# Proof

Written by `scripts/prove`, which runs all of this anew and takes its time. What the names mean stands in
[guarantees.md](guarantees.md).
"""


@dataclass(slots=True)
class Part:
    """One part of the proof: what it came to, in lines of a page, and whether it held."""

    name: str
    lines: list[str] = field(default_factory=list)
    holds: bool = True
    seconds: float = 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run every part, write the page, and answer 0 only when all of it holds."""
    parser = argparse.ArgumentParser(prog="scripts/prove", description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: %(default)s)")
    parser.add_argument("--scale", type=float, default=1.0, help="a part of the full size, to try it out")
    parser.add_argument("--page", type=Path, default=PAGE, help="where to write (default: docs/proof.md)")
    parser.add_argument(
        "--without", choices=PARTS, action="append", default=[], help="leave a part out; the page says so"
    )
    asked = parser.parse_args(arguments)
    if find_spec("cosmic_ray") is None and "domain" not in asked.without:
        asked.without = [*asked.without, "domain"]
        sys.stdout.write("The domain changed in small: left out, since cosmic-ray is not installed here\n")
    parts = []
    for name, run in PARTS.items():
        if name in asked.without:
            continue
        since = time.monotonic()
        part = run(asked.jobs, asked.scale)
        part.seconds = time.monotonic() - since
        sys.stdout.write(f"{part.name}: {'holds' if part.holds else 'BROKEN'} ({part.seconds:,.0f} s)\n")
        sys.stdout.flush()
        parts.append(part)
    asked.page.write_text(page(parts, asked.scale, asked.without), encoding="utf-8")
    sys.stdout.write(f"wrote {asked.page}\n")
    return 0 if all(part.holds for part in parts) else 1


def page(parts: Sequence[Part], scale: float, left_out: Sequence[str]) -> str:
    """The page of a run."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("jobledger", "pydantic", "eventsourcing"))
    total = sum(part.seconds for part in parts)
    size = "" if scale == 1 else f", at {scale:g} of its full size"
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors"
    without = [
        *(f"the part `{name}`" for name in left_out),
        "cron and time zones",
        "stores other than memory and SQLite",
    ]
    lines = [
        OPENING,
        f"- **When:** {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, in {total:,.0f} seconds{size}",
        f"- **On:** Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {machine}; {packages}",
        f"- **Held against:** {len(INVARIANTS)} invariants, {len(MUTANTS)} broken rules, {len(SITUATIONS)} situations",
        f"- **Left out:** {'; '.join(without)}",
        "",
    ]
    for part in parts:
        lines += [f"## {part.name}: {'holds' if part.holds else 'BROKEN'}", "", *part.lines, ""]
    return "\n".join(lines).rstrip() + "\n"


def _explored(jobs: int, scale: float) -> Part:
    """The exhaustive search, as its own program says it."""
    del jobs
    asked = [] if scale == 1 else ["--states-max", str(max(1_000, int(500_000 * scale)))]
    return _told("Exhaustive search", [sys.executable, "-P", "-m", "tests.proof.explorer", *asked], 40)


def _simulated(jobs: int, scale: float) -> Part:
    """The simulation over every store."""
    part = Part("Simulation")
    part.lines = ["| store | seeds | steps | requests | events | seconds | violations |", "|" + " --- |" * 7]
    tables: list[tuple[Store, Tally]] = []
    for store, count in SEEDS.items():
        seeds, since = max(1, int(count * scale)), time.monotonic()
        tally = simulate(Setup(store), 0, seeds, jobs)
        rare = too_rare(tally, Setup(store))
        part.holds = part.holds and tally.failed is None and not rare
        numbers = (tally.seeds, tally.steps, tally.requests, tally.events, round(time.monotonic() - since))
        broken = "none" if tally.failed is None else f"seed {tally.failed}: {tally.violation}"
        part.lines.append(f"| {store} | " + " | ".join(f"{number:,}" for number in numbers) + f" | {broken} |")
        part.lines += [f"| {store} reached {name} too rarely |" for name in rare]
        tables.append((store, tally))
    part.lines += ["", "In how many seeds each situation was reached:", ""]
    part.lines += [
        "| situation | " + " | ".join(store for store, _ in tables) + " |",
        "|" + " --- |" * (len(tables) + 1),
    ]
    for name, sentence in SITUATIONS.items():
        part.lines.append(f"| {sentence} | " + " | ".join(f"{tally.situations[name]:,}" for _, tally in tables) + " |")
    return part


def _killed(jobs: int, scale: float) -> Part:
    """Every rule broken in its turn, always at the full size: most are noticed at once."""
    del scale
    progress, kills = Progress("breaking rules"), []
    for kill in kill_all(jobs):
        kills.append(kill)
        progress.show(len(kills), len(MUTANTS))
    progress.end()
    caught = {kill.mutant: kill for kill in kills}
    part = Part("Rules broken on purpose", holds=all(kill.seed is not None for kill in kills))
    alive = sum(kill.seed is None for kill in kills)
    part.lines = [
        f"{len(kills) - alive} of {len(kills)} were noticed by the simulation, each within {SEEDS_MAX:,} seeds:",
        "",
        "| what is broken | name | first seed | noticed as |",
        "| --- | --- | --- | --- |",
    ]
    for name, mutant in MUTANTS.items():
        kill = caught[name]
        seed = "SURVIVED" if kill.seed is None else f"{kill.seed:,}"
        part.lines.append(f"| {mutant.sentence} | `{name}` | {seed} | {_noticed_as(kill.violation)} |")
    return part


def _noticed_as(violation: str) -> str:
    """The invariant, and the store's precondition where that stood behind the rule and failed in its place."""
    precondition = re.search(r"precondition '(\w+)'", violation)
    return f"`{violation.split(' ', 1)[0]}`" + (f", as the store's `{precondition[1]}`" if precondition else "")


def _changed_in_small(jobs: int, scale: float) -> Part:
    """Every small change of the decisions, the fence and the fold, as its own program says it."""
    del jobs
    asked = ["--rules-only", *(() if scale == 1 else ("domain/lease.py",))]
    return _told("The domain changed in small", [sys.executable, "scripts/mutate", *asked], 40)


def _statements_changed(jobs: int, scale: float) -> Part:
    """Every small change of a statement, as its own program says it."""
    del jobs
    asked = [] if scale == 1 else ["--sample", str(max(10, int(400 * scale)))]
    return _told("Statements changed in small", [sys.executable, "-P", "-m", "tests.proof.sql_mutants", *asked], 40)


def _decoded(jobs: int, scale: float) -> Part:
    """Hurt bytes and texts for everything that reads what is stored or comes from outside."""
    del jobs
    return _of_examples("Decoders", *DECODERS, scale)


def _in_lockstep(jobs: int, scale: float) -> Part:
    """The same commands on every store, with the same answers."""
    del jobs
    return _of_examples("Stores in lockstep", *LOCKSTEP, scale)


def _of_examples(name: str, path: str, examples: int, scale: float) -> Part:
    count = max(10, int(examples * scale))
    command = [sys.executable, "-P", "-m", "pytest", *path.split(), "-n", "0", "--timeout", "0"]
    part = _told(name, command, 1, JOBLEDGER_EXAMPLES=str(count))
    part.lines = [f"`JOBLEDGER_EXAMPLES={count} pytest {path}`:", "", *part.lines]
    return part


def _told(name: str, command: Sequence[str], lines: int, **environment: str) -> Part:
    """A part that another program is: the last lines that it said, and whether it was content."""
    done = _run(command, **environment)
    told = [line for line in done.stdout.splitlines() if line.strip()]
    return Part(name, ["```", *told[-lines:], "```"], holds=done.returncode == 0)


def _run(command: Sequence[str], **environment: str) -> subprocess.CompletedProcess[str]:
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(command, cwd=ROOT, env=surroundings, capture_output=True, text=True, check=False)


PARTS: Final[Mapping[str, Callable[[int, float], Part]]] = {
    "explore": _explored,
    "simulate": _simulated,
    "rules": _killed,
    "domain": _changed_in_small,
    "statements": _statements_changed,
    "decoders": _decoded,
    "lockstep": _in_lockstep,
}
"""What the proof is made of, in the order of the page."""


if __name__ == "__main__":
    sys.exit(main())
