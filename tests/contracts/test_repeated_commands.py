"""A repeated command is answered from what it left behind: its first answer, whatever happened since, and no event."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from jobledger import JobStore, Lease, ManualClock, State
from jobledger.adapters.storage.entropy import SeededEntropy
from jobledger.domain.store import Setting
from tests.contracts.commands import BY, COMMANDS, LATER, Ready
from tests.contracts.jobs import created, refuses, running, trace
from tests.contracts.lockstep import OPENERS

DAY = timedelta(days=1)

# What may happen to a job between the command and its repetition ------------------------------------------------------


def nothing(_store: JobStore, _clock: ManualClock, _job_id: str) -> None:
    """Nothing happened: the reply was lost, and the client asks again at once."""


def moved_on(store: JobStore, clock: ManualClock, job_id: str) -> None:
    """Time passed, and somebody else acted."""
    clock.advance(timedelta(seconds=1))
    store.advance_epoch("another", by="mover", reason="a new version")
    status = store.status(job_id)
    if status.is_terminal:
        store.rerun(job_id, by="mover", reason="once more", key="moved")
        return
    if status.hold is not None:
        store.release_hold(job_id, by="mover", reason="go on")
    store.hold(job_id, by="mover", reason="stop")
    store.release_hold(job_id, by="mover", reason="go on")


def ended(store: JobStore, clock: ManualClock, job_id: str) -> None:
    """The job was cancelled, unless it had ended already."""
    if not store.status(job_id).is_terminal:
        store.request_cancel(job_id, by="mover", reason="no longer wanted")
    if store.status(job_id).state is State.RUNNING:
        clock.advance(DAY)
        store.recover(job_id)
    assert store.status(job_id).is_terminal


def taken_over(store: JobStore, clock: ManualClock, job_id: str) -> None:
    """Another worker has the job, if a worker can have it."""
    clock.advance(DAY)
    status = store.status(job_id)
    if status.is_terminal or status.cancel_request is not None:
        return
    if status.hold is not None:
        store.release_hold(job_id, by="mover", reason="go on")
    store.retry(job_id, by="mover", reason="now")
    store.checkpoint(store.claim(job_id, worker="w9").fence, {"next": 9})


Meanwhile = Callable[[JobStore, ManualClock, str], None]
MEANWHILE: Mapping[str, Meanwhile] = {
    "at once": nothing,
    "after it moved on": moved_on,
    "after it ended": ended,
    "after a take-over": taken_over,
}


def everything(store: JobStore, folder: Path) -> object:
    """All that a store keeps: each row of each table of a file, else whatever can be asked."""
    file = folder / "jobs.db"
    if not file.exists():
        return [trace(store, status.job_id) for status in store.jobs(limit=100).jobs], store.epoch("default")
    with closing(sqlite3.connect(file)) as database:
        names = [
            name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        ]
        return {name: database.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall() for name in names}  # noqa: S608  # names of tables


def happens(meanwhile: str, store: JobStore, clock: ManualClock, ready: Ready, answer: Any) -> None:
    """Let something happen to the job of a command."""
    job_id = ready.job_id or getattr(answer, "job_id", None)
    if job_id is None:
        store.advance_epoch("default", by="mover", reason="a newer version")
    else:
        MEANWHILE[meanwhile](store, clock, job_id)


cases = pytest.mark.parametrize("command", COMMANDS)


@cases
@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_a_repeated_command_gets_its_first_answer_and_appends_nothing(
    store: JobStore, clock: ManualClock, tmp_path: Path, command: str, meanwhile: str
) -> None:
    """Its events are in the history; they are the answer, before any guard looks at the job of now."""
    ready = COMMANDS[command](store)
    first = ready.call("c1")
    happens(meanwhile, store, clock, ready, first)
    before = everything(store, tmp_path)

    if command == "claim" and meanwhile in ("after it ended", "after a take-over"):
        refuses("stale_fence", ready.call, "c1")
    else:
        again = ready.call("c1")
        assert again.fence == first.fence if isinstance(first, Lease) else again == first

    assert everything(store, tmp_path) == before
    assert all(verified.ok for verified in store.verify_all())


@cases
@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_an_id_with_other_arguments_is_refused(
    store: JobStore, clock: ManualClock, tmp_path: Path, command: str, meanwhile: str
) -> None:
    """An id belongs to one command with its arguments, so an answer is never that of another question."""
    ready = COMMANDS[command](store)
    first = ready.call("c1")
    happens(meanwhile, store, clock, ready, first)
    before = everything(store, tmp_path)

    refuses("command_changed", ready.call, "c1", changed=True)

    assert everything(store, tmp_path) == before


@cases
def test_an_id_of_one_command_is_refused_for_another(store: JobStore, tmp_path: Path, command: str) -> None:
    """Also where the other command would have been refused for a reason of its own."""
    ready = COMMANDS[command](store)
    job_id = ready.job_id or getattr(ready.call("c1"), "job_id", None)
    if ready.job_id is not None:
        ready.call("c1")
    before = everything(store, tmp_path)

    if job_id is None:
        refuses("command_changed", store.advance_epoch, "default", by="zoe", reason="another", command_id="c1")
    else:
        for control in ("hold", "release_hold", "resume", "request_cancel", "retry"):
            refuses("command_changed", getattr(store, control), job_id, by="zoe", reason="another", command_id="c1")
        refuses("command_changed", store.recover, job_id, by="zoe", command_id="c1")
        refuses("command_changed", store.claim, job_id, worker="zoe", command_id="c1")

    assert everything(store, tmp_path) == before


def test_a_repeated_claim_gets_its_lease_as_it_is_now(store: JobStore, clock: ManualClock) -> None:
    """The attempt goes on under the same fence, from the checkpoint and until the expiry of now."""
    job_id = created(store)
    claim: dict[str, Any] = {"worker": "w1", "command_id": "c1", "token": "a-token"}
    first = store.claim(job_id, **claim)
    clock.advance(timedelta(seconds=20))
    store.checkpoint(first.fence, {"next": 5})
    clock.advance(timedelta(seconds=20))
    expires_at = store.renew(first.fence).expires_at

    again = store.claim(job_id, **claim)

    assert (again.fence, again.generation) == (first.fence, 1)
    assert (again.checkpoint, again.expires_at) == ({"next": 5}, expires_at)
    assert again.status == store.status(job_id)
    store.checkpoint(again.fence, {"next": 6})
    refuses("out_of_order", store.checkpoint, first.fence, {"next": 5})


def test_a_repeated_claim_of_an_expired_lease_takes_nothing_over(store: JobStore, clock: ManualClock) -> None:
    """Its generation is still open: the worker renews, and is told that it is late."""
    job_id = created(store)
    first = store.claim(job_id, worker="w1", command_id="c1", token="a-token")
    clock.advance(DAY)

    again = store.claim(job_id, worker="w1", command_id="c1", token="a-token")

    assert again.expires_at == first.expires_at < clock.now()
    assert store.renew(again.fence).late


def test_a_claim_is_repeated_only_with_its_token(store: JobStore) -> None:
    """Whoever knows the id alone gets no worker's authority."""
    job_id = created(store)
    store.claim(job_id, worker="w1", command_id="c1", token="a-token")

    refuses("command_changed", store.claim, job_id, worker="w1", command_id="c1", token="another")
    refuses("command_changed", store.claim, job_id, worker="w1", command_id="c1")


