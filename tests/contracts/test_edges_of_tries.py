"""How often a command is tried, and what its caller is told when that was not enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from jobledger import JobRequest, JobStore, ManualClock, Schedule
from jobledger.adapters.storage.entropy import SystemEntropy
from jobledger.adapters.storage.memory import MemoryStorage
from jobledger.domain.errors import OutcomeUnknownError, StoreUnavailableError
from jobledger.domain.ports import Append, RolledBackError, Session
from jobledger.domain.store import Setting
from tests.contracts.faults import Fault, FaultyStorage, TwinStorage
from tests.contracts.jobs import created, refuses

OPS: Any = {"by": "ops", "reason": "look"}


@pytest.fixture
def faulty(clock: ManualClock) -> Iterator[FaultyStorage]:
    """A storage whose transactions go wrong as planned."""
    storage = FaultyStorage(MemoryStorage(clock=clock))
    yield storage
    storage.close()


def over(storage: Any) -> JobStore:
    """A store over a storage."""
    return JobStore(Setting(storage, SystemEntropy()))


CALLS: dict[str, Callable[[JobStore, str], object]] = {
    "hold": lambda store, job_id: store.hold(job_id, **OPS),
    "advance_epoch": lambda store, _: store.advance_epoch("g", **OPS),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(
    ("plan", "code"),
    [
        (["down"], "store_unavailable"),
        (["undone", "down"], "outcome_unknown"),
        (["lost", "down"], "outcome_unknown"),
    ],
    ids=str,
)
def test_an_outage_behind_a_lost_reply_leaves_the_outcome_open(
    faulty: FaultyStorage, call: Callable[[JobStore, str], object], plan: list[Fault], code: str
) -> None:
    """Whether the first try was committed is not known, though the second one was not even begun."""
    store = over(faulty)
    job_id = created(store)
    faulty.plan = list(plan)

    refuses(code, call, store, job_id)


def test_a_command_is_sent_four_times_before_its_outcome_is_called_unknown(faulty: FaultyStorage) -> None:
    store = over(faulty)
    faulty.plan = ["undone"] * 3
    job_id = created(store)
    assert faulty.transactions == 4

    faulty.plan = ["undone"] * 4
    with pytest.raises(OutcomeUnknownError):
        store.hold(job_id, **OPS, command_id="c")
    assert faulty.transactions == 8
    assert store.hold(job_id, **OPS, command_id="c").reused is False


def test_what_a_lost_reply_said_is_what_its_repetition_says(faulty: FaultyStorage) -> None:
    """Without an id of the caller's, too: the library's own finds what was written."""
    store = over(faulty)
    job_id = created(store)
    faulty.plan = ["lost"]

    assert store.hold(job_id, **OPS).reused is False
    assert [event.name for event in store.history(job_id)] == ["Created", "HoldPlaced"]


class Losing(TwinStorage):
    """A storage in which somebody else always comes first, so many times."""

    def __init__(self, inner: MemoryStorage, times: int, *, raises: bool) -> None:
        """Say so by the precondition that failed, or by an error of the transaction."""
        self.left = times

        def methods(session: Session) -> dict[str, Callable[..., Any]]:
            def lose() -> bool:
                self.left -= 1
                if self.left >= 0 and raises:
                    reason = "a deadlock"
                    raise RolledBackError(reason)
                return self.left >= 0

            def append(appends: Sequence[Append]) -> list[str | None]:
                return ["sequence"] * len(appends) if lose() else session.append(appends)

            def append_group(*given: Any) -> bool:
                return not lose() and session.append_group(*given)

            def append_schedules(appends: Sequence[Any]) -> list[bool]:
                return [False] * len(appends) if lose() else session.append_schedules(appends)

            def append_queue(given: Any) -> bool:
                return not lose() and session.append_queue(given)

            return {
                "append": append,
                "append_group": append_group,
                "append_schedules": append_schedules,
                "append_queue": append_queue,
            }

        super().__init__(inner, methods)


@pytest.mark.parametrize("raises", [False, True])
def test_a_command_that_always_comes_second_gives_up_at_last(clock: ManualClock, raises: bool) -> None:
    """Fifty times somebody else may have come first."""
    inner = MemoryStorage(clock=clock)
    job_id = created(over(inner))

    assert over(Losing(inner, 50, raises=raises)).hold(job_id, **OPS).reused is False
    with pytest.raises(StoreUnavailableError, match="at every try"):
        over(Losing(inner, 51, raises=raises)).release_hold(job_id, **OPS)


@pytest.mark.parametrize("raises", [False, True])
def test_a_group_that_always_moves_first_is_not_waited_for_for_ever(clock: ManualClock, raises: bool) -> None:
    inner = MemoryStorage(clock=clock)

    assert over(Losing(inner, 49, raises=raises)).advance_epoch("g", **OPS) == 2
    with pytest.raises(StoreUnavailableError, match="at every try"):
        over(Losing(inner, 50, raises=raises)).advance_epoch("g", **OPS)
    assert over(inner).epoch("g") == 2


@pytest.mark.parametrize("raises", [False, True])
def test_a_queue_that_others_always_change_first_is_not_waited_for_for_ever(clock: ManualClock, raises: bool) -> None:
    inner = MemoryStorage(clock=clock)

    assert over(Losing(inner, 49, raises=raises)).queues.hold("q", **OPS).sequence == 1
    with pytest.raises(StoreUnavailableError, match="at every try"):
        over(Losing(inner, 50, raises=raises)).queues.release("q", **OPS)
    assert over(inner).queues.get("q").is_held


@pytest.mark.parametrize("raises", [False, True])
def test_a_schedule_that_others_always_change_first_is_not_waited_for_for_ever(
    clock: ManualClock, raises: bool
) -> None:
    inner = MemoryStorage(clock=clock)

    put = over(Losing(inner, 49, raises=raises)).schedules.put(Schedule("s", "index", every=60), by="ops")
    assert put.sequence == 1
    with pytest.raises(StoreUnavailableError, match="at every try"):
        over(Losing(inner, 60, raises=raises)).schedules.hold("s", **OPS)
    assert over(inner).schedules.get("s").hold is None


def test_a_firing_that_was_rolled_back_is_run_again(clock: ManualClock) -> None:
    inner = MemoryStorage(clock=clock)
    over(inner).schedules.put(Schedule("s", "index", every=60), by="ops")
    clock.advance(timedelta(minutes=2))

    assert over(Losing(inner, 9, raises=True)).schedules.fire_due().fired == 1


def test_one_command_id_advances_one_group_once(local_store: JobStore) -> None:
    first = local_store.advance_epoch("g", **OPS, command_id="c")

    assert local_store.advance_epoch("g", **OPS, command_id="c") == first == local_store.epoch("g")
    refuses("command_changed", local_store.advance_epoch, "g", by="ops", reason="another", command_id="c")
    refuses("command_changed", local_store.advance_epoch, "g", by="ann", reason="look", command_id="c")


def test_several_commands_of_a_batch_on_one_job_are_run_one_after_the_other(local_store: JobStore) -> None:
    """The second create of a key finds what the first one made."""
    request = JobRequest(owner="team", kind="index", key="k")

    answers = [getattr(answer, "reused", answer) for answer in local_store.create_many([request] * 3)]

    assert answers == [False, True, True]
