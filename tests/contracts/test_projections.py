"""Projections over every store: each event is folded once, whoever runs; what cannot be folded parks one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from typing_extensions import override

from jobledger import JobStore
from jobledger.domain import events
from jobledger.domain.errors import (
    HistoryCorruptError,
    InvalidRequestError,
    ProjectionBusyError,
    UnavailableError,
    UnknownCursorError,
)
from jobledger.domain.history import RecordedEvent
from jobledger.domain.tracking import Tracked
from jobledger.projections.folding import Projection, Rows
from jobledger.projections.projecting import BUSY, PROJECTIONS, Rebuild, Runner, Turn, live_of
from tests.contracts.faults import Fault, FaultyStorage
from tests.contracts.jobs import created, running
from tests.contracts.projected import require_rebuilt_alike, require_totals_of_states, rows_of, storage_of
from tests.postgresql.stores import WatchedClock

PATIENCE = timedelta(seconds=30)
SECOND = timedelta(seconds=1)


def _count(rows: Rows, recorded: RecordedEvent) -> None:
    rows.put((rows.get("count") or 0) + 1, "count")
    rows.put(recorded.sequence, "seen", recorded.stream, str(recorded.sequence))


def counting(fold: Callable[[Rows, RecordedEvent], None] = _count, version: int = 1) -> Projection:
    """A projection that counts what jobs report, and notes each report under its own key."""
    return Projection(name="counting", version=version, folds={events.ProgressReported: fold})


def reported(store: JobStore, times: int, key: str = "k") -> str:
    """A running job with so many reports."""
    lease = running(store, key)
    for done in range(times):
        store.report_progress(lease.fence, done)
    return lease.job_id


def runner(store: JobStore, projection: Projection, name: str = "") -> Runner:
    """A runner over a store's storage."""
    return Runner(storage_of(store), projection, name=name, patience=PATIENCE)


def ran(store: JobStore, projection: Projection, limit: int = 3) -> list[Turn]:
    """Every turn of a runner until it has nothing more to do."""
    own = runner(store, projection)
    turns = [own.step(limit).turn]
    while turns[-1] is Turn.MOVED:
        turns.append(own.step(limit).turn)
    return turns


@contextmanager
def known_too(projection: Projection) -> Generator[None]:
    """One more projection that a store knows by name."""
    PROJECTIONS[projection.name] = projection  # type: ignore[index]  # a test may
    try:
        yield
    finally:
        del PROJECTIONS[projection.name]  # type: ignore[attr-defined]  # as above


def test_every_event_is_folded_once(local_store: JobStore) -> None:
    """In batches of any size, and also when it is run again and again."""
    reported(local_store, 10)

    ran(local_store, counting())
    ran(local_store, counting())

    assert rows_of(local_store, "counting")[b"count"] == b"10"
    reported(local_store, 4, "l")
    ran(local_store, counting(), limit=1)
    assert rows_of(local_store, "counting")[b"count"] == b"14"


@pytest.mark.parametrize("fault", ["down", "undone", "lost"])
@pytest.mark.parametrize("name", ["totals", "workers", "operators"])
def test_a_batch_whose_writing_failed_is_folded_once(local_store: JobStore, name: str, fault: Fault) -> None:
    """Whether it was written or not: what a runner remembers of the rows is forgotten with the batch."""
    storage = FaultyStorage(storage_of(local_store))
    projection = PROJECTIONS[name]
    runs = Runner(storage, projection, name="a", patience=timedelta(seconds=5))
    reported(local_store, 3)
    while runs.step(limit=2).turn is not Turn.CURRENT:
        pass
    local_store.complete(local_store.claim(created(local_store, "more"), worker="w2").fence)
    local_store.hold(created(local_store, "held"), by="ann", reason="r")

    storage.plan = [fault]
    with pytest.raises(UnavailableError):
        runs.step()
    while runs.step(limit=2).turn is not Turn.CURRENT:
        pass

    require_rebuilt_alike(local_store, projection)


def test_many_runners_at_once_fold_each_event_once(local_store: JobStore) -> None:
    """Of two who read the same batch, one writes it, and the other one's is thrown away."""
    reported(local_store, 60)
    turns: list[Turn] = []

    def run() -> None:
        own = runner(local_store, counting())
        while (turn := own.step(4).turn) is not Turn.CURRENT:
            turns.append(turn)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    rows = rows_of(local_store, "counting")
    assert rows[b"count"] == b"60"
    assert len(rows) == 61


class Careless(Runner):
    """A twin that writes without comparing where the build stands."""

    @override
    def write(self, seen: Tracked, moved: Tracked, rows: dict[bytes, bytes | None]) -> bool:
        with self._storage.writing(PATIENCE) as session:
            now = live_of(session, moved.projection)
            return session.move_projection(now, moved, rows)


