"""Which seed catches which broken rule: the control of the simulator, on as many processors as there are."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.proof.mutants import MUTANTS
from tests.proof.running import Setup, run_seeds

if TYPE_CHECKING:
    from collections.abc import Iterator

SEEDS_MAX: Final = 2_000


@dataclass(frozen=True, slots=True)
class Kill:
    """A broken rule, the seed that caught it (``None``: it survived), and what was noticed."""

    mutant: str
    seed: int | None
    violation: str


def kill(name: str, seeds_max: int = SEEDS_MAX) -> Kill:
    """Run seeds with a rule broken, up to the first that notices; the same seed has to be clean with the rule whole."""
    tally = run_seeds(Setup(mutant=name), 0, seeds_max)
    if tally.failed is not None:
        whole = run_seeds(Setup(), tally.failed, 1)
        if whole.failed is not None:
            return Kill(name, None, f"with every rule whole, too: {whole.violation}")
    return Kill(name, tally.failed, tally.violation)


def kill_all(jobs: int, seeds_max: int = SEEDS_MAX) -> Iterator[Kill]:
    """Break every rule in its turn; yields each as it is caught, or not."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=jobs, mp_context=context) as pool:
        waiting = [pool.submit(kill, name, seeds_max) for name in MUTANTS]
        for done in as_completed(waiting):
            yield done.result()
