"""The stores that a simulation runs over: the simulated one, and the real ones behind the same commands."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from jobledger.adapters.storage.memory import MemoryStorage
from jobledger.adapters.storage.sqlite import SQLiteStorage
from jobledger.domain import history as records
from jobledger.domain.errors import OutcomeUnknownError, StoreUnavailableError
from jobledger.domain.history import StoredRecord
from jobledger.domain.store import JobCommands, Setting
from jobledger.domain.store.firing import FiringCommands
from tests.proof.history import Entry
from tests.proof.simulated import SimulatedStorage
from tests.proof.simulated_schedules import INTERVALS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from pathlib import Path

    from jobledger.domain.job import Job
    from jobledger.domain.policies import Policy
    from jobledger.domain.ports import Entropy, Session
    from jobledger.domain.schedules.state import ScheduleState
    from tests.proof.simulated import World

NAMESPACE: Final = "default"
PAGE: Final = 100_000


class Backend(Protocol):
    """What a simulation asks of the store it runs over, beside the commands."""

    commands: JobCommands
    schedules: FiringCommands

    def length(self) -> int:
        """The last position of the log."""
        ...

    def log(self) -> list[Entry]:
        """The whole log."""
        ...

    def jobs(self) -> dict[str, Job]:
        """The status rows."""
        ...

    def resources(self) -> dict[tuple[str, str, str], tuple[int, Any]]:
        """The versions and values of all resources that the log speaks of."""
        ...

    def job(self, job_id: str) -> Job:
        """A job as it stands."""
        ...

    def schedule(self, name: str) -> ScheduleState | None:
        """A schedule as it stands, also one that was removed."""
        ...

    def version(self, job_id: str, resource: str) -> int:
        """The version of a resource of a job's owner."""
        ...

    def epoch(self, group: str) -> int:
        """The epoch that a group is at."""
        ...

    def feed(self, after: int, limit: int) -> tuple[list[int], int]:
        """Positions of the feed, and how far it was read."""
        ...

    def close(self) -> None:
        """Throw everything away."""
        ...


class SimulatedBackend:
    """The simulated store: its tables are looked at directly."""

    def __init__(self, world: World, entropy: Entropy, policies: Mapping[str, Policy]) -> None:
        """Start empty."""
        self.storage = SimulatedStorage(world)
        setting = Setting(cast("Any", self.storage), entropy, NAMESPACE, policies)
        self.commands = JobCommands(setting)
        self.schedules = FiringCommands(setting, INTERVALS)

    def length(self) -> int:
        """The last position of the log."""
        return len(self.storage.log)

    def log(self) -> list[Entry]:
        """The whole log."""
        return [
            Entry(
                position,
                stored.stream,
                stored.sequence,
                stored.event,
                stored.command_id,
                stored.cause.name if stored.cause else None,
            )
            for position, stored in enumerate(self.storage.log, start=1)
        ]

    def jobs(self) -> dict[str, Job]:
        """Nothing: each row was compared with its event's fold as it was written."""
        return {}

    def resources(self) -> dict[tuple[str, str, str], tuple[int, Any]]:
        """The resources as they are."""
        return {key: (row.version, json.loads(row.value)) for key, row in self.storage.resources.items()}

    def job(self, job_id: str) -> Job:
        """A job as it stands."""
        return self.storage.rows[job_id][0]

    def schedule(self, name: str) -> ScheduleState | None:
        """A schedule as it stands, also one that was removed."""
        loaded = self.storage.schedules.get(name)
        return loaded.state if loaded else None

    def version(self, job_id: str, resource: str) -> int:
        """The version of a resource of a job's owner."""
        row = self.storage.resources.get((NAMESPACE, self.storage.rows[job_id][0].owner, resource))
        return row.version if row else 0

    def epoch(self, group: str) -> int:
        """The epoch that a group is at."""
        row = self.storage.groups.get((NAMESPACE, group))
        return row.epoch if row else 1

    def feed(self, after: int, limit: int) -> tuple[list[int], int]:
        """Positions of the feed, and how far it was read."""
        with self.storage.reading() as reader:
            found, upto = reader.feed(NAMESPACE, after=after, limit=limit, topics=(), owner=None)
        return [each.position for each in found], upto

    def close(self) -> None:
        """There is nothing to give back."""


class WorldClock:
    """The simulation's clock, as a store asks for it."""

    def __init__(self, world: World) -> None:
        """Tell the time of ``world``."""
        self._world = world

    def now(self) -> Any:
        """The time."""
        return self._world.now


