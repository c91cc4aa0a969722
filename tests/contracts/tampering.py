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
