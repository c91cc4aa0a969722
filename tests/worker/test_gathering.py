"""Group commit: writes that come while one is under way share the next transaction, each answered for itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from jobledger import JobContext, JobStore, durable_job
from jobledger.adapters.worker import launching
from jobledger.adapters.worker.gathering import TOGETHER_MAX, GroupCommit
from jobledger.adapters.worker.threads import SlotThreads
from jobledger.domain.answers import ExecutionResult, Lease
from jobledger.domain.errors import ResultTooLargeError, StaleFenceError, StoreUnavailableError
from jobledger.domain.lease import Fence
from jobledger.domain.ports import Session
from jobledger.domain.store.executing import execute_one
from tests.worker.hosting import PATIENCE, created, ended, happens, hosted, names, opened, until
from tests.worker.outages import FragileStorage


class GatedStorage(FragileStorage):
    """A storage that lets a test look into each transaction, and hold one open."""

    def __init__(self) -> None:
        super().__init__()
        self.transactions: list[int] = []
        self.is_counting = False
        self.entered, self.gate = threading.Event(), threading.Event()
        self.gate.set()
        self.broken_job = ""
        """A job at whose sight the code breaks, as by a fault in it."""

    @contextmanager
    def _writing(self, patience: timedelta, connection: object | None) -> Generator[Session]:
        with super()._writing(patience, connection) as session:
            if self.is_counting:
                self.entered.set()
                assert self.gate.wait(PATIENCE)
            append, load = session.append, session.load

            def counting(appends: Any) -> Any:
                if self.is_counting:
                    self.transactions.append(len(appends))
                return append(appends)

            def breaking(job_ids: Any) -> Any:
                if self.broken_job in job_ids:
                    raise ZeroDivisionError
                return load(job_ids)

            session.append, session.load = counting, breaking  # type: ignore[method-assign]  # looked at, and passed on
            yield session


def claimed(store: JobStore, count: int, *, policy: str = "steady") -> list[Lease]:
    for _ in range(count):
        created(store, "k", policy=policy)
    return store.claim_next(worker="w", limit=count)


def all_at_once(storage: GatedStorage, calls: list[Callable[[], Any]], waiting: Callable[[], int]) -> list[Any]:
    """Make the first call, hold its transaction open until all others wait, and answer what each got."""
    answers: list[Any] = [None] * len(calls)

    def ask(place: int) -> None:
        try:
            answers[place] = calls[place]()
        except Exception as error:  # noqa: BLE001  # whatever it got is its answer
            answers[place] = error

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(len(calls))]
    storage.is_counting = True
    storage.gate.clear()
    threads[0].start()
    happens(storage.entered)
    for thread in threads[1:]:
        thread.start()
    give_up = threading.Event()
    for _ in range(int(PATIENCE * 100)):
        if waiting() == len(calls) - 1:
            break
        give_up.wait(0.01)
    storage.gate.set()
    for thread in threads:
        thread.join(PATIENCE)
    return answers


@pytest.fixture
def gated() -> GatedStorage:
    return GatedStorage()


def group(store: JobStore) -> GroupCommit:
    """A group commit to which nothing is posted."""
    return GroupCommit(store.setting, list.clear)


def completing(store: JobStore, lease: Lease, result: Any = None) -> Callable[[], ExecutionResult]:
    return lambda: store.complete(lease.fence, result=result)


def test_a_lone_write_goes_at_once(gated: GatedStorage) -> None:
    with opened(gated) as store:
        lease = claimed(store, 1)[0]
        gated.is_counting = True
        shared = store.through(group(store))

        shared.checkpoint(lease.fence, 1)
        shared.complete(lease.fence)

    assert gated.transactions == [1, 1]


def test_writes_that_come_while_one_is_under_way_go_together(gated: GatedStorage) -> None:
    with opened(gated) as store:
        together = group(store)
        leases = claimed(store, 9)
        shared = store.through(together)
        answers = all_at_once(
            gated, [completing(shared, lease, place) for place, lease in enumerate(leases)], together.waiting
        )

    assert gated.transactions == [1, 8]
    assert [answer.result for answer in answers] == list(range(9))


def test_without_group_commit_each_write_has_a_transaction_of_its_own(gated: GatedStorage) -> None:
    """The negative control of the one above: the same harness sees what does not go together."""
    with opened(gated) as store:
        leases = claimed(store, 4)
        alone = store.through(execute_one)
        gated.is_counting = True
        for lease in leases:
            alone.complete(lease.fence)

    assert gated.transactions == [1, 1, 1, 1]


def test_a_batch_is_bounded(gated: GatedStorage) -> None:
    with opened(gated) as store:
        together = group(store)
        leases = claimed(store, TOGETHER_MAX + 3)
        shared = store.through(together)
        all_at_once(gated, [completing(shared, lease) for lease in leases], together.waiting)

    assert gated.transactions == [1, TOGETHER_MAX, 2]


def test_each_write_of_a_batch_is_answered_for_itself(gated: GatedStorage) -> None:
    with opened(gated) as store:
        together = group(store)
        leases = [*claimed(store, 3), *claimed(store, 1, policy="small")]
        shared = store.through(together)
        old = Fence(
            leases[1].job_id, 1, leases[1].fence.group, leases[1].fence.epoch, "somebody else's", leases[1].fence.steps
        )
        calls: list[Callable[[], Any]] = [
            completing(shared, leases[0]),
            lambda: shared.complete(old),
            lambda: shared.checkpoint(leases[2].fence, {"batch": 4}),
            completing(shared, leases[3], "x" * 100),
        ]
        answers = all_at_once(gated, calls, together.waiting)
        saved = store.status(leases[2].job_id).checkpoint

    assert isinstance(answers[0], ExecutionResult)
    assert isinstance(answers[1], StaleFenceError)
    assert saved == {"batch": 4}
    assert isinstance(answers[3], ResultTooLargeError)


def test_a_lost_reply_doubles_nothing_in_a_batch(gated: GatedStorage) -> None:
    with opened(gated) as store:
        together = group(store)
        leases = claimed(store, 5)
        shared = store.through(together)

        def first() -> ExecutionResult:
            answer = completing(shared, leases[0])()
            gated.replies_to_lose = 1
            return answer

        answers = all_at_once(gated, [first, *(completing(shared, each) for each in leases[1:])], together.waiting)
        stories = [names(store, lease.job_id) for lease in leases]

    assert all(isinstance(answer, ExecutionResult) for answer in answers)
    assert stories == [["Created", "Claimed", "Completed"]] * 5


def test_an_outage_is_the_answer_of_every_write_of_a_batch(gated: GatedStorage) -> None:
    with opened(gated) as store:
        together = group(store)
        leases = claimed(store, 3)
        shared = store.through(together)

        def first() -> ExecutionResult:
            try:
                return completing(shared, leases[0])()
            finally:
                gated.is_down = False

        def goes_down() -> int:
            gated.is_down = together.waiting() == 2
            return together.waiting()

        answers = all_at_once(gated, [first, *(completing(shared, each) for each in leases[1:])], goes_down)
        gated.is_down = False
        again = [shared.complete(lease.fence) for lease in leases[1:] if store.status(lease.job_id).outcome is None]

    assert isinstance(answers[0], ExecutionResult)
    assert all(isinstance(answer, ExecutionResult | StoreUnavailableError) for answer in answers[1:])
    assert all(isinstance(answer, ExecutionResult) for answer in again)


def test_a_write_that_breaks_the_code_is_answered_alone(gated: GatedStorage) -> None:
    """Whatever one item makes the store's code raise, those that share its transaction are carried out."""
    with opened(gated) as store:
        together = group(store)
        leases = claimed(store, 4)
        shared = store.through(together)
        gated.broken_job = leases[1].job_id
        answers = all_at_once(gated, [completing(shared, each) for each in leases], together.waiting)

    assert [type(answer).__name__ for answer in answers] == [
        "ExecutionResult",
        "ZeroDivisionError",
        "ExecutionResult",
        "ExecutionResult",
    ]


