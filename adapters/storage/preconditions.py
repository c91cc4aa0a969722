"""Which precondition of an append does not hold, given what a store found under its locks.

Reading and writing are each store's own; this comparison is the same everywhere, so that no two stores disagree on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from jobledger.domain.lease import LeaseRow
    from jobledger.domain.ports import Append


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What an append meets.

    ``sequence`` is 0 where the job does not exist; ``epochs`` and ``versions`` have those that the append asks for (a
    missing group is at epoch 1, a missing resource at version 0); ``submitted`` is the job that its submission id made;
    ``now`` is the store's clock, read after everything else was locked.
    """

    sequence: int
    lease: LeaseRow | None
    epochs: Mapping[str, int]
    versions: Mapping[str, int]
    submitted: str | None
    has_unit: bool
    now: datetime


def failed_precondition(append: Append, found: Found) -> str | None:
    """Name the first precondition that does not hold, or answer ``None``.

    The names are those of the guard's fields, and ``effects``, ``unit`` and ``submission``.
    """
    if found.sequence != append.guard.sequence:
        return "sequence"
    return _failed_liveness(append, found) or _failed_uniqueness(append, found)


def _failed_liveness(append: Append, found: Found) -> str | None:
    guard, lease = append.guard, found.lease
    if guard.live_generation is not None:
        # Time never decreases within a job, even where the clock was set back.
        now = max(found.now, append.job.updated_at)
        if lease is None or lease.generation != guard.live_generation or lease.expires_at <= now:
            return "live_generation"
    if guard.seen_expiry is not None and (lease is None or lease.expires_at != guard.seen_expiry):
        return "seen_expiry"
    if any(found.epochs.get(group, 1) != epoch for group, epoch in guard.epochs):
        return "epochs"
    if guard.step is not None and (lease is None or lease.step >= guard.step):
        return "step"
    return None


def _failed_uniqueness(append: Append, found: Found) -> str | None:
    if any(found.versions.get(effect.name, 0) != effect.expected_version for effect in append.effects):
        return "effects"
    if append.unit is not None and found.has_unit:
        return "unit"
    if append.guard.sequence == 0 and found.submitted is not None:
        return "submission"
    return None
