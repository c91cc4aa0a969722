"""The eventsourcing library on a PostgreSQL store: its own test cases, its applications, and its projections."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any
from unittest import TestCase
from unittest.mock import patch

import pytest
from eventsourcing.application import Application
from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    ProcessRecorder,
    ProgrammingError,
    Tracking,
    TrackingRecorder,
)
from eventsourcing.postgres import PostgresDatastore
from eventsourcing.projection import Projection, ProjectionRunner
from eventsourcing.tests.application import ExampleApplicationTestCase
from eventsourcing.tests.persistence import (
    ApplicationRecorderTestCase,
    InfrastructureFactoryTestCase,
    NonInterleavingNotificationIDsBaseCase,
    ProcessRecorderTestCase,
    TrackingRecorderTestCase,
)
from eventsourcing.utils import Environment, get_topic
from psycopg.sql import SQL, Identifier
from typing_extensions import override

from jobledger.adapters.storage.mapping import LedgerMapper
from jobledger.adapters.storage.postgresql import PostgreSQLLedgerFactory, PostgreSQLStorage
from jobledger.adapters.storage.postgresql_connecting import place_of
from jobledger.adapters.storage.postgresql_recorders import (
    PostgreSQLLedgerAggregateRecorder,
    PostgreSQLLedgerDatastore,
    PostgreSQLLedgerProcessRecorder,
    PostgreSQLLedgerRecorder,
    PostgreSQLLedgerTrackingRecorder,
)
from tests.postgresql.stores import dropped, environment, fresh_url
from tests.storage.given import advance_epoch, claim, created, loaded, progressed, written


class InASchema(TestCase):
    """A test case with a datastore on a schema that nobody has made yet."""

    @override
    def setUp(self) -> None:
        url = fresh_url()
        self.addCleanup(dropped, url)
        self.datastore = PostgreSQLLedgerDatastore.at(place_of(url), originator_id_type="uuid")
        self.addCleanup(self.datastore.close)
        super().setUp()


class TestApplicationRecorder(InASchema, ApplicationRecorderTestCase[PostgreSQLLedgerRecorder]):
    @override
    def create_recorder(self) -> PostgreSQLLedgerRecorder:
        recorder = PostgreSQLLedgerRecorder(self.datastore)
        recorder.create_table()
        return recorder

    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class TestPositions(InASchema, NonInterleavingNotificationIDsBaseCase):
    @override
    def create_recorder(self) -> ApplicationRecorder:
        recorder = PostgreSQLLedgerRecorder(self.datastore)
        recorder.create_table()
        return recorder


class TestProcessRecorder(InASchema, ProcessRecorderTestCase):
    @override
    def create_recorder(self) -> ProcessRecorder:
        recorder = PostgreSQLLedgerProcessRecorder(self.datastore)
        recorder.create_table()
        return recorder


class TestTrackingRecorder(InASchema, TrackingRecorderTestCase):
    @override
    def create_recorder(self) -> TrackingRecorder:
        recorder = PostgreSQLLedgerTrackingRecorder(self.datastore)
        recorder.create_table()
        return recorder


class View(PostgreSQLLedgerTrackingRecorder):
    """A projection's own tracking recorder."""


class TestFactory(InfrastructureFactoryTestCase[PostgreSQLLedgerFactory]):
    @override
    def setUp(self) -> None:
        url = fresh_url()
        self.addCleanup(dropped, url)
        self.env = Environment("TestCase")
        self.env.update(environment(url))
        super().setUp()

    @override
    def expected_factory_class(self) -> type[PostgreSQLLedgerFactory]:
        return PostgreSQLLedgerFactory

    @override
    def expected_aggregate_recorder_class(self) -> type[AggregateRecorder]:
        return PostgreSQLLedgerAggregateRecorder

    @override
    def expected_application_recorder_class(self) -> type[ApplicationRecorder]:
        return PostgreSQLLedgerRecorder

    @override
    def expected_tracking_recorder_class(self) -> type[TrackingRecorder]:
        return PostgreSQLLedgerTrackingRecorder

    @override
    def tracking_recorder_subclass(self) -> type[TrackingRecorder]:
        return View

    @override
    def expected_process_recorder_class(self) -> type[ProcessRecorder]:
        return PostgreSQLLedgerProcessRecorder


