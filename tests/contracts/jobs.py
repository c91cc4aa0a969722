"""Short words for what the suite does to jobs."""

from __future__ import annotations

from typing import Any

import pytest

from jobledger import Fence, JobledgerError, JobRequest, JobStore, Lease


def created(store: JobStore, key: str | None = "k", **request: Any) -> str:
    """A job of owner ``team``; answers its id."""
    given: dict[str, Any] = {"owner": "team", "kind": "index", "key": key} | request
    return store.create(JobRequest(**given)).job_id


def running(store: JobStore, key: str | None = "k", *, worker: str = "w1", **request: Any) -> Lease:
    """A job with its first lease."""
    return store.claim(created(store, key, **request), worker=worker)


def topics(store: JobStore, job_id: str) -> list[str]:
    """The names of a job's events, in order."""
    return [event.name for event in store.history(job_id)]


def trace(store: JobStore, job_id: str) -> tuple[object, ...]:
    """Everything that a refused command must leave as it was: status, events, units, counts, feed."""
    return (
        store.status(job_id),
        [event.digest for event in store.history(job_id)],
        store.units(job_id, limit=1_000),
        store.counts(),
        store.feed(limit=1_000),
    )


def refuses(code: str, call: Any, *args: Any, **named: Any) -> JobledgerError:
    """Require that a call is refused by this code; answers the error."""
    with pytest.raises(JobledgerError) as refusal:
        call(*args, **named)

    assert refusal.value.code == code, f"refused as {refusal.value.code}: {refusal.value}"
    return refusal.value


def forged(fence: Fence) -> Fence:
    """The same fence with another token."""
    return Fence(fence.job_id, fence.generation, fence.group, fence.epoch, "not-the-token")
