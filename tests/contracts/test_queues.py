"""Limits and holds of queues, on every store: what may start, in which order, and what stands in the history."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from jobledger import JobRequest, JobStore, ManualClock, QueueLimits, State
from jobledger.domain.errors import QueueHeldError, QueueLimitedError
from tests.contracts.jobs import created, refuses, running

WHY: dict[str, Any] = {"by": "ann", "reason": "the machine is small"}
LEASE = timedelta(seconds=30)
MINUTE = timedelta(minutes=1)
MOMENT = timedelta(microseconds=1)


def waiting(store: JobStore, count: int, prefix: str = "j", **request: Any) -> list[str]:
    """So many due jobs; answers their ids."""
    return [created(store, f"{prefix}{number}", **request) for number in range(count)]


def claimed(store: JobStore, limit: int = 10, **terms: Any) -> list[str]:
    """Claim what may start now; answers the jobs' keys, in their order."""
    leases = store.claim_next(worker="w", limit=limit, **terms)
    return [str(lease.status.key) for lease in leases]


# At most so many at once ----------------------------------------------------------------------------------------------


def test_no_more_run_than_the_limit_says(store: JobStore) -> None:
    store.queues.limit("default", running_max=2, **WHY)
    ids = waiting(store, 5)

    first = store.claim_next(worker="w1", limit=10)
    assert [lease.job_id for lease in first] == ids[:2]
    assert store.claim_next(worker="w2", limit=10) == []

    store.complete(first[0].fence)
    assert claimed(store) == ["j2"]


def test_a_claim_of_one_job_meets_the_same_limit(store: JobStore) -> None:
    store.queues.limit("default", running_max=1, **WHY)
    first, second = waiting(store, 2)
    lease = store.claim(first, worker="w")

    error = refuses("queue_limited", store.claim, second, worker="w")

    assert isinstance(error, QueueLimitedError)
    assert (error.queue, error.limit, error.most) == ("default", "running_max", 1)
    assert store.status(second).state is State.QUEUED
    store.complete(lease.fence)
    assert store.claim(second, worker="w").generation == 1


def test_what_runs_when_a_limit_is_set_counts_and_goes_on(store: JobStore) -> None:
    waiting(store, 5)
    leases = store.claim_next(worker="w", limit=3)

    store.queues.limit("default", running_max=2, **WHY)

    assert claimed(store) == []
    store.complete(leases[0].fence)
    assert claimed(store) == []
    store.complete(leases[1].fence)
    assert claimed(store) == ["j3"]


@pytest.mark.parametrize("end", ["complete", "pause", "fail_attempt"])
def test_every_end_of_an_attempt_makes_room(store: JobStore, end: str) -> None:
    store.queues.limit("default", running_max=1, **WHY)
    waiting(store, 2)
    [lease] = store.claim_next(worker="w", limit=1)
    if end == "pause":
        store.hold(lease.job_id, by="ann", reason="look")

    getattr(store, end)(lease.fence, **({"error": "broken"} if end == "fail_attempt" else {}))

    assert claimed(store) == ["j1"]


def test_a_dead_lease_counts_until_it_is_recovered(store: JobStore, clock: ManualClock) -> None:
    """Its handler may run on: nothing but an event ends an attempt."""
    store.queues.limit("default", running_max=1, **WHY)
    [first, _] = waiting(store, 2)
    store.hold(store.claim(first, worker="w").job_id, by="ann", reason="look")
    clock.advance(LEASE)

    assert claimed(store) == []
    store.recover(first)
    assert claimed(store) == ["j1"]


def test_a_take_over_needs_no_second_place(store: JobStore, clock: ManualClock) -> None:
    """The interrupted job has its place already, and goes before what waits, whatever its priority."""
    store.queues.limit("default", running_max=1, **WHY)
    waiting(store, 1)
    waiting(store, 1, "urgent", priority=-1)
    assert claimed(store) == ["j0"]
    created(store, "more", priority=9)
    clock.advance(LEASE)

    assert claimed(store) == ["j0"]
    assert claimed(store) == []
    assert store.queues.get("default").running == 1


