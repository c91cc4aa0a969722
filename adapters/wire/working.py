"""Workers over HTTP: claims, and everything that is written under a fence."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field

from jobledger.adapters.wire.base import Instant, Json, Name, Seconds, Wire
from jobledger.adapters.wire.jobs import ControlReceiptOut, CreateReceiptOut, JobStatusOut
from jobledger.adapters.wire.problems import ProblemModel
from jobledger.domain.answers import CreateReceipt, Dropped, ExecutionResult, Lease, Renewal
from jobledger.domain.bounds import BATCH_MAX, EFFECTS_MAX, ERROR_CHARACTERS_MAX, INTEGER_MAX, NAMES_MAX
from jobledger.domain.decisions.working import Effect
from jobledger.domain.errors import JobledgerError, StoreUnavailableError
from jobledger.domain.events import Outcome
from jobledger.domain.job import State
from jobledger.domain.lease import FENCE_TOKEN_CHARACTERS_MAX, Fence

FenceText: Any = Field(max_length=FENCE_TOKEN_CHARACTERS_MAX, description="The text of a fence; it is a secret.")
Epoch: Any = Field(default=None, ge=1, le=INTEGER_MAX)


class ClaimIn(Wire):
    """On what terms a worker claims; ``token`` is the secret of the fence, made by the client so that it may repeat."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"worker": "host-7", "lease_s": 30}]})

    worker: Name
    lease_s: Seconds | None = None
    group: Name = "default"
    epoch: int | None = Epoch
    respect_hold: bool = True
    token: Name | None = None


class ClaimsIn(Wire):
    """On what terms a worker claims whatever is due first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"worker": "host-7", "queues": ["default"], "limit": 4}]})

    worker: Name
    queues: list[Name] = Field(default=["default"], max_length=NAMES_MAX)
    kinds: list[Name] | None = Field(default=None, max_length=NAMES_MAX)
    limit: int = Field(default=1, ge=1, le=BATCH_MAX)
    lease_s: Seconds | None = None
    group: Name = "default"
    epoch: int | None = Epoch


class LeaseOut(Wire):
    """A live claim. ``fence`` is a secret: present it with every write, and never log it."""

    fence: str
    job_id: str
    payload: Json
    checkpoint: Json
    generation: int
    expires_at: Instant
    span_s: Seconds
    status: JobStatusOut

    @classmethod
    def of(cls, value: object) -> Self:
        """A lease as the store gives it."""
        lease: Any = value
        return cls(
            fence=lease.fence.to_token(),
            job_id=lease.job_id,
            payload=_kept(lease.payload),
            checkpoint=_kept(lease.checkpoint),
            generation=lease.generation,
            expires_at=lease.expires_at,
            span_s=lease.span.total_seconds(),
            status=JobStatusOut.of(lease.status),
        )

    def answer(self) -> Lease:
        """The lease as the store gives it."""
        return Lease(
            fence=Fence.from_token(self.fence),
            job_id=self.job_id,
            payload=self.payload,
            checkpoint=self.checkpoint,
            generation=self.generation,
            expires_at=self.expires_at,
            span=timedelta(seconds=self.span_s),
            status=self.status.answer(),
        )


def _kept(value: Json) -> Json:
    return None if isinstance(value, Dropped) else value


class LeasesOut(Wire):
    """The leases of a claim; fewer than were asked for where no more is due."""

    leases: list[LeaseOut]


class EffectIn(Wire):
    """A compare-and-set write of a named resource, committed with the checkpoint or outcome."""

    resource: Name
    value: Json
    expected_version: int = Field(ge=0, le=INTEGER_MAX)

    def effect(self) -> Effect:
        """The effect as the store takes it."""
        return Effect(resource=self.resource, value=self.value, expected_version=self.expected_version)


Effects: Any = Field(default=[], max_length=EFFECTS_MAX)


class ProgressIn(Wire):
    """How far an attempt is."""

    done: float
    total: float | None = None
    message: str | None = None


class CheckpointIn(Wire):
    """The state to save, what has been done, and the effects that commit with it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"state": {"next": 4}}]})

    state: Json
    progress: ProgressIn | None = None
    effects: list[EffectIn] = Effects


class UnitIn(Wire):
    """A unit that was done, and its receipt."""

    unit: Name
    receipt: Json


