"""Group commit: writes of many attempts share transactions, and each is answered for itself."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final, TypeVar

from jobledger.domain.errors import JobledgerError, OutcomeUnknownError
from jobledger.domain.store.executing import Call, Command, execute, execute_one

if TYPE_CHECKING:
    from jobledger.domain.ports import Storage

Answer = TypeVar("Answer")

TOGETHER_MAX: Final = 100
"""How many writes share a transaction at most: beyond it those that wait gain little, and large states cost memory."""


class _Waiting:
    """One write that waits for its answer, or for its turn to carry out a batch."""

    __slots__ = ("answer", "command", "is_answered", "woken")

    def __init__(self, command: Command[Any]) -> None:
        self.command = command
        self.woken = threading.Lock()
        self.woken.acquire()
        self.is_answered = False
        self.answer: Any = None

    def tell(self, answer: Any) -> None:
        self.answer, self.is_answered = answer, True


class GroupCommit:
    """Runs the single commands of one store so that those that come while one is under way go together next.

    A lone command goes at once, in its caller's thread; nothing ever waits for company. While a batch is under way,
    those that come gather, and the first of them carries them out when it is over: so a command waits for one batch, or
    for as many more as ``TOGETHER_MAX`` makes of those before it. Commands with a caller's own transaction go alone.
    """

    def __init__(self) -> None:
        """Gather from any number of threads."""
        self._lock = threading.Lock()
        self._waiting: deque[_Waiting] = deque()
        self._is_busy = False

    def __call__(self, storage: Storage, command: Command[Answer], call: Call) -> Answer:
        """Run a command with those of others, and answer, or raise its refusal."""
        if call.inside is not None or call.connection is not None:
            return execute_one(storage, command, call)
        mine = _Waiting(command)
        with self._lock:
            self._waiting.append(mine)
            is_leading = not self._is_busy
            self._is_busy = True
        if not is_leading:
            mine.woken.acquire()
        if not mine.is_answered:
            self._lead(storage, call)
        if isinstance(mine.answer, BaseException):
            raise mine.answer
        answer: Answer = mine.answer
        return answer

    def waiting(self) -> int:
        """How many commands wait for the batch that is under way."""
        with self._lock:
            return len(self._waiting)

    def _lead(self, storage: Storage, call: Call) -> None:
        """Carry out a batch, then let the first of those that came meanwhile carry out the next one."""
        with self._lock:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), TOGETHER_MAX))]
        try:
            _carry_out(storage, batch, call)
        except BaseException as stop:
            for each in batch:
                if not each.is_answered:
                    each.tell(OutcomeUnknownError(f"{type(stop).__name__} broke in", each.command.cause.id))
            raise
        finally:
            # Who leads next is woken first: the database idles while nobody writes.
            with self._lock:
                self._is_busy = bool(self._waiting)
                if self._waiting:
                    self._waiting[0].woken.release()
            for each in batch:
                each.woken.release()


def _carry_out(storage: Storage, batch: list[_Waiting], call: Call) -> None:
    """Answer every item of a batch; an item that breaks the store's code is found by asking for each alone."""
    try:
        answers = execute(storage, [each.command for each in batch], call)
    except Exception as error:  # noqa: BLE001  # it belongs to the item that causes it
        if len(batch) == 1:
            batch[0].tell(error)
            return
    else:
        for each, answer in zip(batch, answers, strict=True):
            each.tell(answer)
        return
    for each in batch:
        alone = Call(call.patience)
        alone.has_lost_a_reply = True  # whether anything of the batch was written is not known for certain
        try:
            each.tell(execute_one(storage, each.command, alone))
        except JobledgerError as refusal:
            each.tell(refusal)
        except Exception as error:  # noqa: BLE001  # the one that it belongs to
            each.tell(error)
