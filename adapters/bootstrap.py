"""Opening a store by its URL: the one place that knows every concrete class."""

from __future__ import annotations

import re
import time
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from typing_extensions import override

from jobledger.adapters import telemetry
from jobledger.adapters.bundles.archiving import Archiver, ArchiveReport, expired, older
from jobledger.adapters.bundles.files import lines_in, written
from jobledger.adapters.bundles.importing import ImportReport, import_bundle
from jobledger.adapters.calendars import ZoneCalendar
from jobledger.adapters.storage.clocks import SystemClock
from jobledger.adapters.storage.entropy import SystemEntropy
from jobledger.adapters.storage.memory import MemoryStorage
from jobledger.adapters.storage.postgresql import PostgreSQLStorage
from jobledger.adapters.storage.postgresql_connecting import SCHEMES, place_of
from jobledger.adapters.storage.sqlite import SQLiteStorage
from jobledger.domain.bounds import INTEGER_MAX, PAGE_MAX, require_integer, require_span, require_text
from jobledger.domain.errors import DeadlineExceededError, InvalidRequestError
from jobledger.domain.job import ENGINE
from jobledger.domain.ports import JobFilter
from jobledger.domain.replaying import require_kept
from jobledger.domain.store import FiringCommands, JobCommands, QueueCommands, Setting
from jobledger.projections.bundles import ExportReport, Scope, export, lines_of
from jobledger.projections.checking import Replay, replay_bundle, verify_bundle
from jobledger.projections.queues import QueueReads
from jobledger.projections.reads import JobReads
from jobledger.projections.schedules import ScheduleReads
from jobledger.projections.windows import following

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime
    from types import TracebackType

    from jobledger.domain.answers import CreateReceipt, JobStatus
    from jobledger.domain.decisions.creating import JobRequest
    from jobledger.domain.errors import JobledgerError
    from jobledger.domain.job import State
    from jobledger.domain.policies import Policy
    from jobledger.domain.ports import Clock, Storage
    from jobledger.domain.store.executing import Runner
    from jobledger.projections.audit import Verification
    from jobledger.projections.windows import Feed, FeedEntry

DEFAULT_URL: Final = "sqlite:///jobledger.db"
LOOK_EVERY: Final = timedelta(seconds=1)


class Schedules(FiringCommands, ScheduleReads):
    """Recurring jobs: put, hold, release, remove, trigger, backfill; fire what is due; and every question about them.

    Reached as ``store.schedules``. Source: the rules of ``jobledger.domain.schedules`` over the store's storage.
    """


class Queues(QueueCommands, QueueReads):
    """Limits and holds of queues over all hosts: limit, hold, release; and every question about them.

    Reached as ``store.queues``. Source: the rules of ``jobledger.domain.queues`` over the store's storage.
    """


