"""Rounds of workers that die at every boundary, or stop and come back: whatever happens, each thing happened once.

`JOBLEDGER_ROUNDS` says how many rounds are made over each store; the full run makes a hundred.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

import pytest

from jobledger import JobHost, JobRequest, JobStore, State
from jobledger.adapters.bootstrap import open_storage
from jobledger.adapters.worker.keeping import SWEEP_EVERY
from tests.postgresql.server import server
from tests.postgresql.stores import fresh_url
from tests.worker.dying import STEPS, Rounds, opened
from tests.worker.hosting import hosted, until
from tests.worker.test_processes import SLOW, is_gone

pytestmark = [pytest.mark.xdist_group("rounds"), pytest.mark.timeout(600)]

ROOT: Final = Path(__file__).resolve().parents[2]
ROUNDS: Final = int(os.environ.get("JOBLEDGER_ROUNDS", "16"))
TOGETHER: Final = 16
"""How many rounds share the wait for a lease to run out."""

FATES: Final = [
    (topic, occurrence, moment)
    for topic, occurrences in (
        ("job.claimed", 1),
        ("job.unit_recorded", STEPS),
        ("job.checkpointed", STEPS),
        ("job.completed", 1),
    )
    for occurrence in range(1, occurrences + 1)
    for moment in ("before", "after")
]
"""Every boundary of an attempt, and both sides of its commit; effects commit with the checkpoints."""


UNHARMED: Final = (FATES[0], FATES[-1])


@dataclass(slots=True)
class Forge:
    """Makes workers, by orders to one process that has imported everything."""

    url: str
    process: subprocess.Popen[str]
    pids: list[int] = field(default_factory=list)

    def worker(
        self,
        queue: str,
        topic: str = "",
        occurrence: int = 1,
        moment: str = "after",
        *,
        number: signal.Signals = signal.SIGKILL,
        is_unfenced: bool = False,
    ) -> int:
        order = {
            "url": self.url,
            "queue": queue,
            "topic": topic,
            "occurrence": occurrence,
            "moment": moment,
            "number": int(number),
            "is_unfenced": is_unfenced,
        }
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        pid = int(self.process.stdout.readline())
        self.pids.append(pid)
        return pid


@pytest.fixture(params=["sqlite", "postgresql"])
def forge(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Forge]:
    """Workers over an empty store of each kind that processes can share."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}" if request.param == "sqlite" else fresh_url()
    open_storage(url, migrate=True).close()
    program = f"import sys; sys.path.append({str(ROOT)!r}); from tests.worker.dying import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        forge = Forge(url, process)
        try:
            yield forge
        finally:
            for pid in forge.pids:
                if not is_gone(pid):
                    os.kill(pid, signal.SIGKILL)
            process.kill()


def created(store: JobStore, queue: str, **payload: Any) -> str:
    request = JobRequest(owner="team", kind="rounds", payload=payload, policy="rounds", queue=queue)
    return store.create(request).job_id


def slowly(store: JobStore, is_so: Callable[[], bool]) -> None:
    until(store, is_so, patience=3 * SLOW)


def problems_of(store: JobStore, job_id: str) -> list[str]:
    """What is wrong with a job that ended: each thing has to have happened once, in the order of generations."""
    events = list(store.history(job_id))
    ends = [event.name for event in events if event.name == "Completed"]
    units = [event.data["unit"] for event in events if event.name == "UnitRecorded"]
    tally = store.resource("team", f"tally {job_id}")
    found = [f"{problem.sequence}: {problem.text}" for problem in store.verify(job_id).problems]
    found += [] if ends == ["Completed"] else [f"terminal events: {ends}"]
    found += [] if sorted(units) == [f"unit {number}" for number in range(STEPS)] else [f"units: {units}"]
    found += [] if tally and (tally.value, tally.version) == (STEPS, STEPS) else [f"effects: {tally}"]
    newest = 0
    for event in events:
        generation = event.data.get("generation", newest)
        if event.name == "Claimed":
            newest = generation
        elif event.name != "Interrupted" and generation != newest:
            found.append(f"{event.sequence}: {event.name} of generation {generation} after {newest} was claimed")
    return found


def all_gone(pids: Sequence[int]) -> bool:
    return all(is_gone(pid) for pid in pids)


def all_ended(store: JobStore, jobs: Sequence[str]) -> bool:
    return all(store.status(job_id).is_terminal for job_id in jobs)


def batches(rounds: int) -> Iterator[Sequence[tuple[str, int, str]]]:
    fates = islice(cycle(FATES), rounds)
    while batch := list(islice(fates, TOGETHER)):
        yield batch


