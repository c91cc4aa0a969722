"""Limits of a host: so many jobs at once in all, of a queue, of a kind; never more is claimed than can start."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

from jobledger import JobHost, JobStore, State, durable_job
from jobledger.adapters.worker.capacity import Limits, Share
from jobledger.domain.errors import InvalidRequestError
from tests.worker.hosting import PATIENCE, created, ended, hosted, names, until


class Crowd:
    """Counts who is in, and keeps all there until the door opens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.inside: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.door = threading.Event()

    def enter(self, name: str) -> None:
        with self._lock:
            self.inside[name] += 1
            self.most[name] = max(self.most[name], self.inside[name])
        assert self.door.wait(PATIENCE)
        with self._lock:
            self.inside[name] -= 1


def crowded(crowd: Crowd) -> list[Any]:
    @durable_job("wide")
    def wide() -> None:
        crowd.enter("wide")

    @durable_job("narrow")
    def narrow() -> None:
        crowd.enter("narrow")

    return [wide, narrow]


def test_a_kind_with_a_limit_leaves_the_other_slots_to_others(store: JobStore) -> None:
    crowd = Crowd()
    with hosted(store, *crowded(crowd), concurrency=4, concurrency_by_kind={"narrow": 1}):
        ids = [created(store, "narrow", priority=9) for _ in range(5)]
        until(store, lambda: crowd.inside["narrow"] == 1)
        ids += [created(store, "wide") for _ in range(5)]
        until(store, lambda: crowd.inside == {"narrow": 1, "wide": 3})
        claimed = Counter(store.status(job_id).kind for job_id in ids if store.status(job_id).state is State.RUNNING)
        crowd.door.set()
        for job_id in ids:
            ended(store, job_id)

    assert claimed == {"narrow": 1, "wide": 3}
    assert crowd.most["narrow"] == 1
    assert crowd.most["wide"] <= 4


def test_without_a_limit_the_same_jobs_take_every_slot(memory: JobStore) -> None:
    """The negative control of the one above: the limit it is that holds them."""
    crowd = Crowd()
    with hosted(memory, *crowded(crowd), concurrency=4):
        ids = [created(memory, "narrow", priority=9) for _ in range(5)]
        until(memory, lambda: crowd.inside["narrow"] == 4)
        crowd.door.set()
        for job_id in ids:
            ended(memory, job_id)

    assert crowd.most["narrow"] == 4


def test_a_queue_with_a_limit_of_nought_waits_until_it_is_changed(memory: JobStore) -> None:
    @durable_job("k")
    def handler() -> None: ...

    with hosted(memory, handler, queues=("default", "mail"), concurrency_by_queue={"mail": 0}) as host:
        mail, other = created(memory, "k", queue="mail"), created(memory, "k")
        ended(memory, other)
        assert names(memory, mail) == ["Created"]
        host.limit(concurrency=2, concurrency_by_queue={"mail": 1})
        ended(memory, mail)


def test_more_slots_while_the_host_runs(memory: JobStore) -> None:
    crowd = Crowd()
    with hosted(memory, *crowded(crowd), concurrency=1) as host:
        ids = [created(memory, "wide") for _ in range(6)]
        until(memory, lambda: crowd.inside["wide"] == 1)
        host.limit(concurrency=5)
        until(memory, lambda: crowd.inside["wide"] == 5)
        crowd.door.set()
        for job_id in ids:
            ended(memory, job_id)

    assert crowd.most["wide"] == 5


def test_what_has_no_limit_is_claimed_together_so_that_priority_decides() -> None:
    limits = Limits(10, {"mail": 2}, {"hash": 1})

    assert limits.shares(["a", "mail", "b"], ["hash", "index", "send"]) == [
        Share(("a", "b"), ("index", "send")),
        Share(("a", "b"), ("hash",)),
        Share(("mail",), ("index", "send")),
        Share(("mail",), ("hash",)),
    ]
    assert Limits(10).shares(["a", "b"], ["k"]) == [Share(("a", "b"), ("k",))]


@pytest.mark.parametrize(
    ("share", "room"),
    [
        (Share(("a",), ("index",)), 10),
        (Share(("mail",), ("index",)), 1),
        (Share(("a",), ("hash",)), 0),
        (Share(("mail",), ("hash",)), 0),
    ],
)
def test_the_tightest_limit_says_how_many_may_start(share: Share, room: int) -> None:
    limits = Limits(10, {"mail": 2}, {"hash": 1})

    assert limits.room(share, [("mail", "index"), ("a", "hash"), ("a", "index")]) == room


def test_a_limit_that_was_lowered_is_no_negative_room() -> None:
    assert Limits(10, {}, {"hash": 1}).room(Share(("a",), ("hash",)), [("a", "hash")] * 3) == 0


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency_by_queue": {"other": 1}},
        {"concurrency_by_kind": {"other": 1}},
        {"concurrency_by_kind": {"k": -1}},
        {"concurrency_by_kind": {"k": 1.5}},
        {"concurrency_by_kind": ["k"]},
    ],
)
def test_a_limit_that_fits_nothing_is_refused(memory: JobStore, options: dict[str, Any]) -> None:
    @durable_job("k")
    def handler() -> None: ...

    with pytest.raises(InvalidRequestError, match="concurrency_by"):
        JobHost(memory, [handler], **options)
