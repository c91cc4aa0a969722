"""The invariants of schedules: of their events on the way, and of whole histories."""

from __future__ import annotations

from typing import Final

from jobledger.domain.schedule_events import (
    ScheduleChanged,
    ScheduleCreated,
    ScheduleHeld,
    ScheduleReleased,
    ScheduleRemoved,
)
from tests.proof import occurrences, timetables
from tests.proof.invariant import Invariant
from tests.proof.timetables import SETTLED

GROUP: Final = "Schedules"

SCHEDULE_STEP_INVARIANTS: Final[tuple[Invariant, ...]] = (
    Invariant(
        "schedule_begins",
        "A schedule's history starts with its creation; only another creation follows its removal.",
        timetables.begins_once,
        group=GROUP,
    ),
    Invariant(
        "schedule_fold",
        "An event of a schedule changes exactly the fields that it speaks of, and is numbered behind the one before.",
        timetables.changes_what_it_speaks_of,
        group=GROUP,
    ),
    Invariant(
        "schedule_time",
        "Within a schedule recorded times never decrease.",
        timetables.time_never_runs_back,
        group=GROUP,
    ),
    Invariant(
        "planned",
        "What fires or is skipped is what was planned, one instant of the definition after the other, none left out.",
        timetables.fires_what_is_planned,
        events=SETTLED,
        group=GROUP,
    ),
    Invariant(
        "first_instant",
        "A definition begins with its first instant to come, and settles none that was settled before.",
        timetables.plans_the_first_instant,
        events=(ScheduleCreated, ScheduleChanged),
        group=GROUP,
    ),
    Invariant(
        "instant_due",
        "No instant fires or is skipped before it is due, its jitter included.",
        timetables.comes_when_it_is_due,
        events=SETTLED,
        group=GROUP,
    ),
    Invariant(
        "nothing_left",
        "A release, another definition and a removal find everything settled that was due before them.",
        timetables.leaves_nothing_behind,
        events=(ScheduleReleased, ScheduleChanged, ScheduleRemoved),
        group=GROUP,
    ),
    Invariant(
        "schedule_held",
        "While a schedule is held nothing fires, and what is due is on record as held.",
        timetables.fires_unless_held,
        events=SETTLED,
        group=GROUP,
    ),
    Invariant(
        "catch_up",
        "An instant that nobody settled in time is caught up, coalesced, missed or too old, as the schedule says.",
        timetables.late_ones_are_caught_up_as_it_says,
        events=SETTLED,
        group=GROUP,
    ),
    Invariant(
        "overlap",
        "No occurrence is made, and none is skipped, but as the schedule says of one before it that has not ended.",
        timetables.occurrences_overlap_as_it_says,
        events=SETTLED,
        group=GROUP,
    ),
    Invariant(
        "schedule_holds",
        "Holds and releases of a schedule alternate.",
        timetables.holds_alternate,
        events=(ScheduleHeld, ScheduleReleased),
        group=GROUP,
    ),
)

SCHEDULE_HISTORY_INVARIANTS: Final[tuple[Invariant, ...]] = (
    Invariant(
        "fired_once",
        "An instant of a schedule makes at most one job, however many schedulers, operators and repeats ask for it.",
        occurrences.instants_fire_once,
        group=GROUP,
    ),
    Invariant(
        "occurrences",
        "Each firing has its job, made with it, as the definition of that moment asks; each occurrence has its firing.",
        occurrences.occurrences_are_what_their_definition_says,
        group=GROUP,
    ),
    Invariant(
        "no_overlap",
        "Where occurrences may not overlap, the one before has ended in the log before the next one is made.",
        occurrences.occurrences_wait_for_each_other,
        group=GROUP,
    ),
    Invariant(
        "in_the_way",
        "What is skipped for a job names a job that is there.",
        occurrences.skipped_jobs_are_there,
        group=GROUP,
    ),
    Invariant(
        "schedule_rows",
        "The row of a schedule is the fold of its events.",
        occurrences.schedule_rows_are_the_fold,
        group=GROUP,
    ),
    Invariant(
        "triggers",
        "An operator who triggers a schedule is told of the job that his command made, also when he asks again.",
        occurrences.triggers_are_told_of_their_job,
        group=GROUP,
    ),
)

SCHEDULER_INVARIANTS: Final[tuple[Invariant, ...]] = (
    Invariant(
        "nothing_due",
        "A scheduler that nobody disturbs leaves nothing due.",
        lambda _: None,
        group=GROUP,
    ),
)
"""What the harness itself notices."""

EVENTS: Final = (*SETTLED, ScheduleCreated, ScheduleChanged, ScheduleHeld, ScheduleReleased, ScheduleRemoved)
