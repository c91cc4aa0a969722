"""A host claims no more than it can run, drains without loss, and lets producers in only while it is admitted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from jobledger.adapters.bootstrap import JobStore
from jobledger.adapters.clients import JobClient
from jobledger.adapters.worker import AsyncJobContext, HostState, JobContext, JobHost, durable_job, keeping
from jobledger.domain.decisions.working import Effect
from jobledger.domain.errors import InvalidRequestError, ProducerUnavailableError, UnknownKindError
from jobledger.domain.job import State
from tests.worker.hosting import PATIENCE, created, ended, happens, hosted, names, until


@durable_job("k")
def quick(job: JobContext) -> int:
    return job.generation


def test_a_host_moves_through_its_states(memory: JobStore) -> None:
    host = JobHost(memory, [quick])
    states = [host.state]
    host.start()
    states.append(host.state)
    host.admit()
    states.append(host.state)
    host.drain(PATIENCE)
    states.append(host.state)
    host.stop()
    states.append(host.state)

    assert states == ["new", "started", "admitted", "draining", "stopped"]
    with pytest.raises(InvalidRequestError, match="the host is stopped; make a new one"):
        host.admit()


def test_nothing_is_claimed_before_admission(memory: JobStore) -> None:
    job_id = created(memory, "k")

    with JobHost(memory, [quick]) as host:
        memory.wait_for_change(0.3)
        before = memory.status(job_id)
        host.admit()
        after = ended(memory, job_id)

    assert before.state is State.QUEUED
    assert after.state is State.COMPLETE


def test_a_host_that_was_never_started_can_be_stopped(memory: JobStore) -> None:
    host = JobHost(memory, [quick])

    host.stop()
    host.stop()

    assert host.state is HostState.STOPPED


def test_every_thread_of_a_host_ends_with_it(memory: JobStore) -> None:
    @durable_job("async")
    async def handler(job: AsyncJobContext) -> None:
        await job.checkpoint(1)

    with hosted(memory, quick, handler, name="gone"):
        ended(memory, created(memory, "k"))
        ended(memory, created(memory, "async"))

    for thread in threading.enumerate():
        if thread.name.startswith("gone"):
            thread.join(PATIENCE)
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("gone")]


@pytest.mark.parametrize(
    "options",
    [{"concurrency": 0}, {"concurrency": True}, {"queues": "default"}, {"queues": ()}, {"group": ""}, {"name": "\0"}],
)
def test_an_option_out_of_its_range_is_refused(memory: JobStore, options: dict[str, Any]) -> None:
    with pytest.raises(Exception, match=r"concurrency|queues|group|name"):
        JobHost(memory, [quick], **options)


def test_a_host_needs_jobs(memory: JobStore) -> None:
    with pytest.raises(InvalidRequestError):
        JobHost(memory, [])


def test_never_more_is_claimed_than_there_are_free_slots(store: JobStore) -> None:
    """What waits in a claimed but unstarted job would lose its lease to a full host."""
    at_once, most = threading.Semaphore(2), []
    go = threading.Event()

    @durable_job("k")
    def handler() -> None:
        most.append(at_once.acquire(blocking=False))
        assert go.wait(PATIENCE)
        at_once.release()

    jobs = [created(store, "k") for _ in range(6)]
    with hosted(store, handler, concurrency=2):
        until(store, lambda: len(most) == 2)
        store.wait_for_change(0.2)
        running = store.counts()[State.RUNNING]
        go.set()
        for job_id in jobs:
            ended(store, job_id)

    assert running == 2
    assert all(most)


def test_with_one_slot_a_job_begins_after_the_end_of_the_one_before_is_on_record(memory: JobStore) -> None:
    """Also its effects: whoever runs one job after the other relies on what the last one left."""
    versions: list[int] = []

    @durable_job("k")
    def handler(job: JobContext) -> None:
        resource = memory.resource("team", "r")
        versions.append(resource.version if resource else 0)
        job.stage(Effect(resource="r", value=job.job_id, expected_version=versions[-1]))

    with hosted(memory, handler, concurrency=1):
        for job_id in [created(memory, "k") for _ in range(20)]:
            assert ended(memory, job_id).state is State.COMPLETE

    assert versions == list(range(20))


def test_a_host_claims_its_own_kinds_and_queues_only(memory: JobStore) -> None:
    with hosted(memory, quick, queues=("mine",)):
        other_kind = created(memory, "other", queue="mine")
        other_queue = created(memory, "k")
        mine = created(memory, "k", queue="mine")
        ended(memory, mine)

    assert memory.status(other_kind).state is State.QUEUED
    assert memory.status(other_queue).state is State.QUEUED


# Draining -------------------------------------------------------------------------------------------------------------


def test_a_drain_says_what_became_of_each_attempt(on_disk: JobStore) -> None:
    """One completes, one parks at a boundary, one fails and waits, one is left; none is called cancelled."""
    draining, release = threading.Event(), threading.Event()
    began = threading.Semaphore(0)

    @durable_job("k")
    def handler(job: JobContext, how: str) -> str:
        began.release()
        if how == "park":
            while True:
                job.checkpoint(1)
                threading.Event().wait(0.01)
        assert draining.wait(PATIENCE)
        if how == "fail":
            raise OSError
        if how == "stick":
            release.wait(PATIENCE)
        return how

    host = JobHost(on_disk, [handler])
    host.admit()
    jobs = {how: created(on_disk, "k", how, policy="default") for how in ("complete", "park", "fail", "stick")}
    for _ in jobs:
        assert began.acquire(timeout=PATIENCE)
    threading.Timer(0.1, draining.set).start()
    report = host.drain(1.5)
    release.set()
    host.stop()

    assert report.completed == ((jobs["complete"], 1, "complete"),)
    assert set(report.parked) == {(jobs["park"], 1, "parked"), (jobs["fail"], 1, "attempt_failed")}
    assert [(each.job_id, each.generation) for each in report.left] == [(jobs["stick"], 1)]
    assert names(on_disk, jobs["park"])[-1] == "Paused"
    assert names(on_disk, jobs["stick"]) == ["Created", "Claimed"]


def test_a_drained_job_is_claimed_at_once_by_another_host(memory: JobStore) -> None:
    began = threading.Event()

    @durable_job("k")
    def handler(job: JobContext) -> int:
        began.set()
        while job.generation == 1:
            job.boundary()
            threading.Event().wait(0.01)
        return job.generation

    with hosted(memory, handler):
        job_id = created(memory, "k")
        happens(began)
    with hosted(memory, handler):
        status = ended(memory, job_id)

    assert status.result == 2
    assert "Interrupted" not in names(memory, job_id)


@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_handler_that_swallows_everything_does_not_hang_a_drain(memory: JobStore, form: str) -> None:
    began, release = threading.Event(), threading.Event()

    @durable_job("sync")
    def stubborn(job: JobContext) -> None:
        while not release.is_set():
            began.set()
            try:
                job.checkpoint(1)
            except BaseException:  # noqa: BLE001  # the stubborn handler under test
                release.wait(0.01)

    @durable_job("async")
    async def stubborn_task(job: AsyncJobContext) -> None:
        while not release.is_set():
            began.set()
            try:
                await job.checkpoint(1)
            except BaseException:  # noqa: BLE001  # the stubborn handler under test
                release.wait(0.01)

    host = JobHost(memory, [stubborn, stubborn_task])
    host.admit()
    job_id = created(memory, form)
    happens(began)
    drained = threading.Event()
    reports = []

    def drain() -> None:
        reports.append(host.drain(0.3))
        drained.set()

    threading.Thread(target=drain).start()
    assert drained.wait(1.3)
    release.set()
    host.stop()

    assert [each.job_id for each in reports[0].left] == [job_id]
    assert names(memory, job_id)[-1] == "Checkpointed"


def test_a_drain_longer_than_a_lease_keeps_every_lease(memory: JobStore) -> None:
    """Renewal is the last thing that stops."""
    began = threading.Event()

    @durable_job("k")
    def handler(job: JobContext) -> int:
        began.set()
        while not job.pause_requested:
            threading.Event().wait(0.01)
        threading.Event().wait(1.2)
        return job.generation

    with hosted(memory, handler) as host:
        job_id = created(memory, "k")
        happens(began)
        report = host.drain(PATIENCE)

    assert report.completed == ((job_id, 1, "complete"),)
    assert "LeaseRenewedLate" not in names(memory, job_id)


def test_a_host_of_an_old_epoch_stops_claiming_and_drains(memory: JobStore, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "jobledger.worker")

    with hosted(memory, quick) as host:
        memory.advance_epoch("default", by="ann", reason="a new release")
        job_id = created(memory, "k")
        until(memory, lambda: host.state is HostState.DRAINING)

    assert memory.status(job_id).state is State.QUEUED
    assert "drains: group 'default' is at epoch 2" in caplog.text


def test_a_job_of_a_killed_worker_is_taken_over(on_disk: JobStore) -> None:
    job_id = created(on_disk, "k")
    on_disk.claim(job_id, worker="killed", lease=1)

    with hosted(on_disk, quick):
        status = ended(on_disk, job_id)

    assert status.result == 2
    assert names(on_disk, job_id) == ["Created", "Claimed", "Interrupted", "Claimed", "Completed"]


def test_an_attempt_that_never_ends_is_failed_by_its_host_and_keeps_its_slot(memory: JobStore) -> None:
    """Its slot stays taken until the thread really ends: what does not stop still uses the machine."""
    release = threading.Event()

    @durable_job("k")
    def handler() -> None:
        release.wait(PATIENCE)

    with hosted(memory, handler, concurrency=1):
        stuck = ended(memory, created(memory, "k", policy="hasty"))
        waiting = created(memory, "k")
        memory.wait_for_change(0.3)
        meanwhile = memory.status(waiting)
        release.set()
        after = ended(memory, waiting)

    assert stuck.state is State.FAILED
    assert meanwhile.state is State.QUEUED
    assert after.state is State.COMPLETE


def test_a_lease_that_arrives_after_the_drain_began_is_given_back(memory: JobStore) -> None:
    claimed, answer = threading.Event(), threading.Event()
    claim_next, ran_too_late = memory.claim_next, threading.Event()

    def slow_claim(**given: Any) -> Any:
        leases = claim_next(**given)
        if leases:
            claimed.set()
            assert answer.wait(PATIENCE)
        return leases

    @durable_job("k")
    def handler() -> None:
        ran_too_late.set()

    memory.claim_next = slow_claim  # type: ignore[method-assign]  # the reply that is late
    host = JobHost(memory, [handler])
    host.admit()
    job_id = created(memory, "k")
    happens(claimed)
    threading.Timer(0.1, answer.set).start()
    report = host.drain(PATIENCE)
    host.stop()

    assert report.parked == ((job_id, 1, "parked"),)
    assert names(memory, job_id) == ["Created", "Claimed", "Paused"]
    assert not ran_too_late.is_set()


def test_what_no_claim_may_take_is_recovered(memory: JobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job whose worker died with a cancel pending is ended by the sweep of any host."""
    monkeypatch.setattr(keeping, "SWEEP_EVERY", 0.1)
    job_id = created(memory, "k")
    memory.claim(job_id, worker="killed", lease=1)
    memory.request_cancel(job_id, by="ann", reason="enough")

    with hosted(memory, quick):
        status = ended(memory, job_id)

    assert status.state is State.CANCELLED
    assert names(memory, job_id) == ["Created", "Claimed", "CancelRequested", "Interrupted", "Cancelled"]


