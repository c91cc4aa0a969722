"""Edges of what workers, maintenance and groups ask for: wrong arguments, orders, and jobs that cannot be read."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from jobledger import Completion, Fence, JobStore, ManualClock, Progress
from jobledger.adapters.storage.entropy import SystemEntropy
from jobledger.adapters.storage.memory import MemoryStorage
from jobledger.adapters.storage.sqlite import SQLiteStorage
from jobledger.domain.store import Setting, sweeping
from tests.contracts.conftest import LEASE
from tests.contracts.jobs import refuses, running
from tests.contracts.test_edges import (  # fixtures and what they need
    Failing,
    Interposing,
    execute,
    file,
    touched,
)

__all__ = ["file", "touched"]

OPS: Any = {"by": "ops", "reason": "look"}
NO_FENCE: Any = [None, "text", 5, object()]


# Attempts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fence", NO_FENCE, ids=lambda each: type(each).__name__)
def test_what_is_no_fence_opens_nothing(local_store: JobStore, fence: Any) -> None:
    later = local_store.status(running(local_store).job_id).updated_at + timedelta(hours=1)
    calls = {
        "renew": lambda: local_store.renew(fence),
        "checkpoint": lambda: local_store.checkpoint(fence, 1),
        "record_unit": lambda: local_store.record_unit(fence, "u", 1),
        "report_progress": lambda: local_store.report_progress(fence, 1),
        "pause": lambda: local_store.pause(fence),
        "defer": lambda: local_store.defer(fence, later),
        "fail_attempt": lambda: local_store.fail_attempt(fence, "broke"),
        "cancel": lambda: local_store.cancel(fence),
        "complete": lambda: local_store.complete(fence),
    }
    for call in calls.values():
        refuses("invalid_request", call)
    answers = [*local_store.renew_many([fence]), *local_store.complete_many([Completion(fence), fence])]
    assert [getattr(answer, "code", "done") for answer in answers] == ["invalid_request"] * 3


@pytest.mark.parametrize("unit", ["", 5, None])
def test_a_unit_has_a_name(store: JobStore, unit: Any) -> None:
    refuses("invalid_request", store.record_unit, running(store).fence, unit, 1)


@pytest.mark.parametrize("progress", [-5, "half", Progress(-1), Progress(1, total=-1)], ids=repr)
def test_progress_beside_a_checkpoint_is_progress(local_store: JobStore, progress: Any) -> None:
    lease = running(local_store)

    refuses("invalid_request", local_store.checkpoint, lease.fence, 1, progress=progress)
    assert local_store.status(lease.job_id).checkpoint is None


def test_a_large_boundary_is_kept_with_the_cancellation(store: JobStore) -> None:
    lease = running(store)
    store.request_cancel(lease.job_id, **OPS)
    store.cancel(lease.fence, boundary="b" * 5_000)

    assert store.verify(lease.job_id).problems == ()


def test_a_batch_of_outcomes_holds_the_order_of_its_attempts_and_gives_it_back(clock: ManualClock) -> None:
    inner = MemoryStorage(clock=clock)
    lease = running(JobStore(Setting(inner, SystemEntropy())))
    free: list[bool] = []

    def ask() -> None:
        free.append(lease.fence.steps.order.acquire(blocking=False))

    def in_another_thread(_: object = None) -> None:
        asking = threading.Thread(target=ask)
        asking.start()
        asking.join()

    JobStore(Setting(Interposing(inner, in_another_thread), SystemEntropy())).complete_many([Completion(lease.fence)])
    in_another_thread()

    assert free == [False, True]


def test_one_attempt_may_stand_in_a_batch_twice(local_store: JobStore) -> None:
    """Also under a fence that was read back from its text, and counts its steps for itself."""
    fence = running(local_store).fence
    twin = Fence.from_token(fence.to_token())

    answers = local_store.complete_many([Completion(fence, result=1), Completion(twin, result=1)])

    assert [getattr(answer, "code", "done") for answer in answers] == ["done", "already_terminal"]


# Groups ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", ["", 5, None])
def test_a_group_has_a_name(local_store: JobStore, group: Any) -> None:
    refuses("invalid_request", local_store.epoch, group)
    refuses("invalid_request", local_store.advance_epoch, group, **OPS)


@pytest.mark.parametrize("wrong", [{"by": ""}, {"by": "engine"}, {"by": 5}, {"reason": ""}, {"reason": None}], ids=str)
def test_somebody_advances_an_epoch_for_a_reason(local_store: JobStore, wrong: dict[str, Any]) -> None:
    refuses("invalid_request", local_store.advance_epoch, "g", **(OPS | wrong))
    assert local_store.epoch("g") == 1


def test_a_clock_that_was_set_back_moves_no_event_of_a_group_back(local_store: JobStore, clock: ManualClock) -> None:
    """Whichever of its events came last."""
    for span in (timedelta(0), timedelta(hours=2), timedelta(hours=-1)):
        clock.step(span)
        local_store.advance_epoch("g", **OPS)

    assert [verification.problems for verification in local_store.verify_all()] == [()]


# Sweeps ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, -1, True, 1.0, "1", None, 1_001], ids=repr)
def test_a_sweep_of_no_sensible_number_is_refused(local_store: JobStore, limit: Any) -> None:
    refuses("invalid_request", local_store.recover_expired, limit)


def test_somebody_recovers(local_store: JobStore) -> None:
    refuses("invalid_request", local_store.recover, running(local_store).job_id, by="")


def test_a_sweep_takes_a_hundred_by_default(clock: ManualClock) -> None:
    with JobStore.open("memory:", clock=clock) as store:
        for number in range(101):
            running(store, str(number))
        clock.advance(LEASE)

        assert len(store.recover_expired()) == 100
        assert len(store.recover_expired()) == 1


def dead(store: JobStore, clock: ManualClock, count: int) -> list[str]:
    """Jobs whose leases nobody renewed for long, in the order of their ids."""
    ids = sorted(running(store, str(number)).job_id for number in range(count))
    clock.advance(10 * LEASE)
    return ids


def test_a_sweep_takes_no_more_than_it_was_told(touched: JobStore, file: Path, clock: ManualClock) -> None:
    """Also when some cannot be recovered, so that others are looked for."""
    broken, *others = dead(touched, clock, 5)
    execute(file, "UPDATE job_status SET job = x'7b' WHERE job_id = ?", broken)

    assert [receipt.job_id for receipt in touched.recover_expired(limit=2)] == others[:2]


@pytest.mark.parametrize(("transactions", "taken"), [(0, 0), (1, 1)])
def test_an_outage_takes_nothing_back_that_was_recovered(
    touched: JobStore, file: Path, clock: ManualClock, transactions: int, taken: int
) -> None:
    broken, first, _ = dead(touched, clock, 3)
    execute(file, "UPDATE job_status SET job = x'7b' WHERE job_id = ?", broken)
    inner = SQLiteStorage(file, clock=clock)
    inner.require_schema()
    failing = JobStore(Setting(Failing(inner, 9, transactions), SystemEntropy()))

    if taken:
        assert [receipt.job_id for receipt in failing.recover_expired(limit=2)] == [first]
    else:
        refuses("store_unavailable", failing.recover_expired, 2)
    inner.close()


@pytest.mark.parametrize("count", [1, 3])
def test_a_damaged_job_hides_no_other_from_a_sweep(
    touched: JobStore, file: Path, clock: ManualClock, count: int
) -> None:
    broken, *others = dead(touched, clock, count)
    execute(file, "UPDATE job_status SET job = x'7b' WHERE job_id = ?", broken)

    assert touched.survey().abandoned == len(others)
    assert [receipt.job_id for receipt in touched.recover_expired(which="abandoned")] == others


def test_a_survey_counts_each_job_once(
    local_store: JobStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = local_store.survey()
    assert (empty.running, empty.abandoned, empty.longest_lease) == (0, 0, timedelta(0))
    monkeypatch.setattr(sweeping, "PAGE", 2)
    dead(local_store, clock, 5)

    assert local_store.survey().abandoned == 5


def test_a_survey_looks_no_further_than_it_has_to(clock: ManualClock) -> None:
    with JobStore.open("memory:", clock=clock) as store:
        dead(store, clock, 40)

        assert store.survey().is_suspicious
        assert store.survey().abandoned < 40
