"""The attempts that a host has in hand: how many slots are free, who still runs, and how each one ended."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jobledger.adapters.worker.attempt import Attempt
from jobledger.adapters.worker.capacity import Limits, Share
from jobledger.adapters.worker.clock import elapsed
from jobledger.adapters.worker.publishing import How, Published


class DrainedAttempt(NamedTuple):
    """One attempt in a drain report: the job, the generation, and why it stands where it does."""

    job_id: str
    generation: int
    why: str


@dataclass(frozen=True, slots=True)
class DrainReport:
    """What became of the attempts that ran when a drain began.

    ``completed``: the job ended (why: its state). ``parked``: it was given back (why: ``parked``, ``attempt_failed``,
    ``deferred``). ``left``: its handler had not ended by the deadline, or its lease was lost; the lease expires.
    """

    completed: tuple[DrainedAttempt, ...] = ()
    parked: tuple[DrainedAttempt, ...] = ()
    left: tuple[DrainedAttempt, ...] = ()


class Running:
    """Counts slots: one is taken from before a claim until the handler has physically ended.

    Then its end is published while the slot takes the next job, so that handlers and the store work side by side: a
    host holds at most twice as many leases as it has slots. With a single slot an end is awaited first: whoever asks
    for one job after the other means that.
    """

    def __init__(self, limits: Limits, max_jobs: int | None = None) -> None:
        """Have as many slots as the limits say, and start at most ``max_jobs`` attempts in all."""
        self._changed = threading.Condition()
        self._limits = limits
        self._jobs_left = max_jobs
        self._started_at = elapsed()
        self._reserved = 0
        self._attempts: dict[Attempt, None] = {}
        self._unwound: set[Attempt] = set()
        self.ends = 0
        """How many attempts have ended so far."""
        self._ended: list[tuple[How, DrainedAttempt]] | None = None

    def reserve(self, timeout: float) -> int:
        """Take every free slot before a claim, and answer how many; waits at most ``timeout`` seconds for one."""
        with self._changed:
            self._changed.wait_for(lambda: self._free > 0, timeout)
            taken = max(0, self._free)
            self._reserved += taken
            return taken

    @property
    def limits(self) -> Limits:
        """Those in force."""
        return self._limits

    def change(self, limits: Limits) -> None:
        """Put other limits in force: what runs goes on, what is claimed next keeps to them."""
        with self._changed:
            self._limits = limits
            self._changed.notify_all()

    def room(self, share: Share) -> int:
        """How many jobs of these queues and kinds may start beside those that run or end; slots aside."""
        limits = self._limits
        if not (limits.by_queue or limits.by_kind):
            return limits.concurrency
        with self._changed:
            return self._limits.room(share, [(each.lease.status.queue, each.job.kind) for each in self._attempts])

    def settle(self, reserved: int) -> None:
        """Give back what was reserved, after its attempts were added."""
        with self._changed:
            self._reserved -= reserved
            self._changed.notify_all()

    def add(self, attempts: Sequence[Attempt]) -> None:
        """Attempts begin."""
        with self._changed:
            self._attempts.update(dict.fromkeys(attempts))
            self._started_at = elapsed()
            if self._jobs_left is not None:
                self._jobs_left -= len(attempts)

    def unwound(self, attempts: Sequence[Attempt]) -> None:
        """These attempts' handlers have physically ended, and their slots are free; their ends are being published."""
        with self._changed:
            self._unwound.update(attempts)
            self._changed.notify_all()

    def remove(self, ended: Sequence[tuple[Attempt, Published]]) -> None:
        """These attempts' ends were published."""
        with self._changed:
            for attempt, published in ended:
                self._attempts.pop(attempt, None)
                self._unwound.discard(attempt)
                if self._ended is not None:
                    self._ended.append((published.how, _drained(attempt, published.why)))
            self.ends += len(ended)
            self._changed.notify_all()

    def attempts(self) -> list[Attempt]:
        """Those whose handlers run, or whose ends are being published."""
        with self._changed:
            return list(self._attempts)

    def wake(self) -> None:
        """Let those who wait look again."""
        with self._changed:
            self._changed.notify_all()

    def record_ends(self) -> None:
        """From now on, remember how attempts end."""
        with self._changed:
            self._ended = self._ended or []

    def wait_until_idle(self, until: float) -> bool:
        """Wait until nothing runs and no claim is under way, at most until a moment of ``elapsed``; answers whether."""
        with self._changed:
            while self._attempts or self._reserved:
                left = until - elapsed()
                if left <= 0:
                    return False
                self._changed.wait(min(left, 1.0))
            return True

    def report(self) -> DrainReport:
        """How the attempts ended since ends are remembered; those that still run were left."""
        with self._changed:
            ended = list(self._ended or [])
            ended += [("left", _drained(each, _why_left(each))) for each in self._attempts]
        return DrainReport(
            completed=tuple(each for how, each in ended if how == "completed"),
            parked=tuple(each for how, each in ended if how == "parked"),
            left=tuple(each for how, each in ended if how == "left"),
        )

    def has_done_all(self, patience: float) -> bool:
        """Whether as many attempts as there were to be have started, and ended or run for ``patience`` seconds."""
        with self._changed:
            has_started_all = self._jobs_left is not None and self._jobs_left <= 0
            return has_started_all and (not self._attempts or elapsed() - self._started_at >= patience)

    @property
    def free(self) -> int:
        """How many slots are free."""
        with self._changed:
            return max(0, self._free)

    @property
    def _free(self) -> int:
        slots, held = self._limits.concurrency, len(self._attempts)
        held_max = slots if slots == 1 else 2 * slots
        free = min(slots - (held - len(self._unwound)), held_max - held) - self._reserved
        return free if self._jobs_left is None else min(free, self._jobs_left - self._reserved)


def _why_left(attempt: Attempt) -> str:
    published = attempt.published
    why = "its handler had not ended by the deadline"
    return why if published is None else f"{why}, though its attempt had: {published.why}"


def _drained(attempt: Attempt, why: str) -> DrainedAttempt:
    return DrainedAttempt(attempt.lease.job_id, attempt.lease.generation, why)
