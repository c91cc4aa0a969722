"""Following the feed of every store: nothing is missed, nothing stands out of order, and one that waits is woken."""

from __future__ import annotations

import asyncio
import random
import threading
from pathlib import Path

import pytest

from jobledger import AsyncJobStore, JobStore
from jobledger.projections.windows import position_of
from tests.contracts.conftest import STORES
from tests.contracts.jobs import created, refuses, running
from tests.postgresql.stores import WatchedClock

WRITERS = 8
EVENTS = 12
KILLS = 200


def test_a_follower_that_is_killed_and_resumed_misses_nothing(store: JobStore) -> None:
    """200 times, while eight writers commit: all events, in order; one that it had no time to note comes again."""
    chance = random.Random(0)  # noqa: S311  # a seed to be repeated, no secret
    threads = [threading.Thread(target=_writes, args=(store, number)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    seen: list[tuple[int, str, int]] = []
    noted: str | None = None
    kills = 0

    while kills < KILLS or any(thread.is_alive() for thread in threads) or len(set(seen)) < WRITERS * (EVENTS + 3):
        for lived, entry in enumerate(store.follow(after=noted, idle=0)):
            seen.append((position_of(entry.cursor), entry.job_id, entry.sequence))
            is_killed = chance.random() < 0.3
            if not is_killed or chance.random() < 0.5:
                noted = entry.cursor
            if is_killed or lived > 40:
                break
        kills += 1
    for thread in threads:
        thread.join()

    once = list(dict.fromkeys(seen))
    assert once == sorted(once)
    jobs = {job.job_id: job.sequence for job in store.jobs(limit=100).jobs}
    assert {(job_id, sequence) for _, job_id, sequence in once} == {
        (job_id, sequence) for job_id, head in jobs.items() for sequence in range(1, head + 1)
    }


def _writes(store: JobStore, number: int) -> None:
    lease = running(store, f"k{number}")
    for done in range(EVENTS):
        store.report_progress(lease.fence, done)
    store.complete(lease.fence)


@pytest.mark.parametrize("limit", [1, 2, 7, 1_000])
def test_a_walk_of_any_page_size_sees_the_same_events(store: JobStore, limit: int) -> None:
    """Contiguous: each page begins where the one before ended."""
    for number in range(3):
        _writes(store, number)
    whole = [entry.cursor for entry in store.feed(limit=1_000).entries]

    walked: list[str] = []
    cursor: str | None = None
    while (page := store.feed(after=cursor, limit=limit)).entries:
        walked += [entry.cursor for entry in page.entries]
        cursor = page.cursor

    assert walked == whole


def test_a_feed_that_waits_is_woken_by_what_happens(store: JobStore) -> None:
    """Long before its time is over; what it was waiting for is its answer."""
    cursor = store.feed().cursor
    writer = threading.Thread(target=created, args=(store, "k"))
    writer.start()

    page = store.feed(after=cursor, wait=60)
    writer.join()

    assert [entry.name for entry in page.entries] == ["Created"]


def test_a_feed_in_which_nothing_happens_answers_when_its_time_is_over(store: JobStore) -> None:
    """With a cursor that goes on from there; and a follower that may not be idle ends."""
    created(store)
    cursor = store.feed().cursor

    assert store.feed(after=cursor, wait=0.01).entries == ()
    assert list(store.follow(after=cursor, idle=0.01)) == []
    assert [entry.name for entry in store.follow(idle=0)] == ["Created"]
    refuses("invalid_request", store.feed, wait=-1)
    refuses("invalid_request", list, store.follow(after="nonsense", idle=0))


def test_following_can_be_narrowed(store: JobStore) -> None:
    """To topics and to an owner; what does not match is passed over, not read again."""
    _writes(store, 0)

    assert [entry.name for entry in store.follow(topics=["job.claimed"], idle=0)] == ["Claimed"]
    assert list(store.follow(owner="nobody", idle=0)) == []


@pytest.mark.parametrize("kind", STORES)
def test_the_awaitable_store_follows_too(kind: str, tmp_path: Path, clock: WatchedClock) -> None:
    """Without keeping a thread while it waits."""
    store = STORES[kind](tmp_path, clock)

    async def follow() -> list[str]:
        async with AsyncJobStore(store, threads_max=1) as waiting:
            names: list[str] = []
            async for entry in waiting.follow(idle=60):
                names.append(entry.name)
                if len(names) == 1:
                    await waiting.hold(entry.job_id, by="ops", reason="look")
                if len(names) == 2:
                    return names
            return names

    created(store)

    assert asyncio.run(follow()) == ["Created", "HoldPlaced"]
