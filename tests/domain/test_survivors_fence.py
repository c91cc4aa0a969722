"""Edges of the fence that examples elsewhere do not reach: both directions of each comparison, texts at their bound."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest

from jobledger.domain.errors import InvalidRequestError, OutOfOrderError, StaleEpochError, StaleFenceError
from jobledger.domain.lease import FENCE_TOKEN_CHARACTERS_MAX, Fence, LeaseRow, require_fence
from tests.domain.given import JOB_ID, NOON, claimed, created, fence, interrupted, standing, token

SECOND_ATTEMPT = [created(), claimed(1), interrupted(1), claimed(2, worker="w2")]


@pytest.mark.parametrize("generation", [1, 3])
def test_the_right_token_of_another_generation_is_stale(generation: int) -> None:
    with pytest.raises(StaleFenceError):
        require_fence(standing(SECOND_ATTEMPT), fence(generation, secret=token(2)), 1)


def test_a_wrong_token_is_stale_whatever_its_digest() -> None:
    """Some digests are larger than the right one and some are smaller."""
    for number in range(40):
        with pytest.raises(StaleFenceError):
            require_fence(standing(SECOND_ATTEMPT), fence(2, secret=f"guess {number}"), 1)


@pytest.mark.parametrize("group", ["a group", "the group"])
def test_the_right_token_of_another_group_is_stale(group: str) -> None:
    with pytest.raises(StaleFenceError):
        require_fence(standing(SECOND_ATTEMPT), fence(2, group=group), 1)


@pytest.mark.parametrize("epoch", [2, 4])
def test_an_attempt_of_any_other_epoch_is_fenced_off(epoch: int) -> None:
    """Also one of a later epoch than its group is at, as after a restored backup."""
    now = standing([created(), claimed(1, epoch=3)], epoch=epoch)

    assert now.is_epoch_stale
    with pytest.raises(StaleEpochError):
        require_fence(now, fence(1, epoch=3), 1)


def test_large_numbers_are_compared_by_value() -> None:
    """Beyond those that Python keeps once only."""
    large = int("1000")
    now = standing([created(), claimed(1000, epoch=1000)], epoch=large)

    assert not now.is_epoch_stale
    assert require_fence(now, fence(large, epoch=large), 1).epoch == 1000


def test_an_attempt_whose_lease_row_is_gone_can_write_nothing() -> None:
    now = replace(standing([created(), claimed(1)]), lease=None)

    with pytest.raises(StaleFenceError):
        require_fence(now, fence(1), 1)


def test_steps_start_at_one() -> None:
    assert LeaseRow(1, NOON).step == 0
    with pytest.raises(OutOfOrderError):
        require_fence(standing([created(), claimed(1)]), fence(1), 0)


def padded(characters: int) -> str:
    """A fence's text of this length: JSON may have spaces between its parts."""
    parts = json.dumps([JOB_ID, 1, "default", 1, "secret", 0])
    size = characters // 4 * 3
    return base64.urlsafe_b64encode((parts[:-1] + " " * (size - len(parts)) + "]").encode()).decode()


def test_a_text_at_the_bound_is_a_fence_and_a_longer_one_is_not_looked_at() -> None:
    longest = padded(FENCE_TOKEN_CHARACTERS_MAX)
    assert (FENCE_TOKEN_CHARACTERS_MAX, len(longest)) == (8_000, 8_000)
    assert Fence.from_token(longest).job_id == JOB_ID

    with pytest.raises(InvalidRequestError):
        Fence.from_token(padded(FENCE_TOKEN_CHARACTERS_MAX + 4))


@pytest.mark.parametrize("stranger", ["!", "\n", " "])
def test_a_text_with_a_stranger_in_it_is_no_fence(stranger: str) -> None:
    text = fence(1).to_token()

    with pytest.raises(InvalidRequestError):
        Fence.from_token(text[:8] + stranger + text[8:])


def test_a_fence_shows_who_it_is_and_nothing_else() -> None:
    assert repr(fence(1)) == f"Fence(job_id={JOB_ID!r}, generation=1, group='default', epoch=1)"
