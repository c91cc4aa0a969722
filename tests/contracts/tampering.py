"""Hands in the tables: the ways in which somebody with access to the file could change a history."""

from __future__ import annotations

import sqlite3
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Tamper(Enum):
    """A change, the statements that make it, and the rule by which it has to be found."""

    EDIT = ("chained", ["UPDATE stored_events SET state = replace(state, 'ops', 'spy') WHERE {event} = 5"])
    DELETE = ("contiguous", ["DELETE FROM stored_events WHERE {event} = 4"])
    TRUNCATE = ("status_row", ["DELETE FROM stored_events WHERE {event} > 9"])
    SWAP = (
        "chained",
        [
            "UPDATE stored_events SET originator_version = 99 WHERE {event} = 5",
            "UPDATE stored_events SET originator_version = 5 WHERE {event} = 7",
            "UPDATE stored_events SET originator_version = 7 WHERE {event} = 99",
        ],
    )
    TOPIC = ("readable", ["UPDATE stored_events SET topic = 'os:system' WHERE {event} = 4"])
    GARBAGE = ("readable", ["UPDATE stored_events SET state = x'00ff' WHERE {event} = 4"])
    COMMAND = ("command", ["UPDATE stored_events SET command_id = 'mine' WHERE {event} = 4"])
    STATUS = ("status_row", ["UPDATE job_status SET job = replace(job, 'half', 'none') WHERE job_id = '{job}'"])
    HEAD = ("head", ["UPDATE job_status SET head = 'feed' WHERE job_id = '{job}'"])
    UNIT = ("unit_rows", ["DELETE FROM job_unit WHERE job_id = '{job}'"])
    RECEIPT = ("unit_rows", ["UPDATE job_unit SET receipt = '{{\"size\":1,\"value\":9}}' WHERE job_id = '{job}'"])
    RESOURCE = ("resource", ["UPDATE resource SET value = x'39' WHERE job_id = '{job}'"])
    VERSION = ("resource", ["UPDATE resource SET version = 0 WHERE job_id = '{job}'"])
    OWNER = ("columns", ["UPDATE job_status SET owner = 'spy' WHERE job_id = '{job}'"])
    PRIORITY = ("columns", ["UPDATE job_status SET priority = 9 WHERE job_id = '{job}'"])
    UNREADABLE = ("status_row", ["UPDATE job_status SET job = '[]' WHERE job_id = '{job}'"])
    ROWLESS = ("status_row", ["DELETE FROM job_status WHERE job_id = '{job}'"])
    POSITION = (
        "position",
        [
            "UPDATE stored_events SET rowid = -1 WHERE {event} = 5",
            "UPDATE stored_events SET rowid = (SELECT max(rowid) + 1 FROM stored_events) WHERE {event} = 6",
            "UPDATE stored_events SET rowid = 5000 WHERE {event} = 5",
        ],
    )
    PLACE = ("columns", ["UPDATE job_status SET position = 999 WHERE job_id = '{job}'"])
    LABEL = (
        "columns",
        ["UPDATE job_label SET value = 'x' WHERE position IN (SELECT position FROM job_status WHERE job_id = '{job}')"],
    )
    SUBMISSION = ("columns", ["UPDATE submission SET submission = 'mine' WHERE job_id = '{job}'"])
    INVENTED = (
        "unit_rows",
        ["INSERT INTO job_unit VALUES ('{job}', 'made-up', '{{\"size\":1}}', '', 1, 9)"],
    )
    LATER = ("resource", ["UPDATE resource SET version = 7 WHERE job_id = '{job}'"])
    SNAPSHOT = ("snapshot", ["UPDATE job_snapshot SET job = replace(job, 'team', 'spies') WHERE job_id = '{job}'"])
    BODY = ("body", ["UPDATE job_body SET bytes = x'22' WHERE job_id = '{job}'"])

    def __init__(self, rule: str, statements: list[str]) -> None:
        """A kind of tampering."""
        self.rule, self.statements = rule, statements


def tamper_with(path: Path, job_id: str, tamper: Tamper) -> None:
    """Make the change directly in the file, past every rule."""
    event = f"originator_id = '{job_id}' AND originator_version"
    with sqlite3.connect(path) as connection:
        for statement in tamper.statements:
            changed = connection.execute(statement.format(event=event, job=job_id)).rowcount
            if changed < 1:
                msg = f"{tamper.name} changed nothing: {statement}"
                raise LookupError(msg)
    connection.close()


