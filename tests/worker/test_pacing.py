"""The pace of looks for work: none waits on an idle host, and news of others do not make a host look all the time."""

from __future__ import annotations

from contextlib import AbstractContextManager

import pytest

from jobledger.adapters.worker import pacing
from jobledger.adapters.worker.pacing import GAP_FIRST, GAP_MAX, Pace
from jobledger.domain.ports import Reader
from tests.worker.hosting import created, opened
from tests.worker.outages import FragileStorage


class Watch:
    """A clock by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch()
    monkeypatch.setattr(pacing, "elapsed", watch)
    return watch


def test_the_first_look_waits_for_nothing(watch: Watch) -> None:
    del watch

    assert Pace().left == 0


def test_after_a_while_without_a_look_the_next_one_waits_for_nothing(watch: Watch) -> None:
    pace = Pace()
    for _ in range(20):
        pace.looked(0.5, is_in_vain=True)

    watch.now += GAP_MAX

    assert pace.left == 0


def test_looks_that_find_work_take_half_of_the_time_at_most(watch: Watch) -> None:
    del watch
    pace = Pace()

    pace.looked(0.003, is_in_vain=False)

    assert pace.left == pytest.approx(0.003)


def test_each_look_in_vain_doubles_the_gap_up_to_its_bound(watch: Watch) -> None:
    del watch
    pace = Pace()
    gaps = []

    for _ in range(8):
        pace.looked(0.5, is_in_vain=True)
        gaps.append(pace.left)

    assert gaps[:3] == pytest.approx([GAP_FIRST, 2 * GAP_FIRST, 4 * GAP_FIRST])
    assert gaps[-1] == pytest.approx(GAP_MAX)


def test_a_look_that_finds_work_ends_the_row_of_those_in_vain(watch: Watch) -> None:
    del watch
    pace = Pace()
    for _ in range(8):
        pace.looked(0.5, is_in_vain=True)

    pace.looked(0.0, is_in_vain=False)
    pace.looked(0.5, is_in_vain=True)

    assert pace.left == pytest.approx(GAP_FIRST)


class LookedAt(FragileStorage):
    """A storage that counts how often somebody looked."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def reading(self) -> AbstractContextManager[Reader]:
        """A view."""
        self.looks += 1
        return super().reading()


@pytest.mark.parametrize(("limit", "looks"), [(3, 1), (10, 1), (2, 1)])
def test_a_claim_that_got_all_there_was_does_not_look_again(limit: int, looks: int) -> None:
    """Its leases would wait for that look, and the job that was just created with them."""
    storage = LookedAt()
    with opened(storage) as store:
        for _ in range(3):
            created(store, "k")
        storage.looks = 0

        leases = store.claim_next(worker="w", limit=limit)

    assert (len(leases), storage.looks) == (min(limit, 3), looks)
