"""The eventsourcing library works on a store that jobledger wrote: repository, notification log, projections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from eventsourcing.application import AggregateNotFoundError, Application
from eventsourcing.compressor import ZlibCompressor
from eventsourcing.domain import DomainEvent
from eventsourcing.persistence import (
    ApplicationRecorder,
    ConnectionPoolClosedError,
    JSONTranscoder,
    Mapper,
    ProgrammingError,
    StoredEvent,
    Tracking,
    TrackingRecorder,
)
from eventsourcing.projection import ApplicationSubscription, Projection, ProjectionRunner
from eventsourcing.sqlite import SQLiteCursor, SQLiteDatastore
from eventsourcing.utils import get_topic
from typing_extensions import override

from jobledger.adapters.storage.clocks import ManualClock
from jobledger.adapters.storage.mapping import LedgerEvent, LedgerMapper, project_job
from jobledger.adapters.storage.memory import MemoryStorage
from jobledger.adapters.storage.postgresql import PostgreSQLStorage
from jobledger.adapters.storage.sqlite import SQLiteLedgerFactory, SQLiteStorage
from jobledger.adapters.storage.sqlite_recorders import SQLiteLedgerRecorder, SQLiteLedgerTrackingRecorder
from jobledger.domain.errors import HistoryCorruptError, InvalidRequestError
from jobledger.domain.events import EpochAdvanced
from jobledger.domain.job import Job
from tests.postgresql.stores import environment as postgresql_environment
from tests.storage.given import advance_epoch, claim, created, loaded, progressed, written
from tests.storage.test_preconditions import Store

OpenApplication = Callable[[], Application[str]]


def environment(storage: SQLiteStorage) -> dict[str, str]:
    """What an application of the library needs to open a jobledger store."""
    return {
        "PERSISTENCE_MODULE": get_topic(SQLiteLedgerFactory),
        "MAPPER_TOPIC": get_topic(LedgerMapper),
        "SQLITE_DBNAME": str(storage.path),
    }


def application(storage: Store) -> Application[str]:
    """The library's application over a store: by its path, or over the very recorder that holds the log in memory."""
    if isinstance(storage, SQLiteStorage):
        return Application[str](env=environment(storage))
    if isinstance(storage, PostgreSQLStorage):
        mapper = {"MAPPER_TOPIC": get_topic(LedgerMapper)}
        return Application[str](env=postgresql_environment(storage.place.url) | mapper)

    class OverMemory(Application[str]):
        @override
        def construct_recorder(self) -> ApplicationRecorder:
            assert isinstance(storage, MemoryStorage)
            return storage.recorder

        @override
        def construct_mapper(self) -> Mapper[str]:
            return LedgerMapper(self.construct_transcoder())

    return OverMemory()


@pytest.fixture
def worked(storage: Store) -> Store:
    """Two jobs and a group: positions 1, 2, 3 (the group), 4 and 5."""
    written(storage, created("a"), created("b"))
    advance_epoch(storage)
    claim(storage, "a", epoch=2)
    written(storage, progressed(loaded(storage, "a"), done=7))
    return storage


def test_the_repository_gives_the_folded_job(worked: Store) -> None:
    """As it stands, and as of a sequence."""
    with application(worked) as app:
        job: Job = app.repository.get("a", projector_func=project_job)
        earlier: Job = app.repository.get("a", version=2, projector_func=project_job)
        with pytest.raises(AggregateNotFoundError):
            app.repository.get("nobody", projector_func=project_job)

    assert job == loaded(worked, "a").job
    assert (earlier.sequence, earlier.progress) == (2, None)


def test_the_notification_log_has_every_record_in_order(worked: Store) -> None:
    with application(worked) as app:
        section = app.notification_log["1,10"]

    assert [(item.id, item.originator_id, item.topic) for item in section.items] == [
        (1, "a", "job.created"),
        (2, "b", "job.created"),
        (3, "group:n:g", "group.epoch_advanced"),
        (4, "a", "job.claimed"),
        (5, "a", "job.progress_reported"),
    ]
    with worked.reading() as reader:
        assert [item.state for item in section.items][4] == reader.records("a", after=2, limit=1)[0].state


def test_a_subscription_follows_what_jobledger_writes(worked: Store) -> None:
    """What stands in the log already, and what is written while it waits; topics filter."""
    with application(worked) as app, ApplicationSubscription(app, gt=1) as subscription:
        seen = [next(subscription)[0] for _ in range(4)]
        written(worked, created("c"))
        seen.append(next(subscription)[0])
        with ApplicationSubscription(app, gt=0, topics=["job.claimed"]) as claims:
            [claimed, tracking] = next(claims)

    events = [event for event in seen if isinstance(event, LedgerEvent)]
    assert [event.originator_id for event in events] == ["b", "group:n:g", "a", "a", "c"]
    assert isinstance(events[1].recorded.event, EpochAdvanced)
    assert (claimed.originator_id, tracking.notification_id) == ("a", 4)


