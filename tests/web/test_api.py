"""The HTTP API: what each route answers, and how a refusal reads."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from jobledger import JobRequest, JobStore, Policy
from jobledger.adapters.web import create_app
from jobledger.adapters.wire.jobs import LimitsOut
from jobledger.adapters.wire.problems import CLASSES, FAMILIES, problem_of
from jobledger.domain import errors
from jobledger.domain.errors import StoreUnavailableError
from tests.web.conftest import API, problem
from tests.web.serving import serving

JOB: dict[str, Any] = {"owner": "team", "kind": "index", "payload": {"n": 1}}


def created(web: httpx.Client, key: str = "k", **fields: Any) -> str:
    response = web.post("/jobs", json=JOB | fields, headers={"Idempotency-Key": key})
    assert response.status_code in (200, 201), response.text
    job_id: str = response.json()["job_id"]
    return job_id


def test_a_repeated_create_is_answered_with_the_recorded_receipt(web: httpx.Client) -> None:
    first = web.post("/jobs", json=JOB, headers={"Idempotency-Key": "k"})
    second = web.post("/jobs", json=JOB, headers={"Idempotency-Key": "k"})

    assert (first.status_code, second.status_code) == (201, 200)
    assert second.json() == first.json() | {"reused": True}


def test_a_job_without_a_key_is_made_once_for_each_command_id(web: httpx.Client) -> None:
    made = [web.post("/jobs", json=JOB, headers={"Command-Id": name}).json()["job_id"] for name in ("a", "a", "b")]

    assert made[0] == made[1] != made[2]


def test_the_tag_of_a_job_guards_controls_that_must_not_act_late(web: httpx.Client) -> None:
    """A release on what an operator saw long ago is refused; on what stands now it is accepted."""
    job_id = created(web)
    seen = web.get(f"/jobs/{job_id}").headers["etag"]
    held = web.post(f"/jobs/{job_id}/hold", json={"reason": "look"}, headers={"If-Match": seen})

    late = web.post(f"/jobs/{job_id}/release", json={"reason": "go on"}, headers={"If-Match": seen})
    now = web.post(f"/jobs/{job_id}/release", json={"reason": "go on"}, headers={"If-Match": held.headers["etag"]})

    problem(late, 412, "sequence_moved")
    assert now.json()["state"] == "paused"
    problem(web.post(f"/jobs/{job_id}/release", json={"reason": "go on"}), 428, "precondition_required")


@pytest.mark.parametrize("tag", ['"x"', '"1-"', '"1-0"', '"-"', '"1-99999999999999999999"', "W/", '"1-²"'])
def test_a_tag_that_no_job_was_given_is_refused(web: httpx.Client, tag: str) -> None:
    job_id = created(web)

    refused = web.post(f"/jobs/{job_id}/release", json={"reason": "r"}, headers={b"If-Match": tag.encode()})

    problem(refused, 412, "precondition_failed")


def test_a_control_names_who_asked_and_why(web: httpx.Client, store: JobStore) -> None:
    job_id = created(web)

    web.post(f"/jobs/{job_id}/hold", json={"reason": "the disk is full"})

    hold = store.status(job_id).hold
    assert hold is not None
    assert (hold.by, hold.reason) == ("operator", "the disk is full")


def test_a_control_without_a_reason_is_refused(web: httpx.Client) -> None:
    job_id = created(web)

    problem(web.post(f"/jobs/{job_id}/hold", json={}), 422, "invalid_request")
    problem(web.post(f"/jobs/{job_id}/hold", json={"reason": "  "}), 422, "invalid_request")


def test_a_job_is_read_at_a_sequence_and_at_an_instant(web: httpx.Client) -> None:
    job_id = created(web)
    web.post(f"/jobs/{job_id}/cancel", json={"reason": "not needed"})

    assert web.get(f"/jobs/{job_id}").json()["state"] == "cancelled"
    assert web.get(f"/jobs/{job_id}", params={"at": "1"}).json()["state"] == "queued"
    assert web.get(f"/jobs/{job_id}", params={"at": "2026-06-01T12:00:00Z"}).json()["state"] == "cancelled"
    problem(web.get(f"/jobs/{job_id}", params={"at": "9"}), 404, "unknown_sequence")


def test_a_cursor_older_than_the_window_gets_the_boundary(web: httpx.Client, store: JobStore) -> None:
    job_id = created(web, policy="narrow")
    fence = store.claim(job_id, worker="w").fence
    for number in range(60):
        store.report_progress(fence, number)

    window = web.get(f"/jobs/{job_id}/events", params={"after": 1}).json()

    assert window["snapshot"]["sequence"] == window["floor"] - 1
    assert window["events"][0]["sequence"] == window["floor"] > 2


def test_the_history_is_streamed_whole(web: httpx.Client, store: JobStore) -> None:
    job_id = created(web, policy="narrow")
    fence = store.claim(job_id, worker="w").fence
    for number in range(60):
        store.report_progress(fence, number)

    lines = web.get(f"/jobs/{job_id}/history").text.splitlines()

    assert [json.loads(line)["sequence"] for line in lines] == list(range(1, 63))


def test_a_dropped_checkpoint_is_told_and_never_pretended(web: httpx.Client, store: JobStore) -> None:
    job_id = created(web)
    fence = store.claim(job_id, worker="w").fence
    for number in range(12):
        store.checkpoint(fence, {"big": "x" * 5_000, "number": number})

    then = web.get(f"/jobs/{job_id}", params={"at": "3"}).json()

    assert then["checkpoint"] is None
    assert then["dropped"][0]["field"] == "checkpoint"
    assert then["dropped"][0]["size"] > 5_000


def test_values_travel_exactly(web: httpx.Client) -> None:
    """Integers of 64 bit, floats of 17 digits and minus zero come back as they were sent."""
    values = "[9223372036854775807,0.1000000000000000055,-0.0,9007199254740993,1.0,1]"
    text = f'{{"owner":"team","kind":"index","payload":{values}}}'
    sent = web.post(
        "/jobs", content=text, headers={"Idempotency-Key": "exact", "Content-Type": "application/json"}
    ).json()

    given = web.get(f"/jobs/{sent['job_id']}").text

    assert '"payload":[9223372036854775807,0.1,-0.0,9007199254740993,1.0,1]' in given


def test_every_limit_of_a_policy_travels_exactly() -> None:
    policy = Policy(lease=2.5, renew_every=0.1, run_time_max=7200.25, keep_finished=86_400, queue_depth_max=3)

    assert LimitsOut.of(policy).policy() == policy


def test_every_error_of_the_domain_has_a_family_and_comes_back_as_itself() -> None:
    """What a client raises is what the store raised, with its fields."""
    leaves = [
        getattr(errors, name)
        for name in errors.__all__
        if getattr(errors, name) not in (*FAMILIES, errors.JobledgerError)
    ]

    assert {leaf.code for leaf in leaves} == set(CLASSES)
    refusal = errors.PayloadTooLargeError(80, 64)
    back = problem_of(refusal).error()
    assert type(back) is errors.PayloadTooLargeError
    assert back.args == refusal.args


def test_what_a_store_says_of_itself_stays_in_the_log() -> None:
    """Paths, hosts and statements of the store are nobody's business outside."""
    shown = problem_of(StoreUnavailableError("/srv/secret/jobs.db is locked: SELECT * FROM stored_events"))

    assert "secret" not in shown.model_dump_json()
    assert "SELECT" not in shown.model_dump_json()
    assert shown.status == 503


