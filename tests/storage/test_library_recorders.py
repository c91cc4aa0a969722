"""The eventsourcing library's own test cases for recorders and factories, over ours."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import ClassVar
from unittest import TestCase
from unittest.mock import patch

from eventsourcing.persistence import AggregateRecorder, ApplicationRecorder, ProcessRecorder, TrackingRecorder
from eventsourcing.popo import POPOAggregateRecorder, POPOTrackingRecorder
from eventsourcing.sqlite import SQLiteAggregateRecorder
from eventsourcing.tests.application import ExampleApplicationTestCase
from eventsourcing.tests.persistence import (
    ApplicationRecorderTestCase,
    InfrastructureFactoryTestCase,
    NonInterleavingNotificationIDsBaseCase,
    ProcessRecorderTestCase,
    TrackingRecorderTestCase,
)
from eventsourcing.utils import Environment, get_topic
from typing_extensions import override

from jobledger.adapters.storage.memory import MemoryLedgerFactory
from jobledger.adapters.storage.memory_recorders import MemoryLedgerRecorder
from jobledger.adapters.storage.sqlite import SQLiteLedgerFactory
from jobledger.adapters.storage.sqlite_datastore import SQLiteLedgerDatastore
from jobledger.adapters.storage.sqlite_recorders import (
    SQLiteLedgerProcessRecorder,
    SQLiteLedgerRecorder,
    SQLiteLedgerTrackingRecorder,
)


class InAFolder(TestCase):
    """A test case with an empty folder, and a datastore on a file in it."""

    @override
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "jobs.db"
        self.datastore = SQLiteLedgerDatastore(str(self.path), originator_id_type="uuid")
        self.addCleanup(self.datastore.close)
        super().setUp()


class TestSQLiteApplicationRecorder(InAFolder, ApplicationRecorderTestCase[SQLiteLedgerRecorder]):
    @override
    def create_recorder(self) -> SQLiteLedgerRecorder:
        recorder = SQLiteLedgerRecorder(self.datastore)
        recorder.create_table()
        return recorder

    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class TestSQLitePositions(InAFolder, NonInterleavingNotificationIDsBaseCase):
    @override
    def create_recorder(self) -> ApplicationRecorder:
        recorder = SQLiteLedgerRecorder(self.datastore)
        recorder.create_table()
        return recorder


class TestSQLiteProcessRecorder(InAFolder, ProcessRecorderTestCase):
    @override
    def create_recorder(self) -> ProcessRecorder:
        recorder = SQLiteLedgerProcessRecorder(self.datastore)
        recorder.create_table()
        return recorder


class TestSQLiteTrackingRecorder(InAFolder, TrackingRecorderTestCase):
    @override
    def create_recorder(self) -> TrackingRecorder:
        recorder = SQLiteLedgerTrackingRecorder(self.datastore)
        recorder.create_table()
        return recorder


class View(SQLiteLedgerTrackingRecorder):
    """A projection's own tracking recorder."""


class TestSQLiteFactory(InAFolder, InfrastructureFactoryTestCase[SQLiteLedgerFactory]):
    @override
    def setUp(self) -> None:
        self.env = Environment("TestCase")
        self.env["PERSISTENCE_MODULE"] = get_topic(SQLiteLedgerFactory)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.env["SQLITE_DBNAME"] = f"{folder.name}/factory.db"
        super().setUp()

    @override
    def expected_factory_class(self) -> type[SQLiteLedgerFactory]:
        return SQLiteLedgerFactory

    @override
    def expected_aggregate_recorder_class(self) -> type[AggregateRecorder]:
        return SQLiteAggregateRecorder

    @override
    def expected_application_recorder_class(self) -> type[ApplicationRecorder]:
        return SQLiteLedgerRecorder

    @override
    def expected_tracking_recorder_class(self) -> type[TrackingRecorder]:
        return SQLiteLedgerTrackingRecorder

    @override
    def tracking_recorder_subclass(self) -> type[TrackingRecorder]:
        return View

    @override
    def expected_process_recorder_class(self) -> type[ProcessRecorder]:
        return SQLiteLedgerProcessRecorder


class WithEnvironment(TestCase):
    """A test case that sets variables of the process's environment for its time."""

    environment: ClassVar[dict[str, str]]

    @override
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        given = {name: value.format(folder=folder.name) for name, value in self.environment.items()}
        patched = patch.dict(os.environ, given)
        patched.start()
        self.addCleanup(patched.stop)
        super().setUp()


class TestSQLiteExampleApplication(WithEnvironment, ExampleApplicationTestCase):
    environment: ClassVar = {
        "PERSISTENCE_MODULE": get_topic(SQLiteLedgerFactory),
        "SQLITE_DBNAME": "{folder}/example.db",
    }
    expected_factory_topic = get_topic(SQLiteLedgerFactory)


class TestMemoryApplicationRecorder(ApplicationRecorderTestCase[MemoryLedgerRecorder]):
    @override
    def create_recorder(self) -> MemoryLedgerRecorder:
        return MemoryLedgerRecorder()

    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class TestMemoryPositions(NonInterleavingNotificationIDsBaseCase):
    @override
    def create_recorder(self) -> ApplicationRecorder:
        return MemoryLedgerRecorder()


class TestMemoryProcessRecorder(ProcessRecorderTestCase):
    @override
    def create_recorder(self) -> ProcessRecorder:
        return MemoryLedgerRecorder()


class TestMemoryTrackingRecorder(TrackingRecorderTestCase):
    @override
    def create_recorder(self) -> TrackingRecorder:
        return MemoryLedgerRecorder()


class MemoryView(POPOTrackingRecorder):
    """A projection's own tracking recorder."""


class TestMemoryFactory(InfrastructureFactoryTestCase[MemoryLedgerFactory]):
    @override
    def setUp(self) -> None:
        self.env = Environment("TestCase")
        self.env["PERSISTENCE_MODULE"] = get_topic(MemoryLedgerFactory)
        super().setUp()

    @override
    def expected_factory_class(self) -> type[MemoryLedgerFactory]:
        return MemoryLedgerFactory

    @override
    def expected_aggregate_recorder_class(self) -> type[AggregateRecorder]:
        return POPOAggregateRecorder

    @override
    def expected_application_recorder_class(self) -> type[ApplicationRecorder]:
        return MemoryLedgerRecorder

    @override
    def expected_tracking_recorder_class(self) -> type[TrackingRecorder]:
        return POPOTrackingRecorder

    @override
    def tracking_recorder_subclass(self) -> type[TrackingRecorder]:
        return MemoryView

    @override
    def expected_process_recorder_class(self) -> type[ProcessRecorder]:
        return MemoryLedgerRecorder


class TestMemoryExampleApplication(WithEnvironment, ExampleApplicationTestCase):
    environment: ClassVar = {"PERSISTENCE_MODULE": get_topic(MemoryLedgerFactory)}
    expected_factory_topic = get_topic(MemoryLedgerFactory)


# Or pytest collects the abstract bases too.
del ApplicationRecorderTestCase, ExampleApplicationTestCase, InfrastructureFactoryTestCase
del NonInterleavingNotificationIDsBaseCase, ProcessRecorderTestCase, TrackingRecorderTestCase
