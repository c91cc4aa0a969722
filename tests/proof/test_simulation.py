"""The simulator holds the invariants over thousands of worlds, repeats itself exactly, and gets to where it matters."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.proof import simulate
from tests.proof.mix import Mix
from tests.proof.plain import without_encoding
from tests.proof.running import Setup, Tally, failing_run, run_seeds
from tests.proof.shrinking import Plan
from tests.proof.simulator import STEPS
from tests.proof.sometimes import ONLY_SIMULATED, SITUATIONS, situations_of
from tests.proof.story import story

ROOT = Path(__file__).resolve().parent.parent.parent
PART = 250
PARTS = 12
TOLD = 12


@pytest.mark.parametrize("part", range(PARTS))
def test_no_world_breaks_an_invariant(part: int) -> None:
    tally = run_seeds(Setup(), part * PART, PART)

    assert tally.failed is None, f"{tally.violation}; scripts/simulate --from {tally.failed} --seeds 1 tells how"
    assert tally.seeds == PART
    assert tally.events > 20 * PART, "hardly anything happens in these worlds"


def test_every_situation_is_reached() -> None:
    """One for each thousand seeds here, ten for each ten thousand in ``scripts/simulate``."""
    tally = run_seeds(Setup(), 0, 1_000)

    assert [name for name in SITUATIONS if not tally.situations[name]] == []
    assert set(tally.situations) <= set(SITUATIONS), "a situation has no sentence"


def test_a_situation_that_is_reached_too_rarely_fails_a_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The control: ten in ten thousand seeds are enough, nine are not."""
    tally = Tally(seeds=10_000, situations=Counter(dict.fromkeys(SITUATIONS, 10)))
    monkeypatch.setattr(simulate, "simulate", lambda *_: tally)
    assert simulate.main(["--seeds", "10000"]) == 0

    tally.situations["late_renewal"] -= 1

    assert simulate.main(["--seeds", "10000"]) == 1
    assert "reached too rarely: late_renewal (" in capsys.readouterr().out


@pytest.mark.parametrize(("store", "seeds"), [("memory", 60), ("sqlite", 20)])
def test_real_stores_break_no_invariant(store: str, seeds: int) -> None:
    tally = run_seeds(Setup(store), 0, seeds)  # type: ignore[arg-type]  # a name of a store

    assert tally.failed is None, f"{tally.violation}; scripts/simulate --store {store} --from {tally.failed} tells how"
    assert not tally.situations.keys() & ONLY_SIMULATED


def _stories() -> str:
    told = []
    with without_encoding():
        for seed in range(TOLD):
            run = Plan(seed, STEPS, Mix.drawn(seed)).run(is_told=True)
            told.append(story(run) + repr(sorted(situations_of(run.history, run.noted))))
    return "".join(told)


def test_the_same_seed_gives_the_same_bytes() -> None:
    first, second = _stories(), _stories()

    assert first == second
    assert first.count("asks [") > 50 * TOLD


def test_another_process_gives_the_same_bytes() -> None:
    """With another seed for the hashes of texts: no order of a set decides anything."""
    here = hashlib.sha256(_stories().encode()).hexdigest()
    asked = f"import hashlib; from {__name__} import _stories; print(hashlib.sha256(_stories().encode()).hexdigest())"

    surroundings = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT)}
    there = subprocess.run(
        [sys.executable, "-P", "-c", asked], cwd=ROOT, env=surroundings, capture_output=True, text=True, check=True
    )

    assert there.stdout.strip() == here


def test_a_world_is_the_same_over_every_store_that_locks() -> None:
    tallies = [run_seeds(Setup(store), 100, 5) for store in ("memory", "sqlite")]

    assert tallies[0] == tallies[1]


def test_a_failing_seed_is_made_small_and_told() -> None:
    setup = Setup(mutant="claim_ignores_holds")
    failed = run_seeds(setup, 0, 500)
    assert failed.failed is not None

    small = failing_run(setup, failed.failed)

    invariant = failed.violation.split(" ", 1)[0]
    assert invariant in {violation.invariant for violation in small.violations}
    assert len(small.history.operations) < 40, "a story of this rule needs a handful of requests"
    assert f"BROKEN  {invariant} is broken" in story(small)