def test_a_limited_queue_slows_no_other(store: JobStore) -> None:
    store.queues.limit("small", running_max=1, **WHY)
    waiting(store, 3, "s", queue="small")
    waiting(store, 3, "d")

    assert sorted(claimed(store, queues=("default", "small"))) == ["d0", "d1", "d2", "s0"]


def test_no_queue_of_a_worker_waits_for_another(store: JobStore) -> None:
    """Claims of one job each begin with one queue after the other."""
    for queue in ("a", "b"):
        store.queues.limit(queue, running_max=100, **WHY)
    for queue in ("a", "b", "c"):
        waiting(store, 4, queue, queue=queue)

    taken = [claimed(store, 1, queues=("a", "b", "c"))[0][0] for _ in range(6)]

    assert sorted(taken) == ["a", "a", "b", "b", "c", "c"]


def test_a_limit_lets_only_wanted_kinds_start(store: JobStore) -> None:
    store.queues.limit("default", running_max=3, **WHY)
    waiting(store, 2, "a", kind="a", priority=5)
    waiting(store, 2, "b", kind="b")

    assert claimed(store, kinds=("b",)) == ["b0", "b1"]


def test_limits_are_taken_away(store: JobStore) -> None:
    waiting(store, 4)
    store.queues.limit("default", running_max=1, share_by="owner", **WHY)
    assert len(claimed(store)) == 1

    store.queues.limit("default", **WHY)

    assert len(claimed(store)) == 3
    assert store.queues.get("default").limits == QueueLimits()


# So many in a span ----------------------------------------------------------------------------------------------------


def test_no_window_holds_more_starts_than_the_rate_says(store: JobStore, clock: ManualClock) -> None:
    """Whatever the moments of the claims: each start counts for a whole span, and at most a hundredth longer."""
    store.queues.limit("default", starts_max=3, starts_span=MINUTE, **WHY)
    waiting(store, 30)
    starts = []
    for _ in range(60):
        for lease in store.claim_next(worker="w", limit=2):
            starts.append(clock.now())
            store.complete(lease.fence)
        clock.advance(timedelta(seconds=7))

    for first in starts:
        assert sum(first <= start < first + MINUTE for start in starts) <= 3
    assert len(starts) >= 3 * 6


def test_a_rate_refuses_the_claim_of_one_job(store: JobStore, clock: ManualClock) -> None:
    store.queues.limit("default", starts_max=1, starts_span=10, **WHY)
    first, second = waiting(store, 2)
    store.claim(first, worker="w")

    error = refuses("queue_limited", store.claim, second, worker="w")

    assert isinstance(error, QueueLimitedError)
    assert error.limit == "starts_max"
    assert store.queues.get("default").starts_left == 0
    clock.advance(timedelta(seconds=10.2))
    assert store.queues.get("default").starts_left == 1
    assert store.claim(second, worker="w").generation == 1


def test_a_take_over_is_a_start(store: JobStore, clock: ManualClock) -> None:
    """It calls what the rate protects again."""
    store.queues.limit("default", starts_max=1, starts_span=60, **WHY)
    waiting(store, 1)
    assert claimed(store) == ["j0"]
    clock.advance(LEASE)

    assert claimed(store) == []
    clock.advance(LEASE + timedelta(seconds=1))
    assert claimed(store) == ["j0"]


# Shares ---------------------------------------------------------------------------------------------------------------


def test_owners_are_served_in_turn(store: JobStore) -> None:
    """One owner's many jobs do not starve another's few."""
    store.queues.limit("default", share_by="owner", **WHY)
    waiting(store, 20, "a", owner="ann")
    waiting(store, 2, "b", owner="bob")
    waiting(store, 3, "c", owner="cem")

    taken = [claimed(store, 1)[0] for _ in range(9)]

    assert taken == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "c2", "a3"]


def test_a_batch_is_served_in_turn_too(store: JobStore) -> None:
    waiting(store, 20, "a", owner="ann")
    waiting(store, 2, "b", owner="bob")
    store.queues.limit("default", share_by="owner", **WHY)

    assert claimed(store, 5) == ["a0", "b0", "a1", "b1", "a2"]
    assert claimed(store, 2) == ["a3", "a4"]


