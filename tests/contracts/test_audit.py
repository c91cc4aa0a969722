"""Verification and rebuild over a store: what is whole is said to be whole, what was touched is named."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from jobledger import Effect, JobRequest, JobStore, ManualClock
from jobledger.domain.errors import HistoryCorruptError
from jobledger.domain.history import read
from jobledger.domain.store.operating import group_stream
from tests.contracts.conftest import POLICIES
from tests.contracts.jobs import created, refuses, running
from tests.contracts.tampering import Litter, Tamper, litter, tamper_with

OPS: Any = {"by": "ops", "reason": "look"}


def _rich(store: JobStore, key: str = "k") -> str:
    """A job with a bit of everything, ended."""
    labels = {"quarter": "3", "team": 'sea"rch'}
    lease = running(store, key, payload="p" * 5_000, labels=labels, submission=f"s-{key}", policy="stepwise")
    store.record_unit(lease.fence, "u0", 1)
    store.checkpoint(lease.fence, "s" * 5_000, effects=[Effect(resource=key, value=1, expected_version=0)])
    store.hold(lease.job_id, **OPS)
    store.pause(lease.fence)
    store.release_hold(lease.job_id, **OPS)
    lease = store.claim(lease.job_id, worker="w2")
    store.fail_attempt(lease.fence, "broke")
    store.retry(lease.job_id, **OPS)
    lease = store.claim(lease.job_id, worker="w3")
    store.report_progress(lease.fence, 1, 2)
    return store.complete(lease.fence, "partial", result=[1], error="half").job_id


def test_a_legal_history_is_whole(store: JobStore) -> None:
    """Every event is walked, and nothing is found."""
    job_id = _rich(store)

    verification = store.verify(job_id)

    assert (verification.ok, verification.problems) == (True, ())
    assert verification.events == store.status(job_id).sequence


def test_every_job_of_the_namespace_is_verified(store: JobStore) -> None:
    """None is left out."""
    ids = {_rich(store, "a"), created(store, "b"), running(store, "c").job_id}

    assert {verification.job_id for verification in store.verify_all() if verification.ok} == ids


def test_groups_are_verified_with_the_jobs(store: JobStore) -> None:
    """What they stood at decides who may write, so their streams count as much as those of jobs."""
    job_id = _rich(store)
    store.advance_epoch("default", by="ops", reason="release")
    store.advance_epoch("default", by="ops", reason="release")

    verified = {verification.job_id: verification for verification in store.verify_all()}

    assert set(verified) == {job_id, group_stream("default", "default")}
    assert all(verification.ok for verification in verified.values()), verified
    assert verified[group_stream("default", "default")].events == 2


def test_each_namespace_verifies_what_is_its_own(tmp_path: Path, clock: ManualClock) -> None:
    """Another one's streams are not walked, and its rows are not judged."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with JobStore.open(url, clock=clock, policies=POLICIES) as store:
        job_id = _rich(store)
    with JobStore.open(url, clock=clock, namespace="other", policies=POLICIES) as other:
        theirs = _rich(other)
        other.advance_epoch("g", by="ops", reason="release")

        assert [verification.job_id for verification in other.verify_all()] == sorted(
            [theirs, group_stream("other", "g")]
        )
        refuses("unknown_job", other.verify, job_id)


@pytest.mark.parametrize("what", Litter)
def test_each_row_beside_the_log_is_accounted_for(tmp_path: Path, clock: ManualClock, what: Litter) -> None:
    """What hangs on no event, and what lost its row, is found by a verification of everything."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with JobStore.open(url, clock=clock, policies=POLICIES) as store:
        job_id, _ = _rich(store), _rich(store, "other")
        store.advance_epoch("default", by="ops", reason="release")
        store.advance_epoch("default", by="ops", reason="release")
        assert all(verification.ok for verification in store.verify_all())

    litter(tmp_path / "jobs.db", job_id, what)

    with JobStore.open(url, clock=clock) as store:
        found = {problem.rule for verification in store.verify_all() for problem in verification.problems}
        assert what.rule in found, found


def test_what_is_written_under_a_passed_epoch_is_found(tmp_path: Path, clock: ManualClock) -> None:
    """A write that stands behind the advance of its group, in the log and by its time, was fenced off."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with JobStore.open(url, clock=clock) as store:
        lease = running(store)
        clock.advance(timedelta(seconds=1))
        store.advance_epoch("default", by="ops", reason="release")
        clock.advance(timedelta(seconds=1))
        refuses("stale_epoch", store.report_progress, lease.fence, 1)
        assert all(verification.ok for verification in store.verify_all())
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        connection.execute("UPDATE worker_group SET epoch = 1, sequence = 0, head = ''")
        connection.execute("UPDATE stored_events SET originator_id = 'aside' WHERE originator_id LIKE 'group:%'")
    connection.close()

    with JobStore.open(url, clock=clock) as store:
        store.report_progress(lease.fence, 1)
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        stream = group_stream("default", "default")
        connection.execute("UPDATE stored_events SET originator_id = ? WHERE originator_id = 'aside'", (stream,))
    connection.close()

    with JobStore.open(url, clock=clock) as store:
        assert [problem.rule for problem in store.verify(lease.job_id).problems] == ["epoch"]


