"""The threads and the event loop in which a host runs handlers; none of them keeps a process alive."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Executor, Future
from typing import Any, Final, ParamSpec, TypeVar

LOG: Final = logging.getLogger("jobledger.worker")

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


class SlotThreads(Executor):
    """At most ``count`` threads, made as needed; unlike the library's pool, one that hangs lets the process end.

    A thread that was woken and finds more work than its own wakes the next one. So calls that wait get a thread each,
    and those that end at once are run by the few threads that are awake.
    """

    def __init__(self, count: int, name: str) -> None:
        """Name the threads for people."""
        self._count, self._name = count, name
        self._lock = threading.Lock()
        self._work: deque[Callable[[], object]] = deque()
        self._idle: list[threading.Lock] = []
        self._made = 0
        self._is_waking = False
        """Whether a thread was woken, or made, that has not looked for work since."""
        self._is_over = False

    def allow(self, count: int) -> None:
        """Have at most that many threads from now on; those that there are stay."""
        with self._lock:
            self._count = count

    def run(self, calls: Iterable[Callable[[], object]]) -> None:
        """Run calls, which never raise, each as soon as a thread is free."""
        with self._lock:
            self._work.extend(calls)
            wake = self._next()
        wake()

    def submit(self, fn: Callable[Given, Answer], /, *args: Given.args, **kwargs: Given.kwargs) -> Future[Answer]:
        """Run a call as soon as a thread is free."""
        future: Future[Answer] = Future()
        self.run([lambda: _fulfil(future, lambda: fn(*args, **kwargs))])
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002  # the library's signature
        """Let the threads end when nothing waits for one; never waits for them."""
        with self._lock:
            self._is_over = True
            idle, self._idle = self._idle, []
        for each in idle:
            each.release()

    def _next(self) -> Callable[[], object]:
        """How to get work that waits a thread, where it needs one; called under the lock."""
        if not self._work or self._is_waking or not (self._idle or self._made < self._count):
            return _nothing
        self._is_waking = True
        if self._idle:
            return self._idle.pop().release
        self._made += 1
        return self._start

    def _start(self) -> None:
        try:
            threading.Thread(target=self._serve, name=f"{self._name} slot {self._made}", daemon=True).start()
        except RuntimeError:
            LOG.exception("no further thread could be started; what waits is run by those that there are")
            with self._lock:
                self._made -= 1
                self._is_waking = False

    def _serve(self) -> None:
        woken = threading.Lock()
        woken.acquire()
        is_fresh = True
        while True:
            with self._lock:
                self._is_waking &= not is_fresh
                call, wake = (self._work.popleft(), self._next()) if self._work else (None, _nothing)
                if call is None and self._is_over:
                    return
                if call is None:
                    self._idle.append(woken)
            is_fresh = call is None
            if call is None:
                woken.acquire()
            else:
                wake()
                call()
            del call


def _fulfil(future: Future[Answer], call: Callable[[], Answer]) -> None:
    """Run what a future waits for."""
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001  # it belongs to whoever waits for the future
            future.set_exception(error)


def _nothing() -> None:
    """Nobody has to be woken."""


class LoopThread:
    """One event loop in a thread of its own, for async handlers."""

    def __init__(self, name: str) -> None:
        """Name the thread for people; start it soon, for the loop is open from now on."""
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name=f"{name} loop", daemon=True)

    def start(self) -> None:
        """Begin to run."""
        self._thread.start()

    def spawn(self, coroutines: Sequence[Coroutine[Any, Any, None]]) -> None:
        """Run coroutines as tasks that this loop holds on to: a loop by itself forgets tasks that nobody keeps."""
        self._loop.call_soon_threadsafe(self._hold, coroutines)

    def stop(self, timeout: float) -> None:
        """Cancel what still runs, wait at most ``timeout`` seconds for it, and end the loop if it all ended."""
        self._loop.call_soon_threadsafe(self._wind_up)
        self._thread.join(timeout)
        if not self._thread.is_alive():
            self._loop.close()

    def _hold(self, coroutines: Sequence[Coroutine[Any, Any, None]]) -> None:
        for coroutine in coroutines:
            task = self._loop.create_task(coroutine)
            self._tasks.add(task)
            task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._is_stopping and not self._tasks:
            self._loop.stop()

    def _wind_up(self) -> None:
        self._is_stopping = True
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        if not self._tasks:
            self._loop.stop()

    def _run(self) -> None:
        while True:
            try:
                self._loop.run_forever()
            except BaseException:
                # A task that a handler started may raise SystemExit, which asyncio lets out of the loop.
                LOG.exception("a task of a handler broke out of the event loop, which goes on")
            if self._is_stopping and not self._tasks:
                break
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