@pytest.mark.parametrize(("kind", "counted"), [(Runner, b"5"), (Careless, b"3")])
def test_a_runner_that_was_overtaken_writes_nothing(local_store: JobStore, kind: type[Runner], counted: bytes) -> None:
    """It had read three events, and meanwhile five were folded; the careless twin takes two of them back."""
    reported(local_store, 5)
    storage = storage_of(local_store)
    late = kind(storage, counting(), name="", patience=PATIENCE)
    late.step()
    with storage.reading() as reader:
        seen = live_of(reader, "counting")
        assert seen is not None
        moved, rows, _ = late.folded(reader, seen, 5)
    ran(local_store, counting())

    assert moved is not None
    late.write(seen, moved, rows)

    assert rows_of(local_store, "counting")[b"count"] == counted


def test_of_several_runners_one_goes_on_and_another_takes_over(local_store: JobStore, clock: WatchedClock) -> None:
    """The other one stands by as long as the first one moves; when that has stopped, it goes on from there."""
    reported(local_store, 2)
    first, second = runner(local_store, counting(), "a"), runner(local_store, counting(), "b")
    while first.step().turn is Turn.MOVED:
        pass
    reported(local_store, 3, "l")

    assert second.step().turn is Turn.STANDING_BY
    clock.advance(BUSY)
    assert second.step().turn is Turn.MOVED
    assert first.step().turn is Turn.CURRENT
    assert rows_of(local_store, "counting")[b"count"] == b"5"


def test_an_event_that_cannot_be_folded_parks_its_projection(local_store: JobStore) -> None:
    """What was before it is folded, and nothing of it; it says which event, why, and what to do; others go on."""
    job_id = reported(local_store, 3)
    is_mended = False

    def fold(rows: Rows, recorded: RecordedEvent) -> None:
        _count(rows, recorded)
        if recorded.sequence == 4 and not is_mended:
            rows.put(0, "count")
            msg = "no such unit"
            raise ValueError(msg)

    poisoned = counting(fold)
    with known_too(poisoned):
        assert ran(local_store, poisoned, limit=100)[-1] is Turn.PARKED
        assert runner(local_store, poisoned).step().turn is Turn.PARKED

        told = {each.name: each for each in local_store.run_projections()}["counting"]

        assert (told.state.value, told.lag_events > 0) == ("parked", True)
        assert told.trouble is not None
        assert (told.trouble.stream, told.trouble.sequence, told.trouble.topic) == (job_id, 4, "job.progress_reported")
        assert told.trouble.error == "ValueError: no such unit"
        assert "jobledger projections release counting" in told.advice
        assert rows_of(local_store, "counting")[b"count"] == b"1"
        assert {each.state.value for each in local_store.projections() if each.name != "counting"} == {"following"}

        assert local_store.release_projection("counting").state.value == "following"
        assert ran(local_store, poisoned)[-1] is Turn.PARKED
        is_mended = True
        local_store.release_projection("counting")
        ran(local_store, poisoned)

    assert rows_of(local_store, "counting")[b"count"] == b"3"


def test_a_rebuild_is_made_beside_the_live_one(local_store: JobStore) -> None:
    """Which is read meanwhile; then the two are swapped, and what was live is gone."""
    reported(local_store, 7)
    ran(local_store, counting())
    before = rows_of(local_store, "counting")
    looks: list[dict[bytes, bytes]] = []

    def fold(rows: Rows, recorded: RecordedEvent) -> None:
        looks.append(rows_of(local_store, "counting"))
        _count(rows, recorded)
        rows.put(1, "rebuilt")

    built = Rebuild(storage_of(local_store), counting(fold), name="r", patience=PATIENCE).run()

    assert looks == [before] * 7
    assert rows_of(local_store, "counting") == {**before, b"rebuilt": b"1"}
    with storage_of(local_store).reading() as reader:
        assert [(each.build, each.is_live) for each in reader.tracked()] == [(built.build, True)]
        assert reader.projected("counting", built.build - 1, list(before)) == {}


def test_a_rebuild_that_fails_leaves_the_live_one(local_store: JobStore) -> None:
    """It names the event, and nothing of it is left."""
    reported(local_store, 2)
    ran(local_store, counting())
    before = rows_of(local_store, "counting")

    def fold(_: Rows, __: RecordedEvent) -> None:
        msg = "no"
        raise ValueError(msg)

    with pytest.raises(HistoryCorruptError, match="ValueError: no"):
        Rebuild(storage_of(local_store), counting(fold), name="r", patience=PATIENCE).run()

    assert rows_of(local_store, "counting") == before
    with storage_of(local_store).reading() as reader:
        assert len(reader.tracked()) == 1


