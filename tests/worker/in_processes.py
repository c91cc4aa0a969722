"""Handlers that run in child processes, which find them in this module; it imports nothing but the package."""

from __future__ import annotations

import ctypes
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from jobledger import (
    AsyncJobContext,
    Defer,
    Depends,
    JobCancelled,
    JobContext,
    Partial,
    Retry,
    Unavailable,
    checkpoint,
    durable_job,
    progress,
    restore,
)
from jobledger.domain.decisions.working import Effect
from jobledger.domain.errors import RefusedError


def makes_a_number() -> Iterator[int]:
    """What a handler in a process depends on: the number of that process."""
    yield os.getpid()


@durable_job("depends", executor="process", policy="steady")
def depends(number: Annotated[int, Depends(makes_a_number)]) -> bool:
    """Whether its provider was called in its own process."""
    return number == os.getpid()


def burn(seconds: float) -> int:
    """Compute without ever letting the interpreter go: each sum is one call of C, of a second or so."""
    calls, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(50_000_000))
        calls += 1
    return calls


@durable_job("counted", executor="process")
class Counted:
    """A class with hooks; its first attempt crashes after the third batch."""

    def __init__(self) -> None:
        self.next_batch = 0

    def run(self, job: JobContext, batches: int, crash_after: int = 0) -> list[int]:
        """Count batches, and die where it was asked to."""
        while self.next_batch < batches:
            self.next_batch += 1
            job.checkpoint()
            if job.attempt == 1 and self.next_batch == crash_after:
                os._exit(7)
        return [job.attempt, self.next_batch, os.getpid()]

    @checkpoint
    def save(self) -> int:
        """The next batch."""
        return self.next_batch

    @restore
    def load(self, saved: int | None) -> None:
        """Go on, or reset."""
        self.next_batch = saved or 0

    @progress
    def done(self) -> int:
        """How far it is."""
        return self.next_batch


@durable_job("ends", executor="process")
def ends(job: JobContext, how: str) -> Any:
    """End in the way that is asked for."""
    if how == "value":
        return {"pid": os.getpid(), "kind": job.kind, "worker": job.worker}
    return _returns(how) if how in RETURNED else _raises(how)


RETURNED = ("partial", "unavailable", "defer", "unstorable", "generator", "huge")


def _returns(how: str) -> Any:
    returned: dict[str, Any] = {
        "partial": Partial([1], "half of it"),
        "unavailable": Unavailable("nothing there"),
        "defer": Defer(3600, {"at": 4}),
        "unstorable": object(),
        "generator": (number for number in range(3)),
        "huge": "x" * (2 * 1024 * 1024),
    }
    return returned[how]


def _raises(how: str) -> Any:
    if how == "retry":
        raise Retry(3600) from OSError("the disk")
    if how == "error":
        reason = "it broke"
        raise ValueError(reason)
    if how == "exit":
        sys.exit(3)
    if how == "unspeakable":
        raise UnspeakableError
    return _breaks(how)


def _breaks(how: str) -> Any:
    """Ways in which a whole process goes."""
    if how == "os._exit":
        os._exit(3)
    if how == "segfault":
        ctypes.string_at(0)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "pipes":
        os.closerange(3, 100)
        threading.Event().wait(60)
    if how == "memory":
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        return len(bytearray(1 << 40))
    raise LookupError(how)


class UnspeakableError(Exception):
    """Its text cannot be made."""

    def __str__(self) -> str:
        raise ZeroDivisionError


@durable_job("holds", executor="process")
def holds(job: JobContext, seconds: float) -> int:
    """Hold this process's interpreter for longer than a lease."""
    assert burn(seconds)
    return job.attempt


@durable_job("cooperates", executor="process")
def cooperates(job: JobContext, signs: str) -> str:
    """Meet boundaries until it is stopped, and leave a sign of its cleanup."""
    place = Path(signs)
    job.checkpoint({"began": True})
    (place / "began").touch()
    try:
        while True:
            job.boundary()
            threading.Event().wait(0.01)
    except JobCancelled:
        (place / "cancelled").touch()
        raise
    finally:
        (place / "cleaned").touch()


@durable_job("hangs", executor="process")
def hangs(signs: str) -> None:
    """Swallow everything and never end; its own child process neither."""
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    (Path(signs) / "pids").write_text(f"{os.getpid()} {child.pid}")
    while True:
        try:
            threading.Event().wait(60)
        except BaseException:
            logging.getLogger("deaf").exception("not now")


@durable_job("leaves", executor="process")
def leaves(signs: str, seconds: float) -> str:
    """Return while a process that it started still runs."""
    child = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({seconds})"])
    (Path(signs) / "pids").write_text(str(child.pid))
    return "done"


@durable_job("uses", executor="process")
def uses(job: JobContext) -> Any:
    """Use every method of the context."""
    log = logging.getLogger("tests.uses")
    log.warning("hello from the child")
    first = job.unit("a", lambda: 1)
    again = job.unit("a", lambda: 2)
    job.progress(1, 4, "a quarter")
    job.stage(Effect(resource="r", value=[1], expected_version=0))
    job.checkpoint({"n": 1})
    job.progress(3, 4)
    job.stage(Effect(resource="r", value=[2], expected_version=1))
    return [first, again, job.state]


@durable_job("insides", executor="process")
def insides(job: JobContext) -> None:
    """Ask for what only a thread can have."""
    job.inside(lambda connection: connection)
    job.checkpoint(1)


@durable_job("conflicts", executor="process")
def conflicts(job: JobContext) -> Any:
    """Meet the store's refusals as they are in a thread."""
    job.stage(Effect(resource="r", value=1, expected_version=5))
    try:
        job.checkpoint(1)
    except RefusedError as error:
        return [type(error).__name__, str(error)]
    return None


@durable_job("awaits", executor="process")
async def awaits(job: AsyncJobContext, n: int) -> int:
    """An async handler in a process."""
    await job.checkpoint({"n": n})
    return n + 1


@durable_job("speaks", executor="process")
def speaks(job: JobContext, words: int) -> int:
    """Say very much."""
    for number in range(words):
        job.progress(number, words)
    return words
