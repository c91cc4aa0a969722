"""Runs the measures round by round, every engine after the other in each, so that all meet the same machine."""

from __future__ import annotations

import os
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.progress import Progress

from tests.bench.cluster import Cluster
from tests.bench.contestants import OURS, Contestant, Driver, NotAvailableError, driving, python_of
from tests.bench.measures import FLOOR, Measure


@dataclass(slots=True)
class Results:
    """What was measured: rates a second by measure and engine, one for each round; and who could not take part, why."""

    rates: dict[str, dict[str, list[float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list[float]))
    )
    raw: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    absent: dict[str, str] = field(default_factory=dict[str, str])

    def note(
        self, measure: str, engine: str, number: int, count: int, seconds: float, shares: list[int] | None = None
    ) -> None:
        """Remember one figure; ``shares``: how much of the work each of several processes did."""
        self.rates[measure][engine].append(count / seconds)
        figure = {"measure": measure, "engine": engine, "round": number, "count": count, "seconds": seconds}
        self.raw.append(figure | ({"shares": shares} if shares else {}))

    def least_share(self, measure: str, engine: str) -> float | None:
        """The least that any process did in any round, as a share of an even part; ``None``: there were not several."""
        shares = [
            min(figure["shares"]) * len(figure["shares"]) / max(1, figure["count"])
            for figure in self.raw
            if (figure["measure"], figure["engine"]) == (measure, engine) and "shares" in figure
        ]
        return min(shares, default=None)


@dataclass(slots=True)
class Rounds:
    """The plan of a run: measures, engines, rounds, and the share of the full size."""

    measures: list[Measure]
    contestants: list[Contestant]
    rounds: int
    size: float
    progress: Progress
    cluster: Cluster | None = None
    results: Results = field(default_factory=Results)
    log: Path = field(default_factory=lambda: Path(tempfile.gettempdir()) / f"jobledger-bench-{os.getuid()}.log")

    def run(self) -> Results:
        """Every round; an engine that fails once is reported and does not take part any more.

        An interrupt ends it with the figures that there are.
        """
        with suppress(KeyboardInterrupt):
            self._run()
        return self.results

    def _run(self) -> None:
        self.log.write_text("", "utf-8")
        pythons = self._environments()
        total = self.rounds * (len(pythons) + (FLOOR in self._rivals_wanted()))
        task = self.progress.add_task("rounds", total=total)
        for number in range(1, self.rounds + 1):
            for contestant, python in pythons.items():
                if contestant.name not in self.results.absent:
                    self.progress.update(task, description=f"round {number} of {self.rounds}: {contestant.name}")
                    self._round_of(contestant, python, number)
                self.progress.advance(task)
            if self.cluster is not None and FLOOR in self._rivals_wanted():
                self.progress.update(task, description=f"round {number} of {self.rounds}: the machine itself")
                seconds = max(1, round(5 * self.size))
                rate = self.cluster.single_row_commits(1, seconds)
                for measure in self.measures:
                    if measure.against == FLOOR:
                        self.results.note(measure.name, FLOOR, number, round(rate * seconds), seconds)
                self.progress.advance(task)

    def _rivals_wanted(self) -> set[str]:
        return {measure.against for measure in self.measures}

    def _environments(self) -> dict[Contestant, Path]:
        pythons: dict[Contestant, Path] = {}
        task = self.progress.add_task("environments", total=len(self.contestants))
        for contestant in self.contestants:
            self.progress.update(task, description=f"environment of {contestant.name}")
            try:
                pythons[contestant] = python_of(contestant)
            except NotAvailableError as reason:
                self.results.absent[contestant.name] = str(reason)
            self.progress.advance(task)
        self.progress.remove_task(task)
        return pythons

    def _round_of(self, contestant: Contestant, python: Path, number: int) -> None:
        for measure in self.measures:
            if measure.processes > 1 and contestant.name not in (OURS.name, measure.against):
                continue
            try:
                self._measured(measure, contestant, python, number)
            except (NotAvailableError, RuntimeError) as reason:
                self.results.absent[contestant.name] = f"{measure.name}: {reason}"
                return

    def _measured(self, measure: Measure, contestant: Contestant, python: Path, number: int) -> None:
        """One measure of one engine, on a database (or file) that nobody used before."""
        with ExitStack() as stack:
            url = self._fresh(stack, contestant)
            first = stack.enter_context(driving(contestant, python, url, self.log))
            if measure.command not in first.commands:
                return
            if "install" in first.commands:
                first.ask("install", 0)
            drivers = [first] + [
                stack.enter_context(driving(contestant, python, url, self.log)) for _ in range(measure.processes - 1)
            ]
            if measure.before:
                making = "create_many" if "create_many" in first.commands else "create_one"
                first.ask(making, self._sized(measure.before, contestant))
            for driver in drivers if measure.warm else ():
                driver.ask(measure.command, measure.warm)
            self._settle()
            counts, seconds = _asked(drivers, measure.command, self._sized(measure.count, contestant))
            shares = counts if measure.processes > 1 else None
            self.results.note(measure.name, contestant.name, number, sum(counts), seconds, shares)

    def _fresh(self, stack: ExitStack, contestant: Contestant) -> str:
        if self.cluster is not None:
            return self.cluster.fresh(f"bench_{contestant.name}")
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="jobledger-bench-"))
        return f"sqlite:///{folder}/bench.db"

    def _settle(self) -> None:
        """Let what was made become what a server would have had for a while: planned for, and written."""
        if self.cluster is not None:
            for database in self.cluster.psql("SELECT datname FROM pg_database WHERE datname LIKE 'bench_%'").split():
                self.cluster.psql("VACUUM ANALYZE", database)
            self.cluster.psql("CHECKPOINT")

    def _sized(self, count: int, contestant: Contestant) -> int:
        return max(20, round(count * self.size * contestant.share))


def _asked(drivers: list[Driver], command: str, count: int) -> tuple[list[int], float]:
    """How many things each driver did, and in how long all: from the question to the last of them.

    A drain is one work for all drivers; everything else each does by itself.
    """
    started = time.monotonic()
    for driver in drivers:
        driver.say(command, count)
    answers = [driver.hear() for driver in drivers]
    if len(drivers) == 1:
        return [answers[0]["count"]], answers[0]["seconds"]
    ended = max(answer.get("last", time.monotonic()) for answer in answers)
    return [answer["count"] for answer in answers], ended - started