def test_a_store_that_breaks_stops_no_host(memory: JobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims, renewals and sweeps meet an error that no store should raise, and go on."""
    monkeypatch.setattr(keeping, "SWEEP_EVERY", 0.05)
    broken = {name: threading.Event() for name in ("claim_next", "renew_many", "recover_expired")}
    began, go = threading.Event(), threading.Event()

    def breaking(name: str, call: Any) -> Any:
        def once(*given: Any, **named: Any) -> Any:
            if broken[name].is_set():
                return call(*given, **named)
            broken[name].set()
            raise ZeroDivisionError

        return once

    @durable_job("k")
    def handler() -> str:
        began.set()
        assert go.wait(PATIENCE)
        return "done"

    with hosted(memory, handler):
        job_id = created(memory, "k")
        happens(began)
        for name in broken:
            monkeypatch.setattr(memory, name, breaking(name, getattr(memory, name)))
        for signal_ in broken.values():
            happens(signal_)
        go.set()
        status = ended(memory, job_id)

    assert (status.result, status.generation) == ("done", 1)


# Producers ------------------------------------------------------------------------------------------------------------


def test_producers_are_served_only_while_the_host_is_admitted(memory: JobStore) -> None:
    host = JobHost(memory, [quick])
    client = JobClient(host, "k")
    refused = []

    for step in (host.start, host.admit, lambda: host.drain(PATIENCE), host.stop):
        try:
            client.submit("one", None, PATIENCE)
        except ProducerUnavailableError as error:
            refused.append(error.state)
        step()
    with pytest.raises(ProducerUnavailableError):
        client.submit("two", None, PATIENCE)

    assert refused == ["new", "started", "draining"]
    assert memory.find("default", "two") is None


def test_producers_get_the_policy_and_controls_of_the_handler(memory: JobStore) -> None:
    @durable_job("strict", policy="quick", controls=("cancel",))
    def handler() -> None: ...

    with hosted(memory, handler) as host:
        JobClient(host, "strict").submit("one", None, PATIENCE)
        with pytest.raises(UnknownKindError):
            JobClient(host, "other").submit("one", None, PATIENCE)

    status = memory.find("default", "one")
    assert status is not None
    assert (status.policy, status.controls) == ("quick", ("cancel",))


# A process of its own -------------------------------------------------------------------------------------------------

PROCESS = """
import sys, threading
from jobledger.adapters.bootstrap import JobStore
from jobledger.adapters.worker import JobContext, JobHost, durable_job

@durable_job("patient")
def patient(job: JobContext) -> None:
    print("began", flush=True)
    while True:
        job.checkpoint(1)
        threading.Event().wait(0.01)

@durable_job("stuck")
def stuck(job: JobContext) -> None:
    print("began", flush=True)
    threading.Event().wait(60)

with JobStore.open(sys.argv[1]) as store:
    code = JobHost(store, [patient, stuck]).run()
sys.exit(code)
"""


def _process(url: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", PROCESS, url], stdout=subprocess.PIPE, text=True)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_a_process_and_it_exits_in_peace(tmp_path: Path, number: signal.Signals) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with JobStore.open(url) as store:
        job_id = created(store, "patient", policy="default")
        with _process(url) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "began\n"
            process.send_signal(number)

            assert process.wait(PATIENCE) == 0

        assert store.status(job_id).state is State.PAUSED
        assert names(store, job_id)[-1] == "Paused"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
def test_a_second_signal_does_not_wait_for_what_is_stuck(tmp_path: Path) -> None:
    """The job is left to its lease, and the exit code says that something was left."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with JobStore.open(url) as store:
        job_id = created(store, "stuck", policy="default")
        with _process(url) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "began\n"
            process.send_signal(signal.SIGTERM)
            threading.Event().wait(0.3)
            process.send_signal(signal.SIGTERM)

            assert process.wait(PATIENCE) == 1

        assert names(store, job_id) == ["Created", "Claimed"]


def test_a_host_is_run_on_the_main_thread_only(memory: JobStore) -> None:
    refused: list[InvalidRequestError] = []

    def run() -> None:
        try:
            JobHost(memory, [quick]).run()
        except InvalidRequestError as error:
            refused.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(PATIENCE)

    assert "only the main thread" in str(refused[0])