def test_a_newer_version_is_built_anew_and_an_older_one_leaves_it_alone(local_store: JobStore) -> None:
    """So two releases may run beside each other while machines are upgraded one by one."""
    reported(local_store, 3)
    ran(local_store, counting())

    def twice(rows: Rows, _: RecordedEvent) -> None:
        rows.put((rows.get("count") or 0) + 2, "count")

    newer = counting(twice, version=2)
    assert ran(local_store, newer)[-1] is Turn.CURRENT

    assert rows_of(local_store, "counting") == {b"count": b"6"}
    assert ran(local_store, counting()) == [Turn.OUTDATED]


def test_two_rebuilds_at_once_are_refused(local_store: JobStore, clock: WatchedClock) -> None:
    """One that was left behind by a process that ended is replaced after a while."""
    reported(local_store, 3)
    storage = storage_of(local_store)
    left = Rebuild(storage, counting(), name="a", patience=PATIENCE)
    build = left.start()
    with storage.reading() as reader:
        moved, rows, _ = left.folded(reader, build, 2)
    assert moved is not None
    left.write(build, moved, rows)

    with pytest.raises(ProjectionBusyError):
        Rebuild(storage, counting(), name="b", patience=PATIENCE).run()
    clock.advance(BUSY)
    Rebuild(storage, counting(), name="b", patience=PATIENCE).run()

    assert rows_of(local_store, "counting")[b"count"] == b"3"
    with storage.reading() as reader:
        assert len(reader.tracked()) == 1
    assert left.swap(moved) is None  # it wakes up, and what is live has read further
    assert not left.write(moved, replace(moved, position=moved.position + 1), {})


def test_what_nobody_knows_is_refused_by_name(store: JobStore) -> None:
    """And one that has never run says how it is begun."""
    for ask in (store.run_projections, store.release_projection, store.rebuild):
        with pytest.raises(InvalidRequestError, match="totals"):
            ask("nothing")
    with pytest.raises(InvalidRequestError, match="never run"):
        store.release_projection("totals")
    [new, *_] = store.projections()
    assert (new.state.value, new.advice) == ("new", f"nothing runs it yet: jobledger projections run {new.name}")


def test_totals_count_what_stands_and_what_ended(store: JobStore, clock: WatchedClock) -> None:
    """By queue and kind, for all owners and for one; how long jobs waited, ran and took."""
    lease = running(store, "a")
    clock.advance(timedelta(seconds=20))
    store.complete(lease.fence)
    created(store, "b")
    held = created(store, "c", owner="team-b")
    store.hold(held, by="ann", reason="look")
    store.run_projections()

    [total] = store.totals().totals
    [own] = store.totals(owner="team-b").totals
    [pace] = store.paces().paces

    assert (total.created, total.queued, total.running, total.paused) == (3, 1, 0, 1)
    assert {outcome.value: count for outcome, count in total.finished.items() if count} == {"complete": 1}
    assert total.oldest_ready_at == clock.now()
    assert (total.ran.count, total.ran.total, total.took.quantile(0.5)) == (
        1,
        timedelta(seconds=20),
        timedelta(minutes=1),
    )
    assert (own.created, own.queued, own.paused, own.oldest_ready_at) == (1, 0, 1, None)
    assert (pace.created, pace.attempts) == (3, 1)
    assert pace.start == clock.now().replace(second=0)
    assert store.totals(kind="other").totals == ()


def test_workers_tell_what_they_hold_and_lost(store: JobStore, clock: WatchedClock) -> None:
    """With the expiry of now; one that lost a lease says which."""
    lost = running(store, "a", worker="w1")
    clock.advance(timedelta(seconds=31))
    store.recover(lost.job_id)
    held = running(store, "b", worker="w2")
    clock.advance(timedelta(seconds=5))
    expires_at = store.renew(held.fence).expires_at
    store.run_projections()

    second, first = store.workers().workers

    assert (second.worker, second.holding, first.worker, first.holding, first.lost) == ("w2", 1, "w1", 0, 1)
    assert [(each.job_id, each.expires_at) for each in second.held] == [(held.job_id, expires_at)]
    assert [(each.job_id, each.generation) for each in first.last_lost] == [(lost.job_id, 1)]
    assert [each.worker for each in store.workers(holding=True).workers] == ["w2"]
    assert [each.worker for each in store.workers(holding=False).workers] == ["w1"]
    assert store.workers(owner="nobody").workers == ()