def test_the_document_of_the_api_is_complete(web: httpx.Client) -> None:
    """Every operation has a sentence, an example or a typed answer, and its problems; no object is without a type."""
    document = web.get("/openapi.json").json()

    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if not path.startswith(API):
                continue
            where = f"{method} {path}"
            assert operation.get("description"), where
            assert "application/problem+json" in operation["responses"]["422"]["content"], where
            assert "application/problem+json" in operation["responses"]["404"]["content"], where
    for name, schema in document["components"]["schemas"].items():
        for field, described in schema.get("properties", {}).items():
            untyped = described.get("type") == "object" and "additionalProperties" not in described
            assert not untyped, f"{name}.{field}"


def test_reading_changes_nothing(web: httpx.Client, store: JobStore) -> None:
    """GET has no effects, whatever is asked."""
    job_id = created(web)
    before = (store.status(job_id), store.counts(), store.feed())
    document = web.get("/openapi.json").json()

    for path, methods in document["paths"].items():
        if "get" in methods:
            web.get(
                path.removeprefix("/api/v1").replace("{job_id}", job_id), params={"key": "k", "name": "n", "group": "g"}
            )

    assert (store.status(job_id), store.counts(), store.feed()) == before


def test_an_app_is_mounted_under_a_prefix(store: JobStore) -> None:
    store.create(JobRequest(owner="team", kind="index", key="k"))
    outer = FastAPI()
    outer.mount("/ops/jobs", create_app(store))

    with serving(outer) as address:
        assert httpx.get(f"{address}/ops/jobs/api/v1/counts").json()["queued"] == 1
