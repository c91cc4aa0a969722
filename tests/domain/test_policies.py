"""Policies: named limits with their ranges, which travel with the job they were resolved for."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import assume
from hypothesis import given as for_all
from hypothesis import strategies as st

from jobledger.domain.errors import InvalidRequestError
from jobledger.domain.policies import Backoff, Policy, renewal_span

DEFAULTS: dict[str, Any] = {
    "lease": timedelta(seconds=30),
    "renew_every": timedelta(seconds=10),
    "interrupts_max": 5,
    "failures_max": 5,
    "backoff": Backoff(initial=timedelta(seconds=1), factor=2, cap=timedelta(minutes=10)),
    "run_time_max": None,
    "payload_bytes_max": 1024 * 1024,
    "checkpoint_bytes_max": 1024 * 1024,
    "result_bytes_max": 1024 * 1024,
    "receipt_bytes_max": 64 * 1024,
    "window_events_max": 1_000,
    "progress_every": timedelta(seconds=1),
    "queue_depth_max": None,
    "checkpoints_keep": 8,
    "keep_finished": None,
}


def test_every_limit_has_its_published_default() -> None:
    """No field more, none fewer: users rely on them."""
    policy = Policy()

    assert {name: getattr(policy, name) for name in Policy.model_fields} == DEFAULTS
    assert policy.backoff.jitter > 0


def test_a_span_is_a_timedelta_or_a_number_of_seconds() -> None:
    """Both say the same."""
    seconds: list[Any] = [2, 2.0, timedelta(seconds=2)]

    assert {Policy(lease=each).lease for each in seconds} == {timedelta(seconds=2)}


@pytest.mark.parametrize("lease", [1, 1.0, timedelta(hours=24), 86_400])
def test_a_lease_lives_from_a_second_to_a_day(lease: Any) -> None:
    """The bounds themselves are allowed."""
    assert timedelta(seconds=1) <= Policy(lease=lease).lease <= timedelta(hours=24)


NO_LEASE = [0, 0.999999, -1, 86_400.000001, True, "30", "PT30S", float("nan"), float("inf"), None, [30]]


@pytest.mark.parametrize("lease", NO_LEASE, ids=repr)
def test_any_other_lease_is_refused(lease: Any) -> None:
    """Also ``True``, text and NaN; nothing is converted silently."""
    with pytest.raises(InvalidRequestError):
        Policy(lease=lease)


@pytest.mark.parametrize("number", [10**400, -(10**400)], ids=["large", "negative"])
def test_a_lease_beyond_all_numbers_is_refused_like_any_other(number: Any) -> None:
    """An integer that no float can hold is a mistake of the caller, not a crash."""
    with pytest.raises(InvalidRequestError):
        Policy(lease=number)


COUNTS_OF = ["interrupts_max", "failures_max", "window_events_max", "checkpoints_keep", "queue_depth_max"]
SIZES_OF = ["payload_bytes_max", "checkpoint_bytes_max", "result_bytes_max", "receipt_bytes_max"]
SPANS_OF = ["run_time_max", "progress_every", "keep_finished", "renew_every"]


@pytest.mark.parametrize("field", COUNTS_OF)
@pytest.mark.parametrize("count", [0, -1, 1_000_001, 1.0, True, "5"], ids=repr)
def test_a_count_out_of_its_range_is_refused(field: str, count: Any) -> None:
    """From one to a million, and whole."""
    with pytest.raises(InvalidRequestError):
        Policy(**{field: count})


@pytest.mark.parametrize("field", SIZES_OF)
@pytest.mark.parametrize("size", [1, 256 * 1024 * 1024 + 1, 2.0, True], ids=repr)
def test_a_size_out_of_its_range_is_refused(field: str, size: Any) -> None:
    """Bodies are bounded, whatever the policy says."""
    with pytest.raises(InvalidRequestError):
        Policy(**{field: size})


@pytest.mark.parametrize("field", SPANS_OF)
@pytest.mark.parametrize("span", [0, -1, True, "1", float("nan"), 3_651 * 86_400], ids=repr)
def test_a_span_out_of_its_range_is_refused(field: str, span: Any) -> None:
    """From a millisecond to ten years."""
    with pytest.raises(InvalidRequestError):
        Policy(**{field: span})


@pytest.mark.parametrize("field", ["lease", *COUNTS_OF, *SIZES_OF, *SPANS_OF])
def test_a_limit_out_of_its_range_is_refused_by_its_name(field: str) -> None:
    """A policy has fifteen limits: the refusal says which one was meant."""
    values: dict[str, Any] = {field: -1}

    with pytest.raises(InvalidRequestError) as refusal:
        Policy(**values)

    assert field in refusal.value.field


def test_an_unknown_limit_is_refused_by_its_name() -> None:
    """A misspelt limit is never ignored."""
    misspelt: dict[str, Any] = {"leese": timedelta(seconds=30)}

    with pytest.raises(InvalidRequestError, match="leese"):
        Policy(**misspelt)


def test_a_policy_is_frozen() -> None:
    """What was resolved for a job cannot change under it."""
    with pytest.raises(Exception, match="frozen"):
        Policy().lease = timedelta(seconds=5)  # type: ignore[misc]  # the mistake under test


# Renewal --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lease", "renew_every"), [(30, 15), (30, 16), (2, 1), (19, 10)])
def test_a_renewal_that_comes_too_late_for_its_lease_is_refused_with_both_numbers(lease: Any, renew_every: Any) -> None:
    """Below half of the lease, so that one lost packet loses no attempt."""
    with pytest.raises(InvalidRequestError) as refusal:
        Policy(lease=lease, renew_every=renew_every)

    assert str(timedelta(seconds=lease)) in str(refusal.value)
    assert str(timedelta(seconds=renew_every)) in str(refusal.value)


@for_all(st.timedeltas(timedelta(seconds=1), timedelta(hours=24)))
def test_the_renewal_follows_the_lease_where_it_is_not_given(lease: timedelta) -> None:
    """A third of it, at most ten seconds; so every lease gives a valid policy."""
    policy = Policy(lease=lease)

    assert policy.renew_every == min(lease / 3, timedelta(seconds=10)) == renewal_span(lease)
    assert policy.renew_every * 2 < policy.lease


@for_all(st.timedeltas(timedelta(seconds=1), timedelta(hours=24)))
def test_a_lease_that_a_claim_asked_for_is_renewed_in_time(lease: timedelta) -> None:
    """Also when it is shorter than the policy's own."""
    assert Policy().renewal_of(lease) * 2 < lease


