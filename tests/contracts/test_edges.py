"""Edges of calls that examples elsewhere do not reach: wrong arguments, gaps, pages, and what comes at once."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from jobledger import JobledgerError, JobRequest, JobStore, ManualClock, Policy
from jobledger.adapters.storage.entropy import SystemEntropy
from jobledger.adapters.storage.memory import MemoryStorage
from jobledger.adapters.storage.sqlite import SQLiteStorage
from jobledger.domain import replaying
from jobledger.domain.bounds import BATCH_MAX
from jobledger.domain.errors import HistoryCorruptError, StoreUnavailableError
from jobledger.domain.job import State
from jobledger.domain.ports import Reader, Session, Storage
from jobledger.domain.store import Setting
from tests.contracts.conftest import POLICIES
from tests.contracts.faults import PassingStorage
from tests.contracts.jobs import created, refuses, running

OPS: Any = {"by": "ops", "reason": "look"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a store lives whose rows a test touches."""
    return tmp_path / "touched.db"


@pytest.fixture
def touched(file: Path, clock: ManualClock) -> Any:
    """A store in that file."""
    with JobStore.open(f"sqlite:///{file}", clock=clock, policies=POLICIES) as opened:
        yield opened


def execute(file: Path, statement: str, *values: object) -> None:
    """Change a row past every rule."""
    with closing(sqlite3.connect(file)) as connection, connection:
        assert connection.execute(statement, values).rowcount


# Settings and arguments -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policies", [{"": Policy()}, {5: Policy()}, {"quick": 3}, {"quick": None}], ids=repr)
def test_policies_that_are_none_are_refused_at_the_door(policies: Any) -> None:
    refuses("invalid_request", lambda: JobStore.open("memory:", policies=policies))


@pytest.mark.parametrize("namespace", ["", 5])
def test_a_namespace_has_a_name(namespace: Any) -> None:
    refuses("invalid_request", lambda: JobStore.open("memory:", namespace=namespace))


@pytest.mark.parametrize("job_id", ["", 5, None])
def test_a_job_id_that_is_none_is_no_unknown_job(store: JobStore, job_id: Any) -> None:
    refuses("invalid_request", store.hold, job_id, **OPS)


def test_what_an_operator_saw_is_a_sequence(store: JobStore) -> None:
    job_id = created(store)
    for wrong in (0, -1, True, 1.0, "1"):
        refuses("invalid_request", store.hold, job_id, **OPS, expected_sequence=wrong)

    assert store.hold(job_id, **OPS, expected_sequence=1).sequence == 2


@pytest.mark.parametrize("wrong", [{"job_id": ""}, {"job_id": 5}, {"key": ""}, {"key": None}, {"by": ""}], ids=str)
def test_a_derived_job_is_asked_for_in_full(store: JobStore, wrong: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"job_id": running(store).job_id, "key": "again", **OPS} | wrong
    job_id = asked.pop("job_id")

    refuses("invalid_request", store.rerun, job_id, **asked)
    refuses("invalid_request", store.fork, job_id, at_sequence=1, **asked)


@pytest.mark.parametrize("wrong", [1, "yes", None])
def test_from_its_checkpoint_or_not_is_no_third_thing(store: JobStore, wrong: Any) -> None:
    job_id = store.complete(running(store).fence, result=1).job_id

    refuses("invalid_request", store.rerun, job_id, from_checkpoint=wrong, key="again", **OPS)


@pytest.mark.parametrize("request_", [None, {"owner": "team", "kind": "index"}, "index"], ids=repr)
def test_a_request_is_a_job_request(store: JobStore, request_: Any) -> None:
    refuses("invalid_request", store.create, request_)
    refuses("invalid_request", store.find, "", "k")


def test_another_sequence_is_another_fork(store: JobStore) -> None:
    """Under the same command id; and nothing but a number is a sequence, though a fork of that one exists."""
    job_id = running(store).job_id
    store.fork(job_id, at_sequence=1, key="fork", command_id="c", **OPS)

    refuses("command_changed", store.fork, job_id, at_sequence=2, key="fork", command_id="c", **OPS)
    mistaken: list[Any] = ["1", True, None, 1.0]
    for wrong in mistaken:
        with pytest.raises(JobledgerError):
            store.fork(job_id, at_sequence=wrong, key="fork", **OPS)


