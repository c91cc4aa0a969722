"""Every error a caller can meet, in four families named by what the caller does next.

JobledgerError
├── RefusedError      the rules forbid it: do not repeat it as it is
├── InvalidError      the input is wrong: mend it
├── UnavailableError  nobody could answer: back off and repeat (safe with the same command id)
└── CorruptError      stored history or schema cannot be trusted: stop, call an auditor

Each class has a stable ``code`` and typed fields; its text is one sentence that names the next step.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from datetime import datetime

__all__ = [
    "AdmissionRefusedError",
    "AlreadyTerminalError",
    "BudgetExhaustedError",
    "CancelNotRequestedError",
    "CancelPendingError",
    "CheckpointTooLargeError",
    "CommandChangedError",
    "ControlUnavailableError",
    "CorruptError",
    "DeadlineExceededError",
    "EffectConflictError",
    "HistoryCorruptError",
    "HoldInForceError",
    "InvalidError",
    "InvalidHookError",
    "InvalidRequestError",
    "JobExistsError",
    "JobledgerError",
    "LeaseExpiredError",
    "LeaseLiveError",
    "NotHeldError",
    "NotReadyError",
    "NotResumableError",
    "NotTerminalError",
    "NothingToRecoverError",
    "OutOfOrderError",
    "OutcomeUnknownError",
    "PayloadChangedError",
    "PayloadTooLargeError",
    "ProducerUnavailableError",
    "ReceiptChangedError",
    "ReceiptTooLargeError",
    "RefusedError",
    "ResultTooLargeError",
    "SchemaMismatchError",
    "SequenceMovedError",
    "StaleEpochError",
    "StaleFenceError",
    "StoreUnavailableError",
    "UnavailableError",
    "UnknownJobError",
    "UnknownKindError",
    "UnknownPolicyError",
    "UnknownSequenceError",
    "UnstorableValueError",
]


class JobledgerError(Exception):
    """The root of every error that jobledger raises on purpose."""

    code: ClassVar[str] = "error"

    def __post_init__(self) -> None:
        """Keep the fields as ``args`` too, so that the error can be pickled, copied and shown."""
        self.args = tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]  # every leaf is a dataclass


class RefusedError(JobledgerError):
    """The rules of the job forbid the command; nothing was appended."""

    code = "refused"


class InvalidError(JobledgerError):
    """The input cannot be accepted; nothing was appended."""

    code = "invalid"


class UnavailableError(JobledgerError):
    """The store or host could not answer; back off, and repeat with the same command id."""

    code = "unavailable"


class CorruptError(JobledgerError):
    """What is stored cannot be trusted; stop and call an auditor."""

    code = "corrupt"


# Refused: creating ----------------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class PayloadChangedError(RefusedError):
    """A key or submission id that was used before came with another payload."""

    code = "payload_changed"
    job_id: str
    key: str

    def __str__(self) -> str:
        return (
            f"{self.key!r} already belongs to job {self.job_id}, with another payload; no job was made: "
            "send the same payload to get that job, or choose a new key"
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


# Refused: claims, leases and fences -----------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class LeaseLiveError(RefusedError):
    """A live lease protects its worker."""

    code = "lease_live"
    job_id: str
    worker: str
    expires_at: datetime

    def __str__(self) -> str:
        return (
            f"job {self.job_id} is leased to worker {self.worker!r} until {self.expires_at.isoformat()}; "
            "it keeps the job: wait for the lease to end, or ask for a hold or a cancel"
        )


@dataclass(eq=False, repr=False)
class StaleFenceError(RefusedError):
    """A worker reported under a lease that has ended; it drops its result."""

    code = "stale_fence"
    job_id: str
    presented: int
    current: int
    ended_by: str | None = None

    def __str__(self) -> str:
        how = f" (ended by {self.ended_by})" if self.ended_by else ""
        return (
            f"job {self.job_id}: the fence of generation {self.presented}{how} is stale, the current generation is "
            f"{self.current}; stop this attempt, its work is recorded up to its last checkpoint"
        )


@dataclass(eq=False, repr=False)
class StaleEpochError(RefusedError):
    """The worker group has moved on to a newer epoch."""

    code = "stale_epoch"
    group: str
    presented: int
    current: int

    def __str__(self) -> str:
        return (
            f"group {self.group!r} is at epoch {self.current}, this worker presented epoch {self.presented}; "
            "stop it and start one of the current epoch"
        )


@dataclass(eq=False, repr=False)
class LeaseExpiredError(RefusedError):
    """The lease ran out; nothing can be written under it until it is renewed."""

    code = "lease_expired"
    job_id: str
    generation: int
    expired_at: datetime

    def __str__(self) -> str:
        return (
            f"job {self.job_id}: the lease of generation {self.generation} ran out at {self.expired_at.isoformat()}; "
            "renew it first, or claim the job again"
        )


@dataclass(eq=False, repr=False)
class OutOfOrderError(RefusedError):
    """An older write of an attempt arrived after a newer one was accepted."""

    code = "out_of_order"
    job_id: str
    presented: int
    accepted: int

    def __str__(self) -> str:
        return (
            f"job {self.job_id}: step {self.presented} arrived after step {self.accepted} was accepted; "
            "drop it, the newer write stands"
        )


@dataclass(eq=False, repr=False)
class BudgetExhaustedError(RefusedError):
    """Too many attempts ended without progress."""

    code = "budget_exhausted"
    job_id: str
    interrupts: int
    interrupts_max: int

    def __str__(self) -> str:
        return (
            f"job {self.job_id} was interrupted {self.interrupts} times without progress (at most "
            f"{self.interrupts_max}); recover it, look at it, then release its hold or ask for a retry"
        )


@dataclass(eq=False, repr=False)
class NotReadyError(RefusedError):
    """The job waits for its time."""

    code = "not_ready"
    job_id: str
    ready_at: datetime

    def __str__(self) -> str:
        return f"job {self.job_id} is not due before {self.ready_at.isoformat()}; wait, or ask for a retry to make it due"


# Refused: controls ----------------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class HoldInForceError(RefusedError):
    """An operator's or the engine's hold is in force."""

    code = "hold_in_force"
    job_id: str
    by: str
    reason: str

    def __str__(self) -> str:
        return f"job {self.job_id} is held by {self.by!r} ({self.reason}); release that hold first"


@dataclass(eq=False, repr=False)
class NotHeldError(RefusedError):
    """There is no hold to release."""

    code = "not_held"
    job_id: str

    def __str__(self) -> str:
        return f"job {self.job_id} is not held; there is nothing to release"


@dataclass(eq=False, repr=False)
class ControlUnavailableError(RefusedError):
    """The job was created without this control."""

    code = "control_unavailable"
    job_id: str
    control: str
    supported: tuple[str, ...]

    def __str__(self) -> str:
        offers = ", ".join(self.supported) or "none"
        return f"job {self.job_id} does not support {self.control!r}; the controls it supports: {offers}"


@dataclass(eq=False, repr=False)
class NotResumableError(RefusedError):
    """Only a paused job that was never leased can be resumed."""

    code = "not_resumable"
    job_id: str
    state: str
    generation: int

    def __str__(self) -> str:
        if self.generation:
            return (
                f"job {self.job_id} was leased before (generation {self.generation}); "
                "release its hold and let a worker claim it: that continues from its checkpoint"
            )
        return f"job {self.job_id} is {self.state}, not paused; there is nothing to resume"


@dataclass(eq=False, repr=False)
class NothingToRecoverError(RefusedError):
    """No attempt is open, so none can be recovered."""

    code = "nothing_to_recover"
    job_id: str
    state: str

    def __str__(self) -> str:
        return f"job {self.job_id} is {self.state}, no attempt of it is open; there is nothing to recover"


@dataclass(eq=False, repr=False)
class AlreadyTerminalError(RefusedError):
    """The job has ended; its recorded outcome stands."""

    code = "already_terminal"
    job_id: str
    state: str

    def __str__(self) -> str:
        return f"job {self.job_id} has ended as {self.state}; read its result, or rerun it under a new key"


@dataclass(eq=False, repr=False)
class NotTerminalError(RefusedError):
    """Only a job that has ended can be run again."""

    code = "not_terminal"
    job_id: str
    state: str

    def __str__(self) -> str:
        return f"job {self.job_id} is {self.state}; wait for its end to rerun it, or fork it at a sequence"


@dataclass(eq=False, repr=False)
class CancelPendingError(RefusedError):
    """A cancel was requested; no new attempt starts."""

    code = "cancel_pending"
    job_id: str
    by: str

    def __str__(self) -> str:
        return f"{self.by!r} asked to cancel job {self.job_id}; no new attempt starts: recover it to record the end"


@dataclass(eq=False, repr=False)
class CancelNotRequestedError(RefusedError):
    """A worker may record a cancellation only after somebody asked for it."""

    code = "cancel_not_requested"
    job_id: str

    def __str__(self) -> str:
        return f"nobody asked to cancel job {self.job_id}; complete it, pause it, or report the failure"


@dataclass(eq=False, repr=False)
class SequenceMovedError(RefusedError):
    """Somebody acted on the job since the caller looked at it."""

    code = "sequence_moved"
    job_id: str
    expected: int
    current: int

    def __str__(self) -> str:
        return (
            f"job {self.job_id} was changed since you looked (control sequence {self.current}, you expected "
            f"{self.expected}); look again and decide anew"
        )


@dataclass(eq=False, repr=False)
class CommandChangedError(RefusedError):
    """A command id came back with another command or other arguments."""

    code = "command_changed"
    command_id: str
    job_id: str

    def __str__(self) -> str:
        return (
            f"command id {self.command_id!r} already belongs to another command on job {self.job_id}; "
            "send a new command under a new id"
        )


# Refused: units, effects, reads ---------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class ReceiptChangedError(RefusedError):
    """A unit that has a receipt came with a different one."""

    code = "receipt_changed"
    job_id: str
    unit: str
    first: object
    generation: int

    def __str__(self) -> str:
        return (
            f"job {self.job_id}: unit {self.unit!r} was recorded by generation {self.generation} with another receipt; "
            "the first one stands (field 'first'): use it"
        )


@dataclass(eq=False, repr=False)
class EffectConflictError(RefusedError):
    """A resource was changed by somebody else; nothing was committed."""

    code = "effect_conflict"
    resource: str
    expected: int
    current: int

    def __str__(self) -> str:
        return (
            f"resource {self.resource!r} is at version {self.current}, the effect expected {self.expected}; nothing was "
            "committed and the attempt stays open: read the resource and stage the effect again"
        )


@dataclass(eq=False, repr=False)
class UnknownJobError(RefusedError):
    """There is no such job in this namespace."""

    code = "unknown_job"
    job_id: str

    def __str__(self) -> str:
        return f"there is no job {self.job_id!r} in this namespace; check the id and the store"


@dataclass(eq=False, repr=False)
class UnknownSequenceError(RefusedError):
    """The history does not reach that far."""

    code = "unknown_sequence"
    job_id: str
    sequence: int | str
    head: int

    def __str__(self) -> str:
        return f"job {self.job_id} has events 1 to {self.head}, not {self.sequence}; ask within that range"


# Invalid --------------------------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class TooLargeError(InvalidError):
    """A value is larger than its policy or constant allows; the four sizes have a class each."""

    code = "too_large"
    size: int
    limit: int
    what: ClassVar[str] = "value"

    def __str__(self) -> str:
        return (
            f"the {self.what} is {self.size:,} bytes of JSON, at most {self.limit:,} are allowed; nothing was saved: "
            "send less, or keep it elsewhere and send a reference"
        )


class PayloadTooLargeError(TooLargeError):
    """The payload is larger than the policy's ``payload_bytes_max``."""

    code = "payload_too_large"
    what = "payload"


