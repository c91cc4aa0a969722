"""A real browser for the pages: Chromium, where this machine has one; and what a page may never do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="the pages are walked with Playwright (extra 'browser')")

CHROMIUM: Final = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
QUIET: Final = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
AXE: Final = Path(__file__).parent / "vendor" / "axe.min.js"

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: the pages are not walked")


@dataclass
class Watch:
    """What a page said, asked for and broke."""

    address: str
    complaints: list[str] = field(default_factory=list[str])

    def follow(self, page: Any) -> None:
        """Note errors of the console, reports of the policy, and requests to other hosts."""
        page.on("console", self._note_console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._note_request)

    def _note_console(self, said: Any) -> None:
        if said.type in {"error", "warning"}:
            self.complaints.append(said.text)

    def _note_request(self, asked: Any) -> None:
        if not asked.url.startswith((self.address, "data:")):
            self.complaints.append(f"a request to {asked.url}")


@contextmanager
def browsing(address: str, **context: Any) -> Generator[tuple[Any, Watch]]:
    """A page of a fresh browser, and its watch."""
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        try:
            page = browser.new_context(**context).new_page()
            watch = Watch(address)
            watch.follow(page)
            yield page, watch
        finally:
            browser.close()


def violations(page: Any) -> list[str]:
    """What axe finds that keeps people from using a page; it is injected past the page's own policy by the browser."""
    session = page.context.new_cdp_session(page)
    session.send("Runtime.evaluate", {"expression": AXE.read_text(encoding="utf-8")})
    asked = "axe.run(document, {resultTypes: ['violations']}).then(found => JSON.stringify(found.violations))"
    answer = session.send("Runtime.evaluate", {"expression": asked, "awaitPromise": True})
    found = json.loads(answer["result"]["value"])
    return [
        f"{each['id']} ({each['impact']}): {each['nodes'][0]['html'][:200]}"
        for each in found
        if each["impact"] in {"serious", "critical"}
    ]
