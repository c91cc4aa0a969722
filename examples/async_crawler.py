"""Crawls a small site of this very process: a hundred pages on one event loop, each fetched once.

Run it: python examples/async_crawler.py
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from jobledger import AsyncJobContext, JobHost, JobRequest, JobStore, durable_job

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGES = 100


@durable_job("crawl")
async def crawl(job: AsyncJobContext, host: str, port: int) -> int:
    """Fetch page after page from the first one on; the state is what was found and what is still to be fetched."""
    saved = job.state or {"seen": ["/0"], "todo": ["/0"]}
    seen, todo = list(saved["seen"]), list(saved["todo"])
    while todo:
        batch, todo = todo[:10], todo[10:]
        for links in await asyncio.gather(*(fetch(host, port, page) for page in batch)):
            fresh = [link for link in dict.fromkeys(links) if link not in seen]
            seen += fresh
            todo += fresh
        job.progress(len(seen) - len(todo), len(seen))
        await job.checkpoint({"seen": seen, "todo": todo})
    return len(seen)


async def fetch(host: str, port: int, page: str) -> list[str]:
    """The links of a page."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"GET {page} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
    body = await reader.read()
    writer.close()
    return re.findall(r'href="([^"]+)"', body.decode())


class Site(BaseHTTPRequestHandler):
    """Page n links to pages 2n+1 and 2n+2."""

    def do_GET(self) -> None:
        """Answer a page."""
        number = int(self.path.strip("/"))
        links = "".join(f'<a href="/{each}">' for each in (2 * number + 1, 2 * number + 2) if each < PAGES)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(links.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def site() -> Iterator[tuple[str, int]]:
    """A server on a port of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield "127.0.0.1", server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def main() -> None:
    """Crawl the site."""
    with (
        tempfile.TemporaryDirectory() as folder,
        JobStore.open(f"sqlite:///{Path(folder) / 'jobs.db'}") as store,
        site() as (name, port),
        JobHost(store, [crawl]) as host,
    ):
        host.admit()
        request = JobRequest(owner="web", kind="crawl", payload={"host": name, "port": port})
        status = store.wait(store.create(request).job_id, 60)
        print(f"{status.state.value}: {status.result} pages")


if __name__ == "__main__":
    main()