def test_a_job_of_another_namespace_is_unknown_everywhere(tmp_path: Path, clock: ManualClock) -> None:
    """Whichever of the two names is the larger one."""
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    with (
        JobStore.open(url, clock=clock, namespace="a") as one,
        JobStore.open(url, clock=clock, namespace="b") as other,
    ):
        for ours, theirs in ((one, other), (other, one)):
            lease = running(ours)
            for call in (
                lambda theirs=theirs, lease=lease: theirs.hold(lease.job_id, **OPS),
                lambda theirs=theirs, lease=lease: theirs.hold(lease.job_id, command_id="c", **OPS),
                lambda theirs=theirs, lease=lease: theirs.fork(lease.job_id, at_sequence=1, key="fork", **OPS),
                lambda theirs=theirs, lease=lease: theirs.rerun(lease.job_id, key="again", **OPS),
                lambda theirs=theirs, lease=lease: theirs.claim(lease.job_id, worker="w"),
                lambda theirs=theirs, lease=lease: theirs.renew(lease.fence),
                lambda theirs=theirs, lease=lease: theirs.recover(lease.job_id),
            ):
                refuses("unknown_job", call)


# Batches --------------------------------------------------------------------------------------------------------------


def test_the_creates_of_a_batch_see_each_other(store: JobStore) -> None:
    """A submission id and a queue's depth count from one item to the next."""
    twice = [JobRequest(owner="team", kind="index", key=key, submission="s") for key in "ab"]
    deep = [JobRequest(owner="team", kind="index", key=key, queue="deep", policy="shallow") for key in "cde"]

    answers = store.create_many([*twice, *deep])

    codes = [answer.code if isinstance(answer, JobledgerError) else "made" for answer in answers]
    assert codes == ["made", "payload_changed", "made", "made", "admission_refused"]


# Derived jobs ---------------------------------------------------------------------------------------------------------


def test_a_derived_job_has_the_large_payload_and_state_of_its_origin(store: JobStore) -> None:
    lease = running(store, payload="p" * 5_000)
    store.checkpoint(lease.fence, "s" * 5_000)
    ended = store.complete(lease.fence, "partial", result=1)

    again = store.rerun(lease.job_id, key="again", from_checkpoint=True, **OPS).job_id
    fork = store.fork(lease.job_id, at_sequence=3, key="fork", **OPS).job_id

    for derived, sequence in ((again, ended.sequence), (fork, 3)):
        status, [made] = store.status(derived), list(store.history(derived))
        assert (status.payload, status.checkpoint) == ("p" * 5_000, "s" * 5_000)
        assert made.data["origin"]["sequence"] == sequence
        assert store.verify(derived).ok


def test_a_job_whose_payload_is_gone_is_run_by_nobody_again(touched: JobStore, file: Path) -> None:
    job_id = touched.complete(running(touched, payload="p" * 5_000).fence, result=1).job_id
    execute(file, "DELETE FROM job_body")

    calls: list[Callable[[], object]] = [
        lambda: touched.rerun(job_id, key="again", **OPS),
        lambda: touched.fork(job_id, at_sequence=2, key="fork", **OPS),
    ]
    for call in calls:
        with pytest.raises(HistoryCorruptError, match="payload are missing") as stopped:
            call()
        assert stopped.value.sequence == 1


# Answers --------------------------------------------------------------------------------------------------------------


def test_an_answer_names_the_error_of_its_own_outcome(store: JobStore, clock: ManualClock) -> None:
    """An attempt that failed before is no error of a job that was completed after all."""
    lease = running(store, "mended")
    store.fail_attempt(lease.fence, "broke")
    clock.advance(timedelta(hours=1))
    mended = store.complete(store.claim(lease.job_id, worker="w2").fence, result=1)
    failed = store.complete(running(store, "failed").fence, "failed", error="no way")

    assert (mended.error, store.status(lease.job_id).error) == (None, "broke")
    assert failed.error == "no way"


# Claims ---------------------------------------------------------------------------------------------------------------


