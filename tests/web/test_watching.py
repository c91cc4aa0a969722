"""What watches over the whole: numbers for machines, and the pages on paces, workers, operators and projections."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from html import unescape
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from jobledger import JobStore, ManualClock, Schedule
from jobledger.adapters.web import Principal
from tests.web.conftest import API, Serve
from tests.web.test_api import created

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations"


@pytest.fixture
def pages(serve: Serve) -> Iterator[httpx.Client]:
    """A client of the pages."""
    api = serve()
    with httpx.Client(base_url=str(api.base_url).removesuffix(f"{API}/"), timeout=20) as client:
        yield client


def lived(web: httpx.Client, store: JobStore, clock: ManualClock) -> None:
    """A job that lost a worker and then ended well, one that failed once, and one that was held."""
    first = created(web, "first", queue="slow")
    store.claim(first, worker="lost-worker")
    clock.advance(timedelta(seconds=45))
    fence = store.claim(first, worker="host-7").fence
    clock.advance(timedelta(seconds=3))
    store.complete(fence, result=1)
    second = created(web, "second")
    store.fail_attempt(store.claim(second, worker="host-7").fence, "it broke")
    store.hold(second, by="ann", reason="look at it first")
    store.run_projections()


# For machines ---------------------------------------------------------------------------------------------------------


def test_health_is_told_without_a_token(serve: Serve, pages: httpx.Client, face: tuple[FastAPI, str]) -> None:
    serve()
    face[0].state.service = replace(face[0].state.service, resolver=lambda _: None)

    assert pages.get("/healthz").json() == {"status": "ok"}
    assert pages.get("/readyz").json() == {"status": "ok"}


def test_prometheus_reads_the_store_and_the_process(pages: httpx.Client, serve: Serve, store: JobStore) -> None:
    """Every process tells the same of the store: nothing of it is remembered in one of them."""
    job_id = created(serve())
    store.hold(job_id, by="ann", reason="look")
    pages.get("/jobs/nope")

    told = pages.get("/metrics").text

    assert 'jobledger_jobs{state="paused"} 1.0' in told
    assert "jobledger_jobs_held 1.0" in told
    assert "jobledger_store_up 1.0" in told
    assert "jobledger_leases_abandoned 0.0" in told
    assert "jobledger_web_answers_total" in told


@pytest.mark.parametrize("name", ["alerts.yml", "grafana.json"])
def test_what_monitoring_is_given_asks_for_what_is_told(pages: httpx.Client, name: str) -> None:
    """An alert on a number that nobody tells would never be heard."""
    text = (OPERATIONS / name).read_text(encoding="utf-8")

    asked = {re.sub(r"_(total|bucket|sum|count)$", "", each) for each in re.findall(r"\bjobledger_[a-z_]+", text)}

    assert len(asked) >= 5
    told = pages.get("/metrics").text
    assert [each for each in sorted(asked) if not re.search(rf"# TYPE {each}(_total)? ", told)] == []


def test_totals_are_told_by_queue_and_kind(
    pages: httpx.Client, web: httpx.Client, store: JobStore, clock: ManualClock
) -> None:
    """Claims, lease losses, failures, outcomes and durations; from the store, so alike from every process."""
    lived(web, store, clock)

    told = pages.get("/metrics").text

    for line in (
        'jobledger_claims_total{kind="index",queue="slow"} 2.0',
        'jobledger_leases_lost_total{kind="index",queue="slow"} 1.0',
        'jobledger_attempts_failed_total{kind="index",queue="default"} 1.0',
        'jobledger_jobs_finished_total{kind="index",outcome="complete",queue="slow"} 1.0',
        'jobledger_queue_jobs{kind="index",queue="default",state="paused"} 1.0',
        'jobledger_ran_seconds_bucket{kind="index",le="5.0",queue="slow"} 1.0',
        'jobledger_ran_seconds_bucket{kind="index",le="+Inf",queue="slow"} 2.0',
        'jobledger_ran_seconds_sum{kind="index",queue="slow"} 48.0',
        'jobledger_projection_lag_events{projection="totals"} 0.0',
        'jobledger_projection_parked{projection="totals"} 0.0',
    ):
        assert line in told.splitlines(), line


def test_two_processes_tell_the_same_totals(
    pages: httpx.Client, web: httpx.Client, store: JobStore, clock: ManualClock, face: tuple[FastAPI, str]
) -> None:
    """One that was started only now has nothing to catch up with."""
    lived(web, store, clock)
    of_the_store = re.compile(r"^jobledger_(?!web_).*", re.MULTILINE)
    first = of_the_store.findall(pages.get("/metrics").text)
    face[0].state.service = replace(face[0].state.service, answers=type(face[0].state.service.answers)())

    assert of_the_store.findall(pages.get("/metrics").text) == first


def test_refusals_are_counted_by_their_code(pages: httpx.Client, web: httpx.Client) -> None:
    before = _refusals(pages)
    job_id = created(web)
    web.post(f"/jobs/{job_id}/release", json={"reason": "r"}, headers={"If-Match": "*"})
    web.post(f"/jobs/{job_id}/release", json={"reason": "r"})
    web.get("/jobs/nope")

    now = _refusals(pages)
    for code in ("not_held", "precondition_required", "unknown_job"):
        assert now[code] - before.get(code, 0) == 1, code


def _refusals(pages: httpx.Client) -> dict[str, float]:
    told = pages.get("/metrics").text
    return {code: float(count) for code, count in re.findall(r'web_refusals_total{code="(\w+)"} (\S+)', told)}


def test_an_owners_numbers_are_of_its_own_jobs(
    pages: httpx.Client, web: httpx.Client, store: JobStore, clock: ManualClock, face: tuple[FastAPI, str]
) -> None:
    lived(web, store, clock)
    face[0].state.service = replace(face[0].state.service, resolver=lambda _: Principal("me", "another"))

    told = pages.get("/metrics").text

    assert 'queue="slow"' not in told
    assert "jobledger_projection_lag_seconds{" not in told


# Pages ----------------------------------------------------------------------------------------------------------------


def test_the_overview_draws_what_happened_in_each_minute(
    pages: httpx.Client, web: httpx.Client, store: JobStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Minutes in which nothing happened are drawn too; a screen reader is told the sums."""
    lived(web, store, clock)
    monkeypatch.setattr("jobledger.adapters.web.dashboard.pacing.now", clock.now)

    page = pages.get("/").text

    [drawn] = re.findall(r'data-lines="([^"]+)"', page)
    chart = json.loads(unescape(drawn))
    assert len(chart["at"]) == 60
    assert {name: sum(line) for name, line in chart["lines"].items()} == {
        "created": 2,
        "ended well": 1,
        "ended badly": 0,
    }
    assert "2 created, 1 ended well, 0 ended badly" in page


