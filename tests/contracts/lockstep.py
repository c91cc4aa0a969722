"""Drives several stores with the same commands and requires the same answers, events and rows of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from jobledger import Fence, JobledgerError, JobStore, Lease, ManualClock, Policy, RecordedEvent, State
from jobledger.adapters.bootstrap import open_storage
from jobledger.adapters.storage.entropy import SeededEntropy
from jobledger.domain import events
from jobledger.domain.history import StoredRecord, read
from jobledger.domain.job import Job, evolve
from jobledger.domain.ports import Append, Loaded, Storage
from jobledger.domain.store import Setting
from jobledger.domain.store.operating import group_stream
from tests.contracts.faults import CatchingStorage, CaughtError, Fault, FaultyStorage
from tests.contracts.projected import require_rebuilt_alike, require_totals_of_states
from tests.postgresql.stores import WatchedClock, lent

PATIENCE = timedelta(seconds=30)
NAMESPACE = "default"
QUICK = timedelta(seconds=2)
GROUPS = ("default", "blue")

POLICIES = {
    "quick": Policy(lease=QUICK, interrupts_max=2, failures_max=2, checkpoints_keep=1, window_events_max=20),
    "small": Policy(payload_bytes_max=64, checkpoint_bytes_max=64, result_bytes_max=64, receipt_bytes_max=64),
    "shallow": Policy(queue_depth_max=2, lease=QUICK),
}

Opener = Callable[[Path, ManualClock], Storage]

OPENERS: dict[str, Opener] = {
    "memory": lambda _, clock: open_storage("memory:", clock=clock),
    "sqlite": lambda folder, clock: open_storage(f"sqlite:///{folder / 'jobs.db'}", clock=clock),
    "postgresql": lambda _, clock: lent(clock),
}
"""The stores that go in lock step; a further store is one more line."""

EMBEDDED = ("memory", "sqlite")
"""Those that need no server: many more histories are tried on them in the same time."""

WORKERS_EVENTS = (
    events.Checkpointed,
    events.UnitRecorded,
    events.ProgressReported,
    events.AttemptFailed,
    events.Paused,
    events.Completed,
)


@dataclass(frozen=True, slots=True)
class Refused:
    """An error as an answer that can be compared: its code, its class and its fields."""

    code: str
    kind: type[JobledgerError]
    fields: tuple[object, ...]


class Side:
    """One of the stores in lock step, with the faults that stand before it."""

    def __init__(self, number: int, name: str, storage: Storage) -> None:
        """Start with an empty store; every side draws the same ids, tokens and chances."""
        self.number = number
        self.name = name
        self.catching = CatchingStorage(storage)
        self.faulty = FaultyStorage(self.catching)
        self.store = JobStore(Setting(self.faulty, SeededEntropy(7), NAMESPACE, POLICIES))
        self._after = 0
        self._groups_after: dict[str, int] = dict.fromkeys(GROUPS, 0)

    def news(self) -> list[StoredRecord]:
        """What was appended since this was last asked: of jobs, in feed order; of groups, which no feed tells of."""
        with self.faulty.reading() as reader:
            found, _ = reader.feed(NAMESPACE, after=self._after, limit=1_000, topics=(), owner=None)
            moved = {
                group: reader.records(group_stream(NAMESPACE, group), after=after, limit=1_000)
                for group, after in self._groups_after.items()
            }
        if found:
            self._after = found[-1].position
        for group, records in moved.items():
            self._groups_after[group] += len(records)
        return [each.record for each in found] + [record for records in moved.values() for record in records]

    def rows(self, job_ids: Sequence[str]) -> dict[str, Loaded]:
        """The rows of these jobs; where a store counts its positions from is its own affair."""
        with self.faulty.reading() as reader:
            return {job_id: replace(loaded, position=0) for job_id, loaded in reader.load(job_ids).items()}


Call = Callable[[Side], Any]


class Lockstep:
    """Several empty stores, one clock, and what their common history folds to."""

    def __init__(self, folder: Path, openers: dict[str, Opener]) -> None:
        """Open a store of each kind; the first one never has a fault and says what the others must answer."""
        self.clock = WatchedClock()
        first = next(iter(openers.values()))
        storages = {"unharmed": first(folder, self.clock)} | {
            name: opener(folder, self.clock) for name, opener in openers.items()
        }
        self.sides = [Side(number, *named) for number, named in enumerate(storages.items())]
        self.faults: list[Fault] = []
        self.jobs: dict[str, Job] = {}
        self.ends: dict[str, tuple[int, str]] = {}
        self.rows: dict[str, Loaded] = {}
        self.epochs: dict[str, int] = dict.fromkeys(GROUPS, 1)
        self.caused: dict[str, list[RecordedEvent]] = {}
        self.news: list[RecordedEvent] = []

    def act(self, call: Call) -> list[Any]:
        """Let every side run one command; answers what each answered, once all agree."""
        for side in self.sides[1:]:
            side.faulty.plan = list(self.faults)
        self.faults = []
        answers = [_answer(call, side) for side in self.sides]
        for side in self.sides:
            side.faulty.plan = []
        self._require_equal("the answer", [comparable(answer) for answer in answers])
        self.follow()
        if isinstance(answers[0], Refused):
            assert not self.news, f"refused as {answers[0].code}, and appended {_named(self.news)}"
        return answers

    def catch(self, call: Call) -> list[tuple[Append, ...]] | None:
        """Let every side decide on one command without writing; answers each side's appends, if there are any."""
        self.faults = []
        caught = []
        for side in self.sides:
            side.catching.is_catching = True
            try:
                call(side)
            except CaughtError as carried:
                caught.append(carried.appends)
            except JobledgerError:
                pass
            finally:
                side.catching.is_catching = False
        assert len(caught) in (0, len(self.sides)), "the stores do not agree on whether there is something to append"
        self._require_equal("what was decided on", caught)
        self.follow()
        assert not self.news, f"nothing was written, and yet there is {_named(self.news)}"
        return caught or None

    def arrive(self, caught: list[tuple[Append, ...]]) -> list[str | None]:
        """Write appends that were decided on earlier; answers the preconditions that failed, once all agree."""
        failed = []
        for side, appends in zip(self.sides, caught, strict=True):
            with side.catching.writing(PATIENCE) as session:
                session.load(sorted(append.job.id for append in appends))
                failed.append(session.append(appends))
        self._require_equal("the precondition that failed", failed)
        self.follow()
        written = {append.job.id for append, name in zip(caught[0], failed[0], strict=True) if name is None}
        assert {event.stream for event in self.news} <= written, "a refused append left something"
        return failed[0]

    def follow(self) -> None:
        """Read what is new, and require that it is the same on all sides and follows from what was before."""
        found = [side.news() for side in self.sides]
        self._require_equal("the new events", found)
        self.news = [self._followed(stored) for stored in found[0]]
        self._follow_commands()
        rows = [side.rows(list(self.jobs)) for side in self.sides]
        self._require_equal("the rows", rows)
        for job_id, job in self.jobs.items():
            self._require_row(job, rows[0][job_id])
        self.rows = rows[0]
        for job_id in {event.stream for event in self.news} & self.jobs.keys():
            for side in self.sides:
                verified = side.store.verify(job_id)
                assert verified.ok, f"{side.name}: {verified.problems}"

    def require_equal_reads(self) -> None:
        """Require that whatever can be asked is answered equally by all sides."""
        tally = Counter(job.state for job in self.jobs.values())
        questions: list[Call] = [
            lambda side: [(entry.job_id, entry.sequence, entry.data) for entry in _feed(side.store)],
            lambda side: [status.job_id for status in side.store.jobs(limit=1_000).jobs],
            lambda side: [side.store.resource("team", name) for name in ("r0", "r1")],
            lambda side: [verified.ok for verified in side.store.verify_all()],
            lambda side: side.store.rebuild("status").mended,
            lambda side: require_rebuilt_alike(side.store),
        ]
        for job_id, job in self.jobs.items():
            questions += _questions(job_id, job)
        for question in questions:
            self._require_equal("the answer", [question(side) for side in self.sides])
        for side in self.sides:
            assert side.store.counts() == {state: tally[state] for state in State}
            assert side.store.rebuild("status").mended == ()
            require_totals_of_states(side.store)

    def close(self) -> None:
        """Close all stores."""
        for side in self.sides:
            side.store.close()

    def _require_equal(self, what: str, found: Sequence[object]) -> None:
        for side, each in zip(self.sides, found, strict=False):
            assert each == found[0], f"{what} of {side.name} is not that of {self.sides[0].name}"

    def _followed(self, stored: StoredRecord) -> RecordedEvent:
        """Check one new record against the history before it, then fold it."""
        event = read(stored)
        sequence, head = self.ends.get(stored.stream, (0, ""))
        assert (event.sequence, event.previous) == (sequence + 1, head), "the chain is broken"
        assert (event.cause and event.cause.id) == stored.command_id
        self.ends[stored.stream] = event.sequence, event.digest
        if isinstance(event.event, events.EpochAdvanced):
            self.epochs[stored.stream.rsplit(":", 1)[1]] = event.event.epoch
            return event
        before = self.jobs.get(stored.stream)
        if isinstance(event.event, events.Created):
            self._require_room(event.event)
        self._require_right_to_write(event, before)
        after = evolve(before, cast("events.JobEvent", event.event))
        _require_honest(before, event.event, after)
        self.jobs[stored.stream] = after
        return event

    def _follow_commands(self) -> None:
        """A command leaves its events once, in one stream, side by side."""
        for command_id in dict.fromkeys(event.command_id for event in self.news if event.command_id):
            assert command_id not in self.caused, f"command {command_id} came into effect twice"
            self.caused[command_id] = [event for event in self.news if event.command_id == command_id]
            places = [(event.stream, event.sequence) for event in self.caused[command_id]]
            stream, first = places[0]
            assert places == [(stream, first + offset) for offset in range(len(places))]

    def _require_room(self, created: events.Created) -> None:
        """A job that somebody asks for is admitted while its queue is not as deep as its policy allows."""
        depth = POLICIES.get(created.policy, Policy()).queue_depth_max
        if depth is not None and created.origin is None:
            queued = [job for job in self.jobs.values() if (job.queue, job.state) == (created.queue, State.QUEUED)]
            assert len(queued) < depth, "a full queue admitted a job"

    def _require_right_to_write(self, recorded: RecordedEvent, before: Job | None) -> None:
        """Only a live lease writes, only a dead one is ended by others, and only the current epoch is claimed in."""
        event, row = recorded.event, self.rows.get(recorded.stream)
        if before is None or row is None:
            return
        now = max(self.clock.now(), before.updated_at, event.at)
        epoch = row.job.attempt and self.epochs[row.job.attempt.group]
        is_fenced = row.job.attempt is not None and row.job.attempt.epoch != epoch
        if isinstance(event, WORKERS_EVENTS):
            assert row.lease is not None, "nobody has a lease, and yet somebody wrote"
            assert row.lease.generation == recorded.generation == row.job.generation
            assert now < row.lease.expires_at, "an expired lease wrote"
            assert not is_fenced, "a lease of an old epoch wrote"
        elif isinstance(event, events.Interrupted):
            assert row.lease is not None, "there was nothing to interrupt"
            assert event.expires_at == row.lease.expires_at, "the recorded expiry is not the one that stood"
            assert is_fenced or row.lease.expires_at <= now, "a live lease was taken over"
        elif isinstance(event, events.LeaseRenewedLate):
            assert row.lease is not None, "there was nothing to renew"
            assert row.lease.expires_at <= now, "the lease was not late"
        elif isinstance(event, events.Claimed):
            assert event.epoch == self.epochs[event.group], "a worker of an old epoch claimed"

    def _require_row(self, job: Job, row: Loaded) -> None:
        assert row.job == job, "the status row is not the fold of the events"
        assert row.head == self.ends[job.id][1], "the head is not the digest of the last event"
        assert (row.lease is None) == (job.attempt is None), "a lease row stands exactly while an attempt is open"
        if row.lease is None or job.attempt is None:
            return
        assert row.lease.generation == job.generation
        assert row.lease.expires_at >= job.attempt.expires_at, "the lease is shorter than what was recorded"
        assert row.epoch == self.epochs[job.attempt.group]
        earlier = self.rows.get(job.id)
        if earlier and earlier.lease and earlier.lease.generation == job.generation:
            assert row.lease.expires_at >= earlier.lease.expires_at, "an expiry moved back"
            assert row.lease.step >= earlier.lease.step, "the steps went back"


