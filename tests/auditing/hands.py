"""Hands in the tables of a SQLite store: random changes by somebody who knows how everything is stored."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from typing import Any, Final

from pydantic_core import from_json, to_json

from jobledger.domain.history import StoredRecord

Row = tuple[int, str, int, str, bytes]
"""Position, stream, sequence, topic and bytes of an event."""


class Hands:
    """Somebody who changes a store, and what of it may be told: the streams touched, and the rules broken."""

    def __init__(self, connection: sqlite3.Connection, chance: random.Random, last: int) -> None:
        """Touch nothing above the position ``last``."""
        self.connection, self.chance, self.last = connection, chance, last

    def execute(self, statement: str, *values: object) -> int:
        return self.connection.execute(statement, values).rowcount

    def rows(self, condition: str = "1") -> list[Row]:
        """The anchored events that meet a condition, in order."""
        selected = "SELECT rowid, originator_id, originator_version, topic, state FROM stored_events"
        return self.connection.execute(
            f"{selected} WHERE rowid <= ? AND ({condition}) ORDER BY 1", (self.last,)
        ).fetchall()

    def row(self, condition: str = "1") -> Row:
        return self.chance.choice(self.rows(condition))

    def write(self, row: Row, state: bytes) -> None:
        self.execute("UPDATE stored_events SET state = ? WHERE rowid = ?", state, row[0])


def flip_a_byte(hands: Hands) -> str:
    """A bit of storage that went bad, or a careless edit."""
    row = hands.row()
    place = hands.chance.randrange(len(row[4]))
    state = bytearray(row[4])
    state[place] ^= 1 << hands.chance.randrange(7)
    hands.write(row, bytes(state))
    return row[1]


def edit_a_value(hands: Hands) -> str:
    """Another text in an event's own fields."""
    row = hands.row("CAST(state AS TEXT) LIKE '%\"ops\"%' OR CAST(state AS TEXT) LIKE '%\"w1\"%'")
    hands.write(row, row[4].replace(b"ops", b"spy").replace(b'"w1"', b'"w9"'))
    return row[1]


def delete_an_event(hands: Hands) -> str:
    row = hands.row()
    hands.execute("DELETE FROM stored_events WHERE rowid = ?", row[0])
    return row[1]


def swap_two_events(hands: Hands) -> str:
    first, second = hands.chance.sample(hands.rows(), 2)
    hands.execute("UPDATE stored_events SET topic = ?, state = ? WHERE rowid = ?", second[3], second[4], first[0])
    hands.execute("UPDATE stored_events SET topic = ?, state = ? WHERE rowid = ?", first[3], first[4], second[0])
    return first[1]


def move_in_the_log(hands: Hands) -> str:
    """Two events of different streams change places: every chain still fits."""
    first = hands.row("rowid > 1")
    second = hands.chance.choice(hands.rows(f"originator_id <> '{first[1]}'"))
    hands.execute("UPDATE stored_events SET rowid = -1 WHERE rowid = ?", first[0])
    hands.execute("UPDATE stored_events SET rowid = ? WHERE rowid = ?", first[0], second[0])
    hands.execute("UPDATE stored_events SET rowid = ? WHERE rowid = -1", second[0])
    return first[1]


def give_to_another_stream(hands: Hands) -> str:
    row = hands.row()
    hands.execute("UPDATE stored_events SET originator_id = 'x' || originator_id WHERE rowid = ?", row[0])
    return row[1]


def rewrite_from_there(hands: Hands) -> str:
    """Change an event and chain everything behind it anew: the stream is consistent in itself."""
    row = hands.row("CAST(state AS TEXT) LIKE '%\"ops\"%' OR CAST(state AS TEXT) LIKE '%\"w1\"%'")
    _rechained(hands, row, row[4].replace(b"ops", b"spy").replace(b'"w1"', b'"w9"'))
    return row[1]


def rewrite_times(hands: Hands) -> str:
    """Everything happened a day earlier, in every event of a job; the chain is made anew."""
    job = hands.row("topic = 'job.created'")
    rows = hands.rows(f"originator_id = '{job[1]}'")
    for row in rows:
        hands.write(row, row[4].replace(b"2026-06-01T", b"2026-05-31T"))
    _rechained(hands, rows[0], rows[0][4].replace(b"2026-06-01T", b"2026-05-31T"))
    return job[1]


def cut_a_stream_off(hands: Hands) -> str:
    """The end of one stream is taken away, from an anchored event on."""
    row = hands.row("originator_version > 1")
    hands.execute("DELETE FROM stored_events WHERE originator_id = ? AND originator_version >= ?", row[1], row[2])
    return row[1]


def forget_a_stream(hands: Hands) -> str:
    """Every event and every row of a job is taken away."""
    row = hands.row("topic = 'job.created'")
    for table, column in (
        *(("stored_events", "originator_id"), ("job_status", "job_id"), ("job_lease", "job_id")),
        *(("job_unit", "job_id"), ("job_body", "job_id"), ("job_snapshot", "job_id"), ("resource", "job_id")),
        *(("submission", "job_id"), ("job_label", "position")),
    ):
        value: Any = row[0] if column == "position" else row[1]
        hands.execute(f"DELETE FROM {table} WHERE {column} = ?", value)  # noqa: S608  # names from above
    return row[1]


