"""What HTTP itself refuses, and how every error becomes a problem document."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from fastapi import HTTPException
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import Response

from jobledger.adapters.wire.problems import RETRY_AFTER_S, FieldProblem, ProblemModel, problem_of, told
from jobledger.domain.errors import JobledgerError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI
    from starlette.requests import Request

log = logging.getLogger("jobledger.web")

PROBLEM_JSON: Final = "application/problem+json"
FIELDS_MAX: Final = 20

# What HTTP refuses by itself: the code, its status, and what to do next.
HTTP_PROBLEMS: Final[Mapping[str, tuple[int, str]]] = {
    "bad_request": (400, "Mend the request; nothing was changed."),
    "idempotency_key_missing": (400, "Send an Idempotency-Key (the job's key), or a Command-Id for a job without one."),
    "unauthenticated": (401, "Send a token as 'Authorization: Bearer …'; 'jobledger tokens create' makes one."),
    "forbidden": (403, "Use a token that has the scope."),
    "cross_site": (403, "Send it from the page itself, or from a program that is no browser."),
    "not_found": (404, "See /api/v1/openapi.json for what there is."),
    "method_not_allowed": (405, "See /api/v1/openapi.json for what there is."),
    "body_too_slow": (408, "Send the whole body within the time limit."),
    "precondition_failed": (412, "Read the job again, and decide anew on what it says now."),
    "body_too_large": (413, "Send less, or keep it elsewhere and send a reference."),
    "unsupported_media_type": (415, "Send JSON in UTF-8 as application/json, without a content encoding."),
    "wrong_host": (421, "Use a host name that this server answers to (jobledger serve --host-name)."),
    "invalid_request": (422, "Mend the fields that are named; nothing was changed."),
    "precondition_required": (428, "Send If-Match with the ETag of the job as you saw it."),
    "too_many_requests": (429, "Slow down, and come back after the seconds in Retry-After."),
    "headers_too_large": (431, "Send fewer or shorter headers."),
    "fault": (500, "It is a fault of the server and was logged; nothing tells that it would go better at once."),
    "too_many_streams": (503, "Close a stream, or come back after the seconds in Retry-After."),
}


class HttpProblemError(HTTPException):
    """A refusal of HTTP itself, before or beside the rules of the job."""

    def __init__(
        self, code: str, detail: str, *, fields: tuple[FieldProblem, ...] = (), headers: dict[str, str] | None = None
    ) -> None:
        """Refuse by a code of ``HTTP_PROBLEMS``."""
        status, next_step = HTTP_PROBLEMS[code]
        super().__init__(status, detail, headers)
        self.model = ProblemModel(
            type=f"urn:jobledger:problem:{code}",
            title="refused",
            status=status,
            detail=detail,
            code=code,
            next_step=next_step,
            fields=list(fields),
        )

    def response(self) -> Response:
        """The problem document."""
        return problem_response(self.model, self.headers)


class BodyRefusedError(HTTPException):
    """A body that the bounds of the domain refuse, on its way through the framework's parsing."""

    def __init__(self, error: JobledgerError) -> None:
        """Carry the error."""
        super().__init__(told(error).status, str(error))
        self.error = error


def problem_response(model: ProblemModel, headers: Mapping[str, str] | None = None) -> Response:
    """A problem document as a response."""
    more = dict(headers or {})
    if model.status in (429, 503):
        more.setdefault("Retry-After", str(RETRY_AFTER_S))
    if model.status == 401:  # noqa: PLR2004  # the status that this header belongs to
        more.setdefault("WWW-Authenticate", "Bearer")
    return Response(model.model_dump_json(), model.status, more, PROBLEM_JSON)


def answer_jobledger_error(request: Request, error: Exception) -> Response:
    """Tell an error of the store."""
    if not isinstance(error, JobledgerError):
        raise error
    model = problem_of(error)
    request.app.state.service.refusals[model.code] += 1
    if model.status >= 500:  # noqa: PLR2004  # the statuses that are the server's own
        log.error("%s: %s", error.code, error)
    return problem_response(model)


def answer_http_exception(request: Request, error: Exception) -> Response:
    """Tell a refusal of HTTP."""
    if isinstance(error, HttpProblemError):
        request.app.state.service.refusals[error.model.code] += 1
        return error.response()
    if isinstance(error, BodyRefusedError):
        return answer_jobledger_error(request, error.error)
    status = error.status_code if isinstance(error, StarletteHTTPException) else 400
    named = {404: "not_found", 405: "method_not_allowed", 413: "body_too_large"}.get(status, "bad_request")
    headers = dict(error.headers or {}) if isinstance(error, StarletteHTTPException) else None
    return HttpProblemError(named, _DETAILS.get(named, "the request cannot be read"), headers=headers).response()


_DETAILS: Final = {
    "not_found": "there is nothing at this address",
    "method_not_allowed": "this address does not answer to this method",
    "body_too_large": "the body is larger than this server accepts",
}


def answer_validation_error(_: Request, error: Exception) -> Response:
    """Tell which fields cannot be accepted; what was sent is never repeated."""
    if not isinstance(error, RequestValidationError):
        raise error
    return mistaken(error).response()


def mistaken(error: RequestValidationError) -> HttpProblemError:
    """The refusal of a request of which fields cannot be accepted."""
    found = [
        FieldProblem(field=".".join(str(part) for part in each["loc"])[:200], problem=str(each["msg"])[:300])
        for each in error.errors()[:FIELDS_MAX]
    ]
    detail = f"{len(error.errors())} fields cannot be accepted" if len(found) > 1 else "a field cannot be accepted"
    return HttpProblemError("invalid_request", detail, fields=tuple(found))


def answer_fault(_: Request, error: Exception) -> Response:
    """Tell that the server has a fault; what it is stands in the log only."""
    log.error("a fault of the server", exc_info=error)
    return HttpProblemError("fault", "the server has a fault").response()


def install(app: FastAPI) -> None:
    """Have every error of an app answered as a problem document."""
    app.add_exception_handler(JobledgerError, answer_jobledger_error)
    app.add_exception_handler(RequestValidationError, answer_validation_error)
    app.add_exception_handler(StarletteHTTPException, answer_http_exception)
    app.add_exception_handler(Exception, answer_fault)


def documented(*codes: int) -> dict[int | str, Any]:
    """The problem answers of a route, for its documentation."""
    schema = {"$ref": "#/components/schemas/ProblemModel"}
    always = (400, 401, 403, 404, 408, 413, 415, 421, 422, 429, 500, 503, 504)
    return {
        code: {"description": _DESCRIPTIONS[code], "content": {PROBLEM_JSON: {"schema": schema}}}
        for code in sorted({*always, *codes})
    }


_DESCRIPTIONS: Final[Mapping[int, str]] = {
    400: "The request or a value in it cannot be read or stored.",
    401: "No valid token was sent.",
    403: "The token lacks the scope, or a browser sent it from another site.",
    404: "There is no such job for this caller.",
    408: "The body came too slowly.",
    409: "The rules of the job forbid it now.",
    412: "The job was changed since it was read.",
    413: "The body or a value is too large.",
    415: "It is not plain JSON.",
    421: "This server does not answer to that host name.",
    422: "A field cannot be accepted, or the key belongs to another payload.",
    423: "A hold is in force.",
    428: "If-Match is required.",
    429: "Too many requests, or the queue admits no more.",
    500: "What is stored cannot be trusted, or the server has a fault.",
    503: "The store does not answer.",
    504: "The outcome is unknown; repeating it with the same id is safe.",
}