class PauseIn(Wire):
    """Where to park; without ``state`` the last checkpoint stands."""

    state: Json = None
    effects: list[EffectIn] = Effects


class DeferIn(PauseIn):
    """Until when the job is given back."""

    ready_at: Instant


class CancelIn(Wire):
    """What the worker wants on record about where it stopped."""

    boundary: Json = None


class FailIn(Wire):
    """What went wrong, and how long to wait where that is known."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"error": "the index host does not answer"}]})

    error: str = Field(max_length=2 * ERROR_CHARACTERS_MAX)
    retry_after_s: Seconds | None = None


class CompleteIn(Wire):
    """The terminal outcome, and the effects that commit with it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"outcome": "complete", "result": {"rows": 9000}}]})

    outcome: Literal["complete", "partial", "failed", "unavailable"] = "complete"
    result: Json = None
    error: str | None = Field(default=None, max_length=2 * ERROR_CHARACTERS_MAX)
    effects: list[EffectIn] = Effects


class FencedCompleteIn(CompleteIn):
    """An outcome of a batch, with the fence of its attempt."""

    fence: str = FenceText
    command_id: Name | None = None


class CompletionsIn(Wire):
    """Outcomes that are published together; each is answered for itself."""

    completions: list[FencedCompleteIn] = Field(max_length=BATCH_MAX)


class RenewalsIn(Wire):
    """The fences of leases that are renewed together; each is answered for itself."""

    fences: list[str] = Field(max_length=BATCH_MAX)


class RenewalOut(Wire):
    """An accepted write: until when the lease lives, and what operators ask of the attempt."""

    expires_at: Instant
    hold_requested: bool
    cancel_requested: bool
    late: bool

    def answer(self) -> Renewal:
        """The renewal as the store gives it."""
        return Renewal(**dict(self))


class ExecutionOut(Wire):
    """A job's state and, once it is terminal, its outcome, result and error."""

    job_id: str
    key: str | None
    state: State
    outcome: Outcome | None
    result: Json
    error: str | None
    generation: int
    sequence: int
    reused: bool

    def answer(self) -> ExecutionResult:
        """The result as the store gives it."""
        return ExecutionResult(**dict(self))


def _error(problem: ProblemModel | None) -> JobledgerError:
    return problem.error() if problem else StoreUnavailableError("the server answered an item with nothing")


# Batches: an answer or a problem for each item, in order -------------------------------------------------------------


class CreatedItem(Wire):
    """What became of one job of a batch: a receipt or a problem."""

    receipt: CreateReceiptOut | None = None
    problem: ProblemModel | None = None

    def answer(self) -> CreateReceipt | JobledgerError:
        """The answer or the error as the store gives it."""
        return self.receipt.answer() if self.receipt else _error(self.problem)


class CreatedItems(Wire):
    """What became of the jobs of a batch, in their order."""

    items: list[CreatedItem]


class RenewedItem(Wire):
    """What became of one renewal of a batch."""

    renewal: RenewalOut | None = None
    problem: ProblemModel | None = None

    def answer(self) -> Renewal | JobledgerError:
        """The answer or the error as the store gives it."""
        return self.renewal.answer() if self.renewal else _error(self.problem)


class RenewedItems(Wire):
    """What became of the renewals of a batch, in their order."""

    items: list[RenewedItem]


class CompletedItem(Wire):
    """What became of one outcome of a batch."""

    execution: ExecutionOut | None = None
    problem: ProblemModel | None = None

    def answer(self) -> ExecutionResult | JobledgerError:
        """The answer or the error as the store gives it."""
        return self.execution.answer() if self.execution else _error(self.problem)


class CompletedItems(Wire):
    """What became of the outcomes of a batch, in their order."""

    items: list[CompletedItem]


__all__ = [
    "CancelIn",
    "CheckpointIn",
    "ClaimIn",
    "ClaimsIn",
    "CompleteIn",
    "CompletedItem",
    "CompletedItems",
    "CompletionsIn",
    "ControlReceiptOut",
    "CreatedItem",
    "CreatedItems",
    "DeferIn",
    "EffectIn",
    "ExecutionOut",
    "FailIn",
    "FencedCompleteIn",
    "LeaseOut",
    "LeasesOut",
    "PauseIn",
    "ProgressIn",
    "RenewalOut",
    "RenewalsIn",
    "RenewedItem",
    "RenewedItems",
    "UnitIn",
]
