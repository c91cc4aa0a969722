"""Logs in which each record says which job it is about, as text or as a JSON object for each line."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, Final

from jobledger.adapters.telemetry import traced_ids
from jobledger.adapters.worker.current import current_facts

FIELDS: Final = ("job_id", "generation", "kind", "worker")
REQUEST: Final = ("method", "path", "status", "ms")
"""What a line about an HTTP request says of it."""


class JobLogFields(logging.Filter):
    """Gives every record of a job's handler, and of what it calls, the fields ``job_id``, ``generation``, ``kind``.

    Put it on a logging handler: ``handler.addFilter(JobLogFields())``. Records from elsewhere have these fields as
    ``None``, so that a format may name them.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add what is missing; every record passes."""
        facts = current_facts()
        for name in FIELDS:
            if not hasattr(record, name):
                setattr(record, name, None if facts is None else getattr(facts, name))
        return True


class JobLogText(logging.Formatter):
    """Lines for people, with the job at the end of those that are about one."""

    def __init__(self) -> None:
        """Lines of time, level, logger and message."""
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the library's name
        """The line without the traceback."""
        line, job_id = super().formatMessage(record), getattr(record, "job_id", None)
        if job_id is None:
            return line
        kind, generation = getattr(record, "kind", None), getattr(record, "generation", None)
        return f"{line} [job {job_id}, generation {generation}{f', {kind}' if kind else ''}]"


class JobLogJson(logging.Formatter):
    """One JSON object for each record: ``at``, ``level``, ``logger``, ``message``, the job's fields, ``error``.

    Within a span of OpenTelemetry also its ``trace_id`` and ``span_id``.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        said: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        said |= traced_ids()
        said |= {name: value for name in (*FIELDS, *REQUEST) if (value := getattr(record, name, None)) is not None}
        if record.exc_info:
            said["error"] = self.formatException(record.exc_info)
        return json.dumps(said, ensure_ascii=True, default=str)
