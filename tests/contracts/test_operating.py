"""Operators' commands over a store: effects, refusals in their order, and that a refusal leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from jobledger import JobStore, ManualClock, State
from tests.contracts.conftest import LEASE
from tests.contracts.jobs import created, refuses, running, topics, trace

OPS: Any = {"by": "ops", "reason": "to look at it"}


def test_an_operator_hold_prevents_claims_until_it_is_released(store: JobStore) -> None:
    """What is not running is paused at once; after the release it is claimable."""
    job_id = created(store)
    receipt = store.hold(job_id, **OPS)

    assert receipt.state is State.PAUSED
    error = refuses("hold_in_force", store.claim, job_id, worker="w")
    assert "'ops'" in str(error)
    assert store.claim_next(worker="w") == []
    assert store.release_hold(job_id, **OPS).state is State.PAUSED
    assert store.claim(job_id, worker="w").generation == 1


def test_a_hold_on_running_work_parks_it_at_its_boundary(store: JobStore) -> None:
    """Pausing is cooperative: the worker learns of the hold, saves, and gives the lease back."""
    lease = running(store)

    assert store.hold(lease.job_id, **OPS).state is State.RUNNING
    assert store.renew(lease.fence).hold_requested
    assert store.pause(lease.fence, {"batch": 4}).state is State.PAUSED
    assert topics(store, lease.job_id)[-2:] == ["Checkpointed", "Paused"]
    refuses("stale_fence", store.checkpoint, lease.fence, 5)
    store.release_hold(lease.job_id, **OPS)
    assert store.claim(lease.job_id, worker="w2").checkpoint == {"batch": 4}


def test_a_worker_that_ignores_holds_may_claim_under_an_operators_hold(store: JobStore) -> None:
    """Only an operator's hold can be ignored, and such an attempt is not told of it."""
    job_id = created(store)
    store.hold(job_id, **OPS)

    lease = store.claim(job_id, worker="w", respect_hold=False)

    assert not store.renew(lease.fence).hold_requested


def test_asking_twice_is_answered_as_reused(store: JobStore) -> None:
    """The same operator's second hold, release and cancel append nothing."""
    lease = running(store)
    first = store.hold(lease.job_id, **OPS)

    assert not first.reused
    assert store.hold(lease.job_id, **OPS).reused
    refuses("hold_in_force", store.hold, lease.job_id, by="other", reason="too")
    assert not store.release_hold(lease.job_id, **OPS).reused
    assert store.release_hold(lease.job_id, **OPS).reused
    refuses("not_held", store.release_hold, lease.job_id, by="other", reason="too")
    assert not store.request_cancel(lease.job_id, **OPS).reused
    assert store.request_cancel(lease.job_id, by="other", reason="too").reused
    assert topics(store, lease.job_id)[2:] == ["HoldPlaced", "HoldReleased", "CancelRequested"]


def test_resume_is_for_jobs_that_were_never_leased(store: JobStore) -> None:
    """Leased work resumes by the release of its hold and a new claim."""
    fresh, leased = created(store, "fresh"), running(store, "leased")
    store.hold(fresh, **OPS)
    store.hold(leased.job_id, **OPS)
    store.pause(leased.fence)

    assert store.resume(fresh, **OPS).state is State.QUEUED
    assert topics(store, fresh) == ["Created", "HoldPlaced", "HoldReleased", "Resumed"]
    refuses("not_resumable", store.resume, fresh, **OPS)
    refuses("not_resumable", store.resume, leased.job_id, **OPS)


def test_queued_and_paused_work_is_cancelled_without_a_lease(store: JobStore) -> None:
    """The lease-free cancellation is a path of its own, and final at once."""
    queued, paused = created(store, "queued"), created(store, "paused")
    store.hold(paused, **OPS)

    for job_id in (queued, paused):
        assert store.request_cancel(job_id, **OPS).state is State.CANCELLED
        assert list(store.history(job_id))[-1].data["generation"] is None
        assert store.status(job_id).hold is None


