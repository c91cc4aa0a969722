"""Handlers in child processes: all that a thread can do, and crashes that leave the host as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from jobledger import JobHost, JobStore, Outcome, State, durable_job
from jobledger.adapters.worker.children import Children
from jobledger.domain.answers import Progress
from jobledger.domain.errors import InvalidHookError
from tests.worker import in_processes as handlers
from tests.worker.hosting import created, ended, hosted, names, until

pytestmark = pytest.mark.xdist_group("processes")

SLOW: Final = 30.0
"""Seconds that a new interpreter may take on a busy machine."""


def finished(store: JobStore, job_id: str) -> Any:
    return store.wait(job_id, SLOW)


def is_gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has asked about counts as ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path("/proc/self").exists()


def appears(store: JobStore, place: Path) -> None:
    until_slow(store, place.exists)


def until_slow(store: JobStore, is_so: Callable[[], bool]) -> None:
    until(store, is_so, patience=SLOW)


def test_a_handler_in_a_process_has_all_that_one_in_a_thread_has(store: JobStore) -> None:
    with hosted(store, handlers.uses, handlers.conflicts, handlers.awaits, handlers.insides, concurrency=1):
        uses = finished(store, created(store, "uses", policy="steady"))
        conflicts = finished(store, created(store, "conflicts", policy="steady"))
        awaits = finished(store, created(store, "awaits", {"n": 3}, policy="steady"))
        insides = finished(store, created(store, "insides", policy="small"))
        resource = store.resource("team", "r")

    assert uses.result == [1, 1, {"n": 1}]
    assert (uses.units, uses.checkpoint, uses.progress) == (1, {"n": 1}, Progress(3, 4))
    assert resource is not None
    assert (resource.value, resource.version) == ([2], 2)
    assert conflicts.result[0] == "EffectConflictError"
    assert "is at version 2, the effect expected 5" in conflicts.result[1]
    assert (awaits.result, awaits.checkpoint) == (4, {"n": 3})
    assert (insides.state, "executor='thread'" in str(insides.error)) == (State.FAILED, True)


ENDINGS: Final[dict[str, tuple[State, str]]] = {
    "partial": (State.PARTIAL, "half of it"),
    "unavailable": (State.UNAVAILABLE, "nothing there"),
    "error": (State.FAILED, "ValueError: it broke"),
    "unstorable": (State.FAILED, "unstorable_value: the result cannot be stored"),
    "generator": (State.FAILED, "the handler returned a generator"),
    "huge": (State.FAILED, "result_too_large: the result is 2,097,154 bytes"),
    "exit": (State.FAILED, "SystemExit: 3"),
    "unspeakable": (State.FAILED, "UnspeakableError: (its text could not be made"),
    "memory": (State.FAILED, "MemoryError"),
    "os._exit": (State.FAILED, "the handler did not end: its process ended with exit code 3"),
    "segfault": (State.FAILED, "the handler did not end: its process was ended by SIGSEGV"),
    "kill": (State.FAILED, "the handler did not end: its process was ended by SIGKILL"),
    "pipes": (State.FAILED, "the handler did not end: its process spoke no more"),
}


def test_every_end_of_a_process_is_a_typed_end_of_the_attempt_and_the_host_lives(memory: JobStore) -> None:
    """Also a crash: no memory is shared with it, so there is nothing of the host that it could break."""
    with hosted(memory, handlers.ends, concurrency=2):
        ids = {how: created(memory, "ends", {"how": how}, policy="small") for how in ENDINGS}
        stories = {how: finished(memory, job_id) for how, job_id in ids.items()}
        after = finished(memory, created(memory, "ends", {"how": "value"}, policy="steady"))

    for how, (state, error) in ENDINGS.items():
        assert stories[how].state is state, how
        assert str(stories[how].error).startswith(error), how
    assert after.outcome is Outcome.COMPLETE


def test_endings_that_wait_are_published_as_from_a_thread(memory: JobStore) -> None:
    with hosted(memory, handlers.ends, concurrency=1):
        deferred = created(memory, "ends", {"how": "defer"})
        retried = created(memory, "ends", {"how": "retry"})
        until_slow(memory, lambda: "Paused" in names(memory, deferred))
        until_slow(memory, lambda: "AttemptFailed" in names(memory, retried))

    assert memory.status(deferred).checkpoint == {"at": 4}
    assert memory.status(retried).error == "OSError: the disk"


def test_after_a_crash_the_next_attempt_goes_on_from_the_checkpoint(store: JobStore) -> None:
    with hosted(store, handlers.Counted):
        status = finished(store, created(store, "counted", {"batches": 5, "crash_after": 3}, policy="quick"))

    assert status.result[:2] == [2, 5]
    assert names(store, status.job_id).count("AttemptFailed") == 1


def test_a_child_is_used_again_and_ends_with_its_host(memory: JobStore) -> None:
    with hosted(memory, handlers.ends, concurrency=1):
        pids = {finished(memory, created(memory, "ends", {"how": "value"})).result["pid"] for _ in range(3)}
        idle = next(iter(pids))
        assert not is_gone(idle)

    assert pids == {idle}
    until_slow(memory, lambda: is_gone(idle))


def test_a_handler_that_holds_its_interpreter_keeps_its_lease(memory: JobStore) -> None:
    """It computes in C for three leases; nothing in its process renews, so nothing there can be starved."""
    with hosted(memory, handlers.holds):
        status = finished(memory, created(memory, "holds", {"seconds": 3.2}, policy="quick"))

    assert status.result == 1
    assert names(memory, status.job_id) == ["Created", "Claimed", "Completed"]


def test_a_hold_parks_a_child_at_its_boundary_and_a_release_goes_on(memory: JobStore, tmp_path: Path) -> None:
    with hosted(memory, handlers.cooperates):
        job_id = created(memory, "cooperates", {"signs": str(tmp_path)}, policy="quick")
        appears(memory, tmp_path / "began")
        memory.hold(job_id, by="alice", reason="the disk is full")
        until_slow(memory, lambda: memory.status(job_id).state is State.PAUSED)
        assert (tmp_path / "cleaned").exists()
        assert memory.status(job_id).checkpoint == {"began": True}
        (tmp_path / "began").unlink()
        memory.release_hold(job_id, by="alice", reason="cleaned up")
        appears(memory, tmp_path / "began")
        memory.request_cancel(job_id, by="alice", reason="enough")
        assert finished(memory, job_id).state is State.CANCELLED

    assert (tmp_path / "cancelled").exists()


def test_a_drain_parks_a_child_at_its_boundary(memory: JobStore, tmp_path: Path) -> None:
    host = JobHost(memory, [handlers.cooperates])
    host.admit()
    job_id = created(memory, "cooperates", {"signs": str(tmp_path)}, policy="steady")
    appears(memory, tmp_path / "began")
    report = host.drain(SLOW)
    host.stop()

    assert report.parked == ((job_id, 1, "parked"),)
    assert (tmp_path / "cleaned").exists()


def test_a_lost_lease_reaches_a_child(memory: JobStore, tmp_path: Path) -> None:
    with hosted(memory, handlers.cooperates):
        job_id = created(memory, "cooperates", {"signs": str(tmp_path)}, policy="steady")
        appears(memory, tmp_path / "began")
        memory.advance_epoch("default", by="alice", reason="a new release")
        until_slow(memory, (tmp_path / "cleaned").exists)

    assert memory.status(job_id).outcome is None


def test_a_child_that_swallows_everything_is_ended_with_all_that_it_started(memory: JobStore, tmp_path: Path) -> None:
    """Its attempt is beyond its time: a thread would keep its slot for ever, a process is ended."""
    with hosted(memory, handlers.hangs, handlers.ends, concurrency=1):
        job_id = created(memory, "hangs", {"signs": str(tmp_path)}, policy="hasty")
        status = finished(memory, job_id)
        pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        after = finished(memory, created(memory, "ends", {"how": "value"}))
        until_slow(memory, lambda: all(is_gone(pid) for pid in pids))

    assert "run_time_max" in str(status.error)
    assert after.outcome is Outcome.COMPLETE


def test_a_child_that_does_not_end_is_left_by_a_drain_and_ended_with_its_host(memory: JobStore, tmp_path: Path) -> None:
    host = JobHost(memory, [handlers.hangs])
    host.admit()
    job_id = created(memory, "hangs", {"signs": str(tmp_path)}, policy="steady")
    appears(memory, tmp_path / "pids")
    until_slow(memory, lambda: len((tmp_path / "pids").read_text().split()) == 2)
    report = host.drain(0.2)
    host.stop()
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    until_slow(memory, lambda: all(is_gone(pid) for pid in pids))

    assert [(each.job_id, each.why) for each in report.left] == [(job_id, "its handler had not ended by the deadline")]
    assert names(memory, job_id) == ["Created", "Claimed"]


def test_a_slot_is_kept_until_what_a_handler_started_has_ended(memory: JobStore, tmp_path: Path) -> None:
    with hosted(memory, handlers.leaves, concurrency=1):
        job_id = created(memory, "leaves", {"signs": str(tmp_path), "seconds": 1.0}, policy="steady")
        appears(memory, tmp_path / "pids")
        finished(memory, job_id)

        assert is_gone(int((tmp_path / "pids").read_text()))


def test_what_a_handler_leaves_behind_is_ended_after_a_while(memory: JobStore, tmp_path: Path) -> None:
    with hosted(memory, handlers.leaves, concurrency=1):
        job_id = created(memory, "leaves", {"signs": str(tmp_path), "seconds": 600}, policy="steady")
        status = finished(memory, job_id)
        pid = int((tmp_path / "pids").read_text())
        until_slow(memory, lambda: is_gone(pid))

    assert status.result == "done"


def test_a_million_words_of_progress_from_a_child_are_a_few_events(memory: JobStore) -> None:
    with hosted(memory, handlers.speaks):
        status = finished(memory, created(memory, "speaks", {"words": 1_000_000}, policy="steady"))

    assert status.progress == Progress(999_999, 1_000_000)
    assert names(memory, status.job_id).count("ProgressReported") < 60


def test_log_records_of_a_child_are_the_hosts_and_carry_the_job(
    memory: JobStore, caplog: pytest.LogCaptureFixture
) -> None:
    with hosted(memory, handlers.uses):
        status = finished(memory, created(memory, "uses", policy="steady"))

    record = next(each for each in caplog.records if each.name == "tests.uses")
    assert record.getMessage() == "hello from the child"
    assert vars(record)["job_id"] == status.job_id
    assert vars(record)["kind"] == "uses"


HOST: Final = """
import sys
sys.path.insert(0, {root!r})
import importlib.util
spec = importlib.util.spec_from_file_location("handlers", {file!r})
handlers = importlib.util.module_from_spec(spec)
sys.modules["handlers"] = handlers
spec.loader.exec_module(handlers)
from jobledger import JobHost, JobStore, Policy
with JobStore.open({url!r}) as store:
    JobHost(store, [handlers.hangs]).run()
