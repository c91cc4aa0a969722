"""Cost against size: the calls that users wait for, at 10,000 jobs and at a hundred times as many."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from jobledger import Completion, JobRequest, JobStore
from tests.bench.cluster import Cluster

STEPS = (10_000, 30_000, 100_000, 300_000, 1_000_000)
CALLS = 200
BATCH = 1_000
SMALL = 10
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e")


@dataclass(slots=True)
class Scaling:
    """Grows one store step by step, and at each step times the calls."""

    cluster: Cluster | None
    jobs_max: int
    progress: Progress

    def run(self) -> list[dict[str, Any]]:
        """For each size the 50th and 99th percentile of each call, in milliseconds."""
        steps = [step for step in STEPS if step <= self.jobs_max] or [self.jobs_max]
        points: list[dict[str, Any]] = []
        with ExitStack() as stack:
            url = self._url(stack)
            store = stack.enter_context(JobStore.open(url, migrate=True))
            task = self.progress.add_task("jobs", total=steps[-1])
            made = 0
            for step in steps:
                while made < step:
                    made += self._grow(store, made, min(BATCH, step - made))
                    self.progress.update(task, completed=made, description=f"{made:,} jobs")
                if self.cluster is not None:
                    self.cluster.psql("VACUUM ANALYZE", "bench_scale")
                for call, spans in _timed(store, made).items():
                    points.append({"jobs": step, "call": call, "p50_ms": _at(spans, 0.5), "p99_ms": _at(spans, 0.99)})
        return points

    def _url(self, stack: ExitStack) -> str:
        if self.cluster is not None:
            return self.cluster.fresh("bench_scale")
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="jobledger-bench-"))
        return f"sqlite:///{folder}/scale.db"

    def _grow(self, store: JobStore, made: int, count: int) -> int:
        """Jobs of a large queue; every third was claimed and completed, so that there are three events of it."""
        requests = [
            JobRequest(owner=f"team-{i % 7}", kind="noop", key=f"k{made + i}", payload={"i": i}, queue="large")
            for i in range(count)
        ]
        store.create_many(requests)
        leases = store.claim_next(worker="bench", queues=["large"], limit=max(1, count // 3))
        store.complete_many([Completion(lease.fence) for lease in leases])
        return count


def _timed(store: JobStore, made: int) -> dict[str, list[float]]:
    """Each call many times, on jobs spread over the store; the small queue lies beside the large one."""
    spans: dict[str, list[float]] = {}
    picked = [f"k{made * i // CALLS}" for i in range(CALLS)]
    ids = [found.job_id for key in picked if (found := _found(store, key)) is not None]
    for i in range(SMALL):
        store.create(JobRequest(owner="small", kind="noop", key=f"{made}-{i}", queue="small"))
    _time(spans, "status", [lambda job_id=job_id: store.status(job_id) for job_id in ids])
    _time(spans, "window", [lambda job_id=job_id: store.events(job_id) for job_id in ids])
    _time(
        spans, "page of a list", [lambda i=i: store.jobs(owner=f"team-{i % 7}", state="queued") for i in range(CALLS)]
    )
    _time(spans, "claim", [lambda: _claim(store, "large") for _ in range(CALLS)])
    _time(spans, "claim from a queue of 10", [lambda: _claim(store, "small") for _ in range(SMALL)])
    return spans


def _found(store: JobStore, key: str) -> Any:
    number = int(key[1:])
    return store.find(f"team-{number % BATCH % 7}", key)


def _claim(store: JobStore, queue: str) -> None:
    [lease] = store.claim_next(worker="bench", queues=[queue])
    store.complete(lease.fence)


def _time(spans: dict[str, list[float]], name: str, calls: list[Any]) -> None:
    for call in calls:
        began = time.perf_counter()
        call()
        spans.setdefault(name, []).append(1000 * (time.perf_counter() - began))


def _at(spans: list[float], share: float) -> float:
    return round(sorted(spans)[min(len(spans) - 1, int(share * len(spans)))], 3)


def show_scaling(console: Console, points: list[dict[str, Any]]) -> None:
    """A table of sizes by calls, and how much the largest costs more than the smallest."""
    sizes = sorted({point["jobs"] for point in points})
    table = Table("p99 in ms (p50)", *(f"{size:,} jobs" for size in sizes), "last / first", title="Cost against size")
    for call in dict.fromkeys(point["call"] for point in points):
        row = {point["jobs"]: point for point in points if point["call"] == call}
        cells = [f"{row[size]['p99_ms']:.2f} ({row[size]['p50_ms']:.2f})" for size in sizes]
        table.add_row(call, *cells, f"{row[sizes[-1]]['p99_ms'] / row[sizes[0]]['p99_ms']:.2f}")
    console.print(table)


def plot(points: list[dict[str, Any]]) -> str:
    """The 99th percentiles against the number of jobs as SVG, the sizes on a logarithmic axis."""
    width, height, left, bottom = 720, 400, 60, 50
    sizes = sorted({point["jobs"] for point in points})
    highest = max(point["p99_ms"] for point in points) * 1.1

    def place(point: dict[str, Any]) -> tuple[float, float]:
        across = sizes.index(point["jobs"]) / max(1, len(sizes) - 1)
        up = point["p99_ms"] / highest
        return left + across * (width - left - 180), (height - bottom) - up * (height - bottom - 30)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{left}" y="18">99th percentile of a call in ms, against the number of jobs in the store</text>',
    ]
    for share in (0, 0.25, 0.5, 0.75, 1):
        level = (height - bottom) - share * (height - bottom - 30)
        lines.append(f'<line x1="{left}" x2="{width - 180}" y1="{level:.1f}" y2="{level:.1f}" stroke="#ddd"/>')
        lines.append(f'<text x="{left - 8}" y="{level + 4:.1f}" text-anchor="end">{share * highest:.1f}</text>')
    for size in sizes:
        across, _ = place({"jobs": size, "p99_ms": 0})
        lines.append(f'<text x="{across:.1f}" y="{height - bottom + 20}" text-anchor="middle">{size:,}</text>')
    for colour, call in zip(COLOURS, dict.fromkeys(point["call"] for point in points), strict=False):
        places = [place(point) for point in points if point["call"] == call]
        route = " ".join(f"{across:.1f},{up:.1f}" for across, up in places)
        lines.append(f'<polyline points="{route}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lines.append(f'<text x="{places[-1][0] + 8:.1f}" y="{places[-1][1] + 4:.1f}" fill="{colour}">{call}</text>')
    return "\n".join([*lines, "</svg>", ""])