class CheckpointTooLargeError(TooLargeError):
    """The checkpoint is larger than ``checkpoint_bytes_max``; the last checkpoint stands."""

    code = "checkpoint_too_large"
    what = "checkpoint"


class ReceiptTooLargeError(TooLargeError):
    """The receipt is larger than ``receipt_bytes_max``."""

    code = "receipt_too_large"
    what = "receipt"


class ResultTooLargeError(TooLargeError):
    """The result or effect value is larger than ``result_bytes_max``; the attempt stays open."""

    code = "result_too_large"
    what = "result"


@dataclass(eq=False, repr=False)
class UnstorableValueError(InvalidError):
    """A value that JSON cannot hold exactly, or that no store may hold."""

    code = "unstorable_value"
    what: str
    path: str
    problem: str

    def __str__(self) -> str:
        return f"the {self.what} cannot be stored: {self.path} is {self.problem}; send plain JSON values"


@dataclass(eq=False, repr=False)
class UnknownPolicyError(InvalidError):
    """The named policy was not given to this store."""

    code = "unknown_policy"
    name: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        return f"there is no policy {self.name!r}; known ones: {', '.join(self.known)} (give more to JobStore.open)"


@dataclass(eq=False, repr=False)
class UnknownKindError(InvalidError):
    """The host has no handler for this kind."""

    code = "unknown_kind"
    kind: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        return f"no handler is registered for kind {self.kind!r}; known ones: {', '.join(self.known) or 'none'}"


