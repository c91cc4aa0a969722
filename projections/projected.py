"""Questions to the projections that follow the feed: totals, paces, workers, operators, and how they stand."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

from pydantic_core import from_json

from jobledger.domain.bounds import INTEGER_MAX, PAGE_MAX, require_integer, require_text
from jobledger.domain.errors import HistoryCorruptError, InvalidRequestError, ProjectionBusyError
from jobledger.domain.tracking import CURSOR_SECRET
from jobledger.projections import operators, totals, workers
from jobledger.projections.auditing import AuditReads, RebuildReport
from jobledger.projections.cursors import Cursors
from jobledger.projections.folding import below, encode_key, ordered
from jobledger.projections.operators import OperatorAction
from jobledger.projections.projecting import PROJECTIONS, Rebuild, Runner, Turn, live_of, release
from jobledger.projections.standings import ProjectionState, ProjectionStatus, status_of
from jobledger.projections.totals import EVERYBODY, Pace, Total
from jobledger.projections.workers import HeldLease, WorkerStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from jobledger.domain.ports import Reader
    from jobledger.domain.values import Json
    from jobledger.projections.folding import Key, Projection

LEASES_SHOWN: Final = 100
"""How many leases are told of one worker; ``holding`` counts all."""

PACES_MAX: Final[dict[str, int]] = {"minute": 1_440, "day": 3_660}
_SPANS: Final = {"minute": timedelta(minutes=1), "day": timedelta(days=1)}


@dataclass(frozen=True, slots=True)
class TotalsPage:
    """Totals by queue and kind, as of a place in the feed; ``next_cursor`` is ``None`` on the last page."""

    totals: tuple[Total, ...]
    next_cursor: str | None
    as_of: ProjectionStatus


@dataclass(frozen=True, slots=True)
class Paces:
    """What happened in each minute or day in which anything did, the earliest first."""

    paces: tuple[Pace, ...]
    as_of: ProjectionStatus


@dataclass(frozen=True, slots=True)
class WorkerPage:
    """Workers, those that were seen last first; ``next_cursor`` is ``None`` on the last page."""

    workers: tuple[WorkerStatus, ...]
    next_cursor: str | None
    as_of: ProjectionStatus


@dataclass(frozen=True, slots=True)
class OperatorPage:
    """What operators asked, the newest first; ``next_cursor`` is ``None`` on the last page."""

    actions: tuple[OperatorAction, ...]
    next_cursor: str | None
    as_of: ProjectionStatus


class ProjectionReads(AuditReads):
    """Questions to what the feed was folded into; each answer says how far it has read."""

    _cursors_known: Cursors | None = None

    def _cursors(self, reader: Reader) -> Cursors:
        """Gives and reads this namespace's cursors; the secret never changes, and is read once."""
        if self._cursors_known is None:
            self._cursors_known = Cursors(reader.secret(CURSOR_SECRET), self._setting.namespace)
        return self._cursors_known

    # Totals -----------------------------------------------------------------------------------------------------------

    def totals(
        self,
        *,
        owner: str | None = None,
        queue: str | None = None,
        kind: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> TotalsPage:
        """Totals by queue and kind, in the order of these names; of all owners, or of one.

        Raises:
            UnknownCursorError: a cursor that no page of totals gave.
            ProjectionBusyError: the totals are being rebuilt for another release.
        """
        whose, size = _whose(owner), _size(limit)
        with self._setting.storage.reading() as reader, reading_rows("totals"):
            page = _Page(self._cursors(reader), reader, "totals")
            prefix: Key = (totals.TOTAL, self._setting.namespace, whose)
            if queue is not None:
                prefix = (*prefix, require_text("queue", queue))
            of = _list("totals", owner=owner, queue=queue, kind=kind)
            found, following = page.rows(of, prefix, cursor, size, _of_kind(kind))
            told = tuple(totals.total_of(kept, self._oldest(page, whose, kept)) for kept in found)
            return TotalsPage(told, following, page.status)

    def _oldest(self, page: _Page, whose: str, kept: Json) -> int | None:
        """The first second at which a queued job of a queue and kind is due."""
        prefix = (totals.DUE, self._setting.namespace, whose, kept["queue"], kept["kind"])
        first = page.between(*below(*prefix), limit=1) if kept["queued"] else []
        return int(first[0][0].rpartition(b"\0")[2]) if first else None

    def paces(
        self,
        *,
        per: Literal["minute", "day"] = "minute",
        last: int = 60,
        owner: str | None = None,
        queue: str | None = None,
        kind: str | None = None,
    ) -> Paces:
        """What happened in each of the ``last`` minutes (at most 1,440) or days, up to the one that goes on now.

        Minutes and days in which nothing happened are left out. Days are those of UTC.

        Raises:
            InvalidRequestError: an unknown span, or too many of them.
            ProjectionBusyError: the totals are being rebuilt for another release.
        """
        if per not in PACES_MAX:
            raise InvalidRequestError("per", f"minute or day is needed, not {per!r}")
        require_integer("last", last, 1, PACES_MAX[per])
        whose = _whose(owner)
        asked = (("queue", queue), ("kind", kind))
        wanted = {name: require_text(name, value) for name, value in asked if value is not None}
        with self._setting.storage.reading() as reader, reading_rows("totals"):
            page = _Page(self._cursors(reader), reader, "totals")
            now = (reader.now() - totals.EPOCH) // _SPANS[per]
            numbers = range(max(0, now - last + 1), now + 1)
            summed: dict[int, Json] = {}
            for start, end in _places(per, self._setting.namespace, whose, numbers):
                for _, kept in page.all_between(start, end):
                    if kept["at"] in numbers and all(kept[name] == value for name, value in wanted.items()):
                        totals.add_pace(summed, kept)
            told = tuple(totals.pace_of(summed[number], _SPANS[per]) for number in sorted(summed))
            return Paces(told, page.status)

    # Workers and operators --------------------------------------------------------------------------------------------

    def workers(
        self, *, owner: str | None = None, holding: bool | None = None, cursor: str | None = None, limit: int = 50
    ) -> WorkerPage:
        """Workers, those that were seen last first; with ``holding``, those that hold a lease (by name), or none.

        With an ``owner`` all that is told is of this owner's jobs. Expiries are those of the lease rows now.

        Raises:
            UnknownCursorError: a cursor that no such page of workers gave.
            ProjectionBusyError: the workers are being rebuilt for another release.
        """
        whose, size, namespace = _whose(owner), _size(limit), self._setting.namespace
        with self._setting.storage.reading() as reader, reading_rows("workers"):
            page = _Page(self._cursors(reader), reader, "workers")
            order = workers.BUSY if holding else workers.RECENT
            of = _list("workers", owner=owner, order=order)
            names, following = page.rows(of, (order, namespace, whose), cursor, size, None)
            told = [self._worker(reader, page, whose, name) for name in names]
            if holding is False:
                told = [each for each in told if not each.holding]
            return WorkerPage(tuple(told), following, page.status)

    def _worker(self, reader: Reader, page: _Page, whose: str, name: str) -> WorkerStatus:
        namespace = self._setting.namespace
        kept = page.one(workers.WORKER, namespace, whose, name)
        held: tuple[HeldLease, ...] = ()
        if kept["holding"]:
            leases = page.between(*below(workers.HELD, namespace, whose, name), limit=LEASES_SHOWN)
            loaded = reader.load([lease["job_id"] for _, lease in leases])
            held = tuple(workers.lease_of(lease, loaded.get(lease["job_id"])) for _, lease in leases)
        return workers.worker_of(kept, held)

    def operators(
        self, *, owner: str | None = None, by: str | None = None, cursor: str | None = None, limit: int = 100
    ) -> OperatorPage:
        """What operators asked for and got, the newest first; of all, or of one by name.

        With an ``owner`` it is what was asked of this owner's jobs.

        Raises:
            UnknownCursorError: a cursor that no such page of the operators' log gave.
            ProjectionBusyError: the log is being rebuilt for another release.
        """
        prefix: Key = (operators.ASKED, self._setting.namespace, _whose(owner))
        if by is not None:
            prefix = (operators.BY, self._setting.namespace, _whose(owner), require_text("by", by))
        with self._setting.storage.reading() as reader, reading_rows("operators"):
            page = _Page(self._cursors(reader), reader, "operators")
            found, following = page.rows(_list("operators", owner=owner, by=by), prefix, cursor, _size(limit), None)
            return OperatorPage(tuple(operators.action_of(kept) for kept in found), following, page.status)

    # The projections themselves ---------------------------------------------------------------------------------------

    def projections(self) -> tuple[ProjectionStatus, ...]:
        """How every projection stands, by name; they are of the whole store, whatever the namespace."""
        with self._setting.storage.reading() as reader:
            return tuple(status_of(reader, projection) for _, projection in sorted(PROJECTIONS.items()))

    def run_projections(self, name: str | None = None) -> tuple[ProjectionStatus, ...]:
        """Fold what the feed has, into every projection or one, until it is read to its end; answers how they stand.

        Any number of processes may do so at once, also beside runners that go on: each event is folded once.

        Raises:
            InvalidRequestError: there is no such projection.
            StoreUnavailableError: the store cannot be read or written; what was folded before stands.
        """
        for projection in PROJECTIONS.values() if name is None else (_known(name),):
            runner = Runner(self._setting.storage, projection, name="", patience=self._setting.patience)
            while runner.step().turn is Turn.MOVED:
                pass
        return self.projections()

    def release_projection(self, name: str) -> ProjectionStatus:
        """Let a parked projection read on, from the event that it was parked at.

        Raises:
            InvalidRequestError: there is no such projection, or it has never run.
        """
        projection = _known(name)
        release(self._setting.storage, projection, patience=self._setting.patience)
        with self._setting.storage.reading() as reader:
            return status_of(reader, projection)

    def rebuild(self, projection: str) -> RebuildReport:
        """Rebuild a projection from the events.

        ``status`` refolds every status row and mends those that differ; any other is built beside the live one, which
        is read meanwhile, and swapped in one transaction.

        Raises:
            InvalidRequestError: there is no such projection.
            ProjectionBusyError: another rebuild of it is under way.
            HistoryCorruptError: a history cannot be folded; verify it. What is live stands.
        """
        if projection not in PROJECTIONS:
            return super().rebuild(projection)
        storage, patience = self._setting.storage, self._setting.patience
        name = f"rebuild-{self._setting.entropy.new_id()}"
        built = Rebuild(storage, PROJECTIONS[projection], name=name, patience=patience).run()
        return RebuildReport(projection, 0, built.position, ())


@contextmanager
def reading_rows(name: str) -> Generator[None]:
    """Whatever is made of rows that somebody damaged is told as that.

    Raises:
        HistoryCorruptError: the rows are not what the fold wrote.
    """
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        problem = f"the rows of projection {name!r} cannot be read ({type(error).__name__}): jobledger rebuild {name}"
        raise HistoryCorruptError(name, 0, problem) from error


class _Page:
    """Reads the rows of a live build within one view."""

    def __init__(self, cursors: Cursors, reader: Reader, name: str) -> None:
        """Read the rows of a projection, which may have none yet.

        Raises:
            ProjectionBusyError: the live build is one of another version, whose rows mean something else.
        """
        self._cursors, self._reader, self._name = cursors, reader, name
        self.status = status_of(reader, PROJECTIONS[name])
        if self.status.state is ProjectionState.OUTDATED:
            raise ProjectionBusyError(name)
        live = live_of(reader, name)
        self._build = live.build if live else 0

    def one(self, *key: str) -> Json:
        """A row that has to be there."""
        encoded = encode_key(key)
        return from_json(self._reader.projected(self._name, self._build, [encoded])[encoded])

    def between(self, after: bytes, before: bytes, *, limit: int) -> list[tuple[bytes, Json]]:
        """The first rows between two keys."""
        found = self._reader.projected_between(self._name, self._build, after=after, before=before, limit=limit)
        return [(key, from_json(value)) for key, value in found]

    def all_between(self, after: bytes, before: bytes, *, at_once: int = PAGE_MAX) -> Iterator[tuple[bytes, Json]]:
        """All rows between two keys, read in pages."""
        while True:
            found = self.between(after, before, limit=at_once)
            yield from found
            if len(found) < at_once:
                return
            after = found[-1][0]

    def rows(
        self, of: str, prefix: Key, cursor: str | None, size: int, is_wanted: Callable[[Json], bool] | None
    ) -> tuple[list[Json], str | None]:
        """A page of the rows whose keys begin like that, from behind a cursor of this list, and the next cursor."""
        start, end = below(*prefix)
        place = self._cursors.place(of, cursor)
        after = start if place is None else start + bytes.fromhex(place)
        found: list[tuple[bytes, Json]] = []
        for key, kept in self.all_between(after, end, at_once=PAGE_MAX if is_wanted else size + 1):
            if is_wanted is None or is_wanted(kept):
                found.append((key, kept))
            if len(found) > size:
                break
        following = None
        if len(found) > size:
            following = self._cursors.give(of, found[size - 1][0][len(start) :].hex())
        return [kept for _, kept in found[:size]], following


def _list(name: str, **filters: str | None) -> str:
    """The list that a cursor is of, as people are told: it goes on only under the filters with which it began."""
    given = [f"{which} {json.dumps(value)}" for which, value in filters.items() if value is not None]
    return f"{name} ({', '.join(given)})" if given else name


def _places(per: str, namespace: str, whose: str, numbers: range) -> Iterator[tuple[bytes, bytes]]:
    """The stretches of keys in which the rows of these minutes or days stand."""
    if per == "day":
        first = encode_key((totals.DAY, namespace, whose, ordered(numbers[0])))
        last = encode_key((totals.DAY, namespace, whose, ordered(numbers[-1])))
        yield first, last + b"\1"
        return
    first_slot, last_slot = (number % totals.MINUTES for number in (numbers[0], numbers[-1]))
    stretches = [(first_slot, last_slot)]
    if first_slot > last_slot:
        stretches = [(first_slot, totals.MINUTES - 1), (0, last_slot)]
    for first_of, last_of in stretches:
        yield (
            encode_key((totals.MINUTE, namespace, whose, f"{first_of:04d}")),
            encode_key((totals.MINUTE, namespace, whose, f"{last_of:04d}")) + b"\1",
        )


def _of_kind(kind: str | None) -> Callable[[Json], bool] | None:
    """Whether a total is of a kind; ``None``: all are wanted."""
    if kind is not None:
        require_text("kind", kind)

    def is_wanted(kept: Json) -> bool:
        return bool(kept["kind"] == kind)

    return None if kind is None else is_wanted


def _known(name: str) -> Projection:
    if name not in PROJECTIONS:
        known = ", ".join(sorted(PROJECTIONS))
        raise InvalidRequestError("projection", f"there is no projection {name!r} that is run; known ones: {known}")
    return PROJECTIONS[name]


def _whose(owner: str | None) -> str:
    return EVERYBODY if owner is None else require_text("owner", owner)


def _size(limit: int) -> int:
    return min(require_integer("limit", limit, 1, INTEGER_MAX), PAGE_MAX)
