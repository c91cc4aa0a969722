"""The questions of auditors to a store: verify, replay, rebuild."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobledger.domain.bounds import INTEGER_MAX, require_integer, require_text
from jobledger.domain.decisions.claiming import claimable
from jobledger.domain.decisions.creating import require_sequence
from jobledger.domain.errors import HistoryCorruptError, InvalidRequestError, UnknownJobError
from jobledger.domain.history import RecordedEvent
from jobledger.domain.job import Job
from jobledger.domain.ports import Loaded, Reader
from jobledger.domain.replaying import PAGE, advance, recorded, state_at
from jobledger.projections import anchors, audit
from jobledger.projections.anchors import Anchor, Proof
from jobledger.projections.audit import Verification
from jobledger.projections.bundles import stated
from jobledger.projections.checking import Difference, Replay, differences
from jobledger.projections.rules import Problem
from jobledger.projections.story import Sentence, story

if TYPE_CHECKING:
    from jobledger.domain.store import Setting


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """What a rebuild did: how many jobs it walked, and those whose rows differed from their events."""

    projection: str
    jobs: int
    events: int
    mended: tuple[str, ...]


class AuditReads:
    """Questions about the histories themselves; all stand on one setting."""

    def __init__(self, setting: Setting) -> None:
        """Read in this setting's namespace."""
        self._setting = setting

    def verify(self, job_id: str) -> Verification:
        """Check a job's whole history and the rows beside it; answers, and raises only if the store cannot be read.

        Raises:
            UnknownJobError: there is no such job in this namespace.
        """
        with self._setting.storage.reading() as reader:
            self._require_known(reader, require_text("job_id", job_id))
            return audit.verify(reader, job_id)

    def verify_all(self) -> Iterator[Verification]:
        """Verify every stream that is stored for this namespace, in the order of their names, then the rows beside.

        Jobs go by their ids, groups by the names of their streams; rows that hang on no stream come last, if there are
        any, under an empty name. What says of no namespace is everybody's.
        """
        storage, namespace = self._setting.storage, self._setting.namespace
        for stream in audit.streams(storage, namespace):
            yield audit.verify_stream(storage, stream)
        beside = audit.verify_beside(storage, namespace)
        if not beside.ok:
            yield beside

    def anchor(self, earlier: Sequence[Anchor] = ()) -> tuple[Anchor, list[Problem]]:
        """The head of the tree over everything that is stored, and what earlier anchors say against it.

        It is of the whole store, whatever the namespace: the log is one.
        """
        with self._setting.storage.reading() as reader:
            return anchors.take(reader, earlier)

    def verify_anchors(self, earlier: Sequence[Anchor]) -> Verification:
        """Hold the log against anchors that were taken before: they alone find a history that was rewritten whole."""
        with self._setting.storage.reading() as reader:
            problems, events = anchors.check(anchors.leaves_of(reader), earlier)
        return Verification("", events, tuple(problems))

    def prove(self, job_id: str, sequence: int, anchor: Anchor) -> Proof:
        """Prove one event of a job against an anchor.

        Raises:
            UnknownJobError: there is no such job in this namespace.
            UnknownSequenceError: the job has no such event.
            InvalidRequestError: the event is newer than the anchor, or the log is not the one that was anchored.
        """
        require_integer("sequence", sequence, 1, INTEGER_MAX)
        with self._setting.storage.reading() as reader:
            self._require_known(reader, require_text("job_id", job_id))
            return anchors.prove(reader, job_id, sequence, anchor)

    def story(self, job_id: str) -> Iterator[Sentence]:
        """A job's history as sentences, streamed in pages; of an archived one from the event that stands for it on.

        Raises:
            UnknownJobError: there is no such job in this namespace.
            HistoryCorruptError: an event is missing or cannot be read.
        """
        with self._setting.storage.reading() as reader:
            job = self._loaded(reader, job_id).job
        return story(self._streamed(job_id, job))

    def _streamed(self, job_id: str, job: Job) -> Iterator[RecordedEvent]:
        """The events of a job up to its sequence, in a view for each page."""
        head, after = job.sequence, max(0, job.archived - 1)
        while after < head:
            with self._setting.storage.reading() as reader:
                upto = min(head, after + PAGE)
                page = list(recorded(reader, job_id, after=after, upto=upto))
            if not page:
                return
            after = page[-1].sequence
            yield from page

    def diff(self, job_id: str, first: int, second: int) -> list[Difference]:
        """The fields in which a job differs between two sequences: ``told`` at the first, ``folded`` at the second.

        Raises:
            UnknownJobError: there is no such job in this namespace.
            UnknownSequenceError: the job's history does not reach there.
        """
        with self._setting.storage.reading() as reader:
            job = self._loaded(reader, job_id).job
            then, later = (state_at(reader, job_id, require_sequence(job, each)) for each in (first, second))
        return list(differences(job_id, stated(then), stated(later)))

    def replay(self) -> Replay:
        """Fold every job's events with this release's code, and compare each state with the stored one, field by field.

        Raises:
            HistoryCorruptError: a history cannot be folded, or a row cannot be read; verify it.
        """
        jobs = events = 0
        found: list[Difference] = []
        for job_id in self._all_ids():
            with self._setting.storage.reading() as reader:
                job, _, _ = _refolded(reader, job_id)
                told = self._loaded(reader, job_id).job
            jobs, events = jobs + 1, events + job.sequence
            if told != job:
                found += differences(job_id, stated(told), stated(job))
        return Replay(jobs, events, tuple(found))

    def rebuild(self, projection: str) -> RebuildReport:
        """Rebuild a projection from the events; ``status`` refolds every status row and mends those that differ.

        Raises:
            InvalidRequestError: there is no such projection.
            HistoryCorruptError: a history cannot be folded; verify it.
        """
        if projection != "status":
            raise InvalidRequestError(
                "projection", f"there is no projection {projection!r}; known ones: operators, status, totals, workers"
            )
        walked = events = 0
        mended: list[str] = []
        for job_id in self._all_ids():
            with self._setting.storage.writing(self._setting.patience) as session:
                with suppress(HistoryCorruptError):
                    session.load([job_id])  # locks it, so that nothing is appended to what is being folded
                job, head, snapshots = _refolded(session, job_id)
                walked, events = walked + 1, events + job.sequence
                if not _is_rebuilt(session, job, head):
                    mended.append(job_id)
                    session.rewrite(job, claimable(job), head, snapshots)
        return RebuildReport(projection, walked, events, tuple(mended))

    def _all_ids(self) -> Iterator[str]:
        after = ""
        while True:
            with self._setting.storage.reading() as reader:
                page = reader.job_ids(self._setting.namespace, after=after, limit=PAGE)
            if not page:
                return
            yield from page
            after = page[-1]

    def _require_known(self, reader: Reader, job_id: str) -> None:
        """Require a job of this namespace; one whose rows cannot be read counts, its history says whose it is.

        Raises:
            UnknownJobError: neither a row nor an event of it is in this namespace.
        """
        if audit.namespace_of(reader, job_id, default="") not in (None, self._setting.namespace):
            raise UnknownJobError(job_id)

    def _loaded(self, reader: Reader, job_id: str) -> Loaded:
        loaded = reader.load([require_text("job_id", job_id)]).get(job_id)
        if loaded is None or loaded.job.namespace != self._setting.namespace:
            raise UnknownJobError(job_id)
        return loaded


def _is_rebuilt(reader: Reader, job: Job, head: str) -> bool:
    """Whether the rows say what the events fold to."""
    try:
        loaded = reader.load([job.id]).get(job.id)
    except HistoryCorruptError:
        return False
    is_folded = loaded is not None and (loaded.job, loaded.head) == (job, head)
    return is_folded and reader.is_found_by(job, claimable(job), head)


def _refolded(reader: Reader, job_id: str) -> tuple[Job, str, list[Job]]:
    job, head = None, ""
    snapshots: list[Job] = []
    for event in recorded(reader, job_id):
        job, head = advance(job, event), event.digest
        if job.sequence % job.policy.window_step == 0:
            snapshots.append(job)
    if job is None:
        raise UnknownJobError(job_id)
    return job, head, snapshots
