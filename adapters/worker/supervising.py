"""A supervisor of worker processes: it starts them, restarts those that end, and ends them in order."""

from __future__ import annotations

import logging
import os
import signal
import subprocess  # it starts this very program
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Final

from jobledger.adapters.worker.caution import spread
from jobledger.adapters.worker.clock import elapsed

LOG: Final = logging.getLogger("jobledger.worker")

LIFELINE: Final = "JOBLEDGER_LIFELINE"
"""Names the file descriptor at which a worker learns that its supervisor is gone."""

LOOK_EVERY: Final = 0.1
PAUSE_FIRST: Final = 0.25
PAUSE_MAX: Final = 60.0
"""In seconds: the wait before a worker that broke is started again, which doubles from the one to the other."""
STEADY_SECONDS: Final = 60.0
"""A worker that lived that long counts as having started well: the next wait is the first again."""
MISTAKEN: Final = 2
"""The exit code of a worker that cannot start as it is told to; starting it again would not help."""


@dataclass(slots=True)
class Place:
    """One of the processes that there are to be."""

    number: int
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    start_at: float = 0.0
    failures: int = 0


class Supervisor:
    """Keeps so many processes of one command running until it is asked to end them.

    A process that ends in order (exit code 0: it was recycled) is started again at once, one that broke after a wait
    that grows. A process whose supervisor is gone drains.
    """

    def __init__(self, command: Sequence[str], processes: int) -> None:
        """Supervise ``processes`` times ``command``."""
        self._command = list(command)
        self.places: Final = [Place(number) for number in range(1, processes + 1)]
        self._signals: SimpleQueue[int] = SimpleQueue()
        self._lifeline, self._other_end = os.pipe()
        self._codes: list[int] = []
        self._mistake: int | None = None

    def run(self) -> int:
        """Work until SIGTERM or SIGINT, or until a worker cannot start at all; each signal is handed on.

        Returns:
            The largest exit code of the workers' last ends: 0 when all of them ended in order.
        """

        def note(number: int, frame: FrameType | None) -> None:
            del frame
            self._signals.put(number)  # safe in a signal handler, unlike events and locks

        before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            self._work()
            self._end()
        finally:
            self._kill()
            for number, handler in before.items():
                signal.signal(number, handler)
            self.close()
        return max(self._codes, default=0) if self._mistake is None else self._mistake

    def close(self) -> None:
        """Give the lifeline back; workers that still run learn of it."""
        os.close(self._other_end)
        os.close(self._lifeline)

    def _work(self) -> None:
        while self._mistake is None:
            for place in self.places:
                self.look(place)
            try:
                self._signals.get(timeout=LOOK_EVERY)
            except Empty:
                continue
            return

    def look(self, place: Place) -> None:
        """Start what is to be started; notice what ended."""
        if place.process is not None:
            code = place.process.poll()
            if code is None:
                return
            place.process = None
            self._ended(place, code)
        if self._mistake is None and elapsed() >= place.start_at:
            place.started_at = elapsed()
            place.process = self._started()

    def _ended(self, place: Place, code: int) -> None:
        if code == MISTAKEN:
            LOG.error("worker %d cannot start (exit code 2); all are ended", place.number)
            self._mistake = code
            return
        if code == 0:
            place.failures, place.start_at = 0, elapsed()
            LOG.info("worker %d ended in order and is started again", place.number)
            return
        if elapsed() - place.started_at >= STEADY_SECONDS:
            place.failures = 0
        place.failures += 1
        pause = spread(min(PAUSE_FIRST * 2 ** min(place.failures - 1, 20), PAUSE_MAX))
        place.start_at = elapsed() + pause
        LOG.warning("worker %d ended with exit code %d and is started again in %.1f s", place.number, code, pause)

    def _started(self) -> subprocess.Popen[bytes] | None:
        # A session of its own: an interrupt from the terminal reaches the supervisor alone, which hands it on once.
        try:
            return subprocess.Popen(  # noqa: S603  # the command is this program's own
                self._command,
                env=os.environ | {LIFELINE: str(self._lifeline)},
                pass_fds=(self._lifeline,),
                start_new_session=True,
            )
        except OSError:
            LOG.exception("a worker could not be started")
            return None

    def _end(self) -> None:
        """Ask every process to drain, and once more for each further signal; wait until all have ended."""
        self._tell(signal.SIGTERM)
        running = [place.process for place in self.places if place.process is not None]
        while any(process.poll() is None for process in running):
            try:
                self._signals.get(timeout=LOOK_EVERY)
            except Empty:
                continue
            self._tell(signal.SIGTERM)
        # One that SIGTERM itself ended had not begun to work: it would have drained.
        self._codes = [abs(process.returncode) for process in running if process.returncode != -signal.SIGTERM]

    def _tell(self, number: signal.Signals) -> None:
        for place in self.places:
            if place.process is not None and place.process.poll() is None:
                place.process.send_signal(number)

    def _kill(self) -> None:
        """Leave nothing behind when the supervisor itself breaks."""
        for place in self.places:
            if place.process is not None and place.process.poll() is None:
                place.process.kill()
                place.process.wait()


def watch_lifeline(end: Callable[[], object]) -> None:
    """In a worker with a supervisor: call ``end`` when that is gone. Without one, do nothing."""
    number = os.environ.pop(LIFELINE, "")
    if not number.isdecimal():
        return
    lifeline = int(number)
    os.set_inheritable(lifeline, False)  # noqa: FBT003  # the library takes it by position

    def watch() -> None:
        try:
            while os.read(lifeline, 1):
                continue
        except OSError:
            return
        end()

    threading.Thread(target=watch, name="jobledger lifeline", daemon=True).start()