@dataclass(eq=False, repr=False)
class InvalidHookError(InvalidError):
    """A job class or function has the wrong shape."""

    code = "invalid_hook"
    where: str
    problem: str

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


@dataclass(eq=False, repr=False)
class InvalidRequestError(InvalidError):
    """An argument is missing, unknown or out of its range."""

    code = "invalid_request"
    field: str
    problem: str

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}"


# Unavailable ----------------------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class ProducerUnavailableError(UnavailableError):
    """The host accepts no work: not admitted yet, or draining."""

    code = "producer_unavailable"
    state: str

    def __str__(self) -> str:
        return f"the host is {self.state} and accepts no work; submit once it is admitted, or to another host"


@dataclass(eq=False, repr=False)
class StoreUnavailableError(UnavailableError):
    """The store could not be reached or could not write; nothing was committed."""

    code = "store_unavailable"
    reason: str

    def __str__(self) -> str:
        return f"the store is unavailable ({self.reason}); nothing was committed: back off and try again"


@dataclass(eq=False, repr=False)
class DeadlineExceededError(UnavailableError):
    """The caller's deadline passed before the answer came."""

    code = "deadline_exceeded"
    waiting_for: str

    def __str__(self) -> str:
        return (
            f"the deadline passed while waiting for {self.waiting_for}; the outcome is unknown to you: "
            "read the job, or repeat with the same command id"
        )


