"""The pages in a real browser: every page and control is walked, live, within the policy, and usable by everybody."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from jobledger import JobRequest, JobStore, Policy
from jobledger.adapters.demo.living import populate
from jobledger.adapters.web import create_app
from tests.postgresql.stores import dropped, fresh_url
from tests.web.browser import browsing, needs_chromium, playwright, violations
from tests.web.serving import serving

PAGES: Final = (
    "/",
    "/jobs",
    "/queues",
    "/queue?name=default",
    "/queue",
    "/schedules",
    "/workers",
    "/operators",
    "/system",
    "/login",
)
NIGHTLY: Final = "index-nightly"
"""A schedule of the demonstration."""

pytestmark = [needs_chromium, pytest.mark.slow]


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[JobStore]:
    """A store of each kind that is served, with jobs and schedules of the demonstration."""
    is_file = request.param == "sqlite"
    url = f"sqlite:///{tmp_path / 'jobs.db'}" if is_file else fresh_url()
    with JobStore.open(url, policies={"strict": Policy(failures_max=1)}, migrate=True) as opened:
        populate(opened)
        yield opened
    if not is_file:
        dropped(url)


def running(store: JobStore, key: str = "live") -> Any:
    """A job that runs, with a lease."""
    return store.claim(store.create(JobRequest(owner="demo", kind="rebuild-index", key=key)).job_id, worker="host-7")


def expect(target: Any) -> Any:
    return playwright.expect(target)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_clean_and_usable_by_everybody(store: JobStore, scheme: str) -> None:
    """No error, no report of the policy, no request to another host, nothing serious that axe finds."""
    lease = running(store)
    store.report_progress(lease.fence, 3, 10, "a third")
    store.fail_attempt(
        store.claim(store.create(JobRequest(owner="demo", kind="k", key="f")).job_id, worker="w").fence, "it broke"
    )
    with serving(create_app(store)) as address, browsing(address, color_scheme=scheme) as (page, watch):
        for path in (*PAGES, f"/jobs/{lease.job_id}", f"/schedule?name={NIGHTLY}"):
            page.goto(address + path)
            expect(page.locator("h1")).to_be_visible()
            assert violations(page) == [], path
        assert watch.complaints == []


def test_a_careless_page_is_noticed() -> None:
    """The checks that every page passes find an error, a request elsewhere, and a picture without a text."""
    with browsing("http://127.0.0.1") as (page, watch):
        page.set_content("<title>x</title><img src='http://localhost:9/x.png'><script>console.error('broken')</script>")

        assert any("image-alt" in each for each in violations(page))
        assert "broken" in watch.complaints
        assert any("localhost:9" in each for each in watch.complaints)


def test_a_page_fits_a_narrow_screen(store: JobStore) -> None:
    lease = running(store)
    with serving(create_app(store)) as address, browsing(address, viewport={"width": 360, "height": 700}) as (page, _):
        for path in (*PAGES, f"/jobs/{lease.job_id}", f"/schedule?name={NIGHTLY}"):
            page.goto(address + path)
            assert page.locator("html").evaluate("e => e.scrollWidth - e.clientWidth") <= 1, path


def test_progress_moves_while_a_worker_works_also_after_the_server_came_back(store: JobStore) -> None:
    """The stream resumes by itself behind the last event that was seen."""
    lease = running(store)
    store.report_progress(lease.fence, 1, 10)
    with browsing("http://127.0.0.1") as (page, _):
        bar = page.locator("#live progress")
        with serving(create_app(store)) as address:
            page.goto(f"{address}/jobs/{lease.job_id}")
            expect(bar).to_have_attribute("value", "10.0")
            store.report_progress(lease.fence, 4, 10)
            expect(bar).to_have_attribute("value", "40.0", timeout=10_000)
        store.report_progress(lease.fence, 7, 10)
        with serving(create_app(store), port=int(address.rpartition(":")[2])):
            expect(bar).to_have_attribute("value", "70.0", timeout=20_000)


def test_the_slider_shows_the_job_at_each_event(store: JobStore) -> None:
    lease = running(store)
    store.checkpoint(lease.fence, {"next": 1})
    store.complete(lease.fence, result="done")
    with serving(create_app(store)) as address, browsing(address) as (page, watch):
        page.goto(f"{address}/jobs/{lease.job_id}")
        for sequence, state in ((1, "queued"), (2, "running"), (4, "complete"), (3, "running")):
            page.locator("#version").fill(str(sequence))
            expect(page.locator(f"#then .then[data-at='{sequence}'] .state-{state}")).to_be_visible()
        expect(page.locator("#badge .badge.good")).to_contain_text("verified to event 4")
        assert watch.complaints == []


def test_a_hold_asked_in_the_page_parks_a_real_worker(store: JobStore) -> None:
    """The worker's next boundary is where it stops; a release lets it be claimed again."""
    lease = running(store)
    parked = threading.Event()

    def work() -> None:
        while not store.renew(lease.fence).hold_requested:
            parked.wait(0.05)
        store.pause(lease.fence, {"next": 7})
        parked.set()

    worker = threading.Thread(target=work)
    with serving(create_app(store)) as address, browsing(address) as (page, watch):
        page.goto(f"{address}/jobs/{lease.job_id}")
        worker.start()
        _ask(page, "Hold", "the disk is full")
        expect(page.locator("#live .state-paused")).to_be_visible(timeout=10_000)
        expect(page.locator("#live")).to_contain_text("the disk is full")
        page.reload()
        _ask(page, "Release", "there is room again")
        expect(page.locator("#live .state-held")).to_have_count(0)
        assert watch.complaints == []
    worker.join()
    assert parked.is_set()
    assert store.claim(lease.job_id, worker="next").checkpoint == {"next": 7}


