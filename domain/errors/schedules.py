"""Refusals around schedules, and how a refusal names what it is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from jobledger.domain.errors.families import RefusedError

_KINDS: Final = ("schedule", "group", "queue")


def named(stream: str) -> str:
    """What a stream is to people: a job by its id, a schedule, a queue or a worker group by its name."""
    kind, _, rest = stream.partition(":")
    length, _, names = rest.partition(":")
    if kind in _KINDS and length.isdecimal():
        name = names[int(length) + 1 :]
        return f"{kind} {name!r}" if name else "the whole namespace"
    return f"job {stream}"


@dataclass(eq=False, repr=False)
class UnknownScheduleError(RefusedError):
    """No schedule of this name was put, or it was removed."""

    code = "unknown_schedule"
    name: str

    def __str__(self) -> str:
        return f"there is no schedule {self.name!r} in this namespace; check the name, or put it first"


@dataclass(eq=False, repr=False)
class ScheduleBusyError(RefusedError):
    """The occurrence before has not ended, and the schedule allows no overlap."""

    code = "schedule_busy"
    name: str
    job_id: str
    overlap: str

    def __str__(self) -> str:
        return (
            f"job {self.job_id} of schedule {self.name!r} has not ended, and its overlap is {self.overlap!r}; "
            "wait for it, cancel it, or put the schedule with overlap='allow'"
        )
