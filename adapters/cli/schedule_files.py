"""Schedules that stand in a TOML file: a table for each, under its name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from jobledger.adapters.cli.parsing import span_of, tables_of
from jobledger.domain.errors import InvalidRequestError
from jobledger.domain.schedules.definition import Schedule

SPANS: Final = ("every", "jitter", "window")
INSTANTS: Final = ("anchor", "start", "end")


def schedules_of(path: str) -> list[Schedule]:
    """The schedules of a file; spans are texts as ``90s`` or numbers of seconds, instants are TOML's own.

    Raises:
        InvalidRequestError: the file cannot be read, or a table is no schedule; names the table and the field.
    """
    tables = tables_of("FILE", path)
    if not tables:
        raise InvalidRequestError("FILE", f"{path!r} holds no schedule; write a table for each, as [nightly]")
    return [_schedule(name, table) for name, table in tables.items()]


def _schedule(name: str, table: Any) -> Schedule:
    if not isinstance(table, dict):
        raise InvalidRequestError(f"FILE.{name}", f"a table is needed; write [{name}] and its values below it")
    try:
        given: dict[str, Any] = {"name": name, "kind": None}
        given |= {field: _value(field, value) for field, value in table.items()}
        return Schedule(**given)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"FILE.{name}", str(error)) from None


def _value(field: str, given: Any) -> Any:
    if field == "name":
        raise InvalidRequestError("name", "the table's own name is the schedule's; leave it out")
    if field in SPANS and isinstance(given, str):
        return span_of(field, given)
    if field in INSTANTS and isinstance(given, datetime):
        return given if given.tzinfo else given.replace(tzinfo=UTC)
    return given
