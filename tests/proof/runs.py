"""What comes of one simulation, and what it draws ids, chance and its policy from."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from jobledger.domain.policies import Backoff, Policy

if TYPE_CHECKING:
    from datetime import datetime
    from random import Random

    from tests.proof.history import History, Operation, Violation
    from tests.proof.mix import Mix


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened, for a story: when (by the simulation and by the store), what, and to which operation."""

    tick: int
    now: datetime
    what: str
    operation: Operation | None = None
    by: str = ""
    told: Any = None


@dataclass(slots=True)
class Run:
    """What came of one simulation."""

    seed: int
    mix: Mix
    steps: int
    history: History
    violations: list[Violation]
    moments: list[Moment] = field(default_factory=list)
    noted: frozenset[str] = frozenset()
    """Situations that only the harness sees."""


@cache
def tight_policy(lease: int, interrupts_max: int, failures_max: int) -> Policy:
    """The policy of all jobs of a simulation; the lease in seconds."""
    backoff = Backoff(initial=timedelta(seconds=3), cap=timedelta(seconds=2 * lease))
    span = timedelta(seconds=lease)
    return Policy(lease=span, interrupts_max=interrupts_max, failures_max=failures_max, backoff=backoff)


class CountingEntropy:
    """Ids that count, tokens that count, and the chance of the simulation."""

    def __init__(self, random: Random) -> None:
        """Draw chance from ``random``."""
        self._random = random
        self.count = 0
        self.first = ""

    def new_id(self) -> str:
        """The next id; the first one since ``first`` was emptied is remembered."""
        self.count += 1
        made = f"id-{self.count}"
        self.first = self.first or made
        return made

    def new_token(self) -> str:
        """The next token."""
        self.count += 1
        return f"token-{self.count}"

    def chance(self) -> float:
        """A number from 0 to 1."""
        return self._random.random()
