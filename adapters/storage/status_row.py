"""The columns that a store in a database finds a job by, derived from its folded state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobledger.adapters.storage.rows import encode_job, to_us
from jobledger.domain.decisions.archiving import archive_at
from jobledger.domain.decisions.claiming import Claimable

if TYPE_CHECKING:
    from jobledger.domain.job import Job


def ready_at_us(job: Job, claimable: Claimable) -> int:
    """From when on the job is what it is found for: to be claimed, or, when it has ended, to be archived."""
    due = archive_at(job) if claimable is Claimable.FINISHED else None
    return to_us(due or job.ready_at)


def status_row(job: Job, claimable: Claimable, head: str) -> dict[str, object]:
    """The columns of a status row, all but its position."""
    return {
        "job_id": job.id,
        "namespace": job.namespace,
        "owner": job.owner,
        "key": job.key,
        "kind": job.kind,
        "queue": job.queue,
        "priority": job.priority,
        "state": str(job.state),
        "claimable": str(claimable),
        "ready_at_us": ready_at_us(job, claimable),
        "is_held": job.hold is not None,
        "sequence": job.sequence,
        "head": head,
        "created_at_us": to_us(job.created_at),
        "updated_at_us": to_us(job.updated_at),
        "job": encode_job(job),
    }
