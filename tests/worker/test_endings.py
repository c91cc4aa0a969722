"""However a handler ends, the job's history says so in one typed way, and the host goes on."""

from __future__ import annotations

import asyncio
import socket
import sys
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from jobledger.adapters.bootstrap import JobStore
from jobledger.adapters.worker import (
    Defer,
    JobCancelled,
    JobContext,
    JobParked,
    Partial,
    Retry,
    Unavailable,
    durable_job,
)
from jobledger.adapters.worker.publishing import DEFER_MIN
from jobledger.adapters.worker.storable import require_no_giant
from jobledger.domain.answers import JobStatus
from jobledger.domain.decisions.working import Effect
from jobledger.domain.errors import ResultTooLargeError
from jobledger.domain.events import Outcome
from jobledger.domain.job import State
from tests.worker.hosting import created, ended, hosted, names, ran, until

MIB: Final = 1024 * 1024


def _raise(error: BaseException) -> Any:
    raise error


class UnspeakableError(Exception):
    """An exception whose text cannot be made."""

    def __str__(self) -> str:
        raise SystemExit


ENDINGS: list[tuple[str, Callable[[], Any], Outcome, Any, str | None]] = [
    ("a value", lambda: {"a": [1, None]}, Outcome.COMPLETE, {"a": [1, None]}, None),
    ("nothing", lambda: None, Outcome.COMPLETE, None, None),
    ("partial", lambda: Partial([1], "one source was down"), Outcome.PARTIAL, [1], "one source was down"),
    ("partial, raised", lambda: _raise(Partial([1], "so")), Outcome.PARTIAL, [1], "so"),
    ("unavailable", lambda: Unavailable("no such index"), Outcome.UNAVAILABLE, None, "no such index"),
    ("unavailable, raised", lambda: _raise(Unavailable("none")), Outcome.UNAVAILABLE, None, "none"),
    ("an exception", lambda: _raise(ValueError("too old")), Outcome.FAILED, None, "ValueError: too old"),
    ("retry", lambda: Retry(0), Outcome.FAILED, None, "the handler asked to be tried again"),
    ("retry without a span", lambda: _raise(Retry()), Outcome.FAILED, None, "the handler asked to be tried again"),
    ("sys.exit", lambda: sys.exit(3), Outcome.FAILED, None, "SystemExit: 3"),
    ("keyboard interrupt", lambda: _raise(KeyboardInterrupt()), Outcome.FAILED, None, "KeyboardInterrupt"),
    ("generator exit", lambda: _raise(GeneratorExit()), Outcome.FAILED, None, "GeneratorExit"),
    ("an unspeakable error", lambda: _raise(UnspeakableError()), Outcome.FAILED, None, "its text could not be made"),
    ("a text with NUL", lambda: _raise(ValueError("a\0b")), Outcome.FAILED, None, "ValueError: a\\u0000b"),
    ("a socket", lambda: socket.socket, Outcome.FAILED, None, "unstorable_value: the result cannot be stored"),
    ("a set", lambda: {1}, Outcome.FAILED, None, "a Python set"),
    ("NaN", lambda: float("nan"), Outcome.FAILED, None, "not finite"),
    ("2**63", lambda: 2**63, Outcome.FAILED, None, "beyond 64 bit"),
    ("too large", lambda: "x" * 100, Outcome.FAILED, None, "result_too_large"),
    ("a generator", lambda: (x for x in [1]), Outcome.FAILED, None, "returned a generator, which did not run"),
    ("a coroutine", lambda: asyncio.sleep(1), Outcome.FAILED, None, "returned a coroutine, which did not run"),
    ("a mistaken wish", lambda: Retry("soon"), Outcome.FAILED, None, "Retry.after"),  # type: ignore[arg-type]  # mistaken
    ("unasked cancel", lambda: _raise(JobCancelled()), Outcome.FAILED, None, "nobody asked to cancel"),
]


def _require(status: JobStatus, outcome: Outcome, result: Any, error: str | None) -> None:
    assert status.outcome is outcome
    assert status.result == result
    assert (status.error is None) if error is None else (status.error is not None and error in status.error)


@pytest.mark.parametrize(("act", "outcome", "result", "error"), [pytest.param(*e[1:], id=e[0]) for e in ENDINGS])
def test_a_sync_handler_ends_as_it_says(
    memory: JobStore, act: Callable[[], Any], outcome: Outcome, result: Any, error: str | None
) -> None:
    @durable_job("k")
    def handler() -> Any:
        return act()

    _require(ran(memory, handler, "k", policy="small"), outcome, result, error)