def test_priorities_decide_within_a_share(store: JobStore) -> None:
    store.queues.limit("default", share_by="owner", **WHY)
    waiting(store, 2, "a", owner="ann")
    waiting(store, 1, "urgent", owner="ann", priority=5)
    waiting(store, 1, "b", owner="bob")

    assert claimed(store) == ["urgent0", "b0", "a0", "a1"]


@pytest.mark.parametrize("share_by", ["owner", "kind", "label:customer"])
def test_no_more_of_a_share_run_than_its_limit_says(store: JobStore, share_by: str) -> None:
    store.queues.limit("default", share_by=share_by, running_max_per_share=2, **WHY)
    for name in ("x", "y"):
        waiting(store, 5, name, owner=name, kind=name, labels={"customer": name})

    leases = store.claim_next(worker="w", limit=10)

    assert sorted(str(lease.status.key) for lease in leases) == ["x0", "x1", "y0", "y1"]
    assert store.queues.get("default").shares == {"x": 2, "y": 2}
    one = store.find("x", "x2")
    assert one is not None
    error = refuses("queue_limited", store.claim, one.job_id, worker="w")
    assert isinstance(error, QueueLimitedError)
    assert error.limit == "running_max_per_share"
    store.complete(next(lease for lease in leases if lease.status.key == "y0").fence)
    assert claimed(store) == ["y2"]


def test_jobs_without_the_label_are_one_share(store: JobStore) -> None:
    store.queues.limit("default", share_by="label:customer", running_max_per_share=1, **WHY)
    waiting(store, 2, "none")
    waiting(store, 2, "x", labels={"customer": "x"})

    assert sorted(claimed(store)) == ["none0", "x0"]


def test_a_queue_is_divided_anew(store: JobStore) -> None:
    """Also what waited in the shares of before, and what failed and waits again."""
    store.queues.limit("default", share_by="owner", running_max_per_share=1, **WHY)
    waiting(store, 3, "a", owner="ann", kind="x")
    waiting(store, 3, "b", owner="ann", kind="y")
    assert claimed(store) == ["a0"]

    store.queues.limit("default", share_by="kind", running_max_per_share=2, **WHY)

    assert sorted(claimed(store)) == ["a1", "b0", "b1"]
    assert store.verify(created(store, "a2", owner="ann", kind="x")).ok


def test_a_job_that_waits_in_a_share_is_still_the_same_to_everybody(store: JobStore) -> None:
    """It is held, cancelled, found and verified as before; a rebuild finds nothing to mend."""
    store.queues.limit("default", share_by="owner", running_max=1, **WHY)
    ids = waiting(store, 6)
    assert claimed(store) == ["j0"]

    store.hold(ids[1], by="ann", reason="look")
    store.request_cancel(ids[2], by="ann", reason="enough")
    store.release_hold(ids[1], by="ann", reason="fine")

    assert all(verified.ok for verified in store.verify_all())
    assert store.rebuild("status").mended == ()
    assert store.status(ids[2]).state is State.CANCELLED
    store.queues.limit("default", **WHY)
    assert sorted(claimed(store)) == ["j1", "j3", "j4", "j5"]
    assert all(verified.ok for verified in store.verify_all())