def test_every_control_is_asked_in_the_page(store: JobStore) -> None:
    """Cancel, fork and rerun, each with a reason; a fork and a rerun lead to the new job."""
    job_id = store.create(JobRequest(owner="demo", kind="k", key="walked")).job_id
    with serving(create_app(store)) as address, browsing(address) as (page, _):
        page.goto(f"{address}/jobs/{job_id}")
        _ask(page, "Fork", "try another way")
        assert page.url != f"{address}/jobs/{job_id}"
        page.goto(f"{address}/jobs/{job_id}")
        _ask(page, "Cancel", "nobody needs it")
        expect(page.locator("#live .state-cancelled")).to_be_visible()
        _ask(page, "Rerun", "somebody does")
        expect(page.locator("h1")).to_contain_text("walked-rerun")


def test_every_control_of_a_schedule_is_asked_in_the_page(store: JobStore) -> None:
    """Hold, release, trigger, backfill and remove, each with a reason; the page then says what stands."""
    with serving(create_app(store)) as address, browsing(address) as (page, watch):
        page.goto(f"{address}/schedules")
        page.get_by_role("link", name=NIGHTLY).click()
        expect(page.locator("table").first.locator("tbody tr")).to_have_count(5)
        _ask(page, "Hold", "the disk is full")
        expect(page.locator("#live .banner")).to_contain_text("the disk is full")
        _ask(page, "Release", "there is room again")
        expect(page.locator("#live .banner")).to_have_count(0)
        _ask(page, "Trigger", "once more today")
        expect(page.locator("#live")).to_contain_text("once more today")
        page.locator("summary:text-is('Backfill')").click()
        page.get_by_label("first instant").fill("2026-11-02T00:00")
        page.get_by_label("last instant").fill("2026-11-03T23:59")
        _fill(page, "Backfill", "the host was down")
        expect(page.locator("#live .state:text-is('backfilled')")).to_have_count(2)
        _ask(page, "Remove", "nobody needs it", then="h1:text-is('Schedules')")
        expect(page.get_by_role("link", name=NIGHTLY)).to_have_count(0)
        assert watch.complaints == []


def _ask(page: Any, control: str, reason: str, then: str = ".banner.good") -> None:
    page.locator(f"summary:text-is('{control}')").click()
    _fill(page, control, reason, then)


def _fill(page: Any, control: str, reason: str, then: str = ".banner.good") -> None:
    form = page.locator("details.control", has=page.locator(f"summary:text-is('{control}')"))
    form.get_by_placeholder("why").fill(reason)
    form.get_by_role("button", name=control).click()
    expect(page.locator(then)).to_be_visible()


def test_the_keyboard_reaches_the_content_and_the_controls(store: JobStore) -> None:
    lease = running(store)
    with serving(create_app(store)) as address, browsing(address) as (page, _):
        page.goto(f"{address}/jobs/{lease.job_id}")
        page.keyboard.press("Tab")
        expect(page.locator(".skip")).to_be_focused()
        for _step in range(80):
            page.keyboard.press("Tab")
            if page.locator("details.control > summary").first.evaluate("e => e === document.activeElement"):
                break
        page.keyboard.press("Enter")
        expect(page.locator("details.control").first).to_have_attribute("open", "")
