"""The instants of a schedule, in UTC and in order: an interval counted from its anchor, or a calendar's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Protocol

from jobledger.domain.bounds import INSTANT_MAX, INSTANT_MIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobledger.domain.schedule_events import Definition

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""Where an interval is anchored when neither an anchor nor a start is given: whole hours are then whole hours."""

_MICROSECOND: Final = timedelta(microseconds=1)


class Calendar(Protocol):
    """What civil time needs from the world: cron expressions, and the rules of time zones."""

    def require(self, cron: str, zone: str) -> None:
        """Require an expression and a zone that can be read.

        Raises:
            InvalidRequestError: names the position in the expression and what is wrong there, or the zone.
        """
        ...

    def require_zone(self, zone: str) -> None:
        """Require a zone that is known.

        Raises:
            InvalidRequestError: it is not.
        """
        ...

    def instants(self, cron: str, zone: str, after: datetime) -> Iterator[datetime]:
        """The instants of an expression strictly after one, in UTC, each later than the one before it.

        They depend on the expression and the zone alone, not on where they are asked from. The iterator ends where no
        instant comes within fifty years.

        Raises:
            InvalidRequestError: the expression or the zone cannot be read (any more).
        """
        ...

    def local(self, instant: datetime, zone: str) -> datetime:
        """The civil time of an instant in a zone.

        Raises:
            InvalidRequestError: the zone is not known (any more).
        """
        ...


def instants(definition: Definition, calendar: Calendar, after: datetime) -> Iterator[datetime]:
    """The instants of a definition strictly after one, from its start to its end, each later than the one before it."""
    start, end = definition.start or INSTANT_MIN, definition.end or INSTANT_MAX
    behind = max(after, start - _MICROSECOND)
    if definition.cron is not None:
        found = calendar.instants(definition.cron, definition.zone, behind)
    else:
        found = _interval(definition, behind)
    for instant in found:
        if instant > end or instant >= INSTANT_MAX:
            return
        yield instant


def next_instant(definition: Definition, calendar: Calendar, after: datetime) -> datetime | None:
    """The first instant of a definition strictly after one, or ``None``."""
    return next(instants(definition, calendar, after), None)


def _interval(definition: Definition, after: datetime) -> Iterator[datetime]:
    every = definition.every
    if every is None:
        return
    anchor = definition.anchor or definition.start or EPOCH
    number = (after - anchor) // every + 1
    try:
        while True:
            yield anchor + number * every
            number += 1
    except OverflowError:
        return  # beyond the last year that a datetime has
