"""A lost reply costs nothing but another call: the command comes into effect once, and its true answer is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jobledger import Fence, JobRequest, JobStore
from jobledger.adapters.storage.entropy import SeededEntropy
from jobledger.domain.store import Setting
from tests.contracts.commands import COMMANDS, Call
from tests.contracts.conftest import LEASE, POLICIES
from tests.contracts.faults import Fault, FaultyStorage, TwinStorage, forgetting_commands
from tests.contracts.jobs import created, forged, refuses, running
from tests.contracts.lockstep import OPENERS, Lockstep, Refused
from tests.postgresql.stores import WatchedClock

PLANS: Mapping[str, list[Fault]] = {
    "lost": ["lost"],
    "broken before the commit": ["undone"],
    "lost twice": ["lost", "lost"],
    "broken, then lost": ["undone", "lost"],
    "lost, then broken": ["lost", "undone"],
    "lost three times": ["lost", "lost", "lost"],
    "broken three times": ["undone", "undone", "undone"],
    "broken twice, then lost": ["undone", "undone", "lost"],
}
"""What becomes of a command's first transactions."""

cases = pytest.mark.parametrize("command", COMMANDS)
plans = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Lockstep]:
    """A store that never fails, and one of each kind that fails by a plan and must answer the same."""
    together = Lockstep(tmp_path, OPENERS)
    yield together
    together.close()


def made_ready(stores: Lockstep, command: str) -> list[Call]:
    """Bring every store to where the command is accepted."""
    calls = [COMMANDS[command](side.store).call for side in stores.sides]
    stores.follow()
    return calls


@plans
@cases
def test_a_command_whose_reply_was_lost_succeeds_once(stores: Lockstep, command: str, plan: list[Fault]) -> None:
    """The answer and the events, byte for byte, are those of a store that lost nothing."""
    calls = made_ready(stores, command)
    stores.faults = plan

    [answer, *_] = stores.act(lambda side: calls[side.number](None))

    assert not isinstance(answer, Refused)
    assert len({event.command_id for event in stores.news}) == 1
    assert all(side.faulty.transactions > len(plan) for side in stores.sides[1:]), "nothing was lost"


@plans
@cases
def test_a_refusal_whose_reply_was_lost_is_the_same_refusal(stores: Lockstep, command: str, plan: list[Fault]) -> None:
    """Nothing came into effect, so the rules speak again, and say the same."""
    calls = made_ready(stores, command)
    stores.act(lambda side: calls[side.number]("c1"))
    stores.faults = plan

    answers = stores.act(lambda side: calls[side.number]("c1", changed=True))

    assert isinstance(answers[0], Refused)
    assert not stores.news


@plans
@pytest.mark.parametrize("how", ["renew", "renew, late", "claim_next", "recover_expired", "create_many"])
def test_commands_without_an_id_of_the_caller_are_as_safe(stores: Lockstep, how: str, plan: list[Fault]) -> None:
    """The store makes the ids of these before it sends them."""
    fences: list[Fence] = []
    for side in stores.sides:
        created(side.store, "waiting")
        fences.append(running(side.store, "running").fence)
        running(side.store, "another", worker="w2")
    stores.follow()
    if how in ("renew, late", "recover_expired"):
        stores.clock.advance(LEASE * 2)
    wanted = [JobRequest(owner="team", kind="index", key=key) for key in ("n1", "n2", None, "waiting")]
    ways: Mapping[str, Any] = {
        "renew": lambda side: side.store.renew(fences[side.number]),
        "renew, late": lambda side: side.store.renew(fences[side.number]),
        "claim_next": lambda side: side.store.claim_next(worker="w3", limit=3),
        "recover_expired": lambda side: side.store.recover_expired(),
        "create_many": lambda side: side.store.create_many(wanted),
    }
    stores.faults = plan

    [answer, *_] = stores.act(ways[how])

    assert answer
    assert not isinstance(answer, Refused)


