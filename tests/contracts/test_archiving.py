"""Archiving: the events of ended jobs leave the log, and everything that is left says so, and holds."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from jobledger import Effect, JobRequest, JobStore, ManualClock, Policy
from jobledger.adapters.bundles.files import written
from jobledger.adapters.remote import RemoteStore
from jobledger.adapters.storage.entropy import SystemEntropy
from jobledger.adapters.storage.memory import MemoryStorage
from jobledger.adapters.web import create_app
from jobledger.domain.store import Setting
from jobledger.domain.tracking import Tracked
from jobledger.projections.archiving import Examined, examine
from jobledger.projections.audit import walked
from tests.contracts.conftest import STORES
from tests.contracts.jobs import created, refuses, running
from tests.contracts.tampering import Misplaced, Tamper, misplace, tamper_with
from tests.web.serving import serving

OPS: Any = {"by": "ops", "reason": "look"}
KEPT = timedelta(days=30)
POLICIES = {"kept": Policy(keep_finished=KEPT), "stepwise": Policy(window_events_max=20, keep_finished=KEPT)}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[JobStore]:
    """An empty store of each kind, with policies that let ended jobs go."""
    with STORES[request.param](tmp_path, clock) as opened:
        setting = opened._setting  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # the same store, other policies
        yield JobStore(replace(setting, policies={**setting.policies, **POLICIES}))


def ended(store: JobStore, key: str, *, policy: str = "kept", **request: Any) -> str:
    """A job with a bit of everything, which completed."""
    given: dict[str, Any] = {"payload": "p" * 5_000, "labels": {"l": key}, "submission": f"s-{key}"} | request
    lease = running(store, key, policy=policy, **given)
    store.record_unit(lease.fence, "u", "r" * 5_000)
    store.checkpoint(lease.fence, "a" * 5_000)
    store.checkpoint(lease.fence, "b" * 5_000, effects=[Effect(resource=key, value=1, expected_version=0)])
    effects = [Effect(resource=f"{key}-result", value={"rows": 3}, expected_version=0)]
    return store.complete(lease.fence, result="x" * 5_000, effects=effects).job_id


def test_a_job_is_archived_when_its_policy_lets_it_go(store: JobStore, clock: ManualClock) -> None:
    """Not before, and no other: neither one that runs, nor one that is kept for ever."""
    job_id, kept, open_ = ended(store, "a"), ended(store, "b", policy="default"), running(store, "c", policy="kept")
    plain = store.complete(running(store, "d", policy="kept").fence).job_id
    clock.advance(KEPT - timedelta(microseconds=1))
    assert (store.archive().jobs, store.overdue()) == (0, (0, None))
    clock.advance(timedelta(microseconds=1))

    assert store.overdue() == (2, clock.now())
    report = store.archive()

    assert (report.jobs, report.events, report.left, report.file) == (2, 9, (), "")
    assert [store.status(each).archived for each in (job_id, plain, kept, open_.job_id)] == [7, 4, 0, 0]
    assert (store.archive().jobs, store.overdue()) == (0, (0, None))


def test_by_hand_an_ended_job_is_archived_whatever_its_policy_says(store: JobStore, clock: ManualClock) -> None:
    """The oldest first, no more than were asked for, and none that ended later."""
    first, second = ended(store, "a", policy="default"), ended(store, "b")
    running(store, "c")
    clock.advance(timedelta(days=1))
    later = ended(store, "d")

    assert store.archive(older_than=timedelta(hours=1), limit=1).jobs == 1
    assert [store.status(each).archived for each in (first, second, later)] == [7, 0, 0]
    assert store.archive(older_than=timedelta(hours=1)).jobs == 1
    assert store.archive(older_than=timedelta(hours=1)).jobs == 0


def archived(store: JobStore, clock: ManualClock, *keys: str, to: Path | None = None) -> list[str]:
    """Jobs that were archived."""
    ids = [ended(store, key) for key in keys]
    clock.advance(KEPT)
    assert store.archive(to=to).jobs == len(keys)
    return ids


def test_the_status_stays_and_guards_the_key(store: JobStore, clock: ManualClock) -> None:
    """A create of the same key is answered as before, another payload is refused, a control finds the job ended."""
    request = JobRequest(owner="team", kind="index", key="a", payload="p" * 5_000, labels={"l": "a"}, submission="s-a")
    job_id = ended(store, "a")
    before, receipt = store.status(job_id), store.create(request)
    clock.advance(KEPT)
    store.archive()

    after = store.status(job_id)

    moved: dict[str, Any] = {
        "sequence": 7,
        "control_sequence": 7,
        "archived": 7,
        "updated_at": clock.now(),
        "head": after.head,
    }
    assert after == replace(before, **moved)
    assert store.create(request) == receipt
    refuses("payload_changed", store.create, request.model_copy(update={"payload": 1}))
    refuses("already_terminal", store.hold, job_id, **OPS)
    refuses("already_terminal", store.claim, job_id, worker="w")
    found = store.find("team", "a")
    assert found == after
    assert [job.job_id for job in store.jobs(label=("l", "a")).jobs] == [job_id]
    resource = store.resource("team", "a-result")
    assert resource is not None
    assert (resource.value, resource.job_id) == ({"rows": 3}, job_id)


def test_a_window_into_archived_events_answers_the_boundary(store: JobStore, clock: ManualClock) -> None:
    """The snapshot before the event that stands for them, and where to go on: they fold to the head."""
    [job_id] = archived(store, clock, "a")

    window = store.events(job_id)

    assert (window.floor, window.head, window.next_after) == (7, 7, 7)
    assert [event.name for event in window.events] == ["Archived"]
    assert window.snapshot is not None
    assert (window.snapshot.sequence, window.snapshot.head) == (6, window.events[0].previous)
    assert window.snapshot == store.status(job_id, at=6)
    assert store.status(job_id, at=7) == store.status(job_id) == store.status(job_id, at=clock.now())
    assert store.events(job_id, after=6).snapshot is None


def test_what_was_archived_is_refused_by_name(store: JobStore, clock: ManualClock, tmp_path: Path) -> None:
    """Each question that needs it says so and where it is; nothing is answered as if it had never been."""
    anchors = [store.anchor()[0]]
    place = tmp_path / "a.jsonl"
    [job_id] = archived(store, clock, "a", to=place)
    anchors.append(store.anchor(anchors)[0])

    for ask in (
        lambda: store.history(job_id),
        lambda: store.timeline(job_id),
        lambda: store.units(job_id),
        lambda: store.unit(job_id, "u"),
        lambda: store.status(job_id, at=5),
        lambda: store.status(job_id, at=clock.now() - KEPT - timedelta(seconds=1)),
        lambda: store.diff(job_id, 2, 7),
        lambda: store.prove(job_id, 3, anchors[-1]),
        lambda: store.export_job(job_id, tmp_path / "again.jsonl"),
        lambda: store.fork(job_id, at_sequence=4, **OPS, key="f"),
        lambda: store.rerun(job_id, **OPS, key="f", from_checkpoint=True),
    ):
        refusal: Any = refuses("history_archived", ask)
        assert (refusal.first, refusal.place) == (7, str(place))
    assert store.find("team", "f") is None


def test_an_archived_job_is_run_again_from_the_beginning(store: JobStore, clock: ManualClock) -> None:
    """Its payload is kept with its status."""
    [job_id] = archived(store, clock, "a")

    again = store.rerun(job_id, **OPS, key="again")

    assert store.status(again.job_id).payload == "p" * 5_000
    assert store.rerun(job_id, **OPS, key="again") == replace(again, reused=True)


def test_a_fork_of_archived_events_is_still_found(store: JobStore, clock: ManualClock) -> None:
    """It was made before: the same fork is answered, and it has its own receipts."""
    job_id = ended(store, "a")
    fork = store.fork(job_id, at_sequence=4, **OPS, key="f")
    clock.advance(KEPT)
    store.archive()

    assert store.fork(job_id, at_sequence=4, **OPS, key="f") == replace(fork, reused=True)
    receipt = store.unit(fork.job_id, "u")
    assert receipt is not None
    assert receipt.receipt == "r" * 5_000
    assert all(found.ok for found in store.verify_all())


def test_a_store_with_archived_jobs_verifies_rebuilds_and_replays(store: JobStore, clock: ManualClock) -> None:
    """An archived history is no gap: what stands for it is verified in its place."""
    ids = archived(store, clock, "a", "b")
    open_ = created(store, "c")

    verified = {found.job_id: found for found in store.verify_all()}

    assert all(found.ok for found in verified.values()), verified
    assert [verified[each].events for each in (*ids, open_)] == [1, 1, 1]
    before = [store.status(each) for each in ids]
    assert store.rebuild("status").mended == ()
    assert [store.status(each) for each in ids] == before
    assert store.replay().ok
    assert [sentence.text for sentence in store.story(ids[0])] == ["archived the events before this one without a copy"]


def test_anchors_of_archived_events_still_hold(store: JobStore, clock: ManualClock) -> None:
    """The tree is made of what was kept of them; an event that is still there is proved beside them."""
    ids, open_ = [ended(store, key) for key in "ab"], created(store, "c")
    first, _ = store.anchor()
    clock.advance(KEPT)
    store.archive()

    second, problems = store.anchor([first])

    assert problems == []
    assert (first.size, second.size) == (13, 15)
    assert store.verify_anchors([first, second]).ok
    assert store.prove(open_, 1, first).ok
    assert store.prove(ids[0], 7, second).ok
    assert not store.verify_anchors([replace(first, root="00" * 32)]).ok


def test_a_follower_meets_what_stands_for_archived_events(store: JobStore, clock: ManualClock) -> None:
    """Whatever topics it asks for: a gap in the numbers is told by an event, and nothing is passed over in silence."""
    start = store.feed(limit=1_000).cursor
    ids = archived(store, clock, "a", "b")

    for topics in ((), ("job.completed",)):
        told = list(store.follow(after=start, topics=topics, idle=0))
        assert [(entry.job_id, entry.sequence, entry.name) for entry in told] == [
            (job_id, 7, "Archived") for job_id in ids
        ]
    first = next(store.follow(after=start, idle=0))
    assert (first.data["place"], first.data["state"]["outcome"]) == ("", "complete")


def test_a_bundle_is_whole_before_anything_goes(store: JobStore, clock: ManualClock, tmp_path: Path) -> None:
    """It verifies, replays and imports like any other; one that exists is never written over."""
    place = tmp_path / "a.jsonl"
    ids = [ended(store, key) for key in "ab"]
    running(store, "c")
    told = {job_id: [event.digest for event in store.history(job_id)] for job_id in ids}
    clock.advance(KEPT)
    place.write_text("mine", encoding="utf-8")
    refuses("invalid_request", store.archive, to=place)
    assert [store.status(job_id).archived for job_id in ids] == [0, 0]
    place.unlink()

    report = store.archive(to=place, by="ann")

    assert (report.jobs, report.file, report.left) == (2, str(place), ())
    assert [event.data["by"] for event in store.events(ids[0]).events] == ["ann"]
    assert all(found.ok for found in JobStore.verify_export(place))
    assert JobStore.replay_export(place).ok
    with JobStore.open("memory:", clock=clock) as elsewhere:
        assert elsewhere.import_bundle(place).jobs == 2
        assert {job_id: [event.digest for event in elsewhere.history(job_id)] for job_id in ids} == told
        assert all(found.ok for found in elsewhere.verify_all())


@pytest.mark.parametrize("place", ["", "-", "a\0b", "missing/a.jsonl", "."])
def test_an_archive_is_a_file_that_can_be_read_back(
    store: JobStore, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Anything else is refused under the name that was given, and nothing has gone."""
    monkeypatch.chdir(tmp_path)
    job_id = ended(store, "a")
    clock.advance(KEPT)

    refuses("invalid_request", store.archive, to=place)

    assert store.status(job_id).archived == 0
    assert list(tmp_path.rglob("*.part")) == []


