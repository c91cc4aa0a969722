"""The program of a child process: it runs one attempt after the other, and asks its host for all that is stored."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import itertools
import logging
import os
import runpy
import signal
import sys
import threading
from concurrent.futures import Future
from queue import SimpleQueue
from types import ModuleType
from typing import Any, Final

from jobledger.adapters.worker.core import AttemptCore
from jobledger.adapters.worker.endings import AttemptEnding, Fail, told
from jobledger.adapters.worker.handling import Handling
from jobledger.adapters.worker.messages import (
    TO_CHILD,
    TO_HOST,
    Answer,
    Ask,
    Began,
    Ended,
    Logged,
    MessageTooLongError,
    Pipes,
    Start,
    Wishes,
)
from jobledger.adapters.worker.places import Place
from jobledger.adapters.worker.registration import DurableJob, registered
from jobledger.adapters.worker.staging import Staged
from jobledger.adapters.worker.translating import effects_of, ended_of
from jobledger.adapters.worker.unwinding import LeaseLost
from jobledger.domain.answers import Progress, UnitReceipt
from jobledger.domain.bounds import ERROR_CHARACTERS_MAX
from jobledger.domain.errors import InvalidRequestError, JobledgerError
from jobledger.domain.values import Json

TICK: Final = 0.25
MAIN: Final = "__jobledger_main__"
"""The name under which a child loads its host's main script, whose guard therefore does not start another host."""


class TiedLease:
    """The attempt's lease, as far as its host told this process."""

    def __init__(self, wishes: Wishes) -> None:
        """Know what the host knew at the start."""
        self.wishes = wishes

    @property
    def is_hold_requested(self) -> bool:
        """Whether an operator's hold is in force."""
        return self.wishes.hold

    @property
    def is_cancel_requested(self) -> bool:
        """Whether a cancel was requested."""
        return self.wishes.cancel

    @property
    def is_draining(self) -> bool:
        """Whether the host drains."""
        return self.wishes.drain

    @property
    def lost(self) -> str | None:
        """Why the lease was lost; ``None`` while it is held."""
        return self.wishes.lost

    @property
    def is_stale(self) -> bool:
        """Only the host knows: a boundary asks it."""
        return True

    def require(self) -> None:
        """Require that the lease was not lost.

        Raises:
            LeaseLost: it was.
        """
        if self.wishes.lost is not None:
            raise LeaseLost(self.wishes.lost)


class AskedWrites:
    """The writes of an attempt, each asked of the host, which alone knows the fence."""

    def __init__(self, pipes: Pipes[Any, Any], wishes: Wishes) -> None:
        """Ask over these pipes; answers come through ``take``, from the thread that hears."""
        self.held = TiedLease(wishes)
        self._pipes = pipes
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[Json]] = {}

    def take(self, message: Answer | Wishes) -> None:
        """Take an answer, or what is asked of the attempt."""
        if isinstance(message, Wishes):
            self.held.wishes = message
            return
        self.held.wishes = message.wishes
        waiting = self._waiting.pop(message.number, None)
        if waiting is None:
            return
        if message.refusal is not None:
            waiting.set_exception(message.refusal.raised())
        else:
            waiting.set_result(message.value)

    def renew(self) -> None:
        """Learn what operators ask; the host renews if nothing was heard for long."""
        self._ask("renew")

    def checkpoint(self, state: Json, progress: Progress | None, staged: Staged) -> None:
        """Save application state, with progress and effects.

        Raises:
            InvalidRequestError: there are statements to run inside; no connection reaches this process.
        """
        self._ask("checkpoint", value=state, progress=progress, effects=effects_of(staged))

    def unit(self, name: str) -> UnitReceipt | None:
        """The receipt of a unit that was recorded."""
        found = self._ask("unit", name=name)
        return None if found is None else UnitReceipt(name, **found)

    def record_unit(self, name: str, receipt: Json) -> None:
        """Record that a unit was done."""
        self._ask("record_unit", name=name, value=receipt)

    def report_progress(self, progress: Progress) -> None:
        """Report progress once."""
        with contextlib.suppress(JobledgerError, LeaseLost):
            self._ask("report_progress", progress=progress)

    def _ask(self, call: Any, **given: Any) -> Json:
        number = next(self._numbers)
        answer: Future[Json] = Future()
        self._waiting[number] = answer
        try:
            self._pipes.say(Ask(number, call, **given))
        except MessageTooLongError as error:
            raise InvalidRequestError(str(call), str(error)) from None
        except OSError as error:
            reason = "the host is gone"
            raise LeaseLost(reason) from error
        value = answer.result()
        self.held.require()
        return value


