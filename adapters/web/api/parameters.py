"""What the routes share: routers, header and query parameters, preconditions, and answers of any length."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Header, Path, Query
from starlette.responses import StreamingResponse

from jobledger.adapters.web.json_bodies import BoundedRoute
from jobledger.adapters.web.refusing import HttpProblemError
from jobledger.adapters.wire.base import read_instant
from jobledger.domain.bounds import INTEGER_MAX, NAME_CHARACTERS_MAX, PAGE_MAX
from jobledger.projections.cursors import CURSOR_CHARACTERS_MAX

if TYPE_CHECKING:
    from jobledger.domain.answers import JobStatus
    from jobledger.domain.schedules.answers import ScheduleStatus

JobId = Annotated[str, Path(min_length=1, max_length=NAME_CHARACTERS_MAX, description="The job's id.")]
CommandId = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=NAME_CHARACTERS_MAX,
        description="Makes a repeat of this command safe: it is answered from what the first one did.",
    ),
]
IfMatch = Annotated[
    str | None, Header(max_length=100, description="The ETag of the job as you saw it; else it is refused with 412.")
]
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]
Sequence = Annotated[int, Query(ge=0, le=INTEGER_MAX)]
Cursor = Annotated[str | None, Query(max_length=CURSOR_CHARACTERS_MAX)]
NameQuery = Annotated[str, Query(min_length=1, max_length=NAME_CHARACTERS_MAX)]
OptionalName = Annotated[str | None, Query(max_length=NAME_CHARACTERS_MAX)]


class JsonLines(StreamingResponse):
    """An answer of any length: one JSON document on each line."""

    media_type: str | None = "application/jsonl"


def router(tag: str) -> APIRouter:
    """A router of the API whose request bodies are bounded."""
    return APIRouter(route_class=BoundedRoute, tags=[tag])


def etag(status: JobStatus | ScheduleStatus) -> str:
    """The tag of a job or a schedule: its sequence, and its control sequence, which alone ``If-Match`` counts."""
    return f'"{status.sequence}-{status.control_sequence}"'


def expected_sequence(if_match: str | None, *, is_required: bool, least: int = 1) -> int | None:
    """The control sequence that a caller saw, out of ``If-Match``; ``*`` is any, ``least`` the first there is.

    Raises:
        HttpProblemError: it is required and missing, or no tag that a job was given.
    """
    if if_match is None:
        if is_required:
            raise HttpProblemError("precondition_required", "this control must not act late: say which job you saw")
        return None
    if if_match.strip() == "*":
        return None
    _, dash, control = if_match.strip().strip('"').partition("-")
    digits: Final = 18
    if not dash or not control.isascii() or not control.isdigit() or len(control) > digits or int(control) < least:
        raise HttpProblemError("precondition_failed", "If-Match holds no ETag that a job was given")
    return int(control)


def instant_or_sequence(at: str | None) -> int | datetime | None:
    """The place in a history that is asked about: a sequence or an instant.

    Raises:
        HttpProblemError: it is neither.
    """
    if at is None:
        return None
    if at.isascii() and at.isdigit() and len(at) <= 18:  # noqa: PLR2004  # more digits are no sequence
        return int(at)
    try:
        return read_instant(at)
    except ValueError as error:
        raise HttpProblemError("bad_request", f"at: a sequence or an instant is needed ({error})") from None


def given(**values: Any) -> dict[str, Any]:
    """Those arguments that were given."""
    return {name: value for name, value in values.items() if value is not None}
