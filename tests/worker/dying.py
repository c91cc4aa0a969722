"""The program of workers that die or stop at a chosen boundary: one process imports everything, and forks each of them.

It reads orders as lines of JSON, and answers each with the number of the process that carries it out.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from jobledger import JobContext, JobHost, JobStore, Policy, checkpoint, durable_job, restore
from jobledger.adapters.bootstrap import open_storage
from jobledger.adapters.storage import memory_session, sqlite_session
from jobledger.adapters.storage.entropy import SystemEntropy
from jobledger.adapters.worker.held import HeldLease
from jobledger.domain.decisions import working
from jobledger.domain.decisions.working import Effect
from jobledger.domain.ports import Reader, Session, Storage
from jobledger.domain.store import Setting

POLICIES: Final = {"rounds": Policy(lease=1)}
STEPS: Final = 3


@durable_job("rounds", policy="rounds")
class Rounds:
    """Units, effects and checkpoints in turn; a take-over may be told to wait at a gate before its second step."""

    def __init__(self) -> None:
        self.next = 0

    def run(self, job: JobContext, gate: str | None = None) -> int:
        """Do the steps."""
        while self.next < STEPS:
            if gate is not None and job.attempt > 1:
                wait_at(Path(gate), job)
            job.unit(f"unit {self.next}", lambda: {"by": job.attempt})
            job.stage(Effect(resource=f"tally {job.job_id}", value=self.next + 1, expected_version=self.next))
            self.next += 1
            job.checkpoint()
        return self.next

    @checkpoint
    def save(self) -> int:
        """The next step."""
        return self.next

    @restore
    def load(self, saved: int | None) -> None:
        """Go on, or reset."""
        self.next = saved or 0


def wait_at(gate: Path, job: JobContext) -> None:
    """Say that somebody waits, and wait until the gate is opened."""
    gate.with_suffix(".waiting").touch()
    while not gate.exists():
        job.boundary()
        threading.Event().wait(0.02)


class DyingStorage:
    """A storage whose process gets a signal as a chosen event is written: before its transaction commits, or after."""

    def __init__(self, inner: Storage, topic: str, occurrence: int, moment: str, number: int) -> None:
        self._inner, self._topic, self._left = inner, topic, occurrence
        self._moment, self._number = moment, number
        # Nobody else of this process is amid a transaction when it is stopped: its locks would stop everybody.
        self._turn = threading.RLock()

    def reading(self) -> AbstractContextManager[Reader]:
        """A view."""
        return self._inner.reading()

    @contextmanager
    def writing(self, patience: timedelta, connection: object | None = None) -> Generator[Session]:
        """A transaction that may be this process's last."""
        with self._turn, self._watched(patience, connection) as session:
            yield session

    @contextmanager
    def _watched(self, patience: timedelta, connection: object | None) -> Generator[Session]:
        is_met = False
        with self._inner.writing(patience, connection) as session:
            append = session.append

            def watched(appends: Any) -> Any:
                nonlocal is_met
                answer = append(appends)
                self._left -= sum(record.topic == self._topic for each in appends for record in each.records)
                is_met = self._left == 0
                return answer

            session.append = watched  # type: ignore[method-assign]  # looked at, and passed on
            yield session
            if is_met and self._moment == "before":
                self._strike()
        if is_met and self._moment == "after":
            self._strike()

    def wait(self, timeout: timedelta) -> None:
        """Wait as the store does."""
        self._inner.wait(timeout)

    def close(self) -> None:
        """Close the store."""
        self._inner.close()

    def _strike(self) -> None:
        self._left = -1
        os.kill(os.getpid(), self._number)
        threading.Event().wait(0.2)  # the turn is kept until every thread has been stopped


def unfence() -> None:
    """Break this process on purpose: it writes whatever it likes, under whichever generation is open."""
    working.__dict__["require_fence"] = lambda standing, *_, **__: standing.job.attempt
    HeldLease.lose = lambda *_: None  # type: ignore[method-assign]  # the fault
    for module in (sqlite_session, memory_session):
        module.__dict__["failed_precondition"] = lambda *_: None


def opened(url: str, storage: Storage | None = None) -> JobStore:
    """The store of a round."""
    return JobStore(Setting(storage or open_storage(url), SystemEntropy(), policies=POLICIES))


def work(order: dict[str, Any]) -> None:
    """Run one job of a queue of its own, and meet the fate that is ordered."""
    if order["is_unfenced"]:
        unfence()
    fate = (order["topic"], order["occurrence"], order["moment"], order["number"])
    with opened("", DyingStorage(open_storage(order["url"], migrate=False), *fate)) as store:
        host = JobHost(store, [Rounds], concurrency=1, queues=(order["queue"],))
        host.admit()
        for is_running in (False, True):
            while bool(host.health().running) is is_running:
                threading.Event().wait(0.02)
        host.drain(30)
        host.stop()


def main() -> None:
    """Fork a worker for each order."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who has ended is gone, and asked about by nobody
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(0)
            code = 1
            try:
                work(json.loads(line))
                code = 0
            finally:
                os._exit(code)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