def test_a_relative_place_is_told_from_its_root(
    store: JobStore, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks for the bundle later stands elsewhere."""
    monkeypatch.chdir(tmp_path)
    job_id = ended(store, "a")
    clock.advance(KEPT)

    assert store.archive(to="a.jsonl").file == str(tmp_path / "a.jsonl")
    assert str(tmp_path / "a.jsonl") in str(refuses("history_archived", store.status, job_id, at=1))
    head = store.status(job_id).sequence
    assert f"events {head} to {head}, not 99" in str(refuses("unknown_sequence", store.events, job_id, after=99))


def test_a_file_that_came_meanwhile_is_not_written_over(tmp_path: Path) -> None:
    """Two archives to one name: the second one's histories have not gone anywhere, so they must stay."""
    place = tmp_path / "a.jsonl"

    def write_beside_another() -> None:
        with written(place, is_new=True) as write:
            write(b"ours")
            place.write_bytes(b"theirs")

    with pytest.raises(FileExistsError):
        write_beside_another()
    assert place.read_bytes() == b"theirs"
    assert list(tmp_path.iterdir()) == [place]


def test_an_export_of_everything_leaves_archived_jobs_out(store: JobStore, clock: ManualClock, tmp_path: Path) -> None:
    """Their histories are in their archive; what is exported verifies for itself, and says that it is not all."""
    archived(store, clock, "a")
    other = ended(store, "b")
    place = tmp_path / "all.jsonl"

    assert store.export(place).jobs == 1

    assert {found.job_id for found in JobStore.verify_export(place) if found.ok} == {other}
    assert b'"without":"archived"' in place.read_bytes().splitlines()[0]


def test_long_histories_leave_no_kept_state_behind(store: JobStore, clock: ManualClock) -> None:
    """States that windows start from go with the events; the one that stands for them has its own."""
    lease = running(store, "a", policy="stepwise")
    for done in range(57):
        store.report_progress(lease.fence, done)
    store.complete(lease.fence)
    clock.advance(KEPT)

    assert store.archive().events == 60

    assert store.status(lease.job_id).archived == 61
    assert store.verify(lease.job_id).ok
    storage = store._setting.storage  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # no public reader of it
    with storage.reading() as reader:
        assert reader.snapshot(lease.job_id, 61) is None


def test_a_view_sees_what_was_there_when_it_was_opened(store: JobStore, clock: ManualClock) -> None:
    """Also where the events are archived while it reads."""
    job_id = ended(store, "a")
    clock.advance(KEPT)
    storage = store._setting.storage  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # no public reader of it

    with storage.reading() as reader:
        before = (reader.records(job_id, limit=9), reader.log(after=0, limit=9), reader.streams(after="", limit=9))
        assert store.archive().jobs == 1
        after = (reader.records(job_id, limit=9), reader.log(after=0, limit=9), reader.streams(after="", limit=9))
        assert after == before
        assert not walked(reader, job_id).problems
    with storage.reading() as reader:
        assert [stored.sequence for stored in reader.records(job_id, limit=9)] == [7]


def test_what_somebody_added_meanwhile_keeps_a_job_from_being_archived(store: JobStore, clock: ManualClock) -> None:
    """An archive is written against the sequence that was verified."""
    job_id = ended(store, "a")
    clock.advance(KEPT)
    storage = store._setting.storage  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # no public reader of it
    with storage.reading() as reader:
        found = examine(reader, job_id)
    assert isinstance(found, Examined)
    twice = found.archival(clock.now(), place="", by="engine")

    with storage.writing(timedelta(seconds=5)) as session:
        assert session.archive([twice]) == [True]
    with storage.writing(timedelta(seconds=5)) as session:
        assert session.archive([twice]) == [False]
    assert store.verify(job_id).ok


def test_a_job_waits_for_projections_that_have_not_read_it(store: JobStore, clock: ManualClock) -> None:
    """What follows the feed misses nothing; a build that nobody moves any more is not waited for."""
    job_id = ended(store, "a")
    clock.advance(KEPT)
    storage = store._setting.storage  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # no public reader of it
    behind = Tracked(projection="p", build=1, version=1, is_live=True, position=5, runner="r", moved_at=clock.now())
    with storage.writing(timedelta(seconds=5)) as session:
        assert session.move_projection(None, behind)
    assert (store.archive().jobs, store.archive().waiting, store.status(job_id).archived) == (0, 1, 0)

    read = replace(behind, position=6)
    forgotten = replace(behind, build=2, is_live=False, position=1, moved_at=clock.now() - timedelta(hours=2))
    with storage.writing(timedelta(seconds=5)) as session:
        assert session.move_projection(behind, read)
        assert session.move_projection(None, forgotten)

    report = store.archive()
    assert (report.jobs, report.waiting) == (1, 0)


def test_over_the_wire_the_boundary_is_answered_too(clock: ManualClock) -> None:
    """A remote reader gets the same status, window and refusals."""
    storage = MemoryStorage(clock=clock)
    with JobStore(Setting(storage, SystemEntropy(), policies=POLICIES)) as store:
        [job_id] = archived(store, clock, "a")
        with serving(create_app(store)) as address, RemoteStore(address) as remote:
            assert remote.status(job_id) == store.status(job_id)
            assert remote.events(job_id).snapshot == store.events(job_id).snapshot
            refuses("history_archived", remote.timeline, job_id)
            assert remote.verify(job_id).ok


def test_an_instant_before_the_end_was_archived(store: JobStore, clock: ManualClock) -> None:
    """The end itself is known: what stands for the events tells it."""
    start: datetime = clock.now()
    [job_id] = archived(store, clock, "a")

    assert store.status(job_id, at=start).sequence == 6
    refuses("history_archived", store.status, job_id, at=start - timedelta(seconds=1))


@pytest.mark.parametrize("what", Misplaced)
def test_what_is_kept_of_an_archived_job_cannot_be_changed_unnoticed(
    tmp_path: Path, clock: ManualClock, what: Misplaced
) -> None:
    """Neither the event that stands for its history, nor the digests, nor the rows beside."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with JobStore.open(url, clock=clock, policies=POLICIES) as store:
        lease = running(store, "a", policy="kept", payload="p" * 5_000)
        store.record_unit(lease.fence, "u", 1)
        effects = [Effect(resource="r", value=1, expected_version=0)]
        job_id = store.complete(lease.fence, "partial", result=[1], error="half", effects=effects).job_id
        clock.advance(KEPT)
        assert store.archive().jobs == 1
        assert all(found.ok for found in store.verify_all())

    misplace(tmp_path / "jobs.db", job_id, what)

    with JobStore.open(url, clock=clock) as store:
        found = {problem.rule for verification in store.verify_all() for problem in verification.problems}
        assert what.rule in found, found


def test_a_history_that_does_not_hold_is_left_alone(tmp_path: Path, clock: ManualClock) -> None:
    """It is evidence; the others go, and it is named, with and without a bundle."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with JobStore.open(url, clock=clock, policies=POLICIES) as store:
        broken, other = ended(store, "a"), ended(store, "b")
        clock.advance(KEPT)
    tamper_with(tmp_path / "jobs.db", broken, Tamper.UNIT)

    with JobStore.open(url, clock=clock) as store:
        report = store.archive(limit=1, to=tmp_path / "first.jsonl")
        assert (report.jobs, [job_id for job_id, _ in report.left]) in ((0, [broken]), (1, []))
        report = store.archive(to=tmp_path / "all.jsonl")
        assert [job_id for job_id, _ in report.left] == [broken]
        assert [store.status(each).archived > 0 for each in (broken, other)] == [False, True]


def test_jobs_that_ended_before_there_was_archiving_are_found(tmp_path: Path, clock: ManualClock) -> None:
    """Their rows are brought up to date with the schema; a policy's span may be years."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    long = timedelta(days=400, hours=3, minutes=2, seconds=1.5)
    with JobStore.open(url, clock=clock, policies=POLICIES | {"long": Policy(keep_finished=long)}) as store:
        ids = {ended(store, "a"), ended(store, "b", policy="long")}
        ended(store, "c", policy="default")
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        connection.execute("DROP INDEX job_status_finished")
        connection.execute("DROP TABLE archived_event")
        connection.execute("DELETE FROM schema_version WHERE name LIKE '%archive'")
        connection.execute("UPDATE job_status SET claimable = 'never', ready_at_us = created_at_us")
    connection.close()

    with JobStore.open(url, clock=clock) as store:
        assert all(found.ok for found in store.verify_all())
        clock.advance(long)
        assert store.archive().jobs == 2
        assert {job.job_id for job in store.jobs().jobs if job.archived} == ids
