"""Faults of creating: a key is never reserved for nothing, never answered for a job that is not there."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobledger import JobRequest, JobStore, ManualClock
from jobledger.adapters.storage.entropy import SystemEntropy
from jobledger.adapters.storage.memory import MemoryStorage
from jobledger.adapters.storage.sqlite import SQLiteStorage
from jobledger.domain.errors import OutcomeUnknownError, StoreUnavailableError
from jobledger.domain.ports import Session, Storage
from jobledger.domain.store import Setting
from jobledger.domain.values import fingerprint
from tests.cases.conftest import (
    Delayed,
    _sqlite,  # pyright: ignore[reportPrivateUsage]  # the opener of the fixture of that name
)
from tests.contracts.faults import FaultyStorage, TwinStorage
from tests.contracts.jobs import created

REQUEST = JobRequest(
    owner="team", kind="index", key="k", payload={"big": "p" * 5_000}, labels={"a": "b"}, submission="s"
)
STRIDE = 2
"""So many steps of SQLite's machine lie between two crashes."""


def test_a_create_that_was_rolled_back_reserves_nothing(clock: ManualClock) -> None:
    """The holder of a key that nobody committed is nobody: the next one makes the job."""
    faulty = FaultyStorage(MemoryStorage(clock=clock))
    store = JobStore(Setting(faulty, SystemEntropy()))
    faulty.plan = ["undone"] * 9
    with pytest.raises(OutcomeUnknownError):
        store.create(REQUEST)
    faulty.plan = []

    receipt = store.create(REQUEST)

    assert not receipt.reused
    assert store.status(receipt.job_id).key == "k"


def test_of_two_creates_that_met_nobody_one_makes_the_job(delayed: Delayed) -> None:
    """The second was decided before the first was there; it is not written, and asks again."""
    second = delayed.held_back(lambda: delayed.store.create(REQUEST))
    first = delayed.store.create(REQUEST)

    assert delayed.deliver(second) == ["sequence"]
    assert delayed.store.create(REQUEST).job_id == first.job_id
    assert sum(delayed.store.counts().values()) == 1


class Interrupting:
    """Sessions of a store whose statements break down after so many steps of SQLite's machine."""

    def __init__(self, *, for_good: bool = False) -> None:
        """Never break down, until ``after`` is set; then once, or from there on for good."""
        self.after: int | None = None
        self.for_good = for_good

    def __call__(self, session: Session) -> dict[str, Callable[..., Any]]:
        """Prepare a session."""
        steps, after = itertools.count(), self.after

        def is_over() -> bool:
            step = next(steps)
            return self.after is not None and after is not None and (step == after or (self.for_good and step > after))

        raw: Any = session._raw  # type: ignore[attr-defined]  # noqa: SLF001  # what the face lends is guarded
        raw.set_progress_handler(None if after is None else is_over, STRIDE)
        return {}


def test_a_create_that_breaks_down_anywhere_leaves_nothing_and_can_be_repeated(
    tmp_path: Path, clock: ManualClock
) -> None:
    """At whichever of its steps: no job, no row beside it, and the same request succeeds the next time."""
    inner: SQLiteStorage = _sqlite(tmp_path, clock)
    interrupting = Interrupting()
    twin: Storage = TwinStorage(inner, interrupting)
    store = JobStore(Setting(twin, SystemEntropy()))
    breakdowns = 0

    receipt = None
    while receipt is None:
        interrupting.after = breakdowns
        try:
            receipt = store.create(REQUEST)
        except StoreUnavailableError:
            breakdowns += 1
            interrupting.after = None
            assert store.find("team", "k") is None
            assert store.feed().entries == ()

    interrupting.after = None
    assert breakdowns > 5, "it never broke down"
    assert not receipt.reused
    assert store.verify(receipt.job_id).problems == ()
    assert store.status(receipt.job_id).payload == REQUEST.payload
    store.close()


def test_a_transaction_that_cannot_be_rolled_back_holds_nobody_up(tmp_path: Path, clock: ManualClock) -> None:
    """The disk fails again while a failed transaction is undone: its connection is closed, and takes its lock along."""
    interrupting = Interrupting(for_good=True)
    store = JobStore(Setting(TwinStorage(_sqlite(tmp_path, clock), interrupting), SystemEntropy()))
    breakdowns = 0
    for after in range(400):
        interrupting.after = after
        try:
            created(store, f"broken-{after}")
        except StoreUnavailableError:
            breakdowns += 1
            assert store.find("team", f"broken-{after}") is None
        except OutcomeUnknownError:  # the commit itself broke down
            breakdowns += 1
        interrupting.after = None
        assert created(store.within(1), f"whole-{after}")

    assert breakdowns > 5
    assert all(verified.ok for verified in store.verify_all())
    store.close()


def test_payloads_that_are_nearly_equal_are_not_the_same() -> None:
    marks = {fingerprint("index", {"n": number, "text": "x" * (number % 3)}, None) for number in range(20_000)}

    assert len(marks) == 20_000


def test_creates_that_were_rolled_back_stop_no_reader(tmp_path: Path, clock: ManualClock) -> None:
    """A reader of the feed waits for no number that was given and never used."""
    faulty = FaultyStorage(_sqlite(tmp_path, clock))
    store = JobStore(Setting(faulty, SystemEntropy()))
    first = created(store, "first")
    for number in range(10):
        faulty.plan = ["undone"] * 4
        with pytest.raises(OutcomeUnknownError):
            created(store, f"never-{number}")
    last = created(store, "last")

    entries = store.feed().entries

    assert faulty.transactions >= 42
    assert [entry.job_id for entry in entries] == [first, last]
    store.close()
