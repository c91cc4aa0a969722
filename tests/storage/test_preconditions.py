"""Every precondition of an append, failing alone: it is named, and nothing of the append is left behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from eventsourcing.persistence import StoredEvent

from jobledger.adapters.storage.clocks import ManualClock
from jobledger.adapters.storage.memory import MemoryStorage
from jobledger.adapters.storage.postgresql import PostgreSQLStorage
from jobledger.adapters.storage.sqlite import SQLiteStorage
from jobledger.domain.ports import (
    Append,
    Guard,
    JobFilter,
    ResourceWrite,
    Storage,
    StoredBody,
    UnitRow,
)
from tests.storage.given import (
    LEASE,
    NAMESPACE,
    NOON,
    advance_epoch,
    body,
    claim,
    created,
    following,
    loaded,
    progressed,
    written,
)

Store = MemoryStorage | PostgreSQLStorage | SQLiteStorage
TICK = timedelta(microseconds=1)


def full(append: Append) -> Append:
    """The same append with one of everything that an append may leave behind."""
    return replace(
        append,
        unit=UnitRow("unit", body("receipt"), 1, append.job.sequence),
        effects=(ResourceWrite("resource", 0, b"1", 1),),
        bodies=(StoredBody("digest", b"bytes", is_checkpoint=True),),
        snapshots=(append.job,),
    )


def everything(storage: Storage, job_id: str = "j") -> dict[str, Any]:
    """All that can be read about a job and what hangs on it."""
    with storage.reading() as reader:
        return {
            "loaded": reader.load([job_id]),
            "records": reader.records(job_id, limit=100),
            "units": reader.units(job_id, after=None, limit=100),
            "body": reader.body(job_id, "digest"),
            "snapshot": reader.snapshot(job_id, 100),
            "resource": reader.resource(NAMESPACE, "o", "resource"),
            "submitted": reader.submitted(NAMESPACE, "o", "s"),
            "feed": reader.feed(NAMESPACE, after=0, limit=100, topics=[], owner=None)[0],
            "labelled": reader.jobs(JobFilter(namespace=NAMESPACE, label=("l", None)), before=None, limit=100),
        }


# What has to be false for each precondition to fail, and nothing else: a guard, and what happens before the append.
Before = Callable[[Store, ManualClock], object]


def nothing(*_: object) -> None:
    """The guard fails as it is."""


FAILING: dict[str, tuple[str, Guard, Before]] = {
    "a newer event": ("sequence", Guard(sequence=1), nothing),
    "an event too many": ("sequence", Guard(sequence=3), nothing),
    "a job that exists": ("sequence", Guard(sequence=0), nothing),
    "another generation": ("live_generation", Guard(sequence=2, live_generation=2), nothing),
    "an expired lease": (
        "live_generation",
        Guard(sequence=2, live_generation=1),
        lambda _, clock: clock.advance(LEASE),
    ),
    "an expiry that was renewed": ("seen_expiry", Guard(sequence=2, seen_expiry=NOON + LEASE - TICK), nothing),
    "an epoch that advanced": (
        "epochs",
        Guard(sequence=2, epochs=(("g", 1),)),
        lambda storage, _: advance_epoch(storage),
    ),
    "an epoch that never came": ("epochs", Guard(sequence=2, epochs=(("other", 2),)), nothing),
    "an older step": ("step", Guard(sequence=2, step=4), nothing),
    "the same step": ("step", Guard(sequence=2, step=5), nothing),
}

# The same guards where they hold: without these, a store that refuses everything would pass.
HOLDING: dict[str, Guard] = {
    "nothing but the sequence": Guard(sequence=2),
    "the open generation": Guard(sequence=2, live_generation=1),
    "the expiry that stands": Guard(sequence=2, seen_expiry=NOON + LEASE),
    "the epoch that stands": Guard(sequence=2, epochs=(("g", 1), ("other", 1))),
    "a newer step": Guard(sequence=2, step=6),
    "all of them": Guard(sequence=2, live_generation=1, seen_expiry=NOON + LEASE, epochs=(("g", 1),), step=6),
}


@pytest.fixture
def running(storage: Store) -> Store:
    """A job at sequence 2, running in generation 1 of group ``g``, with step 5 accepted."""
    written(storage, created())
    current = claim(storage)
    assert current.lease is not None
    written(storage, following(current, lease=replace(current.lease, step=5)))
    return storage


@pytest.mark.parametrize("case", FAILING)
def test_a_precondition_that_fails_leaves_nothing(running: Store, clock: ManualClock, case: str) -> None:
    """The append is answered by the precondition's name, and the store is as it was."""
    name, guard, happens_before = FAILING[case]
    append = full(progressed(loaded(running), guard=guard))
    happens_before(running, clock)
    before = everything(running)

    assert written(running, append) == [name]

    assert everything(running) == before