@pytest.mark.parametrize(("act", "outcome", "result", "error"), [pytest.param(*e[1:], id=e[0]) for e in ENDINGS])
def test_an_async_handler_ends_as_it_says(
    memory: JobStore, act: Callable[[], Any], outcome: Outcome, result: Any, error: str | None
) -> None:
    @durable_job("k")
    async def handler() -> Any:
        return act()

    _require(ran(memory, handler, "k", policy="small"), outcome, result, error)


def test_a_host_outlives_every_ending(memory: JobStore) -> None:
    """Also a task that breaks out of the event loop, and a handler that cancels itself."""

    @durable_job("k")
    async def handler(number: int) -> int:
        if number == 0:
            task = asyncio.get_running_loop().create_task(asyncio.to_thread(sys.exit, 1))
            await asyncio.wait([task])
        if number == 1:
            raise asyncio.CancelledError
        if number == 2:
            await asyncio.gather(_exit())
        return number

    async def _exit() -> None:
        raise SystemExit

    with hosted(memory, handler):
        odd = [ended(memory, created(memory, "k", number, policy="small")) for number in range(3)]
        last = ended(memory, created(memory, "k", 3))

    assert [status.state for status in odd] == [State.COMPLETE, State.FAILED, State.FAILED]
    assert last.result == 3


def test_a_refused_result_commits_no_effects(store: JobStore) -> None:
    @durable_job("k")
    def handler(job: JobContext) -> Any:
        job.stage(Effect(resource="r", value=1, expected_version=0))
        return object()

    status = ran(store, handler, "k", policy="small")

    assert status.state is State.FAILED
    assert store.resource("team", "r") is None


def test_a_conflict_of_effects_at_the_end_fails_the_attempt(store: JobStore) -> None:
    @durable_job("k")
    def handler(job: JobContext) -> None:
        job.stage(Effect(resource="r", value=1, expected_version=7))

    status = ran(store, handler, "k", policy="small")

    assert status.error is not None
    assert status.error.startswith("effect_conflict")


def test_a_failure_is_tried_again_until_the_budget_is_used_up(store: JobStore) -> None:
    @durable_job("k")
    def handler() -> None:
        raise OSError

    status = ran(store, handler, "k")

    assert status.state is State.FAILED
    assert status.generation == 5
    assert names(store, status.job_id).count("AttemptFailed") == 4


def test_a_retry_names_the_error_behind_it_and_waits_as_it_says(memory: JobStore) -> None:
    @durable_job("k")
    def handler(job: JobContext) -> int:
        if job.attempt == 1:
            try:
                _raise(OSError("busy"))
            except OSError as error:
                raise Retry(timedelta(milliseconds=50)) from error
        return job.attempt

    status = ran(memory, handler, "k", policy="default")

    failed: Any = next(event.event for event in memory.history(status.job_id) if event.name == "AttemptFailed")
    assert failed.error == "OSError: busy"
    assert failed.retry_at - failed.at == timedelta(milliseconds=50)
    assert status.result == 2


@pytest.mark.parametrize("until_when", [0.05, datetime(2020, 1, 1, tzinfo=UTC)])
def test_a_deferral_counts_as_no_failure_and_may_save(store: JobStore, until_when: Any) -> None:
    @durable_job("k")
    def handler(job: JobContext) -> Any:
        if job.attempt < 3:
            return Defer(until_when, state=job.attempt)
        return job.state

    status = ran(store, handler, "k", policy="small")

    assert status.result == 2
    assert status.failures == 0


@pytest.mark.parametrize("until_when", [0, datetime(2020, 1, 1, tzinfo=UTC)])
def test_a_deferral_waits_a_second_at_least(memory: JobStore, until_when: Any) -> None:
    """It has no budget, so a handler that defers to now would take all of a store's time."""

    @durable_job("k")
    def handler() -> None:
        raise Defer(until_when)

    with hosted(memory, handler):
        job_id = created(memory, "k")
        until(memory, lambda: memory.status(job_id).state is State.PAUSED)

    [paused] = [event for event in memory.history(job_id) if event.name == "Paused"]
    ready_at = datetime.fromisoformat(str(paused.data["ready_at"]))
    assert ready_at - paused.at > 0.9 * DEFER_MIN


def test_parking_without_a_hold_or_a_drain_is_a_failed_attempt(memory: JobStore) -> None:
    """JobParked is the host's word: a handler that raises it unasked would be claimed again at once, for ever."""

    @durable_job("k")
    def handler() -> None:
        raise JobParked

    status = ran(memory, handler, "k", policy="small")

    assert status.state is State.FAILED
    assert status.error is not None
    assert status.error.startswith("JobParked: no hold is in force")


