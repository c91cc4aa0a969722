"""What every store answers about one job: its rows, its records, its kept states, its receipts and its bodies."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from jobledger.adapters.storage.clocks import ManualClock
from jobledger.domain.events import Checkpointed, Interrupted
from jobledger.domain.history import Cause
from jobledger.domain.job import State, evolve
from jobledger.domain.lease import LeaseRow
from jobledger.domain.ports import GroupRow, Inherit, JobFilter, Loaded, ResourceRow, ResourceWrite, StoredBody, UnitRow
from tests.storage.given import (
    LEASE,
    NAMESPACE,
    NOON,
    PATIENCE,
    advance_epoch,
    body,
    claim,
    claimed,
    created,
    following,
    loaded,
    progressed,
    renewed,
    written,
)
from tests.storage.test_preconditions import Store, everything

LONG = "x" * 5000


def test_a_job_is_read_back_as_it_was_written(storage: Store) -> None:
    """State, head and place; a field at its default and a number that looks like another one stay what they are."""
    append = created(
        payload=body({"one": 1, "one point": 1.0, "true": True, "zero": -0.0, "text": "ä\U0001f600"}),
        labels={"l": "v"},
        policy_changes={"checkpoints_keep": 2},
        controls=("pause",),
        submission="s",
    )
    written(storage, append)

    found = loaded(storage)

    assert found == Loaded(job=append.job, head=append.head, lease=None, epoch=0, position=1)
    assert repr(found.job.payload) == repr(append.job.payload)


def test_unknown_jobs_are_missing_from_what_is_loaded(storage: Store) -> None:
    written(storage, created("a"), created("b"))

    with storage.reading() as reader:
        assert set(reader.load(["b", "nobody", "a", "b"])) == {"a", "b"}
        assert reader.load([]) == {}


def test_an_open_attempt_is_loaded_with_its_lease_and_its_groups_epoch(storage: Store) -> None:
    written(storage, created())
    running = claim(storage)
    assert (running.lease, running.epoch) == (LeaseRow(1, NOON + LEASE, 0), 1)

    advance_epoch(storage)
    advance_epoch(storage, "another group")

    assert loaded(storage).epoch == 2


def test_what_is_handed_out_is_nobodys_to_change(storage: Store) -> None:
    """Changing a value that was read, or that was written, changes nothing in the store."""
    append = created(payload=body({"list": [1]}))
    written(storage, append)
    append.job.payload.value["list"].append(2)
    loaded(storage).job.payload.value["list"].append(3)

    assert loaded(storage).job.payload.value == {"list": [1]}


def test_a_renewal_moves_the_lease_row_and_nothing_else(storage: Store) -> None:
    written(storage, created())
    running = claim(storage)
    before = everything(storage)

    assert written(storage, renewed(running, NOON + 2 * LEASE)) == [None]

    after = everything(storage)
    assert after.pop("loaded")["j"] == replace(running, lease=LeaseRow(1, NOON + 2 * LEASE, 0))
    before.pop("loaded")
    assert after == before


def test_an_attempt_that_ended_leaves_no_lease(storage: Store) -> None:
    written(storage, created())
    running = claim(storage)
    ended = Interrupted(at=NOON + LEASE, generation=1, expires_at=NOON + LEASE, cause="lease_expired")

    written(storage, following(running, ended))

    assert loaded(storage).lease is None
    assert loaded(storage).job.state is State.PAUSED


def test_records_are_read_in_order_within_their_bounds(storage: Store) -> None:
    written(storage, created(), created("other"))
    claim(storage)
    for _ in range(3):
        written(storage, progressed(loaded(storage)))

    with storage.reading() as reader:
        all_records = reader.records("j", limit=100)
        assert [record.sequence for record in all_records] == [1, 2, 3, 4, 5]
        assert all_records[-1].digest == loaded(storage).head
        assert reader.records("j", after=1, upto=4, limit=2) == all_records[1:3]
        assert reader.records("j", after=1, upto=4, limit=100) == all_records[1:4]
        assert reader.records("j", after=5, limit=100) == []
        assert reader.records("nobody", limit=100) == []


def test_the_records_that_a_command_caused_are_found_by_its_id(storage: Store) -> None:
    cause = Cause("c1", "create", "digest")
    written(storage, created(cause=cause), created("other", cause=cause))
    claim(storage)

    with storage.reading() as reader:
        assert [(found.stream, found.sequence) for found in reader.caused("j", "c1")] == [("j", 1)]
        assert reader.caused("j", "c2") == []


def test_a_session_reads_what_it_has_written(storage: Store) -> None:
    """The rows, the records and the places of its own appends, before anybody else sees them."""
    with storage.writing(PATIENCE) as session:
        session.append([created("a", cause=Cause("c", "create", "d")), created("b")])
        found = session.load(["a", "b"])

        assert [found["a"].position, found["b"].position] == [1, 2]
        assert [record.sequence for record in session.records("a", limit=10)] == [1]
        assert [record.stream for record in session.caused("a", "c")] == ["a"]
        assert [each.position for each in session.feed(NAMESPACE, after=0, limit=9, topics=[], owner=None)[0]] == [1, 2]
        assert session.append([claimed(found["a"])]) == [None]
        assert session.load(["a"])["a"].job.sequence == 2


def test_the_nearest_kept_state_is_found(storage: Store) -> None:
    first = created()
    written(storage, replace(first, snapshots=(first.job,)))
    running = claim(storage)
    later = progressed(running)
    written(storage, replace(later, snapshots=(later.job,)))

    with storage.reading() as reader:
        assert reader.snapshot("j", 0) is None
        assert reader.snapshot("j", 2) == first.job
        assert reader.snapshot("j", 3) == reader.snapshot("j", 99) == later.job
        assert reader.snapshot("nobody", 99) is None


# Bodies ---------------------------------------------------------------------------------------------------------------


def test_bodies_are_dropped_only_as_checkpoints(storage: Store) -> None:
    """The same bytes may be a checkpoint, which may go, and a receipt, which stays; other jobs' stay too."""
    both = (StoredBody("twice", b"2", is_checkpoint=True), StoredBody("twice", b"2", is_checkpoint=False))
    bodies = (*both, StoredBody("state", b"1", is_checkpoint=True), StoredBody("result", b"3", is_checkpoint=False))
    written(storage, created("j", bodies=bodies), created("other", bodies=bodies))
    running = claim(storage)

    written(storage, progressed(running, dropped=("state", "twice", "result", "unknown")))

    with storage.reading() as reader:
        kept = {name: reader.body("j", name) for name in ("state", "twice", "result", "unknown")}
        assert kept == {"state": None, "twice": b"2", "result": b"3", "unknown": None}
        assert reader.body("other", "state") == b"1"


