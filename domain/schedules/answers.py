"""What callers get back of schedules: receipts, reports, and the status of one; all frozen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from jobledger.domain.job import Request
from jobledger.domain.values import Json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobledger.domain.schedules.state import ScheduleState


@dataclass(frozen=True, slots=True)
class ScheduleReceipt:
    """What a command left behind: the schedule's sequence and next instant; ``reused``: it stood like that already."""

    name: str
    sequence: int
    next_at: datetime | None
    reused: bool = False


@dataclass(frozen=True, slots=True)
class BackfillReceipt:
    """What a backfill did: the jobs it made, and how many instants of its range had one already, or were refused."""

    name: str
    job_ids: tuple[str, ...]
    reused: int
    refused: tuple[tuple[datetime, str], ...] = ()


@dataclass(frozen=True, slots=True)
class FiringReport:
    """What one call settled: how many instants fired and were skipped, of how many schedules.

    ``failed`` names the schedules that could not be settled, each with the reason; nothing of them was changed.
    ``is_done`` is false where the call stopped at its limit and more may be due.
    """

    fired: int
    skipped: int
    schedules: int
    failed: tuple[tuple[str, str], ...]
    is_done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStatus:
    """A schedule at one sequence.

    ``next_at`` is the next instant, ``due_at`` when its job will be made (later by the jitter; ``None``: never, or not
    while it is held); ``last_instant`` and ``last_job_id`` are the newest occurrence's, which ``overlap`` looks at;
    ``fired`` and ``skipped`` count instants; ``head`` is the digest of the last event.
    """

    name: str
    namespace: str
    owner: str
    kind: str
    cron: str | None
    zone: str
    every: timedelta | None
    anchor: datetime | None
    start: datetime | None
    end: datetime | None
    jitter: timedelta
    payload: Json
    policy: str
    queue: str
    priority: int
    controls: tuple[str, ...]
    labels: Mapping[str, str]
    overlap: str
    catch_up: str
    window: timedelta
    hold: Request | None
    is_removed: bool
    next_at: datetime | None
    due_at: datetime | None
    last_instant: datetime | None
    last_job_id: str | None
    fired: int
    skipped: int
    sequence: int
    control_sequence: int
    head: str
    created_at: datetime
    updated_at: datetime


def schedule_status_of(state: ScheduleState, head: str) -> ScheduleStatus:
    """Show a schedule's state."""
    definition = state.definition
    return ScheduleStatus(
        name=state.name,
        namespace=state.namespace,
        owner=definition.owner,
        kind=definition.kind,
        cron=definition.cron,
        zone=definition.zone,
        every=definition.every,
        anchor=definition.anchor,
        start=definition.start,
        end=definition.end,
        jitter=definition.jitter,
        payload=definition.payload.value,
        policy=definition.policy,
        queue=definition.queue,
        priority=definition.priority,
        controls=definition.controls,
        labels=definition.labels,
        overlap=definition.overlap,
        catch_up=definition.catch_up,
        window=definition.window,
        hold=state.hold,
        is_removed=state.is_removed,
        next_at=state.next_at,
        due_at=state.due_at,
        last_instant=state.last_instant,
        last_job_id=state.last_job_id,
        fired=state.fired,
        skipped=state.skipped,
        sequence=state.sequence,
        control_sequence=state.control_sequence,
        head=head,
        created_at=state.created_at,
        updated_at=state.updated_at,
    )
