"""Refusals of claims by the hold or a limit of their queue."""

from __future__ import annotations

from dataclasses import dataclass

from jobledger.domain.errors.families import RefusedError


@dataclass(eq=False, repr=False)
class QueueHeldError(RefusedError):
    """The job's queue, or its whole namespace (an empty name), is held: no attempt starts."""

    code = "queue_held"
    job_id: str
    queue: str
    by: str
    reason: str

    def __str__(self) -> str:
        what = f"queue {self.queue!r}" if self.queue else "the whole namespace"
        return f"{what} of job {self.job_id} is held by {self.by!r} ({self.reason}); release that hold first"


@dataclass(eq=False, repr=False)
class QueueLimitedError(RefusedError):
    """A limit of the job's queue is reached; ``limit`` is its name, ``most`` its value."""

    code = "queue_limited"
    job_id: str
    queue: str
    limit: str
    most: int

    def __str__(self) -> str:
        return (
            f"queue {self.queue!r} of job {self.job_id} has reached its {self.limit} of {self.most}; "
            "claim again when there is room, or raise the limit"
        )
