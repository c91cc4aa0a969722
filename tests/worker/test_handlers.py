"""Handlers of every form: class and function, sync and async; restored on a take-over, and never run a unit twice."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel

from jobledger.adapters.bootstrap import JobStore
from jobledger.adapters.worker import (
    AsyncJobContext,
    Defer,
    JobContext,
    checkpoint,
    durable_job,
    job_context,
    progress,
    restore,
)
from jobledger.domain.answers import Progress
from jobledger.domain.decisions.working import Effect
from jobledger.domain.errors import CheckpointTooLargeError, EffectConflictError, InvalidRequestError
from jobledger.domain.job import State
from tests.worker.hosting import PATIENCE, created, ended, hosted, names, ran


def test_a_function_is_given_context_and_payload(store: JobStore) -> None:
    @durable_job("k")
    def handler(job: JobContext, size: int) -> dict[str, Any]:
        return {"size": size, "kind": job.kind, "owner": job.owner, "attempt": job.attempt, "payload": job.payload}

    status = ran(store, handler, "k", {"size": 3})

    assert status.state is State.COMPLETE
    assert status.result == {"size": 3, "kind": "k", "owner": "team", "attempt": 1, "payload": {"size": 3}}


def test_an_async_function_awaits_its_context(store: JobStore) -> None:
    @durable_job("k")
    async def handler(job: AsyncJobContext, size: int) -> int:
        await job.checkpoint({"size": size})
        await job.boundary()
        await job.raise_if_cancelled()
        return size + int(job.state["size"])

    assert ran(store, handler, "k", {"size": 3}).result == 6


def test_a_handler_finds_its_context_without_taking_it(memory: JobStore) -> None:
    @durable_job("k")
    def handler() -> str:
        return job_context().job_id

    status = ran(memory, handler, "k")

    assert status.result == status.job_id


def test_tasks_and_threads_of_an_async_handler_find_its_context(memory: JobStore) -> None:
    """In a task the methods are awaited; in a thread that asyncio started for it they block."""

    async def save() -> None:
        await job_context().checkpoint(1)  # type: ignore[misc, func-returns-value]  # on a loop it answers an awaitable

    @durable_job("k")
    async def handler() -> list[Any]:
        await asyncio.create_task(save())
        return [job_context().job_id, await asyncio.to_thread(lambda: job_context().checkpoint(2))]

    status = ran(memory, handler, "k")

    assert status.result == [status.job_id, None]
    assert names(memory, status.job_id) == ["Created", "Claimed", "Checkpointed", "Checkpointed", "Completed"]


def test_outside_of_a_handler_there_is_no_context() -> None:
    with pytest.raises(InvalidRequestError, match="no handler runs here"):
        job_context()


class Place(BaseModel):
    """State of a declared type."""

    next_batch: int
    day: date


@durable_job("rebuild")
class Rebuild:
    """Fails in the middle of its first attempt, and says where each attempt began."""

    made = 0

    def __init__(self) -> None:
        type(self).made += 1
        self.place = Place(next_batch=-1, day=date(2020, 1, 1))
        self.began = -1

    def run(self, job: JobContext) -> list[Any]:
        while self.place.next_batch < 4:
            if self.place.next_batch == 2 and job.attempt == 1:
                raise OSError
            self.place = Place(next_batch=self.place.next_batch + 1, day=date(2026, 1, 1))
            job.checkpoint()
        return [self.began, self.place.next_batch, self.place.day.year]

    @checkpoint
    def save(self) -> Place:
        return self.place

    @restore
    def load(self, saved: Place | None) -> None:
        self.place = saved or Place(next_batch=0, day=date(2020, 1, 1))
        self.began = self.place.next_batch

    @progress
    def done(self) -> Progress:
        return Progress(self.place.next_batch, 4)


def test_a_take_over_restores_a_fresh_instance(store: JobStore) -> None:
    Rebuild.made = 0

    status = ran(store, Rebuild, "rebuild")

    assert status.result == [2, 4, 2026]
    assert Rebuild.made == status.generation == 2
    assert status.progress == Progress(4, 4)


def test_an_async_class_is_restored_too(store: JobStore) -> None:
    @durable_job("k")
    class Handler:
        def __init__(self) -> None:
            self.count = 0

        async def run(self, job: AsyncJobContext) -> int:
            self.count += 1
            await job.checkpoint()
            if job.attempt < 3:
                raise OSError
            return self.count

        @checkpoint
        def save(self) -> int:
            return self.count

        @restore
        def load(self, saved: int | None) -> None:
            self.count = saved or 0

    assert ran(store, Handler, "k").result == 3


def test_a_function_starts_from_its_last_state(store: JobStore) -> None:
    @durable_job("k")
    def handler(job: JobContext) -> int:
        count = (job.state or 0) + 1
        job.checkpoint(count)
        if count < 3:
            raise OSError
        return count

    assert ran(store, handler, "k").result == 3


def test_a_restore_hook_that_takes_no_none_is_left_out_on_a_fresh_run(memory: JobStore) -> None:
    calls: list[int] = []

    @durable_job("k")
    class Handler:
        def run(self, job: JobContext) -> None:
            job.checkpoint()
            if job.attempt == 1:
                raise OSError

        @checkpoint
        def save(self) -> int:
            return 7

        @restore
        def load(self, saved: int) -> None:
            calls.append(saved)

    ran(memory, Handler, "k")

    assert calls == [7]


def test_a_state_that_cannot_be_restored_fails_the_attempt(memory: JobStore) -> None:
    """A checkpoint of an older version of the handler: it is not read as something that it is not."""

    @durable_job("k")
    def older(job: JobContext) -> Defer:
        job.checkpoint("a text")
        return Defer(0)

    @durable_job("k")
    class Newer:
        def run(self) -> None: ...

        @checkpoint
        def save(self) -> int:
            return 1

        @restore
        def load(self, saved: int) -> None: ...

    job_id = created(memory, "k", policy="twice")
    with hosted(memory, older):
        while memory.status(job_id).state is not State.PAUSED:
            memory.wait_for_change(0.05)
    with hosted(memory, Newer):
        status = ended(memory, job_id)

    assert status.state is State.FAILED
    assert status.error is not None
    assert "the saved state could not be restored" in status.error


def test_a_state_of_another_type_than_declared_is_not_saved(memory: JobStore) -> None:
    @durable_job("k")
    class Handler:
        def run(self, job: JobContext) -> None:
            job.checkpoint()

        @checkpoint
        def save(self) -> int:
            return "a text"  # type: ignore[return-value]  # the mistake under test

        @restore
        def load(self, saved: int) -> None: ...

    status = ran(memory, Handler, "k", policy="small")

    assert status.state is State.FAILED
    assert status.error is not None
    assert status.error.startswith("UnstorableValueError: the checkpoint cannot be stored")
    assert status.checkpoint_sequence is None


def test_a_function_has_to_give_the_state_to_save(memory: JobStore) -> None:
    @durable_job("k")
    def handler(job: JobContext) -> None:
        job.checkpoint()

    status = ran(memory, handler, "k", policy="small")

    assert status.error is not None
    assert "give the state to save" in status.error


@dataclass
class Receipt:
    number: int


def test_a_unit_that_was_recorded_is_not_run_again(store: JobStore) -> None:
    calls: list[str] = []

    def work(name: str, *, number: int) -> Receipt:
        calls.append(name)
        return Receipt(number)

    @durable_job("k")
    def handler(job: JobContext) -> list[Any]:
        receipts = [job.unit("a", work, "a", number=1), job.unit("a", work, "a", number=9)]
        if job.attempt == 1:
            raise OSError
        return [*receipts, job.unit("b", work, "b", number=2)]

    status = ran(store, handler, "k")

    assert status.result == [{"number": 1}, {"number": 1}, {"number": 2}]
    assert calls == ["a", "b"]
    assert status.units == 2


def test_units_of_an_async_handler_may_be_coroutines_and_run_side_by_side(store: JobStore) -> None:
    calls: list[int] = []

    async def work(number: int) -> int:
        calls.append(number)
        await asyncio.sleep(0)
        return number

    @durable_job("k")
    async def handler(job: AsyncJobContext) -> list[Any]:
        receipts = await asyncio.gather(*(job.unit(f"u{number}", work, number) for number in range(5)))
        if job.attempt == 1:
            raise OSError
        return [*receipts, await job.unit("plain", int, "5")]

    status = ran(store, handler, "k")

    assert status.result == [0, 1, 2, 3, 4, 5]
    assert sorted(calls) == [0, 1, 2, 3, 4]


def test_the_first_receipt_of_a_unit_wins_a_race(memory: JobStore) -> None:
    """Where a thread and a task of one attempt both did the work, what is on record is what both are told."""

    @durable_job("k")
    async def handler(job: AsyncJobContext) -> Any:
        def first() -> int:
            return 1

        async def second() -> int:
            await asyncio.to_thread(lambda: job_context().unit("u", first))
            return 2

        return await job.unit("u", second)

    assert ran(memory, handler, "k").result == 1


def test_effects_commit_with_the_next_checkpoint_and_with_the_result(store: JobStore) -> None:
    @durable_job("k")
    def handler(job: JobContext) -> None:
        job.stage(Effect(resource="r", value="saved", expected_version=0))
        job.checkpoint(1)
        job.stage(Effect(resource="r", value="published", expected_version=1))

    ran(store, handler, "k")

    resource = store.resource("team", "r")
    assert resource is not None
    assert (resource.value, resource.version) == ("published", 2)


def test_effects_are_dropped_when_the_attempt_fails(memory: JobStore) -> None:
    @durable_job("k")
    def handler(job: JobContext) -> None:
        job.stage(Effect(resource="r", value=job.attempt, expected_version=0))
        if job.attempt == 1:
            raise OSError

    ran(memory, handler, "k")

    resource = memory.resource("team", "r")
    assert resource is not None
    assert resource.value == 2


def test_after_an_effect_conflict_a_handler_may_stage_again(memory: JobStore) -> None:
    @durable_job("k")
    def handler(job: JobContext) -> str:
        job.stage(Effect(resource="r", value=1, expected_version=5))
        try:
            job.checkpoint(1)
        except EffectConflictError as conflict:
            job.stage(Effect(resource="r", value=1, expected_version=conflict.current))
            job.checkpoint(1)
            return "again"
        return "at once"

    assert ran(memory, handler, "k").result == "again"


def test_after_a_refused_checkpoint_what_was_staged_stays_staged(memory: JobStore) -> None:
    @durable_job("k")
    def handler(job: JobContext) -> int:
        job.stage(Effect(resource="r", value=1, expected_version=0))
        job.progress(1)
        with pytest.raises(CheckpointTooLargeError):
            job.checkpoint("x" * 100)
        job.checkpoint("small")
        return 1

    status = ran(memory, handler, "k", policy="small")

    assert status.checkpoint == "small"
    assert status.progress == Progress(1)
    assert memory.resource("team", "r") is not None


def test_statements_and_effects_of_an_async_handler_commit_too(tmp_path: Any) -> None:
    with JobStore.open(f"sqlite:///{tmp_path / 'jobs.db'}") as store:

        @durable_job("k")
        async def handler(job: AsyncJobContext) -> int:
            found: list[int] = []
            await job.stage(Effect(resource="r", value=1, expected_version=0))
            await job.inside(lambda connection: found.extend(connection.execute("SELECT 42").fetchone()))
            await job.checkpoint(1)
            return found[0]

        assert ran(store, handler, "k", policy="default").result == 42
        assert store.resource("team", "r") is not None


def test_statements_have_to_be_callable_and_need_a_store_with_connections(memory: JobStore) -> None:
    @durable_job("k")
    def handler(job: JobContext) -> None:
        with pytest.raises(InvalidRequestError):
            job.inside("SELECT 1")  # type: ignore[arg-type]  # the mistake under test
        job.inside(lambda _: None)

    status = ran(memory, handler, "k", policy="small")

    assert status.error is not None
    assert status.error.startswith("invalid_request")


def test_a_progress_hook_that_fails_spoils_no_result(memory: JobStore) -> None:
    @durable_job("k")
    class Handler:
        def run(self) -> str:
            return "done"

        @progress
        def done(self) -> int:
            raise OSError

    assert ran(memory, Handler, "k").result == "done"


def test_a_progress_hook_may_answer_a_number(memory: JobStore) -> None:
    @durable_job("k")
    class Handler:
        def run(self) -> None: ...

        @progress
        def done(self) -> float:
            return 0.5

    assert ran(memory, Handler, "k").progress == Progress(0.5)


def test_a_progress_hook_may_answer_nothing_else(memory: JobStore) -> None:
    @durable_job("k")
    class Handler:
        def run(self, job: JobContext) -> None:
            job.checkpoint(1)

        @progress
        def done(self) -> Any:
            return "half"

    status = ran(memory, Handler, "k", policy="small")

    assert status.error is not None
    assert "the hook answers a Progress or a number, not str" in status.error


def test_a_restore_hook_cannot_checkpoint(memory: JobStore) -> None:
    """Half of the state was restored: a save would lose the other half."""

    @durable_job("k")
    class Handler:
        def run(self) -> None: ...

        @checkpoint
        def save(self) -> int:
            return 1

        @restore
        def load(self, saved: int | None) -> None:
            job_context().checkpoint(saved)

    status = ran(memory, Handler, "k", policy="small")

    assert status.error is not None
    assert "the handler is not set up yet" in status.error


def test_statements_run_inside_the_transaction_of_a_checkpoint(tmp_path: Any) -> None:
    with JobStore.open(f"sqlite:///{tmp_path / 'jobs.db'}") as store:

        @durable_job("k")
        def handler(job: JobContext) -> int:
            job.inside(lambda connection: connection.execute("CREATE TABLE mine (number INTEGER)"))
            job.inside(lambda connection: connection.execute("INSERT INTO mine VALUES (42)"))
            job.checkpoint(1)
            found: list[int] = []
            job.inside(lambda connection: found.extend(connection.execute("SELECT number FROM mine").fetchone()))
            job.checkpoint(2)
            return found[0]

        assert ran(store, handler, "k", policy="default").result == 42


def test_an_effect_key_is_stable_over_attempts(memory: JobStore) -> None:
    keys: list[str] = []

    @durable_job("k")
    def handler(job: JobContext) -> None:
        keys.extend([job.effect_key("mail"), job.effect_key("invoice")])
        if job.attempt == 1:
            raise OSError

    ran(memory, handler, "k")

    assert keys[:2] == keys[2:]
    assert keys[0] != keys[1]


def test_a_million_words_of_progress_are_a_few_events(memory: JobStore) -> None:
    """The last word is kept: it is flushed at the end."""

    @durable_job("k")
    def handler(job: JobContext) -> None:
        for number in range(200_000):
            job.progress(number + 1, 200_000, "counting")

    status = ran(memory, handler, "k")

    assert status.progress == Progress(200_000, 200_000, "counting")
    assert names(memory, status.job_id).count("ProgressReported") < 20


def test_progress_is_shown_while_a_handler_says_nothing_further(memory: JobStore) -> None:
    seen = threading.Event()

    @durable_job("k")
    def handler(job: JobContext) -> None:
        job.progress(1, 2)
        assert seen.wait(10)

    with hosted(memory, handler):
        job_id = created(memory, "k")
        while memory.status(job_id).progress is None:
            memory.wait_for_change(0.05)
        seen.set()
        ended(memory, job_id)


def test_a_mistaken_word_of_progress_is_refused_where_it_is_said(memory: JobStore) -> None:
    @durable_job("k")
    def handler(job: JobContext) -> str:
        with pytest.raises(InvalidRequestError):
            job.progress(-1)
        return "refused"

    assert ran(memory, handler, "k").result == "refused"


def test_a_call_that_was_never_awaited_fails_the_attempt(memory: JobStore) -> None:
    @durable_job("k")
    async def handler(job: AsyncJobContext) -> None:
        job.checkpoint(1)  # type: ignore[unused-awaitable]  # the mistake under test

    status = ran(memory, handler, "k", policy="small")

    assert status.error is not None
    assert "did not await job.checkpoint()" in status.error


def test_no_task_is_lost_to_the_garbage_collector(memory: JobStore) -> None:
    """A loop by itself holds its tasks weakly; the host must hold them."""

    @durable_job("k")
    async def handler(number: int) -> int:
        for _ in range(5):
            await asyncio.sleep(0.005)
        return number

    with hosted(memory, handler, concurrency=100):
        jobs = [created(memory, "k", {"number": number}) for number in range(100)]
        results = []
        for job_id in jobs:
            while not memory.status(job_id).is_terminal:
                gc.collect()
            results.append(memory.status(job_id).result)

    assert results == list(range(100))


def test_a_unit_that_several_threads_ask_for_is_done_once(memory: JobStore) -> None:
    """The first thread does the work, and the others wait for its receipt."""
    calls: list[int] = []
    together = threading.Barrier(4)

    @durable_job("k")
    def handler(job: JobContext) -> list[Any]:
        def work() -> int:
            calls.append(1)
            return len(calls)

        def ask(_: int) -> Any:
            together.wait(PATIENCE)
            return job.unit("same", work)

        with ThreadPoolExecutor(4) as threads:
            return list(threads.map(ask, range(4)))

    assert ran(memory, handler, "k").result == [1, 1, 1, 1]
    assert len(calls) == 1


def test_a_unit_that_several_tasks_ask_for_is_done_once(memory: JobStore) -> None:
    """Tasks take turns as threads do, and a unit inside itself does not wait for itself."""
    calls: list[int] = []

    @durable_job("k")
    async def handler(job: AsyncJobContext) -> list[Any]:
        async def inner() -> int:
            calls.append(1)
            await asyncio.sleep(0)
            return len(calls)

        async def work() -> Any:
            return await job.unit("same", inner)

        return list(await asyncio.gather(*(job.unit("same", work) for _ in range(4))))

    assert ran(memory, handler, "k").result == [1, 1, 1, 1]
    assert len(calls) == 1
