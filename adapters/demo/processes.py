"""The worker processes of the demonstration: started, listened to, killed, and never left behind."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator

STOP_SECONDS: Final = 5.0
TAIL_BYTES: Final = 400


class Worker:
    """One worker process with a name; what it writes to its standard output is listened to."""

    def __init__(self, url: str, name: str, *, stops_in_batch: int | None = None) -> None:
        """Start it, in a session of its own, so that a Ctrl-C reaches the demonstration only."""
        self.name = name
        self._complaints = TemporaryFile()  # noqa: SIM115  # it lives as long as the worker
        command = [sys.executable, "-m", "jobledger.adapters.demo.working", url, name]
        self._process = subprocess.Popen(  # noqa: S603  # this very Python, with names made here
            [*command, *([] if stops_in_batch is None else [str(stops_in_batch)])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            start_new_session=True,
        )
        self._lines: SimpleQueue[str] = SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def said(self, seconds: float) -> str | None:
        """The next line that it wrote, waiting at most so long."""
        try:
            return self._lines.get(timeout=seconds)
        except Empty:
            return None

    def kill(self) -> int:
        """Kill it with SIGKILL, wait until it is gone, and answer its exit status (negative: the signal's number)."""
        self._process.kill()
        status = self._process.wait()
        self._close()
        return status

    def stop(self) -> None:
        """End it in order with SIGTERM; one that does not go is killed."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._close()

    def complaint(self) -> str:
        """The end of what it wrote to its error output."""
        self._complaints.seek(0)
        return self._complaints.read().decode("utf-8", "replace")[-TAIL_BYTES:].strip()

    def _listen(self) -> None:
        stream = self._process.stdout
        if stream is not None:
            with stream:
                for line in stream:
                    self._lines.put(line.strip())

    def _close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()


@contextmanager
def worker(url: str, name: str, *, stops_in_batch: int | None = None) -> Generator[Worker, None, None]:
    """A worker process that is gone when the block ends, however it ends."""
    started = Worker(url, name, stops_in_batch=stops_in_batch)
    try:
        yield started
    except BaseException:
        started.kill()
        raise
    finally:
        if not started.has_ended:
            started.stop()
