"""Bad inputs and attacks over HTTP: each is answered as it has to be, and nothing is lost or half-done."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from jobledger import Fence, JobStore, ManualClock
from jobledger.adapters.web import Principal, Scope, WebSettings, create_app
from jobledger.adapters.web.guarding import Allowance
from tests.web.conftest import API, Serve, problem
from tests.web.serving import serving
from tests.web.test_api import JOB, created

KEY = {"Idempotency-Key": "attack"}
AS_JSON = {"Content-Type": "application/json"}
HEAD = f"POST {API}/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"


@pytest.fixture(autouse=True)
def nothing_is_lost(store: JobStore, serve: Serve) -> Iterator[None]:
    """After each attack every history is whole, and the next valid request succeeds."""
    yield
    assert all(verified.ok for verified in store.verify_all())
    assert serve().post("/jobs", json=JOB, headers={"Idempotency-Key": "afterwards"}).status_code in (200, 201)


def raw(web: httpx.Client, request: bytes) -> bytes:
    """Send bytes as they are; answers what comes back until the server closes."""
    address = urlsplit(str(web.base_url))
    with socket.create_connection((str(address.hostname), address.port or 80), timeout=10) as connection:
        connection.sendall(request)
        answered = b""
        with suppress(ConnectionResetError):  # so a server may end what it does not read on
            while chunk := connection.recv(65_536):
                answered += chunk
        return answered


def test_a_create_without_a_key_is_refused(web: httpx.Client, store: JobStore) -> None:
    problem(web.post("/jobs", json=JOB), 400, "idempotency_key_missing")
    assert sum(store.counts().values()) == 0


def test_one_key_at_once_by_many_makes_one_job(web: httpx.Client, store: JobStore) -> None:
    with ThreadPoolExecutor(16) as crowd:
        answers = list(crowd.map(lambda _: web.post("/jobs", json=JOB, headers=KEY), range(100)))

    assert sorted(answer.status_code for answer in answers) == [200] * 99 + [201]
    assert len({answer.json()["job_id"] for answer in answers}) == 1
    assert sum(store.counts().values()) == 1


@pytest.mark.parametrize(
    ("payload", "status"),
    [('{"a":1,"b":2}', 200), ('{ "b" : 2 , "a" : 1 }', 200), ('{"a":1.0,"b":2}', 422), ('{"a":true,"b":2}', 422)],
)
def test_payloads_are_compared_by_their_canonical_form(web: httpx.Client, payload: str, status: int) -> None:
    """The order of keys and white space count as nothing; 1, 1.0 and true are different payloads."""
    body = '{{"owner":"team","kind":"index","payload":{}}}'
    web.post("/jobs", content=body.format('{"a":1,"b":2}'), headers=KEY | AS_JSON)

    assert web.post("/jobs", content=body.format(payload), headers=KEY | AS_JSON).status_code == status


def test_the_same_key_of_another_owner_is_another_job(web: httpx.Client) -> None:
    assert created(web, "k") != created(web, "k", owner="another")


@pytest.mark.parametrize("key", [b"", b" ", b"k" * 256, b"a\tb", "ключ".encode(), b"caf\xe9", b"a\x7fb"], ids=repr)
def test_a_key_that_no_header_should_carry_is_refused(web: httpx.Client, key: bytes) -> None:
    body = json.dumps(JOB).encode()
    answered = raw(web, f"{HEAD}Content-Length: {len(body)}\r\nIdempotency-Key: ".encode() + key + b"\r\n\r\n" + body)

    assert answered.split()[1] == b"400", answered


def test_fields_that_nobody_may_set_are_refused(web: httpx.Client, store: JobStore) -> None:
    for field in ("generation", "state", "is_admin", "job_id", "namespace", "fingerprint", "origin"):
        problem(web.post("/jobs", json=JOB | {field: 1}, headers=KEY), 422, "invalid_request")
    assert sum(store.counts().values()) == 0


WRITES = {
    "renew": {},
    "checkpoint": {"state": 1},
    "unit": {"unit": "u", "receipt": 1},
    "progress": {"done": 1.0},
    "pause": {},
    "defer": {"ready_at": "2027-01-01T00:00:00Z"},
    "cancel": {},
    "fail": {"error": "broke"},
    "complete": {"result": 1},
}


@pytest.mark.parametrize("write", WRITES)
def test_a_worker_that_was_replaced_or_forged_its_fence_writes_nothing(
    web: httpx.Client, store: JobStore, clock: ManualClock, write: str
) -> None:
    """The right numbers with another secret are answered exactly as an old generation is."""
    job_id = created(web)
    old = store.claim(job_id, worker="w1").fence
    clock.advance(timedelta(seconds=60))
    new = store.claim(job_id, worker="w2").fence
    forged = Fence(new.job_id, new.generation, new.group, new.epoch, "guessed")
    before = [event.digest for event in store.history(job_id)]

    for fence in (old, forged):
        headers = {"Jobledger-Fence": fence.to_token()}
        problem(web.post(f"/leases/{write}", json=WRITES[write], headers=headers), 409, "stale_fence")

    assert [event.digest for event in store.history(job_id)] == before


def test_a_renewal_after_the_end_is_refused(web: httpx.Client, store: JobStore) -> None:
    fence = store.claim(created(web), worker="w").fence
    store.complete(fence, result=1)

    response = web.post("/leases/renew", json={}, headers={"Authorization": f"Fence {fence.to_token()}"})

    problem(response, 409, "already_terminal")


def test_a_live_lease_protects_its_worker(web: httpx.Client, store: JobStore) -> None:
    job_id = created(web)
    store.claim(job_id, worker="w")

    problem(web.post(f"/jobs/{job_id}/recover", json={}), 409, "lease_live")
    problem(web.post(f"/jobs/{job_id}/claim", json={"worker": "w"}), 409, "lease_live")


def test_held_work_cannot_be_claimed(web: httpx.Client) -> None:
    job_id = created(web)
    web.post(f"/jobs/{job_id}/hold", json={"reason": "look"})

    problem(web.post(f"/jobs/{job_id}/claim", json={"worker": "w"}), 423, "hold_in_force")


def test_two_effects_on_one_resource_in_one_step_are_refused(web: httpx.Client, store: JobStore) -> None:
    fence = store.claim(created(web), worker="w").fence
    effect = {"resource": "r", "value": 1, "expected_version": 0}

    response = web.post(
        "/leases/checkpoint",
        json={"state": 1, "effects": [effect, effect]},
        headers={"Jobledger-Fence": fence.to_token()},
    )

    assert response.status_code == 422
    assert store.resource("team", "r") is None


# Bodies ---------------------------------------------------------------------------------------------------------------


def test_a_body_beyond_the_limit_is_refused_before_it_is_read(web: httpx.Client) -> None:
    """Also one that does not say its length: it is counted as it comes."""
    head = HEAD + "Idempotency-Key: k\r\n"
    told = raw(web, (head + "Content-Length: 1000000001\r\n\r\n").encode())

    assert told.startswith(b"HTTP/1.1 413")

    def endless() -> Iterator[bytes]:
        yield from (b"[" + b"1," * 100_000 for _ in range(20))

    response = web.post("/jobs", content=endless(), headers=KEY | AS_JSON)
    problem(response, 413, "body_too_large")


def test_a_body_with_an_encoding_is_refused(web: httpx.Client) -> None:
    """A bomb of a thousand to one is never unpacked."""
    for encoding in ("gzip", "br", "deflate", "identity, gzip"):
        headers = KEY | AS_JSON | {"Content-Encoding": encoding}
        problem(web.post("/jobs", content=b"\x1f\x8b", headers=headers), 415, "unsupported_media_type")


def _job(payload: str) -> str:
    return f'{{"owner":"team","kind":"index","payload":{payload}}}'


UNSTORABLE = {
    "depth 100,000": _job("[" * 100_000),
    "closed depth 5,000": _job("[" * 5_000 + "]" * 5_000),
    "depth 65": _job("[" * 65 + "]" * 65),
    "integer of 100,000 digits": _job("9" * 100_000),
    "2^63": _job("9223372036854775808"),
    "NaN": _job("NaN"),
    "Infinity": _job("[-Infinity]"),
    "1e400": _job("1e400"),
    "NUL": _job('"\\u0000"'),
    "NUL in a key": _job('{"a\\u0000":1}'),
    "lone surrogate": _job('"\\ud800"'),
    "doubled key": _job('{"a":1,"a":2}'),
}


@pytest.mark.parametrize("name", UNSTORABLE)
def test_what_no_store_may_hold_is_refused(web: httpx.Client, store: JobStore, name: str) -> None:
    response = web.post("/jobs", content=UNSTORABLE[name], headers=KEY | AS_JSON)

    problem(response, 400, "unstorable_value")
    assert sum(store.counts().values()) == 0


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"\xef\xbb\xbf" + _job("1").encode(), "application/json", 400),
        (_job("1").encode("utf-16"), "application/json", 400),
        (_job("1").encode("utf-16"), "application/json; charset=utf-16", 415),
        (_job('"é"').encode("latin-1"), "application/json", 400),
        (_job("1").encode(), "text/plain", 415),
        (_job("1").encode(), "application/x-www-form-urlencoded", 415),
        (_job("1").encode(), "multipart/form-data; boundary=x", 415),
        (b"{", "application/json", 400),
        (b"", "application/json", 422),
        (b"[]", "application/json", 422),
        (b"null", "application/json", 422),
        (b"!!python/object/apply:os.system ['true']", "application/json", 400),
        (b"\x80\x04\x95", "application/json", 400),
    ],
)
def test_only_json_in_utf_8_is_read(web: httpx.Client, body: bytes, kind: str, status: int) -> None:
    assert web.post("/jobs", content=body, headers=KEY | {"Content-Type": kind}).status_code == status


@pytest.mark.parametrize(
    "instant",
    [
        "10000-01-01T00:00:00Z",
        "infinity",
        "-infinity",
        "2026-06-30T23:59:60Z",
        "2026-06-01T12:00:00",
        "2026-02-30T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "1969-12-31T23:59:59Z",
        "0",
        0,
        1e18,
        True,
        "²026-06-01T12:00:00Z",
    ],
)
def test_an_instant_that_some_store_could_not_read_back_is_refused(web: httpx.Client, instant: Any) -> None:
    problem(web.post("/jobs", json=JOB | {"ready_at": instant}, headers=KEY), 422, "invalid_request")


# Queries --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "1000000000"},
        {"limit": "-1"},
        {"limit": "0"},
        {"limit": "1e3"},
        {"limit": "9" * 5_000},
        {"cursor": "tampered"},
        {"cursor": "eyJ2IjogMX0"},
        {"cursor": "A" * 10_000},
        {"state": "Robert'); DROP TABLE job_status;--"},
        {"held": "maybe"},
    ],
)
def test_a_question_out_of_bounds_is_refused(web: httpx.Client, query: dict[str, str]) -> None:
    assert web.get("/jobs", params=query).status_code == 422


INJECTIONS = [
    "' OR '1'='1",
    "1; DROP TABLE stored_events",
    "$(id)",
    "%00",
    "../../etc/passwd",
    "{{7*7}}",
    "\\",
    "*",
    "%",
    "_",
]


@pytest.mark.parametrize("text", INJECTIONS)
def test_what_looks_like_a_statement_is_data(web: httpx.Client, text: str) -> None:
    created(web, "innocent")
    job_id = created(web, "guilty", kind=text, queue=text, labels={text: text})

    for query in ({"kind": text}, {"queue": text}, {"label": f"{text}={text}"}):
        found = web.get("/jobs", params=query).json()["jobs"]
        assert job_id in [job["job_id"] for job in found] or "=" in text
    assert web.get("/jobs", params={"key_prefix": text}).json()["jobs"] == []


# Who asks -------------------------------------------------------------------------------------------------------------


def test_another_owners_job_is_answered_like_one_that_does_not_exist(serve: Serve, store: JobStore) -> None:
    """Every route by its id: the answers differ in the id alone."""
    theirs = created(serve(), "theirs", owner="other")
    fence = store.claim(theirs, worker="w").fence
    missing = "0" * 8 + "-0000-8000-8000-" + "0" * 12
    mine = serve(principal=Principal("me", "team"))
    document = mine.get("/openapi.json").json()
    tried = 0

    for path, methods in document["paths"].items():
        if "{job_id}" not in path:
            continue
        for method in methods:
            answers = [_call(mine, method, path, job_id, document) for job_id in (theirs, missing)]
            assert answers[0].status_code == answers[1].status_code == 404, (method, path, answers[0].text)
            assert answers[0].text.replace(theirs, missing) == answers[1].text
            tried += 1

    assert tried > 15
    problem(mine.post("/leases/renew", json={}, headers={"Jobledger-Fence": fence.to_token()}), 404, "unknown_job")
    assert mine.get("/jobs").json()["jobs"] == []
    assert mine.get("/feed").json()["entries"] == []
    assert mine.get("/counts").json()["running"] == 0
    problem(mine.get("/jobs", params={"owner": "other"}), 403, "forbidden")
    problem(mine.post("/jobs", json=JOB | {"owner": "other"}, headers=KEY), 403, "forbidden")
    problem(mine.post("/claims", json={"worker": "w"}), 403, "forbidden")


def _call(web: httpx.Client, method: str, path: str, job_id: str, document: Any) -> httpx.Response:
    """Call a route with the least that its model accepts."""
    url = path.removeprefix("/api/v1").replace("{job_id}", job_id)
    if method == "get":
        return web.get(url, params={"name": "n"})
    schema = document["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"]
    model = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    examples: Any = {"reason": "r", "key": "x", "at_sequence": 1, "worker": "w"}
    body = {name: examples[name] for name in model.get("required", [])}
    return web.post(url, json=body, headers={"If-Match": "*"})


@pytest.mark.parametrize(
    ("scope", "allowed"),
    [
        (Scope.SUBMIT, "submit"),
        (Scope.READ, "read"),
        (Scope.OPERATE, "operate"),
        (Scope.WORK, "work"),
        (Scope.AUDIT, "audit"),
    ],
)
def test_each_scope_allows_its_own_and_nothing_else(serve: Serve, scope: Scope, allowed: str) -> None:
    job_id = created(serve())
    web = serve(principal=Principal("me", None, frozenset({scope})))
    calls: dict[str, Callable[[], httpx.Response]] = {
        "submit": lambda: web.post("/jobs", json=JOB, headers={"Idempotency-Key": "new"}),
        "read": lambda: web.get("/jobs"),
        "operate": lambda: web.post(f"/jobs/{job_id}/hold", json={"reason": "r"}),
        "work": lambda: web.post(f"/jobs/{job_id}/claim", json={"worker": "w"}),
        "audit": lambda: web.get(f"/jobs/{job_id}/verification"),
        "admin": lambda: web.post("/recoveries", json={}),
    }

    for name, call in calls.items():
        if name == allowed:
            assert call().status_code != 403
        else:
            problem(call(), 403, "forbidden")


def test_nobody_acts_in_anothers_name(serve: Serve) -> None:
    job_id = created(serve())
    web = serve(principal=Principal("me", None, frozenset({Scope.OPERATE})))

    problem(web.post(f"/jobs/{job_id}/hold", json={"reason": "r", "by": "the boss"}), 403, "forbidden")
    problem(web.post(f"/jobs/{job_id}/recover", json={"by": "the boss"}), 403, "forbidden")


def test_who_is_unknown_is_told_nothing(serve: Serve, face: Any) -> None:
    web = serve()
    face[0].state.service = replace(face[0].state.service, resolver=lambda _: None)

    for answer in (
        web.get("/jobs"),
        web.get("/jobs/x"),
        web.post("/jobs", json=JOB, headers=KEY),
        web.post("/leases/renew", json={}),
    ):
        assert problem(answer, 401, "unauthenticated")
        assert answer.headers["www-authenticate"] == "Bearer"


def test_secret_fields_are_shown_to_workers_only(serve: Serve) -> None:
    payload = {"user": "ann", "Password": "hunter2", "nested": [{"api_key": "hunter2"}]}
    job_id = created(serve(), payload=payload)
    reader = serve(principal=Principal("me", None, frozenset({Scope.READ})))

    for path in (f"/jobs/{job_id}", "/jobs", f"/jobs/{job_id}/events", "/feed"):
        assert "hunter2" not in reader.get(path).text
        assert "ann" in reader.get(path).text
    worker = serve(principal=Principal("w", None, frozenset({Scope.WORK, Scope.READ})))
    assert worker.get(f"/jobs/{job_id}").json()["payload"] == payload


# Browsers and connections ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
    ],
)
def test_a_page_of_another_site_changes_nothing(web: httpx.Client, store: JobStore, headers: dict[str, str]) -> None:
    problem(web.post("/jobs", json=JOB, headers=KEY | headers), 403, "cross_site")
    assert sum(store.counts().values()) == 0


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "", "[::1"])
def test_an_unknown_host_name_is_refused(web: httpx.Client, host: str) -> None:
    """A name that was bound anew to this address reaches nothing."""
    answered = raw(web, f"GET {API}/jobs HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())

    assert answered.split()[1] in (b"421", b"400"), answered


def test_every_answer_protects_its_reader(web: httpx.Client) -> None:
    for answer in (web.get("/jobs"), web.get("/nothing"), web.get("/jobs", headers={"Host": "evil.example"})):
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "unsafe-inline" not in answer.headers["content-security-policy"]


SMUGGLED = {
    "both lengths": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
    "two lengths": b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    "a negative length": b"Content-Length: -1\r\n\r\n",
    "a signed length": b"Content-Length: +2\r\n\r\n{}",
    "a length with a gap": b"Content-Length: 1 0\r\n\r\n{}",
    "an unknown encoding": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a folded header": b"X: a\r\n b\r\nContent-Length : 2\r\n\r\n{}",
}


@pytest.mark.parametrize("name", SMUGGLED)
def test_a_request_that_two_servers_could_read_differently_is_refused(web: httpx.Client, name: str) -> None:

    answered = raw(web, HEAD.encode() + SMUGGLED[name])

    statuses = re.findall(rb"HTTP/1\.1 (\d+) ", answered)
    assert statuses, "nothing was answered"
    assert set(statuses) <= {b"400", b"501", b"415", b"422"}, answered


def test_a_request_without_a_version_is_refused(web: httpx.Client) -> None:
    assert b"400" in raw(web, b"GET /api/v1/jobs\r\n\r\n").splitlines()[0]


def test_headers_without_end_are_refused(web: httpx.Client) -> None:
    answered = raw(
        web, b"GET /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: " + b"a" * 200_000 + b"\r\n\r\n"
    )

    assert not answered or answered.split()[1] in (b"400", b"431")


def test_a_body_that_trickles_is_given_up(web: httpx.Client) -> None:
    """The time for a body is bounded, whatever of it has come."""
    head = HEAD + "Idempotency-Key: k\r\n"
    address = urlsplit(str(web.base_url))
    with socket.create_connection((str(address.hostname), address.port or 80), timeout=20) as connection:
        connection.sendall((head + "Content-Length: 100\r\n\r\n{").encode())

        assert connection.recv(4_096).startswith(b"HTTP/1.1 408")


def test_too_many_misses_end_guessing() -> None:
    now = 1_000.0
    allowance = Allowance(3, lambda: now)

    assert [allowance.take("a") for _ in range(4)] == [True, True, True, False]
    assert allowance.is_used_up("a")
    assert not allowance.is_used_up("b")
    now += 20
    assert not allowance.is_used_up("a")


def test_guessing_ids_is_ended(store: JobStore) -> None:
    with serving(create_app(store, settings=WebSettings(misses_per_minute=5))) as address, httpx.Client() as client:
        guesses = [client.get(f"{address}{API}/jobs/{number}") for number in range(8)]

    assert [guess.status_code for guess in guesses] == [404] * 5 + [429] * 3
    assert int(guesses[-1].headers["retry-after"]) > 0
