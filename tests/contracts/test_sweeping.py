"""Which dead leases maintenance recovers, on every store."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobledger import JobStore, ManualClock, State
from jobledger.domain.decisions.sweeping import is_suspicious
from tests.contracts.jobs import created, refuses, running

LEASE = timedelta(seconds=30)
RENEWAL = timedelta(seconds=10)
MOMENT = timedelta(microseconds=1)


def test_a_lease_that_ran_out_is_left_to_claims_for_one_renewal(store: JobStore, clock: ManualClock) -> None:
    lease = running(store)

    clock.advance(LEASE + RENEWAL - MOMENT)
    assert store.recover_expired(which="abandoned") == []
    assert store.survey().abandoned == 0

    clock.advance(MOMENT)
    assert store.survey().abandoned == 1
    assert [each.job_id for each in store.recover_expired(which="abandoned")] == [lease.job_id]


def test_what_no_claim_may_take_is_recovered_at_once(store: JobStore, clock: ManualClock) -> None:
    """Otherwise it would show as running for ever, or for as long as a brake holds."""
    held, cancelled, free = running(store, "held"), running(store, "cancelled"), running(store, "free")
    store.hold(held.job_id, by="ann", reason="looks odd")
    store.request_cancel(cancelled.job_id, by="ann", reason="enough")
    clock.advance(LEASE)

    recovered = {each.job_id: each.state for each in store.recover_expired(which="unclaimable")}

    assert recovered == {held.job_id: State.PAUSED, cancelled.job_id: State.CANCELLED}
    assert store.status(free.job_id).state is State.RUNNING
    assert store.survey().abandoned == 0


def test_an_attempt_of_an_old_epoch_is_recovered_at_once(store: JobStore) -> None:
    lease = running(store)
    store.advance_epoch("default", by="ann", reason="a release")

    assert [each.job_id for each in store.recover_expired(which="unclaimable")] == [lease.job_id]


def test_an_attempt_out_of_budget_is_recovered_at_once_and_held(store: JobStore, clock: ManualClock) -> None:
    job_id = created(store)
    for _ in range(5):
        store.claim(job_id, worker="w")
        assert store.recover_expired(which="unclaimable") == []
        clock.advance(LEASE)

    [receipt] = store.recover_expired(which="unclaimable")

    hold = store.status(job_id).hold
    assert (receipt.job_id, hold and hold.by) == (job_id, "engine")


def test_those_that_are_left_alone_hide_no_other(store: JobStore, clock: ManualClock) -> None:
    for number in range(30):
        running(store, f"free {number}")
    held = running(store, "held")
    store.hold(held.job_id, by="ann", reason="looks odd")
    clock.advance(LEASE)

    assert [each.job_id for each in store.recover_expired(limit=1, which="unclaimable")] == [held.job_id]


def test_a_survey_counts_what_runs_and_what_was_abandoned(store: JobStore, clock: ManualClock) -> None:
    for number in range(3):
        running(store, f"dead {number}")
    clock.advance(LEASE + RENEWAL)
    for number in range(9):
        running(store, f"live {number}")

    survey = store.survey()

    assert (survey.running, survey.abandoned, survey.longest_lease) == (12, 3, LEASE)
    assert survey.is_suspicious


@pytest.mark.parametrize(
    ("abandoned", "running_jobs", "is_so"),
    [(2, 10, False), (3, 10, True), (9, 9, False), (20, 100, False), (21, 100, True), (0, 50, False)],
)
def test_more_than_a_fifth_of_at_least_ten_is_suspicious(abandoned: int, running_jobs: int, is_so: bool) -> None:
    assert is_suspicious(abandoned, running_jobs) is is_so


def test_a_word_that_names_no_leases_is_refused(store: JobStore) -> None:
    refuses("invalid_request", store.recover_expired, which="some")
