"""What the web face costs: create, read and window beside a bare route of its framework, and pages over many jobs."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastapi import FastAPI
from rich.table import Table

from jobledger import JobRequest, JobStore
from jobledger.adapters.web import WebSettings, create_app
from tests.web.serving import serving

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

ROOT: Final = Path(__file__).parents[2]
JOBS: Final = 100_000
REQUESTS: Final = 4_000
CLIENTS: Final = 4
ROUNDS: Final = 3
LOOKS: Final = 20
PAGE_MS_MAX: Final = 200.0
READS_SHARE_MIN: Final = 0.25
PAGES: Final = ("/", "/jobs", "/jobs?state=queued", "/queues", "/schedules", "/workers", "/operators", "/system")
KEEP: Final = {"Connection": "keep-alive"}


@dataclass(frozen=True, slots=True)
class Answered:
    """One thing that was asked again and again: requests a second by the clock, and the 99th of a hundred in ms."""

    name: str
    rate: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Looked:
    """One page: the median and the slowest look at it in milliseconds."""

    path: str
    median_ms: float
    worst_ms: float


def serve(url: str) -> None:
    """Serve a store, and beside it a route that does nothing, until a line is read; the first line said is where."""
    many = 10**9
    with JobStore.open(url) as store:
        app = create_app(store, settings=WebSettings(requests_per_minute=many, misses_per_minute=many))
        outer = FastAPI()

        @outer.get("/bare")
        def bare() -> dict[str, str]:
            return {"status": "ok"}

        outer.mount("/face", app)
        with serving(outer) as address:
            sys.stdout.write(f"{address}\n")
            sys.stdout.flush()
            sys.stdin.readline()


def measure(size: float) -> tuple[list[Answered], list[Looked]]:
    """Fill a SQLite store with ``size`` times 100,000 jobs, then ask; rounds alternate, and the best of each counts."""
    jobs, requests = max(10, int(JOBS * size)), max(8, int(REQUESTS * min(size, 1)))
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'jobs.db'}"
        with JobStore.open(url) as store:
            ids = _filled(store, jobs)
            store.run_projections()
        script = f"from {__name__} import serve; serve({url!r})"
        command = [sys.executable, "-c", script]
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdin is not None
            assert server.stdout is not None
            place = server.stdout.readline().strip().removeprefix("http://")
            told = _answered(place, ids, requests), [_looked(place, path) for path in (*PAGES, f"/jobs/{ids[0]}")]
            server.stdin.write("end\n")
        return told


def _filled(store: JobStore, jobs: int) -> list[str]:
    ids: list[str] = []
    for first in range(0, jobs, 1_000):
        batch = [
            JobRequest(owner="o", kind="k", key=f"k{number}", payload={"n": number})
            for number in range(first, min(jobs, first + 1_000))
        ]
        ids += [receipt.job_id for receipt in store.create_many(batch) if not isinstance(receipt, Exception)]
    return ids


def _answered(place: str, ids: Sequence[str], requests: int) -> list[Answered]:
    def create(number: int) -> tuple[str, str, bytes, dict[str, str]]:
        body = json.dumps({"owner": "o", "kind": "k", "payload": {"n": number}}).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": f"made-{time.perf_counter_ns()}-{number}"}
        return "POST", "/face/api/v1/jobs", body, headers

    asked: dict[str, Callable[[int], tuple[str, str, bytes, dict[str, str]]]] = {
        "bare route": lambda _: ("GET", "/bare", b"", {}),
        "create": create,
        "read": lambda number: ("GET", f"/face/api/v1/jobs/{ids[number % len(ids)]}", b"", {}),
        "window": lambda number: ("GET", f"/face/api/v1/jobs/{ids[number % len(ids)]}/events", b"", {}),
    }
    best: dict[str, Answered] = {}
    for _ in range(ROUNDS):
        for name, make in asked.items():
            found = _round(place, name, make, requests)
            if name not in best or found.rate > best[name].rate:
                best[name] = found
    return list(best.values())


def _round(place: str, name: str, make: Callable[[int], tuple[str, str, bytes, dict[str, str]]], many: int) -> Answered:
    """Ask through a few connections at once that stay open."""
    took: list[float] = []
    lock = threading.Lock()

    def client(first: int) -> None:
        connection, mine = http.client.HTTPConnection(place, timeout=60), []
        for number in range(first, many, CLIENTS):
            method, path, body, headers = make(number)
            began = time.perf_counter()
            connection.request(method, path, body, headers | KEEP)
            response = connection.getresponse()
            response.read()
            mine.append(time.perf_counter() - began)
            if response.status >= 400:  # the statuses of refusals
                msg = f"{method} {path} was answered {response.status}"
                raise RuntimeError(msg)
        connection.close()
        with lock:
            took.extend(mine)

    began = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as crowd:
        list(crowd.map(client, range(CLIENTS)))
    seconds = time.perf_counter() - began
    return Answered(name, many / seconds, 1_000 * sorted(took)[int(0.99 * (len(took) - 1))])


def _looked(place: str, path: str) -> Looked:
    took: list[float] = []
    for _ in range(LOOKS):
        connection = http.client.HTTPConnection(place, timeout=60)
        began = time.perf_counter()
        connection.request("GET", f"/face{path}")
        response = connection.getresponse()
        response.read()
        took.append(1_000 * (time.perf_counter() - began))
        connection.close()
    return Looked(path if len(path) < 40 else "/jobs/ID", sorted(took)[len(took) // 2], max(took))  # an id is longer


def show(console: Console, answered: Sequence[Answered], looked: Sequence[Looked]) -> None:
    """Print both tables, with the bars."""
    bare = next(each.rate for each in answered if each.name == "bare route")
    table = Table(title="requests")
    for heading in ("asked", "a second", "99 % within ms", "of a bare route", "bar"):
        table.add_column(heading, justify="left" if heading == "asked" else "right")
    for each in answered:
        share, has_bar = each.rate / bare, each.name in {"read", "window"}
        bar = f"{READS_SHARE_MIN} {'met' if share >= READS_SHARE_MIN else 'missed'}" if has_bar else ""
        table.add_row(each.name, f"{each.rate:,.0f}", f"{each.p99_ms:.1f}", f"{share:.2f}", bar)
    console.print(table)
    pages = Table(title="pages")
    for heading in ("page", "median ms", "slowest ms", "bar"):
        pages.add_column(heading, justify="left" if heading == "page" else "right")
    for page in looked:
        bar = f"{PAGE_MS_MAX:.0f} ms {'met' if page.median_ms <= PAGE_MS_MAX else 'missed'}"
        pages.add_row(page.path, f"{page.median_ms:.1f}", f"{page.worst_ms:.1f}", bar)
    console.print(pages)
