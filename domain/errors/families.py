"""The families of errors, named by what the caller does next."""

from __future__ import annotations

from dataclasses import fields
from typing import ClassVar


class JobledgerError(Exception):
    """The root of every error that jobledger raises on purpose."""

    code: ClassVar[str] = "error"

    def __post_init__(self) -> None:
        """Keep the fields as ``args`` too, so that the error can be pickled, copied and shown."""
        self.args = tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]  # every leaf is a dataclass


class RefusedError(JobledgerError):
    """The rules of the job forbid the command; nothing was appended."""

    code = "refused"


class InvalidError(JobledgerError):
    """The input cannot be accepted; nothing was appended."""

    code = "invalid"


class UnavailableError(JobledgerError):
    """The store or host could not answer; back off, and repeat with the same command id."""

    code = "unavailable"


class CorruptError(JobledgerError):
    """What is stored cannot be trusted; stop and call an auditor."""

    code = "corrupt"
