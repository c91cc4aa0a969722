"""What a handler depends on: made once for each attempt, cleaned up at its end, and checked when it is registered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any

import pytest

from jobledger import JobStore, State
from jobledger.adapters.worker import Depends, JobContext, JobHost, durable_job
from jobledger.domain.errors import InvalidHookError
from tests.worker import in_processes
from tests.worker.hosting import created, ended, hosted, ran, until


class Pool:
    """Something that is opened and closed."""

    log: list[str]

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def say(self, what: str) -> None:
        """Note what happened."""
        self.log.append(what)


def provider(log: list[str]) -> Callable[[], Iterator[Pool]]:
    """Makes a pool, and says so; at the end it says how the handler ended."""

    def make() -> Iterator[Pool]:
        log.append("opened")
        try:
            yield Pool(log)
        except BaseException as error:
            log.append(f"closed after {type(error).__name__}")
            raise
        log.append("closed")

    return make


def test_a_parameter_is_filled_by_its_provider_once_for_each_attempt(store: JobStore) -> None:
    """However many parameters name it; the payload's fields come beside it."""
    log: list[str] = []
    make = provider(log)

    @durable_job("it", policy="quick")
    def it(
        job: JobContext, size: int, pool: Annotated[Pool, Depends(make)], same: Annotated[Pool, Depends(make)]
    ) -> bool:
        pool.say(f"attempt {job.attempt}, size {size}")
        return pool is same

    assert ran(store, it, "it", {"size": 3}).result is True
    assert log == ["opened", "attempt 1, size 3", "closed"]


def test_it_is_cleaned_up_however_the_handler_ends(memory: JobStore) -> None:
    """And made anew for the next attempt."""
    log: list[str] = []

    @durable_job("it", policy="quick")
    def it(job: JobContext, pool: Annotated[Pool, Depends(provider(log))]) -> str:
        if job.attempt == 1:
            message = "broken"
            raise ValueError(message)
        pool.say("done")
        return "done"

    assert ran(memory, it, "it").result == "done"
    assert log == ["opened", "closed after ValueError", "opened", "done", "closed"]


def test_a_provider_cannot_swallow_how_a_handler_ended(memory: JobStore) -> None:
    """A parked job would be complete without its result."""

    @contextmanager
    def careless() -> Generator[int]:
        try:
            yield 7
        except BaseException:  # noqa: BLE001  # the mistake that this is about
            return

    @durable_job("it", policy="quick")
    def it(job: JobContext, number: Annotated[int, Depends(careless)]) -> int:
        if job.attempt > 1:
            return number
        message = "broken"
        raise ValueError(message)

    status = ran(memory, it, "it")
    assert (status.result, status.generation) == (7, 2)


@pytest.mark.parametrize("is_broken", [False, True])
def test_an_async_handler_is_provided_for_and_cleaned_up_too(memory: JobStore, is_broken: bool) -> None:
    log: list[str] = []

    @durable_job("it", policy="twice")
    async def it(pool: Annotated[Pool, Depends(provider(log))]) -> str:
        pool.say("worked")
        if is_broken:
            message = "broken"
            raise ValueError(message)
        return "done"

    status = ran(memory, it, "it", policy="twice")

    once = ["opened", "worked", "closed after ValueError" if is_broken else "closed"]
    assert (status.state, log) == ((State.FAILED, once * 2) if is_broken else (State.COMPLETE, once))


def test_a_provider_that_fails_is_a_failed_attempt_and_leaves_nothing_open(memory: JobStore) -> None:
    log: list[str] = []

    def broken() -> int:
        message = "no connection"
        raise OSError(message)

    @durable_job("it", policy="twice")
    class It:
        def run(self, pool: Annotated[Pool, Depends(provider(log))], other: Annotated[int, Depends(broken)]) -> None:
            pool.say(str(other))

    status = ran(memory, It, "it", policy="twice")

    assert status.state is State.FAILED
    assert "no connection" in str(status.error)
    assert log == ["opened", "closed after OSError"] * 2


def test_a_payload_cannot_give_what_the_host_gives(memory: JobStore) -> None:
    @durable_job("it", policy="small")
    def it(pool: Annotated[int, Depends(lambda: 7)], **others: int) -> int:
        return pool + sum(others.values())

    with hosted(memory, it):
        status = ended(memory, created(memory, "it", {"pool": 3}, policy="small"))
        fine = ended(memory, created(memory, "it", {"more": 3}, policy="small"))

    assert "'pool' is given to the handler by its host" in str(status.error)
    assert fine.result == 10


def test_a_handler_in_a_process_is_provided_for_there(memory: JobStore) -> None:
    with hosted(memory, in_processes.depends):
        job_id = created(memory, "depends", policy="steady")
        until(memory, lambda: memory.status(job_id).is_terminal, patience=60)

    assert memory.status(job_id).result is True


def makes_a_number() -> int:
    return 7


async def waits() -> int:
    return 7


async def yields() -> AsyncIterator[int]:
    yield 7


def needs_more(size: int) -> int:
    return size


def test_what_a_bound_provider_and_a_subclass_make_is_taken(memory: JobStore) -> None:
    @durable_job("it", policy="quick")
    def it(size: Annotated[int, Depends(partial(needs_more, 7))], any_: Annotated[object, Depends(dict)]) -> Any:
        return [size, any_]

    assert ran(memory, it, "it").result == [7, {}]


MISTAKES: dict[str, tuple[Any, str]] = {
    "no function": (Annotated[int, Depends(7)], "'it' depends on 7, which cannot be called; give Depends a function"),  # type: ignore[arg-type]  # the mistake
    "no provider": (Annotated[int, Depends], "'it' needs one provider; write Annotated[…, Depends(provider)]"),
    "two": (Annotated[int, Depends(int), Depends(int)], "'it' needs one provider"),
    "async": (
        Annotated[int, Depends(waits)],
        "'it' depends on waits, which is async; providers are",
    ),
    "async too": (Annotated[int, Depends(yields)], "'it' depends on yields, which is async"),
    "arguments": (Annotated[int, Depends(needs_more)], "cannot be called without arguments"),  # type: ignore[arg-type]  # as above
    "another type": (Annotated[str, Depends(makes_a_number)], "'it' is a str, and its provider makes a int"),
    "another class": (Annotated[str, Depends(Pool)], "cannot be called without arguments"),  # type: ignore[arg-type]  # as above
}


@pytest.mark.parametrize("mistaken", MISTAKES)
def test_a_mistaken_dependency_is_refused_at_the_decorator(mistaken: str) -> None:
    """With the line of the handler, and the mend."""
    kind, problem = MISTAKES[mistaken]

    with pytest.raises(InvalidHookError) as refusal:

        @durable_job("it")
        def handler(it: kind) -> None: ...  # type: ignore[valid-type]  # pyright: ignore[reportInvalidTypeForm]  # the mistaken one of this case

    assert problem in str(refusal.value)
    assert "test_depending.py" in str(refusal.value)
    assert "def handler(it: kind)" in str(refusal.value)


def test_a_dependency_as_a_default_is_refused() -> None:
    with pytest.raises(InvalidHookError, match="the default of 'it' is a Depends; mark its type"):

        @durable_job("it")
        def handler(it: int = Depends(makes_a_number)) -> None: ...  # type: ignore[assignment]  # the mistake


def test_a_mistake_of_a_class_is_found_by_its_host_too(memory: JobStore) -> None:
    """Nothing is made or claimed."""

    class Plain:
        def run(self, it: Annotated[int, Depends(makes_a_number)]) -> None: ...

    with pytest.raises(InvalidHookError):
        JobHost(memory, [Plain])
