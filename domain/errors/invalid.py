"""What is wrong with the input; mend it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jobledger.domain.errors.families import InvalidError


@dataclass(eq=False, repr=False)
class TooLargeError(InvalidError):
    """A value is larger than its policy or constant allows; the four sizes have a class each."""

    code = "too_large"
    size: int
    limit: int
    what: ClassVar[str] = "value"

    def __str__(self) -> str:
        return (
            f"the {self.what} is {self.size:,} bytes of JSON, at most {self.limit:,} are allowed; nothing was saved: "
            "send less, or keep it elsewhere and send a reference"
        )


class PayloadTooLargeError(TooLargeError):
    """The payload is larger than the policy's ``payload_bytes_max``."""

    code = "payload_too_large"
    what = "payload"


class CheckpointTooLargeError(TooLargeError):
    """The checkpoint is larger than ``checkpoint_bytes_max``; the last checkpoint stands."""

    code = "checkpoint_too_large"
    what = "checkpoint"


class ReceiptTooLargeError(TooLargeError):
    """The receipt is larger than ``receipt_bytes_max``."""

    code = "receipt_too_large"
    what = "receipt"


class ResultTooLargeError(TooLargeError):
    """The result or effect value is larger than ``result_bytes_max``; the attempt stays open."""

    code = "result_too_large"
    what = "result"


@dataclass(eq=False, repr=False)
class UnstorableValueError(InvalidError):
    """A value that JSON cannot hold exactly, or that no store may hold."""

    code = "unstorable_value"
    what: str
    path: str
    problem: str

    def __str__(self) -> str:
        return f"the {self.what} cannot be stored: {self.path} is {self.problem}; send plain JSON values"


@dataclass(eq=False, repr=False)
class UnknownPolicyError(InvalidError):
    """The named policy was not given to this store."""

    code = "unknown_policy"
    name: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        return f"there is no policy {self.name!r}; known ones: {', '.join(self.known)} (give more to JobStore.open)"


@dataclass(eq=False, repr=False)
class UnknownKindError(InvalidError):
    """The host has no handler for this kind."""

    code = "unknown_kind"
    kind: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        known = ", ".join(self.known) or "none"
        return f"no handler is registered for kind {self.kind!r}; register one, or use a kind that has one: {known}"


@dataclass(eq=False, repr=False)
class InvalidHookError(InvalidError):
    """A job class or function has the wrong shape; ``source`` is the line that shows it, where there is one."""

    code = "invalid_hook"
    where: str
    problem: str
    source: str = ""

    def __str__(self) -> str:
        return f"{self.where} `{self.source}`: {self.problem}" if self.source else f"{self.where}: {self.problem}"


@dataclass(eq=False, repr=False)
class UnknownCursorError(InvalidError):
    """A cursor that this list of this store did not give: another list's, another store's, or changed on its way."""

    code = "unknown_cursor"
    of: str = "feed"
    given_by: str = ""

    def __str__(self) -> str:
        whose = (
            f"it is one of {self.given_by}" if self.given_by else "another store or release gave it, or it was changed"
        )
        return f"the cursor is none of {self.of} of this store: {whose}; use one unchanged, or start without one"


@dataclass(eq=False, repr=False)
class InvalidRequestError(InvalidError):
    """An argument is missing, unknown or out of its range."""

    code = "invalid_request"
    field: str
    problem: str

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}"