def test_a_claim_of_anything_names_its_epoch(store: JobStore) -> None:
    """Also where there is nothing to claim: a worker of a passed epoch has to hear of it."""
    assert store.claim_next(worker="w", epoch=1) == []
    refuses("stale_epoch", store.claim_next, worker="w", epoch=2)

    store.advance_epoch("default", **OPS)

    refuses("stale_epoch", store.claim_next, worker="w", epoch=1)
    assert store.claim_next(worker="w", epoch=2) == []
    assert store.claim_next(worker="w") == []


def test_no_more_is_claimed_than_was_asked_for(touched: JobStore, file: Path) -> None:
    """Also when some that were found cannot be taken, so that others are looked for."""
    broken, *others = (created(touched, str(priority), priority=priority) for priority in (9, 8, 7, 6, 5))
    execute(file, "UPDATE job_status SET job = x'7b' WHERE job_id = ?", broken)

    leases = touched.claim_next(worker="w", limit=2)

    assert [lease.job_id for lease in leases] == others[:2]


@pytest.mark.parametrize("limit", [0, -1, True, 1.0, "1", None, BATCH_MAX + 1], ids=repr)
def test_a_claim_of_no_sensible_number_is_refused(store: JobStore, limit: Any) -> None:
    created(store)

    refuses("invalid_request", store.claim_next, worker="w", limit=limit)
    assert store.counts()[State.QUEUED] == 1


def test_a_claim_takes_one_job_by_default(store: JobStore) -> None:
    for key in "abc":
        created(store, key)

    assert len(store.claim_next(worker="w")) == 1
    assert len(store.claim_next(worker="w", limit=BATCH_MAX)) == 2


@pytest.mark.parametrize("epoch", [0, -1, True, 1.0, "1"], ids=repr)
def test_an_epoch_that_is_none_is_no_stale_one(store: JobStore, epoch: Any) -> None:
    refuses("invalid_request", store.claim_next, worker="w", epoch=epoch)
    refuses("invalid_request", store.claim, created(store), worker="w", epoch=epoch)


class Failing(PassingStorage):
    """A storage that serves so many views and transactions, and then is down."""

    def __init__(self, inner: Storage, views: int, transactions: int) -> None:
        """Serve so many of each."""
        super().__init__(inner)
        self._left = {"views": views, "transactions": transactions}

    def reading(self) -> AbstractContextManager[Reader]:
        """One of the views that are left."""
        self._use("views")
        return self.inner.reading()

    def writing(self, patience: timedelta, connection: object | None = None) -> AbstractContextManager[Session]:
        """One of the transactions that are left."""
        self._use("transactions")
        return self.inner.writing(patience, connection)

    def _use(self, what: str) -> None:
        if not self._left[what]:
            reason = "it was taken down by the test"
            raise StoreUnavailableError(reason)
        self._left[what] -= 1


@pytest.mark.parametrize(("views", "transactions", "taken"), [(1, 9, 1), (9, 1, 1), (0, 9, 0), (9, 0, 0)])
def test_an_outage_takes_nothing_back_that_was_claimed(
    touched: JobStore, file: Path, clock: ManualClock, views: int, transactions: int, taken: int
) -> None:
    """One of two is damaged, and while another one is looked for the store goes down."""
    broken, taken_first, _ = (created(touched, str(priority), priority=priority) for priority in (9, 8, 7))
    execute(file, "UPDATE job_status SET job = x'7b' WHERE job_id = ?", broken)
    inner = SQLiteStorage(file, clock=clock)
    inner.require_schema()
    failing = JobStore(Setting(Failing(inner, views, transactions), SystemEntropy()))

    if taken:
        assert [lease.job_id for lease in failing.claim_next(worker="w", limit=2)] == [taken_first]
    else:
        refuses("store_unavailable", failing.claim_next, worker="w", limit=2)
    inner.close()


class Interposing(PassingStorage):
    """A storage in which somebody does something just before a transaction begins, once."""

    def __init__(self, inner: Storage, act: Callable[[JobStore], object]) -> None:
        """Let ``act`` use a store of its own."""
        super().__init__(inner)
        self._acts = [act]

    def writing(self, patience: timedelta, connection: object | None = None) -> AbstractContextManager[Session]:
        """A transaction that comes a moment too late."""
        if self._acts:
            self._acts.pop()(JobStore(Setting(self.inner, SystemEntropy())))
        return self.inner.writing(patience, connection)


