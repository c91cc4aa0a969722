"""What audits cost: events verified, checked, exported, imported, replayed, rebuilt and anchored in a second."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.table import Table

from jobledger import JobRequest, JobStore
from jobledger.adapters.bundles.files import lines_in
from jobledger.projections.checking import verify_bundle

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

EVENTS: Final = 100_000
EVENTS_OF_A_JOB: Final = 50
CLAIMS: Final = 1_000
CLAIM_MS_MAX: Final = 20.0
CHECKER: Final = Path(__file__).resolve().parent.parent.parent / "scripts" / "check_history"


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing that was measured, in events for each second of processor time, and the bar that it has to clear."""

    name: str
    events: int
    seconds: float
    bar: int | None = None

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / max(self.seconds, 1e-9)

    @property
    def is_met(self) -> bool:
        """Whether the bar is cleared; without one, it is."""
        return self.bar is None or self.rate >= self.bar


@dataclass(frozen=True, slots=True)
class Claims:
    """How long claims took, the 99th of a hundred in milliseconds: with the store to themselves, and beside an archive.

    ``events`` were archived meanwhile, at ``rate`` a second by the clock.
    """

    alone_ms: float
    beside_ms: float
    events: int
    rate: float

    @property
    def is_met(self) -> bool:
        """Whether the bar is cleared."""
        return self.beside_ms <= CLAIM_MS_MAX


def measure_claims(size: float = 1.0) -> Claims:
    """Claim on a SQLite store while another process archives ``size`` times 100,000 events of ended jobs."""
    with tempfile.TemporaryDirectory(prefix="jobledger-archive-") as folder:
        path, bundle = Path(folder), Path(folder) / "all.jsonl"
        with JobStore.open("memory:") as memory:
            _filled(memory, max(1, int(size * EVENTS) // EVENTS_OF_A_JOB))
            memory.export(bundle)
        url = f"sqlite:///{path / 'jobs.db'}"
        with JobStore.open(url) as store:
            events = store.import_bundle(bundle).events
            for number in range(100):
                created = [JobRequest(owner="o", kind="claimed", key=f"{number}-{one}") for one in range(100)]
                store.create_many(created)
            alone = [_claim_seconds(store) for _ in range(CLAIMS)]
            command = [sys.executable, "-m", "jobledger", "archive", "--older-than", "0s", "--limit", str(events)]
            began, beside = time.perf_counter(), list[float]()
            with subprocess.Popen([*command, "--store", url], stdout=subprocess.DEVNULL) as archiving:
                while archiving.poll() is None:
                    beside.append(_claim_seconds(store))
            seconds = time.perf_counter() - began
            assert archiving.returncode == 0
    return Claims(_p99_ms(alone), _p99_ms(beside), events, events / seconds)


def _claim_seconds(store: JobStore) -> float:
    """The time of one claim; what was claimed stays so, and is pushed back by nobody for an hour."""
    began = time.perf_counter()
    leases = store.claim_next(worker="w", kinds=["claimed"], lease=3_600)
    took = time.perf_counter() - began
    for lease in leases:
        store.pause(lease.fence)
    return took


def _p99_ms(seconds: list[float]) -> float:
    return sorted(seconds)[len(seconds) * 99 // 100] * 1_000


def measure(size: float = 1.0) -> list[Figure]:
    """Measure every audit on a SQLite store of ``size`` times 100,000 events, each in one process."""
    with tempfile.TemporaryDirectory(prefix="jobledger-audit-") as folder:
        path, bundle = Path(folder), Path(folder) / "all.jsonl"
        with JobStore.open("memory:") as memory:
            events = _filled(memory, max(1, int(size * EVENTS) // EVENTS_OF_A_JOB))
            memory.export(bundle)
        with JobStore.open(f"sqlite:///{path / 'jobs.db'}") as store:

            def verify() -> None:
                assert all(found.ok for found in store.verify_all())

            def replay() -> None:
                assert store.replay().ok

            figures = [
                _timed("import", events, lambda: store.import_bundle(bundle)),
                _timed("verify a store", events, verify, 50_000),
                _timed("rebuild status", events, lambda: store.rebuild("status"), 20_000),
                *(
                    _timed(f"rebuild {name}", events, partial(store.rebuild, name), 20_000)
                    for name in ("totals", "workers", "operators")
                ),
                _timed("replay a store", events, replay),
                _timed("anchor", events, store.anchor),
                _timed("export", events, lambda: store.export(bundle)),
                _timed("export to zstd", events, lambda: store.export(path / "all.jsonl.zst")),
                _timed("archive", events, lambda: store.archive(older_than=0, limit=events)),
            ]

        def verify_export() -> None:
            with lines_in(bundle) as lines:
                assert all(found.ok for found in verify_bundle(lines))

        def check() -> None:
            subprocess.run([sys.executable, str(CHECKER), str(bundle)], check=True, capture_output=True)

        figures += [
            _timed("verify --export", events, verify_export, 50_000),
            _timed("check_history", events, check, 100_000),
        ]
    return figures


def _filled(store: JobStore, jobs: int) -> int:
    """Jobs with checkpoints, receipts and progress; answers how many events they have."""
    for number in range(jobs):
        lease = store.claim(
            store.create(JobRequest(owner="bench", key=f"k{number}", kind="index", payload={"part": number})).job_id,
            worker="w1",
        )
        for step in range(EVENTS_OF_A_JOB - 3):
            if step % 3 == 0:
                store.record_unit(lease.fence, f"batch-{step}", {"rows": step})
            elif step % 3 == 1:
                store.checkpoint(lease.fence, {"next": step})
            else:
                store.report_progress(lease.fence, step, EVENTS_OF_A_JOB)
        store.complete(lease.fence, result="done")
    return jobs * EVENTS_OF_A_JOB


def _timed(name: str, events: int, run: Callable[[], object], bar: int | None = None) -> Figure:
    began = _processor_time()
    run()
    return Figure(name, events, _processor_time() - began, bar)


def _processor_time() -> float:
    """Seconds of processor time of this process and of those that it started: what others do beside it is no matter."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def show_audit(console: Console, figures: list[Figure]) -> None:
    """The figures, each beside its bar."""
    table = Table("audit", "events/s", "bar", "", box=None, title="events for each second of processor time")
    for figure in figures:
        verdict = "" if figure.bar is None else "met" if figure.is_met else "NOT met"
        table.add_row(figure.name, f"{figure.rate:,.0f}", f"{figure.bar:,}" if figure.bar else "", verdict)
    console.print(table)


def show_claims(console: Console, claims: Claims) -> None:
    """The latency of claims, beside its bar."""
    verdict = "met" if claims.is_met else "NOT met"
    archived = f"{claims.events:,} events were archived, {claims.rate:,.0f} a second"
    console.print(
        f"claims: p99 {claims.alone_ms:.1f} ms alone, {claims.beside_ms:.1f} ms while {archived} "
        f"(bar {CLAIM_MS_MAX:.0f} ms, {verdict})"
    )
