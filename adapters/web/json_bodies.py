"""Request bodies are read by the domain's own bounds: depth, numbers, texts and doubled keys, before any model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response
from typing_extensions import override

from jobledger.adapters.web.refusing import BodyRefusedError, HttpProblemError
from jobledger.domain.bounds import parse_json
from jobledger.domain.errors import InvalidRequestError, JobledgerError

ENCLOSING: Final = 3
"""How deep a stored value stands in the deepest request: in an effect or job, in a list, in the body."""


class BoundedRequest(Request):
    """A request whose JSON is read within the bounds of every store."""

    @override
    async def json(self) -> Any:
        """The body's value.

        Raises:
            BodyRefusedError: no store may hold it.
            HttpProblemError: it is no JSON.
        """
        try:
            return parse_json("body", await self.body(), enclosing=ENCLOSING)
        except InvalidRequestError as error:
            raise HttpProblemError("bad_request", str(error)) from None
        except JobledgerError as error:
            raise BodyRefusedError(error) from None


class BoundedRoute(APIRoute):
    """A route whose requests are bounded."""

    @override
    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]  # as the framework's own guide does it
        handle = super().get_route_handler()

        async def bounded(request: Request) -> Response:
            return await handle(BoundedRequest(request.scope, request.receive))

        return bounded