@pytest.mark.parametrize("plan", [["lost", "down"], ["undone", "down"], ["lost", "undone", "down"], ["lost"] * 60])
@pytest.mark.parametrize("kind", OPENERS)
@cases
def test_where_nobody_can_say_the_outcome_is_unknown_and_repeating_is_safe(
    tmp_path: Path, kind: str, command: str, plan: list[Fault]
) -> None:
    """``store_unavailable`` would say that nothing was committed; the same id settles it later."""
    with closing(faulty_store(tmp_path, kind)) as store:
        ready = COMMANDS[command](store)
        store.storage.plan = list(plan)
        refuses("outcome_unknown", ready.call, "c1")
        store.storage.plan = []

        answer = ready.call("c1")

        assert ready.call("c1") == answer
        refuses("command_changed", ready.call, "c1", changed=True)
        job_id = ready.job_id or getattr(answer, "job_id", None)
        if job_id is None:
            assert store.epoch("default") == answer
        else:
            causes = [event.command_id for event in store.history(job_id)]
            first = causes.index("c1")
            assert set(causes[first : first + causes.count("c1")]) == {"c1"}
            assert store.verify(job_id).ok


@pytest.mark.parametrize("kind", OPENERS)
@cases
def test_where_nothing_was_sent_the_store_is_unavailable(tmp_path: Path, kind: str, command: str) -> None:
    """No reply was lost, so it is known that nothing was committed."""
    with closing(faulty_store(tmp_path, kind)) as store:
        ready = COMMANDS[command](store)
        before = store.feed(limit=1_000)
        store.storage.plan = ["down"]

        refuses("store_unavailable", ready.call, "c1")

        assert store.feed(limit=1_000) == before


@pytest.mark.parametrize("kind", OPENERS)
def test_a_lost_reply_never_lets_a_stranger_in(tmp_path: Path, kind: str) -> None:
    """What a command left behind is told to whoever gives the same command, token included, and to nobody else."""
    with closing(faulty_store(tmp_path, kind)) as store:
        lease = running(store)
        store.storage.plan = ["lost", "down"]
        refuses("outcome_unknown", store.checkpoint, lease.fence, 1, command_id="c1")

        refuses("command_changed", store.checkpoint, forged(lease.fence), 1, command_id="c1")


@pytest.mark.parametrize("kind", OPENERS)
def test_claim_next_keeps_the_leases_that_it_has(tmp_path: Path, kind: str) -> None:
    """A store that fails while it looks for more takes nothing away from the worker."""
    with closing(faulty_store(tmp_path, kind)) as store:
        created(store)
        store.storage.plan = ["none", "none", "down"]

        leases = store.claim_next(worker="w1", limit=2)

        assert [lease.generation for lease in leases] == [1]


@cases
def test_a_twin_that_does_not_look_ids_up_is_found_out(tmp_path: Path, command: str) -> None:
    """It tells the client of a conflict with its own write, or does it twice."""
    openers = OPENERS | {
        "twin": lambda folder, clock: TwinStorage(OPENERS["memory"](folder, clock), forgetting_commands)
    }
    stores = Lockstep(tmp_path, openers)
    calls = made_ready(stores, command)
    stores.faults = ["lost"]

    with pytest.raises(AssertionError, match="twin"):
        stores.act(lambda side: calls[side.number](None))

    stores.close()


class FaultyStore(JobStore):
    """A store that fails by a plan."""

    def __init__(self, storage: FaultyStorage) -> None:
        """Behave well until there is a plan."""
        super().__init__(Setting(storage, SeededEntropy(1), policies=POLICIES))
        self.storage = storage


def faulty_store(folder: Path, kind: str) -> FaultyStore:
    """A store of a kind that fails by a plan."""
    return FaultyStore(FaultyStorage(OPENERS[kind](folder, WatchedClock())))
