"""Schedulers as processes: killed around ticks, many at once, with clocks that differ; one job an instant always."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from jobledger import JobStore, ManualClock
from tests.contracts.schedules import fired, jobs_of, put, skipped

SECOND: Final = timedelta(seconds=1)
PHASES: Final = 10
"""So many schedules, each a tenth of a second after the one before: a tick comes every 100 milliseconds."""

KILLING: Final = """
    import json, os, random, signal, sys, time
    from jobledger import JobRequest, JobStore
    from jobledger.adapters.worker.scheduling import Scheduling
    from jobledger.domain.schedule_events import ScheduleFired
    from jobledger.domain.store.executing import cause_of
    from jobledger.domain.store.occurring import occurrence_key
    from jobledger.domain.store.scheduling import draft_schedule

    url, scheduler, kills, schedulers, spread = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])

    def honest():
        scheduling = Scheduling(JobStore.open(url), name="killed")
        scheduling.start()
        scheduling.join(1_000)

    def naive():
        # What many a scheduler does: make the job, then remember that it was made.
        store = JobStore.open(url)
        storage = store._setting.storage
        while True:
            with storage.reading() as reader:
                due = reader.due_schedules("default", after=None, limit=10)
                found = reader.schedules("default", [each.name for each in due])
            for name, loaded in found.items():
                state = loaded.state
                key = occurrence_key(name, state.next_at) + "#" + os.urandom(8).hex()
                job = store.create(JobRequest(owner="default", kind="index", key=key, labels={"schedule": name}))
                with storage.writing(store._setting.patience) as session:
                    fact = ScheduleFired(
                        at=max(session.now(), state.updated_at), instant=state.next_at, job_id=job.job_id, how="due",
                        next_at=state.next_at + state.definition.every,
                    )
                    session.append_schedules([draft_schedule(state, loaded.head, [fact], cause_of("x", [], "x"))])
            time.sleep(0.001)

    def start():
        pid = os.fork()
        if pid == 0:
            try:
                {"honest": honest, "naive": naive}[scheduler]()
            finally:
                os._exit(1)
        return pid

    chance = random.Random(7)
    running = [start() for _ in range(schedulers)]
    for number in range(kills):
        if spread:  # in milliseconds: within so much of a tick, which comes at each tenth of a second
            tick = (int(time.time() * 10) + 3) / 10
            time.sleep(max(0.0, tick + chance.uniform(-spread, spread) / 1_000 - time.time()))
        else:
            time.sleep(1 / kills)
        victim = running.pop(0)
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
        running.append(start())
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    print(json.dumps({"kills": kills}))
"""


def killed(url: str, scheduler: str, *, kills: int, schedulers: int, spread: int) -> None:
    """Run schedulers that are killed and replaced; whatever is due at the end is settled by an honest one."""
    with JobStore.open(url) as store:
        began = datetime.now(UTC).replace(microsecond=0)
        for phase in range(PHASES):
            anchor = began + phase * SECOND / PHASES
            put(store, f"s{phase}", every=1, anchor=anchor, overlap="allow", catch_up="all")
    arguments = [url, scheduler, str(kills), str(schedulers), str(spread)]
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLING), *arguments],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {"kills": kills}
    with JobStore.open(url) as store:
        assert sum(store.counts().values()) > PHASES, "no scheduler lived long enough to fire anything"
        store.schedules.fire_due()


def doubled(url: str) -> Counter[str]:
    """The instants that made more than one job, by the key that they give."""
    with JobStore.open(url) as store:
        keys = Counter(
            (job.key or "").partition("#")[0] for phase in range(PHASES) for job in jobs_of(store, f"s{phase}")
        )
    return Counter({key: count for key, count in keys.items() if count > 1})


def require_each_once(url: str) -> None:
    """Every instant since the schedules were put has fired once, has one job, and the history proves it."""
    assert not doubled(url)
    with JobStore.open(url) as store:
        for phase in range(PHASES):
            name = f"s{phase}"
            instants = fired(store, name)
            assert instants == [instants[0] + SECOND * number for number in range(len(instants))]
            assert len(jobs_of(store, name)) == len(instants)
            assert not skipped(store, name)
            assert store.schedules.verify(name).problems == ()


@pytest.mark.slow
def test_a_scheduler_that_is_killed_within_ten_milliseconds_of_a_tick_loses_and_doubles_nothing(url: str) -> None:
    """Fifty times, before and after ticks: what it had begun is undone or whole, and the next one goes on."""
    killed(url, "honest", kills=50, schedulers=1, spread=10)

    require_each_once(url)


def test_a_scheduler_that_remembers_afterwards_doubles(url: str) -> None:
    """The control: under the same kills, a twin that makes the job first and then moves the plan is caught."""
    killed(url, "naive", kills=25, schedulers=3, spread=10)

    assert doubled(url)


def test_eight_schedulers_with_twenty_restarts_in_one_period_make_one_job_an_instant(url: str) -> None:
    """Whoever comes first makes it, whoever dies is replaced, and nobody is elected."""
    killed(url, "honest", kills=20, schedulers=8, spread=0)

    require_each_once(url)


def test_hosts_whose_clocks_differ_by_five_seconds_make_one_job_an_instant(tmp_path: Path) -> None:
    """The key is the nominal instant, whoever's clock brought it; here one is early by 5 s, and one late."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    start = datetime(2026, 6, 1, 12, tzinfo=UTC)
    clocks = [ManualClock(start + 5 * SECOND), ManualClock(start - 5 * SECOND), ManualClock(start)]
    stores = [JobStore.open(url, clock=clock) for clock in clocks]
    put(stores[2], every=10, overlap="allow", catch_up="all")

    for _ in range(120):
        for clock, store in zip(clocks, stores, strict=True):
            clock.advance(SECOND)
            store.schedules.fire_due()

    assert fired(stores[2]) == [start + 10 * SECOND * number for number in range(1, 13)]
    assert len(jobs_of(stores[2])) == 12
    assert stores[2].schedules.verify("s").ok
    for store in stores:
        store.close()
