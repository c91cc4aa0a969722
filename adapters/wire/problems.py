"""Errors over HTTP: one table from error families to problem documents (RFC 9457), and the way back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from typing import Any, Final

from pydantic import ConfigDict, Field

from jobledger.adapters.wire.base import Json, Wire, read_instant
from jobledger.domain import errors
from jobledger.domain.bounds import error_text
from jobledger.domain.errors import CorruptError, InvalidError, JobledgerError, RefusedError, UnavailableError


@dataclass(frozen=True, slots=True)
class Told:
    """How a family of errors is told: its word, its status, and what the caller does next."""

    family: str
    status: int
    next_step: str


FAMILIES: Final[Mapping[type[JobledgerError], Told]] = {
    RefusedError: Told("refused", 409, "Do not repeat it as it is: read the job and its controls, then decide anew."),
    InvalidError: Told("invalid", 422, "Mend the request; nothing was changed."),
    UnavailableError: Told("unavailable", 503, "Back off, then repeat it with the same Idempotency-Key or Command-Id."),
    CorruptError: Told("corrupt", 500, "Stop, and call an auditor: what is stored cannot be trusted."),
}

STATUS_OF: Final[Mapping[str, int]] = {
    "unknown_job": 404,
    "unknown_schedule": 404,
    "unknown_sequence": 404,
    "history_archived": 410,
    "sequence_moved": 412,
    "hold_in_force": 423,
    "queue_held": 423,
    "queue_limited": 429,
    "admission_refused": 429,
    "payload_changed": 422,
    "unstorable_value": 400,
    "payload_too_large": 413,
    "checkpoint_too_large": 413,
    "receipt_too_large": 413,
    "result_too_large": 413,
    "deadline_exceeded": 504,
    "outcome_unknown": 504,
}
"""Codes whose status says more than their family's."""

RETRY_AFTER_S: Final = 2
"""After how many seconds it makes sense to come back when nobody could answer."""


class FieldProblem(Wire):
    """One field of a request that cannot be accepted."""

    field: str
    problem: str


class ProblemModel(Wire):
    """What was refused, why, and what to do next. ``code`` never changes its meaning; ``detail`` is for people."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:jobledger:problem:unknown_job",
                    "title": "refused",
                    "status": 404,
                    "detail": "there is no job 'x' in this namespace; check the id and the store",
                    "code": "unknown_job",
                    "next_step": "Do not repeat it as it is: read the job and its controls, then decide anew.",
                    "fields": [],
                    "about": {"job_id": "x"},
                }
            ]
        }
    )

    type: str
    title: str
    status: int
    detail: str
    code: str
    next_step: str
    fields: list[FieldProblem] = Field(default=[], description="The fields that cannot be accepted.")
    about: dict[str, Json] = Field(
        default={}, description="The error's own values by name, as its sentence shows them."
    )

    def error(self) -> JobledgerError:
        """The error as the store raises it; one that only HTTP has is an error of its family."""
        known = CLASSES.get(self.code)
        if self.code in {"invalid_request", "bad_request"} and not self.about:
            first = self.fields[0] if self.fields else FieldProblem(field="request", problem=self.detail)
            return errors.InvalidRequestError(first.field, first.problem)
        if known is None:
            return RemoteProblemError(self.code, self.detail)
        try:
            error = known(**{field.name: self._value(field.name, str(field.type)) for field in _fields(known)})
            str(error)  # its sentence is made of every field: one of another type shows here, and not in a log
        except (ValueError, TypeError, AttributeError):
            return RemoteProblemError(self.code, self.detail)
        return error

    def _value(self, name: str, annotation: str) -> Any:
        value = self.about.get(name)
        if value is not None and "datetime" in annotation:
            return read_instant(value)
        return tuple(value) if isinstance(value, list) and "tuple" in annotation else value


@dataclass(eq=False, repr=False)
class RemoteProblemError(RefusedError):
    """What only the HTTP interface refuses: a token that is missing, a limit of requests, a header."""

    code = "http_refused"
    problem: str
    detail: str

    def __str__(self) -> str:
        return f"{self.problem}: {self.detail}"


_KINDS: Final[list[type[JobledgerError]]] = [getattr(errors, name) for name in errors.__all__]
CLASSES: Final[Mapping[str, type[JobledgerError]]] = {kind.code: kind for kind in _KINDS if is_dataclass(kind)}
"""Every error of the domain by its code."""

_HIDDEN: Final = frozenset({"store_unavailable", "outcome_unknown", "schema_mismatch", "history_corrupt"})
"""Errors whose own words may name files, hosts or statements of the store; those stay in the server's log."""


def _fields(known: type[JobledgerError]) -> tuple[dataclasses.Field[Any], ...]:
    return fields(known) if is_dataclass(known) else ()


def told(error: JobledgerError) -> Told:
    """How an error is told."""
    family = next((how for kind, how in FAMILIES.items() if isinstance(error, kind)), FAMILIES[CorruptError])
    return Told(family.family, STATUS_OF.get(error.code, family.status), family.next_step)


def problem_of(error: JobledgerError) -> ProblemModel:
    """The problem document of an error; what may name files, hosts or statements of the store is left out."""
    how = told(error)
    about = {field.name: _plain(getattr(error, field.name)) for field in _fields(type(error))}
    detail = str(error)
    if error.code in _HIDDEN:
        detail = HIDDEN_DETAIL[error.code]
        about = {
            name: "see the server's log" if name in {"reason", "problem", "command"} else value
            for name, value in about.items()
        }
    return ProblemModel(
        type=f"urn:jobledger:problem:{error.code}",
        title=how.family,
        status=how.status,
        detail=error_text(detail),
        code=error.code,
        next_step=how.next_step,
        about=about,
    )


HIDDEN_DETAIL: Final[Mapping[str, str]] = {
    "store_unavailable": "the store is unavailable; nothing was committed: back off and try again",
    "outcome_unknown": "it is unknown whether the command was committed; repeat it with the same id: that is safe",
    "schema_mismatch": "the store's schema is not the one this server knows; its operator has to migrate or upgrade",
    "history_corrupt": "what is stored of this job cannot be trusted; it is stopped: call an auditor",
}


def _plain(value: Any) -> Json:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return list(value) if isinstance(value, tuple) else value
