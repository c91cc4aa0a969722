"""What is needed to archive a job: its whole history, verified, and what stays of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jobledger.domain.decisions.archiving import archive
from jobledger.domain.decisions.claiming import claimable
from jobledger.domain.history import record
from jobledger.domain.job import evolve
from jobledger.domain.ports import Archival
from jobledger.domain.values import Body, encode_json
from jobledger.projections.audit import walked

if TYPE_CHECKING:
    from datetime import datetime

    from jobledger.domain.events import AppliedEffect
    from jobledger.domain.history import RecordedEvent
    from jobledger.domain.job import Job
    from jobledger.domain.ports import Reader
    from jobledger.projections.rules import Problem


@dataclass(frozen=True, slots=True)
class Examined:
    """An ended job whose history holds: its state and head, the places and digests of its events, and its effects."""

    job: Job
    head: str
    leaves: tuple[tuple[int, str], ...]
    effects: tuple[AppliedEffect, ...]

    def archival(self, now: datetime, *, place: str, by: str) -> Archival:
        """All that takes its events out of the log.

        Raises:
            NotTerminalError: the job has not ended.
        """
        digests = (digest for _, digest in self.leaves)
        [fact] = archive(self.job, now=now, digests=digests, effects=self.effects, place=place, by=by)
        stored = record(self.job.id, self.job.sequence + 1, fact, previous=self.head, cause=None)
        after = evolve(self.job, fact)
        kept = (after.payload, after.checkpoint, after.result)
        return Archival(
            job=after,
            claimable=claimable(after),
            record=stored,
            head=stored.digest,
            leaves=self.leaves,
            kept=frozenset(body.digest for body in kept if body is not None and body.digest),
        )


def examine(reader: Reader, job_id: str) -> Examined | Problem | None:
    """Verify a job that is to be archived; the first problem, or ``None`` where there is nothing to archive.

    What does not hold stays as it is: it is evidence.
    """
    leaves: list[tuple[int, str]] = []

    def see(event: RecordedEvent, position: int) -> None:
        leaves.append((position, event.digest))

    walk = walked(reader, job_id, see)
    if walk.problems:
        return walk.problems[0]
    job = walk.job
    if job is None or job.archived or not job.is_terminal:
        return None
    effects = tuple(_by_digest(effect) for effect in walk.effects.values())
    return Examined(job, walk.head, tuple(leaves), effects)


def _by_digest(effect: AppliedEffect) -> AppliedEffect:
    """An effect without its value, whose digest tells whether the resource still has it."""
    body = effect.value
    digest = body.digest or hashlib.sha256(encode_json(body.value)).hexdigest()
    return replace(effect, value=Body(size=body.size, digest=digest))
