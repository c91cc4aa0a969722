"""A failing seed made small: fewer steps, faults, actors and requests, as long as the same invariant breaks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from tests.proof.backends import SimulatedBackend
from tests.proof.mix import FAULTS
from tests.proof.simulator import Simulation

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.proof.mix import Mix
    from tests.proof.runs import Run


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run: a seed with what is left of it."""

    seed: int
    steps: int
    mix: Mix
    dropped: frozenset[str] = frozenset()

    def run(self, make: Callable[..., object] = SimulatedBackend, *, is_told: bool = False) -> Run:
        """Run it."""
        simulation = Simulation(
            self.seed,
            steps=self.steps,
            mix=self.mix,
            make=make,  # type: ignore[arg-type]  # makes a backend
            dropped=self.dropped,
            is_told=is_told,
        )
        return simulation.run()


def shrink(failed: Run, make: Callable[..., object] = SimulatedBackend) -> Run:
    """The smallest run that was found in which the first invariant of ``failed`` is broken, told moment by moment."""
    invariant = failed.violations[0].invariant
    smallest = Plan(failed.seed, failed.steps, failed.mix)

    def fails(plan: Plan) -> bool:
        return any(each.invariant == invariant for each in plan.run(make).violations)

    for _ in range(3):
        before = smallest
        smallest = _with_fewer_steps(smallest, fails)
        smallest = _with_fewer_faults(smallest, fails)
        smallest = _with_fewer_actors(smallest, fails)
        smallest = _with_fewer_requests(smallest, fails, make)
        if smallest == before:
            break
    return smallest.run(make, is_told=True)


def _with_fewer_steps(plan: Plan, fails: Callable[[Plan], bool]) -> Plan:
    """Violations that only the whole history shows may show earlier, too."""
    for part in (2, 4, 8, 16, 32):
        while plan.steps > part and fails(fewer := replace(plan, steps=plan.steps - max(1, plan.steps // part))):
            plan = fewer
    return plan


def _with_fewer_faults(plan: Plan, fails: Callable[[Plan], bool]) -> Plan:
    for fault in FAULTS:
        if getattr(plan.mix, fault) and fails(
            fewer := replace(plan, mix=replace(plan.mix, **cast("Any", {fault: 0.0})))
        ):
            plan = fewer
    return plan


def _with_fewer_actors(plan: Plan, fails: Callable[[Plan], bool]) -> Plan:
    for actor in plan.mix.actors:
        left = tuple(each for each in plan.mix.actors if each != actor)
        if fails(fewer := replace(plan, mix=replace(plan.mix, actors=left))):
            plan = fewer
    return plan


def _with_fewer_requests(plan: Plan, fails: Callable[[Plan], bool], make: Callable[..., object]) -> Plan:
    """Drop requests, and gaps in which others came in: large parts of them, then single ones, the last ones first."""
    run = plan.run(make, is_told=True)
    sent = [moment.by for moment in run.moments if moment.by and moment.operation is not None][::-1]
    size = max(1, len(sent) // 2)
    while True:
        for start in range(0, len(sent), size):
            part = plan.dropped.union(sent[start : start + size])
            if part != plan.dropped and fails(fewer := replace(plan, dropped=part)):
                plan = fewer
        if size == 1:
            return plan
        size //= 2
