"""A parent makes child jobs and waits for them without holding a slot: it parks itself and looks again later.

Run it: python examples/fan_out.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from jobledger import Defer, JobContext, JobHost, JobRequest, JobStore, durable_job

PARTS = 5
stores: list[JobStore] = []  # where the parent makes its children; a service would keep this in its own context


@durable_job("sum")
def add_up(job: JobContext, parts: list[list[int]]) -> int | Defer:
    """Make a child for each part, once, then wait for all of them."""
    (store,) = stores
    children = [
        job.unit(f"child {number}", create_child, store, f"{job.job_id}/{number}", part)
        for number, part in enumerate(parts)
    ]
    statuses = [store.status(child) for child in children]
    if not all(status.is_terminal for status in statuses):
        return Defer(1)  # the slot is free meanwhile; with a single slot this example still ends
    return sum(status.result for status in statuses)


def create_child(store: JobStore, key: str, part: list[int]) -> str:
    """Its key makes it one child, also where the parent died before this was recorded."""
    return store.create(JobRequest(owner="math", key=key, kind="sum-part", payload={"part": part})).job_id


@durable_job("sum-part")
def add_part(part: list[int]) -> int:
    """Add one part."""
    return sum(part)


def main() -> None:
    """Add up a hundred numbers in parts, with one slot."""
    with tempfile.TemporaryDirectory() as folder, JobStore.open(f"sqlite:///{Path(folder) / 'jobs.db'}") as store:
        stores.append(store)
        with JobHost(store, [add_up, add_part], concurrency=1) as host:
            host.admit()
            parts = [list(range(first, 101, PARTS)) for first in range(1, PARTS + 1)]
            request = JobRequest(owner="math", kind="sum", payload={"parts": parts})
            status = store.wait(store.create(request).job_id, 60)
        print(f"{status.state.value}: {status.result}, in {status.generation} attempts of the parent")


if __name__ == "__main__":
    main()
