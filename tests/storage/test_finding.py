"""What every store finds among many jobs: candidates, dead leases, lists, counts, and the feed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from jobledger.adapters.storage.clocks import ManualClock
from jobledger.domain.events import CancelRequested, HoldPlaced
from jobledger.domain.job import State
from jobledger.domain.ports import JobFilter, Positioned
from tests.storage.given import (
    LEASE,
    NAMESPACE,
    NOON,
    PATIENCE,
    advance_epoch,
    candidates,
    claim,
    created,
    following,
    loaded,
    progressed,
    written,
)
from tests.storage.test_preconditions import Store

SECOND = timedelta(seconds=1)

# A budget of one interruption: an expiry may not be taken over by a claim, an epoch may.
LAST_TRY = {"interrupts_max": 1}


def dead(storage: Store, after: str = "", limit: int = 100) -> list[str]:
    """Jobs whose lease is not live."""
    with storage.writing(PATIENCE) as session:
        return session.dead(NAMESPACE, after=after, limit=limit)


# Candidates -----------------------------------------------------------------------------------------------------------


def test_a_claim_takes_larger_priority_then_earlier_time_then_earlier_place(storage: Store) -> None:
    """Across queues and kinds, whatever order they were created in."""
    written(
        storage,
        created("last", priority=-1, ready_at=NOON - 9 * SECOND),
        created("third", ready_at=NOON - SECOND),
        created("fourth", queue="b", ready_at=NOON - SECOND),
        created("second", kind="other", ready_at=NOON - 2 * SECOND),
        created("first", priority=2, queue="b"),
    )
    order = ["first", "second", "third", "fourth", "last"]

    assert candidates(storage, queues=["default", "b"]) == order
    assert candidates(storage, queues=["b", "default", "b"], kinds=["other", "k", "k"], limit=3) == order[:3]


def test_a_claim_looks_only_where_it_was_asked_to(storage: Store) -> None:
    written(
        storage,
        created("j"),
        created("other queue", queue="b"),
        created("other kind", kind="other"),
        created("other namespace", namespace="elsewhere"),
    )

    assert candidates(storage, kinds=["k"]) == ["j"]
    assert candidates(storage, kinds=[]) == candidates(storage, queues=[]) == []
    assert candidates(storage) == ["j", "other kind"]
    assert candidates(storage, limit=1) == ["j"]


def test_work_that_is_not_due_keeps_nobody_from_what_is(storage: Store, clock: ManualClock) -> None:
    written(storage, created("later", priority=5, ready_at=NOON + SECOND), created("now"))
    assert candidates(storage) == ["now"]

    clock.advance(SECOND)

    assert candidates(storage) == ["later", "now"]


def test_a_held_or_running_or_ended_job_is_no_candidate(storage: Store) -> None:
    written(storage, created("held"), created("running"))
    written(storage, following(loaded(storage, "held"), HoldPlaced(at=NOON, by="op", reason="r")))
    claim(storage, "running")

    assert candidates(storage) == []


def test_a_dead_lease_may_be_taken_over(storage: Store, clock: ManualClock) -> None:
    """When it ran out, or when its group's epoch advanced; in the order of all claims."""
    written(storage, created("expired", priority=1), created("fenced"), created("live"), created("waiting"))
    claim(storage, "expired", lease=SECOND)
    claim(storage, "fenced", group="old")
    claim(storage, "live")
    assert candidates(storage) == ["waiting"]

    clock.advance(SECOND)
    advance_epoch(storage, "old")

    assert candidates(storage) == ["expired", "fenced", "waiting"]
    assert candidates(storage, kinds=["other"]) == candidates(storage, queues=["b"]) == []


def test_the_last_try_is_taken_over_only_from_an_old_epoch(storage: Store, clock: ManualClock) -> None:
    written(storage, created("expired", policy_changes=LAST_TRY), created("fenced", policy_changes=LAST_TRY))
    claim(storage, "expired", lease=SECOND)
    claim(storage, "fenced", group="old", lease=SECOND)
    clock.advance(SECOND)
    assert candidates(storage) == []

    advance_epoch(storage, "old")

    assert candidates(storage) == ["fenced"]
    assert dead(storage) == ["expired", "fenced"]


def test_leases_that_are_not_live_are_found_for_recovery(storage: Store, clock: ManualClock) -> None:
    """Also those that no claim may take: held ones, and those that wait for a cancel."""
    names = ["a held", "b cancel", "c live", "d fenced", "e queued"]
    written(storage, *(created(name) for name in names), created("elsewhere", namespace="elsewhere"))
    for name in names[:2]:
        claim(storage, name, lease=SECOND)
    claim(storage, "c live")
    claim(storage, "d fenced", group="old")
    claim(storage, "elsewhere", lease=SECOND)
    held, cancelled = loaded(storage, "a held"), loaded(storage, "b cancel")
    written(storage, following(held, HoldPlaced(at=NOON, by="op", reason="r"), lease=held.lease))
    written(storage, following(cancelled, CancelRequested(at=NOON, by="op", reason="r"), lease=cancelled.lease))
    assert dead(storage) == []

    clock.advance(SECOND)
    advance_epoch(storage, "old")

    assert dead(storage) == ["a held", "b cancel", "d fenced"]
    assert dead(storage, after="a held", limit=1) == ["b cancel"]
    assert candidates(storage) == ["d fenced", "e queued"]


# Lists and counts -----------------------------------------------------------------------------------------------------


