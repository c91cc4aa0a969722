"""Takes the pictures of the dashboard that the documents show: every page, light and dark, over a living store."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from jobledger import JobStore, Policy
from jobledger.adapters.demo.living import Life
from jobledger.adapters.web import create_app
from tests.web.browser import browsing, playwright
from tests.web.serving import serving

IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"
SIZE: Final = {"width": 1180, "height": 860}


def main() -> None:
    """Take all of them."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'jobs.db'}"
        with (
            JobStore.open(url, policies={"strict": Policy(failures_max=1)}) as store,
            Life(store),
            serving(create_app(store)) as address,
        ):
            now, asked = datetime.now(UTC), {"by": "ann", "reason": "the price server was away"}
            store.schedules.backfill("prices-each-minute", now - timedelta(minutes=4), now, **asked)
            store.schedules.trigger("index-nightly", by="bob", reason="the schema changed today")
            store.queues.limit(
                "prices", by="ann", reason="their server asks for it", running_max=4, starts_max=100, starts_span=60
            )
            store.queues.hold("night", by="bob", reason="the archive moves to another host")
            for scheme in ("light", "dark"):
                with browsing(address, color_scheme=scheme, viewport=SIZE) as (page, _):
                    found = store.find("demo", "index-north")
                    job = "" if found is None else found.job_id
                    page.goto(f"{address}/jobs/{job}")
                    playwright.expect(page.locator("#live")).to_contain_text("batch", timeout=30_000)
                    pages = {"overview": "/", "jobs": "/jobs", "job": f"/jobs/{job}", "workers": "/workers"}
                    pages |= {"schedules": "/schedules", "schedule": "/schedule?name=prices-each-minute"}
                    pages |= {"queues": "/queues", "queue": "/queue?name=prices"}
                    pages |= {name: f"/{name}" for name in ("operators", "system", "login")}
                    for name, path in pages.items():
                        page.goto(address + path)
                        playwright.expect(page.locator("h1")).to_be_visible()
                        page.wait_for_load_state("load")
                        page.screenshot(path=IMAGES / f"{name}-{scheme}.png")


if __name__ == "__main__":
    main()
