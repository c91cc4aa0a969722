"""Refusals of a create."""

from __future__ import annotations

from dataclasses import dataclass

from jobledger.domain.errors.families import RefusedError


@dataclass(eq=False, repr=False)
class PayloadChangedError(RefusedError):
    """A key or submission id that was used before came with another payload."""

    code = "payload_changed"
    job_id: str
    key: str

    def __str__(self) -> str:
        return (
            f"{self.key!r} already belongs to job {self.job_id}, made for another payload, kind or key; no job was "
            "made: send the same request to get that job, or choose a new key"
        )


@dataclass(eq=False, repr=False)
class JobExistsError(RefusedError):
    """The key belongs to a job with another origin or submission."""

    code = "job_exists"
    job_id: str
    key: str

    def __str__(self) -> str:
        return f"key {self.key!r} already belongs to job {self.job_id}; read that job, or choose a new key"


@dataclass(eq=False, repr=False)
class AdmissionRefusedError(RefusedError):
    """The queue or the host does not admit new work now."""

    code = "admission_refused"
    reason: str

    def __str__(self) -> str:
        return f"the job was not admitted: {self.reason}; try again when there is room"
