"""Many seeds on several processors: counts, situations, and the first seed that breaks an invariant."""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from tests.proof.backends import SimulatedBackend, memory_backend, sqlite_backend
from tests.proof.mutants import MUTANTS
from tests.proof.plain import without_encoding
from tests.proof.simulator import STEPS, Simulation
from tests.proof.sometimes import situations_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.proof.runs import Run

Store = Literal["simulated", "memory", "sqlite"]

CHUNK: Final = 50


@dataclass(slots=True)
class Tally:
    """What a number of seeds came to; ``failed`` is the first seed in which an invariant was broken."""

    seeds: int = 0
    steps: int = 0
    requests: int = 0
    events: int = 0
    situations: Counter[str] = field(default_factory=Counter)
    failed: int | None = None
    violation: str = ""

    def add(self, other: Tally) -> None:
        """Count another part."""
        self.seeds += other.seeds
        self.steps += other.steps
        self.requests += other.requests
        self.events += other.events
        self.situations.update(other.situations)
        if other.failed is not None and (self.failed is None or other.failed < self.failed):
            self.failed, self.violation = other.failed, other.violation


@dataclass(frozen=True, slots=True)
class Setup:
    """What every seed is run over, and which rule is broken meanwhile, if any."""

    store: Store = "simulated"
    steps: int = STEPS
    mutant: str | None = None

    def entered(self, stack: ExitStack) -> Any:
        """Prepare this process, until the stack is left; answers what makes a backend."""
        make: Any = SimulatedBackend
        if self.store == "simulated":
            stack.enter_context(without_encoding())
        elif self.store == "memory":
            make = memory_backend
        else:
            make = sqlite_backend(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="simulated-"))))
        if self.mutant is not None:
            stack.enter_context(MUTANTS[self.mutant].applied())
        return make


def run_seeds(setup: Setup, first: int, count: int) -> Tally:
    """Run seeds in this process, up to the first that breaks an invariant."""
    tally = Tally()
    with ExitStack() as stack:
        make = setup.entered(stack)
        for seed in range(first, first + count):
            run = Simulation(seed, steps=setup.steps, make=make).run()
            tally.seeds += 1
            tally.steps += run.steps
            tally.requests += len(run.history.operations)
            tally.events += len(run.history.log)
            if run.violations:
                tally.failed, tally.violation = seed, str(run.violations[0])
                break
            tally.situations.update(situations_of(run.history, run.noted))
    return tally


def failing_run(setup: Setup, seed: int) -> Run:
    """A failing seed again, made small and told."""
    from tests.proof.mix import Mix  # noqa: PLC0415  # the same
    from tests.proof.shrinking import Plan, shrink  # noqa: PLC0415  # needed only when something is broken

    with ExitStack() as stack:
        make = setup.entered(stack)
        return shrink(Plan(seed, setup.steps, Mix.drawn(seed)).run(make), make)


def run_everywhere(setup: Setup, first: int, count: int, jobs: int) -> Iterator[Tally]:
    """Run seeds on ``jobs`` processors; yields what was counted so far, ends early when an invariant is broken."""
    total = Tally()
    starts = iter(range(first, first + count, CHUNK))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=jobs, mp_context=context) as pool:
        waiting = {
            _submit(pool, setup, start, first + count) for _, start in zip(range(2 * jobs), starts, strict=False)
        }
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for part in done:
                total.add(part.result())
                start = next(starts, None) if total.failed is None else None
                if start is not None:
                    waiting.add(_submit(pool, setup, start, first + count))
            yield total


def _submit(pool: ProcessPoolExecutor, setup: Setup, start: int, end: int) -> Any:
    return pool.submit(run_seeds, setup, start, min(CHUNK, end - start))


class Progress:
    """One line that lives, on a terminal; silence elsewhere."""

    def __init__(self, what: str) -> None:
        """Start the clock."""
        self._what, self._since = what, time.monotonic()
        self._is_shown = sys.stderr.isatty()

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self._since

    def show(self, done: int, total: int) -> None:
        """Say how far it is."""
        if self._is_shown:
            rate = done / max(self.seconds, 0.001)
            left = (total - done) / max(rate, 0.001)
            line = f"{self._what}: {done:,} of {total:,} · {rate:,.0f}/s · {left:,.0f} s left"
            sys.stderr.write(f"\r\x1b[2K{line}")
            sys.stderr.flush()

    def end(self) -> None:
        """Leave the line."""
        if self._is_shown:
            sys.stderr.write("\r\x1b[2K")
