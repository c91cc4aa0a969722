"""What happened in each of the last minutes, as a chart takes it: of everything, or of one queue."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from jobledger.domain.errors import ProjectionBusyError
from jobledger.domain.events import Outcome

if TYPE_CHECKING:
    from jobledger.adapters.web.service import Service

MINUTES: Final = 60
GOOD: Final = frozenset({Outcome.COMPLETE, Outcome.PARTIAL})
BAD: Final = frozenset(Outcome) - GOOD


@dataclass(frozen=True, slots=True)
class Pace:
    """A chart of the last minutes as JSON, its sums in words, and what to do where nothing is read."""

    lines: str
    words: str
    advice: str
    queue: str = ""


def pace(face: Service, owner: str | None, queue: str | None = None) -> Pace:
    """The last minutes, those included in which nothing happened."""
    try:
        found = face.store.paces(per="minute", last=MINUTES, owner=owner, queue=queue)
    except ProjectionBusyError as busy:
        return Pace("", "", str(busy))
    minute = now().replace(second=0, microsecond=0)
    by_minute = {each.start: each for each in found.paces}
    minutes = [minute - timedelta(minutes=number) for number in reversed(range(MINUTES))]
    paces = [by_minute.get(minute) for minute in minutes]
    lines = {
        "created": [each.created if each else 0 for each in paces],
        "ended well": [_ended(each, GOOD) for each in paces],
        "ended badly": [_ended(each, BAD) for each in paces],
    }
    words = ", ".join(f"{sum(line):,} {name}" for name, line in lines.items())
    drawn = {"at": [minute.timestamp() for minute in minutes], "lines": lines}
    return Pace(json.dumps(drawn), f"In the last {MINUTES} minutes: {words}.", found.as_of.advice, queue or "")


def now() -> datetime:
    """The time of this machine, by which the minutes of a chart are counted."""
    return datetime.now(UTC)


def _ended(each: Any, outcomes: frozenset[Outcome]) -> int:
    return sum(count for outcome, count in each.finished.items() if outcome in outcomes) if each else 0
