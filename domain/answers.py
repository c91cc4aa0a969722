"""What callers get back: receipts, leases, and the status of a job; all frozen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from jobledger.domain.events import Outcome
from jobledger.domain.job import Job, Request, State
from jobledger.domain.lease import Fence
from jobledger.domain.policies import Policy
from jobledger.domain.values import Body, Json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobledger.domain.events import Origin


@dataclass(frozen=True, slots=True)
class Dropped:
    """Stands for a large checkpoint whose bytes are not retained any more; digest and size in bytes are still known."""

    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an attempt says it is: ``done`` of ``total`` (``None``: unknown), and a short message."""

    done: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class CreateReceipt:
    """The recorded receipt of a create: the same for every repeat, but for ``reused``.

    ``sequence`` and ``state`` are those of the creation; read the status to learn what became of the job.
    """

    job_id: str
    reused: bool
    sequence: int
    state: State


@dataclass(frozen=True, slots=True)
class ControlReceipt:
    """What a control left behind: the job's state and sequence; ``reused``: it had been asked before."""

    job_id: str
    state: State
    sequence: int
    reused: bool = False


@dataclass(frozen=True, slots=True)
class Renewal:
    """An accepted worker write: until when the lease lives, and what operators ask of this attempt."""

    expires_at: datetime
    hold_requested: bool
    cancel_requested: bool
    late: bool = False


@dataclass(frozen=True, slots=True)
class UnitReceipt:
    """The proof that a unit was done; ``reused``: it had been recorded before."""

    unit: str
    receipt: Json
    generation: int
    sequence: int
    reused: bool = False


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """A job's state and, once it is terminal, its outcome, result and error."""

    job_id: str
    key: str | None
    state: State
    outcome: Outcome | None
    result: Json
    error: str | None
    generation: int
    sequence: int
    reused: bool = False


@dataclass(frozen=True, slots=True)
class Resource:
    """A named resource that effects write: its value, its version (1 at first), and who wrote it last."""

    name: str
    value: Json
    version: int
    job_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a control may not be asked now: the stable code and the sentence."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Controls:
    """The controls a job was created with, the commands that may be asked now, and why the others may not."""

    supported: tuple[str, ...]
    available: tuple[str, ...]
    unavailable: Mapping[str, Refusal]


@dataclass(frozen=True, slots=True)
class LeaseStatus:
    """Who works on the job, and until when."""

    worker: str
    group: str
    epoch: int
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """A job at one sequence.

    ``checkpoint``, ``payload`` and ``result`` are the values themselves; ``units`` counts receipts; ``error`` is the
    last error recorded, also of an attempt that is tried again; ``failures`` and ``interrupts`` count ends without
    progress in a row; ``head`` is the digest of the last event; ``policy`` is the policy's name and ``limits`` its
    resolved values; ``traceparent`` is the trace in which it was asked for. ``archived`` is the sequence of the event
    that stands for all before it, which were archived; 0: all are here.
    """

    job_id: str
    namespace: str
    owner: str
    key: str | None
    kind: str
    queue: str
    priority: int
    labels: Mapping[str, str]
    payload: Json
    policy: str
    limits: Policy
    controls: tuple[str, ...]
    submission: str | None
    traceparent: str | None
    origin: str | None
    state: State
    generation: int
    lease: LeaseStatus | None
    hold: Request | None
    cancel_request: Request | None
    checkpoint: Json
    checkpoint_sequence: int | None
    units: int
    progress: Progress | None
    ready_at: datetime
    interrupts: int
    failures: int
    outcome: Outcome | None
    result: Json
    error: str | None
    sequence: int
    control_sequence: int
    head: str
    created_at: datetime
    updated_at: datetime
    archived: int = 0

    @property
    def is_terminal(self) -> bool:
        """Whether the job has ended."""
        return self.outcome is not None


@dataclass(frozen=True, slots=True)
class Lease:
    """A live claim: the fence to present, the input, the state to start from, and the status at the claim.

    ``checkpoint`` is ``None`` on a fresh job; ``span`` is how long the lease lives after each renewal.
    """

    fence: Fence
    job_id: str
    payload: Json
    checkpoint: Json
    generation: int
    expires_at: datetime
    span: timedelta
    status: JobStatus


def status_of(
    job: Job, *, head: str, expires_at: datetime | None, value_of: Callable[[str, Body | None], Json]
) -> JobStatus:
    """Show a job's state; ``expires_at`` is the lease's, ``value_of`` reads bodies that are kept aside."""
    attempt = job.attempt
    lease = (
        LeaseStatus(attempt.worker, attempt.group, attempt.epoch, expires_at or attempt.expires_at) if attempt else None
    )
    reported = job.progress
    return JobStatus(
        job_id=job.id,
        namespace=job.namespace,
        owner=job.owner,
        key=job.key,
        kind=job.kind,
        queue=job.queue,
        priority=job.priority,
        labels=job.labels,
        payload=value_of(job.id, job.payload),
        policy=job.policy_name,
        limits=job.policy,
        controls=job.controls,
        submission=job.submission,
        traceparent=job.traceparent,
        origin=_origin_text(job.origin) if job.origin else None,
        state=job.state,
        generation=job.generation,
        lease=lease,
        hold=job.hold,
        cancel_request=job.cancel,
        checkpoint=value_of(job.id, job.checkpoint),
        checkpoint_sequence=job.checkpoint_sequence,
        units=job.units,
        progress=Progress(reported.done, reported.total, reported.message) if reported else None,
        ready_at=job.ready_at,
        interrupts=job.interrupts,
        failures=job.failures,
        outcome=job.outcome,
        result=value_of(job.id, job.result),
        error=job.error,
        sequence=job.sequence,
        control_sequence=job.control_sequence,
        head=head,
        created_at=job.created_at,
        updated_at=job.updated_at,
        archived=job.archived,
    )


def _origin_text(origin: Origin) -> str:
    at = origin.sequence if origin.instant is None else f"{origin.instant.replace(tzinfo=None).isoformat()}Z"
    return f"{origin.how} of {origin.of} at {at}"