def test_no_queue_and_no_namespace_touches_another(tmp_path: Path) -> None:
    """Divided, divided anew and counted by themselves; of several labels the one that is named counts."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    by_label: dict[str, Any] = {"share_by": "label:customer", "running_max_per_share": 1}
    with JobStore.open(url) as one, JobStore.open(url, namespace="other") as other:
        for store in (other, one):
            for queue in ("a", "b"):
                store.queues.limit(queue, **by_label, **WHY)
                for customer in ("x", "x", "y"):
                    created(store, None, queue=queue, labels={"area": "z", "customer": customer, "team": "z"})
        for store in (one, other):
            for queue in ("a", "b"):
                assert len(store.claim_next(worker="w", queues=[queue], limit=9)) == 2
                assert store.queues.get(queue).shares == {"x": 1, "y": 1}

        one.queues.limit("a", share_by="owner", running_max_per_share=9, **WHY)

        assert len(one.claim_next(worker="w", queues=["a"], limit=9)) == 1
        assert one.queues.get("a").shares == {"team": 3}
        for store, queue in ((one, "b"), (other, "a"), (other, "b")):
            assert store.claim_next(worker="w", queues=[queue], limit=9) == []
            assert store.queues.get(queue).sequence == 1
        created(other, None, queue="only there")
        assert [each.name for each in one.queues.list().queues] == ["a", "b"]
        assert all(verified.ok for store in (one, other) for verified in store.verify_all())


# Ageing ---------------------------------------------------------------------------------------------------------------


def test_a_priority_is_worth_so_much_waiting(store: JobStore, clock: ManualClock) -> None:
    store.queues.limit("default", ageing=MINUTE, **WHY)
    created(store, "old")
    clock.advance(5 * MINUTE - MOMENT)
    created(store, "five", priority=5)
    clock.advance(2 * MOMENT)
    created(store, "late", priority=5)

    assert claimed(store) == ["five", "old", "late"]


def test_without_ageing_the_priority_decides(store: JobStore, clock: ManualClock) -> None:
    """The control."""
    created(store, "old")
    clock.advance(600 * MINUTE)
    created(store, "new", priority=1)

    assert claimed(store) == ["new", "old"]


# Holds ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["default", None], ids=["queue", "namespace"])
def test_nothing_starts_under_a_hold_and_what_runs_goes_on(store: JobStore, name: str | None) -> None:
    lease = running(store, "runs")
    store.queues.hold(name, by="ann", reason="a leak")
    job_id = created(store, "waits")

    assert claimed(store) == []
    error = refuses("queue_held", store.claim, job_id, worker="w")
    assert isinstance(error, QueueHeldError)
    assert (error.queue, error.by, error.reason) == (name or "", "ann", "a leak")
    assert store.complete(lease.fence).state is State.COMPLETE
    assert store.status(job_id).state is State.QUEUED
    assert store.claim(job_id, worker="w", respect_hold=False).generation == 1

    created(store, "waits too")
    store.queues.release(name, by="ann", reason="mended")
    assert claimed(store) == ["waits too"]


def test_a_held_queue_holds_no_other(store: JobStore) -> None:
    store.queues.hold("small", by="ann", reason="a leak")
    waiting(store, 1, "s", queue="small")
    waiting(store, 1, "d")

    assert claimed(store, queues=("small", "default")) == ["d0"]
    assert store.queues.get("small").is_held
    assert not store.queues.get("default").is_held


def test_dead_work_of_a_held_queue_is_recovered_and_not_taken_over(store: JobStore, clock: ManualClock) -> None:
    lease = running(store)
    store.queues.hold("default", by="ann", reason="a leak")
    clock.advance(LEASE)

    assert claimed(store) == []
    refuses("queue_held", store.claim, lease.job_id, worker="w")
    clock.advance(LEASE)
    assert [each.job_id for each in store.recover_expired()] == [lease.job_id]


def test_the_hold_of_a_namespace_holds_no_other_namespace(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with JobStore.open(url) as one, JobStore.open(url, namespace="other") as other:
        one.queues.hold(None, by="ann", reason="a leak")
        created(other)

        assert claimed(other) == ["k"]


def test_another_operators_hold_stands(store: JobStore) -> None:
    store.queues.hold("default", by="ann", reason="a leak")

    assert store.queues.hold("default", by="ann", reason="a leak").reused
    assert "queue 'default' is held by 'ann'" in str(
        refuses("hold_in_force", store.queues.hold, "default", by="bob", reason="me too")
    )
    store.queues.release("default", by="bob", reason="mended")
    assert store.queues.release("default", by="bob", reason="mended").reused
    refuses("not_held", store.queues.release, "default", by="ann", reason="mended")
    refuses("not_held", store.queues.release, "never", by="ann", reason="mended")


# Commands and history -------------------------------------------------------------------------------------------------


def test_limits_and_holds_stand_in_the_history(store: JobStore, clock: ManualClock) -> None:
    store.queues.limit("default", running_max=2, starts_max=5, starts_span=60, by="ann", reason="small")
    clock.advance(MINUTE)
    store.queues.hold("default", by="bob", reason="a leak")
    store.queues.release("default", by="ann", reason="mended")
    store.queues.hold(None, by="cem", reason="maintenance")

    assert [(each.name, each.data["by"], each.data["reason"]) for each in store.queues.history("default")] == [
        ("QueueLimited", "ann", "small"),
        ("QueueHeld", "bob", "a leak"),
        ("QueueReleased", "ann", "mended"),
    ]
    assert [each.name for each in store.queues.history(None)] == ["QueueHeld"]
    assert store.queues.events("default", after=1, limit=1).next_after == 2
    refuses("unknown_sequence", store.queues.events, "default", after=4)
    status = store.queues.get("default")
    assert (status.sequence, status.updated_at) == (3, clock.now())
    assert status.namespace_hold is not None
    assert status.limits == QueueLimits(running_max=2, starts_max=5, starts_span=timedelta(seconds=60))
    assert store.queues.verify("default").ok
    assert store.queues.verify(None).events == 1
    assert store.queues.verify("never").events == 0


def test_queues_are_listed_with_what_runs_and_waits(store: JobStore) -> None:
    waiting(store, 3, "b", queue="b")
    waiting(store, 1, "c", queue="c")
    store.queues.limit("a", running_max=1, **WHY)
    store.queues.hold(None, by="cem", reason="maintenance")
    store.claim(created(store, "runs", queue="b"), worker="w", respect_hold=False)

    first = store.queues.list(limit=2)
    second = store.queues.list(after=first.next_after, limit=2)

    assert [(each.name, each.queued, each.running) for each in first.queues] == [("a", 0, 0), ("b", 3, 1)]
    assert [each.name for each in second.queues] == ["c"]
    assert second.next_after is None
    assert first.namespace.hold is not None
    assert all(each.is_held for each in first.queues)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_of_queues_leave_none_out(local_store: JobStore, limit: int) -> None:
    """Neither those that only have jobs, nor those that only have limits."""
    store = local_store
    for name in "gecai":
        created(store, None, queue=name)
    for name in "hdbfg":
        store.queues.limit(name, running_max=1, **WHY)
    names: list[str | None] = []
    after: str | None = None
    while True:
        page = store.queues.list(after=after, limit=limit)
        assert len(page.queues) <= limit
        names += [each.name for each in page.queues]
        after = page.next_after
        if after is None:
            break

    assert names == list("abcdefghi")


def test_a_repeated_command_is_answered_and_not_repeated(store: JobStore) -> None:
    first = store.queues.hold("default", **WHY, command_id="c1")
    store.queues.release("default", **WHY)

    assert store.queues.hold("default", **WHY, command_id="c1") == first
    assert not store.queues.get("default").is_held
    refuses("command_changed", store.queues.hold, "default", by="ann", reason="other", command_id="c1")
    refuses("command_changed", store.queues.limit, "default", **WHY, running_max=1, command_id="c1")


def test_an_operator_who_looked_too_early_is_refused(store: JobStore) -> None:
    assert store.queues.limit("default", running_max=1, **WHY, expected_sequence=0).sequence == 1
    refuses("sequence_moved", store.queues.hold, "default", **WHY, expected_sequence=0)
    assert store.queues.hold("default", **WHY, expected_sequence=1).sequence == 2


@pytest.mark.parametrize(
    "limits",
    [
        {"running_max": 0},
        {"running_max": True},
        {"running_max": 1_000_001},
        {"starts_max": 5},
        {"starts_span": 5},
        {"starts_max": 5, "starts_span": 0.01},
        {"share_by": "colour"},
        {"share_by": "label:"},
        {"running_max_per_share": 1},
        {"ageing": 0},
    ],
)
def test_limits_out_of_their_range_are_refused(store: JobStore, limits: dict[str, object]) -> None:
    refuses("invalid_request", store.queues.limit, "default", **WHY, **limits)
    assert store.queues.get("default").sequence == 0


def test_the_same_limits_again_are_no_event(store: JobStore) -> None:
    assert store.queues.limit("default", **WHY).reused
    store.queues.limit("default", running_max=1, **WHY)
    assert store.queues.limit("default", running_max=1, by="bob", reason="me too").reused
    assert store.queues.get("default").sequence == 1


def test_everything_of_queues_verifies_travels_and_is_rebuilt(local_store: JobStore, tmp_path: Path) -> None:
    """Bundles carry their streams, an import makes their rows again, and nothing hangs on nothing."""
    store = local_store
    store.queues.limit("default", running_max=1, share_by="owner", **WHY)
    store.queues.hold(None, by="cem", reason="maintenance")
    waiting(store, 2)
    bundle = tmp_path / "all.jsonl"
    store.export(bundle)

    assert all(verified.ok for verified in store.verify_all())
    assert all(verified.ok for verified in JobStore.verify_export(bundle))
    assert store.queues.rebuild() == ()
    with JobStore.open(f"sqlite:///{tmp_path / 'again.db'}") as again:
        again.import_bundle(bundle)
        assert all(verified.ok for verified in again.verify_all())
        assert again.queues.get("default").limits == store.queues.get("default").limits
        assert again.queues.get(None).hold == store.queues.get(None).hold
        assert claimed(again) == []
        again.queues.release(None, by="cem", reason="done")
        assert claimed(again) == ["j0"]


def test_creations_into_a_held_queue_are_accepted(store: JobStore) -> None:
    store.queues.hold("default", **WHY)

    receipts = store.create_many([JobRequest(owner="team", kind="index") for _ in range(3)])

    assert len(receipts) == 3
    assert store.queues.get("default").queued == 3


# What was changed in the tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE queue SET head = 'x' WHERE name = 'default'",
        "UPDATE queue SET share_by = 'kind' WHERE name = 'default'",
        "UPDATE queue SET sequence = 9 WHERE name = 'default'",
        "UPDATE queue SET queue = x'7b7d' WHERE name = 'default'",
        "DELETE FROM queue WHERE name = 'default'",
    ],
)
def test_a_row_that_was_changed_is_found_and_mended(tmp_path: Path, change: str) -> None:
    with tampered(tmp_path, change) as store:
        assert [problem.rule for problem in store.queues.verify("default").problems] != []
        assert store.queues.verify(None).ok
        assert store.queues.rebuild() == ("default",)
        assert store.queues.verify("default").ok


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE job_status SET claimable = 'when_shared', share = 'team' WHERE queue = 'other'",
        "UPDATE job_status SET share = 'nobody' WHERE queue = 'default' AND claimable = 'when_shared'",
    ],
)
def test_a_job_that_was_hidden_from_claims_is_found(tmp_path: Path, change: str) -> None:
    """In a share that its queue does not have, or in another one's."""
    with tampered(tmp_path, change) as store:
        rules = {problem.rule for verified in store.verify_all() for problem in verified.problems}
        assert rules == {"columns"}
        assert len(store.rebuild("status").mended) == 1
        assert all(verified.ok for verified in store.verify_all())