class TestExampleApplication(ExampleApplicationTestCase):
    expected_factory_topic = get_topic(PostgreSQLLedgerFactory)

    @override
    def setUp(self) -> None:
        url = fresh_url()
        self.addCleanup(dropped, url)
        patched = patch.dict(os.environ, environment(url))
        patched.start()
        self.addCleanup(patched.stop)
        super().setUp()


# Or pytest collects the abstract bases too.
del ApplicationRecorderTestCase, ExampleApplicationTestCase, InfrastructureFactoryTestCase
del NonInterleavingNotificationIDsBaseCase, ProcessRecorderTestCase, TrackingRecorderTestCase


# On what jobledger wrote ----------------------------------------------------------------------------------------------


@pytest.fixture
def worked() -> Iterator[PostgreSQLStorage]:
    """Two jobs and a group: positions 1, 2, 3 (the group), 4 and 5."""
    storage = PostgreSQLStorage(fresh_url())
    storage.migrate()
    written(storage, created("a"), created("b"))
    advance_epoch(storage)
    claim(storage, "a", epoch=2)
    written(storage, progressed(loaded(storage, "a"), done=7))
    yield storage
    storage.close()
    dropped(storage.place.url)


def test_a_recorder_needs_a_datastore_of_ours(worked: PostgreSQLStorage) -> None:
    """The library's own would lock the table and notify while it commits; and the log has one name."""
    stock = PostgresDatastore("postgres", "", "", "postgres", "")
    with pytest.raises(ProgrammingError):
        PostgreSQLLedgerRecorder(stock)
    with pytest.raises(ProgrammingError):
        PostgreSQLLedgerRecorder(worked.recorder.datastore, events_table_name="other")


class CountView(PostgreSQLLedgerTrackingRecorder):
    """How many events each stream has, counted once each."""

    def __init__(self, datastore: PostgresDatastore, **kwargs: Any) -> None:
        super().__init__(datastore, **kwargs)
        self.counts = SQL("{}.counted").format(Identifier(datastore.schema))
        self.sql_create_statements.append(
            SQL("CREATE TABLE IF NOT EXISTS {} (stream text PRIMARY KEY, events bigint NOT NULL)").format(self.counts)
        )

    def count(self, stream: str, tracking: Tracking) -> None:
        """Count one event, and that it was counted."""
        with self.datastore.transaction(commit=True) as cursor:
            self._insert_tracking(cursor, tracking)
            put = "INSERT INTO {} AS c VALUES (%s, 1) ON CONFLICT (stream) DO UPDATE SET events = c.events + 1"
            cursor.execute(SQL(put).format(self.counts), (stream,))

    def counted(self) -> dict[str, int]:
        """All counts."""
        with self.datastore.transaction(commit=False) as cursor:
            cursor.execute(SQL("SELECT stream, events FROM {}").format(self.counts))
            return {row["stream"]: row["events"] for row in cursor.fetchall()}


class Counting(Projection[CountView]):
    """Counts events by stream."""

    @override
    def process_event(self, domain_event: Any, tracking: Tracking) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]  # the library's own examples override it so
        self.view.count(domain_event.originator_id, tracking)


def test_a_projection_of_the_library_counts_every_event_once(worked: PostgreSQLStorage) -> None:
    """In the same schema, while jobledger writes; started again, it goes on where it was."""
    for last in (6, 7):
        with ProjectionRunner(
            application_class=Application[str],
            projection_class=Counting,
            view_class=CountView,
            env=environment(worked.place.url) | {"MAPPER_TOPIC": get_topic(LedgerMapper)},
        ) as runner:
            written(worked, progressed(loaded(worked, "a")))
            runner.wait(last, timeout=20)
            counted = runner.projection.view.counted()
        assert counted == {"a": last - 2, "b": 1, "group:n:g": 1}
