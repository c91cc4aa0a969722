"""What the rules need from the world: a storage that appends under preconditions, a clock, and chance.

No dialect and no rule stands here or behind it: a storage appends, reads, and checks the preconditions of each append.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from jobledger.domain.decisions.claiming import Claimable
from jobledger.domain.errors import StoreUnavailableError
from jobledger.domain.history import StoredRecord
from jobledger.domain.job import Job, State
from jobledger.domain.lease import LeaseRow
from jobledger.domain.queues.ports import QueueReader, QueueWriter
from jobledger.domain.schedules.ports import ScheduleReader, ScheduleWriter
from jobledger.domain.tracking import TrackingReader, TrackingWriter
from jobledger.domain.values import Body

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager


class Clock(Protocol):
    """A source of time."""

    def now(self) -> datetime:
        """The time, aware and in UTC."""
        ...


class Entropy(Protocol):
    """A source of ids, secrets and chance; a simulation gives a seeded one."""

    def new_id(self) -> str:
        """A new unique id that sorts by its time (a UUIDv7)."""
        ...

    def new_token(self) -> str:
        """A new secret of at least 128 random bits, as text."""
        ...

    def chance(self) -> float:
        """A number drawn evenly from 0 to 1."""
        ...


# What is read --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)  # not frozen: one is made for each command, at three times the price
class Loaded:
    """A job's status row and lease row as a storage read them.

    ``head`` is the digest of its last record, ``position`` its creation's place in the feed, ``epoch`` the current
    one of the open attempt's group (1 where the group never advanced, 0 where no attempt is open).
    """

    job: Job
    head: str
    lease: LeaseRow | None
    epoch: int
    position: int


@dataclass(frozen=True, slots=True)
class UnitRow:
    """A unit that was recorded: by which generation, at which sequence, with which receipt."""

    unit: str
    receipt: Body
    generation: int
    sequence: int


@dataclass(frozen=True, slots=True)
class ResourceRow:
    """A named resource: its value's JSON bytes, its version, and the job and generation that wrote it."""

    name: str
    value: bytes
    version: int
    job_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A worker group: its current epoch (1 at first), and the end of its own stream."""

    epoch: int = 1
    sequence: int = 0
    head: str = ""


@dataclass(frozen=True, slots=True)
class Positioned:
    """A stored record with its place in the feed of all jobs."""

    position: int
    record: StoredRecord


@dataclass(frozen=True, slots=True)
class Leaf:
    """What is kept of an archived event: its place in the log, its digest, and that of the event it went behind."""

    position: int
    digest: str
    behind: int


@dataclass(frozen=True, slots=True, order=True)
class Due:
    """A job that is to be archived, and since when."""

    at: datetime
    job_id: str


@dataclass(frozen=True, slots=True)
class Stray:
    """A row that no event accounts for: the kind of row, the stream it says it belongs to, and its own name."""

    row: str
    stream: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs to list; ``None`` leaves a field open. ``label`` is a name and a value (``None``: any)."""

    namespace: str
    owner: str | None = None
    kind: str | None = None
    queue: str | None = None
    state: State | None = None
    label: tuple[str, str | None] | None = None
    key_prefix: str | None = None
    is_held: bool | None = None


# What is written -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredBody:
    """Bytes kept aside under their digest; those of old checkpoints may be dropped later, others never."""

    digest: str
    encoded: bytes
    is_checkpoint: bool


@dataclass(frozen=True, slots=True)
class ResourceWrite:
    """A compare-and-set write in the scope of the job's namespace and owner."""

    name: str
    expected_version: int
    value: bytes
    generation: int


@dataclass(frozen=True, slots=True)
class Inherit:
    """Copy the unit receipts of another job, as of one of its sequences.

    They stand in the new job from its sequence 1 on, under generation 0: no attempt of its own recorded them.
    """

    source: str
    sequence: int


@dataclass(slots=True, kw_only=True)  # not frozen: one is made for each command, at three times the price
class Guard:
    """What must still be true when an append is written, checked atomically with it.

    ``sequence``: the job's last sequence (0: it must not exist). ``live_generation``: the lease row is of this
    generation and not expired by the store's clock. ``seen_expiry``: the lease row still has this expiry (a renewal
    in between conflicts). ``epochs``: each group is still at this epoch. ``step``: the lease row's step is below it.
    """

    sequence: int
    live_generation: int | None = None
    seen_expiry: datetime | None = None
    epochs: tuple[tuple[str, int], ...] = ()
    step: int | None = None