def test_operators_tell_who_asked_what_and_why(store: JobStore, clock: WatchedClock) -> None:
    """The newest first; a stop that a worker reaches is not told again."""
    job = created(store, "a")
    store.hold(job, by="ann", reason="disk")
    clock.advance(SECOND)
    store.release_hold(job, by="bob", reason="mended")
    lease = store.claim(job, worker="w")
    clock.advance(SECOND)
    store.request_cancel(job, by="ann", reason="superseded")
    store.cancel(lease.fence)
    clock.advance(SECOND)
    store.advance_epoch("default", by="ops", reason="new release")
    store.run_projections()

    told = store.operators().actions

    assert [(each.by, each.asked, each.reason) for each in told] == [
        ("ops", "advance_epoch", "new release"),
        ("ann", "request_cancel", "superseded"),
        ("bob", "release_hold", "mended"),
        ("ann", "hold", "disk"),
    ]
    assert [each.asked for each in store.operators(by="ann").actions] == ["request_cancel", "hold"]
    page = store.operators(by="ann", limit=1)
    assert [each.asked for each in store.operators(by="ann", limit=1, cursor=page.next_cursor).actions] == ["hold"]


@pytest.mark.parametrize("name", ["totals", "workers", "operators"])
def test_pages_of_any_size_show_the_same(store: JobStore, name: str, clock: WatchedClock) -> None:
    """A walk with cursors sees each row once, in the same order."""
    for number in range(5):
        job = created(store, f"k{number}", kind=f"kind-{number}")
        store.claim(job, worker=f"w{number}")
        clock.advance(SECOND)
        store.hold(job, by="ann", reason=str(number))
    store.run_projections()
    ask: Any = getattr(store, name)
    rows = {"totals": "totals", "workers": "workers", "operators": "actions"}[name]
    whole = list(getattr(ask(), rows))

    walked: list[Any] = []
    cursor: str | None = None
    while True:
        page = ask(limit=2, cursor=cursor)
        walked += getattr(page, rows)
        cursor = page.next_cursor
        if cursor is None:
            break

    assert walked == whole
    assert len(walked) == 5


def test_a_cursor_goes_on_only_under_the_filters_with_which_it_began(store: JobStore) -> None:
    """Also where the text of one filter is that of another; and a refusal names the list that was asked."""
    for number in range(3):
        created(store, f"k{number}", kind=f"kind-{number}", queue="team")
    store.run_projections()
    cursor = store.totals(owner="team", limit=1).next_cursor

    others: tuple[dict[str, Any], ...] = (
        {},
        {"queue": "team"},
        {"owner": "team", "kind": "kind-1"},
        {"owner": "team", "queue": "team"},
    )
    for filters in others:
        with pytest.raises(UnknownCursorError, match="none of totals"):
            store.totals(**filters, cursor=cursor)
    for name in ("totals", "workers", "operators"):
        with pytest.raises(UnknownCursorError, match=f"none of {name}"):
            getattr(store, name)(cursor="x")
    assert len(store.totals(owner="team", limit=5, cursor=cursor).totals) == 2


def test_totals_add_up_to_the_states_of_the_status_rows(local_store: JobStore) -> None:
    """Also where a job is held, failed, parked or ended without ever running; the property test knows many more."""
    lease = running(local_store, "a", policy="fragile")
    local_store.fail_attempt(lease.fence, "boom")
    held = running(local_store, "b")
    local_store.hold(held.job_id, by="ann", reason="look")
    local_store.pause(held.fence)
    local_store.request_cancel(created(local_store, "c"), by="ann", reason="old")
    local_store.run_projections()

    require_totals_of_states(local_store)
    require_rebuilt_alike(local_store)


def test_a_fold_that_is_not_pure_is_found_out(local_store: JobStore) -> None:
    """The control of the property "rebuilt alike": one that remembers beside its rows is another one when rebuilt."""
    beside: list[int] = []

    def fold(rows: Rows, recorded: RecordedEvent) -> None:
        beside.append(recorded.sequence)
        rows.put(len(beside), "count")

    reported(local_store, 3)
    with known_too(counting(fold)), pytest.raises(AssertionError, match="counting"):
        require_rebuilt_alike(local_store, counting(fold))


def test_what_is_archived_stays_counted(local_store: JobStore, clock: WatchedClock) -> None:
    """Its events leave the log only when every projection has read them; who archived it is told."""
    lease = running(local_store, "a")
    local_store.run_projections()
    local_store.complete(lease.fence, outcome="partial", result=1)
    clock.advance(SECOND)

    assert (local_store.archive(older_than=0, by="ann").jobs, local_store.archive(older_than=0).waiting) == (0, 1)
    local_store.run_projections()
    assert local_store.archive(older_than=0, by="ann").jobs == 1
    local_store.run_projections()

    require_totals_of_states(local_store)
    assert [(each.by, each.asked) for each in local_store.operators().actions] == [("ann", "archive")]


def test_queues_are_among_what_operators_ask(local_store: JobStore) -> None:
    local_store.queues.hold("mail", by="ann", reason="the server is down")
    local_store.run_projections()

    [told] = local_store.operators().actions
    assert (told.by, told.asked, told.name, told.reason) == ("ann", "hold_queue", "mail", "the server is down")
