"""``verify`` has rules of its own, written apart from the invariants: what those notice in a log, it notices too."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from jobledger.adapters.storage.clocks import ManualClock
from jobledger.adapters.storage.memory import MemoryStorage
from jobledger.domain.decisions.claiming import claimable
from jobledger.domain.events import Created, EpochAdvanced, UnitRecorded
from jobledger.domain.history import Cause, record
from jobledger.domain.job import Job, evolve
from jobledger.domain.lease import LeaseRow
from jobledger.domain.ports import Append, GroupRow, Guard, ResourceWrite, UnitRow
from jobledger.domain.schedules.ports import ScheduleAppend
from jobledger.domain.schedules.state import ScheduleState, evolve_schedule
from jobledger.domain.store.operating import group_stream
from jobledger.domain.values import encode_json
from jobledger.projections.audit import streams, verify_stream
from tests.domain.given import NOON
from tests.proof import planted, planted_schedules
from tests.proof.history import Entry
from tests.storage.given import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobledger.domain.events import JobEvent
    from jobledger.domain.ports import Session
    from tests.proof.timetables import ScheduleStep

UNSEEN: Final = {
    "live_writes": "renewals move the expiry in the lease row alone: no log tells how long a lease lived",
    "interruptions": "which of two reasons an interruption had is in what stood when it was written",
    "takeovers": "that the claim met an open attempt is in what stood when it was written",
}
"""Invariants that need more than the log and the rows beside it, with what they need."""

UNSEEN_OF_SCHEDULES: Final = {
    "first_instant": "which instant is the first one of a definition is for its calendar to say",
    "nothing_left": "what was due when an operator came follows from the calendar, too",
    "catch_up": "how late is late is a rule of the scheduler's, and no fact of the history",
    "overlap": "whether a job had ended when its schedule was decided on is in no history of the schedule",
    "no_overlap": "the same",
    "in_the_way": "a job that stood in the way may be another owner's, and is looked at by its own stream",
}

HISTORIES: Final = ["no_gaps", "keys", "applied_once", "epochs", "epoch_fence", "derived", "compare_and_set", "units"]
"""Those that are of the log alone; what clients were told stands in no store."""

GROUPS: Final = ("cpu", "default")

Found = set[tuple[str, int, str]]
"""Streams, sequences and rules of problems."""


def found(entries: Sequence[Entry], last: dict[str, Any] | None = None) -> Found:
    """What ``verify`` finds in a store that somebody wrote these into; ``last`` is made of the last job's state."""
    storage = MemoryStorage(clock=ManualClock(NOON))
    jobs: dict[str, Job] = {}
    heads: dict[str, str] = {}
    for entry in entries:
        cause = Cause(id=entry.command_id or "", name=entry.command or "", arguments="")
        head = heads.get(entry.stream, "")
        stored = record(entry.stream, entry.sequence, entry.event, previous=head, cause=cause)
        heads[entry.stream] = stored.digest
        with storage.writing(PATIENCE) as session:
            if isinstance(entry.event, EpochAdvanced):
                row = GroupRow(entry.event.epoch, entry.sequence, stored.digest)
                [group] = [name for name in GROUPS if group_stream("default", name) == entry.stream]
                assert session.append_group("default", group, session.group("default", group), row, stored)
                continue
            before = jobs.get(entry.stream)
            after = evolve(before, cast("JobEvent", entry.event))
            jobs[entry.stream] = replace(after, **last) if last and entry is entries[-1] else after
            assert session.append([append(session, before, jobs[entry.stream], stored, entry.event)]) == [None]
    names = streams(storage, "default")
    return {(name, each.sequence, each.rule) for name in names for each in verify_stream(storage, name).problems}