def test_what_nothing_has_read_yet_says_what_to_do(pages: httpx.Client) -> None:
    for path in ("/", "/workers", "/operators", "/system"):
        assert "jobledger projections run" in pages.get(path).text, path


def test_workers_are_told_with_the_leases_that_they_lost(
    pages: httpx.Client, web: httpx.Client, store: JobStore, clock: ManualClock
) -> None:
    lived(web, store, clock)

    rows = re.findall(r"<tr><td>([\w-]+)</td>.*?</tr>", pages.get("/workers").text)

    assert sorted(rows) == ["host-7", "lost-worker"]


def test_the_operators_log_is_paged_and_filtered(
    pages: httpx.Client, web: httpx.Client, store: JobStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    lived(web, store, clock)
    clock.advance(timedelta(seconds=1))
    store.schedules.put(Schedule("a/b", "index", every=60), by="bob")
    clock.advance(timedelta(seconds=1))
    store.schedules.hold("a/b", by="bob", reason="the archive moves")
    store.run_projections()
    monkeypatch.setattr("jobledger.adapters.web.dashboard.watch_pages.ASKED", 2)

    first = pages.get("/operators").text
    [older] = re.findall(r'rel="next" href="([^"]+)"', first)
    second = pages.get(unescape(older)).text

    assert "the archive moves" in first
    assert "look at it first" in second
    assert 'href="/schedule?name=a/b"' in first
    only = pages.get("/operators", params={"by": "ann"}).text
    assert "look at it first" in only
    assert "the archive moves" not in only


def test_the_system_page_says_how_far_projections_have_read(
    pages: httpx.Client, web: httpx.Client, store: JobStore, clock: ManualClock
) -> None:
    lived(web, store, clock)
    created(web, "unread")

    page = pages.get("/system").text

    assert page.count("following") == 3
    assert re.search(r'<td class="right">1</td>', page)
