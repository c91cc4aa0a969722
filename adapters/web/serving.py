"""Serving a web face with uvicorn: on the loopback address unless callers are asked who they are."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import uvicorn

from jobledger.adapters.web.app import create_app
from jobledger.adapters.web.connections import PromptConnection
from jobledger.adapters.web.settings import LOOPBACK, WebSettings
from jobledger.domain.errors import InvalidRequestError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastapi import FastAPI

    from jobledger.adapters.bootstrap import JobStore
    from jobledger.adapters.web.tokens import TokenFile

GRACE_SECONDS: Final = 3
HEADER_BYTES_MAX: Final = 32 * 1024


@dataclass(eq=False, repr=False)
class AddressUnusableError(UnavailableError):
    """The address that a server is to listen on is taken, or none of this machine; the store has no part in it."""

    code = "address_unusable"
    host: str
    port: int

    def __str__(self) -> str:
        return (
            f"port {self.port} of {self.host} cannot be listened on: another program has it, or the address is none of "
            "this machine; choose another with --port or --host"
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serve(
    store: JobStore,
    *,
    host: str,
    port: int,
    tokens: TokenFile | None,
    host_names: Sequence[str] = (),
    on_start: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Args:
        store: what is served.
        host: the address to listen on; one that others can reach needs ``tokens``.
        port: 0 takes a free one.
        tokens: those that callers must have; ``None`` lets everybody do everything.
        host_names: further names that the ``Host`` header may carry.
        on_start: is told the address once the server listens.

    Raises:
        InvalidRequestError: an address that others can reach, without tokens.
        AddressUnusableError: the address cannot be listened on.
    """
    if tokens is None and not is_loopback(host):
        problem = (
            f"{host} can be reached from elsewhere; make a token first ('jobledger tokens create') and give --tokens"
        )
        raise InvalidRequestError("host", problem)
    names = (*LOOPBACK, *host_names, *(() if is_loopback(host) or host in {"0.0.0.0", "::"} else (host,)))  # noqa: S104  # it is compared, not bound
    app = create_app(store, settings=WebSettings(hosts=names), tokens=tokens)
    server = _Server(config_of(app, host, port), on_start)
    try:
        server.run()
    except SystemExit as end:
        raise AddressUnusableError(host, port) from end


def config_of(app: FastAPI, host: str, port: int) -> uvicorn.Config:
    """How uvicorn serves the face: no line of its own in the log, and nobody waits for slow heads."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        h11_max_incomplete_event_size=HEADER_BYTES_MAX,
        http=PromptConnection,
    )


class _Server(uvicorn.Server):
    """A server that says where it listens."""

    def __init__(self, config: uvicorn.Config, on_start: Callable[[str], None]) -> None:
        super().__init__(config)
        self._on_start = on_start

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]  # the sockets are passed on
        await super().startup(sockets)  # type: ignore[arg-type]  # as above
        if self.should_exit or not self.servers:
            return
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        self._on_start(f"http://{f'[{host}]' if ':' in host else host}:{port}")
