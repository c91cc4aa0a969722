"""The gate before the app: hosts, sites, sizes, times and rates are checked before anything is parsed."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders

from jobledger.adapters.terminal.texts import visible
from jobledger.adapters.web.refusing import HttpProblemError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from jobledger.adapters.web.settings import WebSettings

log: Final = logging.getLogger("jobledger.web.requests")

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
FORM: Final = "application/x-www-form-urlencoded"
CLIENTS_MAX: Final = 10_000

CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
SECURITY_HEADERS: Final = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Gate:
    """ASGI middleware that refuses what must not reach the app, and gives every answer its protective headers."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: WebSettings,
        now: Callable[[], float] = time.monotonic,
        answers: Counter[int] | None = None,
    ) -> None:
        """Stand before ``app``; ``now`` is a clock in seconds, ``answers`` counts by the class of the status."""
        self._answers: Counter[int] = Counter() if answers is None else answers
        self._app = app
        self._settings = settings
        self._hosts = frozenset(host.lower() for host in settings.hosts)
        self._requests = Allowance(settings.requests_per_minute, now)
        self._misses = Allowance(settings.misses_per_minute, now)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, or pass on what is no request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client = client_of(scope)
        sending = _Sending(send, lambda: self._misses.take(client), self._answers)
        began = time.perf_counter()
        try:
            await self._pass(scope, receive, sending, client)
        finally:
            _log(scope, sending.status, time.perf_counter() - began)

    async def _pass(self, scope: Scope, receive: Receive, sending: _Sending, client: str) -> None:
        try:
            self._require_acceptable(scope, client)
        except HttpProblemError as refused:
            await refused.response()(scope, receive, sending)
            return
        body = _Body(receive, self._settings)
        await self._app(scope, body, sending)

    def _require_acceptable(self, scope: Scope, client: str) -> None:
        headers = Headers(scope=scope)
        self._require_known_host(headers)
        if not self._requests.take(client):
            raise HttpProblemError("too_many_requests", "this client sent too many requests within a minute")
        if self._misses.is_used_up(client):
            raise HttpProblemError("too_many_requests", "this client asked for too much that it may not see")
        method: str = scope["method"]
        if method in SAFE_METHODS:
            return
        require_same_site(headers)
        if "content-encoding" in headers:
            raise HttpProblemError("unsupported_media_type", "a body with a content encoding is not read")
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or ("transfer-encoding" in headers and length != "0"):
            raise HttpProblemError("bad_request", "the length of the body is not told in one clear way")
        if len(length) > 18 or int(length) > self._settings.body_bytes_max:  # noqa: PLR2004  # beyond it no size is real
            limit = self._settings.body_bytes_max
            raise HttpProblemError("body_too_large", f"the body is larger than {limit:,} bytes")
        _require_readable_type(headers, has_body=length != "0" or "transfer-encoding" in headers)

    def _require_known_host(self, headers: Headers) -> None:
        if "*" in self._hosts:
            return
        hosts = headers.getlist("host")
        name = _without_port(hosts[0].lower()) if len(hosts) == 1 else ""
        if name not in self._hosts:
            raise HttpProblemError("wrong_host", "this server does not answer to that host name")


def _log(scope: Scope, status: int | None, seconds: float) -> None:
    """One line for each request, without its query, its headers and its body: they may carry what is secret."""
    if not log.isEnabledFor(logging.INFO):
        return
    fields = {"method": scope["method"], "path": scope["path"], "status": status, "ms": round(1000 * seconds, 1)}
    log.info("%s %s %s", scope["method"], visible(scope["path"]), status or "was left", extra=fields)


def client_of(scope: Scope) -> str:
    """Whom requests are counted for: the address that the connection comes from."""
    client = scope.get("client")
    return str(client[0]) if client else ""


_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]@/]+)(:[0-9]{1,5})?")


def _without_port(host: str) -> str:
    found = _HOST.fullmatch(host)
    return found[1] if found else ""


def require_same_site(headers: Headers) -> None:
    """Require that a request that may change something does not come from a page of another site.

    Browsers say where a request comes from and pages cannot forge it; programs say nothing, and carry a token.

    Raises:
        HttpProblemError: it comes from another site, or from a page that hides where it is from.
    """
    site = headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        raise HttpProblemError("cross_site", "a page of another site may not send this")
    origin = headers.get("origin")
    if origin is None or site is not None:
        return
    if origin.partition("://")[2].lower() != headers.get("host", "").lower():
        raise HttpProblemError("cross_site", "a page of another site may not send this")


def _require_readable_type(headers: Headers, *, has_body: bool) -> None:
    if not has_body:
        return
    kind, _, parameters = headers.get("content-type", "").lower().partition(";")
    charset = parameters.strip().removeprefix("charset=").strip('"')
    if kind.strip() == "application/json" and charset in ("", "utf-8"):
        return
    # A form is what the pages send; browsers say where it comes from, and only the pages read one.
    if kind.strip() == FORM and ("sec-fetch-site" in headers or "origin" in headers):
        return
    raise HttpProblemError("unsupported_media_type", "the body has to be application/json in UTF-8")


class Allowance:
    """How much each client may do in a minute: a bucket that fills up evenly; the clients seen last are remembered."""

    def __init__(self, per_minute: int, now: Callable[[], float]) -> None:
        """Allow ``per_minute``, at once or spread."""
        self._most = float(per_minute)
        self._now = now
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> bool:
        """Use one up; whether it was there."""
        left = self._filled(client)
        self._left[client] = (max(0.0, left - 1), self._now())
        self._left.move_to_end(client)
        if len(self._left) > CLIENTS_MAX:
            self._left.popitem(last=False)
        return left >= 1

    def is_used_up(self, client: str) -> bool:
        """Whether nothing is left."""
        return self._filled(client) < 1

    def _filled(self, client: str) -> float:
        left, then = self._left.get(client, (self._most, 0.0))
        return min(self._most, left + (self._now() - then) * self._most / 60)


class _Body:
    """Receives a body no larger and no slower than is allowed."""

    def __init__(self, receive: Receive, settings: WebSettings) -> None:
        self._receive = receive
        self._settings = settings
        self._size = 0
        self._deadline: float | None = None
        self._is_whole = False

    async def __call__(self) -> Message:
        if self._is_whole:
            return await self._receive()
        loop = asyncio.get_running_loop()
        if self._deadline is None:
            self._deadline = loop.time() + self._settings.body_seconds_max
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise HttpProblemError("body_too_slow", "the body did not come within the time limit") from None
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            self._is_whole = not message.get("more_body", False)
            if self._size > self._settings.body_bytes_max:
                limit = self._settings.body_bytes_max
                raise HttpProblemError("body_too_large", f"the body is larger than {limit:,} bytes")
        return message


class _Sending:
    """Sends answers with their protective headers, and counts misses."""

    def __init__(self, send: Send, on_miss: Callable[[], object], answers: Counter[int]) -> None:
        self._answers = answers
        self.status: int | None = None
        self._send = send
        self._on_miss = on_miss

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
            self.status = message["status"]
            self._answers[message["status"] // 100] += 1
            if message["status"] in (401, 404):
                self._on_miss()
        await self._send(message)
