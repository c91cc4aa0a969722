"""Following the feed of every store: nothing is missed, nothing stands out of order, and one that waits is woken."""

from __future__ import annotations

import asyncio
import base64
import itertools
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typing_extensions import override

from jobledger import AsyncJobStore, Feed, JobStore
from jobledger.projections.windows import position_of
from tests.contracts.conftest import STORES
from tests.contracts.jobs import created, refuses, running
from tests.postgresql.stores import WatchedClock

WRITERS = 8
EVENTS = 12
KILLS = 200


def killed_and_resumed(store: JobStore, is_over: Callable[[], bool], *, is_hasty: bool) -> list[tuple[int, str, int]]:
    """What a follower saw that was killed 200 times, each time at some entry, and resumed from what it had noted.

    It notes an entry once it has dealt with it, and is sometimes killed in between; a hasty one notes it before.
    """
    chance = random.Random(0)  # noqa: S311  # a seed to be repeated, no secret
    seen: list[tuple[int, str, int]] = []
    noted: str | None = None
    kills = 0
    while True:
        was_over = is_over()
        entry = None
        for lived, entry in enumerate(store.follow(after=noted, idle=0)):
            is_killed = chance.random() < 0.3
            if is_hasty:
                noted = entry.cursor
            if not (is_hasty and is_killed):
                seen.append((position_of(entry.cursor), entry.job_id, entry.sequence))
            if not is_killed or chance.random() < 0.5:
                noted = entry.cursor
            if is_killed or lived > 40:
                break
        kills += 1
        if was_over and entry is None and kills >= KILLS:
            return seen


@pytest.mark.parametrize("is_hasty", [False, True], ids=["careful", "hasty"])
def test_a_follower_that_is_killed_and_resumed_misses_nothing(store: JobStore, is_hasty: bool) -> None:
    """200 times, while eight writers commit: all events, in order; one that it had no time to note comes again.

    The hasty one is the control: it was killed between its note and its deed, and misses what it had noted.
    """
    threads = [threading.Thread(target=_writes, args=(store, number)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()

    seen = killed_and_resumed(store, lambda: not any(thread.is_alive() for thread in threads), is_hasty=is_hasty)

    once = list(dict.fromkeys(seen))
    assert once == sorted(once)
    jobs = {job.job_id: job.sequence for job in store.jobs(limit=100).jobs}
    whole = {(job_id, sequence) for job_id, head in jobs.items() for sequence in range(1, head + 1)}
    assert len(whole) == WRITERS * (EVENTS + 3)
    assert ({(job_id, sequence) for _, job_id, sequence in once} == whole) is not is_hasty
    assert is_hasty or len(seen) > len(once)


def _writes(store: JobStore, key: object) -> None:
    lease = running(store, f"{key}")
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


def walked(store: _From, is_over: Callable[[], bool], sizes: Sequence[int]) -> list[tuple[str, int]]:
    """The feed to its end, in pages of these sizes in turn, while others write."""
    seen: list[tuple[str, int]] = []
    cursor: str | None = None
    for size in itertools.cycle(sizes):
        was_over = is_over()
        page = store.feed(after=cursor, limit=size)
        assert len(page.entries) <= size
        seen += [(entry.job_id, entry.sequence) for entry in page.entries]
        cursor = page.cursor
        if was_over and not page.entries:
            return seen
    raise AssertionError


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=4), number=st.uuids())
def test_walks_beside_writers_are_contiguous_for_any_page_sizes(
    store: JobStore, sizes: list[int], number: UUID
) -> None:
    """Of the feed, and of the windows of each job: no event is missed, none comes twice, none out of its order."""
    keys = [f"{number}-{writer}" for writer in range(3)]
    start = store.feed_end()
    threads = [threading.Thread(target=_writes, args=(store, key)) for key in keys]
    for thread in threads:
        thread.start()

    seen = walked(_From(store, start), lambda: not any(thread.is_alive() for thread in threads), sizes)

    for key in keys:
        job = store.find("team", key)
        assert job is not None
        assert [sequence for job_id, sequence in seen if job_id == job.job_id] == list(range(1, job.sequence + 1))
        assert windowed(store, job.job_id, sizes) == list(range(1, job.sequence + 1))
    assert len(seen) == len(set(seen)) == 3 * (EVENTS + 3)


class _From:
    """A store whose feed begins at a place."""

    def __init__(self, store: JobStore, start: str) -> None:
        self._store, self._start = store, start or None

    def feed(self, *, after: str | None, limit: int) -> Feed:
        return self._store.feed(after=after or self._start, limit=limit)


def windowed(store: JobStore, job_id: str, sizes: Sequence[int]) -> list[int]:
    """The sequences that a walk over a job's windows sees, in pages of these sizes in turn."""
    seen: list[int] = []
    after = 0
    for size in itertools.cycle(sizes):
        window = store.events(job_id, after=after, limit=size)
        if not window.events:
            return seen
        seen += [event.sequence for event in window.events]
        after = window.next_after
    raise AssertionError


def test_a_walk_over_a_feed_that_skips_is_found_out(store: JobStore) -> None:
    """The control: a feed whose cursor goes one place too far, as one that counts from zero would."""
    _writes(store, "k")

    class Skipping(_From):
        @override
        def feed(self, *, after: str | None, limit: int) -> Feed:
            page = super().feed(after=after, limit=limit + 1)
            return replace(page, entries=page.entries[:limit])

    whole = walked(_From(store, ""), lambda: True, [2])
    assert walked(Skipping(store, ""), lambda: True, [2]) != whole
    assert len(whole) == EVENTS + 3


def test_a_cursor_is_good_for_its_own_list_of_its_own_store_alone(store: JobStore) -> None:
    """Another list's, another store's, one of an earlier release, and one that was changed say so, and what to do."""
    for number in range(3):
        _writes(store, str(number))
    feed, jobs = store.feed(limit=1).cursor, store.jobs(limit=1).next_cursor
    assert jobs is not None
    with JobStore.open("memory:") as other:
        foreign = other.feed().cursor
    changed = feed[:-1] + ("A" if feed[-1] != "A" else "B")
    unsigned = base64.urlsafe_b64encode(b'{"v": 1, "at": {"0": 1}}').decode().rstrip("=")

    for cursor in (jobs, foreign, changed, unsigned, feed[:-8], feed * 2, "", "x"):
        error = refuses("unknown_cursor", store.feed, after=cursor)
        assert "without one" in str(error)
        refuses("unknown_cursor", list, store.follow(after=cursor, idle=0))
    refuses("unknown_cursor", store.jobs, cursor=feed)
    assert store.feed(after=feed).entries[0].sequence == 2
    assert len(store.jobs(cursor=jobs).jobs) == 2


def test_a_cursor_is_good_in_its_own_namespace_alone(local_store: JobStore) -> None:
    """Though both stand in one log."""
    setting = replace(local_store._setting, namespace="other")  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # a second face of the same store
    created(local_store)
    cursor = local_store.feed().cursor

    refuses("unknown_cursor", JobStore(setting).feed, after=cursor)
    assert local_store.feed(after=cursor).entries == ()


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
    refuses("unknown_cursor", list, store.follow(after="nonsense", idle=0))


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