def found_of_schedule(entries: Sequence[Entry], planted: ScheduleStep | None = None) -> Found:
    """The same of a schedule and its jobs; the event of a planted step makes of the schedule what the step says."""
    storage = MemoryStorage(clock=ManualClock(NOON))
    heads: dict[str, str] = {}
    state: ScheduleState | None = None
    for entry in entries:
        cause = Cause(id=entry.command_id or "", name=entry.command or "", arguments="")
        stored = record(entry.stream, entry.sequence, entry.event, previous=heads.get(entry.stream, ""), cause=cause)
        heads[entry.stream] = stored.digest
        with storage.writing(PATIENCE) as session:
            if isinstance(entry.event, Created):
                assert session.append([append(session, None, evolve(None, entry.event), stored, entry.event)]) == [None]
                continue
            event: Any = entry.event
            after = evolve_schedule(state, event)
            after = planted.after if planted is not None and entry.event is planted.event else after
            sequence = state.sequence if state else 0
            written = ScheduleAppend(sequence=sequence, state=after, records=(stored,), head=stored.digest)
            assert session.append_schedules([written]) == [True]
            state = after
    names = streams(storage, "default")
    return {(name, each.sequence, each.rule) for name in names for each in verify_stream(storage, name).problems}


def append(session: Session, before: Job | None, after: Job, stored: Any, event: Any) -> Append:
    """One event with the rows beside it, past every rule; what the store itself would refuse keeps its rows."""
    is_new = isinstance(event, UnitRecorded) and (before is None or not before.units)
    effects = getattr(event, "effects", ())
    versions = session.versions(after.namespace, after.owner, [effect.resource for effect in effects])
    return Append(
        guard=Guard(sequence=before.sequence if before else 0),
        job=after,
        claimable=claimable(after),
        records=(stored,),
        head=stored.digest,
        lease=LeaseRow(after.generation, after.attempt.expires_at) if after.attempt else None,
        unit=UnitRow(event.unit, event.receipt, event.generation, stored.sequence) if is_new else None,
        effects=tuple(
            ResourceWrite(effect.resource, effect.version - 1, encode_json(effect.value.value), event.generation)
            for effect in effects
            if versions.get(effect.resource, 0) == effect.version - 1
        ),
    )


def of_step(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Entry], list[Entry], dict[str, Any]]:
    """What stood before a planted step, the step with what leads it, and what is made of its state."""
    asked: list[tuple[Sequence[Any], Any, dict[str, Any]]] = []
    take = planted.step

    def noted(facts: Sequence[Any], event: Any, **made: Any) -> Any:
        asked.append((facts, event, made))
        return take(facts, event, **made)

    monkeypatch.setattr(planted, "step", noted)
    transition = planted.STEPS[name]()
    [(facts, event, made)] = asked
    before = planted.log(facts=[replace(each, key=None) if isinstance(each, Created) else each for each in facts])
    steps = [event] if transition.leading is None else [transition.leading, event]
    after = [planted.entry(len(before) + place, each, by="last") for place, each in enumerate(steps, start=1)]
    return before, after, made


@pytest.mark.parametrize("name", planted.STEPS)
def test_a_step_that_an_invariant_notices_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, step, made = of_step(name, monkeypatch)

    news = found([*before, *step], made) - found(before)

    assert bool(news) is (name not in UNSEEN)


@pytest.mark.parametrize("name", HISTORIES)
def test_a_history_that_an_invariant_notices_is_noticed(name: str) -> None:
    news = found(planted.HISTORIES[name]().log) - found(planted.log())

    assert bool(news) is (name not in UNSEEN)


@pytest.mark.parametrize("name", planted_schedules.SCHEDULE_STEPS)
def test_a_step_of_a_schedule_that_an_invariant_notices_is_noticed(name: str) -> None:
    planted_step = planted_schedules.SCHEDULE_STEPS[name]()
    before = planted_schedules.leading_to(planted_step)
    after = planted_schedules.made_by(planted_step.event, len(before) + 1, planted_step.stood.sequence + 1)

    news = found_of_schedule([*before, *after], planted_step) - found_of_schedule(before)

    assert bool(news) is (name not in UNSEEN_OF_SCHEDULES)


@pytest.mark.parametrize("name", ["fired_once", "occurrences", "no_overlap", "in_the_way"])
def test_a_history_of_a_schedule_that_an_invariant_notices_is_noticed(name: str) -> None:
    news = found_of_schedule(planted_schedules.SCHEDULE_HISTORIES[name]().log)

    assert found_of_schedule(planted_schedules.history().log) == set()
    assert bool(news) is (name not in UNSEEN_OF_SCHEDULES)
