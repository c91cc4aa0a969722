"""Every error a caller can meet, in four families named by what the caller does next.

JobledgerError
├── RefusedError      the rules forbid it: do not repeat it as it is
├── InvalidError      the input is wrong: mend it
├── UnavailableError  nobody could answer: back off and repeat (safe with the same command id)
└── CorruptError      stored history or schema cannot be trusted: stop, call an auditor

Each class has a stable ``code`` and typed fields; its text is one sentence that names the next step.
"""

from jobledger.domain.errors.controls import (
    AlreadyTerminalError,
    CancelNotRequestedError,
    CancelPendingError,
    CommandChangedError,
    ControlUnavailableError,
    HoldInForceError,
    NotHeldError,
    NothingToRecoverError,
    NotResumableError,
    NotTerminalError,
    SequenceMovedError,
)
from jobledger.domain.errors.creating import (
    AdmissionRefusedError,
    JobExistsError,
    PayloadChangedError,
)
from jobledger.domain.errors.families import (
    CorruptError,
    InvalidError,
    JobledgerError,
    RefusedError,
    UnavailableError,
)
from jobledger.domain.errors.invalid import (
    CheckpointTooLargeError,
    InvalidHookError,
    InvalidRequestError,
    PayloadTooLargeError,
    ReceiptTooLargeError,
    ResultTooLargeError,
    UnknownCursorError,
    UnknownKindError,
    UnknownPolicyError,
    UnstorableValueError,
)
from jobledger.domain.errors.leases import (
    BudgetExhaustedError,
    LeaseExpiredError,
    LeaseLiveError,
    NotReadyError,
    OutOfOrderError,
    StaleEpochError,
    StaleFenceError,
)
from jobledger.domain.errors.queues import QueueHeldError, QueueLimitedError
from jobledger.domain.errors.records import (
    EffectConflictError,
    HistoryArchivedError,
    ProjectionBusyError,
    ReceiptChangedError,
    UnknownJobError,
    UnknownSequenceError,
)
from jobledger.domain.errors.schedules import ScheduleBusyError, UnknownScheduleError
from jobledger.domain.errors.unavailable import (
    DeadlineExceededError,
    HistoryCorruptError,
    OutcomeUnknownError,
    ProducerUnavailableError,
    SchemaMismatchError,
    StoreUnavailableError,
)

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
    "HistoryArchivedError",
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
    "ProjectionBusyError",
    "QueueHeldError",
    "QueueLimitedError",
    "ReceiptChangedError",
    "ReceiptTooLargeError",
    "RefusedError",
    "ResultTooLargeError",
    "ScheduleBusyError",
    "SchemaMismatchError",
    "SequenceMovedError",
    "StaleEpochError",
    "StaleFenceError",
    "StoreUnavailableError",
    "UnavailableError",
    "UnknownCursorError",
    "UnknownJobError",
    "UnknownKindError",
    "UnknownPolicyError",
    "UnknownScheduleError",
    "UnknownSequenceError",
    "UnstorableValueError",
]
