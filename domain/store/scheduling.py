"""The operators' commands on schedules: each settles what is due, decides, and appends, all in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from jobledger.domain.answers import CreateReceipt
from jobledger.domain.bounds import require_instant, require_text
from jobledger.domain.decisions.creating import require_operator
from jobledger.domain.errors import (
    AdmissionRefusedError,
    CommandChangedError,
    HistoryCorruptError,
    OutcomeUnknownError,
    StoreUnavailableError,
)
from jobledger.domain.history import read, record_all
from jobledger.domain.job import State
from jobledger.domain.ports import RolledBackError
from jobledger.domain.schedule_events import ScheduleEvent, ScheduleFired
from jobledger.domain.schedules.answers import BackfillReceipt, ScheduleReceipt
from jobledger.domain.schedules.definition import Schedule, define, require_schedule_name
from jobledger.domain.schedules.firing import FIRED_MAX, Before, Settled, give_up, settle
from jobledger.domain.schedules.operating import (
    backfill_range,
    backfilled,
    hold_schedule,
    put,
    release_schedule,
    remove_schedule,
    require_schedule,
    require_triggerable,
    require_unheld,
    triggered,
)
from jobledger.domain.schedules.ports import ScheduleAppend
from jobledger.domain.schedules.state import (
    SNAPSHOT_EVERY,
    ScheduleState,
    advance_schedule,
    evolve_schedule,
    schedule_stream,
)
from jobledger.domain.store.base import require_expected
from jobledger.domain.store.executing import CONFLICTS_MAX, cause_of, require_command_id
from jobledger.domain.store.occurring import Occurrences, triggered_key

if TYPE_CHECKING:
    from datetime import datetime

    from jobledger.domain.history import Cause, RecordedEvent
    from jobledger.domain.ports import Session
    from jobledger.domain.schedules.timing import Calendar
    from jobledger.domain.store.base import Setting

Answer = TypeVar("Answer")

OTHERS: Final = "others changed the schedule at every try"


class CollisionError(Exception):
    """Rolls a transaction back in which somebody else wrote first; it is begun again."""


class Control(Protocol):
    """The shape of an operator's decision."""

    def __call__(
        self, state: ScheduleState, *, by: str, reason: str, now: datetime, expected_sequence: int | None = None
    ) -> list[ScheduleEvent]:
        """Decide."""
        ...