# Back-off -------------------------------------------------------------------------------------------------------------


@for_all(
    initial=st.timedeltas(timedelta(milliseconds=1), timedelta(days=3_650)),
    factor=st.floats(1, 100),
    cap=st.timedeltas(timedelta(milliseconds=1), timedelta(days=3_650)),
    jitter=st.floats(0, 1),
    failures=st.integers(1, 1_000_000),
    chance=st.floats(0, 1),
)
def test_a_wait_is_between_nothing_and_its_cap(
    initial: timedelta, factor: float, cap: timedelta, jitter: float, failures: int, chance: float
) -> None:
    """For every number of failures: no overflow, no negative wait, nothing beyond the cap."""
    backoff = Backoff(initial=initial, factor=factor, cap=cap, jitter=jitter)

    assert timedelta(0) <= backoff.wait(failures, chance) <= cap


@for_all(failures=st.integers(1, 50))
def test_without_chance_waits_never_shrink(failures: int) -> None:
    """Each further failure waits at least as long."""
    backoff = Backoff(jitter=0)

    assert backoff.wait(failures, 0.0) <= backoff.wait(failures + 1, 0.0)


@pytest.mark.parametrize(
    "values",
    [
        {"initial": 0},
        {"cap": 0},
        {"factor": 0.5},
        {"factor": 101},
        {"factor": float("nan")},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"jitter": float("nan")},
        {"base": 2},
    ],
    ids=str,
)
def test_a_back_off_out_of_its_range_is_refused(values: dict[str, Any]) -> None:
    """By the same error as every other mistake."""
    with pytest.raises(InvalidRequestError):
        Backoff(**values)


# Travelling -----------------------------------------------------------------------------------------------------------

SPANS = st.timedeltas(timedelta(milliseconds=1), timedelta(days=3_650))
COUNTS = st.integers(1, 1_000_000)
SIZES = st.integers(2, 256 * 1024 * 1024)


def _back_off(values: dict[str, Any]) -> Backoff:
    return Backoff(**values)


BACKOFFS = st.fixed_dictionaries(
    {}, optional={"initial": SPANS, "factor": st.floats(1, 100), "cap": SPANS, "jitter": st.floats(0, 1)}
).map(_back_off)
LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "lease": st.timedeltas(timedelta(seconds=1), timedelta(hours=24)),
        "renew_every": st.timedeltas(timedelta(milliseconds=1), timedelta(seconds=20)),
        "interrupts_max": COUNTS,
        "failures_max": COUNTS,
        "backoff": BACKOFFS,
        "run_time_max": SPANS,
        "payload_bytes_max": SIZES,
        "checkpoint_bytes_max": SIZES,
        "result_bytes_max": SIZES,
        "receipt_bytes_max": SIZES,
        "window_events_max": COUNTS,
        "progress_every": SPANS,
        "queue_depth_max": COUNTS,
        "checkpoints_keep": COUNTS,
        "keep_finished": SPANS,
    },
)


@for_all(LIMITS)
def test_any_policy_is_rebuilt_from_its_stored_changes(values: dict[str, Any]) -> None:
    """Through JSON and back, to the microsecond: the job keeps the limits that it was created with."""
    lease = values.get("lease", DEFAULTS["lease"])
    assume("renew_every" not in values or values["renew_every"] * 2 < lease)
    policy = Policy(**values)

    stored = json.loads(json.dumps(policy.changes()))

    assert Policy.of_changes(stored) == policy


@pytest.mark.parametrize("lease", [21, 25, 29, 30, 31, 60])
def test_a_renewal_of_ten_seconds_that_was_given_by_name_is_rebuilt(lease: int) -> None:
    """It is the default's value, and still not what would follow from a lease below half a minute."""
    policy = Policy(lease=timedelta(seconds=lease), renew_every=timedelta(seconds=10))

    assert Policy.of_changes(policy.changes()).renew_every == timedelta(seconds=10)


def test_the_default_policy_has_no_changes() -> None:
    """Most jobs carry nothing."""
    assert Policy().changes() == {}
    assert Policy.of_changes({}) == Policy()
