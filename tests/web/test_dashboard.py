"""The pages without a browser: what they show, what they refuse, and that they show other people's text as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from fastapi import FastAPI

from jobledger import JobStore, Schedule
from jobledger.adapters.web import Principal, Scope, create_app
from tests.web.conftest import API, Serve
from tests.web.serving import serving
from tests.web.test_api import created

SAME_SITE = {"Sec-Fetch-Site": "same-origin"}
NASTY = "<script>alert(1)</script>\"'\u202e=cmd()\x1b[31m"


@pytest.fixture
def pages(serve: Serve) -> Iterator[httpx.Client]:
    """A client of the pages, as a browser on them would ask."""
    api = serve()
    with httpx.Client(base_url=str(api.base_url).removesuffix(f"{API}/"), headers=SAME_SITE, timeout=20) as client:
        yield client


@pytest.mark.parametrize("path", ["/", "/jobs", "/schedules", "/workers", "/operators", "/system", "/login"])
def test_every_page_says_what_to_do_when_there_is_nothing(pages: httpx.Client, path: str) -> None:
    answer = pages.get(path)

    assert answer.status_code == 200, answer.text
    assert "<h1>" in answer.text
    assert "text/html" in answer.headers["content-type"]


def test_other_peoples_text_is_shown_as_text(pages: httpx.Client, serve: Serve, store: JobStore) -> None:
    """Payloads, errors, names and reasons can neither run nor turn the reading direction."""
    text = NASTY.replace("\x1b", "\u200f")
    job_id = created(serve(), "k", owner=text, kind=text, queue=text, payload={text: text}, labels={text: text})
    fence = store.claim(job_id, worker=text).fence
    store.record_unit(fence, text, text)
    store.checkpoint(fence, {text: text})
    store.hold(job_id, by=text, reason=text)
    store.fail_attempt(fence, text)

    store.schedules.put(Schedule(text, text, every=1, owner=text, queue=text, payload={text[:9]: text}), by=text)
    store.schedules.trigger(text, by=text, reason=text)
    store.schedules.hold(text, by=text, reason=text)
    schedule = f"/schedule?{urlencode({'name': text})}"

    for path in (
        *("/", "/jobs", "/workers", "/operators", f"/jobs/{job_id}", f"/jobs/{job_id}/at?n=2"),
        *("/schedules", schedule),
    ):
        page = pages.get(path)
        assert page.status_code == 200, (path, page.text[:500])
        assert "<script>alert" not in page.text, path
        assert "\u202e" not in page.text, path


def test_no_page_has_code_or_style_in_it(pages: httpx.Client, serve: Serve, store: JobStore) -> None:
    """The policy of the pages forbids it; a page that has some would be broken in the browser."""
    job_id = created(serve())
    store.schedules.put(Schedule("s", "index", every=60), by="ann")

    for path in (
        *("/", "/jobs", f"/jobs/{job_id}", "/workers", "/operators", "/system", "/login", "/jobs/nope"),
        *("/schedules", "/schedule?name=s"),
    ):
        page = pages.get(path).text
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=|javascript:", page), path
        assert not re.search(r"(?:src|href)=\"(?:https?:)?//", page), path


@pytest.mark.parametrize("control", ["hold", "request_cancel", "retry"])
def test_a_control_is_asked_with_a_reason_and_as_the_job_was_seen(
    pages: httpx.Client, serve: Serve, store: JobStore, control: str
) -> None:
    job_id = created(serve(), ready_at="2027-01-01T00:00:00Z")
    seen = {"reason": "as planned", "seen": store.status(job_id).control_sequence}

    accepted = pages.post(f"/jobs/{job_id}/controls/{control}", data=seen)
    late = pages.post(f"/jobs/{job_id}/controls/{control}", data=seen)

    assert accepted.status_code == 303
    assert list(store.history(job_id))[-1].data["reason"] == "as planned"
    assert late.status_code in (409, 412)
    assert 'role="alert"' in late.text


def test_a_control_without_a_reason_is_refused(pages: httpx.Client, serve: Serve, store: JobStore) -> None:
    job_id = created(serve())

    assert pages.post(f"/jobs/{job_id}/controls/hold", data={"reason": " ", "seen": 1}).status_code == 422
    assert store.status(job_id).hold is None


@pytest.mark.parametrize(
    "path", ["/operators?cursor=" + "x" * 2_000, "/schedule", "/jobs?cursor=tampered", "/schedule?name=no"]
)
def test_a_mistaken_address_is_answered_with_a_page(pages: httpx.Client, path: str) -> None:
    """Also one that the framework refuses before the page is asked."""
    answer = pages.get(path)

    assert answer.status_code in (404, 422)
    assert "text/html" in answer.headers["content-type"]
    assert 'role="alert"' in answer.text


def test_a_form_of_another_site_changes_nothing(pages: httpx.Client, serve: Serve, store: JobStore) -> None:
    job_id = created(serve())
    form = {"reason": "evil", "seen": 1}

    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):
        assert pages.post(f"/jobs/{job_id}/controls/hold", data=form, headers=headers).status_code == 403
    with httpx.Client(base_url=pages.base_url) as bare:
        for more in ({}, {"Origin": "null"}, {"Origin": "https://evil.example"}):
            assert bare.post(f"/jobs/{job_id}/controls/hold", data=form, headers=more).status_code in (403, 415)
    assert store.status(job_id).hold is None


def test_one_reason_is_given_to_all_that_match(pages: httpx.Client, serve: Serve, store: JobStore) -> None:
    """Each job is asked by itself; those that refuse are told with their code."""
    api = serve()
    ids = [created(api, f"k{number}") for number in range(3)]
    store.request_cancel(ids[0], by="bob", reason="gone")

    answer = pages.post("/jobs/act?kind=index", data={"control": "hold", "reason": "the disk is full"})

    assert "2 accepted, 1 refused" in answer.text
    assert "already_terminal" in answer.text
    assert [store.status(job_id).hold is not None for job_id in ids] == [False, True, True]


def test_time_travel_shows_each_version_and_what_changed(pages: httpx.Client, serve: Serve, store: JobStore) -> None:
    job_id = created(serve())
    fence = store.claim(job_id, worker="w").fence
    store.checkpoint(fence, {"next": 1})
    store.complete(fence, result="done")

    for sequence, state in enumerate(["queued", "running", "running", "complete"], start=1):
        part = pages.get(f"/jobs/{job_id}/at", params={"n": sequence}).text
        assert f'data-at="{sequence}"' in part
        assert f'class="state state-{state}"' in part
    assert "checkpoint" in pages.get(f"/jobs/{job_id}/at", params={"n": 3}).text


def test_a_verified_history_has_its_badge(pages: httpx.Client, serve: Serve) -> None:
    job_id = created(serve())

    assert "verified to event 1" in pages.get(f"/jobs/{job_id}/badge").text


def test_controls_that_are_not_available_are_shown_with_why(pages: httpx.Client, serve: Serve) -> None:
    page = pages.get(f"/jobs/{created(serve())}").text

    assert "not_held" in page
    assert "there is nothing to release" in page


def test_who_may_not_act_is_shown_no_forms(serve: Serve, pages: httpx.Client, face: tuple[FastAPI, str]) -> None:
    job_id = created(serve())
    reader = Principal("me", None, frozenset({Scope.READ, Scope.AUDIT}))
    face[0].state.service = replace(face[0].state.service, resolver=lambda _: reader)

    assert '<form method="post"' not in pages.get(f"/jobs/{job_id}").text
    assert pages.post(f"/jobs/{job_id}/controls/hold", data={"reason": "r", "seen": 1}).status_code == 403


def test_a_page_works_under_a_prefix(store: JobStore) -> None:
    outer = FastAPI()
    outer.mount("/ops/jobs", create_app(store))

    with serving(outer) as address, httpx.Client(base_url=f"{address}/ops/jobs") as client:
        page = client.get("/").text
        links: Any = re.findall(r"(?:href|src)=\"(/[^\"]*)\"", page)
        assert links
        assert all(link.startswith("/ops/jobs/") for link in links), links
        assert httpx.get(f"{address}/ops/jobs/static/app.js").headers["cache-control"].startswith("public")
