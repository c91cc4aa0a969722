"""What every store promises about transactions: whole or not at all, one writer, readers that never wait, wake-ups."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from jobledger.adapters.storage import changes
from jobledger.domain.errors import InvalidRequestError, StoreUnavailableError
from jobledger.domain.ports import Append, Guard, StoredBody, UnitRow
from tests.storage.given import (
    LEASE,
    NAMESPACE,
    NOON,
    PATIENCE,
    body,
    candidates,
    claim,
    created,
    following,
    loaded,
    progressed,
    renewed,
    written,
)
from tests.storage.test_preconditions import Store, everything, full

MOMENT = timedelta(milliseconds=20)


class BrokenError(Exception):
    """Something that went wrong in a caller's block."""


def break_off(storage: Store, *appends: Append) -> None:
    """Write, and then fail in the middle of the session."""
    with storage.writing(PATIENCE) as session:
        assert session.append(appends) == [None] * len(appends)
        raise BrokenError


def test_items_of_a_batch_answer_for_themselves(storage: Store) -> None:
    """One that fails leaves nothing and does not touch the others; a later one sees what earlier ones wrote."""
    written(storage, created("stale"))
    stale = full(following(loaded(storage, "stale"), guard=Guard(sequence=7)))

    batch = [created("a"), stale, created("b"), created("a"), full(created("c"))]
    assert written(storage, *batch) == [None, "sequence", None, "sequence", None]

    with storage.reading() as reader:
        found = reader.load(["a", "b", "c", "stale"])
        assert {job_id: each.position for job_id, each in found.items()} == {"stale": 1, "a": 2, "b": 3, "c": 4}
        assert reader.units("stale", after=None, limit=9) == []
        assert len(reader.units("c", after=None, limit=9)) == 1


def test_an_empty_batch_is_answered(storage: Store) -> None:
    assert written(storage) == []


def test_an_exception_undoes_everything(storage: Store) -> None:
    """It reaches the caller as it is; the store is as it was, and goes on working."""
    written(storage, created())
    running = claim(storage)
    before = everything(storage)

    with pytest.raises(BrokenError):
        break_off(storage, full(progressed(running)), created("new", labels={"l": "v"}))

    assert everything(storage) == before
    assert written(storage, full(progressed(running))) == [None]


def test_a_draft_is_seen_by_nobody_before_it_is_committed(storage: Store) -> None:
    """Readers see only committed states, and never wait for a writer."""
    with storage.writing(PATIENCE) as session:
        session.append([full(created())])
        with ThreadPoolExecutor(1) as other:
            assert other.submit(everything, storage).result(timeout=10)["loaded"] == {}
        assert everything(storage)["records"] == []

    assert everything(storage)["loaded"]


def test_a_view_stays_as_it_was_whatever_is_written_meanwhile(storage: Store) -> None:
    written(storage, created(bodies=(StoredBody("d", b"1", is_checkpoint=True),)))
    with storage.reading() as reader:
        before = reader.load(["j", "new"])
        running = claim(storage)
        written(storage, progressed(running, dropped=("d",), unit=UnitRow("u", body(1), 1, 3)), created("new"))

        assert reader.load(["j", "new"]) == before
        assert len(reader.records("j", limit=9)) == 1
        assert reader.body("j", "d") == b"1"
        assert reader.units("j", after=None, limit=9) == []
        assert reader.unit("j", "u") is None
        assert reader.feed(NAMESPACE, after=0, limit=9, topics=[], owner=None)[1] == 1
        assert reader.job_ids(NAMESPACE, after="", limit=9) == ["j"]

    with storage.reading() as reader:
        assert reader.load(["j"])["j"].job.sequence == 3
        assert reader.body("j", "d") is None


def test_writers_of_one_job_take_turns(storage: Store) -> None:
    """Of many threads that load it and then write, none overwrites another."""
    written(storage, created())
    claim(storage)

    def work(number: int) -> list[str | None]:
        with storage.writing(PATIENCE) as session:
            return session.append([progressed(session.load(["j"])["j"], done=number)])

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(work, range(60)))

    assert answers == [[None]] * 60
    assert loaded(storage).job.sequence == 62


def test_writers_take_turns(embedded: Store) -> None:
    """Without a server there is one at a time: of many threads that read and then write, none meets another."""
    storage = embedded

    def work(number: int) -> list[str | None]:
        with storage.writing(PATIENCE) as session:
            count = len(session.job_ids(NAMESPACE, after="", limit=1000))
            return session.append([created(f"{count:03}", labels={"by": str(number)})])

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(work, range(60)))

    assert answers == [[None]] * 60


