"""How the web face is served: who cannot wait for whom, what is logged, and what is said where a port is taken."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import httpx
import pytest
import uvicorn

from jobledger import JobStore
from jobledger.adapters.web import create_app
from jobledger.adapters.web.connections import PromptConnection
from jobledger.adapters.web.serving import AddressUnusableError, config_of, serve
from jobledger.adapters.worker.logs import JobLogJson


class Hasty(PromptConnection):
    """Waits a fifth of a second for a head."""

    head_seconds_max = 0.2


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    """A server that is in haste, and its place."""
    with JobStore.open("memory:") as store, socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        config = config_of(create_app(store), "127.0.0.1", 0)
        config.http = Hasty
        config.http_protocol_class = Hasty
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, name="server under test")
        thread.start()
        try:
            yield sock.getsockname()
        finally:
            server.should_exit = True
            thread.join(20)


def answered(place: tuple[str, int], *parts: bytes) -> bytes:
    """Send bytes, a little time between them; answers what comes back until the server closes."""
    with socket.create_connection(place, timeout=10) as connection:
        for part in parts:
            connection.sendall(part)
        return connection.recv(65_536)


def test_a_head_that_trickles_is_given_up(address: tuple[str, int]) -> None:
    """Also where nothing is sent at all; a request that comes whole is answered as ever."""
    whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

    deadline = time.monotonic() + 5
    while not (is_up := _healthy(address, whole)) and time.monotonic() < deadline:
        continue
    assert is_up
    assert answered(address, whole[:20]) == b""
    assert answered(address) == b""
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(whole)
        came = b""
        while not came.endswith(b"}"):
            came += connection.recv(65_536)
        assert b"200 OK" in came
        connection.sendall(whole[:20])
        assert connection.recv(65_536) == b""


def _healthy(place: tuple[str, int], request: bytes) -> bool:
    try:
        return b"200 OK" in answered(place, request)
    except OSError:
        return False


class Heard(logging.Handler):
    """Hands every record on."""

    def __init__(self) -> None:
        """Nothing was heard yet."""
        super().__init__()
        self.records: SimpleQueue[logging.LogRecord] = SimpleQueue()

    def emit(self, record: logging.LogRecord) -> None:
        """Hand it on."""
        self.records.put(record)


@pytest.fixture
def heard() -> Iterator[Heard]:
    """What is logged of requests."""
    handler, log = Heard(), logging.getLogger("jobledger.web.requests")
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield handler
    log.removeHandler(handler)
    log.setLevel(level)


def test_a_line_of_the_log_stays_one_line(heard: Heard, address: tuple[str, int]) -> None:
    """What a path holds can neither begin a line nor move a cursor; a query is not logged at all."""
    found = httpx.get(f"http://{address[0]}:{address[1]}/jobs/a%0Aforged%1B%5B31m%E2%80%AE?token=secret")

    record = heard.records.get(timeout=10)

    assert found.status_code == 404
    assert record.getMessage() == "GET /jobs/a\\nforged\\x1b[31m\\u202e 404"
    assert "secret" not in str(vars(record))


def test_a_request_is_one_object_in_the_log(heard: Heard, address: tuple[str, int]) -> None:
    httpx.get(f"http://{address[0]}:{address[1]}/healthz")

    line = json.loads(JobLogJson().format(heard.records.get(timeout=10)))

    assert (line["method"], line["path"], line["status"]) == ("GET", "/healthz", 200)
    assert line["ms"] >= 0


def test_a_port_that_is_taken_is_named_with_what_to_do(tmp_path: Path) -> None:
    with socket.socket() as taken, JobStore.open(f"sqlite:///{tmp_path / 'jobs.db'}") as store:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(AddressUnusableError) as refusal:
            serve(store, host="127.0.0.1", port=port, tokens=None)

    assert str(port) in str(refusal.value)
    assert "--port" in str(refusal.value)
    assert "back off" not in str(refusal.value)
