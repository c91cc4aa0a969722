"""How projections stand: how far each has read, what is behind it, what it is parked at, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from jobledger.domain.errors import JobledgerError
from jobledger.domain.history import read
from jobledger.domain.tracking import Trouble

if TYPE_CHECKING:
    from jobledger.domain.ports import Reader
    from jobledger.domain.tracking import Tracked
    from jobledger.projections.folding import Projection


class ProjectionState(StrEnum):
    """How a projection stands."""

    NEW = "new"
    FOLLOWING = "following"
    PARKED = "parked"
    OUTDATED = "outdated"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionStatus:
    """How far a projection has read, and what is behind it.

    ``lag_events`` counts the places of the feed that it has not passed (a few may be empty), ``lag`` is the age of the
    first event among them. ``trouble`` is the event that it is parked at; ``advice`` says what to do, if anything.
    ``rebuilding`` is the place that a build beside it has reached.
    """

    name: str
    version: int
    state: ProjectionState
    position: int
    lag_events: int
    lag: timedelta
    runner: str
    moved_at: datetime | None
    trouble: Trouble | None
    rebuilding: int | None
    advice: str


def status_of(reader: Reader, projection: Projection) -> ProjectionStatus:
    """How a projection stands in one view."""
    builds = [each for each in reader.tracked() if each.projection == projection.name]
    live = next((each for each in builds if each.is_live), None)
    position = live.position if live else 0
    end = max(position, reader.log_end())
    state = _state(live, projection)
    return ProjectionStatus(
        name=projection.name,
        version=live.version if live else projection.version,
        state=state,
        position=position,
        lag_events=end - position,
        lag=_lag(reader, position) if end > position else timedelta(0),
        runner=live.runner if live else "",
        moved_at=live.moved_at if live else None,
        trouble=live.trouble if live else None,
        rebuilding=next((each.position for each in builds if not each.is_live), None),
        advice=_advice(state, projection, live),
    )


def _state(live: Tracked | None, projection: Projection) -> ProjectionState:
    if live is None:
        return ProjectionState.NEW
    if live.version != projection.version:
        return ProjectionState.OUTDATED
    return ProjectionState.PARKED if live.trouble else ProjectionState.FOLLOWING


def _advice(state: ProjectionState, projection: Projection, live: Tracked | None) -> str:
    name = projection.name
    match state:
        case ProjectionState.NEW:
            return f"nothing runs it yet: jobledger projections run {name}"
        case ProjectionState.PARKED:
            return f"verify that job, or upgrade jobledger; then: jobledger projections release {name}"
        case ProjectionState.OUTDATED if live is not None and live.version > projection.version:
            return "a newer release keeps it; read it with that one"
        case ProjectionState.OUTDATED:
            return f"an older release kept it: jobledger rebuild {name}"
        case ProjectionState.FOLLOWING:
            return ""


def _lag(reader: Reader, position: int) -> timedelta:
    """The age of the first event behind a place."""
    unread = reader.log(after=position, limit=1)
    try:
        return max(timedelta(0), reader.now() - read(unread[0].record).at) if unread else timedelta(0)
    except JobledgerError:
        return timedelta(0)  # an event that cannot be read has no age; the projection is going to be parked at it