def comparable(answer: Any) -> Any:
    """An answer with what its equality leaves out: the steps of a fence."""
    if isinstance(answer, Lease):
        return answer, answer.fence.steps.last
    if isinstance(answer, list):
        return [comparable(each) for each in answer]
    return _refused(answer) if isinstance(answer, JobledgerError) else answer


def copied(fence: Fence) -> Fence:
    """The same fence in another process, which goes on counting steps by itself."""
    return Fence.from_token(fence.to_token())


def _answer(call: Call, side: Side) -> Any:
    try:
        return call(side)
    except JobledgerError as refusal:
        return _refused(refusal)


def _refused(error: JobledgerError) -> Refused:
    return Refused(error.code, type(error), error.args)


def _named(found: Sequence[RecordedEvent]) -> str:
    return ", ".join(f"{event.stream} {event.sequence} {event.name}" for event in found)


def _require_honest(before: Job | None, event: events.Event, after: Job) -> None:
    """The three things that hold after every event."""
    if after.hold is not None and not after.is_terminal:
        assert after.state in (State.RUNNING, State.PAUSED), "held, but neither running nor paused"
    if after.cancel is not None and after.state is not State.RUNNING:
        is_ending = isinstance(event, events.Interrupted) and before is not None and before.cancel is not None
        assert is_ending, "a cancel request is pending, but nothing runs"
    assert (after.attempt is not None) == (after.state is State.RUNNING), "an attempt is open exactly while it runs"
    if before is not None:
        assert not before.is_terminal, "something happened after the end"
        assert event.at >= before.updated_at, "time went back"


def _feed(store: JobStore) -> list[Any]:
    """The feed in small pages, so that its cursors are used."""
    entries: list[Any] = []
    cursor: str | None = None
    while (page := store.feed(after=cursor, limit=7)).entries:
        entries += page.entries
        cursor = page.cursor
    return entries


def _questions(job_id: str, job: Job) -> list[Call]:
    return [
        lambda side: side.store.status(job_id),
        lambda side: [side.store.status(job_id, at=sequence) for sequence in range(1, job.sequence + 1)],
        lambda side: side.store.events(job_id, limit=3),
        lambda side: list(side.store.history(job_id)),
        lambda side: side.store.units(job_id, limit=2),
        lambda side: [side.store.unit(job_id, unit) for unit in ("u0", "u1", "u2")],
        lambda side: side.store.timeline(job_id),
        lambda side: side.store.controls(job_id),
        lambda side: side.store.jobs(owner="team", state=job.state, held=job.hold is not None, limit=1).total,
    ]
