"""Bounded windows over one job's events, and the feed over all: a gap is always explicit, never silent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from jobledger.projections.cursors import position_at, unproven

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jobledger.domain.answers import JobStatus
    from jobledger.domain.history import RecordedEvent
    from jobledger.domain.policies import Policy


@dataclass(frozen=True, slots=True)
class EventWindow:
    """A bounded slice of a job's events.

    ``head`` is the job's last sequence, ``floor`` the first sequence still in reach of a window. When the cursor was
    older than the floor, ``snapshot`` is the status at ``floor - 1`` and the events start at the floor: snapshot and
    events fold to the head. ``next_after`` is the cursor to go on with.
    """

    events: tuple[RecordedEvent, ...]
    next_after: int
    head: int
    floor: int
    snapshot: JobStatus | None = None


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """One event in the feed of all jobs; ``cursor`` resumes right after it."""

    cursor: str
    job_id: str
    sequence: int
    topic: str
    name: str
    at: datetime
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Feed:
    """A contiguous slice of the feed; ``cursor`` resumes after everything that was looked at."""

    entries: tuple[FeedEntry, ...]
    cursor: str


def following(ask: Callable[[str | None], Feed], after: str | None, *, is_endless: bool) -> Iterator[FeedEntry]:
    """Every entry behind a cursor, page by page, as ``ask`` answers them; ends with the first empty page, or never."""
    while True:
        page = ask(after)
        yield from page.entries
        if not page.entries and not is_endless:
            return
        after = page.cursor


def floor_of(head: int, policy: Policy) -> int:
    """The first sequence in reach of a window: it keeps at least ``window_events_max`` events, and moves in steps."""
    step = policy.window_step
    beyond = max(0, head - policy.window_events_max)
    return beyond // step * step + 1


def position_of(cursor: str | None) -> int:
    """The place in the feed that a cursor names, whoever made it; ``None`` is the beginning.

    Raises:
        UnknownCursorError: the text is no cursor of a feed or of jobs.
    """
    return 0 if cursor is None else position_at(unproven(cursor))