def test_cancelling_without_a_request_is_a_failed_attempt(memory: JobStore) -> None:
    """A job ends as cancelled only where somebody asked for it."""

    @durable_job("k")
    def handler() -> None:
        raise JobCancelled

    status = ran(memory, handler, "k", policy="small")

    assert status.state is State.FAILED
    assert str(status.error).startswith("cancel_not_requested")


def test_a_deferral_with_a_state_that_cannot_be_saved_fails_the_attempt(memory: JobStore) -> None:
    @durable_job("k")
    def handler() -> Defer:
        return Defer(0, state="x" * 100)

    status = ran(memory, handler, "k", policy="small")

    assert status.error is not None
    assert status.error.startswith("checkpoint_too_large")


def test_a_deferral_waits_by_the_stores_clock(memory: JobStore) -> None:
    @durable_job("k")
    def handler() -> Defer:
        return Defer(timedelta(hours=1))

    with hosted(memory, handler):
        job_id = created(memory, "k")
        until(memory, lambda: memory.status(job_id).state is State.PAUSED)

    status = memory.status(job_id)
    waits = status.ready_at - status.updated_at
    assert timedelta(minutes=59) < waits <= timedelta(hours=1, seconds=1)


def test_an_attempt_beyond_its_time_is_stopped_with_cleanup_and_failed(store: JobStore) -> None:
    cleaned: list[bool] = []

    @durable_job("k")
    def handler(job: JobContext) -> None:
        assert job.deadline is not None
        try:
            while True:
                job.boundary()
        finally:
            cleaned.append(True)

    status = ran(store, handler, "k", policy="hasty")

    assert status.state is State.FAILED
    assert status.error == "OutOfTime: the attempt ran longer than its policy's run_time_max of 0:00:00.200000"
    assert cleaned == [True]


def test_an_async_handler_that_waits_for_ever_is_stopped_in_time(memory: JobStore) -> None:
    cleaned: list[bool] = []

    @durable_job("k")
    async def handler() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    status = ran(memory, handler, "k", policy="hasty")

    assert status.error is not None
    assert status.error.startswith("OutOfTime")
    assert cleaned == [True]


def test_parents_that_park_themselves_leave_their_slots_to_their_children(store: JobStore) -> None:
    """Ten parents and three slots: a parent that waited in its slot would wait for ever."""

    @durable_job("parent")
    def parent(job: JobContext) -> Any:
        ids = job.state or [created(store, "child") for _ in range(2)]
        if not all(store.status(job_id).is_terminal for job_id in ids):
            return Defer(1, ids)
        return sum(store.status(job_id).result for job_id in ids)

    @durable_job("child")
    def child() -> int:
        return 1

    with hosted(store, parent, child, concurrency=3):
        parents = [created(store, "parent") for _ in range(10)]
        results = [ended(store, job_id).result for job_id in parents]

    assert results == [2] * 10


@pytest.mark.parametrize(
    "giant",
    [
        lambda text: text,
        lambda text: {"a": [text]},
        lambda text: {text: 1},
        lambda _: [[]] * 3_000_000,
        lambda _: dict.fromkeys(range(3_000_000)),
    ],
)
def test_a_giant_result_is_refused_before_a_copy_is_made_of_it(giant: Callable[[str], Any]) -> None:
    value = giant("x" * (32 * MIB))
    tracemalloc.start()
    try:
        with pytest.raises(ResultTooLargeError):
            require_no_giant(value, MIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < MIB


@pytest.mark.parametrize("value", [None, 1, "x" * (MIB - 2), ["x"] * 100, {"a": {"b": [1.5, True]}}])
def test_a_result_that_may_fit_is_measured_where_it_is_stored(value: Any) -> None:
    require_no_giant(value, MIB)


def test_a_giant_result_is_a_failed_attempt(memory: JobStore) -> None:
    @durable_job("k")
    def handler() -> str:
        return "x" * (32 * MIB)

    error = str(ran(memory, handler, "k", policy="small").error)

    assert error.startswith("result_too_large: the result is 33,554,434 bytes of JSON, at most 64 are allowed")


def test_a_result_for_which_the_memory_does_not_suffice_is_a_failed_attempt(
    memory: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(JobStore, "completing", full)

    @durable_job("k")
    def handler() -> int:
        return 4

    assert str(ran(memory, handler, "k", policy="small").error) == "the result could not be stored: MemoryError"
