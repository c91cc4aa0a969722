"""Firing what is due: in batches, by any number of schedulers at once, each occurrence exactly once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from jobledger.domain.bounds import BATCH_MAX, require_instant, require_integer
from jobledger.domain.errors import HistoryCorruptError, JobledgerError, OutcomeUnknownError, StoreUnavailableError
from jobledger.domain.ports import RolledBackError
from jobledger.domain.schedules.answers import FiringReport
from jobledger.domain.schedules.firing import Made, settle
from jobledger.domain.schedules.ports import DueSchedule, LoadedSchedule, ScheduleAppend
from jobledger.domain.schedules.timing import EPOCH
from jobledger.domain.store.executing import CONFLICTS_MAX, UNKNOWN_MAX, cause_of
from jobledger.domain.store.occurring import Occurrences
from jobledger.domain.store.scheduling import CollisionError, ScheduleCommands, draft_schedule

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from jobledger.domain.history import Cause
    from jobledger.domain.ports import Session
    from jobledger.domain.schedules.state import ScheduleState

BATCH: Final = 100
"""How many schedules one transaction settles at most."""

JOBS_MAX: Final = 500
"""Once a transaction makes so many jobs it takes no further schedule."""

OTHERS: Final = "others wrote the same jobs at every try"


@dataclass(slots=True)
class _Tally:
    """What a call has done so far."""

    fired: int = 0
    skipped: int = 0
    schedules: int = 0
    failed: dict[str, str] = field(default_factory=dict[str, str])

    def add(self, page: _Page) -> None:
        self.schedules += len(page.taken)
        self.failed |= page.failed
        for append in page.written:
            before = page.before[append.state.name]
            self.fired += append.state.fired - before.fired
            self.skipped += append.state.skipped - before.skipped


@dataclass(slots=True)
class _Page:
    """What one transaction took in hand, and what it wrote."""

    taken: list[DueSchedule] = field(default_factory=list[DueSchedule])
    before: dict[str, ScheduleState] = field(default_factory=dict[str, "ScheduleState"])
    written: list[ScheduleAppend] = field(default_factory=list[ScheduleAppend])
    failed: dict[str, str] = field(default_factory=dict[str, str])


class FiringCommands(ScheduleCommands):
    """What schedulers ask: make the jobs of all that is due."""

    def fire_due(self, limit: int = 10_000) -> FiringReport:
        """Settle every schedule that is due by the store's clock, at most ``limit`` of them; counts what was done.

        Any number of callers may do this at once: each instant is settled under its schedule's lock, and its job has
        the key of the instant, so that none is made twice. One that fails is named, and stops no other.

        Raises:
            StoreUnavailableError, OutcomeUnknownError: the store did not answer; repeating it is safe.
        """
        require_integer("limit", limit, 1, 1_000 * BATCH_MAX)
        tally = _Tally()
        after: DueSchedule | None = None
        has_moved = False
        while tally.schedules < limit:
            if after is None and not self._is_anything_due():
                return self._report(tally, is_done=True)
            page = self._settled_page(after, min(BATCH, limit - tally.schedules))
            tally.add(page)
            has_moved = has_moved or bool(page.written)
            if page.taken:
                after = page.taken[-1]
            elif has_moved:
                after, has_moved = None, False  # what is still due, or due again, gets its turn behind all others
            else:
                return self._report(tally, is_done=True)
        return self._report(tally, is_done=False)

    def next_due(self, *, after: datetime | None = None) -> tuple[datetime | None, datetime]:
        """When the first schedule is due (``None``: none is), and the store's own time, by which that counts.

        ``after`` leaves out those that were due by then; they have had their turn. Without it all that wait are told.
        """
        with self._setting.storage.reading() as reader:
            behind = EPOCH if after is None else require_instant("after", after)
            return reader.next_due(self._setting.namespace, after=behind), reader.now()

    def _is_anything_due(self) -> bool:
        with self._setting.storage.reading() as reader:
            return bool(reader.due_schedules(self._setting.namespace, after=None, limit=1))

    def _report(self, tally: _Tally, *, is_done: bool) -> FiringReport:
        failed = tuple(sorted(tally.failed.items()))
        return FiringReport(tally.fired, tally.skipped, tally.schedules, failed, is_done)

    def _settled_page(self, after: DueSchedule | None, size: int) -> _Page:
        """Settle one batch; after a collision one schedule at a time, so that it stops no other."""
        collisions = unknowns = 0
        while collisions <= CONFLICTS_MAX:
            try:
                with self._setting.storage.writing(self._setting.patience) as session:
                    return self._settle(session, after, 1 if collisions else size)
            except (CollisionError, RolledBackError):
                collisions += 1
            except OutcomeUnknownError:
                unknowns += 1
                if unknowns > UNKNOWN_MAX:
                    raise
        raise StoreUnavailableError(OTHERS)

    def _settle(self, session: Session, after: DueSchedule | None, size: int) -> _Page:
        page = _Page()
        due = session.due_schedules(self._setting.namespace, after=after, limit=size)
        if not due:
            return page
        loaded = _loaded(session, self._setting.namespace, due, page)
        now = session.now()
        jobs = Occurrences(self._setting, self._calendar, session)
        _look_up(jobs, loaded)
        cause = cause_of("settle", [], self._setting.entropy.new_id())
        drafts: list[ScheduleAppend] = []
        for each in due:
            if len(jobs.appends) >= JOBS_MAX:
                break
            page.taken.append(each)
            if (found := loaded.get(each.name)) is None:
                continue
            drafted = len(jobs.appends)
            try:
                drafts += self._drafts(jobs, found, now, cause)
            except JobledgerError as error:
                del jobs.appends[drafted:]
                page.failed[each.name] = str(error)
        page.before = {name: found.state for name, found in loaded.items()}
        page.written = _write(session, drafts, jobs)
        return page

    def _drafts(self, jobs: Occurrences, found: LoadedSchedule, clock: datetime, cause: Cause) -> list[ScheduleAppend]:
        state = found.state
        now = max(clock, state.updated_at)

        def make(instant: datetime, _: str) -> Made:
            return jobs.make(state, instant, now)

        settled = settle(state, self._calendar, make, before=jobs.before(state), now=now)
        return [draft_schedule(state, found.head, settled.facts, cause)] if settled.facts else []


def _loaded(session: Session, namespace: str, due: Sequence[DueSchedule], page: _Page) -> dict[str, LoadedSchedule]:
    """The schedules of a batch; one whose row cannot be read is noted, and stops no other."""
    names = sorted(each.name for each in due)
    try:
        return session.schedules(namespace, names)
    except HistoryCorruptError:
        pass
    loaded: dict[str, LoadedSchedule] = {}
    for name in names:
        try:
            loaded |= session.schedules(namespace, [name])
        except HistoryCorruptError as corrupt:
            page.failed[name] = str(corrupt)
    return loaded


def _look_up(jobs: Occurrences, loaded: dict[str, LoadedSchedule]) -> None:
    """Load the jobs that will be looked at; one that cannot be read is met again with its own schedule."""
    try:
        jobs.look_up([found.state for found in loaded.values()])
    except HistoryCorruptError:
        return


def _write(session: Session, drafts: list[ScheduleAppend], jobs: Occurrences) -> list[ScheduleAppend]:
    """Write the schedules that nobody changed meanwhile, and the jobs of those.

    Raises:
        CollisionError: a job was made by somebody else meanwhile; everything is rolled back.
    """
    results = session.append_schedules(drafts)
    written = [draft for draft, is_written in zip(drafts, results, strict=True) if is_written]
    names = {draft.state.name for draft in written}
    if any(session.append([append for name, append in jobs.appends if name in names])):
        raise CollisionError
    return written
