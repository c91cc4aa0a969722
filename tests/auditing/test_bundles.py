"""A bundle proves itself, is whole or not there, and brings everything back."""

from __future__ import annotations

import gzip
import json
import sqlite3
import tracemalloc
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

import pytest

from jobledger import JobledgerError, JobRequest, JobStore, ManualClock
from jobledger.adapters.bundles import files
from jobledger.adapters.storage.entropy import SystemEntropy
from jobledger.domain.store import Setting
from jobledger.projections.checking import replay_bundle, verify_bundle
from tests.auditing.independent import check
from tests.auditing.simulated import simulated_bundles
from tests.auditing.stories import NOON, POLICIES, STORIES, bundle_of, opened, told
from tests.contracts.jobs import refuses
from tests.postgresql.stores import WatchedClock, lent

KINDS: dict[str, Callable[[Path, WatchedClock], JobStore]] = {
    "memory": lambda _, clock: opened("memory:", clock),
    "sqlite": lambda folder, clock: opened(f"sqlite:///{folder / 'jobs.db'}", clock),
    "postgresql": lambda _, clock: JobStore(Setting(lent(clock), SystemEntropy(), policies=POLICIES)),
}
"""An empty store of each kind."""


def lines(bundle: bytes) -> Iterator[bytes]:
    return iter(BytesIO(bundle))


def problems(bundle: bytes) -> list[tuple[str, int, str]]:
    """What the library says of a bundle."""
    found = verify_bundle(lines(bundle))
    return [(each.job_id, problem.sequence, problem.rule) for each in found for problem in each.problems]


def events(bundle: bytes) -> list[bytes]:
    return [
        line for line in lines(bundle) if line.startswith((b'{"line":"event"', b'{"line":"body"', b'{"line":"unit"'))
    ]


@pytest.mark.parametrize("story", STORIES)
def test_a_bundle_of_every_story_holds(story: str) -> None:
    """For the library that wrote it, and for the checker that knows nothing of the library."""
    bundle = told(STORIES[story])

    assert problems(bundle) == []
    assert check(bundle) == []
    replayed = replay_bundle(lines(bundle))
    assert replayed.ok
    assert replayed.events == sum(line.startswith(b'{"line":"event"') for line in lines(bundle))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("story", STORIES)
def test_what_is_imported_is_what_was_exported(story: str, kind: str, tmp_path: Path) -> None:
    """Byte for byte, with every row beside it: the imported store verifies, and exports the same events again."""
    clock = WatchedClock(NOON)
    file = tmp_path / "all.jsonl.gz"
    with KINDS[kind](tmp_path, clock) as store:
        STORIES[story](store, clock)
        report = store.export(file)
        statuses = {job.job_id: job for job in store.jobs(limit=100).jobs}
        before, schedules = bundle_of(store), store.schedules.list()

    (tmp_path / "copy").mkdir()
    with KINDS[kind](tmp_path / "copy", clock) as copy:
        imported = copy.import_bundle(file)

        assert (imported.events, imported.jobs, imported.filled) == (report.events, report.jobs, 0)
        assert copy.schedules.list() == schedules
        assert [each for each in copy.verify_all() if not each.ok] == []
        assert {job.job_id: job for job in copy.jobs(limit=100).jobs} == statuses
        assert events(bundle_of(copy)) == events(before)
        refuses("invalid_request", copy.import_bundle, file)


def test_one_job_is_taken_away_with_the_groups_it_was_claimed_under(tmp_path: Path) -> None:
    """And with nothing else; it verifies and is imported by itself, though others wrote its resource before."""
    clock = ManualClock(NOON)
    with opened(clock=clock) as store:
        STORIES["groups"](store, clock)
        STORIES["shared"](store, clock)
        [third] = [job.job_id for job in store.jobs(key_prefix="k2").jobs]
        bundle = bundle_of(store, third)
        store.export_job(third, tmp_path / "job.jsonl")
        refuses("unknown_job", store.export_job, "nobody", tmp_path / "none.jsonl")

    streams = {json.loads(line).get("stream") for line in lines(bundle)} - {None}
    assert streams == {third, "group:7:default:default"}
    assert (problems(bundle), check(bundle)) == ([], [])
    with opened(clock=clock) as copy:
        assert copy.import_bundle(tmp_path / "job.jsonl").filled == 2
        assert copy.verify(third).ok


def test_a_filter_takes_what_matches_and_nothing_else(tmp_path: Path) -> None:
    """By the filters of a list of jobs."""
    clock = ManualClock(NOON)
    with opened(clock=clock) as store:
        STORIES["shared"](store, clock)
        STORIES["cancelled"](store, clock)
        report = store.export(tmp_path / "some.jsonl", state="complete", key_prefix="k")

    assert (report.jobs, report.events) == (3, 9)
    assert [each for each in JobStore.verify_export(tmp_path / "some.jsonl") if not each.ok] == []
    assert not (tmp_path / "none.jsonl").exists()


