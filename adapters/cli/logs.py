"""Logs of the long-running commands: to the error output, as text or as one JSON object for each line."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from jobledger.adapters.terminal.texts import visible_lines
from jobledger.adapters.worker.logs import JobLogFields, JobLogJson, JobLogText
from jobledger.domain.errors import InvalidRequestError

LogFormat = Annotated[
    str, typer.Option("--log-format", metavar="FORMAT", help="text, or json: one object for each line.")
]


class _Escaping(JobLogText):
    """Logs in which other people's text can do nothing to a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as text."""
        return visible_lines(super().format(record))


def log_to_the_error_output(given: str) -> None:
    """Send what this process has to tell to its error output.

    Raises:
        InvalidRequestError: there is no such format.
    """
    formats: dict[str, logging.Formatter] = {"text": _Escaping(), "json": JobLogJson()}
    if given not in formats:
        raise InvalidRequestError("log_format", f"text or json is needed, not {given!r}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formats[given])
    handler.addFilter(JobLogFields())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
