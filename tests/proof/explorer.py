"""Exhaustive search of the rules in a small scope: every reachable world once, every transition against every rule.

usage: scripts/explore [--scope NAME] [--states-max N] [--mutant NAME]

One job; workers that crash, believe too long and ask again; messages that are lost, late and doubled; clocks that pass
and are set back; two operators, a sweeper, group epochs, one unit and one effect resource. Where a rule is broken the
way there is told as a story, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from queue import Empty
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from tests.proof.explorer_crew import CONTROLS, Mail
from tests.proof.explorer_orders import ANN
from tests.proof.explorer_rows import Clock
from tests.proof.explorer_search import Progress, Report, explored
from tests.proof.explorer_world import Scope
from tests.proof.mutants import MUTANTS

if TYPE_CHECKING:
    from collections.abc import Sequence

_WRITES: Final = (
    "renew",
    "checkpoint y with an effect",
    "record_unit b",
    "pause",
    "fail_attempt",
    "complete with an effect",
)
_CLAIMS: Final = ("claim", "claim in spite of holds")
_CONTROLS: Final = tuple(
    label
    for label in CONTROLS
    if label
    in (
        f"operator {ANN}: hold",
        f"operator {ANN}: request_cancel",
        f"operator {ANN}: release_hold, as seen just now",
        f"operator {ANN}: retry, as seen just now",
    )
)

_ONE_LATE: Final = Mail(1, _WRITES, _CLAIMS, _CONTROLS)
_TWO_LATE: Final = Mail(2, _WRITES, _CLAIMS, _CONTROLS)
_NONE_LATE: Final = Mail(0, (), (), ())
_COARSE, _FINE = Clock(is_fine=False), Clock(is_fine=True)

SCOPES: Final = {
    "A": Scope("A: 2 workers, 4 generations", 2, 4, _ONE_LATE, _COARSE),
    "B": Scope("B: 3 workers, 3 generations", 3, 3, _ONE_LATE, _COARSE),
    "C": Scope("C: 2 workers, 2 generations, a fine clock that is set back", 2, 2, _NONE_LATE, _FINE),
    "D": Scope("D: 1 worker, 2 generations, two late messages at once", 1, 2, _TWO_LATE, _COARSE),
}
"""A has many claims, B many old fences at once; C looks closely at time, D at messages that overtake each other."""

EVERY_TTY: Final = 0.2
EVERY_LINE: Final = 5.0


@dataclass(frozen=True, slots=True)
class Told:
    """What the search of a scope says of itself on the way, or at its end."""

    scope: str
    progress: Progress
    report: Report | None = None


def explore(scope: str, *, mutant: str | None = None, states_max: int | None = None, tell: Any = None) -> Report:
    """Search one scope, with a rule broken on purpose if a mutant is named."""
    with MUTANTS[mutant].applied() if mutant else nullcontext():
        return explored(SCOPES[scope], states_max=states_max, tell=tell)


def summary(report: Report) -> str:
    """One line with the figures of a search."""
    progress = report.progress
    extent = "all of them" if report.is_whole else "up to a finding" if report.broken else "as many as were asked for"
    return (
        f"{report.scope}: {progress.states:,} states ({extent}), {progress.transitions:,} transitions, "
        f"{report.decided:,} decisions on {report.ledgers:,} ledgers, {report.crews:,} crews, "
        f"{progress.seconds:.1f} s of processor time"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Search the scopes that were asked for, side by side; answers the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/explore", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scope", choices=[*SCOPES, "all"], default="all", help="one scope, or all side by side")
    parser.add_argument("--states-max", type=int, metavar="N", help="stop after N states of each scope, breadth first")
    parser.add_argument(
        "--mutant", choices=sorted(MUTANTS), metavar="NAME", help="break a rule on purpose, by its name"
    )
    asked = parser.parse_args(arguments)
    scopes = list(SCOPES) if asked.scope == "all" else [asked.scope]
    reports = _side_by_side(scopes, asked.mutant, asked.states_max)
    for report in reports:
        sys.stdout.write(f"{summary(report)}\n")
        for broken in report.broken:
            sys.stdout.write(f"  BROKEN {broken}\n")
        if report.story:
            sys.stdout.write(f"{report.story}\n")
    is_lost = len(reports) < len(scopes)
    if is_lost:
        sys.stdout.write("a search ended without a report\n")
    return 1 if is_lost or any(report.broken for report in reports) else 0


def _side_by_side(scopes: list[str], mutant: str | None, states_max: int | None) -> list[Report]:
    """One process for each scope; their progress is shown until all have reported."""
    context = multiprocessing.get_context("spawn")
    said: multiprocessing.Queue[Told] = context.Queue()
    processes = [context.Process(target=_search, args=(scope, mutant, states_max, said)) for scope in scopes]
    for process in processes:
        process.start()
    shown = _Shown()
    reports: dict[str, Report] = {}
    while len(reports) < len(scopes):
        try:
            told = said.get(timeout=1.0)
        except Empty:
            if any(process.is_alive() for process in processes):
                continue
            break
        shown.tell(told)
        if told.report is not None:
            reports[told.scope] = told.report
    shown.end()
    for process in processes:
        process.join()
    return [reports[scope] for scope in scopes if scope in reports]


def _search(scope: str, mutant: str | None, states_max: int | None, said: multiprocessing.Queue[Told]) -> None:
    spoke = monotonic()

    def tell(progress: Progress) -> None:
        nonlocal spoke
        if monotonic() - spoke >= EVERY_TTY:
            spoke = monotonic()
            said.put(Told(scope, progress))

    report = explore(scope, mutant=mutant, states_max=states_max, tell=tell)
    said.put(Told(scope, report.progress, report))


class _Shown:
    """The progress of all searches: on a terminal one line that lives, otherwise a plain line every few seconds."""

    def __init__(self) -> None:
        self._latest: dict[str, Progress] = {}
        self._written = monotonic()

    def tell(self, told: Told) -> None:
        self._latest[told.scope] = told.progress
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{self._line()}")
            sys.stderr.flush()
        elif monotonic() - self._written >= EVERY_LINE:
            self._written = monotonic()
            sys.stderr.write(f"{self._line()}\n")

    def end(self) -> None:
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")

    def _line(self) -> str:
        return " | ".join(
            f"{scope}: {it.states:,} states, {it.transitions:,} transitions, frontier {it.frontier:,}, {it.rate:,.0f}/s"
            for scope, it in sorted(self._latest.items())
        )


if __name__ == "__main__":
    sys.exit(main())
