"""Refusals around units, effects and reads."""

from __future__ import annotations

from dataclasses import dataclass

from jobledger.domain.errors.families import RefusedError
from jobledger.domain.errors.schedules import named


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
            f"resource {self.resource!r} is at version {self.current}, the effect expected {self.expected}; nothing "
            "was committed and the attempt stays open: read the resource and stage the effect again"
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
    first: int = 1

    def __str__(self) -> str:
        asked = f"not {self.sequence}" if isinstance(self.sequence, int) else self.sequence
        return f"{named(self.job_id)} has events {self.first} to {self.head}, {asked}; ask within that range"


@dataclass(eq=False, repr=False)
class ProjectionBusyError(RefusedError):
    """The projection is being rebuilt, by another runner or for another release."""

    code = "projection_busy"
    projection: str
    runner: str = ""

    def __str__(self) -> str:
        who = f" by {self.runner}" if self.runner else ""
        return f"projection {self.projection!r} is being rebuilt{who}; what is live stands, ask again when it is done"


@dataclass(eq=False, repr=False)
class HistoryArchivedError(RefusedError):
    """What was asked for lies in events that were archived; ``first`` is the first event that is still in the store."""

    code = "history_archived"
    job_id: str
    first: int
    place: str

    def __str__(self) -> str:
        gone = f"{named(self.job_id)}: its events 1 to {self.first - 1} were archived"
        if not self.place:
            return f"{gone} without a copy; its status and what follows from {self.first} on are still here"
        return f"{gone} to {self.place!r}; import that bundle into a store of its own and ask there"
