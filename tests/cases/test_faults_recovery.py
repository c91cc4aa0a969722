"""Faults of recovery: what was decided on a stale look is never written, and nobody's work ends by a sweep."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobledger import JobRequest, JobStore, ManualClock, State
from jobledger.adapters.storage.entropy import SystemEntropy
from jobledger.adapters.storage.memory import MemoryStorage
from jobledger.domain.errors import OutcomeUnknownError
from jobledger.domain.store import Setting
from tests.cases.conftest import Delayed
from tests.contracts.conftest import LEASE
from tests.contracts.faults import FaultyStorage
from tests.contracts.jobs import created, refuses, running, topics


def test_a_recovery_that_looked_before_its_worker_came_back_changes_nothing(
    delayed: Delayed, clock: ManualClock
) -> None:
    """The sweep saw an expired lease; before it writes, the worker renews and finishes: the job stays finished."""
    store = delayed.store
    lease = running(store)
    clock.advance(LEASE)
    recovery = delayed.held_back(lambda: store.recover(lease.job_id))

    store.renew(lease.fence)
    store.complete(lease.fence, result="done")

    assert delayed.deliver(recovery) == ["sequence"]
    assert store.status(lease.job_id).state is State.COMPLETE
    assert topics(store, lease.job_id) == ["Created", "Claimed", "LeaseRenewedLate", "Completed"]


def test_a_recovery_that_nobody_came_before_is_written(delayed: Delayed, clock: ManualClock) -> None:
    """The control: the same delivery, undisturbed, does park the job."""
    lease = running(delayed.store)
    clock.advance(LEASE)
    recovery = delayed.held_back(lambda: delayed.store.recover(lease.job_id))

    assert delayed.deliver(recovery) == [None]
    assert delayed.store.status(lease.job_id).state is State.PAUSED


def test_of_two_recoverers_with_one_list_one_parks_the_job(delayed: Delayed, clock: ManualClock) -> None:
    """The loser is told so, also when it looks again."""
    lease = running(delayed.store)
    clock.advance(LEASE)
    late = delayed.held_back(lambda: delayed.store.recover(lease.job_id))

    delayed.store.recover(lease.job_id)

    assert delayed.deliver(late) == ["sequence"]
    refuses("nothing_to_recover", delayed.store.recover, lease.job_id)
    assert topics(delayed.store, lease.job_id) == ["Created", "Claimed", "Interrupted"]


def test_a_stale_claim_takes_nothing_from_a_worker_that_came_back(delayed: Delayed, clock: ManualClock) -> None:
    """A take-over was decided on an expired lease, which was renewed before it was written."""
    lease = running(delayed.store)
    clock.advance(LEASE)
    claim = delayed.held_back(lambda: delayed.store.claim(lease.job_id, worker="w2"))

    delayed.store.renew(lease.fence)

    assert delayed.deliver(claim) == ["sequence"]
    assert delayed.store.complete(lease.fence, result=1).generation == 1


def test_a_job_that_runs_ten_times_its_lease_is_never_recovered(store: JobStore, clock: ManualClock) -> None:
    """Age is no sign of death: who renews keeps its generation, and every sweep passes it by."""
    lease = running(store)

    for _ in range(30):
        clock.advance(LEASE / 3)
        store.renew(lease.fence)
        assert store.recover_expired() == []
        assert store.claim_next(worker="w2") == []

    assert store.complete(lease.fence, result=1).generation == 1
    assert topics(store, lease.job_id) == ["Created", "Claimed", "Completed"]


def test_a_worker_that_comes_back_under_its_old_name_is_another_one(store: JobStore, clock: ManualClock) -> None:
    """A name proves nothing: the killed process's lease protects the job until it ends, and then it is recovered."""
    lease = running(store, worker="pod-1")
    refuses("lease_live", store.claim, lease.job_id, worker="pod-1")
    clock.advance(LEASE)

    [recovered] = store.recover_expired()

    assert (recovered.job_id, recovered.state) == (lease.job_id, State.PAUSED)
    assert store.claim(lease.job_id, worker="pod-1").fence.generation == 2
    refuses("stale_fence", store.complete, lease.fence, result=1)