@pytest.mark.parametrize("tamper", Tamper)
def test_each_kind_of_tampering_is_found_and_named(tmp_path: Path, clock: ManualClock, tamper: Tamper) -> None:
    """A change made directly in the tables is reported under the rule that it breaks, at its sequence."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with JobStore.open(url, clock=clock, policies=POLICIES) as store:
        job_id, untouched = _rich(store), _rich(store, "other")
        assert store.verify(job_id).ok

    tamper_with(tmp_path / "jobs.db", job_id, tamper)

    with JobStore.open(url, clock=clock) as store:
        verification = store.verify(job_id)
        assert not verification.ok
        assert tamper.rule in {problem.rule for problem in verification.problems}, verification.problems
        assert store.verify(untouched).ok


def test_an_unknown_topic_stops_its_job_and_no_other(tmp_path: Path, clock: ManualClock) -> None:
    """Its history is corrupt to every reader; nothing is imported, and the other jobs go on."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with JobStore.open(url, clock=clock, policies=POLICIES) as store:
        job_id, other = _rich(store), created(store, "other")

    tamper_with(tmp_path / "jobs.db", job_id, Tamper.TOPIC)

    with JobStore.open(url, clock=clock) as store:
        with pytest.raises(HistoryCorruptError, match="os:system"):
            list(store.history(job_id))
        refuses("history_corrupt", store.timeline, job_id)
        assert store.claim(other, worker="w").generation == 1


def test_a_rebuilt_status_equals_the_live_one(store: JobStore) -> None:
    """The status row is a pure function of the events: nothing differs, nothing is mended."""
    ids = [_rich(store, "a"), running(store, "b").job_id]
    before = [store.status(job_id) for job_id in ids]

    report = store.rebuild("status")

    assert (report.jobs, report.mended) == (2, ())
    assert [store.status(job_id) for job_id in ids] == before
    refuses("invalid_request", store.rebuild, "nothing")


@pytest.mark.parametrize("tamper", [Tamper.STATUS, Tamper.HEAD, Tamper.OWNER, Tamper.PRIORITY, Tamper.UNREADABLE])
def test_a_rebuild_mends_a_status_row_that_was_touched(tmp_path: Path, clock: ManualClock, tamper: Tamper) -> None:
    """The events are the truth; the row is made from them again."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with JobStore.open(url, clock=clock, policies=POLICIES) as store:
        job_id = _rich(store)
        truth = store.status(job_id)

    tamper_with(tmp_path / "jobs.db", job_id, tamper)

    with JobStore.open(url, clock=clock) as store:
        assert store.rebuild("status").mended == (job_id,)
        assert store.status(job_id) == truth
        assert store.verify(job_id).ok


def test_one_unreadable_job_stops_nobody_else(tmp_path: Path, clock: ManualClock) -> None:
    """Claims, batches and sweeps go on past it; only what is asked of that job is refused as corrupt."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with JobStore.open(url, clock=clock) as store:
        urgent, other = created(store, "urgent", priority=9), created(store, "other")
        live = running(store, "live")

    tamper_with(tmp_path / "jobs.db", urgent, Tamper.UNREADABLE)

    with JobStore.open(url, clock=clock) as store:
        assert [lease.job_id for lease in store.claim_next(worker="w")] == [other]
        answers = store.create_many([JobRequest(owner="team", key=key, kind="index") for key in ("urgent", "new")])
        assert [getattr(answer, "code", "") for answer in answers] == ["history_corrupt", ""]
        assert store.renew(live.fence).expires_at > clock.now()
        refuses("history_corrupt", store.status, urgent)
        assert {verification.job_id for verification in store.verify_all() if not verification.ok} == {urgent}


def test_events_of_a_groups_stream_never_go_back_in_time(local_store: JobStore, clock: ManualClock) -> None:
    """Also where the clock was set back, and two groups whose names run together have a stream each."""
    local_store.advance_epoch("g", by="ops", reason="release")
    clock.step(-timedelta(hours=1))

    assert local_store.advance_epoch("g", by="ops", reason="release") == 3
    storage = local_store._setting.storage  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # no public reader of it
    with storage.reading() as reader:
        times = [read(stored).at for stored in reader.records(group_stream("default", "g"), limit=9)]
    assert times == sorted(times)
    assert group_stream("a:b", "c") != group_stream("a", "b:c")
