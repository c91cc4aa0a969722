"""A store in plain tables for simulations: no encoding, and room for others between the steps of a transaction.

It locks nothing. What was loaded may be outdated when it is written, and only the preconditions of the append tell: so
a rule that they miss shows. One thing that a lock does for other stores it does for itself: where a renewal came in
between, the later expiry of the lease row stays.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from jobledger.adapters.storage.preconditions import Found, failed_precondition
from jobledger.domain.decisions.claiming import Claimable
from jobledger.domain.errors import InvalidRequestError, OutcomeUnknownError, StoreUnavailableError
from jobledger.domain.lease import Standing
from jobledger.domain.ports import GroupRow, Loaded, Positioned, ResourceRow, UnitRow
from tests.proof.simulated_schedules import ScheduleTables

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from datetime import datetime, timedelta

    from jobledger.domain.job import Job
    from jobledger.domain.lease import LeaseRow
    from jobledger.domain.ports import Append, Inherit
    from jobledger.domain.schedules.ports import LoadedSchedule, ScheduleAppend
    from jobledger.domain.schedules.state import ScheduleState
    from tests.proof.plain import Plain

Ending = Literal["kept", "lost", "undone"]
"""What becomes of a transaction that wrote: it commits; it commits, or is undone, and nobody is told which."""


FIRST_EPOCH: Final = GroupRow()


class World:
    """What goes on around a transaction; a simulation overrides what it wants to happen."""

    now: datetime

    def began(self, session: SimulatedSession) -> None:
        """A transaction began."""

    def before_clock(self) -> None:
        """A job was loaded, and the clock has not been read yet."""

    def before_write(self) -> None:
        """The command was decided on, and is not written yet."""

    def is_down(self) -> bool:
        """Whether a transaction cannot begin."""
        return False

    def ending(self) -> Ending:
        """What becomes of a transaction that wrote."""
        return "kept"

    def written(self, append: Append, decided: Standing | None, met: Standing | None) -> None:
        """An append was written: ``decided`` is what it was decided on, ``met`` what stood when it was written."""

    def settled(self, append: ScheduleAppend, before: ScheduleState | None, seen: Mapping[str, Job]) -> None:
        """A schedule's events were written, decided on ``before`` and on these jobs as they were seen."""

    def conflicted(self, precondition: str) -> None:
        """An append was refused, because others had come in between."""

    def surprised(self, text: str) -> None:
        """Something happened that no fault explains."""