def test_a_hosts_attempts_share_transactions(gated: GatedStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[GroupCommit] = []

    def made(*given: Any) -> GroupCommit:
        groups.append(GroupCommit(*given))
        return groups[0]

    monkeypatch.setattr(launching, "GroupCommit", made)
    go, running = threading.Event(), threading.Semaphore(0)

    @durable_job("k")
    def handler(job: JobContext) -> int:
        running.release()
        assert go.wait(PATIENCE)
        job.checkpoint(1)
        return 2

    with opened(gated) as store, hosted(store, handler, concurrency=20):
        ids = [created(store, "k", policy="steady") for _ in range(20)]
        for _ in ids:
            assert running.acquire(timeout=PATIENCE)
        gated.is_counting = True
        gated.gate.clear()
        go.set()
        until(store, lambda: groups[0].waiting() == 19)
        gated.gate.set()
        results = [ended(store, job_id).result for job_id in ids]

    assert results == [2] * 20
    assert gated.transactions[0] == 1
    assert gated.transactions[1] >= 19


# Posted ends ----------------------------------------------------------------------------------------------------------


def test_the_ends_of_async_handlers_go_together_and_no_thread_waits_for_them(gated: GatedStorage) -> None:
    go, running = threading.Event(), threading.Semaphore(0)

    @durable_job("k")
    async def handler() -> int:
        running.release()
        assert await asyncio.to_thread(go.wait, PATIENCE)
        return 2

    with opened(gated) as store, hosted(store, handler, concurrency=20) as host:
        ids = [created(store, "k", policy="steady") for _ in range(20)]
        for _ in ids:
            assert running.acquire(timeout=PATIENCE)
        gated.is_counting = True
        gated.gate.clear()
        go.set()
        happens(gated.entered)
        until(store, lambda: host.health().free == 20)
        waiting = [thread.name for thread in threading.enumerate() if thread.name.startswith(f"{host.name} slot")]
        gated.gate.set()
        results = [ended(store, job_id).result for job_id in ids]

    assert results == [2] * 20
    assert sum(gated.transactions) == 20
    assert len(gated.transactions) < 20
    assert waiting == []


def test_nothing_is_posted_to_a_group_that_is_closed(gated: GatedStorage) -> None:
    with opened(gated) as store:
        closed = group(store)
        closed.close()

        assert not closed.post([])


def test_an_end_waits_for_the_write_of_a_thread_that_the_handler_left(gated: GatedStorage) -> None:
    """It has drawn its step before: were the end sent first, the unit would be refused though its work was done."""

    @durable_job("k")
    def handler(job: JobContext) -> None:
        gated.is_counting = True
        gated.gate.clear()
        threading.Thread(target=job.unit, args=("u", int)).start()
        happens(gated.entered)

    with opened(gated) as store, hosted(store, handler) as host:
        job_id = created(store, "k", policy="steady")
        until(store, lambda: host.health().running == 1 and host.health().free == 10)
        gated.gate.set()
        ended(store, job_id)
        story = names(store, job_id)

    assert story == ["Created", "Claimed", "UnitRecorded", "Completed"]


# Threads of slots -----------------------------------------------------------------------------------------------------


def test_calls_that_wait_get_a_thread_each() -> None:
    threads = SlotThreads(8, "t")
    meeting = threading.Barrier(8)
    met = [threading.Event() for _ in range(8)]

    def meet(mine: threading.Event) -> None:
        meeting.wait(PATIENCE)
        mine.set()

    threads.run(partial(meet, each) for each in met)

    for each in met:
        happens(each)
    threads.shutdown()


def test_no_more_threads_are_made_than_allowed() -> None:
    threads = SlotThreads(2, "few")
    go, done = threading.Event(), threading.Semaphore(0)

    def wait() -> None:
        assert go.wait(PATIENCE)
        done.release()

    threads.run([wait] * 5)
    go.set()
    for _ in range(5):
        assert done.acquire(timeout=PATIENCE)
    made = {thread.name for thread in threading.enumerate() if thread.name.startswith("few slot")}
    threads.shutdown()

    assert made <= {"few slot 1", "few slot 2"}