@dataclass(eq=False, repr=False)
class OutcomeUnknownError(UnavailableError):
    """The connection broke while the command was being committed."""

    code = "outcome_unknown"
    reason: str

    def __str__(self) -> str:
        return (
            f"it is unknown whether the command was committed ({self.reason}); "
            "repeat it with the same command id: that is safe"
        )


# Corrupt --------------------------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class HistoryCorruptError(CorruptError):
    """A stored event cannot be read, or does not fit the one before it."""

    code = "history_corrupt"
    job_id: str
    sequence: int
    problem: str

    def __str__(self) -> str:
        return (
            f"the history of {self.job_id} cannot be trusted at sequence {self.sequence}: {self.problem}; "
            "this job is stopped: run 'jobledger verify' on it and call an auditor"
        )


@dataclass(eq=False, repr=False)
class SchemaMismatchError(CorruptError):
    """The store's schema is older or newer than this version of jobledger."""

    code = "schema_mismatch"
    found: int
    wanted: int
    command: str

    def __str__(self) -> str:
        if self.found < self.wanted:
            return f"the store has schema version {self.found}, this jobledger needs {self.wanted}; run: {self.command}"
        return (
            f"the store has schema version {self.found}, this jobledger knows only {self.wanted}; "
            "nothing was touched: upgrade jobledger"
        )
