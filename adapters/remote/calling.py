"""Calls of the HTTP API: repeated until they are answered, refused or given up, and never at the price of a doubt."""

from __future__ import annotations

import random
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import ValidationError

from jobledger.adapters.wire.base import Wire
from jobledger.adapters.wire.problems import ProblemModel, RemoteProblemError
from jobledger.domain.bounds import require_storable, require_text
from jobledger.domain.errors import (
    InvalidRequestError,
    JobledgerError,
    OutcomeUnknownError,
    StoreUnavailableError,
    UnavailableError,
)
from jobledger.domain.lease import Fence
from jobledger.domain.steps import Steps
from jobledger.domain.values import encode_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

Out = TypeVar("Out", bound=Wire)
Answer = TypeVar("Answer")
Sent = TypeVar("Sent")
Given_co = TypeVar("Given_co", covariant=True)

API: Final = "/api/v1"
ANY: Final = "*"
"""The ``If-Match`` of who accepts any state."""
ENCLOSING: Final = 2
"""How deep a stored value may stand in a part of a body."""
REPLY_WITHIN: Final = timedelta(seconds=35)
PAUSE_MIN_S: Final = 0.05
PAUSE_MAX_S: Final = 2.0


class Line:
    """A connection to one server, which many threads may share."""

    def __init__(self, client: httpx.Client, patience: timedelta) -> None:
        """Call through ``client``, and give up after ``patience``."""
        self._client, self.patience = client, patience

    @classmethod
    def to(cls, url: str, *, token: str | None, patience: timedelta, transport: httpx.BaseTransport | None) -> Self:
        """A line to the server at ``url``; nothing is sent yet.

        Raises:
            InvalidRequestError: the address is none.
        """
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise InvalidRequestError("url", "an address as in https://jobs.example.org is needed")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        client = httpx.Client(
            base_url=url.rstrip("/") + API,
            headers=headers,
            timeout=REPLY_WITHIN.total_seconds(),
            transport=transport,
            limits=httpx.Limits(max_connections=100, max_keepalive_connections=20),
        )
        return cls(client, patience)

    def within(self, patience: timedelta) -> Self:
        """The same line for calls that are given up sooner or later."""
        return type(self)(self._client, patience)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def get(self, model: type[Out], path: str, **query: Any) -> Out:
        """Read something; repeated while the server does not answer, as long as the line is patient."""
        given = {name: value for name, value in query.items() if value is not None}
        for name, value in given.items():
            require_storable(name, value)
        return self._read(model, self._insist("GET", path, {"params": given}, command_id=None, is_safe=True))

    def post(
        self,
        model: type[Out],
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        command_id: str | None,
        fence: Fence | None = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Out:
        """Send a command; one with a command id is repeated under it, and is answered from what the first one did."""
        return self._send(model, "POST", path, body, command_id=command_id, fence=fence, query=query, headers=headers)

    def put(
        self, model: type[Out], path: str, body: Mapping[str, Any], *, query: Mapping[str, Any], command_id: str
    ) -> Out:
        """Send what shall stand at a place; repeated as a command is."""
        return self._send(model, "PUT", path, body, command_id=command_id, query=query)

    def _send(
        self,
        model: type[Out],
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        *,
        command_id: str | None,
        fence: Fence | None = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Out:
        for name, value in (body or {}).items():
            require_storable(name, value, enclosing=ENCLOSING)
        sent = {"Content-Type": "application/json", **(headers or {})}
        if command_id is not None:
            sent["Command-Id"] = header_text("command_id", command_id)
        if fence is not None:
            sent["Jobledger-Fence"] = fence.to_token()
        request = {"content": encode_json(body or {}), "headers": sent, "params": dict(query or {})}
        return self._read(
            model, self._insist(method, path, request, command_id=command_id, is_safe=command_id is not None)
        )

    def lines(self, path: str, **query: Any) -> Iterator[str]:
        """The lines of an answer that is streamed.

        Raises:
            StoreUnavailableError: the server does not answer, or stopped in the middle.
        """
        try:
            with self._client.stream("GET", path, params=query) as response:
                if response.is_error:
                    response.read()
                    raise _refusal(response)
                yield from response.iter_lines()
        except httpx.TransportError as error:
            raise _unavailable(error) from error

    def _read(self, model: type[Out], response: httpx.Response) -> Out:
        if response.is_error:
            raise _refusal(response)
        try:
            return model.model_validate_json(response.content, strict=False)
        except ValidationError as error:
            reason = f"the answer of {response.url.path} is of another version: {error.error_count()} fields differ"
            raise StoreUnavailableError(reason) from error

    def _insist(
        self, method: str, path: str, request: Mapping[str, Any], *, command_id: str | None, is_safe: bool
    ) -> httpx.Response:
        deadline = time.monotonic() + self.patience.total_seconds()
        pause, is_sent = PAUSE_MIN_S, False
        while True:
            try:
                response = self._client.request(method, path, **request)
            except httpx.TransportError as error:
                is_sent = is_sent or not isinstance(
                    error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout
                )
                failure = _unavailable(error)
            else:
                if not _is_worth_repeating(response):
                    return response
                failure = _refusal(response)
                is_sent = is_sent or isinstance(failure, OutcomeUnknownError)
            if time.monotonic() + pause >= deadline or (is_sent and not is_safe):
                if is_sent and method != "GET":
                    raise OutcomeUnknownError(str(failure), command_id) from failure
                raise failure
            time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311  # it spreads repeats, and keeps no secret
            pause = min(2 * pause, PAUSE_MAX_S)


def _is_worth_repeating(response: httpx.Response) -> bool:
    if response.status_code in (502, 503, 504):
        return True
    return response.status_code == 429 and "too_many_requests" in response.text  # noqa: PLR2004  # its status


def _unavailable(error: httpx.TransportError) -> JobledgerError:
    return StoreUnavailableError(f"the server does not answer: {type(error).__name__}")


def _refusal(response: httpx.Response) -> JobledgerError:
    """The error that a problem document tells of."""
    try:
        problem = ProblemModel.model_validate_json(response.content, strict=False)
    except ValidationError:
        if response.status_code >= 500:  # noqa: PLR2004  # the statuses that are the server's own
            return StoreUnavailableError(f"the server answered with status {response.status_code}")
        return RemoteProblemError(str(response.status_code), "the server's answer is no problem document")
    error = problem.error()
    if response.status_code in (429, 503) and not isinstance(error, UnavailableError) and "too_many" in problem.code:
        return StoreUnavailableError(problem.detail)
    return error


class BatchItem(Protocol[Given_co]):
    """One item of a batch's answer."""

    def answer(self) -> Given_co | JobledgerError:
        """The answer or the error as the store gives it."""
        ...


def each_for_itself(
    items: Sequence[Any], make: Callable[[Any], Sent], send: Callable[[list[Sent]], Sequence[BatchItem[Answer]]]
) -> list[Answer | JobledgerError]:
    """Send a batch; one answer per item, in order, also where nothing that can be sent can be made of an item."""
    answers: dict[int, Answer | JobledgerError] = {}
    sent: dict[int, Sent] = {}
    for place, item in enumerate(items):
        try:
            made = make(item)
            require_storable("item", made)
            sent[place] = made
        except JobledgerError as invalid:
            answers[place] = invalid
    if sent:
        answered = send(list(sent.values()))
        answers |= {place: item.answer() for place, item in zip(sent, answered, strict=True)}
    return [answers[place] for place in range(len(items))]


def quoted(field: str, value: object) -> str:
    """A name as a part of a path.

    Raises:
        InvalidRequestError: it is no text, or empty or too long.
        UnstorableValueError: it has NUL or a lone surrogate.
    """
    return quote(require_text(field, value), safe="")


def header_text(field: str, value: object) -> str:
    """A text as a header carries it.

    Raises:
        InvalidRequestError: it is no text, or holds what a header cannot.
    """
    if not isinstance(value, str) or not value.isascii() or not value.isprintable() or not value.strip():
        raise InvalidRequestError(field, "printable ASCII is needed where it travels in a header")
    return value


def stepped(fence: Fence, step: int) -> Fence:
    """The fence as it is sent with one write: the server draws the step behind the one that it carries."""
    return Fence(fence.job_id, fence.generation, fence.group, fence.epoch, fence.token, Steps(step - 1))
