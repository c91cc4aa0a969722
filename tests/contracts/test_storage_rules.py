"""What the statements of a store must not leave to chance: order within a limit, other namespaces, empty stores."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from jobledger.adapters.storage import migrating, sqlite_pool
from jobledger.adapters.storage import sqlite as sqlite_module
from jobledger.adapters.storage.clocks import ManualClock
from jobledger.adapters.storage.memory import MemoryStorage
from jobledger.adapters.storage.migrating import Migration, migrations
from jobledger.adapters.storage.sqlite import SQLiteStorage
from jobledger.adapters.storage.sqlite_connecting import SQLiteLedgerConnection, connect
from jobledger.adapters.storage.status_row import status_row
from jobledger.domain.decisions.claiming import claimable
from jobledger.domain.errors import HistoryCorruptError, InvalidRequestError
from jobledger.domain.events import EpochAdvanced, HoldPlaced, HoldReleased, Paused, ProgressReported, UnitRecorded
from jobledger.domain.history import Cause, record
from jobledger.domain.lease import LeaseRow
from jobledger.domain.ports import (
    Append,
    GroupRow,
    Inherit,
    JobFilter,
    Loaded,
    ResourceRow,
    ResourceWrite,
    Storage,
    StoredBody,
    UnitRow,
)
from jobledger.domain.values import keep
from tests.storage.given import (
    LEASE,
    NAMESPACE,
    NOON,
    PATIENCE,
    advance_epoch,
    candidates,
    claim,
    claimed,
    created,
    following,
    loaded,
    progressed,
    written,
)

SECOND = timedelta(seconds=1)


def reversing(name: str) -> SQLiteLedgerConnection:
    """A connection on which every order that is not asked for is the wrong one."""
    connection = connect(name)
    connection.raw.execute("PRAGMA reverse_unordered_selects = ON")
    return connection


@pytest.fixture
def clock() -> ManualClock:
    """The store's time."""
    return ManualClock(NOON)


@pytest.fixture(params=["memory", "sqlite"])
def storage(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Storage]:
    """An empty store of each kind; SQLite answers in no helpful order."""
    if request.param == "memory":
        yield MemoryStorage(clock=clock)
        return
    monkeypatch.setattr(sqlite_pool, "connect", reversing)
    opened = SQLiteStorage(tmp_path / "jobs.db", clock=clock)
    opened.migrate()
    yield opened
    opened.close()


def dead(storage: Storage, after: str = "", limit: int = 100, namespace: str = NAMESPACE) -> list[str]:
    """Jobs whose lease is not live."""
    with storage.reading() as reader:
        return reader.dead(namespace, after=after, limit=limit)


# Order within a limit -------------------------------------------------------------------------------------------------


def test_the_best_of_a_lane_come_first_however_few_are_asked_for(storage: Storage) -> None:
    """Of one priority: earlier due, then earlier created; whoever asks for one gets the first."""
    written(
        storage,
        created("third", ready_at=NOON - SECOND),
        created("first", ready_at=NOON - 3 * SECOND),
        created("second", ready_at=NOON - 2 * SECOND),
        created("fourth", ready_at=NOON - SECOND),
    )
    order = ["first", "second", "third", "fourth"]

    for limit in (1, 2, 3, 4):
        assert candidates(storage, limit=limit) == order[:limit]
        assert candidates(storage, kinds=["k"], limit=limit) == order[:limit]


def test_the_best_of_dead_leases_come_first_however_few_are_asked_for(storage: Storage, clock: ManualClock) -> None:
    """Larger priority, then earlier due, then earlier created."""
    written(
        storage,
        created("fourth", ready_at=NOON - 2 * SECOND),
        created("first", priority=2),
        created("third", ready_at=NOON - 3 * SECOND),
        created("fifth", ready_at=NOON - 2 * SECOND),
        created("second", priority=1),
    )
    for job in ("first", "second", "third", "fourth", "fifth"):
        claim(storage, job)
    clock.advance(LEASE)
    order = ["first", "second", "third", "fourth", "fifth"]

    for limit in (1, 2, 3, 4, 5):
        assert candidates(storage, limit=limit) == order[:limit]


