"""The supervisor: broken workers start again after a wait, all end in order, none outlives it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final

import pytest

from jobledger import JobStore, State
from jobledger.adapters.worker import supervising
from jobledger.adapters.worker.supervising import Supervisor
from tests.worker.hosting import created, until
from tests.worker.test_processes import SLOW, is_gone

MODULE: Final = '''
"""Handlers of a project."""
import os, pathlib
from jobledger import JobContext, durable_job

@durable_job("pid")
def pid(job: JobContext) -> int:
    return os.getpid()

@durable_job("dies")
def dies(job: JobContext) -> int:
    if job.attempt == 1:
        os._exit(9)
    return os.getpid()
'''


@contextlib.contextmanager
def supervised(folder: Path, *options: str, module: str = MODULE) -> Generator[subprocess.Popen[str]]:
    """A supervisor over a project's module and its store."""
    (folder / "project.py").write_text(module)
    command = [sys.executable, "-m", "jobledger", "worker", "project", *options]
    running = subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | {"JOBLEDGER_STORE": "sqlite:///jobs.db"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield running
    finally:
        running.kill()
        running.communicate(timeout=SLOW)


def slowly(store: JobStore, is_so: Callable[[], bool]) -> None:
    until(store, is_so, patience=2 * SLOW)


def test_a_worker_that_was_killed_is_started_again_and_its_job_goes_on(on_disk: JobStore, tmp_path: Path) -> None:
    with supervised(tmp_path, "--processes", "2") as running:
        job_id = created(on_disk, "dies")
        slowly(on_disk, lambda: on_disk.status(job_id).state is State.COMPLETE)
        others = [created(on_disk, "pid") for _ in range(40)]
        slowly(on_disk, lambda: all(on_disk.status(each).is_terminal for each in others))
        running.terminate()
        _, log = running.communicate(timeout=SLOW)

    assert running.returncode == 0
    assert "ended with exit code 9 and is started again in" in log
    assert on_disk.status(job_id).generation == 2


def test_a_worker_that_has_run_its_jobs_is_replaced(on_disk: JobStore, tmp_path: Path) -> None:
    with supervised(tmp_path, "--processes=1", "--max-jobs", "3", "--concurrency", "1") as running:
        first = [created(on_disk, "pid") for _ in range(8)]
        slowly(on_disk, lambda: all(on_disk.status(each).is_terminal for each in first))
        running.terminate()
        _, log = running.communicate(timeout=SLOW)

    pids = [on_disk.status(each).result for each in first]
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 2]
    assert "drains: it has run as many jobs as it was to" in log
    assert "ended in order and is started again" in log


def test_a_mistake_that_no_restart_mends_ends_all_with_exit_code_2(tmp_path: Path) -> None:
    with supervised(tmp_path, "--processes", "2", module="import no_such_module\n") as running:
        running.communicate(timeout=2 * SLOW)

    assert running.returncode == 2


def test_workers_drain_when_their_supervisor_is_killed(on_disk: JobStore, tmp_path: Path) -> None:
    with supervised(tmp_path, "--processes", "1") as running:
        job_id = created(on_disk, "pid")
        slowly(on_disk, lambda: on_disk.status(job_id).is_terminal)
        running.send_signal(signal.SIGKILL)
        pid = on_disk.status(job_id).result
        slowly(on_disk, lambda: is_gone(pid))


def test_the_wait_before_a_restart_grows_and_a_steady_worker_resets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is set by hand, and processes are started in no other way than by the supervisor itself."""
    now = [1000.0]
    monkeypatch.setattr(supervising, "elapsed", lambda: now[0])
    monkeypatch.setattr(supervising, "spread", lambda seconds: seconds)
    supervisor = Supervisor([sys.executable, "-c", "raise SystemExit(1)"], 1)
    place = supervisor.places[0]
    waits = []
    for lived in (0, 0, 0, 61, 0):
        supervisor.look(place)
        assert place.process is not None
        place.process.wait(SLOW)
        now[0] += lived
        supervisor.look(place)
        waits.append(place.start_at - now[0])
        now[0] = place.start_at

    supervisor.close()
    assert waits == [0.25, 0.5, 1.0, 0.25, 0.5]
