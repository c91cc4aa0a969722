"""A whole store is verified on several processors as it is by one, and what is broken is told by name."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from jobledger import JobRequest, JobStore, ManualClock
from jobledger.adapters.auditing import verifying
from jobledger.adapters.auditing.verifying import verify_everything
from jobledger.domain.store.operating import group_stream


@pytest.fixture
def url(tmp_path: Path, clock: ManualClock) -> str:
    """A store with 30 jobs and a group."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with JobStore.open(url, clock=clock) as store:
        store.create_many([JobRequest(owner="team", key=f"k{n}", kind="index") for n in range(30)])
        store.advance_epoch("g", by="ops", reason="release")
    return url


@pytest.mark.parametrize("processes", [1, 2])
def test_everything_is_verified_once(url: str, processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever process does it; also where the last handful is not full."""
    monkeypatch.setattr(verifying, "HANDFUL", 7)

    found = list(verify_everything(url, "default", processes=processes))

    assert all(each.ok for each in found), found
    streams = [each.job_id for each in found]
    assert len(streams) == len(set(streams)) == 31
    assert group_stream("default", "g") in streams


def test_what_is_broken_is_found_by_whoever_looks_at_it(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers of other processes carry their problems, and the rows beside are looked at as well."""
    monkeypatch.setattr(verifying, "HANDFUL", 7)
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        connection.execute("UPDATE stored_events SET state = replace(state, 'k17', 'k71') WHERE topic = 'job.created'")
        connection.execute("INSERT INTO job_unit VALUES ('nobody', 'u', x'31', '', 1, 1)")
    connection.close()

    broken = {each.job_id: each.problems for each in verify_everything(url, "default", processes=2) if not each.ok}

    assert len(broken) == 2
    assert broken.pop("")[0].rule == "stray"
    [problems] = broken.values()
    assert {"identity", "head", "status_row"} <= {problem.rule for problem in problems}
