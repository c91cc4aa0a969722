"""Progress: what an attempt says of itself, which is never a result."""

import pytest

from jobledger.domain.decisions.working import require_progress
from jobledger.domain.errors import InvalidRequestError, UnstorableValueError
from jobledger.domain.events import JobEvent, ProgressReported
from jobledger.domain.job import Reported, State, evolve
from tests.domain import when
from tests.domain.given import (
    NOON,
    SECOND,
    attempt_failed,
    claimed,
    created,
    interrupted,
    progress_reported,
    replay,
    standing,
)

OPEN: list[JobEvent] = [created(), claimed(1)]


def test_progress_is_recorded_as_it_was_said() -> None:
    """The newest report is the one that is shown."""
    now = standing([*OPEN, progress_reported(1, 1, 10)], now=NOON + SECOND)

    said = when.only(when.report_progress(now, done=4.5, total=10), ProgressReported)

    assert (said.generation, said.done, said.total, said.at) == (1, 4.5, 10, NOON + SECOND)
    assert evolve(now.job, said).progress == Reported(done=4.5, total=10)


@pytest.mark.parametrize(("done", "total"), [(10, 10), (11, 10), (1.0, 1.0)])
def test_all_done_is_still_running(done: float, total: float) -> None:
    """Progress is not a substitute for a terminal result."""
    now = standing(OPEN)

    job = evolve(now.job, when.only(when.report_progress(now, done=done, total=total), ProgressReported))

    assert (job.state, job.outcome, job.attempt is None) == (State.RUNNING, None, False)


def test_progress_renews_no_budget() -> None:
    """Saying that one gets on is not getting on: a crash loop may report all it likes."""
    facts = [created(), claimed(1), attempt_failed(1), claimed(2), interrupted(2), claimed(3)]

    job = replay([*facts, progress_reported(3, 9, 10)])

    assert (job.interrupts, job.failures) == (1, 1)


def test_the_last_report_outlives_its_attempt() -> None:
    """A parked job still shows how far it was."""
    assert replay([*OPEN, progress_reported(1, 3), interrupted(1)]).progress == Reported(done=3)


@pytest.mark.parametrize("number", [-1, -0.5, float("nan"), float("inf"), 2**63, True, "1", [1]], ids=repr)
@pytest.mark.parametrize("field", ["done", "total"])
def test_a_number_out_of_its_range_is_refused(field: str, number: object) -> None:
    """Finite, from 0 up to 2^63-1, and a number; the field is named."""
    values: dict[str, object] = {"done": 1, "total": 2, "message": None, field: number}

    with pytest.raises(InvalidRequestError) as refusal:
        require_progress(**values)

    assert field in refusal.value.field


@pytest.mark.parametrize(("done", "total"), [(0, None), (0, 0), (2**63 - 1, 1), (0.25, 1)])
def test_numbers_within_their_range_are_accepted(done: float, total: float | None) -> None:
    """More done than there was is the worker's own business."""
    require_progress(done, total, "halfway")


def test_how_much_is_done_has_to_be_said() -> None:
    """Only the total may be unknown."""
    with pytest.raises(InvalidRequestError):
        require_progress(None, None, None)


def test_a_message_is_bounded_and_storable() -> None:
    """It may be empty."""
    require_progress(1, None, "")
    require_progress(1, None, "x" * 2_000)
    with pytest.raises(InvalidRequestError):
        require_progress(1, None, "x" * 2_001)
    with pytest.raises(UnstorableValueError):
        require_progress(1, None, "a\0b")
