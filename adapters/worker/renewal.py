"""The renewal thread of a host: it keeps every held lease alive, whatever handlers and event loops do."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from jobledger.adapters.bootstrap import JobStore
from jobledger.adapters.worker.caution import Caution, pause_after, spread
from jobledger.adapters.worker.clock import elapsed
from jobledger.adapters.worker.held import HeldLease
from jobledger.domain.answers import Renewal
from jobledger.domain.bounds import BATCH_MAX
from jobledger.domain.errors import HistoryCorruptError, JobledgerError, RefusedError, StoreUnavailableError

LOG: Final = logging.getLogger("jobledger.worker")

NAP_MAX: Final = 1.0
"""The longest wait in seconds: waiting stands still while a machine sleeps, local deadlines do not."""
EARLY_SHARE: Final = 0.2
"""A lease goes along with others that are due once it is due within this share of its own interval."""
LATE_SHARE: Final = 0.5
"""But not before this share of its interval has passed since something was heard of it: its writes keep it alive."""


@dataclass(slots=True)
class _Schedule:
    """When a lease is renewed next, how often in a row that failed, and whether somebody waits for it."""

    due_at: float
    failures: int = 0
    is_asked: bool = False


class Renewals:
    """Renews the leases given to it, each by its own schedule, in shared batches; the last thing that a host stops.

    A failed call is no lost lease: it is repeated, also beyond the local deadline, since a late renewal is accepted
    while nobody took the job over: however long an outage lasts, only a refusal loses a lease.
    """

    def __init__(self, store: JobStore, caution: Caution, name: str) -> None:
        """Renew through this store; failed calls are told to ``caution``."""
        self._store, self._caution = store, caution
        self._woken = threading.Condition()
        self._schedules: dict[HeldLease, _Schedule] = {}
        self._is_stopping = False
        self._wakes_at = 0.0
        self._thread = threading.Thread(target=self._run, name=f"{name} renewals", daemon=True)

    def start(self) -> None:
        """Begin to renew."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; leases that are still held are left to expire."""
        with self._woken:
            self._is_stopping = True
            self._woken.notify_all()
        if self._thread.ident is not None:
            self._thread.join()

    def keep(self, leases: Sequence[HeldLease]) -> None:
        """Renew these leases from now on."""
        self._caution.learn(max(held.renew_every for held in leases))
        added = {held: _Schedule(held.heard_at + spread(held.renew_every)) for held in leases}
        earliest = min(each.due_at for each in added.values())
        with self._woken:
            self._schedules |= added
            if earliest < self._wakes_at:  # most leases are given back before they are due: nobody is woken for them
                self._woken.notify_all()

    def release(self, leases: Iterable[HeldLease]) -> None:
        """Renew these leases no longer."""
        with self._woken:
            for held in leases:
                self._schedules.pop(held, None)

    def renew_soon(self, held: HeldLease) -> None:
        """Renew a lease now, unless a failed call is about to be repeated anyway."""
        with self._woken:
            schedule = self._schedules.get(held)
            if schedule is not None and not schedule.failures:
                schedule.due_at, schedule.is_asked = elapsed(), True
                self._woken.notify_all()

    def _run(self) -> None:
        while batch := self._next_batch():
            self._renew(batch)

    def _next_batch(self) -> list[HeldLease]:
        """Wait until a lease is due; with it go those that are nearly due. Empty: the thread is to end."""
        with self._woken:
            while not self._is_stopping:
                self._schedules = {held: each for held, each in self._schedules.items() if held.lost is None}
                now = elapsed()
                self._put_off(now)
                earliest = min((each.due_at for each in self._schedules.values()), default=now + NAP_MAX)
                if earliest <= now:
                    return [held for held, each in self._schedules.items() if _goes(held, each, now)][:BATCH_MAX]
                self._wakes_at = min(earliest, now + NAP_MAX)
                self._woken.wait(self._wakes_at - now)
            return []

    def _put_off(self, now: float) -> None:
        """Leave out renewals that a checkpoint or a report has made since: every accepted write renews its lease."""
        for held, each in self._schedules.items():
            if each.due_at <= now and not each.is_asked and not each.failures and not held.is_stale:
                each.due_at = max(each.due_at, held.heard_at + held.renew_every * (1 - EARLY_SHARE))

    def _renew(self, batch: list[HeldLease]) -> None:
        sent_at = elapsed()
        answers: list[Renewal | JobledgerError]
        try:
            answers = self._store.renew_many([held.fence for held in batch])
        except Exception as error:
            LOG.exception("renewals could not be sent and are repeated")
            answers = [StoreUnavailableError(type(error).__name__)] * len(batch)
        for held, answer in zip(batch, answers, strict=True):
            self._take(held, answer, sent_at)

    def _take(self, held: HeldLease, answer: Renewal | JobledgerError, sent_at: float) -> None:
        ids = {"job_id": held.fence.job_id, "generation": held.fence.generation}
        if isinstance(answer, Renewal):
            held.accept(answer, sent_at)
            self._again_at(held, sent_at + spread(held.renew_every), is_failure=False)
            return
        if isinstance(answer, RefusedError | HistoryCorruptError):
            LOG.log(logging.DEBUG if held.is_ending else logging.WARNING, "lease lost: %s", answer, extra=ids)
            self._lose(held, str(answer))
            return
        self._caution.note_failure()
        LOG.warning("a renewal failed and is repeated: %s", answer, extra=ids)
        self._again_at(held, elapsed(), is_failure=True)

    def _lose(self, held: HeldLease, reason: str) -> None:
        self.release([held])
        held.lose(reason)

    def _again_at(self, held: HeldLease, due_at: float, *, is_failure: bool) -> None:
        with self._woken:
            schedule = self._schedules.get(held)
            if schedule is None:
                return
            if is_failure:
                schedule.failures += 1
                due_at += pause_after(schedule.failures, held.renew_every)
            else:
                schedule.failures = 0
            schedule.due_at, schedule.is_asked = due_at, False


def _goes(held: HeldLease, schedule: _Schedule, now: float) -> bool:
    """Whether a lease is due, or nearly so and quiet."""
    if schedule.due_at <= now:
        return True
    is_near = schedule.due_at <= now + held.renew_every * EARLY_SHARE
    return is_near and now - held.heard_at >= held.renew_every * LATE_SHARE
