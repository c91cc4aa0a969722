"""Hashes numbers in child processes, so that the computing holds up neither the renewals nor each other.

Run it: python examples/hash_in_processes.py
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from jobledger import JobContext, JobHost, JobRequest, JobStore, durable_job


@durable_job("prove", executor="process")
def prove(job: JobContext, seed: str, zeros: int) -> dict[str, int]:
    """Find a number whose hash begins with so many zeros; a new attempt goes on where the last one had got to."""
    number = job.state or 0
    while not hashlib.sha256(f"{seed}:{number}".encode()).hexdigest().startswith("0" * zeros):
        number += 1
        if number % 20_000 == 0:
            job.progress(number)
            job.checkpoint(number)
    return {"number": number, "pid": os.getpid()}


def main() -> None:
    """Find four of them, two at a time."""
    with tempfile.TemporaryDirectory() as folder, JobStore.open(f"sqlite:///{Path(folder) / 'jobs.db'}") as store:
        with JobHost(store, [prove], concurrency=2) as host:
            host.admit()
            requests = [JobRequest(owner="lab", kind="prove", payload={"seed": s, "zeros": 4}) for s in "abcd"]
            results = [store.wait(store.create(request).job_id, 120).result for request in requests]
        here = os.getpid()
        print(f"{len(results)} found, {sum(each['pid'] == here for each in results)} of them in the host's process")


if __name__ == "__main__":
    main()
