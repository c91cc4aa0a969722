"""Answers for programs: every answer as one JSON document of plain values, safe to print on any terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from jobledger.domain.answers import Dropped, JobStatus
from jobledger.domain.history import RecordedEvent
from jobledger.domain.lease import Fence

if TYPE_CHECKING:
    from jobledger.domain.values import Json


def document(value: Any, *, is_line: bool = False) -> str:
    """The JSON text of an answer: indented, or in one line. Everything that is not plain ASCII is escaped."""
    shape: dict[str, Any] = {"separators": (",", ":")} if is_line else {"indent": 2}
    return json.dumps(plain(value), ensure_ascii=True, allow_nan=False, **shape).replace("\x7f", "\\u007f")


def plain(value: Any) -> Json:  # noqa: C901, PLR0911  # a table with a line for each type
    """An answer as plain JSON values: instants in ISO 8601 and UTC, spans in seconds, models and answers as objects."""
    match value:
        case Dropped():
            return {"dropped": {"digest": value.digest, "size": value.size}}
        case Fence():
            return {"job_id": value.job_id, "generation": value.generation}  # its token is a secret
        case RecordedEvent():
            return plain_event(value)
        case JobStatus():
            return _fields(value) | {"is_terminal": value.is_terminal}
        case Enum():
            return value.value
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case timedelta():
            return value.total_seconds()
        case BaseModel():
            return value.model_dump(mode="json")
        case Mapping():
            return {str(plain(name)): plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return _fields(value)
        case _:
            return value


def plain_event(event: RecordedEvent) -> dict[str, Json]:
    """One event of a history; its own fields stand in ``data``."""
    return {
        "job_id": event.job_id,
        "sequence": event.sequence,
        "topic": event.topic,
        "name": event.name,
        "generation": event.generation,
        "at": plain(event.at),
        "command_id": event.command_id,
        "digest": event.digest,
        "data": plain(event.data),
    }


def _fields(value: Any) -> dict[str, Json]:
    return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
