"""Schedules in a writing transaction of a PostgreSQL store: rows under locks, and appends with their sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, LiteralString

from typing_extensions import override

from jobledger.adapters.storage.postgresql_arrays import booleans, byte_strings, integers, texts
from jobledger.adapters.storage.postgresql_auditing import PostgreSQLReader
from jobledger.adapters.storage.postgresql_schedules import DUE_SCHEDULES, loaded_schedule
from jobledger.adapters.storage.schedule_rows import encode_schedule, schedule_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobledger.domain.schedules.ports import DueSchedule, LoadedSchedule, ScheduleAppend
    from jobledger.domain.schedules.state import ScheduleState

INSERT_EVENTS: Final[LiteralString] = """
    SELECT jobledger.insert_events(%(ids)s, %(versions)s, %(topics)s, %(states)s, %(commands)s)
"""
"""Writes events of any stream, with positions of the log."""


class PostgreSQLScheduleSession(PostgreSQLReader):
    """Locks schedules before it reads them, and writes them with their events."""

    LOCKED_SCHEDULES: Final[LiteralString] = PostgreSQLReader.SCHEDULES + ' ORDER BY name COLLATE "C" FOR NO KEY UPDATE'
    # A name that has no row yet is locked as such, so that two who put it at once take turns; the row is then read by a
    # snapshot of its own. In the order of the locks, which two names may share.
    NAME_LOCKS: Final[LiteralString] = """
        SELECT pg_advisory_xact_lock('jobledger.position'::regclass::oid::integer, l.lock)
        FROM (
            SELECT DISTINCT jobledger.name_lock('schedule', %(namespace)s, n.name) AS lock
            FROM unnest(%(names)s::text[]) AS n (name) ORDER BY 1
        ) AS l
    """

    @override
    def schedules(self, namespace: str, names: Sequence[str]) -> dict[str, LoadedSchedule]:
        """Schedules by name, locked until the transaction ends; unknown names are locked too, and missing."""
        rows = self._all(self.LOCKED_SCHEDULES, namespace=namespace, names=list(names))
        found = {row[0] for row in rows}
        if missing := [name for name in names if name not in found]:
            self._all(self.NAME_LOCKS, namespace=namespace, names=missing)
            rows += self._all(self.LOCKED_SCHEDULES, namespace=namespace, names=missing)
        return {row[0]: loaded_schedule(namespace, row) for row in rows}

    # Those that another transaction has locked are being settled there.
    DUE_LOCKED: Final[LiteralString] = DUE_SCHEDULES + " FOR NO KEY UPDATE OF s SKIP LOCKED"

    @override
    def due_schedules(self, namespace: str, *, after: DueSchedule | None, limit: int) -> list[DueSchedule]:
        """Schedules that are due and that nobody else has locked; locked here until the transaction ends."""
        return self._due(self.DUE_LOCKED, namespace, after, limit)

    # The rows by their primary key; the log by its own.
    STANDING_SCHEDULES: Final[LiteralString] = """
        SELECT coalesce(s.sequence, 0) = a.sequence AND NOT EXISTS (
            SELECT 1 FROM jobledger.stored_events AS e
            WHERE e.originator_id = a.stream AND e.originator_version > a.sequence
        )
        FROM unnest(%(namespaces)s, %(names)s, %(streams)s, %(sequences)s) WITH ORDINALITY
            AS a (namespace, name, stream, sequence, place)
        LEFT JOIN jobledger.schedule AS s ON s.namespace = a.namespace AND s.name = a.name
        ORDER BY a.place
    """

    def append_schedules(self, appends: Sequence[ScheduleAppend]) -> list[bool]:
        """Write each append whose schedule still stands at its sequence; for each, whether it was written."""
        if not appends:
            return []
        rows = self._all(
            self.STANDING_SCHEDULES,
            namespaces=texts([append.state.namespace for append in appends]),
            names=texts([append.state.name for append in appends]),
            streams=texts([append.state.stream for append in appends]),
            sequences=integers([append.sequence for append in appends]),
        )
        stands = [is_standing for (is_standing,) in rows]
        written = [append for append, is_standing in zip(appends, stands, strict=True) if is_standing]
        records = [record for append in written for record in append.records]
        if records:
            self._all(
                INSERT_EVENTS,
                ids=texts([record.stream for record in records]),
                versions=integers([record.sequence for record in records]),
                topics=texts([record.topic for record in records]),
                states=byte_strings([record.state for record in records]),
                commands=texts([record.command_id for record in records]),
            )
            self._put_schedules([(append.state, append.head) for append in written])
            self._put_snapshots([kept for append in written for kept in append.snapshots])
        return stands

    PUT_SCHEDULES: Final[LiteralString] = """
        INSERT INTO jobledger.schedule
            (namespace, name, sequence, head, due_at_us, waits_for, is_removed, schedule)
        SELECT * FROM unnest(
            %(namespace)s, %(name)s, %(sequence)s, %(head)s, %(due_at_us)s, %(waits_for)s, %(is_removed)s, %(schedule)s
        )
        ON CONFLICT (namespace, name) DO UPDATE SET
            sequence = excluded.sequence, head = excluded.head, due_at_us = excluded.due_at_us,
            waits_for = excluded.waits_for, is_removed = excluded.is_removed, schedule = excluded.schedule
    """

    def _put_schedules(self, states: Sequence[tuple[ScheduleState, str]]) -> None:
        rows = [schedule_row(state, head) for state, head in states]
        columns: dict[str, list[object]] = {name: [row[name] for row in rows] for name in rows[0]}
        encode = {"sequence": integers, "due_at_us": integers, "is_removed": booleans, "schedule": byte_strings}
        values = {name: encode.get(name, texts)(column) for name, column in columns.items()}  # type: ignore[operator]  # each takes what schedule_row gives
        self._execute(self.PUT_SCHEDULES, values)

    PUT_SCHEDULE_SNAPSHOTS: Final[LiteralString] = """
        INSERT INTO jobledger.schedule_snapshot (namespace, name, sequence, schedule)
        SELECT * FROM unnest(%(namespaces)s, %(names)s, %(sequences)s, %(schedules)s)
        ON CONFLICT (namespace, name, sequence) DO UPDATE SET schedule = excluded.schedule
    """

    def _put_snapshots(self, states: Sequence[ScheduleState]) -> None:
        if not states:
            return
        values = {
            "namespaces": texts([state.namespace for state in states]),
            "names": texts([state.name for state in states]),
            "sequences": integers([state.sequence for state in states]),
            "schedules": byte_strings([encode_schedule(state) for state in states]),
        }
        self._execute(self.PUT_SCHEDULE_SNAPSHOTS, values)

    DELETE_SCHEDULE_SNAPSHOTS: Final[LiteralString] = """
        DELETE FROM jobledger.schedule_snapshot WHERE namespace = %(namespace)s AND name = %(name)s
    """

    def rewrite_schedule(self, state: ScheduleState, head: str, snapshots: Sequence[ScheduleState]) -> None:
        """Replace a schedule's row and kept states by rebuilt ones, or make the row that is missing."""
        self._execute(self.DELETE_SCHEDULE_SNAPSHOTS, {"namespace": state.namespace, "name": state.name})
        self._put_schedules([(state, head)])
        self._put_snapshots(snapshots)
