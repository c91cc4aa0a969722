"""Deadlines, judged by the caller's monotonic clock."""

from __future__ import annotations

import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from jobledger.domain.bounds import require_instant, require_span
from jobledger.domain.errors import DeadlineExceededError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Generator


class Deadline:
    """The moment after which a caller does not wait any longer."""

    def __init__(self, given: datetime | timedelta | float) -> None:
        """Take a span from now, or an aware instant.

        Raises:
            InvalidRequestError: neither of the two.
        """
        if isinstance(given, datetime):
            given = max(require_instant("deadline", given) - datetime.now(UTC), timedelta(0))
        self._end = time.monotonic() + require_span("deadline", given).total_seconds()

    @property
    def left(self) -> timedelta:
        """What is left of it, never below zero."""
        return timedelta(seconds=max(0.0, self._end - time.monotonic()))

    @contextmanager
    def waiting_for(self, what: str) -> Generator[timedelta]:
        """What is left for a call; a store that could not answer in time is a deadline exceeded.

        Raises:
            DeadlineExceededError: nothing was left, or it ran out.
        """
        left = self.left
        if not left:
            raise DeadlineExceededError(what)
        try:
            yield left
        except UnavailableError as unavailable:
            if self.left:
                raise
            raise DeadlineExceededError(what) from unavailable