class SimulatedSession(ScheduleTables):
    """One transaction: it sees the tables as they are, writes them at once, and can undo what it wrote."""

    def __init__(self, storage: SimulatedStorage) -> None:
        """Look at the tables of ``storage``."""
        super().__init__()
        self._storage = storage
        self._loaded: dict[str, Loaded] = {}
        self._read_at: datetime | None = None
        self._seen = storage.changes
        self.epochs_seen: dict[str, int] = {}
        self._undo: list[tuple[dict[Any, Any], Any, Any]] = []
        self._written: list[tuple[Append, Standing | None, Standing | None]] = []
        self._records: list[Plain] = []

    @property
    def has_written(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self._undo)

    @property
    def is_current(self) -> bool:
        """Whether nothing has changed since it began but what it wrote itself, and the clock stands as it was read."""
        return self._seen == self._storage.changes and self._read_at == self._storage.world.now

    # Reading ----------------------------------------------------------------------------------------------------------

    def now(self) -> datetime:
        """The store's clock; others may come in before it is read."""
        if (self._loaded or self.has_seen_schedules) and self._read_at is None:
            self._storage.world.before_clock()
        self._read_at = self._storage.world.now
        return self._read_at

    def load(self, job_ids: Sequence[str]) -> dict[str, Loaded]:
        """Status and lease rows, not locked."""
        rows = self._storage.rows
        found = {job_id: self._load(job_id) for job_id in job_ids if job_id in rows}
        for job_id, loaded in found.items():
            self._loaded.setdefault(job_id, loaded)
        return found

    peek = load

    def _load(self, job_id: str) -> Loaded:
        job, head, position, _ = self._storage.rows[job_id]
        lease = self._storage.leases.get(job_id)
        if lease is None:
            return Loaded(job, head, None, 0, position)
        return Loaded(job, head, lease[0], self._epoch(job.namespace, lease[1]), position)

    def records(self, stream: str, *, after: int = 0, upto: int | None = None, limit: int) -> list[Any]:
        """A stream's records in order."""
        found = self._storage.streams.get(stream, [])
        return found[max(after, 0) : upto][:limit]

    def caused(self, stream: str, command_id: str) -> list[Any]:
        """What one command left in a stream."""
        return list(self._storage.by_command.get((stream, command_id), ()))

    def snapshot(self, job_id: str, upto: int) -> Job | None:
        """The newest state that a command left at or before a sequence."""
        for job in reversed(self._storage.states.get(job_id, [])):
            if job.sequence <= upto:
                return job
        return None

    def body(self, job_id: str, digest: str) -> bytes | None:
        """Simulated values are small: none is kept aside."""
        del job_id, digest
        return None

    def unit(self, job_id: str, unit: str) -> UnitRow | None:
        """The first record of a unit."""
        return self._storage.units.get(job_id, {}).get(unit)

    def versions(self, namespace: str, owner: str, names: Sequence[str]) -> dict[str, int]:
        """Versions of the resources that exist."""
        resources = self._storage.resources
        found = {name: resources.get((namespace, owner, name)) for name in names}
        return {name: row.version for name, row in found.items() if row is not None}

    def submitted(self, namespace: str, owner: str, submission: str) -> str | None:
        """The job that a submission id made."""
        return self._storage.submissions.get((namespace, owner, submission))

    def group(self, namespace: str, name: str) -> GroupRow:
        """A worker group."""
        row = self._storage.groups.get((namespace, name)) or FIRST_EPOCH
        self.epochs_seen[name] = row.epoch
        return row

    def _epoch(self, namespace: str, name: str) -> int:
        row = self._storage.groups.get((namespace, name))
        return row.epoch if row else 1

    def feed(
        self, namespace: str, *, after: int, limit: int, topics: Sequence[str], owner: str | None
    ) -> tuple[list[Positioned], int]:
        """Records of jobs by position."""
        del namespace, topics, owner
        found = []
        for position, stored in enumerate(self._storage.log[after:], start=after + 1):
            if stored.stream in self._storage.rows:
                found.append(Positioned(position, cast("Any", stored)))
                if len(found) == limit:
                    return found, position
        return found, len(self._storage.log)

    def candidates(
        self, namespace: str, *, queues: Sequence[str], kinds: Sequence[str] | None, limit: int
    ) -> list[str]:
        """Jobs that a claim may take now, in their order."""
        del namespace, queues, kinds
        found = [
            (-job.priority, job.ready_at, position, job_id)
            for job_id, (job, _, position, claimable) in self._storage.rows.items()
            if claimable is not Claimable.NEVER and self._is_candidate(job, claimable)
        ]
        return [job_id for *_, job_id in sorted(found)[:limit]]

    def _is_candidate(self, job: Job, claimable: Claimable) -> bool:
        if claimable is Claimable.WHEN_READY:
            return job.ready_at <= self._storage.world.now
        lease, group, epoch = self._storage.leases[job.id]
        if self._epoch(job.namespace, group) != epoch:
            return True
        return claimable is Claimable.WHEN_DEAD and lease.expires_at <= self._storage.world.now

    def queue_rules(self, namespace: str, group: str, names: Sequence[str]) -> dict[str, Any]:
        """No queue of a simulation is limited or held; tests of their own hold the rules of queues."""
        del namespace, group, names
        return {}

    def dead(self, namespace: str, *, after: str, limit: int) -> list[str]:
        """Running jobs whose lease is not live."""
        now = self._storage.world.now
        found = [
            job_id
            for job_id, (lease, group, epoch) in self._storage.leases.items()
            if job_id > after and (lease.expires_at <= now or self._epoch(namespace, group) != epoch)
        ]
        return sorted(found)[:limit]

    # Writing ----------------------------------------------------------------------------------------------------------

    def append(self, appends: Sequence[Append]) -> list[str | None]:
        """Write each append whose guard holds, after others had their chance to come in before."""
        if not appends:
            return []
        world, storage = self._storage.world, self._storage
        is_undisturbed = self._comes_in()
        answers = []
        for append in appends:
            met = self._standing(append.job.id, storage.rows, world.now)
            failed = failed_precondition(append, self._found(append))
            if failed is None:
                decided = self.decided(append.job.id)
                self._write(append)
                self._written.append((append, decided, met))
            elif is_undisturbed:
                world.surprised(f"the precondition {failed!r} of a command failed, though nobody had come in between")
            else:
                world.conflicted(failed)
            answers.append(failed)
        storage.changes += 1
        if is_undisturbed:
            self._seen = storage.changes  # what this transaction itself wrote does not disturb it
        return answers

    def _comes_in(self) -> bool:
        """Others have their chance to come in, unless this one has begun to write; answers whether nobody has."""
        world = self._storage.world
        if not self._undo:
            world.before_write()
        return self.is_current

    def decided(self, job_id: str) -> Standing | None:
        """What the command on a job was decided on."""
        loaded = self._loaded.get(job_id)
        if loaded is None or self._read_at is None:
            return None
        return Standing(loaded.job, loaded.lease, loaded.epoch, max(self._read_at, loaded.job.updated_at))

    def _standing(self, job_id: str, rows: dict[str, Any], now: datetime) -> Standing | None:
        """What stands at this moment."""
        if job_id not in rows:
            return None
        loaded = self._load(job_id)
        return Standing(loaded.job, loaded.lease, loaded.epoch, max(now, loaded.job.updated_at))

    def _found(self, append: Append) -> Found:
        job, storage = append.job, self._storage
        row, lease = storage.rows.get(job.id), storage.leases.get(job.id)
        return Found(
            sequence=row[0].sequence if row else 0,
            lease=lease[0] if lease else None,
            epochs={group: self._epoch(job.namespace, group) for group, _ in append.guard.epochs},
            versions=self.versions(job.namespace, job.owner, [each.name for each in append.effects]),
            submitted=self.submitted(job.namespace, job.owner, job.submission) if job.submission else None,
            has_unit=append.unit is not None and self.unit(job.id, append.unit.unit) is not None,
            now=storage.world.now,
        )

    def _put(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """Write a row (``None``: remove it), and remember how to undo that."""
        self._undo.append((table, key, table.get(key)))
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value

    def _write(self, append: Append) -> None:
        job, storage = append.job, self._storage
        row, old = storage.rows.get(job.id), storage.leases.get(job.id)
        if append.records:
            position = row[2] if row else len(storage.log) + 1
            self._put(storage.rows, job.id, (job, append.head, position, append.claimable))
            self._keep(cast("Any", append.records))
            storage.states.setdefault(job.id, []).append(job)
        if append.lease is None or job.attempt is None:
            self._put(storage.leases, job.id, None)
        else:
            lease = append.lease
            if old is not None and old[0].generation == lease.generation and old[0].expires_at > lease.expires_at:
                lease = replace(lease, expires_at=old[0].expires_at)
            self._put(storage.leases, job.id, (lease, job.attempt.group, job.attempt.epoch))
        if append.unit is not None:
            self._put(storage.units.setdefault(job.id, {}), append.unit.unit, append.unit)
        for effect in append.effects:
            written = ResourceRow(effect.name, effect.value, effect.expected_version + 1, job.id, effect.generation)
            self._put(storage.resources, (job.namespace, job.owner, effect.name), written)
        if row is None and job.submission is not None:
            self._put(storage.submissions, (job.namespace, job.owner, job.submission), job.id)
        if append.inherit is not None:
            self._inherit(job.id, append.inherit)

    def _inherit(self, job_id: str, inherit: Inherit) -> None:
        for unit in list(self._storage.units.get(inherit.source, {}).values()):
            if unit.sequence <= inherit.sequence:
                copied = replace(unit, generation=0, sequence=1)
                self._put(self._storage.units.setdefault(job_id, {}), unit.unit, copied)

    def _keep(self, records: Sequence[Plain]) -> None:
        storage = self._storage
        for stored in records:
            storage.log.append(stored)
            storage.streams.setdefault(stored.stream, []).append(stored)
            if stored.command_id is not None:
                storage.by_command.setdefault((stored.stream, stored.command_id), []).append(stored)
            self._records.append(stored)

    def append_group(self, namespace: str, name: str, expected: GroupRow, row: GroupRow, record: Any) -> bool:
        """Write a group's event if the group still stands as expected."""
        self._storage.world.before_write()
        if self.group(namespace, name) != expected:
            return False
        self._put(self._storage.groups, (namespace, name), row)
        self._keep([record])
        self._storage.changes += 1
        return True

    # Ending -----------------------------------------------------------------------------------------------------------

    def undo(self) -> None:
        """Take back all that was written; nobody wrote since."""
        storage = self._storage
        for table, key, value in reversed(self._undo):
            if value is None:
                table.pop(key, None)
            else:
                table[key] = value
        for stored in reversed(self._records):
            storage.log.pop()
            storage.streams[stored.stream].pop()
            if stored.command_id is not None:
                storage.by_command[stored.stream, stored.command_id].pop()
        for append, *_ in self._written:
            if append.records:
                storage.states[append.job.id].pop()
        self._undo.clear()

    def tell(self) -> None:
        """Tell the world what was committed."""
        if self._settled:
            seen = {job_id: loaded.job for job_id, loaded in self._loaded.items()}
            for settled, before in self._settled:
                self._storage.world.settled(settled, before, seen)
        for append, decided, met in self._written:
            self._storage.world.written(append, decided, met)


class SimulatedStorage:
    """Jobs in plain tables; see the module for what it does not promise."""

    def __init__(self, world: World) -> None:
        """Start empty."""
        self.world = world
        self.rows: dict[str, tuple[Job, str, int, Claimable]] = {}
        self.leases: dict[str, tuple[LeaseRow, str, int]] = {}
        self.units: dict[str, dict[str, UnitRow]] = {}
        self.resources: dict[tuple[str, str, str], ResourceRow] = {}
        self.groups: dict[tuple[str, str], GroupRow] = {}
        self.schedules: dict[str, LoadedSchedule] = {}
        self.submissions: dict[tuple[str, str, str], str] = {}
        self.log: list[Plain] = []
        self.streams: dict[str, list[Plain]] = {}
        self.by_command: dict[tuple[str, str], list[Plain]] = {}
        self.states: dict[str, list[Job]] = {}
        self.changes = 0

    @contextmanager
    def reading(self) -> Generator[SimulatedSession]:
        """A view of now: nobody comes between while it is open."""
        yield SimulatedSession(self)

    def writing(self, patience: timedelta, connection: object | None = None) -> _Transaction:
        """A transaction that may be lost, undone, or come too late."""
        del patience
        return _Transaction(self, connection)

    def wait(self, timeout: timedelta) -> None:
        """Nobody waits in a simulation."""

    def close(self) -> None:
        """There is nothing to give back."""


class _Transaction:
    """What ``writing`` enters: a class, since a simulation enters very many."""

    __slots__ = ("_connection", "_session", "_storage")

    def __init__(self, storage: SimulatedStorage, connection: object | None) -> None:
        self._storage, self._connection = storage, connection

    def __enter__(self) -> SimulatedSession:
        """Begin.

        Raises:
            StoreUnavailableError: the store is down.
        """
        if self._connection is not None:
            raise InvalidRequestError("connection", "a simulated store has none")
        world = self._storage.world
        if world.is_down():
            reason = "the store is down"
            raise StoreUnavailableError(reason)
        self._session = SimulatedSession(self._storage)
        world.began(self._session)
        return self._session

    def __exit__(self, kind: type[BaseException] | None, error: object, traced: object) -> None:
        """End as the world decides.

        Raises:
            OutcomeUnknownError: nobody was told what became of it.
        """
        session = self._session
        if kind is not None:
            session.undo()
            return
        if not session.has_written:
            return
        ending = self._storage.world.ending()
        if ending == "undone":
            session.undo()
        else:
            session.tell()
        if ending != "kept":
            reason = "the connection broke"
            raise OutcomeUnknownError(reason)
