"""Rerun and fork: a new job of its own, linked to the old one, from the start or from what was done."""

from __future__ import annotations

from typing import Any

from jobledger import JobStore, State
from tests.contracts.jobs import created, refuses, running

OPS: Any = {"by": "ops", "reason": "once more"}


def test_an_ended_job_runs_again_as_a_new_job(store: JobStore) -> None:
    """The old one keeps its outcome; the new one starts fresh, under its own key, and names its origin."""
    lease = running(store, payload={"p": 7}, queue="q", labels={"a": "b"})
    store.checkpoint(lease.fence, 4)
    store.record_unit(lease.fence, "u", 1)
    refuses("not_terminal", store.rerun, lease.job_id, **OPS, key="again")
    store.complete(lease.fence, result="old")

    receipt = store.rerun(lease.job_id, **OPS, key="again")

    status = store.status(receipt.job_id)
    assert (status.state, status.payload, status.queue, status.key) == (State.QUEUED, {"p": 7}, "q", "again")
    assert (status.checkpoint, status.units) == (None, 0)
    assert lease.job_id in (status.origin or "")
    assert store.status(lease.job_id).result == "old"
    assert store.rerun(lease.job_id, by="other", reason="same", key="again").reused
    refuses("job_exists", store.rerun, lease.job_id, **OPS, key="again", from_checkpoint=True)
    refuses("job_exists", store.rerun, lease.job_id, **OPS, key="k")


def test_a_rerun_from_its_checkpoint_keeps_receipts_and_state(store: JobStore) -> None:
    """What was proved done is not done again, also when receipts and state are large."""
    lease = running(store)
    store.checkpoint(lease.fence, "s" * 9_000)
    store.record_unit(lease.fence, "large", "r" * 9_000)
    store.record_unit(lease.fence, "small", 1)
    store.complete(lease.fence, "failed", error="broke")

    receipt = store.rerun(lease.job_id, **OPS, key="again", from_checkpoint=True)
    again = store.claim(receipt.job_id, worker="w")

    assert again.checkpoint == "s" * 9_000
    assert [(unit.unit, unit.receipt) for unit in store.units(receipt.job_id).units] == [
        ("large", "r" * 9_000),
        ("small", 1),
    ]
    assert store.record_unit(again.fence, "small", 1).reused
    assert store.verify(receipt.job_id).ok


def test_a_fork_starts_from_a_sequence(store: JobStore) -> None:
    """Only what was recorded up to there is taken along; the running job is left alone."""
    lease = running(store)
    for number in range(3):
        store.record_unit(lease.fence, f"u{number}", number)
        store.checkpoint(lease.fence, number)

    receipt = store.fork(lease.job_id, at_sequence=6, **OPS, key="forked")

    assert store.status(receipt.job_id).checkpoint == 1
    assert [unit.unit for unit in store.units(receipt.job_id).units] == ["u0", "u1"]
    assert store.status(lease.job_id).state is State.RUNNING
    assert store.fork(lease.job_id, at_sequence=6, **OPS, key="forked").reused
    refuses("job_exists", store.fork, lease.job_id, at_sequence=4, **OPS, key="forked")
    for nowhere in (0, 9, -1):
        refuses("unknown_sequence", store.fork, lease.job_id, at_sequence=nowhere, **OPS, key="f")


def test_a_fork_of_a_queued_job_is_a_job_like_it(store: JobStore) -> None:
    """Without a checkpoint there is none to take along."""
    receipt = store.fork(created(store), at_sequence=1, **OPS, key="forked")

    assert store.status(receipt.job_id).checkpoint is None
    assert store.verify(receipt.job_id).ok