def test_a_running_job_records_its_safe_boundary_when_it_is_cancelled(store: JobStore) -> None:
    """A cancellation request is no instant rollback: completed units stay as evidence."""
    lease = running(store)
    refuses("cancel_not_requested", store.cancel, lease.fence)
    store.record_unit(lease.fence, "batch-1", {"rows": 10})
    store.checkpoint(lease.fence, 1)

    assert store.request_cancel(lease.job_id, **OPS).state is State.RUNNING
    assert store.renew(lease.fence).cancel_requested
    assert store.cancel(lease.fence, {"stopped": "between batches"}).state is State.CANCELLED
    last = list(store.history(lease.job_id))[-1].data
    assert (last["checkpoint_sequence"], last["units"]) == (4, 1)
    assert last["boundary"]["value"] == {"stopped": "between batches"}
    assert store.unit(lease.job_id, "batch-1").receipt == {"rows": 10}  # type: ignore[union-attr]  # just recorded


def test_a_job_may_complete_after_a_cancel_request(store: JobStore) -> None:
    """Both orders of the race are legal, and the history shows which it was."""
    lease = running(store)
    store.request_cancel(lease.job_id, **OPS)

    assert store.complete(lease.fence, result=1).state is State.COMPLETE
    refuses("already_terminal", store.request_cancel, lease.job_id, **OPS)


def test_an_expired_attempt_with_a_cancel_request_ends_by_recovery(store: JobStore, clock: ManualClock) -> None:
    """No new attempt starts; the recovery records the cancellation and nothing else."""
    lease = running(store)
    store.request_cancel(lease.job_id, **OPS)
    clock.advance(LEASE)

    refuses("cancel_pending", store.claim, lease.job_id, worker="w2")
    refuses("cancel_pending", store.retry, lease.job_id, **OPS)
    assert store.recover(lease.job_id).state is State.CANCELLED
    assert topics(store, lease.job_id)[-2:] == ["Interrupted", "Cancelled"]


def test_a_crash_loop_ends_parked_before_an_operators_eyes(store: JobStore, clock: ManualClock) -> None:
    """When the budget is used up the engine holds the job, every claim is bound, and a release renews the budget."""
    lease = running(store, policy="fragile")
    clock.advance(timedelta(seconds=2))
    lease = store.claim(lease.job_id, worker="w2")
    clock.advance(timedelta(seconds=2))

    refuses("budget_exhausted", store.claim, lease.job_id, worker="w3")
    assert store.claim_next(worker="w3") == []
    assert store.recover(lease.job_id).state is State.PAUSED
    hold = store.status(lease.job_id).hold
    assert hold is not None
    assert hold.by == "engine"
    refuses("hold_in_force", store.claim, lease.job_id, worker="w3", respect_hold=False)
    refuses("invalid_request", store.hold, lease.job_id, by="engine", reason="not me")
    store.release_hold(lease.job_id, **OPS)
    assert store.claim(lease.job_id, worker="w3").generation == 3


def test_failures_back_off_and_use_their_budget_up(store: JobStore, clock: ManualClock) -> None:
    """The last failure of the budget completes the job as failed; progress in between renews it."""
    lease = running(store, policy="fragile")
    receipt = store.fail_attempt(lease.fence, ValueError("row 7"))

    assert receipt.state is State.QUEUED
    status = store.status(lease.job_id)
    assert (status.error, status.failures) == ("ValueError: row 7", 1)
    refuses("not_ready", store.claim, lease.job_id, worker="w")
    store.retry(lease.job_id, **OPS)
    assert store.status(lease.job_id).failures == 0
    lease = store.claim(lease.job_id, worker="w")
    store.fail_attempt(lease.fence, "again")
    clock.advance(timedelta(minutes=1))
    lease = store.claim(lease.job_id, worker="w")
    assert store.fail_attempt(lease.fence, "for good").state is State.FAILED
    assert store.status(lease.job_id).outcome == "failed"


