"""The search: breadth first over all worlds of a scope, each visited once; then whether each can still end well."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from time import process_time
from typing import Final
from unittest.mock import patch

from jobledger.domain.job import State
from jobledger.domain.policies import Policy
from tests.proof.explorer_ledger import POLICY, Ledger
from tests.proof.explorer_rows import Rows
from tests.proof.explorer_story import told
from tests.proof.explorer_world import Next, Scope, Worlds

BETWEEN: Final = 1_000
"""Worlds between two looks at the progress."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search is."""

    states: int
    transitions: int
    frontier: int
    seconds: float

    @property
    def rate(self) -> float:
        """States per second of processor time."""
        return self.states / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """What a search found. ``decided`` counts calls of the real rules, ``ledgers`` the job's own distinct situations.

    ``is_whole``: every reachable world was visited. ``stories`` tell the way to what is broken.
    """

    scope: str
    progress: Progress
    decided: int
    ledgers: int
    crews: int
    is_whole: bool
    broken: tuple[str, ...] = ()
    story: str = ""


class Search:
    """One search of one scope."""

    def __init__(self, scope: Scope) -> None:
        """Start at a new job."""
        self.worlds = Worlds(scope)
        self.visited = array("Q", [self.worlds.start])
        self.parents = array("L", [0])
        self.transitions = 0
        self.expanded = 0
        self._started = process_time()

    def run(self, states_max: int | None, tell: Callable[[Progress], None] | None = None) -> None:
        """Visit worlds until all are visited, ``states_max`` are, or something does not hold."""
        visited, parents, worlds = self.visited, self.parents, self.worlds
        seen = {worlds.start}
        limit = states_max or 2**62
        number = 0
        while number < len(visited) and len(visited) < limit and not worlds.rows.faults:
            following = worlds.following(visited[number])
            self.transitions += len(following)
            for world, _, _ in following:
                if world not in seen:
                    seen.add(world)
                    visited.append(world)
                    parents.append(number)
            number += 1
            self.expanded = number
            if tell and number % BETWEEN == 0:
                tell(self.progress)

    @property
    def progress(self) -> Progress:
        """How far it is."""
        states = len(self.visited)
        return Progress(states, self.transitions, states - self.expanded, process_time() - self._started)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left to visit."""
        return self.expanded == len(self.visited)

    def first_with(self, ledger: int) -> int:
        """The place of the first visited world that has this ledger."""
        return next(place for place, world in enumerate(self.visited) if self.worlds.ledger_of(world) == ledger)

    def path(self, place: int) -> list[tuple[int, Next | None]]:
        """The worlds from the start to a visited one, each with the way that led to it (the shortest, by commands)."""
        places = [place]
        while places[-1]:
            places.append(self.parents[places[-1]])
        way: list[tuple[int, Next | None]] = []
        before: int | None = None
        for each in reversed(places):
            world = self.visited[each]
            steps = [] if before is None else self.worlds.following(before)
            way.append((world, next((step for step in steps if step[0] == world), None)))
            before = world
        return way


# Traps ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hope:
    """Something that must stay possible: from every ledger of a kind these actors alone lead to another kind."""

    name: str
    sentence: str
    actors: frozenset[str]
    starts: Callable[[Ledger], bool]
    ends: Callable[[Ledger], bool]


def _is_over(ledger: Ledger) -> bool:
    return ledger.job.is_terminal


def _is_parked(ledger: Ledger) -> bool:
    """Whether it ended, or rests where an operator sees it."""
    return _is_over(ledger) or (ledger.job.state is State.PAUSED and ledger.job.hold is not None)


def _is_going_on(ledger: Ledger) -> bool:
    return not _is_over(ledger)


HOPES: Final = (
    Hope(
        "every_job_can_end",
        "Whatever happened, operators, the sweeper and the clock can end the job without any worker.",
        frozenset({"operator", "sweeper", "clock"}),
        _is_going_on,
        _is_over,
    ),
    Hope(
        "work_goes_on",
        "Workers, the sweeper and the clock bring every job to its end, or to rest before an operator's eyes.",
        frozenset({"claimant", "worker", "sweeper", "clock"}),
        _is_going_on,
        _is_parked,
    ),
    Hope(
        "every_job_can_succeed",
        "With everybody's help every job that nobody asked to cancel can still be completed.",
        frozenset({"operator", "claimant", "worker", "sweeper", "clock"}),
        lambda ledger: _is_going_on(ledger) and ledger.job.cancel is None,
        lambda ledger: ledger.job.state is State.COMPLETE,
    ),
    Hope(
        "the_dead_are_buried",
        "When all workers have died, the sweeper and the clock end every attempt.",
        frozenset({"sweeper", "clock"}),
        lambda ledger: ledger.is_running,
        lambda ledger: not ledger.is_running,
    ),
    Hope(
        "a_cancel_request_is_carried_out",
        "When nobody works any more, the sweeper and the clock carry a pending cancel request out.",
        frozenset({"sweeper", "clock"}),
        lambda ledger: ledger.job.cancel is not None,
        lambda ledger: ledger.job.state is State.CANCELLED,
    ),
)


def traps(rows: Rows) -> list[tuple[Hope, int]]:
    """Each hope that is lost somewhere, with a ledger where it is. Ledgers that were not expanded count as hopeful."""
    known = [rows.row(number) if rows.is_expanded(number) else None for number in range(len(rows))]
    found = []
    for hope in HOPES:
        hopeful = {number for number, row in enumerate(known) if row is None or hope.ends(rows.ledgers[number])}
        edges: list[list[int]] = [[] for _ in known]
        for number, row in enumerate(known):
            for move in (*row.free, *row.claims, *row.own) if row else ():
                if move.actor in hope.actors:
                    edges[move.target].append(number)
        waiting = list(hopeful)
        while waiting:
            fresh = [number for number in edges[waiting.pop()] if number not in hopeful]
            hopeful.update(fresh)
            waiting.extend(fresh)
        lost = (n for n, ledger in enumerate(rows.ledgers) if n not in hopeful and hope.starts(ledger))
        first = next(lost, None)
        if first is not None:
            found.append((hope, first))
    return found


# One run --------------------------------------------------------------------------------------------------------------


def explored(scope: Scope, *, states_max: int | None = None, tell: Callable[[Progress], None] | None = None) -> Report:
    """Search a scope, and tell the shortest way to the first thing that does not hold, if there is one."""
    with quick_policy():
        search = Search(scope)
        search.run(states_max, tell)
        rows = search.worlds.rows
        broken, story = _findings(search)
        return Report(
            scope=scope.name,
            progress=search.progress,
            decided=rows.decided,
            ledgers=len(rows),
            crews=len(search.worlds),
            is_whole=search.is_whole and not rows.faults,
            broken=broken,
            story=story,
        )


def _findings(search: Search) -> tuple[tuple[str, ...], str]:
    """What is broken, and the story of how it came to that."""
    rows = search.worlds.rows
    if rows.faults:
        fault = rows.faults[0]
        steps = search.path(search.first_with(fault.ledger))
        return fault.broken, told(search.worlds, steps, fault)
    lost = traps(rows)
    if not lost:
        return (), ""
    hope, ledger = lost[0]
    steps = search.path(search.first_with(ledger))
    return tuple(f"{each.name}: {each.sentence}" for each, _ in lost), told(search.worlds, steps, hope.sentence)


@contextmanager
def quick_policy() -> Generator[None]:
    """Every job here has one policy: do not build it anew for every look at it."""
    changes, original = POLICY.changes(), Policy.of_changes
    with patch.object(Policy, "of_changes", lambda asked: POLICY if asked == changes else original(asked)):
        yield
