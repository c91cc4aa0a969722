"""Jobs over HTTP: the request that makes one, its status, lists of them, and what operators ask."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, WithJsonSchema

from jobledger.adapters.wire.base import Instant, Json, Name, Seconds, Wire
from jobledger.domain.answers import (
    ControlReceipt,
    CreateReceipt,
    Dropped,
    JobStatus,
    LeaseStatus,
    Progress,
)
from jobledger.domain.bounds import BATCH_MAX, LABELS_MAX, PRIORITY_MAX
from jobledger.domain.decisions.creating import CONTROLS, JobRequest
from jobledger.domain.events import Outcome
from jobledger.domain.job import Request, State
from jobledger.domain.policies import Backoff, Policy
from jobledger.projections.pages import JobPage

Priority = Annotated[int, WithJsonSchema({"type": "integer", "minimum": -PRIORITY_MAX, "maximum": PRIORITY_MAX})]
Labels = Annotated[
    dict[str, str],
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": LABELS_MAX}),
]


class JobIn(Wire):
    """A job that is asked for; ``key`` is the idempotency key, unless the header ``Idempotency-Key`` carries it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"owner": "search", "kind": "rebuild", "payload": {"partition": "p7"}, "labels": {"team": "a"}}
            ]
        }
    )

    owner: Name | None = Field(default=None, description="Whose job it is. Default: the owner that the token has.")
    key: Name | None = None
    kind: Name
    payload: Json = None
    policy: Name = "default"
    queue: Name = "default"
    priority: Priority = 0
    ready_at: Instant | None = None
    controls: list[str] = Field(default=list(CONTROLS))
    labels: Labels = Field(default={})
    submission: Name | None = None
    traceparent: Name | None = Field(default=None, description="Default: the request's header of this name.")

    def request(self, owner: str, key: str | None, traceparent: str | None = None) -> JobRequest:
        """The request as the store takes it; ``traceparent`` is that of the HTTP request."""
        values: dict[str, Any] = dict(self)
        values.update(owner=owner, key=key, controls=tuple(self.controls))
        values["traceparent"] = self.traceparent or traceparent
        return JobRequest(**values)


class JobsIn(Wire):
    """Jobs that are asked for together; each is answered for itself."""

    jobs: list[JobIn] = Field(max_length=BATCH_MAX)