def test_a_body_that_is_there_is_left_as_it_is(storage: Store) -> None:
    written(storage, created(bodies=(StoredBody("d", b"first", is_checkpoint=True),)))
    running = claim(storage)

    written(storage, progressed(running, bodies=(StoredBody("d", b"second", is_checkpoint=True),)))

    with storage.reading() as reader:
        assert reader.body("j", "d") == b"first"


# Units ----------------------------------------------------------------------------------------------------------------

NAMES = ["A", "Z", "a", "z", "ä", "\uffff", "\U0001f600"]


def with_units(storage: Store, names: list[str]) -> None:
    """A job ``j`` that recorded these units, from sequence 3 on; receipts of odd places are kept aside."""
    written(storage, created())
    claim(storage)
    for number, name in enumerate(names):
        receipt = body(LONG + str(number) if number % 2 else number)
        kept = (StoredBody(receipt.digest, name.encode(), is_checkpoint=False),) if receipt.digest else ()
        written(storage, progressed(loaded(storage), unit=UnitRow(name, receipt, 1, 3 + number), bodies=kept))


def test_units_are_paged_by_name_in_the_order_of_code_points(storage: Store) -> None:
    with_units(storage, NAMES[::-1])

    with storage.reading() as reader:
        pages, after = [], None
        while page := reader.units("j", after=after, limit=2):
            pages.append([unit.unit for unit in page])
            after = pages[-1][-1]

    assert pages == [NAMES[0:2], NAMES[2:4], NAMES[4:6], NAMES[6:]]


