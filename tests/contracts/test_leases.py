"""Leases and fences over a store: who may write, until when, and what a take-over changes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest

from jobledger import Completion, Effect, Fence, JobledgerError, JobStore, Lease, ManualClock, State
from tests.contracts.conftest import LEASE
from tests.contracts.jobs import created, forged, refuses, running, topics, trace

WRITES: dict[str, Callable[[JobStore, Fence, datetime], object]] = {
    "checkpoint": lambda store, fence, _: store.checkpoint(fence, {"at": 1}),
    "record_unit": lambda store, fence, _: store.record_unit(fence, "u", "r"),
    "report_progress": lambda store, fence, _: store.report_progress(fence, 1, 2),
    "pause": lambda store, fence, _: store.pause(fence),
    "defer": lambda store, fence, now: store.defer(fence, now),
    "fail_attempt": lambda store, fence, _: store.fail_attempt(fence, "broke"),
    "cancel": lambda store, fence, _: store.cancel(fence),
    "complete": lambda store, fence, _: store.complete(fence, result=1),
}

every_write = pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)


@every_write
def test_an_expired_lease_can_write_nothing(
    store: JobStore, clock: ManualClock, write: Callable[[JobStore, Fence, datetime], object]
) -> None:
    """At the very instant of the expiry and after it, the write is refused and leaves nothing behind."""
    lease = running(store)
    clock.advance(LEASE)
    before = trace(store, lease.job_id)

    refuses("lease_expired", write, store, lease.fence, clock.now())

    assert trace(store, lease.job_id) == before


@every_write
def test_a_stale_worker_can_write_nothing(
    store: JobStore, clock: ManualClock, write: Callable[[JobStore, Fence, datetime], object]
) -> None:
    """Failure boundary: an old worker finalises. Its fence is stale, the newer attempt is protected."""
    old = running(store)
    clock.advance(LEASE)
    new = store.claim(old.job_id, worker="w2")
    before = trace(store, old.job_id)

    error = refuses("stale_fence", write, store, old.fence, clock.now())

    assert (error.presented, error.current) == (1, 2)  # type: ignore[attr-defined]  # a StaleFenceError
    assert trace(store, old.job_id) == before
    assert store.complete(new.fence, result="new").result == "new"


@every_write
def test_a_wrong_token_can_write_nothing(
    store: JobStore, clock: ManualClock, write: Callable[[JobStore, Fence, datetime], object]
) -> None:
    """The right numbers with another secret are as stale as an old generation."""
    lease = running(store)

    refuses("stale_fence", write, store, forged(lease.fence), clock.now())
    refuses("stale_fence", store.renew, forged(lease.fence))


@every_write
def test_an_advanced_epoch_fences_the_old_one_off(
    store: JobStore, clock: ManualClock, write: Callable[[JobStore, Fence, datetime], object]
) -> None:
    """From that moment nothing of the old epoch writes or renews, though its lease has not run out."""
    lease = running(store)
    assert store.advance_epoch("default", by="ops", reason="release 2") == 2

    refuses("stale_epoch", write, store, lease.fence, clock.now())
    refuses("stale_epoch", store.renew, lease.fence)
    refuses("stale_epoch", store.claim, lease.job_id, worker="w2", epoch=1)
    assert store.claim(lease.job_id, worker="w2", epoch=2).generation == 2
    assert topics(store, lease.job_id) == ["Created", "Claimed", "Interrupted", "Claimed"]


def test_renewal_keeps_the_fence_and_never_shortens_the_lease(store: JobStore, clock: ManualClock) -> None:
    """A renewal moves the expiry a full span on; no event is written."""
    lease = running(store)
    clock.advance(timedelta(seconds=10))

    renewal = store.renew(lease.fence)

    assert renewal.expires_at == clock.now() + LEASE
    assert not renewal.late
    assert store.status(lease.job_id).lease.expires_at == renewal.expires_at  # type: ignore[union-attr]  # it runs
    assert topics(store, lease.job_id) == ["Created", "Claimed"]


def test_a_late_renewal_is_accepted_and_recorded_each_time(store: JobStore, clock: ManualClock) -> None:
    """While nobody took over, an outage longer than a lease costs nothing, and the history says so."""
    lease = running(store)

    for late in (timedelta(0), timedelta(hours=3)):
        clock.advance(LEASE + late)
        assert store.renew(lease.fence).late

    assert topics(store, lease.job_id) == ["Created", "Claimed", "LeaseRenewedLate", "LeaseRenewedLate"]
    assert list(store.history(lease.job_id))[3].data["late_by"] == "PT3H"
    assert store.complete(lease.fence, result=1).state is State.COMPLETE


def test_a_live_lease_refuses_recovery_and_claims(store: JobStore, clock: ManualClock) -> None:
    """Failure boundary: lease still live. The worker keeps ownership, also against a claim under its own name."""
    lease = running(store, worker="w1")
    clock.advance(LEASE - timedelta(microseconds=1))

    refuses("lease_live", store.recover, lease.job_id)
    refuses("lease_live", store.claim, lease.job_id, worker="w1")
    refuses("lease_live", store.retry, lease.job_id, by="ops", reason="impatient")
    assert store.recover_expired() == []


def test_an_expired_lease_that_is_claimed_directly_interrupts_the_old_attempt(
    store: JobStore, clock: ManualClock
) -> None:
    """Failure boundary: a new generation interrupts the old one, and the job remains running."""
    old = running(store)
    store.checkpoint(old.fence, 4)
    clock.advance(LEASE)

    new = store.claim(old.job_id, worker="w2")

    assert (new.generation, new.checkpoint, new.status.state) == (2, 4, State.RUNNING)
    interrupted = list(store.history(old.job_id))[3]
    assert interrupted.name == "Interrupted"
    assert interrupted.data["cause"] == "lease_expired"


def test_recovery_parks_an_expired_attempt_and_never_completes_it(store: JobStore, clock: ManualClock) -> None:
    """The parked job keeps its checkpoint and can be claimed again."""
    lease = running(store)
    store.checkpoint(lease.fence, {"batch": 4})
    store.report_progress(lease.fence, 10, 10)
    clock.advance(LEASE)

    receipts = store.recover_expired()

    status = store.status(lease.job_id)
    assert [receipt.job_id for receipt in receipts] == [lease.job_id]
    assert (status.state, status.outcome, status.checkpoint) == (State.PAUSED, None, {"batch": 4})
    refuses("nothing_to_recover", store.recover, lease.job_id)
    assert store.claim(lease.job_id, worker="w2").checkpoint == {"batch": 4}


def test_sixteen_workers_racing_for_one_expired_lease_have_one_winner(store: JobStore, clock: ManualClock) -> None:
    """The fifteen others are told that the lease is live; the old attempt is interrupted once."""
    lease = running(store)
    clock.advance(LEASE)

    def claim(number: int) -> Lease | str:
        try:
            return store.claim(lease.job_id, worker=f"w{number}")
        except JobledgerError as refusal:
            return refusal.code

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(claim, range(16)))

    assert [answer for answer in answers if isinstance(answer, str)] == ["lease_live"] * 15
    assert topics(store, lease.job_id) == ["Created", "Claimed", "Interrupted", "Claimed"]


def test_recovery_and_completion_at_once_end_in_one_of_the_two(store: JobStore, clock: ManualClock) -> None:
    """Either the renewal came first and recovery is refused, or the attempt is parked and completes no more."""
    for number in range(40):
        lease = running(store, f"k{number}", policy="quick")
        clock.advance(timedelta(seconds=2))
        with ThreadPoolExecutor(2) as pool:
            renewed = pool.submit(_code, store.renew, lease.fence)
            recovered = pool.submit(_code, store.recover, lease.job_id)
            pool.shutdown()
        completed = _code(store.complete, lease.fence, result=1)

        assert (renewed.result(), recovered.result(), completed) in {
            ("", "lease_live", ""),
            ("stale_fence", "", "stale_fence"),
        }


def _code(call: Callable[..., object], *given: object, **named: object) -> str:
    try:
        call(*given, **named)
    except JobledgerError as refusal:
        return refusal.code
    return ""


def test_an_older_step_that_arrives_late_is_out_of_order(store: JobStore) -> None:
    """A packet that was given up on cannot undo a newer write of the same attempt."""
    lease = running(store)
    late = Fence.from_token(lease.fence.to_token())
    store.checkpoint(lease.fence, "first")
    store.checkpoint(lease.fence, "second")

    refuses("out_of_order", store.checkpoint, late, "older")

    assert store.status(lease.job_id).checkpoint == "second"


def test_a_fence_travels_as_text_with_its_last_step(store: JobStore) -> None:
    """A worker in another process goes on where the first one stopped; the text is the only place of the secret."""
    lease = running(store)
    store.checkpoint(lease.fence, 1)

    elsewhere = Fence.from_token(lease.fence.to_token())

    assert elsewhere == lease.fence
    assert store.checkpoint(elsewhere, 2).expires_at > lease.status.created_at
    assert lease.fence.token not in repr(lease)
    assert lease.fence.token not in str([event.data for event in store.history(lease.job_id)])
    for rubbish in ("", "a", "é", lease.fence.to_token()[:-8], "W10=", "x" * 10_000):
        refuses("invalid_request", Fence.from_token, rubbish)


def test_lease_spans_outside_a_second_to_a_day_are_refused(store: JobStore) -> None:
    """Numbers are seconds; truth values, texts and NaN are no spans."""
    job_id = created(store)

    for wrong in (0, 0.99, 86_401, -1, float("nan"), float("inf"), True, "30", timedelta(days=2)):
        refuses("invalid_request", store.claim, job_id, worker="w", lease=wrong)

    assert store.claim(job_id, worker="w", lease=1.5).span == timedelta(seconds=1.5)


def test_a_job_at_a_hundred_percent_is_still_running(store: JobStore) -> None:
    """Progress describes what happened; it is no substitute for a terminal result."""
    lease = running(store)

    store.report_progress(lease.fence, 10, 10, "all done")

    status = store.status(lease.job_id)
    assert (status.state, status.outcome) == (State.RUNNING, None)
    assert (status.progress.done, status.progress.total) == (10, 10)  # type: ignore[union-attr]  # just reported


def test_the_next_claim_is_the_most_urgent_one(store: JobStore, clock: ManualClock) -> None:
    """Larger priority first, then earlier due, then earlier created."""
    soon, now = clock.now(), clock.now() - timedelta(minutes=1)
    order = [
        created(store, "d", ready_at=soon, priority=0),
        created(store, "e", ready_at=soon, priority=0),
        created(store, "c", ready_at=now, priority=0),
        created(store, "a", ready_at=soon, priority=9),
    ]

    leases = store.claim_next(worker="w", limit=10)

    assert [lease.job_id for lease in leases] == [order[3], order[2], order[0], order[1]]


def test_the_next_claim_takes_expired_leases_over_and_keeps_to_its_queues_and_kinds(
    store: JobStore, clock: ManualClock
) -> None:
    """What is held, cancel-pending, elsewhere or live is left alone."""
    expired, held, live = running(store, "expired"), running(store, "held"), created(store, "live")
    cancelled = running(store, "cancelled")
    store.hold(held.job_id, by="ops", reason="look")
    store.request_cancel(cancelled.job_id, by="ops", reason="no use")
    created(store, "queue", queue="elsewhere")
    created(store, "kind", kind="other")
    clock.advance(LEASE)
    store.claim(live, worker="w0")

    leases = store.claim_next(worker="w", kinds=["index"], limit=10)

    assert [(lease.job_id, lease.generation) for lease in leases] == [(expired.job_id, 2)]


def test_a_batch_of_renewals_answers_each_for_itself(store: JobStore, clock: ManualClock) -> None:
    """One stale lease in a batch does not fail the others."""
    leases = [running(store, f"k{number}") for number in range(5)]
    store.complete(leases[2].fence, result=1)
    clock.advance(timedelta(seconds=5))

    answers = store.renew_many([lease.fence for lease in leases])

    assert [getattr(answer, "code", "") for answer in answers] == ["", "", "already_terminal", "", ""]


def test_a_batch_of_completions_answers_each_for_itself(store: JobStore) -> None:
    """A conflict, a stale fence and a doubled item fail alone."""
    leases = [running(store, f"k{number}") for number in range(4)]
    store.complete(leases[1].fence, result=0)

    answers = store.complete_many(
        [
            Completion(leases[0].fence, result="a"),
            Completion(leases[1].fence, result="b"),
            Completion(leases[2].fence, result="c", effects=(Effect(resource="r", value=1, expected_version=7),)),
            Completion(leases[3].fence, result=("no", "json")),
            Completion(leases[0].fence, result="again"),
        ]
    )

    codes = [getattr(answer, "code", "") for answer in answers]
    assert codes == ["", "already_terminal", "effect_conflict", "unstorable_value", "already_terminal"]
    assert store.complete(leases[2].fence, result="c").state is State.COMPLETE


def test_who_recovered_a_job_is_on_record(store: JobStore, clock: ManualClock) -> None:
    """The engine's sweep and an operator's recovery are told apart."""
    swept, asked = running(store, "swept"), running(store, "asked")
    clock.advance(LEASE)

    store.recover(asked.job_id, by="ann")
    store.recover_expired()

    assert list(store.history(asked.job_id))[-1].data["by"] == "ann"
    assert list(store.history(swept.job_id))[-1].data["by"] == "engine"
