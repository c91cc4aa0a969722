"""The invariants of the core, as data: a name, a sentence, and a predicate; written once for every harness.

A step invariant looks at one event on its way (``Transition``), so that each event can be checked as it happens; an
answer invariant looks at one refusal or acceptance (``Answered``), a history invariant at a whole run (``Index``).
``check_step``, ``check_answer`` and ``check_history`` answer what is broken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast, get_args

from jobledger.domain.events import EpochAdvanced, JobEvent
from jobledger.domain.job import evolve
from jobledger.domain.schedule_events import ScheduleEvent
from jobledger.domain.schedules.state import evolve_schedule
from tests.proof.history import Transition, Violation
from tests.proof.index import Index
from tests.proof.invariant import Invariant
from tests.proof.invariants_runs import ANSWER_INVARIANTS, HARNESS_INVARIANTS, HISTORY_INVARIANTS
from tests.proof.invariants_schedules import EVENTS, SCHEDULE_STEP_INVARIANTS
from tests.proof.invariants_steps import STEP_INVARIANTS
from tests.proof.timetables import ScheduleStep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jobledger.domain.job import Job
    from jobledger.domain.lease import Standing
    from tests.proof.history import Entry, History
    from tests.proof.refusals import Answered

__all__ = [
    "ANSWER_INVARIANTS",
    "HARNESS_INVARIANTS",
    "HISTORY_INVARIANTS",
    "INVARIANTS",
    "SCHEDULE_STEP_INVARIANTS",
    "STEP_INVARIANTS",
    "Invariant",
    "check_answer",
    "check_history",
    "check_log",
    "check_schedule_step",
    "check_step",
]

INVARIANTS: Final[tuple[Invariant, ...]] = (
    *STEP_INVARIANTS,
    *ANSWER_INVARIANTS,
    *HISTORY_INVARIANTS,
    *SCHEDULE_STEP_INVARIANTS,
    *HARNESS_INVARIANTS,
)

_FOR_EVENT: Final[dict[type, tuple[tuple[str, Callable[[Any], Any]], ...]]] = {
    event: tuple((each.name, each.check) for each in STEP_INVARIANTS if not each.events or event in each.events)
    for event in get_args(JobEvent)
}

_FOR_SCHEDULE_EVENT: Final[dict[type, tuple[tuple[str, Callable[[Any], Any]], ...]]] = {
    event: tuple(
        (each.name, each.check) for each in SCHEDULE_STEP_INVARIANTS if not each.events or event in each.events
    )
    for event in EVENTS
}


def check_step(
    before: Job | None,
    event: JobEvent,
    after: Job,
    *,
    leading: JobEvent | None = None,
    following: JobEvent | None = None,
    standing: Standing | None = None,
    met: Standing | None = None,
) -> list[Violation]:
    """Hold one event on its way against every step invariant that speaks of it.

    Args:
        before: the job before the event (``None``: it is created).
        event: the event.
        after: the job that it was folded to.
        leading: the event before it of the same command, if any.
        following: the event after it of the same command, if any.
        standing: what the command was decided on; without it nothing is said of lease rows and epochs.
        met: what stood when it was written, where that may differ.
    """
    transition = Transition(before, event, after, leading, following, standing, met)
    broken = []
    for name, check in _FOR_EVENT[type(event)]:
        text = check(transition)
        if text is not None:
            broken.append(Violation(name, f"sequence {after.sequence} ({type(event).__name__})", text))
    return broken


def check_schedule_step(step: ScheduleStep) -> list[Violation]:
    """Hold one event of a schedule on its way against every invariant that speaks of it."""
    event = step.event
    where = f"{step.after.stream}#{step.after.sequence} ({type(event).__name__})"
    found = [(name, check(step)) for name, check in _FOR_SCHEDULE_EVENT[type(event)]]
    return [Violation(name, where, text) for name, text in found if text is not None]


def check_answer(answered: Answered) -> list[Violation]:
    """Hold one answer of a command on a job against what it was decided on."""
    found = [(each.name, each.check(answered)) for each in ANSWER_INVARIANTS]
    operation = answered.operation
    where = f"{operation.client}'s {operation.name} {operation.command_id}"
    return [Violation(name, where, text) for name, text in found if text is not None]


def check_history(history: History) -> list[Violation]:
    """Hold a whole run against every history invariant."""
    index = Index.of(history)
    return [Violation(each.name, *found) for each in HISTORY_INVARIANTS for found in each.check(index)]


def check_log(history: History) -> list[Violation]:
    """Hold every event of a log against the step invariants, folding it anew; for stores that show no standings."""
    streams: dict[str, list[Entry]] = {}
    for entry in history.log:
        if not isinstance(entry.event, EpochAdvanced | ScheduleEvent):
            streams.setdefault(entry.stream, []).append(entry)
    return [
        *_check_schedules(history),
        *(broken for stream, entries in streams.items() for broken in _check_stream(stream, entries)),
    ]


def _check_schedules(history: History) -> Iterator[Violation]:
    """What a log shows of schedules; it does not tell which instants a new definition settled before their jitter."""
    states: dict[str, Any] = {}
    for entry in history.log:
        if isinstance(entry.event, ScheduleEvent):
            before = states.get(entry.stream)
            after = states[entry.stream] = evolve_schedule(before, entry.event)
            yield from check_schedule_step(ScheduleStep(before, entry.event, after, is_put=True))


def _check_stream(stream: str, entries: list[Entry]) -> Iterator[Violation]:
    before: Job | None = None
    for number, entry in enumerate(entries):
        event = cast("JobEvent", entry.event)
        after = evolve(before, event)
        leading, following = (_of_one_command(entries, number, other) for other in (number - 1, number + 1))
        for broken in check_step(before, event, after, leading=leading, following=following):
            yield Violation(broken.invariant, f"{stream}, {broken.where}", broken.text)
        before = after


def _of_one_command(entries: list[Entry], number: int, other: int) -> JobEvent | None:
    """The neighbouring event, if the same command caused it."""
    command_id = entries[number].command_id
    if command_id is None or not 0 <= other < len(entries) or entries[other].command_id != command_id:
        return None
    return cast("JobEvent", entries[other].event)