@pytest.mark.parametrize("case", HOLDING)
def test_an_append_whose_preconditions_hold_is_written_whole(running: Store, case: str) -> None:
    append = full(progressed(loaded(running), guard=HOLDING[case]))

    assert written(running, append) == [None]

    found = everything(running)
    assert found["loaded"]["j"].job == append.job
    assert found["loaded"]["j"].head == append.head
    assert tuple(found["records"][2:]) == append.records
    assert found["units"] == [append.unit]
    assert found["body"] == b"bytes"
    assert found["snapshot"] == append.job
    assert (found["resource"].version, found["resource"].value, found["resource"].job_id) == (1, b"1", "j")


def test_a_lease_that_is_not_there_fails_what_asks_for_it(storage: Store) -> None:
    """No attempt is open, so no generation is live, no expiry was seen and no step follows another."""
    written(storage, created())
    current = loaded(storage)
    asking = {
        "live_generation": Guard(sequence=1, live_generation=1),
        "seen_expiry": Guard(sequence=1, seen_expiry=NOON),
        "step": Guard(sequence=1, step=1),
    }
    for name, guard in asking.items():
        assert written(storage, following(current, guard=guard)) == [name]


def test_a_lease_is_live_until_the_instant_of_its_expiry(running: Store, clock: ManualClock) -> None:
    guard = Guard(sequence=2, live_generation=1)
    clock.advance(LEASE - TICK)
    assert written(running, progressed(loaded(running), guard=guard)) == [None]

    clock.advance(TICK)
    assert written(running, progressed(loaded(running), guard=replace(guard, sequence=3))) == ["live_generation"]


def test_a_clock_that_was_set_back_revives_no_lease(running: Store, clock: ManualClock) -> None:
    """Time never decreases within a job: what was recorded at an instant is judged no earlier."""
    late = replace(progressed(loaded(running)), guard=Guard(sequence=2, live_generation=1))
    late = replace(late, job=replace(late.job, updated_at=NOON + LEASE))
    clock.step(-timedelta(hours=1))

    assert written(running, late) == ["live_generation"]


@pytest.mark.parametrize(("there", "expected"), [(None, 1), ("one", 0), ("one", 2)])
def test_an_effect_is_compared_with_the_version_that_stands(running: Store, there: str | None, expected: int) -> None:
    """Version 0 is a resource that is absent; two effects are both compared before either is written."""
    if there:
        written(running, created("other", owner="o", effects=(ResourceWrite("one", 0, b"0", 1),)))
    effects = (ResourceWrite("two", 0, b"2", 1), ResourceWrite("one", expected, b"1", 1))
    before = everything(running)

    assert written(running, progressed(loaded(running), effects=effects)) == ["effects"]

    assert everything(running) == before
    with running.reading() as reader:
        assert reader.versions(NAMESPACE, "o", ["one", "two"]) == ({"one": 1} if there else {})


def test_a_submission_id_makes_one_job_for_each_owner(storage: Store) -> None:
    assert written(storage, created("first", submission="s")) == [None]
    before = everything(storage, "second")

    assert written(storage, created("second", submission="s", labels={"l": "v"})) == ["submission"]

    assert everything(storage, "second") == before
    assert written(storage, created("third", submission="s", owner="another")) == [None]
    with storage.reading() as reader:
        assert reader.submitted(NAMESPACE, "o", "s") == "first"
        assert reader.submitted(NAMESPACE, "another", "s") == "third"
        assert reader.submitted("elsewhere", "o", "s") is None


def test_a_unit_is_recorded_once(running: Store) -> None:
    first = progressed(loaded(running), unit=UnitRow("u", body(1), 1, 3))
    assert written(running, first) == [None]

    assert written(running, progressed(loaded(running), unit=UnitRow("u", body(2), 1, 4))) == ["unit"]

    with running.reading() as reader:
        assert reader.unit("j", "u") == first.unit


def test_a_record_that_stands_where_none_should_stops_its_job_only(storage: Store) -> None:
    """The log knows an event that the status row does not: the append fails, and its neighbours are written."""
    storage.recorder.insert_events([StoredEvent("j", 1, "job.created", b"{}")])

    assert written(storage, created("before"), created("j"), created("after")) == [None, "records", None]

    with storage.reading() as reader:
        assert set(reader.load(["before", "j", "after"])) == {"before", "after"}
