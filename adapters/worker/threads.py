"""The threads and the event loop in which a host runs handlers; none of them keeps a process alive."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, Final, ParamSpec, TypeVar

LOG: Final = logging.getLogger("jobledger.worker")

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
_Item = tuple["Future[Any]", Callable[[], Any]]


class SlotThreads(Executor):
    """At most ``count`` threads, made as needed; unlike the library's pool, one that hangs lets the process end."""

    def __init__(self, count: int, name: str) -> None:
        """Name the threads for people."""
        self._count, self._name = count, name
        self._work: SimpleQueue[_Item | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._made = 0

    def allow(self, count: int) -> None:
        """Have at most that many threads from now on; those that there are stay."""
        with self._lock:
            self._count = count

    def submit(self, fn: Callable[Given, Answer], /, *args: Given.args, **kwargs: Given.kwargs) -> Future[Answer]:
        """Run a call as soon as a thread is free."""
        future: Future[Answer] = Future()
        self._work.put((future, lambda: fn(*args, **kwargs)))
        with self._lock:
            if not self._idle.acquire(blocking=False) and self._made < self._count:
                self._made += 1
                threading.Thread(target=self._serve, name=f"{self._name} slot {self._made}", daemon=True).start()
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002  # the library's signature
        """Let the threads end when they are free; never waits for them."""
        with self._lock:
            for _ in range(self._made):
                self._work.put(None)

    def _serve(self) -> None:
        while (item := self._work.get()) is not None:
            future, call = item
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:  # noqa: BLE001  # it belongs to whoever waits for the future
                    future.set_exception(error)
            del item, future, call
            self._idle.release()


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

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as a task that this loop holds on to: a loop by itself forgets tasks that nobody keeps."""
        self._loop.call_soon_threadsafe(self._hold, coroutine)

    def stop(self, timeout: float) -> None:
        """Cancel what still runs, wait at most ``timeout`` seconds for it, and end the loop if it all ended."""
        self._loop.call_soon_threadsafe(self._wind_up)
        self._thread.join(timeout)
        if not self._thread.is_alive():
            self._loop.close()

    def _hold(self, coroutine: Coroutine[Any, Any, None]) -> None:
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