@pytest.mark.slow
def test_a_worker_that_is_killed_at_any_boundary_loses_and_doubles_nothing(forge: Forge) -> None:
    with opened(forge.url) as store:
        for number, fates in enumerate(batches(ROUNDS)):
            queues = [f"{number}-{place}" for place in range(len(fates))]
            jobs = [created(store, queue) for queue in queues]
            pids = [forge.worker(queue, *fate) for queue, fate in zip(queues, fates, strict=True)]
            slowly(store, partial(all_gone, pids))
            with hosted(store, Rounds, queues=queues, concurrency=TOGETHER):
                slowly(store, partial(all_ended, store, jobs))

            problems = {fates[place]: problems_of(store, job_id) for place, job_id in enumerate(jobs)}
            generations = {fates[place]: store.status(job_id).generation for place, job_id in enumerate(jobs)}
            assert not any(problems.values()), problems
            # Those that died before their claim was one, or after their last commit, needed no further attempt.
            assert generations == {fate: 1 if fate in UNHARMED else 2 for fate in fates}


def test_a_job_whose_workers_were_all_killed_is_taken_over_in_time(forge: Forge) -> None:
    """Within a sweep and a second of its lease's end, by the store's own record of both."""
    with opened(forge.url) as store:
        job_id = created(store, "q")
        pid = forge.worker("q", "job.checkpointed", 1)
        slowly(store, partial(all_gone, [pid]))
        with hosted(store, Rounds, queues=["q"]):
            slowly(store, partial(all_ended, store, [job_id]))
        events = list(store.history(job_id))

    interrupted = next(event for event in events if event.name == "Interrupted")
    ran_out = datetime.fromisoformat(interrupted.data["expires_at"])
    assert (interrupted.at - ran_out).total_seconds() <= SWEEP_EVERY + 1


def test_a_drain_under_load_loses_and_doubles_nothing(forge: Forge) -> None:
    """Each run drains a host amid units, effects and checkpoints; the next host goes on with what it parked."""
    with opened(forge.url) as store:
        jobs: list[str] = []
        parked = 0
        for number in range(ROUNDS):
            jobs += [created(store, "q") for _ in range(4)]
            host = JobHost(store, [Rounds], concurrency=8, queues=["q"])
            host.admit()
            until(store, partial(has_moved, store, jobs[-4:], number % (2 * STEPS + 1)))
            report = host.drain(SLOW)
            host.stop()
            assert report.left == ()
            parked += len(report.parked)
        with hosted(store, Rounds, queues=["q"]):
            slowly(store, partial(all_ended, store, jobs))

        assert {job_id: problems for job_id in jobs if (problems := problems_of(store, job_id))} == {}
        assert {store.status(job_id).failures for job_id in jobs} == {0}
        assert parked, "no drain met a running job: nothing was tested"


def has_moved(store: JobStore, jobs: Sequence[str], events: int) -> bool:
    """Whether one of the jobs has got so far that it has so many events more than at its claim."""
    return any(store.status(job_id).sequence >= 2 + events for job_id in jobs)


def test_a_host_whose_connections_are_cut_again_and_again_does_each_job_once() -> None:
    """As by a server that is restarted: every connection of the host ends at once, amid units and checkpoints."""
    name = f"cut-{os.getpid()}"
    url = fresh_url(application_name=name)
    open_storage(url, migrate=True).close()
    jobs: list[str] = []
    cut = 0
    with opened(url) as store, server().connect() as operator:
        with hosted(store, Rounds, queues=["q"], concurrency=4):
            for number in range(max(ROUNDS, 20)):
                jobs += [created(store, "q") for _ in range(3)]
                slowly(store, partial(has_moved, store, jobs[-3:], number % (2 * STEPS + 1)))
                cut += len(operator.execute(CUT, (name,)).fetchall())
            slowly(store, partial(all_ended, store, jobs))

        assert {job_id: problems for job_id in jobs if (problems := problems_of(store, job_id))} == {}
        assert {store.status(job_id).generation for job_id in jobs} == {1}
    assert cut >= 20


CUT: Final = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"


def stopped_and_resumed(forge: Forge, folder: Path, *, is_unfenced: bool) -> list[str]:
    """Stop a worker past its lease, let another one take over, resume the first: what is wrong with the job then."""
    gate = folder / "gate"
    with opened(forge.url) as store:
        job_id = created(store, "q", gate=str(gate))
        old = forge.worker("q", "job.checkpointed", 1, number=signal.SIGSTOP, is_unfenced=is_unfenced)
        slowly(store, lambda: store.status(job_id).checkpoint == 1)
        with hosted(store, Rounds, queues=["q"]):
            slowly(store, gate.with_suffix(".waiting").exists)
            os.kill(old, signal.SIGCONT)
            slowly(store, lambda: is_gone(old))
            gate.touch()
            slowly(store, lambda: store.status(job_id).is_terminal)
        assert store.status(job_id).state is State.COMPLETE
        return problems_of(store, job_id)


def test_a_worker_that_comes_back_after_its_lease_writes_nothing(forge: Forge, tmp_path: Path) -> None:
    assert stopped_and_resumed(forge, tmp_path, is_unfenced=False) == []


@pytest.mark.parametrize("forge", ["sqlite"], indirect=True)
def test_a_worker_without_a_fence_is_noticed_when_it_comes_back(forge: Forge, tmp_path: Path) -> None:
    """The negative control: the same story with the fence taken out of the old worker."""
    problems = stopped_and_resumed(forge, tmp_path, is_unfenced=True)

    assert any("of generation 1 after 2 was claimed" in problem for problem in problems)
