"""Faults of operators' controls: both orders of a race end in one of the two answers, and none is lost."""

from __future__ import annotations

from jobledger import Fence, JobRequest, JobStore, Policy, State
from tests.cases.conftest import Delayed
from tests.contracts.jobs import created, refuses, running, topics


def test_a_completion_that_loses_to_a_cancel_request_still_says_so(delayed: Delayed) -> None:
    """The request is on record before the result, which stands: a request is no order."""
    store = delayed.store
    lease = running(store)
    completion = delayed.held_back(lambda: store.complete(lease.fence, result=1))

    store.request_cancel(lease.job_id, by="ann", reason="not needed")

    assert delayed.deliver(completion) == ["sequence"]
    assert store.complete(lease.fence, result=1).state is State.COMPLETE
    assert topics(store, lease.job_id)[-2:] == ["CancelRequested", "Completed"]


def test_a_cancel_request_that_loses_to_a_completion_is_told_that_it_is_too_late(delayed: Delayed) -> None:
    store = delayed.store
    lease = running(store)
    request = delayed.held_back(lambda: store.request_cancel(lease.job_id, by="ann", reason="not needed"))

    store.complete(lease.fence, result=1)

    assert delayed.deliver(request) == ["sequence"]
    refuses("already_terminal", store.request_cancel, lease.job_id, by="ann", reason="not needed")
    assert store.status(lease.job_id).state is State.COMPLETE


def test_a_request_that_nobody_came_before_is_written(delayed: Delayed) -> None:
    """The control: the same delivery, undisturbed, is accepted."""
    lease = running(delayed.store)
    request = delayed.held_back(lambda: delayed.store.request_cancel(lease.job_id, by="ann", reason="not needed"))

    assert delayed.deliver(request) == [None]
    assert delayed.store.renew(lease.fence).cancel_requested


def test_a_hold_that_is_released_as_its_job_parks_leaves_the_job_claimable(delayed: Delayed) -> None:
    """No wake-up is lost between the two writes, whichever comes first."""
    store = delayed.store
    for order in ("release first", "park first"):
        lease = running(store, order)
        store.hold(lease.job_id, by="ann", reason="look")
        if order == "release first":
            park = delayed.held_back(lambda fence=lease.fence: store.pause(fence, {"at": 1}))  # type: ignore[misc]  # bound now
            store.release_hold(lease.job_id, by="ann", reason="looked")
            assert delayed.deliver(park) == ["sequence"]
            store.pause(lease.fence, {"at": 1})
        else:
            store.pause(lease.fence, {"at": 1})
            store.release_hold(lease.job_id, by="ann", reason="looked")

        [again] = store.claim_next(worker="w2")

        assert (again.job_id, again.checkpoint) == (lease.job_id, {"at": 1})
        store.complete(again.fence, result=1)


def test_a_job_at_every_cap_can_still_be_controlled(store: JobStore) -> None:
    """Nothing that an operator does loads or measures what the job carries."""
    cap = Policy().payload_bytes_max
    job_id = created(store, payload="p" * (cap - 2))
    lease = store.claim(job_id, worker="w")
    store.checkpoint(lease.fence, "s" * (cap - 2))

    store.hold(job_id, by="ann", reason="look")
    store.release_hold(job_id, by="ann", reason="looked")
    store.request_cancel(job_id, by="ann", reason="not needed")
    store.cancel(lease.fence)

    status = store.status(job_id)
    assert status.state is State.CANCELLED
    assert (len(status.payload), len(status.checkpoint)) == (cap - 2, cap - 2)
    assert store.verify(job_id).problems == ()


def test_a_cancel_without_any_worker_is_never_undone_by_one(store: JobStore) -> None:
    """Nothing of it is kept in a worker's memory."""
    job_id = created(store)
    store.request_cancel(job_id, by="ann", reason="not needed")

    assert store.claim_next(worker="w") == []
    refuses("already_terminal", store.claim, job_id, worker="w")


def test_a_key_may_be_asked_for_while_its_job_is_made_due(store: JobStore) -> None:
    """What an operator does to a job never meets the rule that makes its key unique."""
    job_id = created(store, ready_at=None, policy="fragile")
    lease = store.claim(job_id, worker="w")
    store.fail_attempt(lease.fence, "it broke")

    store.retry(job_id, by="ann", reason="mended")
    again = store.create(JobRequest(owner="team", kind="index", key="k"))

    assert (again.job_id, again.reused) == (job_id, True)
    assert isinstance(store.claim(job_id, worker="w2").fence, Fence)
