"""The two jobs of the demonstration: one rebuilds an index in batches, one patrols it until somebody cancels it."""

from __future__ import annotations

import threading
from dataclasses import asdict
from datetime import timedelta
from typing import Final

from jobledger.adapters.demo import crashing
from jobledger.adapters.demo.index import BatchReceipt, Index
from jobledger.adapters.worker.context import JobContext
from jobledger.adapters.worker.hooks import checkpoint, progress, restore
from jobledger.adapters.worker.registration import durable_job
from jobledger.domain.answers import Progress
from jobledger.domain.policies import Policy

REBUILD: Final = "rebuild-index"
PATROL: Final = "patrol-index"
POLICY: Final = "index-jobs"
POLICIES: Final = {POLICY: Policy(lease=timedelta(seconds=2), progress_every=timedelta(seconds=0.2))}

STEP_SECONDS: Final = 0.1


@durable_job(REBUILD, policy=POLICY)
class RebuildIndex:
    """Builds the index batch by batch; the next batch is all that a replacement has to know."""

    def __init__(self) -> None:
        """Start with batch zero; a replacement is told where to go on."""
        self.next_batch = 0
        self.batches = 0

    def run(self, job: JobContext, partition: str, index: str, batches: int) -> str:
        """Build every batch that is not built yet; each leaves a receipt, and a checkpoint behind it."""
        self.batches = batches
        while self.next_batch < batches:
            job.raise_if_cancelled()
            job.unit(f"batch-{self.next_batch}", self._build, job, Index(index))
            self.next_batch += 1
            job.checkpoint()
        return f"{partition}:complete"

    def _build(self, job: JobContext, index: Index) -> dict[str, int | str]:
        receipt: BatchReceipt = index.rebuild_batch(self.next_batch, worker=job.worker, generation=job.generation)
        crashing.effect_is_written(self.next_batch)
        return asdict(receipt)

    @checkpoint
    def save(self) -> int:
        """The next batch."""
        return self.next_batch

    @restore
    def load(self, saved: int | None) -> None:
        """Go on with the saved batch; a fresh run starts with batch zero."""
        self.next_batch = saved or 0

    @progress
    def done(self) -> Progress:
        """How many batches are built."""
        return Progress(self.next_batch, self.batches or None)


@durable_job(PATROL, policy=POLICY)
class PatrolIndex:
    """Compares the index with its files, batch after batch and round after round; only a cancel ends it."""

    def __init__(self) -> None:
        """Start with nothing compared."""
        self.compared = 0

    def run(self, job: JobContext, index: str, batches: int) -> None:
        """Compare until asked to stop; each comparison ends at a boundary."""
        while True:
            job.raise_if_cancelled()
            Index(index).changed(self.compared % batches)
            self.compared += 1
            job.checkpoint()
            threading.Event().wait(STEP_SECONDS)

    @checkpoint
    def save(self) -> int:
        """How many comparisons were made."""
        return self.compared

    @restore
    def load(self, saved: int | None) -> None:
        """Go on counting."""
        self.compared = saved or 0
