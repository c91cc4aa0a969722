"""Who acts on schedules in a simulation: schedulers, which fire what is due, and an operator, who plans and meddles."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from tests.proof.actors import Actor

if TYPE_CHECKING:
    from jobledger.domain.schedules.state import ScheduleState
    from tests.proof.actors import Life
    from tests.proof.history import Operation

EVERY: Final = (4, 7, 15)
RARELY: Final = (15, 100)
"""Where everybody looks away for long; a minute after the newest instant, too."""
LATE: Final = 90
"""Where schedulers look away for longer, the operator lets time pass, too: instants that nobody settles come late."""
WINDOWS: Final = (60, 90, 86_400, 86_400)


class Scheduler(Actor):
    """Fires what is due, then looks away for a while; what it missed meanwhile is settled as each schedule says."""

    def lives(self) -> Life:
        """Fire every now and then; a call that failed is followed by the next one, as by a host's."""
        draw = self.random
        while True:
            yield draw.randint(1 + self.mix.rest // 2, self.mix.rest)
            operation = self.operation("schedule.fire_due")
            operation.command_id = None
            yield operation
            self.simulation.learn_occurrences()


class Planner(Actor):
    """Puts schedules, changes them, holds, releases and removes them, and asks for occurrences beside the plan."""

    CONTROLS: Final = ("hold", "release", "remove", "trigger", "backfill", "put")

    def lives(self) -> Life:
        """Plan first, meddle then."""
        draw = self.random
        while True:
            name = f"s{draw.randint(1, self.mix.schedules)}"
            known = self.simulation.backend.schedule(name)
            is_there = known is not None and not known.is_removed
            patience = max(2, int(24 / self.mix.meddling)) if self.mix.rest < LATE else LATE
            yield draw.randint(patience // 4, patience) if is_there else draw.randint(0, 4)
            operation = self._wish(name, self.simulation.backend.schedule(name))
            if operation.command_id is None:
                yield operation
            else:
                yield from self.ask(operation)
            self.simulation.learn_occurrences()

    def _wish(self, name: str, state: ScheduleState | None) -> Operation:
        draw = self.random
        what = draw.choice(self.CONTROLS if draw.random() < 0.25 else self._sensible(state))
        if what == "put":
            return self.operation("schedule.put", schedule=self._schedule(name), by=self.name)
        asked: dict[str, Any] = {"name": name, "by": self.name if draw.random() < 0.9 else "else", "reason": "so"}
        if what == "backfill":
            last = self.simulation.now - timedelta(seconds=draw.randint(0, 20))
            operation = self.operation("schedule.backfill", **asked, first=last - timedelta(seconds=40), last=last)
            operation.command_id = None
            return operation
        if what != "trigger" and state is not None and draw.random() < 0.4:
            asked["expected_sequence"] = state.control_sequence - (draw.random() < 0.2)
        return self.operation(f"schedule.{what}", **asked)

    @staticmethod
    def _sensible(state: ScheduleState | None) -> tuple[str, ...]:
        """What somebody who looks at the schedule might ask."""
        if state is None or state.is_removed:
            return ("put",)
        if state.hold is not None:
            return ("release", "release", "release", "put", "remove")
        return ("hold", "hold", "trigger", "trigger", "backfill", "put", "remove")

    def _schedule(self, name: str) -> dict[str, Any]:
        draw, mix, now = self.random, self.mix, self.simulation.now
        asked: dict[str, Any] = {
            "name": name,
            "kind": "build",
            "owner": "o1",
            "policy": "tight",
            "payload": draw.choice((1, "${instant}")),
            "every": draw.choice(EVERY if mix.rest < LATE else RARELY),
            "overlap": mix.overlap if draw.random() < 0.8 else draw.choice(("skip", "queue", "allow")),
            "catch_up": mix.catch_up if draw.random() < 0.8 else draw.choice(("none", "one", "all")),
            "window": draw.choice(WINDOWS),
            "jitter": draw.choice((0, 0, 3)),
        }
        if mix.rest >= LATE:
            asked["anchor"] = now + timedelta(seconds=draw.randint(1, 20))
        if draw.random() < 0.2:
            asked["start"] = now + timedelta(seconds=draw.randint(-30, 20))
        if draw.random() < 0.2:
            asked["end"] = now + timedelta(seconds=draw.randint(20, 60))
        return asked


SCHEDULING_LIVES: Final[dict[str, type[Actor]]] = {"planner": Planner, "s1": Scheduler, "s2": Scheduler}