class Turn:
    """One schedule under its lock, in one transaction: its state moves on with each write."""

    def __init__(self, setting: Setting, calendar: Calendar, session: Session, name: str) -> None:
        """Load and lock the schedule, then read the store's clock.

        Raises:
            HistoryCorruptError: its row cannot be read.
        """
        self._setting, self._calendar, self._session, self._name = setting, calendar, session, name
        loaded = session.schedules(setting.namespace, [name]).get(name)
        self.state = loaded.state if loaded else None
        self._head = loaded.head if loaded else ""
        clock = session.now()
        self.now = max(clock, self.state.updated_at) if self.state else clock
        self.jobs = Occurrences(setting, calendar, session)

    def standing(self) -> ScheduleState:
        """The state of a schedule that has to exist.

        Raises:
            UnknownScheduleError: it was never put, or removed.
        """
        return require_schedule(self.state, self._name)

    def before(self) -> Before | None:
        """The newest occurrence."""
        return self.jobs.before(self.state) if self.state else None

    def repeated(self, cause: Cause) -> list[RecordedEvent]:
        """What the command left behind when it came before.

        Raises:
            CommandChangedError: its id belongs to another command, or to other arguments.
        """
        stream = schedule_stream(self._setting.namespace, self._name)
        left = [read(stored) for stored in self._session.caused(stream, cause.id)]
        if left and left[0].cause != cause:
            raise CommandChangedError(cause.id, stream)
        return left

    def settle(self, *, upto: datetime | None = None) -> bool:
        """Settle what is due; answers whether all of it was."""
        state = self.standing()
        settled = settle(
            state,
            self._calendar,
            lambda instant, _: self.jobs.make(state, instant, self.now),
            before=self.before(),
            now=self.now,
            upto=upto,
        )
        return self._write_settled(settled)

    def give_up(self, reason: Any, *, upto: datetime | None = None) -> bool:
        """Record what is due, or lies before ``upto``, as skipped; answers whether all of it was."""
        return self._write_settled(give_up(self.standing(), self._calendar, reason, now=self.now, upto=upto))

    def _write_settled(self, settled: Settled) -> bool:
        if settled.facts:
            self.write(settled.facts, cause_of("settle", [], self._setting.entropy.new_id()))
        return settled.is_whole

    def write(self, facts: Sequence[ScheduleEvent], cause: Cause) -> None:
        """Append facts, and the jobs that were drafted for them.

        Raises:
            CollisionError: somebody else wrote first.
        """
        drafted = draft_schedule(self.state, self._head, facts, cause)
        if not self._session.append_schedules([drafted])[0]:
            raise CollisionError
        if any(self._session.append([append for _, append in self.jobs.appends])):
            raise CollisionError
        self.jobs.appends.clear()
        self.state, self._head = drafted.state, drafted.head

    def receipt_then(self, left: Sequence[RecordedEvent]) -> ScheduleReceipt:
        """What stood when a command had left these events.

        Raises:
            HistoryCorruptError: the history up to there cannot be folded.
        """
        namespace, sequence = self._setting.namespace, left[-1].sequence
        state = self._session.schedule_snapshot(namespace, self._name, sequence)
        stream, after = left[-1].stream, state.sequence if state else 0
        for stored in self._session.records(stream, after=after, upto=sequence, limit=SNAPSHOT_EVERY):
            state = advance_schedule(state, read(stored))
        return ScheduleReceipt(self._name, sequence, state.next_at if state else None)

    def receipt(self, *, reused: bool) -> ScheduleReceipt:
        """What stands now."""
        state = self.state
        if state is None:
            raise HistoryCorruptError(schedule_stream(self._setting.namespace, self._name), 0, "its row is missing")
        return ScheduleReceipt(state.name, state.sequence, state.next_at, reused)


def draft_schedule(
    state: ScheduleState | None, head: str, facts: Sequence[ScheduleEvent], cause: Cause
) -> ScheduleAppend:
    """What is to be written for facts: their records, chained to what came before, and the state that they fold to."""
    sequence = state.sequence if state else 0
    snapshots: list[ScheduleState] = []
    for fact in facts:
        state = evolve_schedule(state, fact)
        if state.sequence % SNAPSHOT_EVERY == 0:
            snapshots.append(state)
    if state is None:
        msg = "a new schedule needs at least its ScheduleCreated"
        raise LookupError(msg)
    records = record_all(state.stream, sequence, list(facts), previous=head, cause=cause)
    return ScheduleAppend(
        sequence=sequence, state=state, records=records, head=records[-1].digest, snapshots=tuple(snapshots)
    )


@dataclass(frozen=True, slots=True)
class _Unfinished:
    """A bounded part was done and is committed; the command goes on in another transaction."""


UNFINISHED: Final = _Unfinished()