@pytest.mark.parametrize(
    ("table", "row"),
    [("queue", "'default', 'phantom', 1, 'h', NULL, x'7b7d'"), ("queue_usage", "'default', 'p', x'7b7d'")],
)
def test_a_row_of_a_queue_that_has_no_history_is_a_stray(tmp_path: Path, table: str, row: str) -> None:
    with tampered(tmp_path, f"INSERT INTO {table} VALUES ({row})") as store:  # noqa: S608  # the test's own words
        [beside] = [verified for verified in store.verify_all() if not verified.job_id]
        assert [problem.rule for problem in beside.problems] == ["stray"]
        assert "queue" in beside.problems[0].text


@contextmanager
def tampered(folder: Path, change: str) -> Generator[JobStore]:
    """A store with a divided queue, a held namespace and two jobs, in whose file something was changed."""
    url = f"sqlite:///{folder / 'jobs.db'}"
    with JobStore.open(url) as store:
        store.queues.limit("default", share_by="owner", **WHY)
        store.queues.hold("default", **WHY)
        store.queues.hold(None, **WHY)
        store.queues.release("default", **WHY)
        created(store, "a")
        created(store, "b", queue="other")
        store.queues.release(None, **WHY)
        assert store.claim_next(worker="w", kinds=("none",)) == []
        store.queues.limit("default", **WHY)
        store.queues.limit("default", share_by="owner", **WHY)
    with closing(sqlite3.connect(folder / "jobs.db")) as raw, raw:
        assert raw.execute(change).rowcount == 1
    with JobStore.open(url) as store:
        yield store