class CreateReceiptOut(Wire):
    """The recorded receipt of a create; ``reused``: the same request had made the job before."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"job_id": "3f0c6b1e-8a52-8c11-9d2a-5c1f0d6f7a01", "reused": False, "sequence": 1, "state": "queued"}
            ]
        }
    )

    job_id: str
    reused: bool
    sequence: int
    state: State

    def answer(self) -> CreateReceipt:
        """The receipt as the store gives it."""
        return CreateReceipt(self.job_id, self.reused, self.sequence, self.state)


class ControlReceiptOut(Wire):
    """What a control left behind; ``reused``: it had been asked before."""

    job_id: str
    state: State
    sequence: int
    reused: bool

    def answer(self) -> ControlReceipt:
        """The receipt as the store gives it."""
        return ControlReceipt(self.job_id, self.state, self.sequence, self.reused)


class RequestOut(Wire):
    """A hold or a cancel request: who asked, why, and when."""

    by: str
    reason: str
    at: Instant


class LeaseStatusOut(Wire):
    """Who works on the job, and until when."""

    worker: str
    group: str
    epoch: int
    expires_at: Instant


class ProgressOut(Wire):
    """How far an attempt says it is; 100 % is still running."""

    done: float
    total: float | None
    message: str | None


class BackoffOut(Wire):
    """How long a failed attempt waits."""

    initial_s: Seconds
    factor: float
    cap_s: Seconds
    jitter: float


class LimitsOut(Wire):
    """The resolved policy of a job: spans in seconds, sizes in bytes of compact JSON."""

    lease_s: Seconds
    renew_every_s: Seconds
    interrupts_max: int
    failures_max: int
    backoff: BackoffOut
    run_time_max_s: Seconds | None
    payload_bytes_max: int
    checkpoint_bytes_max: int
    result_bytes_max: int
    receipt_bytes_max: int
    window_events_max: int
    progress_every_s: Seconds
    queue_depth_max: int | None
    checkpoints_keep: int
    keep_finished_s: Seconds | None

    @classmethod
    def of(cls, value: object) -> Self:
        """The limits of a policy."""
        return cls.model_validate({_told(name): _plain(given) for name, given in _values(value)}, strict=False)

    def policy(self) -> Policy:
        """The policy as the store knows it."""
        values: dict[str, Any] = {name.removesuffix("_s"): value for name, value in self}
        backoff: dict[str, Any] = {name.removesuffix("_s"): value for name, value in self.backoff}
        values["backoff"] = Backoff(**backoff)
        return Policy(**values)


_SPANS = frozenset(
    name.removesuffix("_s") for model in (LimitsOut, BackoffOut) for name in model.model_fields if name.endswith("_s")
)


def _values(model: Any) -> Any:
    return [(name, getattr(model, name)) for name in type(model).model_fields]


def _told(name: str) -> str:
    return f"{name}_s" if name in _SPANS else name


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Backoff):
        return {_told(name): _plain(given) for name, given in _values(value)}
    return value


class DroppedOut(Wire):
    """A large value whose bytes are not retained any more: which field, its digest, and its size in bytes."""

    field: str
    digest: str
    size: int


KEPT_ASIDE = ("payload", "checkpoint", "result")


class JobStatusOut(Wire):
    """A job at one sequence. A field whose large value is not retained is null and stands in ``dropped``."""

    job_id: str
    namespace: str
    owner: str
    key: str | None
    kind: str
    queue: str
    priority: int
    labels: dict[str, str]
    payload: Json
    policy: str
    limits: LimitsOut
    controls: list[str]
    submission: str | None
    traceparent: str | None
    origin: str | None
    state: State
    generation: int
    lease: LeaseStatusOut | None
    hold: RequestOut | None
    cancel_request: RequestOut | None
    checkpoint: Json
    checkpoint_sequence: int | None
    units: int
    progress: ProgressOut | None
    ready_at: Instant
    interrupts: int
    failures: int
    outcome: Outcome | None
    result: Json
    error: str | None
    sequence: int
    control_sequence: int
    head: str
    created_at: Instant
    updated_at: Instant
    archived: int = 0
    is_terminal: bool
    dropped: list[DroppedOut]

    @classmethod
    def of(cls, value: object) -> Self:
        """The status as the store gives it."""
        if not isinstance(value, JobStatus):
            msg = f"a JobStatus is needed, not {type(value).__name__}"
            raise TypeError(msg)
        fields: dict[str, Any] = {name: getattr(value, name) for name in cls.model_fields if name != "dropped"}
        gone: dict[str, Dropped] = {name: fields[name] for name in KEPT_ASIDE if isinstance(fields[name], Dropped)}
        fields |= dict.fromkeys(gone)
        fields["dropped"] = [DroppedOut(field=name, digest=body.digest, size=body.size) for name, body in gone.items()]
        fields["limits"] = LimitsOut.of(value.limits)
        fields["labels"] = dict(value.labels)
        return cls.model_validate(fields, strict=False, from_attributes=True)

    def answer(self) -> JobStatus:
        """The status as the store gives it."""
        fields: dict[str, Any] = dict(self)
        for name in ("is_terminal", "dropped"):
            del fields[name]
        fields |= {body.field: Dropped(body.digest, body.size) for body in self.dropped}
        fields |= {
            "limits": self.limits.policy(),
            "controls": tuple(self.controls),
            "lease": LeaseStatus(**dict(self.lease)) if self.lease else None,
            "hold": Request(**dict(self.hold)) if self.hold else None,
            "cancel_request": Request(**dict(self.cancel_request)) if self.cancel_request else None,
            "progress": Progress(**dict(self.progress)) if self.progress else None,
        }
        return JobStatus(**fields)


class FoundOut(Wire):
    """The job that an owner's key made, or null."""

    job: JobStatusOut | None


class JobPageOut(Wire):
    """Jobs, newest first; ``total`` is null where more than ``total_at_least`` match."""

    jobs: list[JobStatusOut]
    next_cursor: str | None
    total: int | None
    total_at_least: int

    @classmethod
    def of(cls, value: object) -> Self:
        """A page as the store gives it."""
        page: Any = value
        jobs = [JobStatusOut.of(job) for job in page.jobs]
        return cls(jobs=jobs, next_cursor=page.next_cursor, total=page.total, total_at_least=page.total_at_least)

    def answer(self) -> JobPage:
        """The page as the store gives it."""
        return JobPage(tuple(job.answer() for job in self.jobs), self.next_cursor, self.total, self.total_at_least)


class CountsOut(Wire):
    """How many jobs stand in each state."""

    queued: int
    running: int
    paused: int
    complete: int
    partial: int
    failed: int
    unavailable: int
    cancelled: int

    @classmethod
    def of(cls, value: object) -> Self:
        """Counts as the store gives them."""
        counts: Any = value
        return cls(**{state.value: count for state, count in counts.items()})

    def answer(self) -> Mapping[State, int]:
        """The counts as the store gives them."""
        return {State(name): count for name, count in self}