def test_a_success_that_was_never_committed_is_no_success(clock: ManualClock) -> None:
    """The connection broke before every commit: the attempt expires and parks, and never completes without a result."""
    faulty = FaultyStorage(MemoryStorage(clock=clock))
    store = JobStore(Setting(faulty, SystemEntropy()))
    lease = running(store)
    faulty.plan = ["undone"] * 9

    with pytest.raises(OutcomeUnknownError):
        store.complete(lease.fence, result="done")
    faulty.plan = []
    clock.advance(LEASE)
    store.recover_expired()

    status = store.status(lease.job_id)
    assert (status.state, status.result, status.outcome) == (State.PAUSED, None, None)


def test_a_sweep_that_knows_no_handler_parks_and_discards_nothing(store: JobStore, clock: ManualClock) -> None:
    """Jobs of other services are parked as they are; none of them fails."""
    leases = [running(store, kind, kind=kind) for kind in ("index", "mail", "nobody's")]
    clock.advance(LEASE)

    store.recover_expired()

    assert {store.status(lease.job_id).state for lease in leases} == {State.PAUSED}
    assert all(store.claim(lease.job_id, worker="w2").fence.generation == 2 for lease in leases)


def test_a_sweep_takes_as_many_as_it_may_until_none_is_left(store: JobStore, clock: ManualClock) -> None:
    leases = [running(store, f"k{number}") for number in range(7)]
    clock.advance(LEASE)

    parked = [store.recover_expired(limit=3) for _ in range(4)]

    assert [len(each) for each in parked] == [3, 3, 1, 0]
    assert {receipt.job_id for each in parked for receipt in each} == {lease.job_id for lease in leases}


def test_what_may_not_be_taken_keeps_nobody_from_what_may(store: JobStore, clock: ManualClock) -> None:
    """However many stand before it that no claim may take, the one that may is found by the first look."""
    later = clock.now() + timedelta(hours=1)
    store.create_many([JobRequest(owner="team", kind="index", key=f"later-{n}", ready_at=later) for n in range(300)])
    for number in range(60):
        store.hold(created(store, f"held-{number}", priority=5), by="ann", reason="look")
    mine = created(store, "mine", priority=-5)

    assert [lease.job_id for lease in store.claim_next(worker="w")] == [mine]


def test_a_hold_costs_no_budget_however_long_it_stands(store: JobStore, clock: ManualClock) -> None:
    """No deadline of the job runs while it is parked."""
    lease = running(store, policy="fragile")
    store.hold(lease.job_id, by="ann", reason="look")
    store.pause(lease.fence, {"at": 1})

    clock.advance(timedelta(days=400))

    assert store.recover_expired() == []
    store.release_hold(lease.job_id, by="ann", reason="looked")
    assert store.claim(lease.job_id, worker="w2").checkpoint == {"at": 1}
    assert store.status(lease.job_id).interrupts == 0


def test_an_attempt_after_a_hold_expires_as_any_other(store: JobStore, clock: ManualClock) -> None:
    """Nothing that times an attempt is lost with the hold."""
    job_id = created(store)
    store.hold(job_id, by="ann", reason="look")
    store.release_hold(job_id, by="ann", reason="looked")
    store.claim(job_id, worker="w1")

    clock.advance(LEASE)

    assert [receipt.job_id for receipt in store.recover_expired()] == [job_id]


def test_an_attempt_counts_from_its_claim(store: JobStore, clock: ManualClock) -> None:
    """A process that dies before its handler begins has used its attempt up: a crash loop cannot hide."""
    job_id = created(store, policy="fragile")

    for generation in (1, 2):
        assert store.claim(job_id, worker="w").fence.generation == generation
        clock.advance(LEASE)
        store.recover_expired()

    status = store.status(job_id)
    assert (status.generation, status.interrupts) == (2, 2)
    refuses("hold_in_force", store.claim, job_id, worker="w")
