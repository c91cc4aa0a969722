"""What a proof looks at: one event on its way, and a whole history with what its clients asked and were told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobledger.domain.events import EpochAdvanced, JobEvent
    from jobledger.domain.job import Job
    from jobledger.domain.lease import Fence, Standing
    from jobledger.domain.schedule_events import ScheduleEvent
    from jobledger.domain.schedules.state import ScheduleState

Result = Literal["ok", "refused", "unknown"]


@dataclass(slots=True)
class Transition:
    """One event on its way: the job before and after it, and the command that it belongs to.

    ``leading`` and ``following`` are the events before and after it of the same command. ``standing`` is what that
    command was decided on, ``met`` what stood when it was written (``None``: not known, or the job did not exist yet).
    """

    before: Job | None
    event: JobEvent
    after: Job
    leading: JobEvent | None = None
    following: JobEvent | None = None
    standing: Standing | None = None
    met: Standing | None = None


@dataclass(slots=True)
class Entry:
    """One event in the log of all jobs, with its place there, its place in its own stream, and what caused it."""

    position: int
    stream: str
    sequence: int
    event: JobEvent | EpochAdvanced | ScheduleEvent
    command_id: str | None
    command: str | None = None


@dataclass(slots=True)
class Operation:
    """One request of a client, as the harness saw it from both ends.

    ``invoked`` and ``ended`` are lengths of the log when it was sent and when its reply arrived (``None``: never).
    ``result`` is what the client knows; ``served`` are the answers that the store gave, whether or not they arrived.
    """

    client: str
    name: str
    job_id: str | None
    command_id: str | None
    arguments: Mapping[str, Any]
    invoked: int
    fence: Fence | None = None
    step: int | None = None
    ended: int | None = None
    result: Result = "unknown"
    code: str = ""
    answer: Any = None
    served: list[Served] = field(default_factory=list)

    @property
    def command(self) -> str:
        """The name under which its events are recorded; commands on schedules are told apart by what they are on."""
        return self.name.removeprefix("schedule.")


@dataclass(slots=True)
class Served:
    """What the store answered to one delivery of a request.

    ``log`` is the length of the log after it, ``turn`` its place among all answers of the run.
    """

    result: Result
    code: str
    answer: Any
    log: int
    turn: int


@dataclass(slots=True)
class History:
    """All that happened in one run: the log, what clients saw, and the rows that the store ended with.

    ``jobs`` are the status rows, ``schedules`` the rows of schedules by name; ``resources`` maps (namespace, owner,
    name) to version and value; ``followed`` are the positions that a follower of the feed received, in that order.
    """

    log: Sequence[Entry]
    operations: Sequence[Operation] = ()
    jobs: Mapping[str, Job] = field(default_factory=dict)
    resources: Mapping[tuple[str, str, str], tuple[int, Any]] | None = None
    followed: Sequence[int] | None = None
    schedules: Mapping[str, ScheduleState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that does not hold, where, and what is wrong there."""

    invariant: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.invariant} is broken at {self.where}: {self.text}"
