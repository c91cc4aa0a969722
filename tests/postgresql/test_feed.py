"""Following the feed while others write, slowly, out of order, and in vain: nothing is missed or seen twice."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from jobledger import JobRequest, JobStore
from jobledger.adapters.storage.postgresql_listing import PostgreSQLLister
from tests.contracts.test_following import killed_and_resumed
from tests.postgresql.conftest import Ledger

WRITERS = 8
TRANSACTIONS = 40


def naive(reader: PostgreSQLLister) -> int:
    """The newest position that can be seen: what a follower without a horizon would go by."""
    cursor = reader._cursor  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # a broken twin of the reader's own
    cursor.execute(reader._place.statement("SELECT coalesce(max(notification_id), 0) FROM jobledger.stored_events"))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # the same
    [(last,)] = cursor.fetchall()
    return int(last)


def followed(store: JobStore, is_over: Callable[[], bool]) -> list[str]:
    """Read the feed in small pages until everything is over, and then once more to its end."""
    seen: list[str] = []
    cursor: str | None = None
    while True:
        was_over = is_over()
        while (page := store.feed(after=cursor, limit=7)).entries:
            seen += [entry.job_id for entry in page.entries]
            cursor = page.cursor
        cursor = page.cursor
        if was_over:
            return seen


def killed(store: JobStore, is_over: Callable[[], bool]) -> list[str]:
    """The same by a follower that is killed again and again, and resumes from what it had noted; each job once."""
    return [job_id for _, job_id, _ in dict.fromkeys(killed_and_resumed(store, is_over, is_hasty=False))]


def written_slowly(ledger: Ledger, store: JobStore, seed: int) -> list[str]:
    """Create a job in each of many transactions that stay open for a while; some are rolled back."""
    chance = random.Random(seed)  # noqa: S311  # no secret hangs on it
    made: list[str] = []
    with ledger.connect() as connection:
        for _ in range(TRANSACTIONS):
            receipt = store.create(JobRequest(owner="team", kind="index"), connection=connection)
            connection.execute("SELECT pg_sleep(%s)", (chance.random() ** 4 * 0.05,))
            if chance.random() < 0.3:
                connection.rollback()
            else:
                connection.commit()
                made.append(receipt.job_id)
    return made


def raced(ledger: Ledger) -> tuple[list[str], list[list[str]]]:
    """What eight writers made, and what each of two followers saw, of whom one was killed 200 times."""
    with ledger.open() as store, ThreadPoolExecutor(WRITERS + 2) as threads:
        are_over = threading.Event()
        followers = [threads.submit(follow, store, are_over.is_set) for follow in (followed, killed)]
        writers = [threads.submit(written_slowly, ledger, store, seed) for seed in range(WRITERS)]
        made = [job_id for writer in writers for job_id in writer.result(timeout=100)]
        are_over.set()
        return made, [follower.result(timeout=100) for follower in followers]


def test_followers_miss_nothing_and_see_nothing_twice(ledger: Ledger) -> None:
    """Whatever the order in which slow writers commit or give up."""
    made, seen = raced(ledger)

    assert sorted(seen[0]) == sorted(made)
    assert seen[1] == seen[0], "the one that was killed missed some, or saw them out of order"


def test_a_follower_without_a_horizon_misses_some(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the same race, and a reader that goes as far as it can see."""
    monkeypatch.setattr(PostgreSQLLister, "_upto", naive)

    made, seen = raced(ledger)

    assert all(set(follower) < set(made) for follower in seen)


def test_an_open_append_holds_the_feed_back_and_nothing_else(ledger: Ledger, store: JobStore) -> None:
    """Until it ends, one way or the other; jobs themselves can be read at once."""
    with ledger.connect() as connection:
        slow = store.create(JobRequest(owner="team", kind="index"), connection=connection)
        quick = store.create(JobRequest(owner="team", kind="index"))

        assert store.feed().entries == ()
        assert store.status(quick.job_id).sequence == 1

    assert [entry.job_id for entry in store.feed().entries] == [slow.job_id, quick.job_id]


def test_a_writer_that_dies_holds_nothing_back(ledger: Ledger, store: JobStore) -> None:
    """The server takes its mark away with its session."""
    with ledger.connect() as connection:
        store.create(JobRequest(owner="team", kind="index"), connection=connection)
        quick = store.create(JobRequest(owner="team", kind="index"))
        with ledger.connect(autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", (connection.info.backend_pid,))

        assert [entry.job_id for entry in store.feed().entries] == [quick.job_id]
        connection.close()


def test_a_view_that_is_older_than_an_append_does_not_pass_it(ledger: Ledger, store: JobStore) -> None:
    """Its horizon is read before its snapshot: what commits in between is left for the next view."""
    storage: Any = store._setting.storage  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # views are its own
    with ledger.connect() as connection:
        slow = store.create(JobRequest(owner="team", kind="index"), connection=connection)
        store.create(JobRequest(owner="team", kind="index"))
        with storage.reading() as reader:
            reader.load([])
            connection.commit()
            found, upto = reader.feed("default", after=0, limit=9, topics=(), owner=None)

    assert (found, upto) == ([], 0)
    assert len(store.feed(after=None).entries) == 2
    assert store.feed().entries[0].job_id == slow.job_id