def test_receipts_are_inherited_as_of_a_sequence(storage: Store) -> None:
    """With their bodies, and as if they stood there from the first event on: a fork of a fork has them all."""
    with_units(storage, ["u1", "u2", "u3", "u4"])

    written(storage, created("fork", inherit=Inherit("j", 4)))
    written(storage, created("fork of fork", inherit=Inherit("fork", 1)))

    with storage.reading() as reader:
        for job_id in ("fork", "fork of fork"):
            units = reader.units(job_id, after=None, limit=9)
            assert [(unit.unit, unit.generation, unit.sequence) for unit in units] == [("u1", 0, 1), ("u2", 0, 1)]
            assert units[0].receipt == body(0)
            assert reader.body(job_id, units[1].receipt.digest) == b"u2"
        assert reader.body("fork", body(LONG + "3").digest) is None


def test_an_inherited_unit_outlives_its_source(storage: Store) -> None:
    """Dropping a checkpoint of the source, whose bytes are those of a receipt, takes nothing from the heir."""
    with_units(storage, ["u1", "u2"])
    digest = body(LONG + "1").digest
    written(storage, created("heir", inherit=Inherit("j", 99)))

    written(storage, progressed(loaded(storage), dropped=(digest,)))

    with storage.reading() as reader:
        assert reader.body("heir", digest) == b"u2"


# Resources, groups, rebuilding ----------------------------------------------------------------------------------------


def test_a_resource_is_kept_for_each_owner(storage: Store) -> None:
    effects = (ResourceWrite("r", 0, b'"v"', 3),)
    written(storage, created("j", effects=effects), created("other", owner="p", effects=effects))
    running = claim(storage)
    written(storage, progressed(running, effects=(ResourceWrite("r", 1, b"null", 4),)))

    with storage.reading() as reader:
        assert reader.resource(NAMESPACE, "o", "r") == ResourceRow("r", b"null", 2, "j", 4)
        assert reader.resource(NAMESPACE, "p", "r") == ResourceRow("r", b'"v"', 1, "other", 3)
        assert reader.resource("elsewhere", "o", "r") is None
        assert reader.versions(NAMESPACE, "o", ["r", "s"]) == {"r": 2}


def test_a_group_moves_on_only_from_where_it_is_known_to_stand(storage: Store) -> None:
    advance_epoch(storage)
    with storage.reading() as reader:
        standing = reader.group(NAMESPACE, "g")
        [stored] = reader.records(f"group:{NAMESPACE}:g", limit=9)
    assert standing == GroupRow(2, 1, stored.digest)

    late = replace(stored, sequence=2)
    with storage.writing(PATIENCE) as session:
        for expected in (
            GroupRow(),
            replace(standing, epoch=3),
            replace(standing, sequence=0),
            replace(standing, head=""),
        ):
            assert not session.append_group(NAMESPACE, "g", expected, GroupRow(9, 2, "x"), late)
        assert not session.append_group(NAMESPACE, "g", standing, GroupRow(9, 2, "x"), stored)

    with storage.reading() as reader:
        assert reader.group(NAMESPACE, "g") == standing
        assert reader.group(NAMESPACE, "another") == reader.group("elsewhere", "g") == GroupRow()
        assert len(reader.records(f"group:{NAMESPACE}:g", limit=9)) == 1


def test_a_rebuilt_row_takes_the_place_of_the_old_one(storage: Store) -> None:
    """Place and lease stay; state, head, what the indexes say and kept states are the rebuilt ones."""
    first = created()
    written(storage, replace(first, snapshots=(first.job,)))
    running = claim(storage)
    fact = Checkpointed(at=NOON, generation=1, state=body(1), expires_at=NOON + LEASE)
    rebuilt = evolve(running.job, fact)
    ended = replace(rebuilt, state=State.QUEUED)

    with storage.writing(PATIENCE) as session:
        session.rewrite(ended, first.claimable, "head", [rebuilt])

    assert loaded(storage) == replace(running, job=ended, head="head")
    with storage.reading() as reader:
        assert reader.snapshot("j", 2) is None
        assert reader.snapshot("j", 3) == rebuilt
        assert reader.jobs(JobFilter(namespace=NAMESPACE, state=State.QUEUED), before=None, limit=9)
        assert not reader.jobs(JobFilter(namespace=NAMESPACE, state=State.RUNNING), before=None, limit=9)


# Time -----------------------------------------------------------------------------------------------------------------


def test_the_store_tells_the_time_of_each_call(storage: Store, clock: ManualClock) -> None:
    with storage.reading() as reader, storage.writing(PATIENCE) as session:
        clock.advance(timedelta(seconds=5))
        assert reader.now() == session.now() == NOON + timedelta(seconds=5)
