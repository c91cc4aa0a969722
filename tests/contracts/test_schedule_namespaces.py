"""Schedules of one name in several namespaces are several schedules, in every list, row and kept state."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobledger import JobStore, ManualClock
from jobledger.adapters.storage.entropy import SystemEntropy
from jobledger.domain.store import Setting
from tests.contracts.jobs import refuses
from tests.contracts.schedules import WHY, fired, jobs_of, put, skipped

MINUTE = timedelta(minutes=1)


@pytest.fixture(params=["a-other", "z-other"])
def stores(request: pytest.FixtureRequest, local_store: JobStore) -> tuple[JobStore, JobStore]:
    """A store, and the same tables under a namespace that comes before or after its own."""
    storage = local_store._setting.storage  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # the same tables
    return local_store, JobStore(Setting(storage, SystemEntropy(), request.param))


def test_each_namespace_fires_its_own_schedules(stores: tuple[JobStore, JobStore], clock: ManualClock) -> None:
    one, other = stores
    put(one, "s", every=60, overlap="allow")
    put(other, "s", every=120, overlap="allow")
    put(other, "t", every=60, overlap="allow")
    begun = clock.now()
    assert one.schedules.next_due()[0] == other.schedules.next_due()[0] == begun + MINUTE

    clock.advance(2 * MINUTE)
    report = one.schedules.fire_due()
    assert (report.fired, report.schedules) == (2, 1)
    assert (fired(one), fired(other)) == ([begun + MINUTE, begun + 2 * MINUTE], [])
    assert one.schedules.next_due()[0] == begun + 3 * MINUTE

    assert other.schedules.fire_due().schedules == 2
    assert (fired(other, "s"), len(fired(other, "t"))) == ([begun + 2 * MINUTE], 2)
    assert (len(jobs_of(one)), len(jobs_of(other))) == (2, 1)
    assert not {job.job_id for job in jobs_of(one)} & {job.job_id for job in jobs_of(other)}


def test_each_namespace_lists_and_changes_its_own_schedules(
    stores: tuple[JobStore, JobStore], clock: ManualClock
) -> None:
    one, other = stores
    put(one, "s", every=60)
    put(other, "s", every=90)
    put(other, "t")

    one.schedules.hold("s", **WHY)
    assert (one.schedules.get("s").hold is None, other.schedules.get("s").hold is None) == (False, True)
    one.schedules.remove("s", **WHY)

    assert [each.name for each in one.schedules.list().schedules] == []
    assert [each.name for each in other.schedules.list().schedules] == ["s", "t"]
    assert other.schedules.get("s").every == timedelta(seconds=90)
    refuses("unknown_schedule", one.schedules.hold, "t", **WHY)
    clock.advance(5 * MINUTE)
    assert (one.schedules.fire_due().fired, one.schedules.next_due()[0]) == (0, None)


def test_each_namespace_keeps_its_own_past(stores: tuple[JobStore, JobStore], clock: ManualClock) -> None:
    """Time travel starts from states that are kept at each hundredth event; a rebuild drops none but its own."""
    one, other = stores
    put(one, "s", every=60, priority=1)
    put(other, "s", every=60, priority=2)
    for number in range(60):
        for store in stores:
            store.schedules.hold("s", by="ann", reason=str(number))
        clock.advance(MINUTE)
        for store in stores:
            store.schedules.release("s", by="ann", reason=str(number))
    for store, priority in ((one, 1), (other, 2)):
        last = store.schedules.get("s").sequence
        assert last > 150
        for sequence in (1, 99, 100, 101, last):
            told = store.schedules.get("s", at=sequence)
            assert (told.sequence, told.priority) == (sequence, priority)
    assert skipped(one) == skipped(other)

    one.schedules.rebuild()

    assert all(each.ok for store in stores for each in store.verify_all())


def test_what_is_rewritten_is_one_schedule(stores: tuple[JobStore, JobStore]) -> None:
    """Its own kept states go, and nobody else's; names come in order, as many as were asked for."""
    one, other = stores
    for store, name in ((one, "s"), (one, "r"), (other, "s")):
        put(store, name)
        for number in range(50):
            store.schedules.hold(name, by="ann", reason=str(number))
            store.schedules.release(name, by="ann", reason=str(number))
    storage = one._setting.storage  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # what a rebuild asks for
    with storage.writing(MINUTE) as session:
        loaded = session.schedules("default", ["s"])["s"]
        session.rewrite_schedule(loaded.state, loaded.head, [])

    with storage.reading() as reader:
        kept = {
            (namespace, name): reader.schedule_snapshot(namespace, name, 200)
            for namespace, name in (("default", "s"), ("default", "r"), (other.namespace, "s"))
        }
        names = [reader.schedule_names("default", after="", limit=size, with_removed=True) for size in (1, 2, 9)]
    assert {key: state and state.sequence for key, state in kept.items()} == {
        ("default", "s"): None,
        ("default", "r"): 100,
        (other.namespace, "s"): 100,
    }
    assert names == [["r"], ["r", "s"], ["r", "s"]]


def test_what_is_due_is_taken_by_time_and_name(local_store: JobStore, clock: ManualClock) -> None:
    """In pages as in one piece, however few are asked for; what comes next is told from behind any moment."""
    for name, every in (("b", 60), ("a", 120), ("c", 60), ("d", 600)):
        put(local_store, name, every=every)
    begun = clock.now()
    clock.advance(2 * MINUTE)
    first, second = begun + MINUTE, begun + 2 * MINUTE
    expected = [(first, "b"), (first, "c"), (second, "a")]

    with local_store._setting.storage.reading() as reader:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # a view
        for size in (1, 2, 3, 9):
            assert [tuple(due) for due in reader.due_schedules("default", after=None, limit=size)] == expected[:size]
            for place, due in enumerate(reader.due_schedules("default", after=None, limit=9), start=1):
                rest = reader.due_schedules("default", after=due, limit=size)
                assert [tuple(each) for each in rest] == expected[place:][:size]
        moments = [begun, first, second, begun + 10 * MINUTE]
        assert [reader.next_due("default", after=moment) for moment in moments] == [first, second, moments[3], None]
