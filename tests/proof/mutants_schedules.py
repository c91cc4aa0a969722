"""Broken twins of the rules of schedules: what becomes of an instant, what operators may ask, and the fold."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from jobledger.domain.schedule_events import (
    ScheduleChanged,
    ScheduleCreated,
    ScheduleEvent,
    ScheduleFired,
    ScheduleHeld,
    ScheduleReleased,
    ScheduleRemoved,
    ScheduleSkipped,
)
from jobledger.domain.schedules import firing, operating, timing
from jobledger.domain.schedules.firing import Settled, give_up, settle
from jobledger.domain.schedules.state import evolve_schedule
from jobledger.domain.store import occurring, scheduling
from tests.proof.mutating import Mutant
from tests.proof.simulated_schedules import is_unmoved

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobledger.domain.history import Cause, RecordedEvent

_verdict: Final = vars(firing)["_verdict"]
_is_due: Final = vars(firing)["_is_due"]
_settled: Final[Callable[..., Settled]] = vars(firing)["_settled"]
_require_expected: Final = vars(operating)["_require_expected"]
_put: Final = operating.put
_require_unheld: Final = operating.require_unheld
A_SECOND: Final = timedelta(seconds=1)
FOR_EVER: Final = timedelta(days=10_000)


def defined_as(**changes: Any) -> dict[Any, Any]:
    """Verdicts on instants of a definition that differs."""

    def twin(known: Any, *args: Any, **asked: Any) -> Any:
        return _verdict(replace(known, definition=replace(known.definition, **changes)), *args, **asked)

    return {_verdict: twin}


def _judged(change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[Any, Any]:
    """Verdicts that were asked something else."""

    def twin(known: Any, instant: Any, before: Any, now: Any, *, is_last: bool) -> Any:
        asked = {"before": before, "now": now, "is_last": is_last}
        changed = asked | change(asked)
        return _verdict(known, instant, changed["before"], changed["now"], is_last=changed["is_last"])

    return {_verdict: twin}


def _of_definition(known: Any, overlap: str, instead: str) -> Any:
    is_one = known.definition.overlap == overlap
    return replace(known, definition=replace(known.definition, overlap=instead)) if is_one else known


def overlapping(overlap: str, instead: str) -> dict[Any, Any]:
    """One way to overlap is taken for another."""
    return {_verdict: lambda known, *args, **asked: _verdict(_of_definition(known, overlap, instead), *args, **asked)}


def _skips_one(known: Any, steps: Any, following: Any, now: Any, *, is_whole: bool) -> Settled:
    later = timing.next_instant(known.definition, None, following) if following else following  # type: ignore[arg-type]  # no calendar is asked
    return _settled(known, steps, later, now, is_whole=is_whole)


def _gives_up_on(*reasons: str) -> dict[Any, Any]:
    def twin(known: Any, calendar: Any, reason: Any, **asked: Any) -> Settled:
        return Settled((), is_whole=True) if reason in reasons else give_up(known, calendar, reason, **asked)

    return {give_up: twin}


def _settles_without(count: int) -> dict[Any, Any]:
    """Settling stops after so many facts, and says that nothing more is due."""

    def twin(*args: Any, **asked: Any) -> Settled:
        return Settled(settle(*args, **asked).facts[:count], is_whole=True)

    return {settle: twin}


def schedule_folding(kind: type, change: Callable[[Any, Any], dict[str, Any]]) -> dict[Any, Any]:
    """A fold that makes something else of one kind of event: given the state before and after it."""

    def twin(before: Any, event: ScheduleEvent) -> Any:
        after = evolve_schedule(before, event)
        return replace(after, **change(before, after)) if before is not None and isinstance(event, kind) else after

    return {evolve_schedule: twin}


def _fact(decide: Any, **changes: Any) -> dict[Any, Any]:
    return {decide: lambda *args, **asked: replace(decide(*args, **asked), **changes)}


def _in_time() -> dict[Any, Any]:
    def twin(*args: Any, **asked: Any) -> Any:
        found = _verdict(*args, **asked)
        return "due" if found == "caught_up" else found

    return {_verdict: twin}


def _puts_from(known: Any, *args: Any, now: Any, **asked: Any) -> Any:
    facts = _put(known, *args, now=now, **asked)
    earlier: Any = _put(None, *args, now=now - timedelta(minutes=1), **asked)[0]
    return [replace(each, next_at=earlier.next_at) for each in facts]


def _numbered() -> dict[Any, Any]:
    """Keys that no second scheduler would find."""
    numbers = iter(range(10**9))
    return {occurring.occurrence_key: lambda name, _: f"schedule:{name}:{next(numbers)}"}


class _ForgetfulTurn(scheduling.Turn):
    def repeated(self, cause: Cause) -> list[RecordedEvent]:
        del cause
        return []


SCHEDULE_MUTANTS: Final = (
    Mutant(
        "instants_come_early",
        "An instant is due a second before it comes.",
        {_is_due: lambda known, instant, now, upto: _is_due(known, instant - A_SECOND, now, upto)},
        "schedule",
    ),
    Mutant(
        "jitter_is_not_waited_for",
        "An instant is due before its jitter has passed.",
        {_is_due: lambda known, instant, now, upto: _is_due(known, instant, now, now if upto is None else upto)},
        "schedule",
    ),
    Mutant(
        "missed_instants_fire", "What is late fires, though nobody catches up.", defined_as(catch_up="all"), "schedule"
    ),
    Mutant(
        "late_instants_are_missed",
        "What is late is missed, though it is to be caught up.",
        defined_as(catch_up="none"),
        "schedule",
    ),
    Mutant(
        "the_newest_is_coalesced",
        "No late instant stands for the others.",
        _judged(lambda _: {"is_last": False}),
        "schedule",
    ),
    Mutant(
        "nothing_is_coalesced",
        "Each late instant is taken for the newest.",
        _judged(lambda _: {"is_last": True}),
        "schedule",
    ),
    Mutant("windows_are_ignored", "An instant fires, however old it is.", defined_as(window=FOR_EVER), "schedule"),
    Mutant("windows_are_short", "An instant is too old at once.", defined_as(window=timedelta(0)), "schedule"),
    Mutant("lateness_is_not_seen", "What is caught up is recorded as fired in time.", _in_time(), "schedule"),
    Mutant(
        "occurrences_overlap", "Nobody looks at the occurrence before.", _judged(lambda _: {"before": None}), "schedule"
    ),
    Mutant(
        "waiting_instants_are_skipped", "An instant that may wait is skipped.", overlapping("queue", "skip"), "schedule"
    ),
    Mutant(
        "skipped_instants_wait", "An instant that is to be skipped waits.", overlapping("skip", "queue"), "schedule"
    ),
    Mutant("waiting_instants_overlap", "An instant that is to wait fires.", overlapping("queue", "allow"), "schedule"),
    Mutant(
        "a_plan_leaves_an_instant_out",
        "The plan goes on with the instant after the next.",
        {_settled: _skips_one},
        "schedule",
    ),
    Mutant(
        "only_the_first_is_settled",
        "A scheduler settles one instant, and says that it was all.",
        _settles_without(1),
        "schedule",
    ),
    Mutant("occurrences_have_no_key", "Each firing makes a job of its own.", _numbered(), "schedule"),
    Mutant(
        "schedules_are_not_compared",
        "A schedule is written over what another scheduler wrote.",
        {is_unmoved: lambda *_: True},
        "schedule",
    ),
    Mutant(
        "a_hold_settles_nothing",
        "What came while a schedule was held is not on record.",
        _gives_up_on("held"),
        "schedule",
    ),
    Mutant(
        "a_change_loses_instants", "What waits is lost when a schedule is changed.", _gives_up_on("changed"), "schedule"
    ),
    Mutant(
        "a_removal_loses_instants",
        "What is due is lost when a schedule is removed.",
        _gives_up_on("removed"),
        "schedule",
    ),
    Mutant(
        "a_definition_begins_early", "A definition begins with instants of the past.", {_put: _puts_from}, "schedule"
    ),
    Mutant(
        "a_trigger_ignores_the_overlap",
        "An operator makes an occurrence beside one that goes on.",
        {operating.require_triggerable: lambda known, _: _require_unheld(known)},
        "schedule",
    ),
    Mutant(
        "operators_fire_under_a_hold",
        "An operator makes occurrences of a held schedule.",
        {_require_unheld: lambda _: None},
        "schedule",
    ),
    Mutant(
        "a_trigger_moves_the_plan",
        "After a trigger nothing more is planned.",
        _fact(operating.triggered, next_at=None),
        "schedule",
    ),
    Mutant(
        "a_backfill_moves_the_plan",
        "After a backfill nothing more is planned.",
        _fact(operating.backfilled, next_at=None),
        "schedule",
    ),
    Mutant(
        "a_trigger_forgets_who_asked",
        "A triggered occurrence is recorded as the engine's.",
        _fact(operating.triggered, by="engine"),
        "schedule",
    ),
    Mutant(
        "schedules_ignore_what_was_seen",
        "An operator of schedules acts on what he no longer sees.",
        {_require_expected: lambda *_: None},
        "schedule",
    ),
    Mutant(
        "schedule_repeats_are_not_recognised",
        "A repeated command on a schedule is a new one.",
        {scheduling.Turn: _ForgetfulTurn},
        "schedule",
    ),
    Mutant(
        "a_firing_is_not_the_newest",
        "The occurrence before is forgotten.",
        schedule_folding(ScheduleFired, lambda before, _: {"last_job_id": before.last_job_id}),
        "schedule",
    ),
    Mutant(
        "firings_are_not_counted",
        "A firing is not counted.",
        schedule_folding(ScheduleFired, lambda before, _: {"fired": before.fired}),
        "schedule",
    ),
    Mutant(
        "skips_are_counted_as_one",
        "A run of skipped instants counts as one.",
        schedule_folding(ScheduleSkipped, lambda before, _: {"skipped": before.skipped + 1}),
        "schedule",
    ),
    Mutant(
        "what_was_skipped_is_not_settled",
        "A skipped instant may come again.",
        schedule_folding(ScheduleSkipped, lambda before, _: {"settled_at": before.settled_at}),
        "schedule",
    ),
    Mutant(
        "a_schedule_is_not_held",
        "A hold on a schedule is recorded and not folded.",
        schedule_folding(ScheduleHeld, lambda *_: {"hold": None}),
        "schedule",
    ),
    Mutant(
        "a_schedule_stays_held",
        "A release of a schedule is recorded and not folded.",
        schedule_folding(ScheduleReleased, lambda before, _: {"hold": before.hold}),
        "schedule",
    ),
    Mutant(
        "a_change_keeps_the_definition",
        "Another definition is recorded and not folded.",
        schedule_folding(ScheduleChanged, lambda before, _: {"definition": before.definition}),
        "schedule",
    ),
    Mutant(
        "a_removed_schedule_stays",
        "A removal is recorded and not folded.",
        schedule_folding(ScheduleRemoved, lambda *_: {"is_removed": False}),
        "schedule",
    ),
    Mutant(
        "a_new_schedule_forgets_the_old_one",
        "A name that is put again knows nothing of what it settled.",
        schedule_folding(ScheduleCreated, lambda _, after: {"settled_at": after.created_at, "last_job_id": None}),
        "schedule",
    ),
)
