"""How soon after its creation a job's handler starts on an idle host: in one process, by hearing, and by polls."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from jobledger import JobHost, JobRequest, JobStore, durable_job
from jobledger.adapters.storage.changes import POLL_SECONDS
from tests.bench.cluster import Cluster

IDLE_SECONDS: Final = (0.06, 0.16)
"""How long nothing happens before each creation: longer than it takes until a notification goes out at once again."""

PATIENCE_SECONDS: Final = 60.0
P50_MS_MAX: Final = 5.0
P99_MS_MAX: Final = 20.0
STARTS: Final[SimpleQueue[float]] = SimpleQueue()


@durable_job("pickup")
def pickup() -> None:
    """A job that says when it began."""
    STARTS.put(time.monotonic())


@dataclass(slots=True)
class Waking:
    """Jobs that are created one by one in one store, and run by a host on another one of the same place."""

    cluster: Cluster | None
    jobs: int
    progress: Progress

    def run(self) -> list[dict[str, Any]]:
        """Milliseconds from the call of create to the first line of the handler, for each way of waking."""
        ways = ("one process", "polling") if self.cluster is None else ("one process", "listening", "polling")
        return [self._measured(way) for way in ways]

    def _measured(self, way: str) -> dict[str, Any]:
        with ExitStack() as stack:
            url = self._url(stack)
            running = stack.enter_context(JobStore.open(url, migrate=True))
            making = running if way == "one process" else stack.enter_context(JobStore.open(url))
            if self.cluster is not None and way == "polling":
                storage: Any = running.setting.storage
                storage.wakeups.hear = bool  # as where a pooler stands between: nobody can listen there
            host = stack.enter_context(JobHost(running, [pickup]))
            host.admit()
            spans = sorted(self._spans(making, self.progress.add_task(way, total=self.jobs)))
        at = {share: spans[min(len(spans) - 1, int(share * len(spans)))] for share in (0.5, 0.99, 1.0)}
        return {"way": way, "jobs": self.jobs, "p50_ms": at[0.5], "p99_ms": at[0.99], "max_ms": at[1.0]}

    def _spans(self, store: JobStore, task: Any) -> list[float]:
        idle, spans = threading.Event(), list[float]()
        for _ in range(self.jobs):
            idle.wait(random.uniform(*IDLE_SECONDS))  # noqa: S311  # it spreads the moments between two polls
            began = time.monotonic()
            store.create(JobRequest(owner="team", kind="pickup"))
            spans.append(1_000 * (STARTS.get(timeout=PATIENCE_SECONDS) - began))
            self.progress.advance(task)
        return spans

    def _url(self, stack: ExitStack) -> str:
        if self.cluster is not None:
            return self.cluster.fresh("bench_waking")
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="jobledger-bench-"))
        return f"sqlite:///{folder}/waking.db"


def show_waking(console: Console, figures: list[dict[str, Any]]) -> None:
    """The figures for people."""
    table = Table("created and run in", "jobs", "p50", "p99", "latest", "bar", title="Idle pick-up")
    for each in figures:
        if each["way"] == "polling":
            bar = f"by polls, every {1_000 * POLL_SECONDS:.0f} ms"
        else:
            is_met = each["p50_ms"] < P50_MS_MAX and each["p99_ms"] < P99_MS_MAX
            bar = f"p50 {P50_MS_MAX:.0f} ms, p99 {P99_MS_MAX:.0f} ms: {'met' if is_met else 'missed'}"
        spans = (f"{each[name]:.1f} ms" for name in ("p50_ms", "p99_ms", "max_ms"))
        table.add_row(each["way"], f"{each['jobs']:,}", *spans, bar)
    console.print(table)
