"""What became of one job, for people: its story in the terminal, as JSON and as a page, and what changed."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from jobledger import JobRequest, JobStore
from tests.cli.given import Desk

HOSTILE = "<script>alert('x')</script>\x1b[31m\u202e & \"quoted\""


class _Page(HTMLParser):
    """The tags and texts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, Any]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture
def hostile_job(desk: Desk) -> str:
    """A job that somebody hostile has named, worked on and held."""
    with JobStore.open(desk.url) as store:
        request = JobRequest(owner=HOSTILE, key=HOSTILE, kind=HOSTILE, labels={HOSTILE: HOSTILE})
        lease = store.claim(store.create(request).job_id, worker=HOSTILE)
        store.record_unit(lease.fence, HOSTILE, 1)
        store.checkpoint(lease.fence, 1)
        store.hold(lease.job_id, by=HOSTILE, reason=HOSTILE)
        store.fail_attempt(lease.fence, HOSTILE)
    return lease.job_id


def test_the_page_needs_nothing_and_runs_nothing(desk: Desk, hostile_job: str, tmp_path: Path) -> None:
    """No script, no link, no image; what others wrote stands in it as text, with control characters made visible."""
    file = tmp_path / "job.html"

    shown = desk("audit", hostile_job, "--html", str(file))
    page = file.read_text("utf-8")
    read = _Page(page)

    assert shown.code == 0
    assert {tag for tag, _ in read.tags} <= {
        *("html", "head", "meta", "title", "style", "body", "h1", "h2", "table", "tr", "th", "td", "p", "span", "br"),
        *("svg", "rect", "path", "text"),
    }
    assert not any(name.startswith("on") or name in ("src", "href") for _, names in read.tags for name in names)
    assert "default-src 'none'" in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert any("<script>alert('x')</script>" in text for text in read.texts)
    assert any("Verified: 6 events" in text for text in read.texts)


def test_the_story_is_told_in_the_terminal_and_as_json(desk: Desk, hostile_job: str) -> None:
    shown, document = desk("audit", hostile_job), desk("audit", hostile_job, "--json").document

    assert shown.code == 0
    assert shown.out.endswith("verify: ok (6 events)\n")
    assert "\x1b" not in shown.out
    assert [each["sequence"] for each in document["story"]] == [1, 2, 3, 4, 5, 6]
    assert document["verification"]["problems"] == []


def test_a_difference_is_shown_by_its_field(desk: Desk, hostile_job: str) -> None:
    shown = desk("diff", hostile_job, "4", "5")

    assert shown.code == 0
    assert "hold" in shown.out
    assert {each["field"] for each in desk("diff", hostile_job, "4", "5", "--json").document["differences"]} >= {"hold"}
    assert desk("diff", hostile_job, "1", "99").code == 1


def test_a_difference_shows_values_as_they_are(desk: Desk) -> None:
    """Not how they are stored; one that is kept aside is told by its size and digest."""
    job_id = desk.job()
    with desk.store() as store:
        lease = store.claim(job_id, worker="w")
        store.checkpoint(lease.fence, {"next": 1})
        store.checkpoint(lease.fence, {"rows": "x" * 5_000})

    small, large = desk("diff", job_id, "2", "3"), desk("diff", job_id, "3", "4")

    assert '{"next":1}' in small.out
    assert "digest" not in small.out
    assert "(5,011 bytes, digest " in large.out
