"""Group commit: writes of many attempts share transactions, and each is answered for itself."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from jobledger.domain.errors import JobledgerError, OutcomeUnknownError
from jobledger.domain.store.executing import Call, Command, execute, execute_one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jobledger.domain.ports import Storage
    from jobledger.domain.store import Setting

Answer = TypeVar("Answer")

TOGETHER_MAX: Final = 200
"""How many writes share a transaction at most: beyond it those that wait gain little, and large states cost memory."""


class Posted(Protocol):
    """A write that nobody waits for: it is prepared when its batch is, and told its answer."""

    def prepare(self) -> Command[Any] | None:
        """The command; ``None``: it cannot go together with others now, and is not carried out."""
        ...

    def tell(self, answer: Any) -> None:
        """Take the answer: what the command answers, or the exception that it raises."""
        ...


class _Waiting:
    """One write whose caller waits for its answer, or for its turn to carry out a batch."""

    __slots__ = ("answer", "command", "is_answered", "woken")

    def __init__(self, command: Command[Any]) -> None:
        self.command = command
        self.woken = threading.Lock()
        self.woken.acquire()
        self.is_answered = False
        self.answer: Any = None

    def prepare(self) -> Command[Any]:
        return self.command

    def tell(self, answer: Any) -> None:
        self.answer, self.is_answered = answer, True


class GroupCommit:
    """Runs the single commands of one store so that those that come while one is under way go together next.

    A lone command goes at once, in its caller's thread; nothing ever waits for company. While a batch is under way,
    those that come gather, and the first of them carries them out when it is over: so a command waits for one batch, or
    for as many more as ``TOGETHER_MAX`` makes of those before it. Commands with a caller's own transaction go alone.

    What is posted has no caller that waits. It goes in the same batches; where its turn comes first, a thread of the
    group carries the batch out, which is made when it is first needed.
    """

    def __init__(self, setting: Setting, told: Callable[[list[Any]], None], name: str = "jobledger") -> None:
        """Gather from any number of threads.

        Args:
            setting: where posted commands run.
            told: called after each batch with those of it that were posted, told their answers or not prepared; it must
                not wait for anything.
            name: for people.
        """
        self._setting, self._told, self._name = setting, told, name
        self._lock = threading.Lock()
        self._waiting: deque[_Waiting | Posted] = deque()
        self._is_busy = False
        self._turn = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._is_closed = False

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

    def post(self, writes: Sequence[Posted]) -> bool:
        """Carry these out soon, in their order, and wait for nothing; false: not done, the group is closed."""
        with self._lock:
            if self._is_closed:
                return False
            self._waiting.extend(writes)
            is_leading = not self._is_busy
            self._is_busy = True
        if is_leading:
            self._take_turn()
        return True

    def close(self) -> None:
        """Take nothing more that is posted, and let the thread of the group end once nothing waits."""
        with self._lock:
            self._is_closed = True
            if not self._is_busy:
                self._turn.release()

    def waiting(self) -> int:
        """How many commands wait for the batch that is under way."""
        with self._lock:
            return len(self._waiting)

    # Leading ----------------------------------------------------------------------------------------------------------

    def _take_turn(self) -> None:
        """Let the thread of the group lead."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=f"{self._name} commits", daemon=True)
            self._thread.start()
        self._turn.release()

    def _serve(self) -> None:
        while True:
            self._turn.acquire()
            with self._lock:
                if not self._waiting:
                    return  # only closing gives a turn to nobody
            self._lead(self._setting.storage, Call(self._setting.patience))

    def _lead(self, storage: Storage, call: Call) -> None:
        """Carry out a batch, then let the first of those that came meanwhile carry out the next one."""
        with self._lock:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), TOGETHER_MAX))]
        prepared = [(each, command) for each in batch if (command := each.prepare()) is not None]
        answered = 0
        try:
            answers = _answers(storage, [command for _, command in prepared], call)
            for (each, _), answer in zip(prepared, answers, strict=True):
                each.tell(answer)
                answered += 1
        except BaseException as stop:
            for each, command in prepared[answered:]:
                each.tell(OutcomeUnknownError(f"{type(stop).__name__} broke in", command.cause.id))
            raise
        finally:
            self._pass_on(batch)

    def _pass_on(self, batch: list[_Waiting | Posted]) -> None:
        """Wake who leads next first, since the database idles while nobody writes; then those that were answered."""
        with self._lock:
            first = self._waiting[0] if self._waiting else None
            self._is_busy = first is not None
            is_over = self._is_closed and first is None
        if isinstance(first, _Waiting):
            first.woken.release()
        elif first is not None:
            self._take_turn()
        elif is_over:
            self._turn.release()
        posted: list[Posted] = []
        for each in batch:
            if isinstance(each, _Waiting):
                each.woken.release()
            else:
                posted.append(each)
        if posted:
            self._told(posted)


def _answers(storage: Storage, commands: Sequence[Command[Any]], call: Call) -> Iterator[Any]:
    """Each command's answer or exception; one that breaks the store's code is found by asking for each alone."""
    try:
        answers = execute(storage, commands, call)
    except Exception as error:  # noqa: BLE001  # it belongs to the command that causes it
        if len(commands) == 1:
            yield error
            return
    else:
        yield from answers
        return
    for command in commands:
        alone = Call(call.patience)
        alone.has_lost_a_reply = True  # whether anything of the batch was written is not known for certain
        try:
            yield execute_one(storage, command, alone)
        except JobledgerError as refusal:
            yield refusal
        except Exception as error:  # noqa: BLE001  # the one that it belongs to
            yield error