def test_a_subscription_ends_with_the_error_that_stops_it(sqlite: SQLiteStorage) -> None:
    """A follower is told, and does not wait for ever."""
    written(sqlite, created("a"))
    with sqlite.recorder.subscribe(gt=0) as subscription:
        assert next(subscription).id == 1
        sqlite.close()

        with pytest.raises(ConnectionPoolClosedError):
            next(subscription)


def test_a_recorder_needs_a_datastore_of_ours(sqlite: SQLiteStorage) -> None:
    """The library's own would wait, lock and sync in its own ways; and the log has one name."""
    stock = SQLiteDatastore(str(sqlite.path))
    with pytest.raises(ProgrammingError):
        SQLiteLedgerRecorder(stock)
    with pytest.raises(ProgrammingError):
        SQLiteLedgerRecorder(sqlite.datastore, events_table_name="other")
    stock.close()


class CountView(SQLiteLedgerTrackingRecorder):
    """How many events each stream has, counted once each."""

    def __init__(self, datastore: SQLiteDatastore, **kwargs: Any) -> None:
        super().__init__(datastore, **kwargs)
        self.create_table_statements.append(
            "CREATE TABLE IF NOT EXISTS counted (stream TEXT PRIMARY KEY, events INTEGER NOT NULL)"
        )

    def count(self, stream: str, tracking: Tracking) -> None:
        """Count one event, and that it was counted."""
        with self.datastore.transaction(commit=True) as cursor:
            self._insert_tracking(cursor, tracking)
            cursor.execute(
                "INSERT INTO counted VALUES (?, 1) ON CONFLICT (stream) DO UPDATE SET events = events + 1", (stream,)
            )

    def counted(self) -> dict[str, int]:
        """All counts."""
        cursor: SQLiteCursor
        with self.datastore.transaction(commit=False) as cursor:
            cursor.execute("SELECT stream, events FROM counted")
            return {row["stream"]: row["events"] for row in cursor.fetchall()}


class Counting(Projection[CountView]):
    """Counts events by stream."""

    @override
    def process_event(self, domain_event: Any, tracking: Tracking) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]  # the library's own examples override it so
        self.view.count(domain_event.originator_id, tracking)


def test_a_projection_of_the_library_counts_every_event_once(sqlite: SQLiteStorage) -> None:
    """In the same file, while jobledger writes; started again, it goes on where it was."""
    written(sqlite, created("a"), created("b"))
    for last in (3, 4):
        with ProjectionRunner(
            application_class=Application[str],
            projection_class=Counting,
            view_class=CountView,
            env=environment(sqlite),
        ) as runner:
            if last == 3:
                claim(sqlite, "a")
            else:
                written(sqlite, progressed(loaded(sqlite, "a")))
            runner.wait(last, timeout=20)
            counted = runner.projection.view.counted()
        assert counted == {"a": last - 1, "b": 1}


def test_a_projection_in_memory_reads_the_log(memory: MemoryStorage) -> None:
    """An event is mapped to what happened, who caused it and how it is chained."""
    written(memory, created("a"))
    view: TrackingRecorder = memory.recorder
    with application(memory) as app, ApplicationSubscription(app, gt=view.max_tracking_id("p")) as subscription:
        event, tracking = next(subscription)
        view.insert_tracking(Tracking("p", tracking.notification_id))

    assert isinstance(event, LedgerEvent)
    assert event.recorded.digest == loaded(memory, "a").head
    assert view.max_tracking_id("p") == 1


# The mapper -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def mapper() -> LedgerMapper:
    """A mapper, with the transcoder that the library hands it."""
    return LedgerMapper(JSONTranscoder())


def stored(storage: Store) -> Sequence[StoredEvent]:
    """The records of job ``a`` as the library's."""
    return storage.recorder.select_events("a")


def test_what_is_mapped_there_and_back_is_the_same_to_the_byte(worked: Store, mapper: LedgerMapper) -> None:
    """Digests are made from stored bytes, so nothing may be encoded again."""
    for event in stored(worked):
        assert mapper.to_stored_event(mapper.to_domain_event(event)) == event


def test_the_mapper_imports_nothing_that_is_stored(mapper: LedgerMapper) -> None:
    """A topic that names a class is as unknown as any other."""
    topic = get_topic(ManualClock)

    with pytest.raises(HistoryCorruptError, match="unknown topic"):
        mapper.to_domain_event(StoredEvent("a", 1, topic, b"{}"))


def test_the_mapper_refuses_what_would_change_stored_bytes() -> None:
    with pytest.raises(InvalidRequestError, match="compressor"):
        LedgerMapper(JSONTranscoder(), compressor=ZlibCompressor())


def test_the_mapper_refuses_events_of_others(mapper: LedgerMapper) -> None:
    foreign: Any = DomainEvent.__new__(DomainEvent)

    with pytest.raises(InvalidRequestError, match="LedgerEvent"):
        mapper.to_stored_event(foreign)


def test_a_gap_stops_the_fold(worked: Store, mapper: LedgerMapper) -> None:
    first, _, third = [mapper.to_domain_event(event) for event in stored(worked)]

    with pytest.raises(HistoryCorruptError, match="missing"):
        project_job(None, [first, third])
    with pytest.raises(HistoryCorruptError, match="missing"):
        project_job(None, [third])
