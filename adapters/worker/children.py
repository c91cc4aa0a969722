"""Child processes for handlers that compute: spawned, spoken to in JSON, replaced when broken, gone with the host."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess  # the child is this very program, started anew
import sys
import threading
from queue import SimpleQueue
from typing import Any, Final

from jobledger.adapters.worker.clock import elapsed
from jobledger.adapters.worker.messages import TO_CHILD, TO_HOST, Pipes

LOG: Final = logging.getLogger("jobledger.worker")

PROGRAM: Final = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from jobledger.adapters.worker.child import main; main(*map(int, sys.argv[2:]))"
)
END_SECONDS: Final = 5.0
"""How long the end of a child that was killed is waited for."""
EXIT_SECONDS: Final = 1.0
"""How long a child that spoke no more may take to be gone by itself; then it is killed."""
LOOK_EVERY: Final = 0.05


class Child:
    """One child process, in a session of its own, and the pipes to it; it runs one attempt at a time."""

    def __init__(self) -> None:
        """Start it; the interpreter is new, so nothing of this process is inherited but its environment and folder.

        Raises:
            OSError: no process could be started.
        """
        hear, childs_speak = os.pipe()
        childs_hear, speak = os.pipe()
        level = logging.getLogger().getEffectiveLevel()
        path = [each for each in sys.path if isinstance(each, str)]
        try:
            self._process = subprocess.Popen(  # noqa: S603  # the arguments are our own
                [sys.executable, "-c", PROGRAM, json.dumps(path), str(childs_hear), str(childs_speak), str(level)],
                pass_fds=(childs_hear, childs_speak),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        except BaseException:
            os.close(hear)
            os.close(speak)
            raise
        finally:
            os.close(childs_hear)
            os.close(childs_speak)
        self._ending = threading.Lock()
        self._pipes: Pipes[Any, Any] = Pipes(hear, speak, said=TO_CHILD, heard=TO_HOST)
        # A child that holds its interpreter reads nothing: then this thread waits for it, and none of the host's.
        self._to_say: SimpleQueue[Any] = SimpleQueue()
        threading.Thread(target=self._speak, name=f"jobledger child {self.pid}", daemon=True).start()

    @property
    def pid(self) -> int:
        """Its process, which leads its group."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def say(self, message: Any) -> None:
        """Send a message soon, and wait for nothing; it is dropped where the child is gone."""
        self._to_say.put(message)

    def listen(self) -> Any:
        """Wait for the next message; ``None`` when the child is gone."""
        return self._pipes.listen()

    def has_exited(self) -> bool:
        """Whether its process has ended, without waiting for it: its number stays its own."""
        if self._process.returncode is not None:
            return True
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def kill(self) -> None:
        """End it and all that it started, now."""
        with self._ending:
            self._kill_group()

    def end(self) -> str:
        """Kill what is left of it and of what it started, wait until it is gone, and say how it ended."""
        with self._ending:
            was_gone = self.has_exited()
            if not was_gone:  # it closed its pipes, or is on its way out: a moment later it can say why
                was_gone = self._exits_within(EXIT_SECONDS)
            self._kill_group()
            try:
                code: int | None = self._process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                code = None
        self.close()
        return _told(code) if was_gone else "its process spoke no more, and was ended"

    def leaves_within(self, seconds: float) -> bool:
        """Wait for a child that leaves by itself, and for every process of its group; answers whether all ended."""
        until, pause = elapsed() + seconds, threading.Event()
        while self._process.poll() is None or _is_group(self.pid):
            if elapsed() >= until:
                return False
            pause.wait(LOOK_EVERY)
        return True

    def kill_left_behind(self) -> None:
        """Kill what is left of its group, of which the child itself is gone."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _exits_within(self, seconds: float) -> bool:
        until, pause = elapsed() + seconds, threading.Event()
        while not self.has_exited():
            if elapsed() >= until:
                return False
            pause.wait(LOOK_EVERY)
        return True

    def _kill_group(self) -> None:
        # While it was not waited for, its number is its own, and no other group can be met.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Give the pipes back, and the thread that speaks."""
        self._to_say.put(None)

    def _speak(self) -> None:
        while (message := self._to_say.get()) is not None:
            try:
                self._pipes.say(message)
            except OSError:
                continue
        self._pipes.close()


def _is_group(number: int) -> bool:
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _told(code: int | None) -> str:
    if code is None:
        return "its process could not be ended"
    if code >= 0:
        return f"its process ended with exit code {code}, in the middle of the attempt"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"its process was ended by {name}"


class Children:
    """The children of a host: idle ones wait for the next attempt."""

    def __init__(self) -> None:
        """None yet."""
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._all: set[Child] = set()
        self._is_over = False

    def take(self) -> Child:
        """A child that waits for work, or a new one.

        Raises:
            OSError: no process could be started, or the host is stopping.
        """
        with self._lock:
            while self._idle:
                child = self._idle.pop()
                if child.is_alive:
                    return child
                self._all.discard(child)
                child.close()
            if self._is_over:
                reason = "the host is stopping"
                raise OSError(reason)
        child = Child()
        with self._lock:
            self._all.add(child)
        return child

    def give_back(self, child: Child) -> None:
        """Keep a child for the next attempt."""
        with self._lock:
            if not self._is_over:
                self._idle.append(child)
                return
        self.drop(child)

    def drop(self, child: Child) -> str:
        """End a child, and say how it ended."""
        with self._lock:
            self._all.discard(child)
        return child.end()

    def forget(self, child: Child) -> None:
        """A child has ended by itself, with all that it started."""
        with self._lock:
            self._all.discard(child)
        child.close()

    def end_all(self) -> None:
        """End every child; those whose handlers still run are killed."""
        with self._lock:
            self._is_over = True
            idle, self._idle = self._idle, []
            busy = self._all - set(idle)
        for child in busy:
            child.kill()
        for child in idle:
            self.drop(child)
