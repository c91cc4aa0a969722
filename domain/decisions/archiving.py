"""The decision to take the events of an ended job out of the log, and the question when its time has come."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from jobledger.domain.decisions.creating import require_terminal
from jobledger.domain.events import AppliedEffect, Archived
from jobledger.domain.job import ENGINE, told_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from jobledger.domain.job import Job


def archive_at(job: Job) -> datetime | None:
    """When the policy's ``keep_finished`` is over; ``None``: not ended, archived before, or kept for ever."""
    if not job.is_terminal or job.archived:
        return None
    kept = job.policy.keep_finished
    return None if kept is None else job.updated_at + kept


def archive(
    job: Job,
    *,
    now: datetime,
    digests: Iterable[str],
    effects: Sequence[AppliedEffect] = (),
    place: str = "",
    by: str = ENGINE,
) -> list[Archived]:
    """Let one event stand for all that a job's history says (an empty list: one does already).

    Args:
        job: the state that its events fold to.
        now: the store's clock.
        digests: those of its events, in order.
        effects: the resources as the job left them, each value by its digest.
        place: the bundle that its events were written to; empty: they are let go.
        by: whoever asked for it.

    Raises:
        NotTerminalError: the job has not ended.
    """
    if job.archived:
        return []
    require_terminal(job)
    fact = Archived(
        at=max(now, job.updated_at),
        digest=digest_of(digests),
        place=place,
        by=by,
        state=told_state(job),
        effects=tuple(effects),
    )
    return [fact]


def digest_of(digests: Iterable[str]) -> str:
    """The digest over those of archived events: SHA-256 over their 32 bytes each, in order, as 64 hex digits."""
    taken = hashlib.sha256()
    for each in digests:
        taken.update(bytes.fromhex(each))
    return taken.hexdigest()