"""


def test_children_end_with_a_host_that_was_killed(on_disk: JobStore, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    file = handlers.__file__
    program = HOST.format(root=str(tmp_path), file=file, url=url)
    job_id = created(on_disk, "hangs", {"signs": str(tmp_path)}, policy="steady")
    host = subprocess.Popen([sys.executable, "-c", program])
    try:
        appears(on_disk, tmp_path / "pids")
        host.send_signal(signal.SIGKILL)
        host.wait(SLOW)
        pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        until_slow(on_disk, lambda: all(is_gone(pid) for pid in pids))
    finally:
        host.kill()
        host.wait(SLOW)

    assert on_disk.status(job_id).outcome is None


def test_a_main_script_may_have_its_handlers_in_processes(on_disk: JobStore, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        '"""A program."""\n'
        "import os\n"
        "from jobledger import JobHost, JobStore, durable_job\n\n\n"
        '@durable_job("k", executor="process")\n'
        "def handler(n: int) -> list:\n"
        "    return [n, os.getppid()]\n\n\n"
        'if __name__ == "__main__":\n'
        f"    with JobStore.open('sqlite:///{tmp_path / 'jobs.db'}') as store:\n"
        "        JobHost(store, [handler]).run()\n"
    )
    job_id = created(on_disk, "k", {"n": 4})
    host = subprocess.Popen([sys.executable, str(script)])
    try:
        assert finished(on_disk, job_id).result == [4, host.pid]
        host.terminate()
        assert host.wait(SLOW) == 0
    finally:
        host.kill()
        host.wait(SLOW)


def test_a_handler_that_no_process_can_find_is_refused_where_it_stands() -> None:
    with pytest.raises(InvalidHookError, match="a child process finds its handler by name"):

        @durable_job("k", executor="process")
        def handler() -> None: ...


def test_an_executor_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidHookError, match="executor is 'thread' or 'process', not 'fibre'"):
        durable_job("k", executor="fibre")(handlers.burn)  # type: ignore[arg-type]  # the mistake


def test_a_process_that_cannot_be_started_is_a_failed_attempt(
    memory: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broke(_: Children) -> Any:
        reason = "no more processes"
        raise OSError(reason)

    monkeypatch.setattr(Children, "take", broke)
    with hosted(memory, handlers.ends):
        status = ended(memory, created(memory, "ends", {"how": "value"}, policy="small"))

    assert str(status.error) == "no child process could be started: OSError: no more processes"


def test_two_children_compute_at_once(memory: JobStore) -> None:
    """Slots are processes: two handlers that hold their interpreters run side by side."""
    before = threading.active_count()

    with hosted(memory, handlers.ends, concurrency=2):
        ids = [created(memory, "ends", {"how": "value"}) for _ in range(40)]
        pids = {finished(memory, job_id).result["pid"] for job_id in ids}

    assert len(pids) <= 2
    assert threading.active_count() < before + 30
