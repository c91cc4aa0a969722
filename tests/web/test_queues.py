"""Queues over HTTP and on their pages: limits and holds over all hosts, guarded, and for those who see every owner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from jobledger import JobStore
from jobledger.adapters.web import Principal, Scope
from tests.web.conftest import API, Serve, problem
from tests.web.test_api import created

NAMED = {"name": "a/b ..?&#"}
WHY = {"reason": "look"}
LIMITS: dict[str, Any] = {"running_max": 2, "starts_max": 10, "starts_span_s": 60, "share_by": "owner"}
SAME_SITE = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def pages(web: httpx.Client) -> Iterator[httpx.Client]:
    """A client of the pages, as a browser on them would ask."""
    with httpx.Client(base_url=str(web.base_url).removesuffix(f"{API}/"), headers=SAME_SITE, timeout=20) as client:
        yield client


# The API --------------------------------------------------------------------------------------------------------------


def test_a_queue_is_limited_read_and_listed(web: httpx.Client, store: JobStore) -> None:
    receipt = web.post("/queue/limit", params=NAMED, json=LIMITS | WHY)

    assert receipt.json() == {"name": NAMED["name"], "sequence": 1, "reused": False}
    read = web.get("/queue", params=NAMED)
    assert read.headers["etag"] == receipt.headers["etag"] == '"1-1"'
    assert read.json()["limits"] == LIMITS | {"running_max_per_share": None, "ageing_s": None}
    assert [each["name"] for each in web.get("/queues").json()["queues"]] == [NAMED["name"]]
    [event] = web.get("/queue/events", params=NAMED).json()["events"]
    assert (event["data"]["by"], event["data"]["reason"]) == ("operator", "look")
    assert web.get("/queue/verification", params=NAMED).json()["ok"]
    assert store.queues.get(NAMED["name"]).limits.running_max == 2


@pytest.mark.parametrize("path", ["/queue", "/queue/events", "/queue/history", "/queue/verification"])
def test_a_name_that_cannot_be_is_refused_before_an_answer_begins(web: httpx.Client, path: str) -> None:
    """A streamed answer that breaks off would look like a whole one."""
    problem(web.get(path, params={"name": "\0"}), 400, "unstorable_value")


def test_the_whole_namespace_is_held_without_a_name(web: httpx.Client, store: JobStore) -> None:
    job_id = created(web)

    assert web.post("/queue/hold", json=WHY).json()["name"] is None
    problem(web.post(f"/jobs/{job_id}/claim", json={"worker": "w"}), 423, "queue_held")
    page = web.get("/queues").json()
    assert page["whole"]["hold"]["reason"] == "look"
    assert page["queues"][0]["is_held"]
    assert store.queues.get(None).is_held


def test_a_release_that_must_not_act_late_says_which_queue_was_seen(web: httpx.Client) -> None:
    seen = web.get("/queue", params=NAMED).headers["etag"]
    held = web.post("/queue/hold", params=NAMED, json=WHY, headers={"If-Match": seen}).headers["etag"]

    assert seen == '"0-0"'
    problem(web.post("/queue/release", params=NAMED, json=WHY), 428, "precondition_required")
    problem(web.post("/queue/release", params=NAMED, json=WHY, headers={"If-Match": seen}), 412, "sequence_moved")
    assert web.post("/queue/release", params=NAMED, json=WHY, headers={"If-Match": held}).status_code == 200


@pytest.mark.parametrize(
    "limits",
    [
        {"running_max": 0},
        {"starts_max": 5},
        {"share_by": "mood"},
        {"ageing_s": -1},
        {"starts_max": 1, "starts_span_s": 1e300},
    ],
)
def test_limits_that_cannot_be_are_refused(web: httpx.Client, store: JobStore, limits: dict[str, Any]) -> None:
    problem(web.post("/queue/limit", params=NAMED, json=limits | WHY), 422, "invalid_request")
    assert store.queues.get(NAMED["name"]).sequence == 0


def test_a_token_of_one_owner_is_told_nothing_of_queues(serve: Serve) -> None:
    """They are shared: what runs in one is other owners' business too."""
    mine = serve(principal=Principal("me", "team"))

    for path in ("/queues", "/queue", "/queue/events", "/queue/history", "/queue/verification"):
        problem(mine.get(path, params=NAMED if path != "/queues" else {}), 403, "forbidden")
    for path in ("/queue/limit", "/queue/hold", "/queue/release"):
        problem(mine.post(path, params=NAMED, json=WHY, headers={"If-Match": "*"}), 403, "forbidden")


def test_each_scope_allows_its_own_on_queues(serve: Serve) -> None:
    calls = {
        Scope.READ: ("GET", "/queue"),
        Scope.OPERATE: ("POST", "/queue/limit"),
        Scope.AUDIT: ("GET", "/queue/verification"),
        Scope.ADMIN: ("POST", "/queues/rebuild"),
    }
    for scope in (*calls, Scope.SUBMIT, Scope.WORK):
        web = serve(principal=Principal("me", None, frozenset({scope})))
        for needed, (method, path) in calls.items():
            answer = web.request(method, path, params=NAMED, json=None if method == "GET" else WHY)
            assert (answer.status_code == 403) == (scope not in {needed, Scope.ADMIN}), (scope, path, answer.text)


# The pages ------------------------------------------------------------------------------------------------------------


def test_the_page_tells_what_runs_and_what_limits_it(pages: httpx.Client, web: httpx.Client, store: JobStore) -> None:
    for key in ("a", "b"):
        created(web, key, queue="mail")
    store.queues.limit("mail", by="ann", reason="the server asks for it", running_max=1, share_by="owner")
    store.claim_next(worker="w", queues=("mail",), limit=2)
    store.run_projections()

    listed = pages.get("/queues").text
    one = pages.get("/queue", params={"name": "mail"}).text

    assert "1 of 1" in listed
    assert "1 running, shares by owner" in listed
    assert "the server asks for it" in one
    assert 'data-lines="' in one


@pytest.mark.parametrize("name", ["mail", None])
def test_a_queue_is_held_and_released_on_its_page(pages: httpx.Client, store: JobStore, name: str | None) -> None:
    named = {"name": name} if name else {}

    held = pages.post("/queue/controls/hold", params=named, data={"reason": "as planned", "seen": 0})
    late = pages.post("/queue/controls/release", params=named, data={"reason": "too late", "seen": 0})

    assert held.status_code == 303
    assert late.status_code == 412
    assert 'role="alert"' in late.text
    hold = store.queues.get(name).hold
    assert hold is not None
    assert (hold.by, hold.reason) == ("operator", "as planned")


def test_limits_are_given_on_the_page(pages: httpx.Client, store: JobStore) -> None:
    """What is left empty is not limited; what is no number is refused by its field."""
    form = {"reason": "r", "seen": 0, "running_max": "3", "starts_max": "", "starts_span": "", "share_by": "kind"}

    wrong = pages.post("/queue/controls/limit", params=NAMED, data=form | {"running_max": "many"})
    right = pages.post("/queue/controls/limit", params=NAMED, data=form)

    assert (wrong.status_code, right.status_code) == (422, 303)
    assert "running_max" in wrong.text
    limits = store.queues.get(NAMED["name"]).limits
    assert (limits.running_max, limits.starts_max, limits.share_by) == (3, None, "kind")
