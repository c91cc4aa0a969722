"""Units: a bounded piece of work is proved once, whoever did it."""

import pytest

from jobledger.domain.decisions.working import FirstReceipt
from jobledger.domain.errors import OutOfOrderError, ReceiptChangedError, ReceiptTooLargeError
from jobledger.domain.events import JobEvent, UnitRecorded
from jobledger.domain.job import State, evolve
from jobledger.domain.policies import Policy
from jobledger.domain.values import Json
from tests.domain import when
from tests.domain.given import (
    NOON,
    SECOND,
    attempt_failed,
    body,
    claimed,
    created,
    fence,
    interrupted,
    replay,
    standing,
    unit_recorded,
)

OPEN: list[JobEvent] = [created(), claimed(1)]


def first_of(receipt: Json, generation: int = 1) -> FirstReceipt:
    """The receipt that a unit already has."""
    return FirstReceipt(receipt=body(receipt), value=receipt, generation=generation, sequence=3)


def test_a_unit_is_recorded_with_its_receipt() -> None:
    """The receipt is the proof that it was done; the job counts it."""
    now = standing(OPEN, now=NOON + SECOND)

    fact = when.only(when.record_unit(now, unit="batch-7", receipt={"rows": 10}), UnitRecorded)

    assert (fact.generation, fact.unit, fact.receipt, fact.at) == (1, "batch-7", body({"rows": 10}), NOON + SECOND)
    job = evolve(now.job, fact)
    assert (job.state, job.units) == (State.RUNNING, 1)


def test_the_same_receipt_again_is_reused() -> None:
    """Nothing is appended: the unit was done once."""
    now = standing([*OPEN, unit_recorded(1, "batch-1", {"rows": 10})])

    assert when.record_unit(now, unit="batch-1", receipt={"rows": 10}, first=first_of({"rows": 10})) == []


def test_a_unit_of_an_older_generation_is_known_to_the_newer_one() -> None:
    """Recorded work is not run again after a take-over."""
    now = standing([*OPEN, unit_recorded(1, "batch-1", "done"), interrupted(1), claimed(2)])

    assert when.record_unit(now, fence(2), unit="batch-1", receipt="done", first=first_of("done")) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [("a", "b"), (1, 1.0), (1, True), (0, False), (None, 0), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), (0.0, -0.0)],
)
def test_a_different_receipt_is_refused_with_the_first(first: Json, second: Json) -> None:
    """Byte-equal or different: the caller gets the receipt that stands, and who recorded it."""
    now = standing([*OPEN, unit_recorded(1, "batch-1", first), interrupted(1), claimed(2)])

    with pytest.raises(ReceiptChangedError) as refusal:
        when.record_unit(now, fence(2), unit="batch-1", receipt=second, first=first_of(first))

    assert (refusal.value.unit, refusal.value.generation) == ("batch-1", 1)
    assert refusal.value.first is first


@pytest.mark.parametrize("other", ["x" * 4_999, "x" * 4_998 + "y"], ids=["shorter", "same length"])
def test_large_receipts_are_compared_by_their_digests(other: str) -> None:
    """Also receipts that are kept aside are equal only byte by byte."""
    now = standing(OPEN)
    large = "x" * 5_000

    assert when.record_unit(now, receipt=large, first=first_of(large)) == []
    with pytest.raises(ReceiptChangedError):
        when.record_unit(now, receipt=other, first=first_of(large))


def test_a_receipt_may_be_as_large_as_the_policy_says_and_not_a_byte_larger() -> None:
    """Nothing is cut to fit."""
    facts = [created(policy=Policy(receipt_bytes_max=6)), claimed(1)]

    assert len(when.record_unit(standing(facts), receipt="xxxx")) == 1
    with pytest.raises(ReceiptTooLargeError) as refusal:
        when.record_unit(standing(facts), receipt="xxxxx")
    assert (refusal.value.size, refusal.value.limit) == (7, 6)


def test_a_unit_is_refused_in_the_stated_order() -> None:
    """The fence, the size, then the first receipt."""
    facts = [created(policy=Policy(receipt_bytes_max=2)), claimed(1)]

    with pytest.raises(OutOfOrderError):
        when.record_unit(standing(facts, step=1), receipt="x", first=first_of(1))
    with pytest.raises(ReceiptTooLargeError):
        when.record_unit(standing(facts), receipt="x", first=first_of(1))
    with pytest.raises(ReceiptChangedError):
        when.record_unit(standing(facts), receipt=2, first=first_of(1))


def test_a_new_unit_renews_the_budget() -> None:
    """The attempt got somewhere, in whatever small steps."""
    facts = [created(), claimed(1), attempt_failed(1), claimed(2), interrupted(2), claimed(3)]

    job = replay([*facts, unit_recorded(3)])

    assert (job.interrupts, job.failures) == (0, 0)


def test_a_unit_that_was_recorded_before_renews_nothing() -> None:
    """Repeating old work appends no event, and so is no progress."""
    facts = [created(), claimed(1), unit_recorded(1, "batch-1", "done"), interrupted(1), claimed(2)]

    events = when.record_unit(standing(facts), fence(2), unit="batch-1", receipt="done", first=first_of("done"))

    assert replay([*facts, *events]).interrupts == 1
