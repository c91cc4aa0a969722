"""A payload becomes arguments by name and type; one that does not fit fails the attempt, and never in a hot loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest

from jobledger.adapters.bootstrap import JobStore
from jobledger.adapters.worker import JobContext, durable_job
from jobledger.adapters.worker.parameters import PayloadMisfitError
from jobledger.adapters.worker.registration import registered
from jobledger.domain.job import State
from tests.worker.hosting import created, ended, hosted, names


@dataclass
class Range:
    first: int
    last: int


@durable_job("k")
def fields(job: JobContext, name: str, day: date, size: int = 3) -> None: ...


@durable_job("k")
def one(span: Range) -> None: ...


@durable_job("k")
def optional(size: int | None = 5) -> None: ...


@durable_job("k")
def anything(job: JobContext, **payload: int) -> None: ...


@durable_job("k")
def nothing(job: JobContext) -> None: ...


@durable_job("k")
def untyped_context(job, size: int) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001  # the name says it


@pytest.mark.parametrize(
    ("handler", "payload", "arguments"),
    [
        (fields, {"name": "a", "day": "2026-01-02"}, {"name": "a", "day": date(2026, 1, 2)}),
        (fields, {"name": "a", "day": "2026-01-02", "size": 1}, {"name": "a", "day": date(2026, 1, 2), "size": 1}),
        (one, {"span": {"first": 1, "last": 2}}, {"span": Range(1, 2)}),
        (optional, None, {}),
        (optional, 7, {"size": 7}),
        (optional, {"size": None}, {"size": None}),
        (anything, {"a": 1, "b": 2}, {"a": 1, "b": 2}),
        (anything, None, {}),
        (nothing, {"read": "from the context"}, {}),
        (nothing, [1, 2], {}),
        (untyped_context, 4, {"size": 4}),
    ],
)
def test_a_payload_that_fits_is_bound(handler: Callable[..., Any], payload: Any, arguments: dict[str, Any]) -> None:
    assert registered(handler).parameters.bind(payload) == arguments


@pytest.mark.parametrize(
    ("handler", "payload", "problem"),
    [
        (fields, {"day": "2026-01-02"}, "'name' is missing"),
        (fields, {"name": "a", "day": "soon"}, "'day': input should be a valid date"),
        (fields, {"name": "a", "day": "2026-01-02", "sise": 1}, "'sise' is unknown"),
        (fields, [1], "an object is needed, not list"),
        (fields, None, "'name' is missing"),
        (one, {"span": {"first": 1}}, "'span.last': field required"),
        (one, None, "'span': input should be an object"),
        (anything, {"a": "b"}, "'a': input should be a valid integer"),
        (anything, {"job": 1}, "'job' is the name of the handler's context"),
        (anything, 3, "an object is needed, not int"),
    ],
)
def test_a_payload_that_does_not_fit_says_why(handler: Callable[..., Any], payload: Any, problem: str) -> None:
    with pytest.raises(PayloadMisfitError) as refusal:
        registered(handler).parameters.bind(payload)

    assert problem in str(refusal.value)


def test_a_misfit_fails_attempts_with_back_off_until_the_budget_is_used_up(store: JobStore) -> None:
    @durable_job("k")
    def handler(size: int) -> None: ...

    with hosted(store, handler):
        job_id = created(store, "k", {"size": "large"}, policy="twice")
        status = ended(store, job_id)

    assert status.state is State.FAILED
    assert status.error is not None
    assert "the payload does not fit the handler: 'size'" in status.error
    assert names(store, job_id) == ["Created", "Claimed", "AttemptFailed", "Claimed", "Completed"]


def test_a_misfit_is_no_hot_loop(memory: JobStore) -> None:
    @durable_job("k")
    def handler(size: int) -> None: ...

    with hosted(memory, handler):
        job_id = created(memory, "k", {"size": "large"}, policy="default")
        for _ in range(10):
            memory.wait_for_change(0.05)

    assert memory.status(job_id).generation <= 2