@dataclass(slots=True, kw_only=True)  # not frozen: one is made for each command, at three times the price
class Append:
    """All that one command leaves behind, written together or not at all.

    ``job`` is the state after the records, ``lease`` the row after them (``None``: no attempt is open), ``snapshots``
    the states at sequences that a window may start from, ``dropped`` the checkpoint bodies that are not kept any
    longer.
    """

    guard: Guard
    job: Job
    claimable: Claimable
    records: tuple[StoredRecord, ...]
    head: str
    lease: LeaseRow | None
    unit: UnitRow | None = None
    effects: tuple[ResourceWrite, ...] = ()
    bodies: tuple[StoredBody, ...] = ()
    dropped: tuple[str, ...] = ()
    snapshots: tuple[Job, ...] = ()
    inherit: Inherit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Archival:
    """All that takes one ended job's events out of the log, written together or not at all.

    ``record`` is the event that stands for them, ``job`` and ``head`` are the state and digest after it. ``leaves`` are
    the places and digests of the events that go, from the first to the last, and ``kept`` the bodies that stay.
    """

    job: Job
    claimable: Claimable
    record: StoredRecord
    head: str
    leaves: tuple[tuple[int, str], ...]
    kept: frozenset[str] = frozenset()


class Reader(ScheduleReader, QueueReader, TrackingReader, Protocol):
    """One consistent view of the store."""

    def now(self) -> datetime:
        """The store's clock, read at this call."""
        ...

    def load(self, job_ids: Sequence[str]) -> dict[str, Loaded]:
        """Status and lease rows by job id; unknown ids are missing. A session locks these jobs first, in id order."""
        ...

    def is_found_by(self, job: Job, claimable: Claimable, head: str) -> bool:
        """Whether what the store finds this job by (owner, state, queue, …) is what follows from this state."""
        ...

    def records(self, stream: str, *, after: int = 0, upto: int | None = None, limit: int) -> list[StoredRecord]:
        """A stream's records with ``after < sequence <= upto``, in order, at most ``limit``."""
        ...

    def caused(self, stream: str, command_id: str) -> list[StoredRecord]:
        """The records that one command left in a stream, in order."""
        ...

    def snapshot(self, job_id: str, upto: int) -> Job | None:
        """The newest kept state of a job at or before a sequence."""
        ...

    def body(self, job_id: str, digest: str) -> bytes | None:
        """Bytes kept aside, or ``None`` where they were dropped."""
        ...

    def unit(self, job_id: str, unit: str) -> UnitRow | None:
        """The first record of a unit."""
        ...

    def units(self, job_id: str, *, after: str | None, limit: int) -> list[UnitRow]:
        """Units by name (compared by code point), from behind ``after``."""
        ...

    def resource(self, namespace: str, owner: str, name: str) -> ResourceRow | None:
        """A resource; ``None``: version 0, absent."""
        ...

    def versions(self, namespace: str, owner: str, names: Sequence[str]) -> dict[str, int]:
        """The versions of those resources that exist."""
        ...

    def submitted(self, namespace: str, owner: str, submission: str) -> str | None:
        """The job that a submission id made."""
        ...

    def group(self, namespace: str, name: str) -> GroupRow:
        """A worker group; one that never advanced is at epoch 1."""
        ...

    def queued(self, namespace: str, queue: str, limit: int) -> int:
        """How many jobs of a queue are in the state ``queued``, counted no further than ``limit``."""
        ...

    def counts(self, namespace: str, owner: str | None, queue: str | None) -> dict[State, int]:
        """Jobs by state."""
        ...

    def jobs(self, wanted: JobFilter, *, before: int | None, limit: int) -> list[Loaded]:
        """Matching jobs, newest first, created before a position."""
        ...

    def count(self, wanted: JobFilter, limit: int) -> int:
        """How many jobs match, counted no further than ``limit``."""
        ...

    def feed(
        self, namespace: str, *, after: int, limit: int, topics: Sequence[str], owner: str | None
    ) -> tuple[list[Positioned], int]:
        """Records of all jobs by position, and the position up to which nothing further matches."""
        ...

    def job_ids(self, namespace: str, *, after: str, limit: int) -> list[str]:
        """All job ids in order, for walks over the whole store."""
        ...

    def log(self, *, after: int, limit: int) -> list[Positioned]:
        """Every record of every stream and namespace by position, below the horizon: what is there stays as it is."""
        ...

    def placed(self, stream: str, *, after: int, limit: int) -> list[Positioned]:
        """A stream's records behind a sequence, in order, with their places in the log."""
        ...

    def streams(self, *, after: str, limit: int) -> list[str]:
        """The names of all streams of all namespaces, in order, from behind ``after``."""
        ...

    def resources(self, *, after: tuple[str, str, str], limit: int) -> list[tuple[str, str, ResourceRow]]:
        """Every resource with its namespace and owner, by these and its name, from behind such a triple."""
        ...

    def leaves(self, *, after: int, limit: int, behind: int | None = None) -> list[Leaf]:
        """What is kept of archived events by position, below the horizon; of those behind one event, if it is given."""
        ...

    def expired(self, namespace: str, *, after: Due | None, limit: int) -> list[Due]:
        """Ended jobs whose ``keep_finished`` is over by the store's clock, the longest first, from behind ``after``."""
        ...

    def ended(self, namespace: str, *, until: datetime, after: int, limit: int) -> list[tuple[int, str]]:
        """Ended jobs that are not archived and had their last event by ``until``, by position from behind ``after``."""
        ...

    def strays(self, *, limit: int) -> list[Stray]:
        """Rows beside the log that hang on no stream or job: nothing of jobledger leaves any."""
        ...

    def candidates(
        self, namespace: str, *, queues: Sequence[str], kinds: Sequence[str] | None, limit: int
    ) -> list[str]:
        """Jobs that a claim may take now: larger priority first, then earlier ``ready_at``, then earlier position.

        Of a session, those that no other session is writing at this moment, and nobody else may take them before it
        ends.
        """
        ...

    def dead(self, namespace: str, *, after: str, limit: int) -> list[str]:
        """Running jobs whose lease is not live, by id from behind ``after``."""
        ...