def test_a_hold_that_comes_between_looking_and_claiming_is_respected(clock: ManualClock) -> None:
    inner = MemoryStorage(clock=clock)
    job_id = created(JobStore(Setting(inner, SystemEntropy())))
    late = JobStore(Setting(Interposing(inner, lambda store: store.hold(job_id, **OPS)), SystemEntropy()))

    assert late.claim_next(worker="w") == []
    assert late.status(job_id).generation == 0


@pytest.mark.parametrize(("kept", "what", "sequence"), [(0, "payload", 1), (1, "checkpoint", 3)])
def test_a_claim_names_the_bytes_that_are_missing(
    touched: JobStore, file: Path, kept: int, what: str, sequence: int
) -> None:
    lease = running(touched, payload="p" * 5_000)
    touched.pause(lease.fence, state="s" * 5_000)
    execute(file, "DELETE FROM job_body WHERE is_checkpoint = ?", kept)

    with pytest.raises(HistoryCorruptError, match=f"the bytes of its {what} are missing") as stopped:
        touched.claim(lease.job_id, worker="w2")
    assert stopped.value.sequence == sequence


def test_an_inherited_state_that_is_missing_is_named_by_the_creation(touched: JobStore, file: Path) -> None:
    lease = running(touched)
    touched.checkpoint(lease.fence, "s" * 5_000)
    fork = touched.fork(lease.job_id, at_sequence=3, key="fork", **OPS).job_id
    execute(file, "DELETE FROM job_body WHERE job_id = ?", fork)

    with pytest.raises(HistoryCorruptError, match="the bytes of its checkpoint are missing") as stopped:
        touched.claim(fork, worker="w")
    assert stopped.value.sequence == 1


# Histories ------------------------------------------------------------------------------------------------------------


def test_a_history_is_read_in_pages(store: JobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "PAGE", 3)
    lease = running(store)
    for done in range(5):
        store.report_progress(lease.fence, done)

        assert [event.sequence for event in store.history(lease.job_id)] == list(range(1, done + 4))


def test_a_gap_is_named_by_the_event_that_is_missing(touched: JobStore, file: Path, clock: ManualClock) -> None:
    lease = running(touched)
    for done in range(4):
        touched.report_progress(lease.fence, done)
    execute(file, "DELETE FROM stored_events WHERE originator_version = 4")

    calls: list[Callable[[], object]] = [
        lambda: list(touched.history(lease.job_id)),
        lambda: touched.status(lease.job_id, at=5),
        lambda: touched.status(lease.job_id, at=clock.now()),
    ]
    for call in calls:
        with pytest.raises(HistoryCorruptError) as gap:
            call()
        assert gap.value.sequence == 4


def test_bytes_that_are_not_the_recorded_ones_are_not_shown(touched: JobStore, file: Path) -> None:
    job_id = created(touched, payload="p" * 5_000)
    execute(file, "UPDATE job_body SET bytes = ?", b'"' + b"q" * 5_000 + b'"')

    with pytest.raises(HistoryCorruptError, match="kept aside under") as stopped:
        touched.status(job_id)
    assert stopped.value.sequence == 0


def test_a_state_is_not_that_of_an_earlier_sequence(touched: JobStore, file: Path) -> None:
    """Where the last event is gone, what it said is not made up from what was before."""
    lease = running(touched)
    touched.report_progress(lease.fence, 1)
    execute(file, "DELETE FROM stored_events WHERE originator_version = 3")

    with pytest.raises(HistoryCorruptError) as gap:
        touched.status(lease.job_id, at=3)
    assert gap.value.sequence == 3


def test_each_instant_has_the_state_of_the_last_event_before_it(store: JobStore, clock: ManualClock) -> None:
    """However many events there are, and where several happened at once."""
    lease, start = running(store), clock.now()
    times = [start, start]
    for done, pause in enumerate((1, 0, 0, 1, 2, 1)):
        clock.advance(timedelta(seconds=pause))
        store.report_progress(lease.fence, done)
        times.append(clock.now())

        for later in range(8):
            instant = start + timedelta(seconds=later)
            known = [sequence for sequence, at in enumerate(times, start=1) if at <= instant]
            assert store.status(lease.job_id, at=instant).sequence == known[-1]
        refuses("unknown_sequence", store.status, lease.job_id, at=start - timedelta(microseconds=1))
