"""Payload templates: texts in a payload that name the instant for which a job is made."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from jobledger.domain.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from jobledger.domain.values import Json

PLACES: Final = ("instant", "local", "date", "schedule")
"""What a template may name: the nominal instant in UTC, the same in the schedule's zone, its date there, the name."""

_PLACE: Final = re.compile(r"(?P<escape>\$)?\$\{(?P<name>[^{}]{0,50})\}")


def require_template(field: str, payload: Json) -> None:
    """Require that every ``${…}`` in a payload's texts is known; ``$${…}`` is a ``${…}`` that is meant as it stands.

    Raises:
        InvalidRequestError: one is not; names it.
    """
    known = dict.fromkeys(PLACES, "")

    def check(text: str) -> str:
        for found in _PLACE.finditer(text):
            if not found["escape"] and found["name"] not in known:
                places = ", ".join(f"${{{place}}}" for place in PLACES)
                problem = f"there is no {found[0]}; known ones: {places}; write ${found[0]} for the text itself"
                raise InvalidRequestError(field, problem)
        return text

    _mapped(payload, check)


def filled(payload: Json, values: Mapping[str, str]) -> Json:
    """The payload with every place of its texts filled in."""

    def value(found: re.Match[str]) -> str:
        return found[0][1:] if found["escape"] else values[found["name"]]

    return _mapped(payload, lambda text: _PLACE.sub(value, text))


def values_of(name: str, instant: datetime, local: datetime) -> dict[str, str]:
    """What the places stand for, for one instant."""
    return {
        "instant": instant_text(instant),
        "local": local.isoformat(),
        "date": local.date().isoformat(),
        "schedule": name,
    }


def instant_text(instant: datetime) -> str:
    """An instant in UTC as it stands in keys and payloads: ``2026-03-29T01:00:00Z``."""
    return f"{instant.replace(tzinfo=None).isoformat()}Z"


def _mapped(value: Json, change: Callable[[str], str]) -> Json:
    """The value with its texts changed, but for the names in objects; payloads are bounded in depth."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_mapped(item, change) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        return {name: _mapped(item, change) for name, item in cast("dict[str, Any]", value).items()}
    return value
