"""What a simulation is like: how many of everything, and which faults how often; each seed draws its own mix.

Most mixes leave most faults out: a rare order of events shows where the others do not drown it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, fields
from typing import Final

FAULTS: Final = (
    *("lost_requests", "lost_replies", "late_requests", "twice", "crashes", "stops"),
    *("jumps", "gaps", "outages", "lost_commits", "undone_commits", "copied_fences", "forgeries", "reused_ids"),
)
SCHEDULING: Final = ("planner", "s1", "s2")
"""Who acts only where there are schedules."""
ACTORS: Final = ("ann", "bob", "w1", "w2", "w3", "client", "sweeper", "deployer", "follower", *SCHEDULING)


@dataclass(frozen=True, slots=True)
class Mix:
    """The numbers of one simulation; chances are per occasion, spans in ticks of a second.

    ``lost_requests`` and ``lost_replies`` never arrive; ``late_requests`` arrive after their sender gave up; ``twice``
    arrive a second time. ``crashes`` end a process at any wait, ``stops`` hold it there. ``jumps`` set the store's
    clock forth or back. ``gaps`` let others come between the steps of a transaction. ``outages`` keep one from
    beginning; ``lost_commits`` and ``undone_commits`` break its connection after or before the commit.
    ``copied_fences`` draw a step that was used; ``forgeries`` present another token; ``reused_ids`` name another
    command.
    """

    lost_requests: float = 0.0
    lost_replies: float = 0.0
    late_requests: float = 0.0
    twice: float = 0.0
    crashes: float = 0.0
    stops: float = 0.0
    jumps: float = 0.0
    gaps: float = 0.0
    outages: float = 0.0
    lost_commits: float = 0.0
    undone_commits: float = 0.0
    copied_fences: float = 0.0
    forgeries: float = 0.0
    reused_ids: float = 0.0
    lease: int = 8
    interrupts_max: int = 3
    failures_max: int = 3
    keys: int = 2
    owners: int = 1
    resources: int = 1
    slowness: float = 0.5
    """How much of its lease a worker takes for one piece of work, at most."""
    deploys: float = 0.0
    meddling: float = 1.0
    """How busy the operators are."""
    effects: float = 0.4
    """How often a checkpoint or an end writes a resource."""
    zeal: float = 0.3
    """How often a worker renews instead of writing."""
    patience: float = 0.5
    """How likely an attempt goes on instead of ending."""
    few_controls: float = 0.0
    defies_holds: float = 0.0
    schedules: int = 0
    rest: int = 5
    """For how long a scheduler looks away, at most."""
    overlap: str = "skip"
    catch_up: str = "one"
    actors: tuple[str, ...] = ACTORS

    @classmethod
    def drawn(cls, seed: int) -> Mix:
        """The mix of a seed."""
        draw = random.Random(seed).choice  # noqa: S311  # a simulation must be repeatable
        return cls(
            lost_requests=draw((0, 0, 0.03, 0.1)),
            lost_replies=draw((0, 0, 0.05, 0.15)),
            late_requests=draw((0, 0, 0.05, 0.15)),
            twice=draw((0, 0, 0.05, 0.15)),
            crashes=draw((0, 0, 0.01, 0.04)),
            stops=draw((0, 0, 0.02, 0.06)),
            jumps=draw((0, 0, 0, 0.02)),
            gaps=draw((0, 0, 0.1, 0.5)),
            outages=draw((0, 0, 0.01)),
            lost_commits=draw((0, 0, 0.05)),
            undone_commits=draw((0, 0, 0.03)),
            copied_fences=draw((0, 0, 0, 0.1)),
            forgeries=draw((0, 0, 0, 0.1)),
            reused_ids=draw((0, 0, 0.3)),
            lease=draw((4, 8, 8, 16)),
            interrupts_max=draw((1, 2, 3, 5)),
            failures_max=draw((1, 2, 2, 3)),
            keys=draw((1, 2, 3)),
            owners=draw((1, 1, 1, 2)),
            resources=draw((1, 1, 2)),
            slowness=draw((0.2, 0.4, 0.8, 1.4)),
            deploys=draw((0, 0.5, 1.0)),
            meddling=draw((0.3, 1.0, 1.0, 2.0)),
            effects=draw((0.2, 0.4, 0.9)),
            zeal=draw((0.1, 0.3, 0.7)),
            patience=draw((0.5, 0.7, 0.85)),
            few_controls=draw((0, 0, 0.5)),
            defies_holds=draw((0, 0.2, 0.5)),
            schedules=draw((0, 0, 0, 0, 1, 2)),
            rest=draw((3, 10, 140)),
            overlap=draw(("skip", "queue", "allow")),
            catch_up=draw(("none", "one", "all")),
        )

    def told(self) -> str:
        """What differs from a quiet world, for people."""
        quiet = type(self)()
        names = [each.name for each in fields(self) if getattr(self, each.name) != getattr(quiet, each.name)]
        return ", ".join(f"{name}={getattr(self, name)}" for name in names) or "a quiet world"