def test_a_writer_waits_no_longer_than_its_patience(storage: Store) -> None:
    """It is told that the store is unavailable; the other session goes on."""
    written(storage, created())
    claim(storage)

    def impatient() -> float:
        begun = time.monotonic()
        with pytest.raises(StoreUnavailableError), storage.writing(MOMENT) as session:
            session.load(["j"])
        return time.monotonic() - begun

    with storage.writing(PATIENCE) as session:
        current = session.load(["j"])["j"]
        with ThreadPoolExecutor(1) as other:
            assert 0.02 <= other.submit(impatient).result(timeout=10) < 5
        session.append([progressed(current)])

    assert loaded(storage).job.sequence == 3


def test_a_session_inside_a_session_is_refused(storage: Store) -> None:
    """At once, however patient it is: waiting for oneself would be waiting for ever."""
    with storage.writing(PATIENCE) as session:
        with pytest.raises(InvalidRequestError, match="same store"), storage.writing(timedelta(days=1)):
            pass
        assert session.append([created()]) == [None]

    assert written(storage, created("next")) == [None]


def test_a_callers_connection_is_refused(storage: Store) -> None:
    with pytest.raises(InvalidRequestError), storage.writing(PATIENCE, connection=object()):
        pass

    assert written(storage, created()) == [None]


def test_a_closed_store_is_unavailable(storage: Store) -> None:
    storage.close()

    with pytest.raises(StoreUnavailableError, match="closed"), storage.reading():
        pass
    with pytest.raises(StoreUnavailableError, match="closed"), storage.writing(PATIENCE):
        pass


# Waiting --------------------------------------------------------------------------------------------------------------


def wait(storage: Store, timeout: timedelta = MOMENT) -> float:
    """How many seconds a wait took."""
    begun = time.monotonic()
    storage.wait(timeout)
    return time.monotonic() - begun


def test_a_wait_without_news_ends_with_its_timeout(storage: Store) -> None:
    written(storage, created())
    wait(storage)

    assert wait(storage, timedelta(seconds=0.2)) >= 0.2


def test_an_append_of_this_process_wakes_at_once(storage: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long before the next time that a waiter asks by itself."""
    monkeypatch.setattr(changes, "POLL_SECONDS", 60.0)
    is_waiting = threading.Event()
    with storage.reading() as reader:
        assert reader.load(["j"]) == {}

    def follow() -> float:
        wait(storage)
        is_waiting.set()
        return wait(storage, timedelta(seconds=30))

    with ThreadPoolExecutor(1) as other:
        waited = other.submit(follow)
        is_waiting.wait()
        written(storage, created())
        assert waited.result(timeout=10) < 10


def test_what_was_appended_before_the_wait_is_not_slept_through(storage: Store) -> None:
    """A follower that has read, and then waits, is woken by what came in between."""
    wait(storage)
    written(storage, created())

    assert wait(storage, timedelta(seconds=30)) < 10


def test_a_session_that_was_undone_wakes_nobody(embedded: Store) -> None:
    """With a server it may: the positions that it drew are passed over, which looks like news."""
    storage = embedded
    wait(storage)
    with pytest.raises(BrokenError):
        break_off(storage, created())

    assert wait(storage, timedelta(seconds=0.2)) >= 0.2


def test_what_adds_no_record_wakes_nobody(storage: Store) -> None:
    """Looking for work, and renewing a lease, happen all the time: they would keep everybody awake."""
    written(storage, created())
    running = claim(storage)
    wait(storage)
    candidates(storage)
    written(storage, renewed(running, NOON + 2 * LEASE))

    assert wait(storage, timedelta(seconds=0.2)) >= 0.2


def test_times_are_kept_to_the_microsecond(storage: Store) -> None:
    """An expiry is compared for equality, so none of it may be rounded away."""
    at = NOON + timedelta(microseconds=123457)
    written(storage, created(at=at))
    running = claim(storage, at=at, lease=timedelta(microseconds=1_000_001))

    assert running.lease is not None
    assert running.lease.expires_at == at + timedelta(microseconds=1_000_001)
    again: Append = progressed(running, guard=Guard(sequence=2, seen_expiry=running.lease.expires_at))
    assert written(storage, again) == [None]
