"""The columns that a store in a database finds a job by, derived from its folded state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobledger.adapters.storage.rows import encode_job, to_us

if TYPE_CHECKING:
    from jobledger.domain.decisions.claiming import Claimable
    from jobledger.domain.job import Job


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
        "ready_at_us": to_us(job.ready_at),
        "is_held": job.hold is not None,
        "sequence": job.sequence,
        "head": head,
        "created_at_us": to_us(job.created_at),
        "updated_at_us": to_us(job.updated_at),
        "job": encode_job(job),
    }
