"""Decisions that make jobs: create, rerun, fork."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from pydantic import Field

from jobledger.domain.bounds import (
    LABELS_MAX,
    PRIORITY_MAX,
    REASON_CHARACTERS_MAX,
    require_count,
    require_instant,
    require_integer,
    require_text,
    require_traceparent,
    require_within,
)
from jobledger.domain.errors import (
    AdmissionRefusedError,
    InvalidRequestError,
    JobExistsError,
    NotTerminalError,
    PayloadChangedError,
    PayloadTooLargeError,
    UnknownPolicyError,
    UnknownSequenceError,
)
from jobledger.domain.events import Created, Origin
from jobledger.domain.job import ENGINE, Job
from jobledger.domain.models import Model
from jobledger.domain.policies import Policy
from jobledger.domain.values import Body, derived_id, fingerprint, keep

CONTROLS: Final = ("pause", "cancel", "retry")


class JobRequest(Model):
    """What a caller asks for: who owns the job, under which key, what kind of work on which input.

    ``key`` is the idempotency key within the owner (``None``: every create makes a new job); ``ready_at`` is the
    instant before which nobody may claim it; larger ``priority`` goes first; ``controls`` are those that operators
    may use; ``traceparent`` says in whose trace it was asked for, as W3C Trace Context writes it.

    Raises:
        InvalidRequestError: a field is missing, unknown, or of another type. Contents are checked by ``create``.
    """

    owner: str
    kind: str
    key: str | None = None
    payload: Any = None
    policy: str = "default"
    queue: str = "default"
    priority: int = 0
    ready_at: datetime | None = None
    controls: tuple[str, ...] = Field(default=CONTROLS, strict=False)
    labels: dict[str, str] = Field(default_factory=dict)
    submission: str | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class NewJob:
    """A request that was checked against every bound, ready to be decided on.

    ``policy`` is ``None`` where nobody knows its name. ``aside`` are the payload's bytes when it is too large to stand
    in the event.
    """

    job_id: str
    namespace: str
    request: JobRequest
    policy: Policy | None
    payload: Body
    fingerprint: str
    aside: bytes | None
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Met:
    """What a create meets under its locks.

    ``job`` holds the id (found by key), ``submitted`` carries the same submission id, ``queued`` counts the queue,
    ``unadmitted`` says why the host admits no such job, and ``policies`` are the names that are known.
    """

    job: Job | None = None
    submitted: Job | None = None
    queued: int = 0
    unadmitted: str | None = None
    policies: tuple[str, ...] = ()


def job_id_of(namespace: str, owner: str, key: str) -> str:
    """The id of a keyed job: it follows from the key, so that two creators of one key meet at one job."""
    return derived_id("job", namespace, owner, key)


def prepare(request: JobRequest, *, job_id: str, namespace: str, policies: dict[str, Policy]) -> NewJob:
    """Check every field of a request by itself; what its policy says is decided once its key is known to be free.

    Raises:
        InvalidRequestError: a name is empty or too long, a control is unknown, a number or instant out of range.
        UnstorableValueError: a text or the payload holds what no store may hold.
    """
    for field in ("owner", "kind", "queue"):
        require_text(field, getattr(request, field))
    for field in ("key", "submission"):
        if getattr(request, field) is not None:
            require_text(field, getattr(request, field))
    require_count("labels", len(request.labels), LABELS_MAX)
    for name, value in request.labels.items():
        require_text("labels", name)
        require_text(f"labels.{name}", value, empty=True)
    require_integer("priority", request.priority, -PRIORITY_MAX, PRIORITY_MAX)
    _require_controls(request.controls)
    if request.ready_at is not None:
        require_instant("ready_at", request.ready_at)
    require_text("policy", request.policy)
    if request.traceparent is not None:
        require_traceparent("traceparent", request.traceparent)
    kept = keep("payload", request.payload)
    mark = fingerprint(request.kind, request.payload, None)
    return NewJob(job_id, namespace, request, policies.get(request.policy), kept.body, mark, kept.aside)


def _require_controls(controls: tuple[str, ...]) -> None:
    unknown = [control for control in controls if control not in CONTROLS]
    if unknown or len(set(controls)) < len(controls):
        raise InvalidRequestError("controls", f"each of {', '.join(CONTROLS)} may be given once, not {controls!r}")


def create(new: NewJob, met: Met, *, now: datetime) -> list[Created]:
    """Create a job, or find the one that the same key and payload made before (an empty list: it is reused).

    Queuing claims nothing.

    Raises:
        PayloadChangedError: the key or submission id was used with another payload; no duplicate, no new attempt.
        JobExistsError: the key belongs to a job of another origin or submission.
        UnknownPolicyError, PayloadTooLargeError: its policy is unknown, or allows less.
        AdmissionRefusedError: the queue is as deep as its policy allows, or the host does not admit the job.
    """
    request = new.request
    if request.submission is not None and met.submitted is not None:
        if met.submitted.id != new.job_id or met.submitted.fingerprint != new.fingerprint:
            raise PayloadChangedError(met.submitted.id, request.submission)
        return []
    if met.job is not None:
        _require_same(new, met.job)
        return []
    return [_created(new, _require_admitted(new, met), now)]


def _require_admitted(new: NewJob, met: Met) -> Policy:
    """The policy under which a new job is accepted, in the order in which it is refused."""
    request, policy = new.request, new.policy
    if policy is None:
        raise UnknownPolicyError(request.policy, met.policies)
    require_within(PayloadTooLargeError, new.payload.size, policy.payload_bytes_max)
    depth = policy.queue_depth_max
    if depth is not None and met.queued >= depth:
        reason = f"queue {request.queue!r} has {met.queued} queued jobs, at most {depth} are allowed"
        raise AdmissionRefusedError(reason)
    if met.unadmitted is not None:
        raise AdmissionRefusedError(met.unadmitted)
    return policy


def _require_same(new: NewJob, job: Job) -> None:
    key = new.request.key or new.job_id
    if new.request.submission is not None and job.submission != new.request.submission:
        raise JobExistsError(job.id, key)
    if _lineage(job.origin) != _lineage(new.origin):
        raise JobExistsError(job.id, key)
    if job.fingerprint != new.fingerprint:
        raise PayloadChangedError(job.id, key)


def _lineage(origin: Origin | None) -> tuple[object, ...] | None:
    """What makes two origins the same: not who asked, or why; a rerun is of the end, whatever upkeep added to it."""
    if origin is None:
        return None
    return origin.how, origin.of, origin.sequence if origin.how == "fork" else None, origin.from_checkpoint


def _created(new: NewJob, policy: Policy, now: datetime, checkpoint: Body | None = None, units: int = 0) -> Created:
    request = new.request
    return Created(
        at=now,
        job_id=new.job_id,
        namespace=new.namespace,
        owner=request.owner,
        key=request.key,
        kind=request.kind,
        payload=new.payload,
        fingerprint=new.fingerprint,
        policy=request.policy,
        policy_changes=policy.changes(),
        controls=request.controls,
        queue=request.queue,
        priority=request.priority,
        ready_at=require_instant("ready_at", request.ready_at) if request.ready_at else now,
        labels=dict(request.labels),
        submission=request.submission,
        traceparent=request.traceparent,
        origin=new.origin,
        checkpoint=checkpoint,
        units=units,
    )


def origin_of(
    job_id: str, sequence: int, *, how: Literal["rerun", "fork"], from_checkpoint: bool, by: str, reason: str
) -> Origin:
    """Where a rerun or fork comes from.

    Raises:
        InvalidRequestError: the operator or reason is empty or too long, or ``by`` is the engine's reserved name.
    """
    require_operator(by, reason)
    return Origin(how=how, of=job_id, sequence=sequence, by=by, reason=reason, from_checkpoint=from_checkpoint)


def derive(source: Job, payload: Any, *, aside: bytes | None, key: str, origin: Origin) -> NewJob:
    """Prepare the request that runs a job again under its own key, linked to ``source`` by its origin."""
    request = JobRequest(
        owner=source.owner,
        kind=source.kind,
        key=key,
        policy=source.policy_name,
        queue=source.queue,
        priority=source.priority,
        controls=source.controls,
        labels=dict(source.labels),
    )
    job_id = job_id_of(source.namespace, source.owner, key)
    mark = fingerprint(source.kind, payload, list(_lineage(origin) or ()))
    return NewJob(job_id, source.namespace, request, source.policy, source.payload, mark, aside, origin)


def rerun(new: NewJob, source: Job, met: Met, *, now: datetime) -> list[Created]:
    """Run an ended job again, as a new job (an empty list: the same rerun was made before).

    Raises:
        JobExistsError: the key belongs to another job.
        NotTerminalError: the job has not ended; fork it instead.
        AdmissionRefusedError: the queue is as deep as its policy allows, or the host does not admit the job.
    """
    if is_made(new.origin, met.job, new.request.key or new.job_id):
        return []
    require_terminal(source)
    return [_derived(new, source, met, now)]


def fork(new: NewJob, source: Job, met: Met, *, now: datetime) -> list[Created]:
    """Start a new job from ``source``, the job as of a sequence (an empty list: the same fork was made before).

    Raises:
        JobExistsError: the key belongs to another job.
        AdmissionRefusedError: the queue is as deep as its policy allows, or the host does not admit the job.
    """
    if is_made(new.origin, met.job, new.request.key or new.job_id):
        return []
    return [_derived(new, source, met, now)]


def is_made(origin: Origin | None, job: Job | None, key: str) -> bool:
    """Whether the job that the key has is of this origin already; false where the key is free.

    Raises:
        JobExistsError: the key belongs to another job.
    """
    if job is None:
        return False
    if _lineage(job.origin) != _lineage(origin):
        raise JobExistsError(job.id, key)
    return True


def require_terminal(job: Job) -> None:
    """Require a job that has ended.

    Raises:
        NotTerminalError: it has not.
    """
    if not job.is_terminal:
        raise NotTerminalError(job.id, job.state.value)


def _derived(new: NewJob, source: Job, met: Met, now: datetime) -> Created:
    policy = _require_admitted(new, met)
    if new.origin is None or not new.origin.from_checkpoint:
        return _created(new, policy, now)
    return _created(new, policy, now, checkpoint=source.checkpoint, units=source.units)


def require_sequence(job: Job, sequence: object) -> int:
    """Require a sequence that the job's history has.

    Raises:
        UnknownSequenceError: the history does not reach that far.
    """
    if type(sequence) is not int or not 1 <= sequence <= job.sequence:
        raise UnknownSequenceError(job.id, sequence if type(sequence) is int else f"not {sequence!r}", job.sequence)
    return sequence


def require_operator(by: str, reason: str) -> None:
    """Require a named operator and a reason.

    Raises:
        InvalidRequestError: one is empty or too long, or ``by`` is the name reserved for the engine.
    """
    require_text("by", by)
    require_text("reason", reason, REASON_CHARACTERS_MAX)
    if by == ENGINE:
        raise InvalidRequestError("by", f"{ENGINE!r} is reserved for the engine itself; give your own name")