def test_a_refused_command_may_be_tried_again_under_its_id(store: JobStore, clock: ManualClock) -> None:
    """A refusal appends nothing and so is not remembered."""
    job_id = created(store, ready_at=clock.now() + DAY)
    store.hold(job_id, by="bob", reason="to look at it")
    refuses("hold_in_force", store.hold, job_id, **BY, command_id="h")
    refuses("hold_in_force", store.claim, job_id, worker="w1", command_id="c", token="a-token")
    store.release_hold(job_id, by="bob", reason="looked at it")
    refuses("not_ready", store.claim, job_id, worker="w1", command_id="c", token="a-token")
    clock.advance(DAY)

    lease = store.claim(job_id, worker="w1", command_id="c", token="a-token")
    assert store.hold(job_id, **BY, command_id="h").state is State.RUNNING

    clock.advance(DAY)
    refuses("lease_expired", store.checkpoint, lease.fence, 1, command_id="s")
    store.renew(lease.fence)
    first = store.checkpoint(lease.fence, 1, command_id="s")
    assert store.checkpoint(lease.fence, 1, command_id="s") == first


def test_a_receipt_that_stood_already_claims_no_id(store: JobStore) -> None:
    """What is answered ``reused`` appended nothing: its id is free for whatever comes next."""
    job_id = created(store)
    store.hold(job_id, **BY)
    assert store.hold(job_id, **BY, command_id="c1").reused

    assert not store.release_hold(job_id, **BY, command_id="c1").reused


def test_a_repeated_renewal_is_another_renewal(store: JobStore, clock: ManualClock) -> None:
    """It has no id and leaves no event: the later one counts, and none moves the expiry back."""
    lease = running(store)
    clock.advance(timedelta(seconds=10))
    first = store.renew(lease.fence)
    clock.advance(timedelta(seconds=10))

    second = store.renew(lease.fence)

    assert second.expires_at - first.expires_at == timedelta(seconds=10)
    assert store.status(lease.job_id).sequence == 2


def test_ids_are_told_apart_job_by_job(store: JobStore) -> None:
    """A command acts on one job: the same id on another job is another command."""
    one, other = created(store, "one"), created(store, "other", ready_at=LATER)

    first, second = (store.hold(job_id, **BY, command_id="c1") for job_id in (one, other))

    assert [first.job_id, second.job_id] == [one, other]
    assert not first.reused
    assert not second.reused


def test_a_command_id_tells_another_namespace_nothing(clock: ManualClock, tmp_path: Path) -> None:
    """Who knows the id of a job and of a command, but works in another namespace, meets no job."""
    for name, opener in OPENERS.items():
        storage = opener(tmp_path, clock)
        ours, theirs = (JobStore(Setting(storage, SeededEntropy(1), namespace)) for namespace in ("ours", "theirs"))
        job_id = created(ours, name)
        ours.hold(job_id, **BY, command_id="c1")

        refuses("unknown_job", theirs.hold, job_id, **BY, command_id="c1")

        storage.close()