def forge_an_event(hands: Hands) -> str:
    """One more event, chained, in the middle: what follows is numbered and chained anew."""
    row = hands.row("topic = 'job.progress_reported'")
    selected = "SELECT rowid, originator_version FROM stored_events WHERE originator_id = ? AND originator_version > ?"
    after = hands.connection.execute(f"{selected} ORDER BY 2 DESC", (row[1], row[2])).fetchall()
    hands.execute("UPDATE stored_events SET rowid = -rowid WHERE rowid > ?", row[0])
    hands.execute("UPDATE stored_events SET rowid = 1 - rowid WHERE rowid < 0")
    hands.execute("UPDATE job_status SET position = -position WHERE position > ?", row[0])
    hands.execute("UPDATE job_status SET position = 1 - position WHERE position < 0")
    hands.execute("UPDATE job_label SET position = position + 1 WHERE position > ?", row[0])
    for position, sequence in after:
        hands.execute("UPDATE stored_events SET originator_version = ? WHERE rowid = ?", sequence + 1, position + 1)
    hands.execute(
        "INSERT INTO stored_events (rowid, originator_id, originator_version, topic, state) VALUES (?, ?, ?, ?, ?)",
        *(row[0] + 1, row[1], row[2] + 1, row[3], row[4]),
    )
    _rechained(hands, row, row[4])
    return row[1]


def rename_a_command(hands: Hands) -> str:
    row = hands.row("command_id IS NOT NULL")
    hands.execute("UPDATE stored_events SET command_id = command_id || 'x' WHERE rowid = ?", row[0])
    return row[1]


def change_a_topic(hands: Hands) -> str:
    row = hands.row()
    hands.execute("UPDATE stored_events SET topic = 'job.resumed' WHERE rowid = ?", row[0])
    return row[1]


def change_a_row(hands: Hands) -> str:
    """One of the rows beside the log."""
    changes = (
        ("job_status", "job_id", "head = 'feed'"),
        ("job_status", "job_id", "owner = 'spy'"),
        ("job_status", "job_id", "priority = 7"),
        ("job_status", "job_id", "state = 'queued', claimable = 'when_ready'"),
        ("job_status", "job_id", "job = replace(job, 'team', 'spies')"),
        ("job_status", "job_id", "sequence = sequence + 1"),
        ("job_lease", "job_id", "generation = 9"),
        ("job_lease", "job_id", "expires_at_us = 1"),
        ("job_unit", "job_id", "receipt = x'7b2273697a65223a317d'"),
        ("job_unit", "job_id", "unit = 'other'"),
        ("job_body", "job_id", "bytes = x'22'"),
        ("job_snapshot", "job_id", "job = replace(job, 'team', 'spies')"),
        ("resource", "job_id", "value = x'39'"),
        ("resource", "job_id", "version = version + 1"),
        ("submission", "job_id", "submission = 'other'"),
        ("job_label", "position", "value = 'other'"),
        ("worker_group", "name", "epoch = epoch + 1"),
    )
    table, column, change = hands.chance.choice(changes)
    found = hands.connection.execute(f"SELECT DISTINCT {column} FROM {table} ORDER BY 1")  # noqa: S608  # names from above
    [key] = hands.chance.choice(found.fetchall())
    hands.execute(f"UPDATE {table} SET {change} WHERE {column} = ?", key)  # noqa: S608  # names from above
    return "" if column != "job_id" else str(key)


def _rechained(hands: Hands, start: Row, state: bytes) -> None:
    """Write an event anew and give everything behind it in its stream the digests that follow; the head, too."""
    hands.write(start, state)
    digest = ""
    stream = hands.connection.execute(
        """
        SELECT rowid, originator_id, originator_version, topic, state FROM stored_events
        WHERE originator_id = ? ORDER BY originator_version
        """,
        (start[1],),
    ).fetchall()
    for row in stream:
        encoded = row[4]
        if row[2] >= start[2]:
            record = from_json(encoded)
            record.pop("previous", None)
            encoded = to_json(record | ({"previous": digest} if digest else {}))
            hands.write(row, encoded)
        digest = StoredRecord(row[1], row[2], row[3], encoded).digest


TAMPERINGS: Final[tuple[Callable[[Hands], str], ...]] = (
    flip_a_byte,
    edit_a_value,
    delete_an_event,
    swap_two_events,
    move_in_the_log,
    give_to_another_stream,
    rewrite_from_there,
    rewrite_times,
    cut_a_stream_off,
    forget_a_stream,
    forge_an_event,
    rename_a_command,
    change_a_topic,
    change_a_row,
)
REWRITES: Final = (
    move_in_the_log,
    rewrite_from_there,
    rewrite_times,
    cut_a_stream_off,
    forget_a_stream,
    forge_an_event,
)
"""Those that leave everything consistent in itself, once the rows beside are rebuilt: nothing but an anchor tells."""
