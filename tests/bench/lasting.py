"""Whether a host stays as it is over very many jobs: its memory and its threads, looked at twenty times on the way."""

from __future__ import annotations

import tempfile
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from jobledger import JobHost, JobRequest, JobStore, durable_job
from jobledger.adapters.worker.health import memory_bytes
from tests.bench.cluster import Cluster

LOOKS: Final = 20
CONCURRENCY: Final = 100
PATIENCE_SECONDS: Final = 600.0


@dataclass(slots=True)
class Lasting:
    """Jobs that do nothing, half of them on the loop and half in threads, made and drained in twenty parts."""

    cluster: Cluster | None
    jobs: int
    progress: Progress

    def run(self) -> list[dict[str, Any]]:
        """After each part: how many jobs have run, and the memory and the threads of the process."""
        part = max(2, self.jobs // LOOKS)
        ran, is_done = 0, threading.Event()

        def note() -> None:
            nonlocal ran
            ran += 1
            if ran % part == 0:
                is_done.set()

        @durable_job("loop")
        async def on_loop() -> None:
            note()

        @durable_job("thread")
        def in_thread() -> None:
            note()

        looks: list[dict[str, Any]] = []
        with ExitStack() as stack:
            store = stack.enter_context(JobStore.open(self._url(stack), migrate=True))
            host = stack.enter_context(JobHost(store, [on_loop, in_thread], concurrency=CONCURRENCY))
            host.admit()
            task = self.progress.add_task(f"{self.jobs:,} jobs", total=part * LOOKS)
            for number in range(1, LOOKS + 1):
                is_done.clear()
                for first in range(0, part, 1_000):
                    store.create_many(
                        [
                            JobRequest(owner="team", kind="loop" if place % 2 else "thread")
                            for place in range(min(1_000, part - first))
                        ]
                    )
                if not is_done.wait(PATIENCE_SECONDS):
                    break
                self.progress.update(task, completed=part * number)
                looks.append(
                    {"jobs": part * number, "memory_bytes": memory_bytes(), "threads": threading.active_count()}
                )
            host.drain(timedelta(seconds=60))
        return looks

    def _url(self, stack: ExitStack) -> str:
        if self.cluster is not None:
            return self.cluster.fresh("bench_lasting")
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="jobledger-bench-"))
        return f"sqlite:///{folder}/lasting.db"


def show_lasting(console: Console, looks: list[dict[str, Any]]) -> None:
    """The figures for people."""
    table = Table("jobs run", "memory", "threads", title="A host over many jobs")
    for each in looks:
        table.add_row(f"{each['jobs']:,}", f"{each['memory_bytes'] / 2**20:.1f} MiB", str(each["threads"]))
    console.print(table)