class JobStore(JobCommands, JobReads, AbstractContextManager["JobStore"]):
    """Jobs in one store and namespace: every command, every question; safe to share between threads.

    ``with JobStore.open(url) as store`` closes it at the end. Source: the rules of ``jobledger.domain`` over one
    storage.
    """

    def __init__(self, setting: Setting) -> None:
        """Use ``open``; a setting is given by tests and by simulations."""
        super().__init__(setting)
        self.namespace = setting.namespace
        self.schedules = Schedules(setting, ZoneCalendar())
        self.queues = Queues(setting)

    @classmethod
    def open(
        cls,
        url: str = DEFAULT_URL,
        *,
        namespace: str = "default",
        policies: Mapping[str, Policy] | None = None,
        clock: Clock | None = None,
        migrate: bool | None = None,
        admit: Callable[[JobRequest], str | None] | None = None,
    ) -> Self:
        """Open a store.

        Args:
            url: ``memory:`` (a store of its own), ``sqlite:///relative.db``, ``sqlite:////absolute.db`` or
                ``postgresql://…``.
            namespace: separates keys, resources, groups and the feed.
            policies: by name; ``default`` always exists.
            clock: for tests; ``None`` is the machine's clock, and for PostgreSQL its server's.
            migrate: bring the schema up to date; ``None``: yes, but for PostgreSQL no.
            admit: says why a new job is not admitted, or ``None``; a reused one is not asked about.

        Raises:
            InvalidRequestError: the URL is none of these, or a name or policy is out of its range.
            SchemaMismatchError: the schema is too old (and ``migrate`` is false) or too new.
            StoreUnavailableError: the file cannot be opened, or the server cannot be reached.
        """
        storage = open_storage(url, clock=clock, migrate=migrate)
        setting = Setting(storage, SystemEntropy(), namespace, policies or {}, admit=admit)
        return cls(setting)

    @property
    def policies(self) -> tuple[str, ...]:
        """The names of the policies that jobs may run under here, in order."""
        return tuple(sorted(self._setting.policies))

    def within(self, patience: timedelta | float) -> Self:
        """The same store for calls that wait at most ``patience`` for their turn."""
        return type(self)(replace(self._setting, patience=require_span("patience", patience)))

    def through(self, run: Runner) -> Self:
        """The same store, whose single commands are run by ``run``, as a group commit of many threads' writes."""
        return type(self)(replace(self._setting, run=run))

    @override
    def create(
        self, request: JobRequest, *, connection: object | None = None, command_id: str | None = None
    ) -> CreateReceipt:
        """Create a job, or answer the recorded receipt of the one that owner, key and payload made before.

        ``connection`` is the caller's open database connection: the job then commits with the caller's transaction.

        Raises:
            PayloadChangedError, JobExistsError, AdmissionRefusedError: no job was made.
            PayloadTooLargeError, UnstorableValueError, UnknownPolicyError, InvalidRequestError: mend the request.
        """
        create = super().create
        return telemetry.sent(request, lambda asked: create(asked, connection=connection, command_id=command_id))

    @override
    def create_many(self, requests: Sequence[JobRequest]) -> list[CreateReceipt | JobledgerError]:
        """Create up to ``BATCH_MAX`` jobs at once; one answer per item, in order; one bad item fails alone."""
        return telemetry.sent_many(requests, super().create_many)

    def wait(self, job_id: str, timeout: timedelta | float) -> JobStatus:
        """Wait until a job is terminal, and answer its status.

        Raises:
            UnknownJobError: there is no such job in this namespace.
            DeadlineExceededError: it was not terminal within ``timeout``.
        """
        deadline = time.monotonic() + require_span("timeout", timeout).total_seconds()
        while not (status := self.status(job_id)).is_terminal:
            left = deadline - time.monotonic()
            if left <= 0:
                waited_for = f"job {job_id}, which is {status.state.value}, to end"
                raise DeadlineExceededError(waited_for)
            self._setting.storage.wait(min(LOOK_EVERY, timedelta(seconds=left)))
        return status

    @override
    def feed(
        self,
        *,
        after: str | None = None,
        limit: int = 100,
        topics: Sequence[str] = (),
        owner: str | None = None,
        wait: timedelta | float = timedelta(0),
    ) -> Feed:
        """All jobs' events in position order behind a cursor; contiguous and resumable.

        With ``wait``, a feed that has nothing to tell waits at most so long for something; its cursor then lies behind
        everything that was looked at.

        Raises:
            InvalidRequestError: an unknown topic.
            UnknownCursorError: a cursor that the feed of this store did not give.
        """
        deadline = time.monotonic() + require_span("wait", wait).total_seconds()
        while True:
            page = super().feed(after=after, limit=limit, topics=topics, owner=owner)
            left = deadline - time.monotonic()
            if page.entries or left <= 0:
                return page
            after = page.cursor
            self._setting.storage.wait(min(LOOK_EVERY, timedelta(seconds=left)))

    def follow(
        self,
        *,
        after: str | None = None,
        topics: Sequence[str] = (),
        owner: str | None = None,
        idle: timedelta | float | None = None,
    ) -> Iterator[FeedEntry]:
        """Every event behind a cursor, and then each as it comes; ends when nothing came for ``idle``, else never.

        Keep the cursor of the last entry that was dealt with: whoever resumes behind it misses nothing and sees nothing
        twice.

        Raises:
            InvalidRequestError: an unknown topic.
            UnknownCursorError: a cursor that the feed of this store did not give.
        """
        wait = timedelta(hours=1) if idle is None else require_span("idle", idle)

        def ask(cursor: str | None) -> Feed:
            return self.feed(after=cursor, limit=PAGE_MAX, topics=topics, owner=owner, wait=wait)

        return following(ask, after, is_endless=idle is None)

    def wait_for_change(self, timeout: timedelta | float) -> None:
        """Return when something may have been appended, at the latest after ``timeout``; a hint, never a promise."""
        self._setting.storage.wait(require_span("timeout", timeout))

    def export_job(self, job_id: str, file: Path | str) -> ExportReport:
        """Write one job, with the groups that it was claimed under, as a bundle that proves itself.

        ``file`` is packed by the end of its name (``.zst``, ``.gz``, else not); ``-`` is the standard output.

        Raises:
            UnknownJobError: there is no such job in this namespace.
            HistoryArchivedError: it was archived; its history is in that bundle.
            InvalidRequestError: the packing is not installed.
        """
        with self._setting.storage.reading() as reader:
            require_kept(reader, self._loaded(reader, job_id).job)
        return self._export(Scope(self.namespace, job_id=job_id), file)

    def export(
        self,
        file: Path | str,
        *,
        owner: str | None = None,
        kind: str | None = None,
        queue: str | None = None,
        state: State | str | None = None,
        label: str | tuple[str, str] | None = None,
        key_prefix: str | None = None,
    ) -> ExportReport:
        """Write all jobs that match every given filter (without one: everything of the namespace) as a bundle.

        Archived jobs are not in it: their histories are in the bundles that they were archived to.

        Raises:
            InvalidRequestError: an unknown state, or the packing is not installed.
        """
        wanted = self._filter(owner=owner, kind=kind, queue=queue, state=state, label=label, key_prefix=key_prefix)
        is_all = wanted == JobFilter(namespace=self.namespace)
        return self._export(Scope(self.namespace, wanted=None if is_all else wanted), file)

    def _export(self, scope: Scope, file: Path | str) -> ExportReport:
        made_by = f"jobledger {version('jobledger')}"
        with written(file) as write, self._setting.storage.reading() as reader:
            return export(reader, scope, write, made_by=made_by, made_at=reader.now())

    def import_bundle(self, file: Path | str) -> ImportReport:
        """Append every event of a bundle again, byte for byte; the store must be empty.

        Raises:
            InvalidRequestError: the store is not empty, or the file is no bundle.
            HistoryCorruptError: an event cannot follow the ones before it; what came before it stands.
        """
        with lines_in(file) as lines:
            return import_bundle(self._setting.storage, lines, patience=self._setting.patience)

    def archive(
        self,
        *,
        older_than: timedelta | float | None = None,
        limit: int = 1_000,
        to: Path | str | None = None,
        by: str = ENGINE,
    ) -> ArchiveReport:
        """Take the events of ended jobs out of the log; each keeps its status, its key, and one event in their place.

        Without ``older_than`` it takes those whose policy's ``keep_finished`` is over, with it those that ended that
        long ago, whatever their policies say; at most ``limit`` jobs. With ``to`` a bundle that proves itself is
        written and verified before the first job is touched; it is never one that exists.

        Raises:
            InvalidRequestError: an argument is out of its range, or the file exists already or cannot be written.
            StoreUnavailableError: the store did not answer, or this role may not archive; what was archived stays so.
        """
        require_integer("limit", limit, 1, INTEGER_MAX)
        require_text("by", by)
        age = None if older_than is None else require_span("older_than", older_than)
        with self._setting.storage.reading() as reader:
            found = expired(reader, self.namespace, limit) if age is None else older(reader, self.namespace, age, limit)
            ids = list(found)
        archiver = Archiver(self._setting.storage, self.namespace, by, self._setting.patience)
        return archiver.run(ids, to, made_by=f"jobledger {version('jobledger')}")

    def overdue(self, *, limit: int = 1_000) -> tuple[int, datetime | None]:
        """How many jobs are to be archived by now, counted no further than ``limit``, and since when the first is."""
        require_integer("limit", limit, 1, PAGE_MAX)
        with self._setting.storage.reading() as reader:
            found = reader.expired(self.namespace, after=None, limit=limit)
        return len(found), found[0].at if found else None

    @staticmethod
    def verify_export(file: Path | str) -> Iterator[Verification]:
        """Verify a bundle without a store: stream by stream, and last what is wrong with the bundle itself.

        Raises:
            InvalidRequestError: it is no bundle, or its packing is not installed.
        """
        with lines_in(file) as lines:
            yield from verify_bundle(lines)

    @staticmethod
    def replay_export(file: Path | str) -> Replay:
        """Fold a bundle's events with this release's code, and compare each state with the one that the bundle tells.

        Raises:
            InvalidRequestError: it is no bundle, or its packing is not installed.
        """
        with lines_in(file) as lines:
            return replay_bundle(lines)

    @staticmethod
    def namespace_of_export(file: Path | str) -> str:
        """The namespace that a bundle is of.

        Raises:
            InvalidRequestError: it is no bundle, or its packing is not installed.
        """
        with lines_in(file) as lines:
            return require_text("namespace", next(lines_of(lines)).fields.get("namespace"))

    def close(self) -> None:
        """Give back connections and files."""
        self._setting.storage.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the store."""
        self.close()


def open_storage(url: str, *, clock: Clock | None = None, migrate: bool | None = None) -> Storage:
    """The storage that a URL names, with its schema checked.

    Raises:
        InvalidRequestError: no store has such a URL.
        SchemaMismatchError: the schema is too old (and ``migrate`` is false) or too new.
        StoreUnavailableError: the file cannot be opened.
    """
    if url == "memory:":
        return MemoryStorage(clock=clock or SystemClock())
    storage: PostgreSQLStorage | SQLiteStorage
    if is_served(url):
        if clock is not None:
            raise InvalidRequestError(
                "clock", "a PostgreSQL store keeps the time of its server; leave the argument out"
            )
        storage, is_migrated = PostgreSQLStorage(url), bool(migrate)
    else:
        storage, is_migrated = SQLiteStorage(sqlite_path(url), clock=clock or SystemClock()), migrate is not False
    try:
        if is_migrated:
            storage.migrate()
        else:
            storage.require_schema()
    except BaseException:
        storage.close()
        raise
    return storage


def is_served(url: object) -> bool:
    """Whether a URL names a store on a server."""
    return isinstance(url, str) and url.startswith(SCHEMES)


def grant_roles(url: str) -> list[str]:
    """Make the roles of a PostgreSQL store, and give each the rights of its task; answers their names.

    Raises:
        InvalidRequestError: the store is no PostgreSQL database.
        StoreUnavailableError: the server cannot be reached, or its role may not do it.
    """
    if not is_served(url):
        raise InvalidRequestError("roles", "only a PostgreSQL store has roles; leave the option out")
    storage = PostgreSQLStorage(url)
    try:
        storage.grant_roles()
    finally:
        storage.close()
    return [f"{storage.place.schema}_{task}" for task in ("app", "reader", "retention")]


def shown_url(url: str) -> str:
    """A URL as it may be shown and repeated: without a password."""
    return place_of(url).shown_url if is_served(url) else url


def sqlite_path(url: str) -> Path:
    """The file that a ``sqlite:`` URL names.

    Raises:
        InvalidRequestError: it is no such URL.
    """
    if not isinstance(url, str):
        raise InvalidRequestError("url", f"a text is needed, not {type(url).__name__}")
    found = re.fullmatch(r"sqlite:///(?P<path>.+)", url, re.DOTALL)
    if found is None or "\0" in url:
        scheme = url.partition(":")[0][:20]
        known = "memory:, sqlite:///relative.db, sqlite:////absolute.db, postgresql://…"
        raise InvalidRequestError("url", f"no store is known for {scheme!r}; known ones: {known}")
    return Path(found["path"])