class Session(Reader, ScheduleWriter, QueueWriter, TrackingWriter, Protocol):
    """One transaction that may write; leaving its block commits, an exception rolls everything back."""

    @property
    def connection(self) -> object:
        """The open connection for the caller's own statements.

        Raises:
            InvalidRequestError: this store has none.
        """
        ...

    def peek(self, job_ids: Sequence[str]) -> dict[str, Loaded]:
        """As ``load``, without a lock and without waiting for one; for jobs that this session writes nothing of.

        Jobs that are locked one after another, in no order, could stand in another session's way for ever.
        """
        ...

    def append(self, appends: Sequence[Append]) -> list[str | None]:
        """Write each append whose guard holds; for each, ``None`` or the precondition that failed.

        One that fails leaves nothing of itself and does not touch the others. A precondition has the name of its field
        in the guard; ``effects``, ``unit`` and ``submission`` are those of the append itself, and ``records`` says that
        a record stands in its stream already where the status row knows of none.
        """
        ...

    def append_group(self, namespace: str, name: str, expected: GroupRow, row: GroupRow, record: StoredRecord) -> bool:
        """Write a group's event and row if the group still stands as expected."""
        ...

    def rewrite(self, job: Job, claimable: Claimable, head: str, snapshots: Sequence[Job]) -> None:
        """Replace a job's status row and kept states by rebuilt ones."""
        ...

    def archive(self, archivals: Sequence[Archival]) -> list[bool]:
        """Let each job's record stand for all before it, where nothing was added meanwhile; for each, whether it does.

        Of the events that go their places and digests stay. Kept states, unit receipts and bodies that are not kept go
        with them; the status row, labels, submission ids and resources stay.
        """
        ...


class RolledBackError(StoreUnavailableError):
    """The store rolled a transaction back to let another one through; running it again at once is right."""


class Storage(Protocol):
    """A place where jobs are kept; see ``Session`` for what a write promises."""

    def reading(self) -> AbstractContextManager[Reader]:
        """A consistent view.

        Raises:
            StoreUnavailableError: the store cannot be read.
        """
        ...

    def writing(self, patience: timedelta, connection: object | None = None) -> AbstractContextManager[Session]:
        """A transaction, started within ``patience``; with ``connection`` it is the caller's own.

        Raises:
            StoreUnavailableError: it could not start or write; nothing was committed.
            RolledBackError: it stood in the way of another transaction; nothing was committed.
            OutcomeUnknownError: the connection broke while committing.
            InvalidRequestError: this store cannot use a caller's connection.
        """
        ...

    def wait(self, timeout: timedelta) -> None:
        """Return when records may have been added, at the latest after ``timeout``."""
        ...

    def close(self) -> None:
        """Give back connections and files."""
        ...