class Child:
    """This process: its main thread runs handlers, another one hears what the host says."""

    def __init__(self, pipes: Pipes[Any, Any]) -> None:
        """Serve over these pipes."""
        self._pipes = pipes
        self._starts: SimpleQueue[Start] = SimpleQueue()
        self._writes: AskedWrites | None = None

    def serve(self) -> None:
        """Run what the host starts, until it is gone."""
        threading.Thread(target=self._hear, name="jobledger host", daemon=True).start()
        while True:
            start = self._starts.get()
            ended = self._run(start)
            try:
                self._pipes.say(ended)
            except MessageTooLongError as error:
                self._pipes.say(Ended("fail", is_idle=ended.is_idle, text=f"result_too_large: {error}"))
            if not ended.is_idle:
                # Processes that the handler left behind keep its slot: the host waits until the last of them is gone.
                os._exit(0)

    def _hear(self) -> None:
        while (message := self._pipes.listen()) is not None:
            if isinstance(message, Start):
                self._writes = AskedWrites(self._pipes, message.wishes)
                self._starts.put(message)
            elif self._writes is not None:
                self._writes.take(message)
        # The host is gone: nothing that runs here may be recorded any more, nor what it started.
        os.killpg(0, signal.SIGKILL)

    def _run(self, start: Start) -> Ended:
        writes = self._writes
        if writes is None:
            msg = "an attempt was started before it was heard of"
            raise LookupError(msg)
        core = AttemptCore(start.facts, writes, is_draining=lambda: writes.held.is_draining)
        staged, progress = Staged(), None
        try:
            ending = self._ending(start, core)
            staged, progress = core.close()
        except BaseException as error:  # noqa: BLE001  # an attempt's end, whatever it is, ends no child
            ending = Fail(told(error))
        limit = start.facts.result_bytes_max
        return ended_of(ending, staged, progress, is_idle=not has_children(), result_bytes_max=limit)

    def _ending(self, start: Start, core: AttemptCore) -> AttemptEnding:
        try:
            job = found(start.place)
        except BaseException as error:  # noqa: BLE001  # a module may raise whatever it likes when it is loaded
            return Fail(f"the handler could not be loaded in a child process: {told(error)}")
        self._pipes.say(Began())
        core.begin()
        handling = Handling(job, core, None)
        keeper = _Keeper(core, handling)
        try:
            return asyncio.run(handling.run_async()) if job.is_async else handling.run()
        finally:
            keeper.stop()


class _Keeper:
    """Sends the progress that a handler said, while it says nothing further, and wakes it when its attempt is over."""

    def __init__(self, core: AttemptCore, handling: Handling) -> None:
        self._core, self._handling, self._stopped = core, handling, threading.Event()
        threading.Thread(target=self._run, name="jobledger housekeeping", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(TICK):
            if self._core.lost is not None or self._core.is_overdue:
                self._handling.interrupt()
            self._core.flush_progress()


def found(place: Place) -> DurableJob:
    """The handler at a place, its module imported; a main script, or a file off the path, is loaded as a module.

    Raises:
        ImportError, AttributeError: it is not there.
        InvalidHookError: what is there is no handler.
    """
    target: Any = _module(place)
    for name in place.name.split("."):
        target = getattr(target, name)
    return registered(target)


def _module(place: Place) -> ModuleType:
    if place.module in sys.modules and place.module != "__main__":
        return sys.modules[place.module]
    if place.module == "__main__":
        if MAIN not in sys.modules:
            module = ModuleType(MAIN)
            sys.modules[MAIN] = module
            vars(module).update(runpy.run_path(place.file or "", run_name=MAIN))
        return sys.modules[MAIN]
    try:
        return importlib.import_module(place.module)
    except ModuleNotFoundError:
        spec = importlib.util.spec_from_file_location(place.module, place.file) if place.file else None
        if spec is None or spec.loader is None:
            raise
    module = importlib.util.module_from_spec(spec)
    sys.modules[place.module] = module
    spec.loader.exec_module(module)
    return module


def has_children() -> bool:
    """Whether this process has child processes, also ended ones that nobody has asked about."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


class _ToHost(logging.Handler):
    """Hands log records over to the host, which knows where they go."""

    def __init__(self, pipes: Pipes[Any, Any]) -> None:
        super().__init__()
        self._pipes = pipes
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record; one that cannot be sent is dropped."""
        try:
            self._pipes.say(Logged(record.name, record.levelno, self.format(record)[:ERROR_CHARACTERS_MAX]))
        except Exception:  # noqa: BLE001  # logging never breaks what it tells of
            self.handleError(record)


def main(hear: int, speak: int, level: int) -> None:
    """Serve a host over two file descriptors; log from ``level`` on."""
    # An interrupt from the terminal is the host's to handle: it drains.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for end in (hear, speak):
        os.set_inheritable(end, False)  # noqa: FBT003  # the library takes it by position
    pipes: Pipes[Any, Any] = Pipes(hear, speak, said=TO_HOST, heard=TO_CHILD)
    logging.basicConfig(level=level, handlers=[_ToHost(pipes)])
    Child(pipes).serve()
