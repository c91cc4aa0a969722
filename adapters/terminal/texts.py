"""Texts for people: other people's text made harmless, times without a zone to guess, ages, and values cut to fit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from jobledger.domain.answers import Dropped
from jobledger.domain.values import encode_json

if TYPE_CHECKING:
    from jobledger.domain.values import Json

_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_BYTE_MAX: Final = 0xFF
_PLANE_MAX: Final = 0xFFFF


def visible(text: str) -> str:
    r"""The text in one line, with all that could move a cursor, change a colour or turn the reading direction escaped.

    What Python does not call printable is shown as Python writes it: ``\x1b``, ``\u202e``, also unusual spaces.
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def visible_lines(text: str) -> str:
    """The same, but line ends stay: for reports that were written in lines."""
    return "\n".join(visible(line.expandtabs(4)) for line in text.replace("\r\n", "\n").split("\n"))


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    if code <= _BYTE_MAX:
        return _SHORT.get(character, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code <= _PLANE_MAX else f"\\U{code:08x}"


def clipped(text: str, longest: int) -> str:
    """The text, with a mark where it was cut to ``longest`` characters."""
    return text if len(text) <= longest else f"{text[: max(0, longest - 1)]}…"


def compact(value: Json, longest: int = 200) -> str:
    """A stored value as one line of JSON, escaped and cut to ``longest`` characters."""
    if isinstance(value, Dropped):
        return f"(not retained: {value.size:,} bytes, digest {value.digest[:12]}…)"
    return clipped(visible(encode_json(value).decode()), longest)


def instant(at: datetime) -> str:
    """An instant that reads the same everywhere: ``2026-11-29 13:52:44Z``."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def exact(at: datetime) -> str:
    """An instant as it was recorded, to the microsecond: ``2026-11-29 13:52:44.518679Z``; ``--at`` takes it so."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}Z"


def clock(at: datetime) -> str:
    """The time of day of an instant with milliseconds: ``13:52:44.518Z``."""
    utc = at.astimezone(UTC)
    return f"{utc:%H:%M:%S}.{utc.microsecond // 1000:03d}Z"


def span(length: timedelta) -> str:
    """A span in its largest units: ``0.4s``, ``12s``, ``3m 5s``, ``2h 10m``, ``4d 3h``."""
    seconds = abs(length.total_seconds())
    if seconds < 10:  # noqa: PLR2004  # below it a tenth matters to people
        return f"{seconds:.1f}s"
    whole = int(seconds)
    for size, unit, part, smaller in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size}{unit} {rest}{smaller}" if rest else f"{whole // size}{unit}"
    return f"{whole}s"


def age(at: datetime, now: datetime) -> str:
    """How far an instant lies from now: ``3m 5s ago``, ``in 2h``, ``now``."""
    away = at - now
    if abs(away) < timedelta(seconds=1):
        return "now"
    return f"in {span(away)}" if away > timedelta(0) else f"{span(away)} ago"


def dated(at: datetime, now: datetime) -> str:
    """An instant and its age."""
    return f"{instant(at)} ({age(at, now)})"


def many(count: int, one: str, more: str | None = None) -> str:
    """A count with its noun: ``1 job``, ``1,200 jobs``."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"
