"""Refusals of operators' controls."""

from __future__ import annotations

from dataclasses import dataclass

from jobledger.domain.errors.families import RefusedError
from jobledger.domain.errors.schedules import named


@dataclass(eq=False, repr=False)
class HoldInForceError(RefusedError):
    """An operator's or the engine's hold is in force."""

    code = "hold_in_force"
    job_id: str
    by: str
    reason: str

    def __str__(self) -> str:
        return f"{named(self.job_id)} is held by {self.by!r} ({self.reason}); release that hold first"


@dataclass(eq=False, repr=False)
class NotHeldError(RefusedError):
    """There is no hold to release."""

    code = "not_held"
    job_id: str

    def __str__(self) -> str:
        return f"{named(self.job_id)} is not held; there is nothing to release"


@dataclass(eq=False, repr=False)
class ControlUnavailableError(RefusedError):
    """The job was created without this control."""

    code = "control_unavailable"
    job_id: str
    control: str
    supported: tuple[str, ...]

    def __str__(self) -> str:
        offers = ", ".join(self.supported) or "none"
        return f"job {self.job_id} does not support {self.control!r}; use one that it does: {offers}"


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
            f"{named(self.job_id)} was changed since you looked (control sequence {self.current}, you expected "
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
            f"command id {self.command_id!r} already belongs to another command on {named(self.job_id)}; "
            "send a new command under a new id"
        )
