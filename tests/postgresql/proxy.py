"""A small proxy before a PostgreSQL server that cuts connections at a commit, before or after it came into effect."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, Self

Cut = Literal["before", "after"]

_STARTUP_BYTES = 4
_HEADER = struct.Struct("!cI")


class CommitProxy:
    """Passes everything on in both directions; the next commits meet what stands in ``plan``."""

    def __init__(self, server: Path, folder: Path) -> None:
        """Listen on a socket of the same name in another folder."""
        self.folder = folder
        self.plan: list[Cut | None] = []
        self.commits = 0
        self._server = str(server / ".s.PGSQL.5432")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        """Serve until the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Take no further connections."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                threading.Thread(target=self._up, args=(client, server), daemon=True).start()

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        """Pass messages of the client on, one by one; a commit may be the last one."""
        answers = _Answers(server, client)
        threading.Thread(target=answers.pass_on, daemon=True).start()
        with client, server, _ended(client), _ended(server), suppress(OSError, EOFError):
            server.sendall(_startup(client))
            while True:
                kind, message = _message(client)
                if kind in b"QP" and b"COMMIT\0" in message:
                    self.commits += 1
                    cut = self.plan.pop(0) if self.plan else None
                    if cut == "before":
                        return
                    if cut == "after":
                        answers.keep_back(server, message)
                        return
                server.sendall(message)


@contextmanager
def _ended(connection: socket.socket) -> Generator[None]:
    """Tell both ends at the end, also where a thread still waits for what the other one says."""
    try:
        yield
    finally:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


class _Answers:
    """What the server says, on its way to the client."""

    def __init__(self, server: socket.socket, client: socket.socket) -> None:
        self._server, self._client = server, client
        self._is_kept_back = threading.Event()
        self._has_committed = threading.Event()

    def pass_on(self) -> None:
        with suppress(OSError):
            while said := self._server.recv(65_536):
                if self._is_kept_back.is_set():
                    if b"COMMIT\0" in said:
                        self._has_committed.set()
                        return
                    continue
                self._client.sendall(said)
        self._has_committed.set()

    def keep_back(self, server: socket.socket, message: bytes) -> None:
        """Let the server commit, and nobody know of it."""
        self._is_kept_back.set()
        server.sendall(message)
        self._has_committed.wait(20)


def _startup(client: socket.socket) -> bytes:
    """The first message, which has no kind."""
    head = _exactly(client, _STARTUP_BYTES)
    return head + _exactly(client, int.from_bytes(head) - _STARTUP_BYTES)


def _message(client: socket.socket) -> tuple[bytes, bytes]:
    head = _exactly(client, _HEADER.size)
    kind, length = _HEADER.unpack(head)
    return kind, head + _exactly(client, length - 4)


def _exactly(client: socket.socket, wanted: int) -> bytes:
    found = b""
    while len(found) < wanted:
        if not (more := client.recv(wanted - len(found))):
            raise EOFError
        found += more
    return found
