"""Runs simulations from the command line: many seeds, one told seed, or a broken rule that has to be caught."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from tests.proof.mix import Mix
from tests.proof.mutants import MUTANTS
from tests.proof.running import Progress, Setup, Tally, failing_run, run_everywhere
from tests.proof.shrinking import Plan
from tests.proof.simulator import STEPS
from tests.proof.sometimes import ONLY_SIMULATED, SITUATIONS
from tests.proof.story import story

if TYPE_CHECKING:
    from collections.abc import Sequence

REACHED_MIN: Final = 10
REACHED_OF: Final = 10_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; 1 when an invariant was broken, or a situation was reached too rarely."""
    asked = _parser().parse_args(arguments)
    setup = Setup(asked.store, asked.steps, asked.mutant)
    if asked.tell:
        with ExitStack() as stack:
            make = setup.entered(stack)
            run = Plan(asked.start, asked.steps, Mix.drawn(asked.start)).run(make, is_told=True)
        sys.stdout.write(story(run))
        return 1 if run.violations else 0
    tally = simulate(setup, asked.start, asked.seeds, asked.jobs)
    sys.stdout.write(_report(tally, is_table_wanted=asked.table))
    if tally.failed is not None:
        sys.stdout.write(f"\nseed {tally.failed} breaks an invariant; the smallest story that was found:\n\n")
        sys.stdout.write(story(failing_run(setup, tally.failed)))
        return 1
    rare = too_rare(tally, setup)
    for name in rare:
        sys.stdout.write(f"reached too rarely: {name} ({SITUATIONS[name]}), in {tally.situations[name]} seeds\n")
    return 1 if rare else 0


def simulate(setup: Setup, first: int, count: int, jobs: int) -> Tally:
    """Run seeds, showing how far it is."""
    progress, tally = Progress(f"simulating ({setup.store})"), Tally()
    for tally in run_everywhere(setup, first, count, jobs):
        progress.show(tally.seeds, count)
    progress.end()
    return tally


def too_rare(tally: Tally, setup: Setup) -> list[str]:
    """Situations that were reached less than ten times in 10,000 seeds; few seeds prove nothing either way."""
    if tally.seeds * REACHED_MIN < REACHED_OF or setup.mutant is not None:
        return []
    wanted = REACHED_MIN * tally.seeds // REACHED_OF
    skipped = ONLY_SIMULATED if setup.store != "simulated" else frozenset()
    return [name for name in SITUATIONS if name not in skipped and tally.situations[name] < wanted]


def _report(tally: Tally, *, is_table_wanted: bool) -> str:
    lines = [
        f"{tally.seeds:,} seeds, {tally.steps:,} steps, {tally.requests:,} requests, {tally.events:,} events: "
        + (f"BROKEN: {tally.violation}" if tally.failed is not None else "no violation")
    ]
    if is_table_wanted:
        lines += [f"{tally.situations[name]:>9,}  {sentence}" for name, sentence in SITUATIONS.items()]
    return "\n".join(lines) + "\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3_000, help="how many seeds (default: %(default)s)")
    parser.add_argument("--from", dest="start", type=int, default=0, help="the first seed (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of each seed (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: %(default)s)")
    parser.add_argument("--store", choices=("simulated", "memory", "sqlite"), default="simulated")
    parser.add_argument("--mutant", choices=sorted(MUTANTS), metavar="NAME", help="break this rule meanwhile")
    parser.add_argument("--table", action="store_true", help="show how often each situation was reached")
    parser.add_argument("--tell", action="store_true", help="tell the first seed as a story, whole")
    return parser


if __name__ == "__main__":
    sys.exit(main())
