"""How late jobs are made when thousands of schedules are due within one second, with several schedulers at work."""

from __future__ import annotations

import tempfile
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from jobledger import JobStore, Schedule
from jobledger.adapters.calendars import ZoneCalendar
from jobledger.adapters.worker.scheduling import Scheduling
from jobledger.domain.schedules.definition import define
from jobledger.domain.schedules.operating import put
from jobledger.domain.schedules.ports import ScheduleAppend
from jobledger.domain.store.executing import cause_of
from jobledger.domain.store.scheduling import draft_schedule
from tests.bench.cluster import Cluster

SECOND: Final = timedelta(seconds=1)
AHEAD: Final = 3 * SECOND
"""How long after the last schedule was put the first one is due."""

PATIENCE: Final = timedelta(minutes=5)
SCHEDULERS: Final = 2


@dataclass(slots=True)
class Firing:
    """Schedules whose instants are spread evenly over one second, and schedulers that wait for them."""

    cluster: Cluster | None
    schedules: int
    schedulers: int
    progress: Progress

    def run(self) -> dict[str, Any]:
        """The lateness of the jobs in milliseconds, by the store's clock, from the instant to the job's creation."""
        with ExitStack() as stack:
            url = self._url(stack)
            stores = [stack.enter_context(JobStore.open(url, migrate=number == 0)) for number in range(self.schedulers)]
            task = self.progress.add_task(f"{self.schedules:,} schedules", total=2 * self.schedules)
            began = self._put(stores[0], task)
            schedulers = [Scheduling(store, name="bench") for store in stores]
            for each in schedulers:
                each.start()
            self._wait(stores[0], task, began)
            for each in schedulers:
                each.stop()
                each.join(10)
            return self._figures(stores[0])

    def _url(self, stack: ExitStack) -> str:
        if self.cluster is not None:
            return self.cluster.fresh("bench_firing")
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="jobledger-bench-"))
        return f"sqlite:///{folder}/firing.db"

    def _put(self, store: JobStore, task: Any) -> datetime:
        """Put all of them, many to a transaction; answers when the first is due."""
        calendar, storage, namespace = ZoneCalendar(), store._setting.storage, store.namespace  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # one at a time takes minutes
        # To put them takes some time, at a rate of a thousand a second or better.
        began = datetime.now(UTC) + AHEAD + SECOND * self.schedules / 1_000
        for numbers in _batches(self.schedules):
            with storage.writing(PATIENCE) as session:
                drafts: list[ScheduleAppend] = []
                for number in numbers:
                    name, anchor = f"s{number:06}", began + SECOND * number / self.schedules
                    schedule = Schedule(name, "noop", every=3600, anchor=anchor, overlap="allow", catch_up="all")
                    facts = put(
                        None,
                        define(schedule, calendar),
                        calendar,
                        namespace=namespace,
                        name=name,
                        by="bench",
                        now=session.now(),
                    )
                    drafts.append(draft_schedule(None, "", facts, cause_of("put", [name], f"put {name}")))
                session.append_schedules(drafts)
            self.progress.update(task, completed=numbers[-1] + 1)
        return began

    def _wait(self, store: JobStore, task: Any, began: datetime) -> None:
        """Wait until every schedule has fired once."""
        given_up = threading.Event()
        timer = threading.Timer((began - datetime.now(UTC) + PATIENCE).total_seconds(), given_up.set)
        timer.daemon = True
        timer.start()
        while (made := sum(store.counts().values())) < self.schedules and not given_up.is_set():
            self.progress.update(task, completed=self.schedules + made)
            given_up.wait(0.5)
        timer.cancel()

    def _figures(self, store: JobStore) -> dict[str, Any]:
        lateness: list[float] = []
        cursor = None
        while True:
            page = store.jobs(cursor=cursor, limit=1_000)
            for job in page.jobs:
                instant = datetime.fromisoformat((job.key or "").partition(":")[2].partition(":")[2])
                lateness.append((job.created_at - instant) / timedelta(milliseconds=1))
            cursor = page.next_cursor
            if cursor is None:
                break
        lateness.sort()
        at = {share: lateness[min(len(lateness) - 1, int(share * len(lateness)))] for share in (0.5, 0.99, 1.0)}
        return {
            "schedules": self.schedules,
            "schedulers": self.schedulers,
            "fired": len(lateness),
            "p50_ms": at[0.5],
            "p99_ms": at[0.99],
            "max_ms": at[1.0],
        }


def _batches(count: int) -> list[list[int]]:
    return [list(range(first, min(first + 500, count))) for first in range(0, count, 500)]


def show_firing(console: Console, figures: dict[str, Any]) -> None:
    """The figures for people."""
    table = Table("due within one second", "schedulers", "fired", "p50 late", "p99 late", "latest")
    table.add_row(
        f"{figures['schedules']:,}",
        str(figures["schedulers"]),
        f"{figures['fired']:,}",
        *(f"{figures[name]:,.0f} ms" for name in ("p50_ms", "p99_ms", "max_ms")),
    )
    console.print(table)
