"""The base of every model that travels, and the kinds of values in them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

from jobledger.domain.bounds import NAME_CHARACTERS_MAX, REASON_CHARACTERS_MAX
from jobledger.domain.errors import StoreUnavailableError

_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)")


def read_instant(value: Any) -> datetime:
    """Read an instant of RFC 3339 with a zone; a ``datetime`` is passed on.

    Raises:
        ValueError: it is none, or no day of the calendar.
    """
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not _INSTANT.fullmatch(value):
        msg = "an instant with a zone is needed, as in 2026-06-01T12:00:00Z"
        raise ValueError(msg)
    return datetime.fromisoformat(value)


def _told(value: datetime) -> str:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


Json = Annotated[Any, WithJsonSchema({"description": "Any JSON value, given back exactly as it was stored."})]
Instant = Annotated[
    datetime,
    BeforeValidator(read_instant),
    PlainSerializer(_told, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2026-06-01T12:00:00Z"]}),
]
# Lengths and ranges are documented here and checked by the domain, which answers each item of a batch for itself.
Name = Annotated[str, WithJsonSchema({"type": "string", "minLength": 1, "maxLength": NAME_CHARACTERS_MAX})]
Reason = Annotated[
    str,
    WithJsonSchema(
        {
            "type": "string",
            "minLength": 1,
            "maxLength": REASON_CHARACTERS_MAX,
            "description": "Why; it stays in the job's history.",
        }
    ),
]
Seconds = Annotated[float, Field(description="A span in seconds.")]


def _answering(make: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(make)
    def answer(self: Wire, *args: Any, **given: Any) -> Any:
        try:
            return make(self, *args, **given)
        except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError) as error:
            reason = f"the server's answer is of another version: its {type(self).__name__} means nothing here"
            raise StoreUnavailableError(reason) from error

    return answer


class Wire(BaseModel):
    """A closed, frozen model: unknown fields are refused, and nothing is converted silently."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, from_attributes=True)

    def __init_subclass__(cls, **settings: Any) -> None:
        """Let whatever an ``answer`` cannot be made of be told as ``StoreUnavailableError``.

        A model says which types its fields have; that an instant is one of the calendar, or a span no infinity, shows
        when the answer is made.
        """
        super().__init_subclass__(**settings)
        if "answer" in cls.__dict__:
            cls.answer = _answering(cls.answer)  # type: ignore[attr-defined]  # it was just found there

    @classmethod
    def of(cls, value: object) -> Self:
        """Make the model of an answer of the store, field by field."""
        return cls.model_validate(value, from_attributes=True, strict=False)
