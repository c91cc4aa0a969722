"""Archiving ended jobs: first a bundle that proves itself, if one is wanted, and then their events leave the log."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jobledger.adapters.bundles.files import lines_in, written
from jobledger.domain.bounds import PAGE_MAX
from jobledger.domain.errors import HistoryCorruptError, InvalidRequestError
from jobledger.projections.archiving import Examined, examine
from jobledger.projections.bundles import Scope, export
from jobledger.projections.checking import verify_bundle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobledger.domain.ports import Due, Reader, Storage

EVENTS_OF_A_BATCH: Final = 100
"""Once a transaction takes so many events out it takes no further job: nobody waits for it longer than milliseconds."""


ABANDONED: Final = timedelta(hours=1)
"""A build of a projection that nobody reads or has moved for so long is not waited for."""


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """What an archive did: the jobs and events that left the log, and the bundle that has them (empty: none).

    ``left`` names jobs that were left alone, each with the reason: their histories do not hold, and are evidence.
    ``waiting`` counts those whose events a projection has not read yet: they are archived when it has.
    """

    jobs: int
    events: int
    file: str
    sha256: str
    left: tuple[tuple[str, str], ...]
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Archiver:
    """Archives jobs of one namespace; ``by`` is whoever asked for it, ``patience`` how long a write waits to begin."""

    storage: Storage
    namespace: str
    by: str
    patience: timedelta
    _left: dict[str, str] = field(default_factory=dict[str, str])

    def run(self, ids: Sequence[str], file: Path | str | None, *, made_by: str) -> ArchiveReport:
        """Archive these jobs, in small transactions; those that have not ended, or are archived, are passed over.

        With ``file``, a bundle of all of them is written and verified before the first one is touched. Whatever stops
        this in the middle, each job is either as it was or archived, and the bundle is whole.

        Raises:
            InvalidRequestError: the file exists already or cannot be written, or its packing is not installed.
            HistoryCorruptError: the bundle cannot be read back as it was written; nothing was archived.
            StoreUnavailableError: the store did not answer, or this role may not archive; what was archived stays so.
        """
        place, sha256 = "", ""
        wanted, ids = len(ids), self._read_by_all(ids)
        if file is not None and ids:
            path = _place(file)
            with self.storage.writing(self.patience) as session:
                session.archive([])  # whoever may not archive is refused before a bundle is written
            place, sha256 = str(path), self._bundle(ids, path, made_by)
        jobs = events = 0
        for batch in self._batches(ids):
            with self.storage.writing(self.patience) as session:
                now = session.now()
                done = session.archive([each.archival(now, place=place, by=self.by) for each in batch])
            jobs += sum(done)
            events += sum(len(each.leaves) for each, is_done in zip(batch, done, strict=True) if is_done)
        return ArchiveReport(jobs, events, place, sha256, tuple(sorted(self._left.items())), wanted - len(ids))

    def _read_by_all(self, ids: Sequence[str]) -> list[str]:
        """Those of the jobs whose events every projection has read: what follows the feed must not miss them."""
        chosen: list[str] = []
        with self.storage.reading() as reader:
            upto = _read_upto(reader)
            for page in _pages(ids):
                for job_id, last in _last_positions(reader, page):
                    if upto is None or last <= upto:
                        chosen.append(job_id)
        return chosen

    def _bundle(self, ids: Sequence[str], file: Path, made_by: str) -> str:
        """Write the bundle and read it back; what does not hold in it stays in the store."""
        scope = Scope(self.namespace, chosen=frozenset(ids))
        try:
            with written(file, is_new=True) as write, self.storage.reading() as reader:
                report = export(reader, scope, write, made_by=made_by, made_at=reader.now())
        except FileExistsError:
            problem = f"{str(file)!r} exists; an archive is never overwritten: give a new name"
            raise InvalidRequestError("to", problem) from None
        except OSError as error:
            raise InvalidRequestError("to", f"{str(file)!r} cannot be written: {error.strerror or error}") from error
        with lines_in(file) as lines:
            for found in verify_bundle(lines):
                if found.job_id:
                    self._left.update((found.job_id, each.text) for each in found.problems[:1])
                elif not found.ok:
                    raise HistoryCorruptError(str(file), 0, f"it cannot be read back: {found.problems[0].text}")
        return report.sha256

    def _batches(self, ids: Sequence[str]) -> Iterator[list[Examined]]:
        """Jobs whose histories hold, so many together as may leave in one transaction."""
        batch: list[Examined] = []
        waiting = 0
        for job_id in ids:
            if job_id in self._left:
                continue
            with self.storage.reading() as reader:
                found = examine(reader, job_id)
            if isinstance(found, Examined):
                batch.append(found)
                waiting += len(found.leaves)
            elif found is not None:
                self._left[job_id] = found.text
            if waiting >= EVENTS_OF_A_BATCH:
                yield batch
                batch, waiting = [], 0
        if batch:
            yield batch


def _place(file: Path | str) -> Path:
    """Where a bundle is to stand, from wherever it is asked for later: each archived job names it for ever.

    Raises:
        InvalidRequestError: it is no name of a file; what goes to a pipe could not be read back.
    """
    if str(file) in {"", "-"} or "\0" in str(file):
        raise InvalidRequestError("to", f"a name of a new file is needed, which is read back, not {str(file)!r}")
    return Path(file).absolute()


def _read_upto(reader: Reader) -> int | None:
    """The position up to which every projection has read; ``None`` where there is none.

    A build that nobody has moved for so long is not waited for: it is begun anew by whoever needs it.
    """
    now = reader.now()
    builds = (build for build in reader.tracked() if build.is_live or build.moved_at > now - ABANDONED)
    return min((build.position for build in builds), default=None)


def _pages(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (ids[start : start + PAGE_MAX] for start in range(0, len(ids), PAGE_MAX))


def _last_positions(reader: Reader, page: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Where each job's last event stands; one that cannot be read is looked at by itself, and named then."""
    try:
        heads = {job_id: loaded.job.sequence for job_id, loaded in reader.load(page).items()}
    except HistoryCorruptError:
        heads = {}
    for job_id in page:
        last = reader.placed(job_id, after=heads.get(job_id, 1) - 1, limit=1)
        yield job_id, last[0].position if last else 0


def expired(reader: Reader, namespace: str, limit: int) -> Iterator[str]:
    """At most so many jobs whose ``keep_finished`` is over, the longest first."""
    after: Due | None = None
    while limit > 0 and (page := reader.expired(namespace, after=after, limit=min(limit, PAGE_MAX))):
        yield from (due.job_id for due in page)
        after, limit = page[-1], limit - len(page)


def older(reader: Reader, namespace: str, age: timedelta, limit: int) -> Iterator[str]:
    """At most so many jobs that ended that long ago, whatever their policies say, the first created first."""
    after = 0
    until = reader.now() - age
    while limit > 0 and (page := reader.ended(namespace, until=until, after=after, limit=min(limit, PAGE_MAX))):
        yield from (job_id for _, job_id in page)
        after, limit = page[-1][0], limit - len(page)
