"""What a host and its child processes say to each other: JSON messages over two pipes, and never a pickle."""

from __future__ import annotations

import os
import struct
import threading
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

from pydantic import Discriminator, TypeAdapter
from pydantic_core import to_jsonable_python

from jobledger.adapters.worker.core import AttemptFacts
from jobledger.adapters.worker.places import Place
from jobledger.domain import errors
from jobledger.domain.answers import Progress
from jobledger.domain.errors import InvalidRequestError, JobledgerError
from jobledger.domain.values import Json

MESSAGE_BYTES_MAX: Final = 256 * 1024 * 1024
"""A longer message is not sent, so that no child can fill its host's memory."""

_LENGTH: Final = struct.Struct(">I")


# From the host to the child -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is asked of the attempt, as far as the host knows: to park, to cancel, to stop since the lease was lost."""

    hold: bool
    cancel: bool
    drain: bool
    lost: str | None
    type: Literal["wishes"] = "wishes"


@dataclass(frozen=True, slots=True)
class Start:
    """Run this attempt, with that handler."""

    place: Place
    facts: AttemptFacts
    wishes: Wishes
    type: Literal["start"] = "start"


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error of the store, by the name of its class and its fields."""

    name: str
    fields: tuple[Json, ...]

    @classmethod
    def of(cls, error: JobledgerError) -> Refusal:
        """Take an error apart."""
        return cls(type(error).__name__, tuple(to_jsonable_python(list(error.args), fallback=str)))

    def raised(self) -> JobledgerError:
        """The error again; one that is not known here is an ``InvalidRequestError``."""
        known = getattr(errors, self.name, None)
        if not (isinstance(known, type) and issubclass(known, JobledgerError)):
            return InvalidRequestError(self.name, ", ".join(str(each) for each in self.fields))
        return known(*self.fields)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question, with what is asked of the attempt by now."""

    number: int
    wishes: Wishes
    value: Json = None
    refusal: Refusal | None = None
    type: Literal["answer"] = "answer"


# From the child to the host -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Began:
    """The handler is loaded, and begins: its run time counts from now."""

    type: Literal["began"] = "began"


@dataclass(frozen=True, slots=True)
class StagedEffect:
    """An effect that the handler staged."""

    resource: str
    value: Json
    expected_version: int


@dataclass(frozen=True, slots=True)
class Ask:
    """One call of the store under the attempt's lease; only what the call takes is given."""

    number: int
    call: Literal["renew", "checkpoint", "unit", "record_unit", "report_progress"]
    name: str = ""
    value: Json = None
    progress: Progress | None = None
    effects: tuple[StagedEffect, ...] = ()
    type: Literal["ask"] = "ask"


@dataclass(frozen=True, slots=True)
class Logged:
    """A log record of the handler."""

    logger: str
    level: int
    text: str
    type: Literal["logged"] = "logged"


@dataclass(frozen=True, slots=True)
class Ended:
    """The handler has unwound: how, and what it leaves to be published. ``is_idle``: the child can run another one.

    ``seconds`` and ``instant`` say when a deferral or a retry is due; ``keeps`` that a deferral saves no state.
    """

    ending: Literal["finish", "fail", "later", "park", "stop", "abandon"]
    is_idle: bool = False
    outcome: str = "complete"
    value: Json = None
    text: str | None = None
    seconds: float | None = None
    instant: str | None = None
    keeps: bool = False
    progress: Progress | None = None
    effects: tuple[StagedEffect, ...] = ()
    type: Literal["ended"] = "ended"


ToChild = Annotated[Start | Answer | Wishes, Discriminator("type")]
ToHost = Annotated[Began | Ask | Logged | Ended, Discriminator("type")]

TO_CHILD: Final[TypeAdapter[Any]] = TypeAdapter(ToChild)
TO_HOST: Final[TypeAdapter[Any]] = TypeAdapter(ToHost)

Said = TypeVar("Said")
Heard = TypeVar("Heard")


class MessageTooLongError(JobledgerError):
    """A message is longer than may be sent to another process."""

    def __init__(self, size: int) -> None:
        super().__init__(size)

    def __str__(self) -> str:
        return (
            f"{self.args[0]:,} bytes are more than may go from one process to another ({MESSAGE_BYTES_MAX:,}); "
            "keep the value elsewhere and send a reference"
        )


class Pipes(Generic[Said, Heard]):
    """The two ends of two pipes, one to hear and one to speak; any thread may speak, one hears."""

    def __init__(self, hear: int, speak: int, *, said: TypeAdapter[Said], heard: TypeAdapter[Heard]) -> None:
        """Own both file descriptors."""
        self._hear, self._speak = hear, speak
        self._said, self._heard = said, heard
        self._turn = threading.Lock()

    def say(self, message: Said) -> None:
        """Send a message.

        Raises:
            MessageTooLongError: nothing was sent.
            OSError: nobody hears any more.
        """
        encoded = self._said.dump_json(message)
        if len(encoded) > MESSAGE_BYTES_MAX:
            raise MessageTooLongError(len(encoded))
        whole = memoryview(_LENGTH.pack(len(encoded)) + encoded)
        with self._turn:
            while whole:
                whole = whole[os.write(self._speak, whole) :]

    def listen(self) -> Heard | None:
        """The next message; ``None`` when the other end is gone, or says what is no message."""
        head = self._bytes(_LENGTH.size)
        if head is None:
            return None
        (length,) = _LENGTH.unpack(head)
        if length > MESSAGE_BYTES_MAX:
            return None
        encoded = self._bytes(length)
        if encoded is None:
            return None
        try:
            return self._heard.validate_json(encoded)
        except ValueError:
            return None

    def close(self) -> None:
        """Give both ends back."""
        for end in (self._hear, self._speak):
            try:
                os.close(end)
            except OSError:
                continue

    def _bytes(self, count: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < count:
            try:
                more = os.read(self._hear, min(count - len(parts), 1 << 20))
            except OSError:
                return None
            if not more:
                return None
            parts += more
        return bytes(parts)