def test_a_stale_look_is_refused(store: JobStore) -> None:
    """A command that must not act late carries the control sequence that its sender saw; progress does not move it."""
    lease = running(store)
    seen = store.status(lease.job_id).control_sequence
    store.checkpoint(lease.fence, 1)
    store.report_progress(lease.fence, 1)

    assert store.hold(lease.job_id, **OPS, expected_sequence=seen).sequence == 5
    error = refuses("sequence_moved", store.release_hold, lease.job_id, **OPS, expected_sequence=seen)
    assert (error.expected, error.current) == (2, 5)  # type: ignore[attr-defined]  # a SequenceMovedError


def test_a_control_the_job_was_created_without_is_refused_and_the_others_are_listed(store: JobStore) -> None:
    """Failure boundary: pause command unavailable. No pause is assumed."""
    job_id = created(store, controls=("cancel",))
    before = trace(store, job_id)

    error = refuses("control_unavailable", store.hold, job_id, **OPS)

    assert "cancel" in str(error)
    refuses("control_unavailable", store.resume, job_id, **OPS)
    refuses("control_unavailable", store.retry, job_id, **OPS)
    assert trace(store, job_id) == before


COMMANDS: dict[str, Callable[[JobStore, str], object]] = {
    "hold": lambda store, job_id: store.hold(job_id, **OPS),
    "release_hold": lambda store, job_id: store.release_hold(job_id, **OPS),
    "resume": lambda store, job_id: store.resume(job_id, **OPS),
    "request_cancel": lambda store, job_id: store.request_cancel(job_id, **OPS),
    "retry": lambda store, job_id: store.retry(job_id, **OPS),
    "recover": lambda store, job_id: store.recover(job_id),
    "rerun": lambda store, job_id: store.rerun(job_id, **OPS, key="again"),
    "fork": lambda store, job_id: store.fork(job_id, at_sequence=1, **OPS, key="forked"),
}


def _queued(store: JobStore, _: ManualClock) -> str:
    return created(store)


def _paused(store: JobStore, _: ManualClock) -> str:
    store.hold(job_id := created(store), by="other", reason="wait")
    return job_id


def _running(store: JobStore, _: ManualClock) -> str:
    return running(store).job_id


def _expired(store: JobStore, clock: ManualClock) -> str:
    job_id = running(store).job_id
    clock.advance(LEASE)
    return job_id


def _parked(store: JobStore, clock: ManualClock) -> str:
    store.recover(job_id := _expired(store, clock))
    return job_id


def _cancelling(store: JobStore, _: ManualClock) -> str:
    store.request_cancel(job_id := running(store).job_id, by="other", reason="no use")
    return job_id


def _complete(store: JobStore, _: ManualClock) -> str:
    lease = running(store)
    return store.complete(lease.fence, result=1).job_id


def _bare(store: JobStore, _: ManualClock) -> str:
    return created(store, controls=())


SITUATIONS = (_queued, _paused, _running, _expired, _parked, _cancelling, _complete, _bare)


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("name", COMMANDS)
def test_the_controls_that_are_advertised_are_those_that_are_accepted(
    store: JobStore, clock: ManualClock, situation: Callable[[JobStore, ManualClock], str], name: str
) -> None:
    """What may be asked is accepted; what may not is refused by the code that was told, changing nothing."""
    job_id = situation(store, clock)
    controls = store.controls(job_id)
    before = trace(store, job_id)

    if name in controls.available:
        COMMANDS[name](store, job_id)
    else:
        error = refuses(controls.unavailable[name].code, COMMANDS[name], store, job_id)
        assert str(error) == controls.unavailable[name].text
        assert trace(store, job_id) == before


def test_an_unknown_job_is_refused_by_every_command(store: JobStore) -> None:
    """Also one of another namespace."""
    for command in COMMANDS.values():
        refuses("unknown_job", command, store, "no-such-job")
    for question in (store.status, store.events, store.units, store.timeline, store.controls, store.verify):
        refuses("unknown_job", question, "no-such-job")
    assert store.find("team", "nothing") is None