def test_pages_are_in_order_and_no_longer_than_asked_for(storage: Storage, clock: ManualClock) -> None:
    """Walks, lists, records, units and feeds: each page begins where the one before ended."""
    ids = ["b", "a", "d", "c"]
    written(storage, *(created(job, labels={"l": "v"}) for job in ids))
    for job in ids:
        row = claim(storage, job)
        written(storage, progressed(row))
    clock.advance(LEASE)

    with storage.reading() as reader:
        assert reader.job_ids(NAMESPACE, after="", limit=3) == ["a", "b", "c"]
        assert reader.job_ids(NAMESPACE, after="c", limit=3) == ["d"]
        for label in (None, ("l", "v"), ("l", None)):
            wanted = JobFilter(namespace=NAMESPACE, label=label)
            newest = [each.job.id for each in reader.jobs(wanted, before=None, limit=2)]
            assert newest == ["c", "d"]
            last = reader.jobs(wanted, before=None, limit=2)[-1].position
            assert [each.job.id for each in reader.jobs(wanted, before=last, limit=9)] == ["a", "b"]
        assert [stored.sequence for stored in reader.records("a", limit=2)] == [1, 2]
        found, upto = reader.feed(NAMESPACE, after=0, limit=3, topics=[], owner=None)
        assert [each.position for each in found] == [1, 2, 3]
        assert upto == 3
        assert [each.position for each in reader.feed(NAMESPACE, after=3, limit=9, topics=[], owner="o")[0]] == [
            *range(4, 13)
        ]
        assert reader.count(JobFilter(namespace=NAMESPACE), 3) == 3
        assert reader.count(JobFilter(namespace=NAMESPACE), 9) == 4
    assert dead(storage, limit=3) == ["a", "b", "c"]
    assert dead(storage, after="c") == ["d"]


def test_what_one_command_left_is_in_its_order(storage: Storage) -> None:
    """A repeated command is answered from its facts, first to last."""
    written(storage, created("j"))
    facts = (HoldPlaced(at=NOON, by="o", reason="r"), HoldReleased(at=NOON, by="o", reason="r"))
    written(storage, following(loaded(storage), *facts, cause=Cause(id="c", name="n", arguments="a")))

    with storage.reading() as reader:
        assert [stored.sequence for stored in reader.caused("j", "c")] == [2, 3]


# Other namespaces -----------------------------------------------------------------------------------------------------


def advance_elsewhere(storage: Storage, group: str) -> None:
    """Move a group of the same name on in another namespace."""
    fact = EpochAdvanced(at=NOON, epoch=2, by="op", reason="deploy")
    stored = record(f"group:elsewhere:{group}", 1, fact, previous="", cause=None)
    with storage.writing(PATIENCE) as session:
        assert session.append_group("elsewhere", group, GroupRow(), GroupRow(2, 1, stored.digest), stored)


def test_a_group_of_another_namespace_fences_nobody_off(storage: Storage) -> None:
    """Nor does another group of this one: the lease stays live, and nobody may take it over."""
    written(storage, created("j"))
    claim(storage)
    advance_elsewhere(storage, "g")
    advance_epoch(storage, "another")

    assert loaded(storage).epoch == 1
    assert dead(storage) == candidates(storage) == []


def test_a_group_that_moved_on_fences_its_own_off(storage: Storage) -> None:
    """The control: in its own namespace the same step does."""
    written(storage, created("j"))
    claim(storage)
    advance_epoch(storage)

    assert loaded(storage).epoch == 2
    assert dead(storage) == candidates(storage) == ["j"]


def test_each_namespace_finds_its_own_jobs(storage: Storage, clock: ManualClock) -> None:
    """Whatever is asked: jobs, counts, feeds, leases and labels of another namespace are not there."""
    written(storage, created("mine", labels={"l": "v"}), created("theirs", namespace="elsewhere", labels={"l": "v"}))
    for job in ("mine", "theirs"):
        assert written(storage, claimed(loaded(storage, job))) == [None]
    clock.advance(LEASE)

    assert dead(storage) == ["mine"]
    assert dead(storage, namespace="elsewhere") == ["theirs"]
    with storage.reading() as reader:
        for label in (None, ("l", "v"), ("l", None)):
            found = reader.jobs(JobFilter(namespace=NAMESPACE, label=label), before=None, limit=9)
            assert [each.job.id for each in found] == ["mine"]
        feed, _ = reader.feed(NAMESPACE, after=0, limit=9, topics=[], owner=None)
        assert {each.record.stream for each in feed} == {"mine"}
        assert reader.job_ids(NAMESPACE, after="", limit=9) == ["mine"]