@pytest.mark.parametrize("name", ["b.jsonl", "b.jsonl.gz", "b.jsonl.zst"])
def test_each_packing_is_read_back_whatever_it_is_called(name: str, tmp_path: Path) -> None:
    clock = ManualClock(NOON)
    with opened(clock=clock) as store:
        STORIES["completed"](store, clock)
        report = store.export(tmp_path / name)
    renamed = (tmp_path / name).rename(tmp_path / "bundle")

    found = list(JobStore.verify_export(renamed))

    assert [each.events for each in found] == [report.events]
    assert JobStore.replay_export(renamed).ok
    assert JobStore.namespace_of_export(renamed) == "default"


def test_a_bundle_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was begun and not finished leaves nothing under the name, and nothing beside it."""
    clock = ManualClock(NOON)
    (tmp_path / "b.jsonl").write_text("older", encoding="utf-8")
    with opened(clock=clock) as store:
        STORIES["completed"](store, clock)
        monkeypatch.setattr("jobledger.adapters.bootstrap.export", _breaks)

        with pytest.raises(OSError, match="full"):
            store.export(tmp_path / "b.jsonl")

    assert [(path.name, path.read_text(encoding="utf-8")) for path in tmp_path.iterdir()] == [("b.jsonl", "older")]


def _breaks(*_: object, **__: object) -> None:
    msg = "the disk is full"
    raise OSError(msg)


@pytest.mark.parametrize("name", ["b.jsonl.gz", "b.jsonl.zst"])
def test_a_file_that_was_cut_off_is_said_to_be(name: str, tmp_path: Path) -> None:
    clock = ManualClock(NOON)
    with opened(clock=clock) as store:
        STORIES["bodies"](store, clock)
        store.export(tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])

    try:
        found = [problem.rule for each in JobStore.verify_export(tmp_path / name) for problem in each.problems]
    except JobledgerError as refused:
        found = [refused.code]

    assert {"bundle", "manifest", "invalid_request"} & set(found), found


def test_without_a_zstd_library_the_next_step_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_zstd", lambda: (None, None))

    with opened() as store:
        refused = refuses("invalid_request", store.export, tmp_path / "b.jsonl.zst")

    assert "jobledger[audit]" in str(refused)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [b"", b"nothing", b"[]\n", b'{"line":"bundle"}\n', b'{"line":"bundle","format":"jobledger.bundle","version":2}\n'],
)
def test_what_is_no_bundle_is_refused(content: bytes, tmp_path: Path) -> None:
    """By the library, and by the checker."""
    (tmp_path / "b").write_bytes(content)

    with pytest.raises(JobledgerError, match="bundle"):
        list(JobStore.verify_export(tmp_path / "b"))
    with pytest.raises(Exception, match=r"bundle|empty"):
        check(content)


def test_a_history_that_is_broken_in_the_store_is_exported_as_it_is(tmp_path: Path) -> None:
    """An export is evidence: what cannot be read goes along, and whoever reads the bundle is told."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    clock = ManualClock(NOON)
    with opened(url, clock) as store:
        STORIES["shared"](store, clock)
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        connection.execute("UPDATE stored_events SET state = x'00ff0a' WHERE rowid = 2")
        connection.execute("UPDATE job_status SET job = '[]' WHERE position = 4")
    connection.close()

    with opened(url, clock) as store:
        bundle = bundle_of(store)

    for found in ({rule for _, _, rule in problems(bundle)}, {rule for _, _, rule, _ in check(bundle)}):
        assert {"readable", "status_row"} <= found


def test_a_thousand_legal_histories_hold() -> None:
    """Whatever worlds with faults leave behind, both checks are content with it."""
    jobs = 0
    for bundle in simulated_bundles(0, 340):
        assert problems(bundle) == []
        assert check(bundle) == []
        assert replay_bundle(lines(bundle)).ok
        jobs += json.loads(bundle.splitlines()[-1])["jobs"]
    assert jobs >= 1_000


def test_memory_does_not_grow_with_the_events(tmp_path: Path) -> None:
    """An export, a verification and an import hold a page at a time, whatever the length of a history."""
    clock = ManualClock(NOON)
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    peaks: list[int] = []
    with opened(url, clock) as store:
        lease = store.claim(store.create(JobRequest(owner="team", key="long", kind="index")).job_id, worker="w")
        for _ in range(2):
            for n in range(1_500):
                store.report_progress(lease.fence, n, message="m" * 200)
            tracemalloc.start()
            store.export(tmp_path / "b.jsonl.gz")
            assert all(each.ok for each in JobStore.verify_export(tmp_path / "b.jsonl.gz"))
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()

    assert peaks[1] < 1.3 * peaks[0]
    assert gzip.decompress((tmp_path / "b.jsonl.gz").read_bytes()).count(b"\n") > 3_000
