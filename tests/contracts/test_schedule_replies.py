"""Schedules when replies get lost, and awaited: each command acts once, each instant makes one job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from jobledger import AsyncJobStore, JobStore, ManualClock, Schedule
from jobledger.adapters.aio_schedules import AsyncSchedules
from jobledger.adapters.bootstrap import Schedules
from jobledger.adapters.storage.entropy import SystemEntropy
from jobledger.adapters.storage.memory import MemoryStorage
from jobledger.domain.store import Setting
from tests.contracts.faults import Fault, FaultyStorage
from tests.contracts.jobs import refuses
from tests.contracts.schedules import BY, WHY, fired, jobs_of, put

MINUTE = timedelta(minutes=1)

COMMANDS: dict[str, Callable[[JobStore, ManualClock], object]] = {
    "put": lambda store, _: put(store, overlap="allow", catch_up="all", priority=1),
    "hold": lambda store, _: store.schedules.hold("s", **WHY),
    "trigger": lambda store, _: store.schedules.trigger("s", **WHY),
    "backfill": lambda store, clock: store.schedules.backfill("s", clock.now() - 150 * MINUTE, clock.now(), **WHY),
    "remove": lambda store, _: store.schedules.remove("s", **WHY),
    "fire": lambda store, _: store.schedules.fire_due(),
}


@pytest.mark.parametrize("plan", [["lost"], ["undone"], ["lost", "undone", "lost"]], ids=str)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_reply_that_is_lost_changes_nothing(command: str, plan: list[Fault], clock: ManualClock) -> None:
    """What was committed is found again, what was not is done; the history is the one of a quiet day."""
    histories: list[list[str]] = []
    for faults in ([], plan):
        own = ManualClock(clock.now())
        storage = FaultyStorage(MemoryStorage(clock=own))
        store = JobStore(Setting(storage, SystemEntropy()))
        put(store, overlap="allow", catch_up="all")
        own.advance(3 * MINUTE)
        storage.plan = list(faults)

        COMMANDS[command](store, own)

        assert storage.plan == []
        storage.plan = []
        store.schedules.fire_due()
        histories.append([event.name for event in store.schedules.history("s")])
        assert store.schedules.verify("s").problems == ()
        keys = [job.key for job in jobs_of(store)]
        assert len(keys) == len(set(keys)) == sum("Fired" in name for name in histories[-1])

    assert histories[0] == histories[1]


def test_a_store_that_cannot_answer_says_so(clock: ManualClock) -> None:
    """Where nobody can tell what became of it, repeating with the same command id finds it."""
    storage = FaultyStorage(MemoryStorage(clock=clock))
    store = JobStore(Setting(storage, SystemEntropy()))
    storage.plan = ["down"]
    refuses("store_unavailable", put, store)
    storage.plan = ["lost", "down"]
    schedule = Schedule("s", "index", every=60)
    refuses("outcome_unknown", store.schedules.put, schedule, **BY, command_id="c1")

    assert not store.schedules.put(schedule, **BY, command_id="c1").reused
    assert store.schedules.get("s").sequence == 1


def test_the_awaitable_schedules_have_the_same_methods(local_store: JobStore, clock: ManualClock) -> None:
    """Each is the blocking one, awaited; nothing is missing."""
    assert {name for name in dir(Schedules) if not name.startswith("_")} <= set(dir(AsyncSchedules))

    async def follow() -> Any:
        schedules = AsyncJobStore(local_store).schedules
        await schedules.put(Schedule("s", "index", every=60), **BY)
        clock.advance(MINUTE)
        report = await schedules.fire_due()
        page = await schedules.list()
        names = [event.name async for event in schedules.history("s")]
        return report.fired, [each.name for each in page.schedules], names

    assert asyncio.run(follow()) == (1, ["s"], ["ScheduleCreated", "ScheduleFired"])
    assert len(fired(local_store)) == 1