class RealBackend:
    """A real store; transactions are lost and undone as the world decides, and nobody comes between: it locks."""

    def __init__(
        self, storage: MemoryStorage | SQLiteStorage, world: World, entropy: Entropy, policies: Mapping[str, Policy]
    ) -> None:
        """Run over ``storage``."""
        self.storage = storage
        setting = Setting(_Broken(storage, world), entropy, NAMESPACE, policies)
        self.commands = JobCommands(setting)
        self.schedules = FiringCommands(setting, INTERVALS)

    def length(self) -> int:
        """The last position of the log."""
        return self.storage.recorder.max_notification_id() or 0

    def log(self) -> list[Entry]:
        """The whole log, read back from its stored bytes."""
        entries = []
        for each in self.storage.recorder.select_notifications(1, PAGE):
            stored = StoredRecord(str(each.originator_id), each.originator_version, each.topic, each.state)
            told = records.read(stored)
            event: Any = told.event
            cause: Any = told.cause
            entries.append(
                Entry(int(each.id), stored.stream, stored.sequence, event, cause and cause.id, cause and cause.name)
            )
        return entries

    def jobs(self) -> dict[str, Job]:
        """The status rows."""
        with self.storage.reading() as reader:
            ids = reader.job_ids(NAMESPACE, after="", limit=1_000)
            return {job_id: loaded.job for job_id, loaded in reader.load(ids).items()}

    def resources(self) -> dict[tuple[str, str, str], tuple[int, Any]]:
        """The resources that the jobs' owners may have written."""
        owners = {job.owner for job in self.jobs().values()}
        keys = [(NAMESPACE, owner, f"r{number}") for owner in sorted(owners) for number in (1, 2)]
        with self.storage.reading() as reader:
            found = {key: reader.resource(*key) for key in keys}
        return {key: (row.version, json.loads(row.value)) for key, row in found.items() if row is not None}

    def job(self, job_id: str) -> Job:
        """A job as it stands."""
        with self.storage.reading() as reader:
            return reader.load([job_id])[job_id].job

    def schedule(self, name: str) -> ScheduleState | None:
        """A schedule as it stands, also one that was removed."""
        with self.storage.reading() as reader:
            loaded = reader.schedules(NAMESPACE, [name]).get(name)
        return loaded.state if loaded else None

    def version(self, job_id: str, resource: str) -> int:
        """The version of a resource of a job's owner."""
        with self.storage.reading() as reader:
            row = reader.resource(NAMESPACE, reader.load([job_id])[job_id].job.owner, resource)
        return row.version if row else 0

    def epoch(self, group: str) -> int:
        """The epoch that a group is at."""
        with self.storage.reading() as reader:
            return reader.group(NAMESPACE, group).epoch

    def feed(self, after: int, limit: int) -> tuple[list[int], int]:
        """Positions of the feed, and how far it was read."""
        with self.storage.reading() as reader:
            found, upto = reader.feed(NAMESPACE, after=after, limit=limit, topics=(), owner=None)
        return [each.position for each in found], upto

    def close(self) -> None:
        """Give back connections and files."""
        self.storage.close()


class _Broken:
    """A real storage whose connection breaks when the world says so."""

    def __init__(self, storage: MemoryStorage | SQLiteStorage, world: World) -> None:
        self._storage = storage
        self._world = world
        self.reading = storage.reading
        self.wait = storage.wait
        self.close = storage.close

    @contextmanager
    def writing(self, patience: Any, connection: object | None = None) -> Generator[Session]:
        if self._world.is_down():
            reason = "the store is down"
            raise StoreUnavailableError(reason)
        reason = "the connection broke"
        with self._storage.writing(patience, connection) as session:
            yield session
            ending = self._world.ending()
            if ending == "undone":
                raise OutcomeUnknownError(reason)
        if ending == "lost":
            raise OutcomeUnknownError(reason)


def memory_backend(world: World, entropy: Entropy, policies: Mapping[str, Policy]) -> RealBackend:
    """The real store in memory."""
    return RealBackend(MemoryStorage(clock=WorldClock(world)), world, entropy, policies)


def sqlite_backend(folder: Path) -> Callable[[World, Entropy, Mapping[str, Policy]], RealBackend]:
    """The real store in a SQLite file below ``folder``, a fresh one for each simulation."""

    def make(world: World, entropy: Entropy, policies: Mapping[str, Policy]) -> RealBackend:
        path = folder / "simulated.db"
        for stale in folder.glob("simulated.db*"):
            stale.unlink()
        storage = SQLiteStorage(path, clock=WorldClock(world))
        storage.migrate()
        return RealBackend(storage, world, entropy, policies)

    return make