class ScheduleCommands:
    """What operators may ask of schedules."""

    def __init__(self, setting: Setting, calendar: Calendar) -> None:
        """Run commands in this setting, by this calendar."""
        self._setting, self._calendar = setting, calendar

    def put(self, schedule: Schedule, *, by: str, command_id: str | None = None) -> ScheduleReceipt:
        """Begin a schedule, or change it; one that says the same already is left alone (``reused``).

        Its instants after this moment are fired. Those before it that a change finds unsettled are settled as the old
        definition says, so that none is fired twice and none is lost.

        Raises:
            InvalidRequestError, UnstorableValueError, PayloadTooLargeError: mend the schedule; nothing was changed.
            CommandChangedError: the command id belongs to another command.
        """
        definition = define(schedule, self._calendar)
        require_operator(by, "put")
        mark = [repr(definition), by]

        def work(turn: Turn, cause: Cause) -> ScheduleReceipt | _Unfinished:
            state = turn.state
            facts = self._put(turn, schedule.name, definition, by)
            if not facts:
                return turn.receipt(reused=True)
            if state is not None and not state.is_removed:
                is_whole = turn.give_up("held") if state.hold else turn.settle(upto=turn.now)
                if not is_whole or not turn.give_up("changed", upto=turn.now):
                    return UNFINISHED
                facts = self._put(turn, schedule.name, definition, by)
            turn.write(facts, cause)
            return turn.receipt(reused=False)

        return self._run(schedule.name, "put", mark, command_id, work, Turn.receipt_then)

    def hold(
        self, name: str, *, by: str, reason: str, expected_sequence: int | None = None, command_id: str | None = None
    ) -> ScheduleReceipt:
        """Place a stop sign: nothing fires until it is released, and what would have is recorded as skipped then.

        Raises:
            UnknownScheduleError, HoldInForceError, SequenceMovedError: nothing was changed.
        """
        return self._control("hold", hold_schedule, name, by, reason, expected_sequence, command_id)

    def release(
        self, name: str, *, by: str, reason: str, expected_sequence: int | None = None, command_id: str | None = None
    ) -> ScheduleReceipt:
        """Take the stop sign away; instants that came meanwhile stay unfired, and are on record as held.

        Raises:
            UnknownScheduleError, NotHeldError, SequenceMovedError: nothing was changed.
        """
        return self._control("release", release_schedule, name, by, reason, expected_sequence, command_id)

    def remove(
        self, name: str, *, by: str, reason: str, expected_sequence: int | None = None, command_id: str | None = None
    ) -> ScheduleReceipt:
        """End a schedule; its jobs and its history stay, and its name may be put again.

        Raises:
            UnknownScheduleError, SequenceMovedError: nothing was changed.
        """
        return self._control("remove", remove_schedule, name, by, reason, expected_sequence, command_id)

    def trigger(self, name: str, *, by: str, reason: str, command_id: str | None = None) -> CreateReceipt:
        """Make an occurrence now, beside the plan; asked again with the same command id, it answers the same job.

        Raises:
            UnknownScheduleError, HoldInForceError, ScheduleBusyError: no job was made.
            AdmissionRefusedError, UnknownPolicyError, PayloadTooLargeError: the job itself was refused.
        """
        require_operator(by, reason)

        def work(turn: Turn, cause: Cause) -> CreateReceipt:
            state = turn.standing()
            require_triggerable(state, turn.before())
            key = triggered_key(name, cause.id)
            made = turn.jobs.make(state, turn.now, turn.now, key=key, by=by, reason=reason)
            if made.job_id is None or made.unmade is not None:
                taken = f"job {made.job_id} has the key {key!r}"
                raise made.refusal or AdmissionRefusedError(taken)
            fact = triggered(state, instant=turn.now, job_id=made.job_id, by=by, reason=reason, now=turn.now)
            turn.write([fact], cause)
            return CreateReceipt(made.job_id, reused=False, sequence=1, state=State.QUEUED)

        def again(_: Turn, left: list[RecordedEvent]) -> CreateReceipt:
            [fact] = [each.event for each in left if isinstance(each.event, ScheduleFired)]
            return CreateReceipt(fact.job_id, reused=False, sequence=1, state=State.QUEUED)

        return self._run(name, "trigger", [by, reason], command_id, work, again)

    def backfill(self, name: str, first: datetime, last: datetime, *, by: str, reason: str) -> BackfillReceipt:
        """Make the jobs of past instants from ``first`` to ``last``, both included, whatever ``overlap`` says.

        An instant that has its job already is counted as reused, so that repeating a backfill makes none twice.

        Raises:
            UnknownScheduleError, HoldInForceError: no job was made, or, where that came in the middle of a long range,
                none of the rest; asked again later, it makes those.
            InvalidRequestError: the range is empty, reaches into the future, or has more than 1,000 instants.
        """
        require_operator(by, reason)
        begin, end = require_instant("first", first), require_instant("last", last)
        job_ids: list[str] = []
        refused: list[tuple[datetime, str]] = []
        reused = 0
        done: datetime | None = None

        def work(turn: Turn, cause: Cause) -> tuple[list[str], int, list[tuple[datetime, str]], datetime | None]:
            state = turn.standing()
            require_unheld(state)
            wanted = backfill_range(state.definition, self._calendar, first=begin, last=end, now=turn.now)
            part = [instant for instant in wanted if done is None or instant > done][:FIRED_MAX]
            facts: list[ScheduleFired] = []
            unmade: list[tuple[datetime, str]] = []
            for instant in part:
                made = turn.jobs.make(state, instant, turn.now, by=by, reason=reason)
                if made.unmade in ("refused", "key_taken"):
                    unmade.append((instant, made.detail or f"job {made.job_id} has its key"))
                elif made.job_id is not None and made.unmade is None:
                    facts.append(
                        backfilled(state, instant=instant, job_id=made.job_id, by=by, reason=reason, now=turn.now)
                    )
            if facts:
                turn.write(facts, cause)
            met = len(part) - len(facts) - len(unmade)
            return [fact.job_id for fact in facts], met, unmade, part[-1] if part else None

        mark = [begin.isoformat(), end.isoformat(), by, reason]
        while True:
            made, met, unmade, done_now = self._run(name, "backfill", mark, None, work, None)
            job_ids += made
            refused += unmade
            reused += met
            if done_now is None:
                return BackfillReceipt(name, tuple(job_ids), reused, tuple(refused))
            done = done_now

    def _put(self, turn: Turn, name: str, definition: Any, by: str) -> list[ScheduleEvent]:
        namespace = self._setting.namespace
        return put(turn.state, definition, self._calendar, namespace=namespace, name=name, by=by, now=turn.now)

    def _control(
        self,
        what: str,
        control: Control,
        name: str,
        by: str,
        reason: str,
        expected_sequence: int | None,
        command_id: str | None,
    ) -> ScheduleReceipt:
        require_operator(by, reason)
        expected = require_expected(expected_sequence)

        def work(turn: Turn, cause: Cause) -> ScheduleReceipt | _Unfinished:
            state = turn.standing()
            if not control(state, by=by, reason=reason, now=turn.now, expected_sequence=expected):
                return turn.receipt(reused=True)
            if state.hold is not None and not turn.give_up("held"):
                return UNFINISHED
            if what == "remove" and not turn.give_up("removed", upto=turn.now):
                return UNFINISHED
            facts = control(turn.standing(), by=by, reason=reason, now=turn.now, expected_sequence=expected)
            turn.write(facts, cause)
            return turn.receipt(reused=False)

        mark = [by, reason, expected]
        return self._run(name, what, mark, command_id, work, Turn.receipt_then)

    def _run(
        self,
        name: str,
        what: str,
        arguments: Any,
        command_id: str | None,
        work: Callable[[Turn, Cause], Answer | _Unfinished],
        again: Callable[[Turn, list[RecordedEvent]], Answer] | None,
    ) -> Answer:
        """Run a command until it is done; a repeated one is answered from the events that it caused, before any guard.

        Raises:
            StoreUnavailableError, OutcomeUnknownError: nobody could answer; repeating with the same id is safe.
        """
        require_schedule_name(name)
        known_id, is_given = require_command_id(command_id, self._setting.entropy.new_id)
        cause = cause_of(what, arguments, require_text("command_id", known_id))
        lost: OutcomeUnknownError | None = None
        conflicts = 0
        while conflicts <= CONFLICTS_MAX:
            try:
                with self._setting.storage.writing(self._setting.patience) as session:
                    turn = Turn(self._setting, self._calendar, session, name)
                    left = turn.repeated(cause) if again is not None and (is_given or lost) else []
                    answer = again(turn, left) if again is not None and left else work(turn, cause)
            except (CollisionError, RolledBackError):
                conflicts += 1
            except OutcomeUnknownError as unknown:
                lost = unknown
                conflicts += 1
            except StoreUnavailableError as unavailable:
                raise (OutcomeUnknownError(unavailable.reason, known_id) if lost else unavailable) from None
            else:
                if not isinstance(answer, _Unfinished):
                    return answer
        raise lost or StoreUnavailableError(OTHERS)
