"""Schedules for tests of the rules: states folded from facts, a calendar that needs no zone, and jobs that are made."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from jobledger.domain.schedule_events import Definition, How, ScheduleCreated, ScheduleFired, ScheduleSkipped
from jobledger.domain.schedules.firing import Before, Made, settle
from jobledger.domain.schedules.state import ScheduleState, evolve_schedule
from jobledger.domain.schedules.timing import next_instant
from tests.domain.given import body

START: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE: Final = timedelta(minutes=1)


class NoCalendar:
    """Intervals ask no calendar."""

    def require(self, cron: str, zone: str) -> None:
        """Nothing is asked."""
        raise NotImplementedError

    def require_zone(self, zone: str) -> None:
        """Nothing is asked."""
        raise NotImplementedError

    def instants(self, cron: str, zone: str, after: datetime) -> Iterator[datetime]:
        """Nothing is asked."""
        raise NotImplementedError

    def local(self, instant: datetime, zone: str) -> datetime:
        """UTC."""
        del zone
        return instant


CALENDAR: Final = NoCalendar()


def minutely(**given: Any) -> ScheduleState:
    """A schedule of every minute that was created at ``START``."""
    timed: dict[str, Any] = {"every": MINUTE, "overlap": "allow"} | given
    definition = Definition(owner="team", kind="index", payload=body({}), **timed)
    next_at = next_instant(definition, CALENDAR, START)
    created = ScheduleCreated(at=START, namespace="default", name="s", definition=definition, by="ann", next_at=next_at)
    return evolve_schedule(None, created)


def at(minutes: float) -> datetime:
    """So many minutes after the start."""
    return START + minutes * MINUTE


def settled(
    state: ScheduleState, minutes: float, *, before: Before | None = None, refused: tuple[float, ...] = ()
) -> tuple[list[tuple[str, float]], ScheduleState]:
    """What became of each instant so many minutes after the start: how it fired, or why not; and the state then."""

    def make(instant: datetime, _: How) -> Made:
        minute = (instant - START) / MINUTE
        return Made(None, "refused") if minute in refused else Made(f"job-{minute:g}")

    result = settle(state, CALENDAR, make, before=before, now=at(minutes))
    fates: list[tuple[str, float]] = []
    for fact in result.facts:
        if isinstance(fact, ScheduleFired):
            fates.append((fact.how, (fact.instant - START) / MINUTE))
        elif isinstance(fact, ScheduleSkipped):
            fates += [(fact.reason, minute) for minute in minutes_of(state, fact)]
        state = evolve_schedule(state, fact)
    return fates, state


def minutes_of(state: ScheduleState, fact: ScheduleFired | ScheduleSkipped) -> list[float]:
    """The instants that a fact settles, in minutes after the start."""
    if isinstance(fact, ScheduleFired):
        return [(fact.instant - START) / MINUTE]
    every = state.definition.every or MINUTE
    run = [fact.first + number * every for number in range(fact.count)]
    assert run[-1] == fact.last
    return [(instant - START) / MINUTE for instant in run]
