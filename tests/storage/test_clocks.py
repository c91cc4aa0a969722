"""Time and chance: the system's, and those that a test or a simulation holds in its hand."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from jobledger.adapters.storage.clocks import START, ManualClock, SystemClock
from jobledger.adapters.storage.entropy import SeededEntropy, SystemEntropy
from jobledger.domain.errors import InvalidRequestError

SECOND = timedelta(seconds=1)


def test_the_system_clock_tells_utc() -> None:
    before = datetime.now(UTC)

    now = SystemClock().now()

    assert before <= now <= datetime.now(UTC)
    assert now.utcoffset() == timedelta(0)


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock()
    assert clock.now() == clock.now() == START

    clock.advance(SECOND)

    assert clock.now() == START + SECOND


def test_a_manual_clock_goes_back_only_on_purpose() -> None:
    clock = ManualClock()
    with pytest.raises(InvalidRequestError, match="step"):
        clock.advance(-SECOND)
    assert clock.now() == START

    clock.step(-SECOND)

    assert clock.now() == START - SECOND


def test_a_manual_clock_loses_no_step_of_any_thread() -> None:
    clock = ManualClock()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(clock.advance, [SECOND] * 400))

    assert clock.now() == START + 400 * SECOND


def test_a_manual_clock_needs_a_zone() -> None:
    with pytest.raises(InvalidRequestError, match="time zone"):
        ManualClock(datetime(2026, 1, 1))  # noqa: DTZ001  # the mistake that is tested


@pytest.mark.parametrize("entropy", [SystemEntropy(), SeededEntropy(1)])
def test_ids_are_unique_uuids_that_sort_by_their_time(entropy: SystemEntropy | SeededEntropy) -> None:
    ids = [entropy.new_id() for _ in range(2000)]

    assert len(set(ids)) == len(ids)
    assert ids == sorted(ids)
    assert {(uuid.UUID(each).version, uuid.UUID(each).variant) for each in ids} == {(7, uuid.RFC_4122)}


@pytest.mark.parametrize("entropy", [SystemEntropy(), SeededEntropy(1)])
def test_tokens_are_long_and_chance_is_even(entropy: SystemEntropy | SeededEntropy) -> None:
    tokens = {entropy.new_token() for _ in range(1000)}
    chances = [entropy.chance() for _ in range(1000)]

    assert len(tokens) == 1000
    assert min(len(token) for token in tokens) >= 32
    assert 0 <= min(chances) < 0.1
    assert 0.9 < max(chances) <= 1


def test_a_seed_repeats_everything() -> None:
    def drawn(seed: int) -> list[object]:
        entropy = SeededEntropy(seed)
        return [draw() for draw in (entropy.new_id, entropy.new_token, entropy.chance) for _ in range(5)]

    assert drawn(7) == drawn(7) != drawn(8)


def test_the_system_repeats_nothing() -> None:
    assert SystemEntropy().new_token() != SystemEntropy().new_token()
