"""The engine behind projections that follow the feed: batches, exactly once, parked at what does not fold, rebuilt."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from jobledger.domain.errors import HistoryCorruptError, InvalidRequestError, ProjectionBusyError, UnavailableError
from jobledger.domain.history import TOPICS, read
from jobledger.domain.tracking import Tracked, Trouble
from jobledger.projections.folding import Rows
from jobledger.projections.operators import OPERATORS
from jobledger.projections.totals import TOTALS
from jobledger.projections.workers import WORKERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jobledger.domain.ports import Positioned, Reader, Storage
    from jobledger.domain.values import Json
    from jobledger.projections.folding import Key, Projection

PROJECTIONS: Final[Mapping[str, Projection]] = {each.name: each for each in (TOTALS, WORKERS, OPERATORS)}
"""Every projection that follows the feed, by name. The status rows are none: they are written with the events."""

BATCH: Final = 1_000
"""How many events one transaction folds at most."""

KNOWN_MAX: Final = 100_000
"""How many rows are remembered between batches at most."""

BUSY: Final = timedelta(seconds=10)
"""A build that was moved so lately by another runner is left to it."""

ERROR_CHARACTERS_MAX: Final = 500
FIRST: Final = 1
OURS: Final = ("job.", "group.", "queue.", "schedule.")
"""How the topics of jobledger's own events begin; the library's applications may keep others in the same log."""


class Turn(StrEnum):
    """How one step of a runner ended."""

    MOVED = "moved"
    CURRENT = "current"
    PARKED = "parked"
    STANDING_BY = "standing_by"
    OUTDATED = "outdated"


@dataclass(frozen=True, slots=True)
class Step:
    """One step: how it ended, and how many events of the feed it passed."""

    turn: Turn
    events: int = 0


class Runner:
    """Folds the feed into one projection, batch by batch; any number of them may do so, in any number of processes.

    A batch's rows and its place in the feed are written in one transaction, if nobody has moved the build meanwhile:
    so each event is folded exactly once, whoever runs. Of several, the one that moved it last goes on, and the others
    stand by until it has not moved for ``BUSY`` while there is something to fold.
    """

    def __init__(self, storage: Storage, projection: Projection, *, name: str, patience: timedelta) -> None:
        """Run ``projection`` under a name that tells runners apart; an empty one waits for no other."""
        self._storage, self._projection, self._name, self._patience = storage, projection, name, patience
        self._known: dict[Key, Json] = {}
        self._left: Tracked | None = None

    def step(self, limit: int = BATCH) -> Step:
        """Fold the next batch into the live build.

        Raises:
            StoreUnavailableError: the store cannot be read or written; nothing was folded.
        """
        with self._storage.reading() as reader:
            live = live_of(reader, self._projection.name)
            if live is None or live.version < self._projection.version:
                return self._begin(reader, live)
            if (turn := self._refrains(reader, live)) is not None:
                return Step(turn)
            moved, rows, passed = self.folded(reader, live, limit)
        if moved is None:
            return Step(Turn.CURRENT)
        if not self.write(live, moved, rows):
            return Step(Turn.STANDING_BY)
        return Step(Turn.PARKED if moved.trouble else Turn.MOVED, passed)

    def _refrains(self, reader: Reader, live: Tracked) -> Turn | None:
        """Why the live build is left as it stands, if there is a reason."""
        if live.version > self._projection.version:
            return Turn.OUTDATED
        if live.trouble is not None:
            return Turn.PARKED
        is_ours = not self._name or live.runner in ("", self._name)
        if is_ours or reader.now() - live.moved_at >= BUSY:
            return None
        return Turn.STANDING_BY if reader.log_end() > live.position else Turn.CURRENT

    def _begin(self, reader: Reader, live: Tracked | None) -> Step:
        """Make the first build; a later version is built beside the live one, from the beginning."""
        if live is not None:
            return self._upgrade()
        made = Tracked(
            projection=self._projection.name,
            build=next_build(reader, self._projection.name),
            version=self._projection.version,
            is_live=True,
            position=0,
            runner=self._name,
            moved_at=reader.now(),
        )
        with self._storage.writing(self._patience) as session:
            return Step(Turn.MOVED if session.move_projection(None, made) else Turn.STANDING_BY)

    def _upgrade(self) -> Step:
        try:
            built = Rebuild(self._storage, self._projection, name=self._name, patience=self._patience).run()
        except ProjectionBusyError:
            return Step(Turn.STANDING_BY)
        return Step(Turn.MOVED, built.position)

    # One batch --------------------------------------------------------------------------------------------------------

    def folded(
        self, reader: Reader, seen: Tracked, limit: int
    ) -> tuple[Tracked | None, dict[bytes, bytes | None], int]:
        """The next batch folded: where the build stands after it, its rows, and how many events were passed."""
        page = reader.log(after=seen.position, limit=limit)
        end = page[-1].position if page else reader.log_end()
        if not page and end <= seen.position:
            return None, {}, 0
        if self._left is None or not is_at(self._left, seen) or len(self._known) > KNOWN_MAX:
            self._known = {}
        self._left = None  # what is remembered runs ahead of the store until the batch is written, if ever it is

        def fetch(keys: Sequence[bytes]) -> dict[bytes, bytes]:
            return reader.projected(seen.projection, seen.build, keys)

        rows = Rows(fetch, self._known)
        trouble = self._fold(page, rows, reader.now)
        if trouble is not None:
            # What the event had changed before it failed is forgotten, and the events before it are folded once more.
            page = [each for each in page if each.position < trouble.position]
            rows = Rows(fetch)
            self._fold(page, rows, reader.now)
            self._known = rows.known
            end = page[-1].position if page else seen.position
        moved = replace(seen, position=end, runner=self._name, moved_at=reader.now(), trouble=trouble)
        return moved, rows.changes(), len(page)

    def _fold(self, page: Sequence[Positioned], rows: Rows, now: Callable[[], datetime]) -> Trouble | None:
        """Fold records in their order; the first that cannot be is the answer."""
        folds, topics = self._projection.folds, self._projection.topics
        streams = {each.record.stream for each in page if each.record.topic in topics}
        try:
            rows.look_up(("job", stream) for stream in streams if ":" not in stream)
        except HistoryCorruptError as error:
            return trouble_of(page[0], error, now())
        for each in page:
            topic = each.record.topic
            if topic not in topics and (topic in TOPICS or not topic.startswith(OURS)):
                continue
            try:
                recorded = read(each.record)
                folds[type(recorded.event)](rows, recorded)
            except UnavailableError:
                raise  # a store that does not answer says nothing about the event
            except Exception as error:  # noqa: BLE001  # whatever an event does to a fold, the others go on
                return trouble_of(each, error, now())
        return None

    def write(self, seen: Tracked, moved: Tracked, rows: dict[bytes, bytes | None]) -> bool:
        """Write a batch, if the build still stands where it was seen; whether it did."""
        with self._storage.writing(self._patience) as session:
            is_written = session.move_projection(seen, moved, rows)
        self._left = moved if is_written else None
        return is_written


class Rebuild(Runner):
    """Builds a projection beside the live one, from the first event on, and swaps the two in one transaction."""

    def run(self, stopped: Callable[[], bool] = lambda: False) -> Tracked:
        """Build to the end of the log, swap, and remove what was live; answers the new live build.

        Raises:
            ProjectionBusyError: another rebuild is under way, or took over.
            HistoryCorruptError: an event cannot be folded; the live build stands as it was.
            StoreUnavailableError: the store cannot be read or written; the live build stands as it was.
        """
        build = self.start()
        while not stopped():
            with self._storage.reading() as reader:
                moved, rows, _ = self.folded(reader, build, BATCH)
            if moved is None:
                if (live := self.swap(build)) is not None:
                    return live
                continue
            if moved.trouble is not None:
                self._removed(build)
                trouble = moved.trouble
                raise HistoryCorruptError(trouble.stream, trouble.sequence, trouble.error)
            if not self.write(build, moved, rows):
                raise ProjectionBusyError(build.projection)
            build = moved
        self._removed(build)
        raise ProjectionBusyError(build.projection)

    def start(self) -> Tracked:
        """Make a build beside the live one; what earlier rebuilds left in the middle is removed."""
        name = self._projection.name
        with self._storage.reading() as reader:
            left = [each for each in reader.tracked() if each.projection == name and not each.is_live]
            for each in left:
                if reader.now() - each.moved_at < BUSY and each.position and each.runner != self._name:
                    raise ProjectionBusyError(name, each.runner)
            made = Tracked(
                projection=name,
                build=next_build(reader, name),
                version=self._projection.version,
                is_live=False,
                position=0,
                runner=self._name,
                moved_at=reader.now(),
            )
        for each in left:
            self._removed(each)
        with self._storage.writing(self._patience) as session:
            if not session.move_projection(None, made):
                raise ProjectionBusyError(name)
        return made

    def swap(self, build: Tracked) -> Tracked | None:
        """Make a build the live one, and remove what was live before; ``None``: that has read further meanwhile."""
        with self._storage.writing(self._patience) as session:
            before = live_of(session, build.projection)
            if before is not None and build.position < before.position <= session.log_end():
                return None
            after = replace(build, is_live=True, moved_at=session.now())
            if not session.move_projection(build, after):
                raise ProjectionBusyError(build.projection)
        if before is not None:
            self._removed(before)
        return after

    def _removed(self, build: Tracked) -> None:
        """Remove a build that is not live, in transactions that keep nobody waiting."""
        is_left = True
        while is_left:
            with self._storage.writing(self._patience) as session:
                is_left = session.drop_projected(build.projection, build.build, BATCH) == BATCH


def release(storage: Storage, projection: Projection, *, patience: timedelta) -> Tracked:
    """Let a parked projection read on, from the event that it was parked at; answers how it stands.

    Raises:
        InvalidRequestError: it was never run, so there is nothing to release.
    """
    with storage.writing(patience) as session:
        live = live_of(session, projection.name)
        if live is None:
            raise InvalidRequestError("projection", f"{projection.name!r} has never run; run it first")
        released = replace(live, trouble=None)
        if live.trouble is not None:
            session.move_projection(live, released)
        return released


def trouble_of(placed: Positioned, error: Exception, at: datetime) -> Trouble:
    """What a projection is parked for."""
    record = placed.record
    text = f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS_MAX]
    return Trouble(
        position=placed.position,
        stream=record.stream,
        sequence=record.sequence,
        topic=record.topic,
        error=text,
        at=at,
    )


def live_of(reader: Reader, projection: str) -> Tracked | None:
    """The live build of a projection; ``None``: it has never run."""
    return next((each for each in reader.tracked() if each.projection == projection and each.is_live), None)


def next_build(reader: Reader, projection: str) -> int:
    """The number of a new build."""
    return max((each.build for each in reader.tracked() if each.projection == projection), default=0) + FIRST


def is_at(left: Tracked, seen: Tracked) -> bool:
    """Whether a build stands where this runner left it, so that what it remembers of the rows is so."""
    return (left.build, left.position, left.runner) == (seen.build, seen.position, seen.runner)
