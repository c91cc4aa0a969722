"""Rebuilds a word index in batches; a worker that dies goes on from the last batch, and the index is never half new.

Run it: python examples/index_rebuild.py
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

from jobledger import Effect, JobClient, JobContext, JobHost, JobStore, checkpoint, durable_job, progress, restore

TEXTS = ["a lease is a claim with an end", "a fence keeps a stale worker out", "a checkpoint is where work goes on"]


@durable_job("rebuild")
class RebuildIndex:
    """One batch is one text; what was counted so far is the state that a take-over starts from."""

    def __init__(self) -> None:
        self.words: Counter[str] = Counter()
        self.next_batch = 0

    def run(self, job: JobContext, texts: list[str], version: int) -> int:
        """Count every text, and publish the index together with the result."""
        while self.next_batch < len(texts):
            self.words.update(texts[self.next_batch].split())
            self.next_batch += 1
            job.checkpoint()  # a boundary: a hold parks the job here, a cancel request ends it here
        # Committed in one transaction with the job's end: readers see the old index, or the whole new one.
        job.stage(Effect(resource="index", value=dict(self.words), expected_version=version))
        return len(self.words)

    @checkpoint
    def save(self) -> tuple[int, dict[str, int]]:
        """What a take-over needs."""
        return self.next_batch, dict(self.words)

    @restore
    def load(self, saved: tuple[int, dict[str, int]] | None) -> None:
        """Go on, or begin."""
        self.next_batch, words = saved or (0, {})
        self.words = Counter(words)

    @progress
    def done(self) -> int:
        """How many texts are counted."""
        return self.next_batch


def main() -> None:
    """Rebuild once, and ask the index."""
    with tempfile.TemporaryDirectory() as folder, JobStore.open(f"sqlite:///{Path(folder) / 'jobs.db'}") as store:
        with JobHost(store, [RebuildIndex]) as host:
            host.admit()
            client = JobClient(host, "rebuild", owner="search")
            submitted = client.submit("rebuild-42", {"texts": TEXTS, "version": 0}, 10)
            status = store.wait(submitted.job_id, 60)
        index = store.resource("search", "index")
        words = index.value if index else {}
        print(f"{status.state.value}: {status.result} words, 'a' stands {words['a']} times")


if __name__ == "__main__":
    main()
