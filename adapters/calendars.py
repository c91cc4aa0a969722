"""Civil time: cron expressions by ``cronsim``, time zones by the IANA database of the machine or of ``tzdata``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from jobledger.domain.errors import InvalidRequestError

FIELDS: Final = ("minute", "hour", "day of month", "month", "day of week")
RANGES: Final = (
    "0 to 59",
    "0 to 23",
    "1 to 31, L or LW",
    "1 to 12 or JAN to DEC",
    "0 to 7 or SUN to SAT, as in 5#2 or 5L",
)

_WORD: Final = re.compile(r"\S+")
_A_DAY: Final = timedelta(days=1)
_A_SECOND: Final = timedelta(seconds=1)
_SOMETIME: Final = datetime(2026, 1, 1, tzinfo=UTC)
# What a machine calls its own zone is another one elsewhere; Factory is no place.
_NO_ZONES: Final = frozenset({"localtime", "Factory", "posixrules"})


class ZoneCalendar:
    """Reads cron expressions of five fields with the daylight-saving rules of Debian's cron.

    Where minute and hour are both given (neither begins with ``*``), a time that the clock skips in spring fires at the
    first moment after the gap, and one that comes twice in autumn fires the first time only. Everything else (hourly,
    every half hour) goes by elapsed time: in the gap it does not fire, in the repeated hour it fires again.
    """

    def require(self, cron: str, zone: str) -> None:
        """Require an expression and a zone that can be read.

        Raises:
            InvalidRequestError: names the position in the expression and what is wrong there, or the zone.
        """
        self.require_zone(zone)
        words = list(_WORD.finditer(cron))
        if len(words) != len(FIELDS):
            names = ", ".join(FIELDS)
            problem = f"{cron!r} has {len(words)} fields, five are needed: {names}; for seconds use every=…"
            raise InvalidRequestError("Schedule.cron", problem)
        try:
            _simulated(cron, _SOMETIME)
        except InvalidRequestError as error:
            raise _mistake(words) or error from None

    def require_zone(self, zone: str) -> None:
        """Require a zone that is known.

        Raises:
            InvalidRequestError: it is not.
        """
        _zone(zone)

    def instants(self, cron: str, zone: str, after: datetime) -> Iterator[datetime]:
        """The instants of an expression strictly after one, in UTC; ends where none comes within fifty years.

        Raises:
            InvalidRequestError: the expression or the zone cannot be read.
        """
        place, last = _zone(zone), after
        minute, hour, *_ = cron.split()
        is_elapsed = minute.startswith("*") or hour.startswith("*")
        simulated = _elapsed(cron, place, after) if is_elapsed else _simulated(cron, after.astimezone(place))
        try:
            for found in simulated:
                instant = found.astimezone(UTC)
                # Asked from within a repeated hour, the library also answers the times of its first pass.
                if instant > last:
                    last = instant
                    yield instant
        except (OverflowError, ValueError):
            return  # beyond the last year that a datetime has

    def local(self, instant: datetime, zone: str) -> datetime:
        """The civil time of an instant in a zone.

        Raises:
            InvalidRequestError: the zone is not known.
        """
        return instant.astimezone(_zone(zone))


def in_words(cron: str) -> str:
    """A cron expression as a sentence: ``At 02:30 on Monday through Friday``; one that has none stays as it is."""
    try:
        return CronSim(cron, _SOMETIME).explain()
    except CronSimError:
        return cron


def _elapsed(cron: str, place: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """The times of an expression that goes by elapsed time, each looked for under the one offset that holds there.

    The library steps by whole hours, and so past what lies behind a change of half an hour (Lord Howe Island).
    """
    seen = after
    while True:
        offset = _offset(place, seen)
        changed = None
        for found in _simulated(cron, seen.astimezone(timezone(offset))):
            changed = _changed(place, offset, seen, found)
            if changed is not None:
                break
            seen = found
            yield found
        if changed is None:
            return
        # Whatever stands right at the change belongs to the new offset.
        first = changed.astimezone(timezone(_offset(place, changed))) - changed.resolution
        for found in _simulated(cron, first):
            if found.astimezone(UTC) == changed:
                yield found
            break
        seen = changed


def _changed(place: ZoneInfo, offset: timedelta, after: datetime, upto: datetime) -> datetime | None:
    """The first moment after one, and at most another, at which a zone has not this offset any more."""
    known, end = after.astimezone(UTC).replace(microsecond=0), upto.astimezone(UTC)
    while known < end:
        ahead = min(known + _A_DAY, end)
        if _offset(place, ahead) != offset:
            while ahead - known > _A_SECOND:
                middle = known + (ahead - known) // _A_SECOND // 2 * _A_SECOND
                known, ahead = (middle, ahead) if _offset(place, middle) == offset else (known, middle)
            return ahead
        known = ahead
    return None


def _offset(place: ZoneInfo, instant: datetime) -> timedelta:
    return instant.astimezone(place).utcoffset() or timedelta(0)


def _simulated(cron: str, after: datetime) -> CronSim:
    try:
        return CronSim(cron, after)
    except (CronSimError, ValueError, AssertionError) as error:
        problem = f"{cron!r} never fires: no month of it has such a day ({error})"
        raise InvalidRequestError("Schedule.cron", problem) from None


def _mistake(words: list[re.Match[str]]) -> InvalidRequestError | None:
    """The first part of an expression that cannot be read even by itself."""
    for number, word in enumerate(words):
        column = word.start() + 1
        for part in word[0].split(","):
            if not _is_readable(number, part):
                problem = f"column {column}: {part!r} is no {FIELDS[number]} ({RANGES[number]})"
                return InvalidRequestError("Schedule.cron", problem)
            column += len(part) + 1
    return None


def _is_readable(number: int, part: str) -> bool:
    alone = ["*"] * len(FIELDS)
    alone[number] = part
    try:
        CronSim(" ".join(alone), _SOMETIME)
    except (CronSimError, ValueError, AssertionError):
        return False
    return True


@cache
def _known_zones() -> frozenset[str]:
    return frozenset(available_timezones()) - _NO_ZONES


def _zone(zone: str) -> ZoneInfo:
    if zone not in _known_zones():
        problem = f"there is no time zone {zone!r}; write an IANA name, as Europe/Berlin or UTC"
        raise InvalidRequestError("Schedule.zone", problem)
    return ZoneInfo(zone)
