"""Reading what was typed: payloads, labels, instants, policies; every mistake is an ``InvalidRequestError``."""

from __future__ import annotations

import re
import sys
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jobledger.domain.bounds import JSON_TEXT_BYTES_MAX, SPAN_MAX, parse_json, require_instant
from jobledger.domain.errors import InvalidRequestError
from jobledger.domain.policies import Backoff, Policy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobledger.domain.values import Json

POLICY_FILE_BYTES_MAX: Final = 1024 * 1024

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_FRACTION_DIGITS: Final = 6


def payload_of(given: str) -> Json:
    """A payload as it was given: JSON text, ``@file``, or ``-`` for the standard input."""
    if given == "-":
        return parse_json("payload", sys.stdin.buffer.read(JSON_TEXT_BYTES_MAX + 1))
    if given.startswith("@"):
        return parse_json("payload", _contents("payload", given[1:], JSON_TEXT_BYTES_MAX))
    return parse_json("payload", given)


def labels_of(given: Sequence[str]) -> dict[str, str]:
    """Labels given as ``name=value``."""
    labels: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidRequestError("label", f"{text!r} is no name=value; write --label team=search")
        if name in labels:
            raise InvalidRequestError("label", f"{name!r} is given twice; each label has one value")
        labels[name] = value
    return labels


def label_filter(given: str | None) -> str | tuple[str, str] | None:
    """A filter given as ``name`` or ``name=value``."""
    name, equals, value = (given or "").partition("=")
    return (name, value) if equals else given


def instant_of(field: str, given: str, *, is_end: bool = False) -> datetime:
    """An instant in ISO 8601, as the command line shows it; UTC where it names no zone.

    ``is_end``: what was left out of the fraction is filled up, so that a time copied from a screen includes all that
    happened within it.
    """
    try:
        read = datetime.fromisoformat(given)
    except ValueError:
        problem = f"{given!r} is no time; write it as 2026-11-29 13:52:44Z"
        raise InvalidRequestError(field, problem) from None
    aware = read if read.tzinfo else read.replace(tzinfo=UTC)
    fraction = re.search(r"[.,](\d+)", given)
    missing = max(0, _FRACTION_DIGITS - len(fraction[1])) if fraction else _FRACTION_DIGITS
    return _later(field, require_instant(field, aware), timedelta(microseconds=10**missing - 1 if is_end else 0))


def moment_of(given: str | None) -> int | datetime | None:
    """A sequence, or an instant."""
    if given is None:
        return None
    if re.fullmatch(r"[0-9]{1,19}", given, re.ASCII):
        return int(given)
    return instant_of("at", given, is_end=True)


def ready_of(given: str | None, now: datetime) -> datetime | None:
    """An instant, or a span from now: ``+90s``, ``+5m``, ``+2h``, ``+1d``."""
    if given is None:
        return None
    if found := re.fullmatch(r"\+([0-9]{1,9})([smhd])", given, re.ASCII):
        seconds = min(int(found[1]) * _UNITS[found[2]], SPAN_MAX.total_seconds())
        return _later("ready_at", now, timedelta(seconds=seconds))
    return instant_of("ready_at", given)


def span_of(field: str, given: str) -> timedelta:
    """A span: ``90s``, ``5m``, ``2h``, ``1d``.

    Raises:
        InvalidRequestError: it is none, or longer than any that a store takes.
    """
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", given, re.ASCII)
    if found is None:
        raise InvalidRequestError(field, f"{given!r} is no span of time; write it as 90s, 5m, 2h or 1d")
    seconds = int(found[1]) * _UNITS[found[2]]
    if seconds > SPAN_MAX.total_seconds():
        raise InvalidRequestError(field, f"{given!r} is longer than {SPAN_MAX.days:,} days")
    return timedelta(seconds=seconds)


def tables_of(field: str, path: str) -> dict[str, Any]:
    """The tables of a TOML file, by name."""
    raw = _contents(field, path, POLICY_FILE_BYTES_MAX)
    try:
        return tomllib.loads(raw.decode())
    except (ValueError, RecursionError) as error:  # the library's own mistakes, and numbers that are too long to read
        raise InvalidRequestError(field, f"{path!r} is no TOML file: {error}") from None


def _later(field: str, at: datetime, by: timedelta) -> datetime:
    try:
        return at + by
    except OverflowError:
        raise InvalidRequestError(field, "it lies beyond the year 9998") from None


def policies_of(path: str | None) -> dict[str, Policy]:
    """The policies of a TOML file: a table for each, spans in seconds, sizes in bytes."""
    if path is None:
        return {}
    tables = tables_of("policies", path)
    return {name: _policy(name, table) for name, table in tables.items()}


def _policy(name: str, table: Any) -> Policy:
    if not isinstance(table, dict):
        raise InvalidRequestError(f"policies.{name}", f"a table is needed; write [{name}] and its values below it")
    values: dict[str, Any] = {**table}
    try:
        if isinstance(values.get("backoff"), dict):
            values["backoff"] = Backoff(**values["backoff"])
        return Policy(**values)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"policies.{name}", str(error)) from None
    except TypeError as error:
        raise InvalidRequestError(f"policies.{name}", f"a value has a name that none may have ({error})") from None


def _contents(field: str, path: str, bytes_max: int) -> bytes:
    """A file's bytes, up to one more than are allowed."""
    try:
        with Path(path).open("rb") as file:
            return file.read(bytes_max + 1)
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        raise InvalidRequestError(field, f"the file {path!r} cannot be read: {problem.lower()}") from None