def test_what_has_the_same_name_elsewhere_is_something_else(storage: Storage) -> None:
    """A unit belongs to its job, and a resource to its namespace and owner."""
    written(storage, created("j"), created("other"), created("far", namespace="elsewhere"))
    for job, value in (("other", 2), ("far", 3)):
        row = claim(storage, job)
        receipt = keep("receipt", value).body
        fact = UnitRecorded(at=NOON, generation=1, unit="u", receipt=receipt, expires_at=NOON + LEASE)
        append = following(
            row,
            fact,
            lease=row.lease,
            unit=UnitRow("u", receipt, 1, 3),
            effects=(ResourceWrite("r", 0, b"1", 1), ResourceWrite(job, 0, b"1", 1)),
        )
        assert written(storage, append) == [None]

    with storage.reading() as reader:
        assert reader.unit("j", "u") is None
        assert [unit.receipt.value for job in ("other", "far") if (unit := reader.unit(job, "u"))] == [2, 3]
        assert reader.versions(NAMESPACE, "o", ["r", "far", "unknown"]) == {"r": 1}
        assert reader.versions("elsewhere", "o", ["r", "other"]) == {"r": 1}


def test_work_that_was_given_back_is_found_when_its_time_comes(storage: Storage, clock: ManualClock) -> None:
    written(storage, created("j"))
    row = claim(storage)
    later = Paused(at=NOON, generation=1, cause="deferred", ready_at=NOON + 2 * SECOND)
    written(storage, following(row, later))

    assert candidates(storage) == []
    clock.advance(2 * SECOND)
    assert candidates(storage) == ["j"]


# Nothing there --------------------------------------------------------------------------------------------------------


def test_a_cursor_of_an_empty_store_misses_nothing(storage: Storage) -> None:
    with storage.reading() as reader:
        found, upto = reader.feed(NAMESPACE, after=0, limit=9, topics=[], owner=None)
    assert (found, upto) == ([], 0)

    written(storage, created("j"))

    with storage.reading() as reader:
        assert [each.position for each in reader.feed(NAMESPACE, after=upto, limit=9, topics=[], owner=None)[0]] == [1]


def test_a_job_without_an_attempt_has_no_lease_and_no_epoch(storage: Storage) -> None:
    written(storage, created("j"))

    assert (loaded(storage).lease, loaded(storage).epoch) == (None, 0)
    assert claim(storage).lease == LeaseRow(1, NOON + LEASE)
    assert loaded(storage).epoch == 1


def test_a_file_of_somebody_else_is_not_taken_for_ours(tmp_path: Path, clock: ManualClock) -> None:
    """Neither for an empty one, nor for one of ours by a name that it happens to have."""
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path)) as theirs, theirs:
        theirs.execute("CREATE TABLE other (x)")
        theirs.execute("CREATE INDEX schema_version ON other (x)")
    storage = SQLiteStorage(path, clock=clock)

    with pytest.raises(InvalidRequestError):
        storage.schema_version()
    storage.close()


def test_a_submission_whose_job_is_gone_is_named(tmp_path: Path, clock: ManualClock) -> None:
    """Neither is it answered, nor does it count as free."""
    storage = SQLiteStorage(tmp_path / "jobs.db", clock=clock)
    storage.migrate()
    written(storage, created("j", submission="s"), created("other"))
    with storage.reading() as reader:
        assert reader.submitted(NAMESPACE, "o", "s") == "j"
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as theirs, theirs:
        theirs.execute("DELETE FROM job_status WHERE job_id = 'j'")

    with storage.reading() as reader, pytest.raises(HistoryCorruptError):
        reader.submitted(NAMESPACE, "o", "s")
    storage.close()


def test_every_column_of_a_status_row_follows_the_job(tmp_path: Path, clock: ManualClock) -> None:
    """After a report, which touches no index, as after anything else."""
    storage = SQLiteStorage(tmp_path / "jobs.db", clock=clock)
    storage.migrate()
    written(storage, created("j"))

    def columns() -> dict[str, object]:
        with closing(sqlite3.connect(tmp_path / "jobs.db")) as theirs:
            theirs.row_factory = sqlite3.Row
            return dict(theirs.execute("SELECT * FROM job_status").fetchone())

    for append in (lambda row: claimed(row, at=NOON + SECOND), _reported, _deferred):
        assert written(storage, append(loaded(storage))) == [None]
        row = loaded(storage)
        beside = {"position": row.position, "share": None}  # its queue is not divided
        assert columns() == status_row(row.job, claimable(row.job), row.head) | beside
    storage.close()


