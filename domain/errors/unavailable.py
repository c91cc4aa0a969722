"""Nobody could answer, or what is stored cannot be trusted."""

from __future__ import annotations

from dataclasses import dataclass

from jobledger.domain.errors.families import CorruptError, UnavailableError


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
    command_id: str | None = None

    def __str__(self) -> str:
        which = "the same command id" if self.command_id is None else f"command_id={self.command_id!r}"
        return f"it is unknown whether the command was committed ({self.reason}); repeat it with {which}: that is safe"


@dataclass(eq=False, repr=False)
class HistoryCorruptError(CorruptError):
    """A stored event cannot be read, or does not fit the one before it."""

    code = "history_corrupt"
    job_id: str
    sequence: int
    problem: str

    def __str__(self) -> str:
        if not self.sequence:
            return f"what is stored of {self.job_id} cannot be trusted: {self.problem}; stop, and call an auditor"
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
