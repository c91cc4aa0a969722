"""Faults of creating: a key is never reserved for nothing, never answered for a job that is not there."""

from __future__ import annotations

import itertools
from collections.abc import Callable
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
from tests.cases.conftest import Delayed, _sqlite
from tests.contracts.faults import FaultyStorage, TwinStorage
from tests.contracts.jobs import created

REQUEST = JobRequest(
    owner="team", kind="index", key="k", payload={"big": "p" * 5_000}, labels={"a": "b"}, submission="s"
)
STRIDE = 40
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
    """Sessions of a store that break down after so many steps of SQLite's machine."""

    def __init__(self) -> None:
        """Never break down."""
        self.after: int | None = None
        self.happened = False

    def __call__(self, session: Session) -> dict[str, Callable[..., Any]]:
        """Prepare a session."""
        steps = itertools.count()

        def is_over() -> bool:
            self.happened = self.happened or (self.after is not None and next(steps) >= self.after)
            return self.after is not None and self.happened

        session.connection.set_progress_handler(is_over if self.after is not None else None, STRIDE)  # type: ignore[attr-defined]  # SQLite's own
        return {}


def test_a_create_that_breaks_down_anywhere_leaves_nothing_and_can_be_repeated(
    tmp_path: Any, clock: ManualClock
) -> None:
    """At whichever of its steps: no job, no row beside it, and the same request succeeds the next time."""
    inner: SQLiteStorage = _sqlite(tmp_path, clock)
    interrupting = Interrupting()
    twin: Storage = TwinStorage(inner, interrupting)
    store = JobStore(Setting(twin, SystemEntropy()))
    breakdowns = 0

    receipt = None
    while receipt is None:
        interrupting.after, interrupting.happened = breakdowns, False
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


def test_payloads_that_are_nearly_equal_are_not_the_same() -> None:
    marks = {fingerprint("index", {"n": number, "text": "x" * (number % 3)}, None) for number in range(20_000)}

    assert len(marks) == 20_000


def test_creates_that_were_rolled_back_stop_no_reader(sqlite: JobStore) -> None:
    """A reader of the feed waits for no number that was given and never used."""
    created(sqlite, "first")
    for _ in range(20):
        with pytest.raises(LookupError):
            rolled_back(sqlite)
    last = created(sqlite, "last")

    entries = sqlite.feed().entries

    assert [entry.name for entry in entries] == ["Created", "Created"]
    assert entries[-1].job_id == last


def rolled_back(store: JobStore) -> None:
    """A record that was written, and undone with its transaction."""
    setting = store._setting  # noqa: SLF001  # a transaction that ends badly is not part of the face
    with setting.storage.writing(setting.patience) as session:
        assert written(session) == 1
        raise LookupError("rolled back by the test")


def written(session: Any) -> int:
    """How many records a statement of SQLite's own wrote."""
    insert = "INSERT INTO stored_events (originator_id, originator_version, topic, state) VALUES ('x', 1, 't', x'')"
    count: int = session.connection.execute(insert).rowcount
    return count