def test_a_rebuilt_row_is_right_in_every_column(tmp_path: Path, clock: ManualClock) -> None:
    """Whatever somebody wrote into it, and into no other."""
    storage = SQLiteStorage(tmp_path / "jobs.db", clock=clock)
    storage.migrate()
    written(storage, created("j", key="k", queue="q", priority=3), created("other"))

    def rows() -> list[dict[str, object]]:
        with closing(sqlite3.connect(tmp_path / "jobs.db")) as theirs:
            theirs.row_factory = sqlite3.Row
            return [dict(row) for row in theirs.execute("SELECT * FROM job_status ORDER BY position")]

    right, row = rows(), loaded(storage)
    # A share counts only where a row is claimable by it, which no rebuilt one is: it is assigned anew.
    wrong = [column for column in right[0] if column not in ("position", "job_id", "sequence", "job", "share")]
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as theirs, theirs:
        for column in wrong:
            theirs.execute(f"UPDATE job_status SET {column} = 7 WHERE job_id = 'j'")  # noqa: S608  # our own columns
    with storage.writing(PATIENCE) as session:
        session.rewrite(row.job, claimable(row.job), row.head, [])

    assert rows() == right
    storage.close()


def test_open_attempts_without_a_lease_row_are_found_for_recovery(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In their order among the others whose lease is not live, and in their namespace only."""
    monkeypatch.setattr(sqlite_pool, "connect", reversing)
    storage = SQLiteStorage(tmp_path / "jobs.db", clock=clock)
    storage.migrate()
    ids = ["c", "a", "d", "b", "e"]
    written(storage, *(created(job) for job in ids), created("far", namespace="elsewhere"), created("queued"))
    for job in [*ids, "far"]:
        claim(storage, job)
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as theirs, theirs:
        theirs.execute("DELETE FROM job_lease WHERE job_id IN ('a', 'b', 'c', 'far')")

    assert dead(storage) == ["a", "b", "c"]
    assert dead(storage, limit=1) == ["a"]
    assert dead(storage, limit=2) == ["a", "b"]
    assert dead(storage, after="a", limit=1) == ["b"]
    assert dead(storage, after="c") == []
    assert dead(storage, namespace="elsewhere") == ["far"]
    clock.advance(LEASE)
    assert dead(storage, limit=4) == ["a", "b", "c", "d"]
    storage.close()


def test_a_state_that_nobody_knows_is_named_with_its_job(tmp_path: Path, clock: ManualClock) -> None:
    storage = SQLiteStorage(tmp_path / "jobs.db", clock=clock)
    storage.migrate()
    written(storage, created("far", namespace="elsewhere"), created("fine"), created("lost"), created("lost, too"))
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as theirs, theirs:
        theirs.execute("UPDATE job_status SET state = 'lost' WHERE job_id <> 'fine'")

    with storage.reading() as reader, pytest.raises(HistoryCorruptError) as found:
        reader.counts(NAMESPACE, None, None)

    assert found.value.job_id in {"lost", "lost, too"}
    storage.close()


def test_a_store_knows_how_far_it_was_written(tmp_path: Path, clock: ManualClock) -> None:
    """Also by another process: that is how those who wait for news are woken."""
    storage, another = (SQLiteStorage(tmp_path / "jobs.db", clock=clock) for _ in range(2))
    storage.migrate()
    assert storage.datastore.last_position() == 0

    written(another, created("j"), created("k"), created("l"))

    assert storage.datastore.last_position() == 3
    storage.close()
    another.close()


def test_steps_that_were_applied_are_not_applied_again(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = migrations("sqlite")
    second = Migration(len(first) + 1, "9999_more", "CREATE TABLE more (x);\n")
    monkeypatch.setattr(migrating, "migrations", lambda _: (*first, second))
    monkeypatch.setattr(sqlite_module, "SCHEMA_VERSION", len(first) + 1)
    storage = SQLiteStorage(tmp_path / "jobs.db", clock=clock)

    assert storage.migrate() == len(first) + 1
    assert storage.migrate() == 0
    storage.close()


def test_a_body_is_dropped_by_its_digest(storage: Storage) -> None:
    """The other states that are kept stay, and so do those of other jobs."""
    kept = [keep("state", letter * 5_000) for letter in "ab"]
    bodies = tuple(
        StoredBody(each.body.digest, each.aside, is_checkpoint=True) for each in kept if each.aside is not None
    )
    written(storage, created("j", bodies=bodies), created("k", bodies=bodies))
    first, second = (body.digest for body in bodies)
    written(storage, following(loaded(storage), HoldPlaced(at=NOON, by="o", reason="r"), dropped=(first,)))

    with storage.reading() as reader:
        assert reader.body("j", first) is None
        assert [reader.body(*of) is not None for of in (("j", second), ("k", first), ("k", second))] == [True] * 3


def _reported(row: Loaded) -> Append:
    fact = ProgressReported(at=NOON + 2 * SECOND, generation=1, done=1, expires_at=NOON + LEASE)
    return following(row, fact, lease=row.lease)


def _deferred(row: Loaded) -> Append:
    return following(row, Paused(at=NOON + 3 * SECOND, generation=1, cause="deferred", ready_at=NOON + LEASE))


# Rows -----------------------------------------------------------------------------------------------------------------


def test_a_row_that_is_written_again_is_written_whole(storage: Storage, clock: ManualClock) -> None:
    """Every column of a lease, a status and a group follows its last writing."""
    written(storage, created("j"))
    claim(storage, group="other", epoch=1)
    clock.advance(LEASE)
    advance_epoch(storage)
    row = loaded(storage)
    later = claimed(row, at=NOON + LEASE, group="g", epoch=2)
    assert written(storage, later) == [None]

    after = loaded(storage)

    assert (after.lease, after.epoch) == (LeaseRow(2, NOON + 2 * LEASE), 2)
    assert after.head == later.head
    assert dead(storage) == []
    advance_epoch(storage)
    assert dead(storage) == ["j"]


def _proved(storage: Storage, job: str, unit: str, text: str) -> str:
    """A job's unit with a large receipt; answers the digest of its bytes."""
    kept = keep("receipt", text * 5_000)
    assert kept.aside is not None
    row = loaded(storage, job)
    fact = UnitRecorded(at=NOON, generation=1, unit=unit, receipt=kept.body, expires_at=NOON + LEASE)
    append = following(
        row,
        fact,
        lease=row.lease,
        unit=UnitRow(unit, kept.body, 1, row.job.sequence + 1),
        bodies=(StoredBody(kept.body.digest, kept.aside, is_checkpoint=False),),
    )
    assert written(storage, append) == [None]
    return kept.body.digest


def test_what_is_inherited_is_the_sources_and_once(storage: Storage) -> None:
    """Receipts of the same large value share their bytes; those of a bystander are not taken along."""
    written(storage, created("source"), created("bystander"))
    for job in ("source", "bystander"):
        claim(storage, job)
    [shared] = {_proved(storage, "source", unit, "r") for unit in ("u1", "u2")}
    strange = _proved(storage, "bystander", "u3", "s")

    with storage.reading() as reader:
        own = reader.body("source", shared)
    assert own is not None
    bodies = (StoredBody(shared, own, is_checkpoint=False),)  # its payload has the same bytes
    heir = replace(created("heir"), inherit=Inherit("source", 9), bodies=bodies)
    assert written(storage, heir) == [None]

    with storage.reading() as reader:
        assert [unit.unit for unit in reader.units("heir", after=None, limit=9)] == ["u1", "u2"]
        assert reader.body("heir", shared) == own
        assert reader.body("heir", strange) is None


def test_a_resource_names_who_wrote_it_last(storage: Storage) -> None:
    written(storage, created("j"), created("k"))
    for version, job in enumerate(("j", "k")):
        row = claim(storage, job)
        effect = ResourceWrite("r", version, b"%d" % version, row.job.generation)
        assert written(storage, progressed(row, effects=(effect,))) == [None]

    with storage.reading() as reader:
        assert reader.resource(NAMESPACE, "o", "r") == ResourceRow("r", b"1", 2, "k", 1)


def test_a_group_stands_where_its_last_event_left_it(storage: Storage) -> None:
    for _ in range(3):
        advance_epoch(storage)

    with storage.reading() as reader:
        row = reader.group(NAMESPACE, "g")
        last = reader.records(f"group:{NAMESPACE}:g", limit=9)[-1]
    assert row == GroupRow(4, 3, last.digest)


def test_a_rebuilt_row_leaves_its_neighbours_kept_states_alone(storage: Storage) -> None:
    for job in ("j", "k"):
        append = created(job)
        written(storage, replace(append, snapshots=(append.job,)))
    row = loaded(storage, "j")

    with storage.writing(PATIENCE) as session:
        session.rewrite(row.job, claimable(row.job), row.head, [])

    with storage.reading() as reader:
        assert reader.snapshot("j", 9) is None
        assert reader.snapshot("k", 9) == loaded(storage, "k").job