class Litter(Enum):
    """A row that somebody added or left behind beside the log, and the rule by which it has to be found."""

    GROUP = ("group_row", "UPDATE worker_group SET epoch = 9")
    PHANTOM_GROUP = ("stray", "INSERT INTO worker_group VALUES ('default', 'phantom', 2, 1, 'feed')")
    GROUP_EVENT = ("chained", "UPDATE stored_events SET state = replace(state, 'release', 'nothing') WHERE {group} = 1")
    GROUP_GONE = ("contiguous", "DELETE FROM stored_events WHERE {group} = 1")
    PHANTOM_SUBMISSION = ("stray", "INSERT INTO submission VALUES ('default', 'team', 'other', '{job}')")
    PHANTOM_LABEL = ("stray", "INSERT INTO job_label SELECT 'default', 'made', 'up', position FROM job_status")
    PHANTOM_RESOURCE = ("resource", "INSERT INTO resource VALUES ('default', 'team', 'x', x'31', 1, '{job}', 1)")
    PHANTOM_LEASE = ("stray", "INSERT INTO job_lease VALUES ('default', '{job}', 3, 1, 1, 'default', 1)")
    PHANTOM_STATUS = (
        "stray",
        """INSERT INTO job_status SELECT
            999, 'nobody', namespace, owner, key, kind, queue, priority, state, claimable, ready_at_us, is_held,
            sequence, head, created_at_us, updated_at_us, job, NULL FROM job_status WHERE job_id = '{job}'""",
    )
    PHANTOM_STATE = ("stray", "INSERT INTO job_snapshot VALUES ('{job}', 5000, x'7b7d')")
    PHANTOM_UNIT = ("stray", "INSERT INTO job_unit VALUES ('nobody', 'u', x'31', '', 1, 1)")
    PHANTOM_BODY = ("stray", "INSERT INTO job_body VALUES ('nobody', 'd', 0, x'31')")
    ORPHAN = ("status_row", "DELETE FROM job_status WHERE job_id = '{job}'")

    def __init__(self, rule: str, statement: str) -> None:
        """A kind of litter."""
        self.rule, self.statement = rule, statement


class Misplaced(Enum):
    """A change in what is kept of an archived job, the statement that makes it, and the rule by which it is found."""

    LEAF = ("archive", "UPDATE archived_event SET digest = x'00' WHERE position = 2")
    LEAF_GONE = ("archive", "DELETE FROM archived_event WHERE position = 2")
    FIRST_LEAF = ("columns", "UPDATE archived_event SET position = 900 WHERE position = 1")
    LEAF_OF_NOTHING = ("stray", "INSERT INTO archived_event VALUES (900, x'00', 901)")
    FOLD = ("status_row", "UPDATE stored_events SET state = replace(state, 'team', 'spies') WHERE {event}")
    OPENED = (
        "archive",
        "UPDATE stored_events SET state = replace(state, 'state\":\"partial', 'state\":\"paused') WHERE {event}",
    )
    CHAIN = (
        "chained",
        "UPDATE stored_events SET state = replace(state, 'previous\":\"', 'previous\":\"0') WHERE {event}",
    )
    EVENT_GONE = ("stray", "DELETE FROM stored_events WHERE {event}")
    RECEIPT = ("unit_rows", "INSERT INTO job_unit VALUES ('{job}', 'made-up', '{{\"size\":1}}', '', 1, 9)")
    BODY = ("body", "DELETE FROM job_body WHERE job_id = '{job}'")
    VALUE = ("resource", "UPDATE resource SET value = x'39' WHERE job_id = '{job}'")
    LATER = ("resource", "UPDATE resource SET version = 7 WHERE job_id = '{job}'")
    STATUS = ("status_row", "UPDATE job_status SET job = replace(job, 'half', 'none') WHERE job_id = '{job}'")
    UNARCHIVED = (
        "status_row",
        "UPDATE job_status SET job = replace(job, 'archived', 'failures') WHERE job_id = '{job}'",
    )

    def __init__(self, rule: str, statement: str) -> None:
        """A kind of change."""
        self.rule, self.statement = rule, statement


def misplace(path: Path, job_id: str, what: Misplaced) -> None:
    """Make the change directly in the file, past every rule."""
    event = f"originator_id = '{job_id}'"
    with sqlite3.connect(path) as connection:
        if connection.execute(what.statement.format(job=job_id, event=event)).rowcount < 1:
            msg = f"{what.name} changed nothing"
            raise LookupError(msg)
    connection.close()


def litter(path: Path, job_id: str, what: Litter) -> None:
    """Make the change directly in the file, past every rule."""
    group = "originator_id LIKE 'group:%' AND originator_version"
    with sqlite3.connect(path) as connection:
        if connection.execute(what.statement.format(job=job_id, group=group)).rowcount < 1:
            msg = f"{what.name} changed nothing"
            raise LookupError(msg)
    connection.close()