@pytest.fixture
def several(storage: Store) -> Store:
    """Five jobs that differ in one thing each, and one of another namespace."""
    written(
        storage,
        created("1", key="key-a", labels={"team": "red", "size": "xl"}),
        created("2", key="key-b", owner="p", labels={"team": "blue"}),
        created("3", queue="b", key="Key-c"),
        created("4", kind="other", key="key\U0010ffff"),
        created("5", labels={"team": "red"}),
        created("6", namespace="elsewhere", key="key-a", labels={"team": "red"}),
    )
    claim(storage, "5")
    written(storage, following(loaded(storage, "4"), HoldPlaced(at=NOON, by="op", reason="r")))
    return storage


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, "54321"),
        ({"owner": "p"}, "2"),
        ({"owner": "nobody"}, ""),
        ({"kind": "other"}, "4"),
        ({"queue": "b"}, "3"),
        ({"state": State.QUEUED}, "321"),
        ({"state": State.RUNNING, "queue": "default"}, "5"),
        ({"is_held": True}, "4"),
        ({"is_held": False}, "5321"),
        ({"label": ("team", None)}, "521"),
        ({"label": ("team", "red")}, "51"),
        ({"label": ("team", "red"), "state": State.QUEUED}, "1"),
        ({"label": ("team", "green")}, ""),
        ({"label": ("Team", None)}, ""),
        ({"key_prefix": "key"}, "421"),
        ({"key_prefix": "key-"}, "21"),
        ({"key_prefix": "key\U0010ffff"}, "4"),
        ({"key_prefix": ""}, "4321"),
        ({"key_prefix": "key-a", "owner": "p"}, ""),
    ],
)
def test_jobs_are_listed_by_filter_newest_first(several: Store, wanted: dict[str, Any], expected: str) -> None:
    """In pages, and counted no further than the limit."""
    job_filter = JobFilter(namespace=NAMESPACE, **wanted)
    with several.reading() as reader:
        found = reader.jobs(job_filter, before=None, limit=100)

        assert [each.job.id for each in found] == list(expected)
        assert found == [reader.load([each.job.id])[each.job.id] for each in found]
        assert reader.count(job_filter, 100) == len(expected)
        assert reader.count(job_filter, 2) == min(2, len(expected))
        paged, before = "", None
        while page := reader.jobs(job_filter, before=before, limit=2):
            paged += "".join(each.job.id for each in page)
            before = page[-1].position
        assert paged == expected


def test_jobs_are_counted_by_state(several: Store) -> None:
    """Every state is there, also with none."""
    with several.reading() as reader:
        assert {state: n for state, n in reader.counts(NAMESPACE, None, None).items() if n} == {
            State.QUEUED: 3,
            State.RUNNING: 1,
            State.PAUSED: 1,
        }
        assert set(reader.counts("nowhere", None, None)) == set(State)
        assert reader.counts(NAMESPACE, "p", None)[State.QUEUED] == 1
        assert reader.counts(NAMESPACE, None, "b")[State.QUEUED] == 1
        assert reader.counts(NAMESPACE, "p", "b")[State.QUEUED] == 0
        assert reader.queued(NAMESPACE, "default", 100) == 2
        assert reader.queued(NAMESPACE, "default", 1) == 1
        assert reader.queued(NAMESPACE, "default", 0) == 0


def test_job_ids_are_walked_in_the_order_of_code_points(storage: Store) -> None:
    names = ["A", "Z", "a", "ä", "\uffff", "\U0001f600"]
    written(storage, *(created(name) for name in reversed(names)), created("B", namespace="elsewhere"))

    with storage.reading() as reader:
        assert reader.job_ids(NAMESPACE, after="", limit=3) == names[:3]
        assert reader.job_ids(NAMESPACE, after="a", limit=9) == names[3:]


# The feed -------------------------------------------------------------------------------------------------------------


def test_the_feed_has_the_records_of_all_jobs_by_position(storage: Store) -> None:
    """Filtered by namespace, topic and owner; groups' streams take a position but are no job's records."""
    written(storage, created("a"), created("b", owner="p"), created("c", namespace="elsewhere"))
    advance_epoch(storage)
    claim(storage, "a", epoch=2)
    written(storage, progressed(loaded(storage, "a")))

    def feed(after: int = 0, limit: int = 100, *topics: str, owner: str | None = None) -> tuple[str, int]:
        with storage.reading() as reader:
            found, upto = reader.feed(NAMESPACE, after=after, limit=limit, topics=topics, owner=owner)
            assert found == [Positioned(each.position, each.record) for each in found]
            return " ".join(f"{each.position}{each.record.stream}" for each in found), upto

    assert feed() == ("1a 2b 5a 6a", 6)
    assert feed(0, 3) == ("1a 2b 5a", 5)
    assert feed(5) == ("6a", 6)
    assert feed(6) == ("", 6)
    assert feed(99) == ("", 99)
    assert feed(0, 100, "job.created") == ("1a 2b", 6)
    assert feed(0, 1, "job.created") == ("1a", 1)
    assert feed(0, 100, "job.claimed", "job.progress_reported") == ("5a 6a", 6)
    assert feed(0, 100, owner="p") == ("2b", 6)
    assert feed(2, 100, "job.created", owner="p") == ("", 6)
    with storage.reading() as reader:
        [each, *_] = reader.feed(NAMESPACE, after=5, limit=1, topics=[], owner=None)[0]
        assert each.record == reader.records("a", after=2, limit=1)[0]


def test_an_expired_lease_changes_no_record(storage: Store, clock: ManualClock) -> None:
    """A clock ends no generation: that takes an event."""
    written(storage, created("a"))
    before = claim(storage, "a")

    clock.advance(LEASE)

    assert loaded(storage, "a") == before
