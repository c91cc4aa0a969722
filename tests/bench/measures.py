"""What is measured, on which engines, how much of it, and which bar it has to reach."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Measure:
    """One row: a command of the drivers, how many things it does at full size, and its bar.

    ``before`` makes jobs first, untimed; ``warm`` things are done first, so that connections and plans are there.
    ``processes`` drivers work at once. ``bar`` is a ratio of ours to the rival that ``against`` names (``floor``:
    commits of one row by pgbench), or a rate where ``against`` is empty.
    """

    name: str
    command: str
    count: int
    text: str
    before: int = 0
    warm: int = 0
    processes: int = 1
    against: str = ""
    bar: float = 0.0
    goal: float = 0.0


POSTGRESQL = (
    Measure("create-one", "create_one", 1_000, "create, one call a job", against="fastest", bar=0.8, goal=1.1),
    Measure("create-many", "create_many", 20_000, "create, in bulk", against="pgqueuer", bar=0.9, goal=1.2),
    Measure("drain", "drain", 20_000, "drain, 1 worker process", before=20_000, against="pgqueuer", bar=0.8, goal=1.2),
    Measure(
        "drain-4",
        "drain",
        40_000,
        "drain, 4 worker processes",
        before=40_000,
        processes=4,
        against="pgqueuer",
        bar=0.9,
        goal=1.3,
    ),
    Measure("drain-calls", "drain_calls", 20_000, "drain by batches of calls, no host", before=20_000),
    Measure("drain-held", "drain_held", 20_000, "the same beside an old snapshot", before=20_000),
    Measure(
        "append",
        "append_one",
        1_000,
        "append one event, 1 writer",
        warm=20,
        against="eventsourcing",
        bar=1.0,
        goal=1.3,
    ),
    Measure(
        "append-16",
        "append_one",
        300,
        "append one event, 16 writers",
        warm=20,
        processes=16,
        against="eventsourcing",
        bar=5.0,
        goal=10.0,
    ),
    Measure("checkpoint", "checkpoints", 1_000, "checkpoint, each durable", against="floor", bar=0.35, goal=0.6),
    Measure("checkpoint-dbos", "checkpoints", 500, "checkpoint beside a step", against="dbos", bar=3.0),
    Measure("create-and-drain", "create_and_drain", 500, "create one by one, and drain", against="dbos"),
    Measure("feed", "feed", 60_000, "events read from the feed", before=20_000, bar=50_000),
    Measure("verify", "verify_long", 4_000, "events verified, one long history", bar=50_000),
    Measure("verify-short", "verify", 20_000, "events verified, a job each", before=20_000),
)

SQLITE = (
    Measure("sqlite-create-one", "create_one", 1_000, "SQLite: create, one call a job"),
    Measure("sqlite-create-many", "create_many", 20_000, "SQLite: create, in bulk", bar=10_000, goal=20_000),
    Measure("sqlite-drain", "drain", 10_000, "SQLite: drain, worker host", before=10_000, bar=2_000, goal=3_000),
    Measure("sqlite-drain-calls", "drain_calls", 10_000, "SQLite: drain by batches of calls", before=10_000),
    Measure("sqlite-checkpoint", "checkpoints", 1_000, "SQLite: checkpoint, each durable"),
    Measure("sqlite-feed", "feed", 20_000, "SQLite: events read from the feed", before=20_000, bar=50_000),
    Measure("sqlite-verify", "verify_long", 4_000, "SQLite: events verified, one long history", bar=50_000),
    Measure("sqlite-verify-short", "verify", 20_000, "SQLite: events verified, a job each", before=20_000),
)

FLOOR = "floor"
"""The name under which the machine itself takes part: commits of one row by pgbench, 1 client."""


@dataclass(frozen=True, slots=True)
class Series:
    """The rates a second that one engine reached, one for each round."""

    values: tuple[float, ...]

    @property
    def middle(self) -> float:
        """The median."""
        return median(self.values)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How we stand in one measure: the rival, the ratio of each round, and whether the bar and the goal are met."""

    rival: str
    ratios: Series | None
    is_bar_met: bool | None
    is_goal_met: bool | None


def judge(measure: Measure, rates: dict[str, Series], ours: str = "jobledger") -> Verdict:
    """Compare round by round, since the rounds of one run met the same machine; medians decide."""
    own = rates.get(ours)
    if own is None or not (measure.bar or measure.against):
        return Verdict("", None, None, None)
    if not measure.against:
        return Verdict("", None, own.middle >= measure.bar, own.middle >= measure.goal if measure.goal else None)
    rivals = {name: series for name, series in rates.items() if name not in (ours, FLOOR)}
    rival = measure.against
    if rival == "fastest":
        rival = max(rivals, key=lambda name: rivals[name].middle, default="")
    if rival not in rates:
        return Verdict(rival, None, None, None)
    ratios = Series(tuple(mine / theirs for mine, theirs in zip(own.values, rates[rival].values, strict=False)))
    return Verdict(rival, ratios, ratios.middle >= measure.bar, ratios.middle >= measure.goal if measure.goal else None)
