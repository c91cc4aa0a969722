"""Probes, recycling and logs of a host."""

from __future__ import annotations

import json
import logging
import threading
from typing import Any

import pytest

from jobledger import JobContext, JobHost, JobStore, Policy, durable_job
from jobledger.adapters.worker import caution, claiming, clock
from jobledger.adapters.worker.claiming import POLL_MAX
from jobledger.adapters.worker.health import RED_AFTER, memory_bytes
from jobledger.adapters.worker.host import HostState
from jobledger.adapters.worker.logs import JobLogFields, JobLogJson, JobLogText
from tests.worker.hosting import PATIENCE, created, ended, happens, hosted, opened, until
from tests.worker.outages import FragileStorage


@durable_job("k")
def handler() -> None: ...


def test_a_host_is_well_while_it_looks_for_work(memory: JobStore) -> None:
    host = JobHost(memory, [handler], concurrency=3)
    assert host.health().is_well
    with host:
        host.admit()
        health = host.health()
        assert (health.is_well, health.state, health.running, health.free) == (True, "admitted", 0, 3)

    assert host.health().problem == "it was stopped"


def test_a_host_is_not_well_when_no_look_succeeded_for_three_intervals(
    fragile: FragileStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is away: the process lives, and does nothing."""
    with opened(fragile) as store, hosted(store, handler) as host:
        fragile.is_down = True
        happens(fragile.refused)
        before = host.health()
        ahead = clock.elapsed() + RED_AFTER * POLL_MAX + 1
        monkeypatch.setattr(claiming, "elapsed", lambda: ahead)
        after = host.health()
        monkeypatch.undo()
        fragile.is_down = False

    assert before.is_well
    assert not after.is_well
    assert str(after.problem).startswith("no look for work succeeded for")


def test_a_host_that_waits_after_one_failed_call_is_well(
    fragile: FragileStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is back at once; the host claims nothing for a while on purpose, and must not be restarted for it."""
    with opened(fragile) as store, hosted(store, handler) as host:
        fragile.is_down = True
        happens(fragile.refused)
        fragile.is_down = False
        ahead = clock.elapsed() + RED_AFTER * POLL_MAX + 1
        monkeypatch.setattr(claiming, "elapsed", lambda: ahead)
        monkeypatch.setattr(caution, "elapsed", lambda: ahead)
        waiting = host.health()
        ahead += Policy().renew_every.total_seconds()
        silent = host.health()
        monkeypatch.undo()

    assert waiting.is_well, waiting.problem
    assert not silent.is_well


def test_a_host_whose_slots_are_all_taken_is_well(memory: JobStore) -> None:
    began, go = threading.Event(), threading.Event()

    @durable_job("busy")
    def busy() -> None:
        began.set()
        assert go.wait(PATIENCE)

    with hosted(memory, busy, concurrency=1) as host:
        created(memory, "busy")
        happens(began)
        threading.Event().wait(POLL_MAX * 1.5)
        health = host.health()
        go.set()

    assert (health.is_well, health.running, health.free) == (True, 1, 0)


def test_a_host_drains_after_its_jobs(memory: JobStore) -> None:
    host = JobHost(memory, [handler], concurrency=1, max_jobs=2)
    host.admit()
    for _ in range(2):
        ended(memory, created(memory, "k"))
    until(memory, lambda: host.state is HostState.DRAINING)
    host.stop()


def test_a_host_drains_once_its_memory_has_grown(memory: JobStore) -> None:
    host = JobHost(memory, [handler], max_memory=memory_bytes() // 2)
    host.admit()
    until(memory, lambda: host.state is HostState.DRAINING)
    host.stop()


def test_memory_is_what_this_process_has() -> None:
    before = memory_bytes()
    ballast = bytearray(64 * 1024 * 1024)
    ballast[::4096] = b"x" * len(ballast[::4096])

    assert memory_bytes() - before > 32 * 1024 * 1024


class Lines(logging.Handler):
    """Keeps what a formatter makes of the records."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.addFilter(JobLogFields())
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def logged(memory: JobStore, formatter: logging.Formatter, job: Any) -> tuple[str, list[str]]:
    lines, logger = Lines(formatter), logging.getLogger("tests.health")
    logger.addHandler(lines)
    try:
        with hosted(memory, job):
            job_id = created(memory, "says", policy="small")
            ended(memory, job_id)
        logger.warning("outside of every job")
    finally:
        logger.removeHandler(lines)
    return job_id, lines.lines


@durable_job("says")
def says(job: JobContext) -> None:
    try:
        int(f"attempt {job.attempt}")
    except ValueError:
        logging.getLogger("tests.health").exception("a line\nof two")


def test_records_of_a_handler_say_which_job_they_are_about_as_json(memory: JobStore) -> None:
    job_id, (inside, outside) = logged(memory, JobLogJson(), says)

    said = json.loads(inside)
    assert (said["job_id"], said["generation"], said["kind"]) == (job_id, 1, "says")
    assert (said["level"], said["message"]) == ("error", "a line\nof two")
    assert "ValueError: invalid literal" in said["error"]
    assert "job_id" not in json.loads(outside)
    assert "\n" not in inside


def test_records_of_a_handler_say_which_job_they_are_about_as_text(memory: JobStore) -> None:
    job_id, (inside, outside) = logged(memory, JobLogText(), says)

    assert f"[job {job_id}, generation 1, says]" in inside
    assert "[job" not in outside
