"""Keyset pages over jobs and units: bounded, and with a cursor to go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from jobledger.domain.answers import JobStatus, UnitReceipt

COUNT_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class JobPage:
    """Jobs, newest first.

    ``total`` counts all that match; beyond ``COUNT_MAX`` it is ``None`` and ``total_at_least`` says so.
    ``next_cursor`` is ``None`` on the last page.
    """

    jobs: tuple[JobStatus, ...]
    next_cursor: str | None
    total: int | None
    total_at_least: int


@dataclass(frozen=True, slots=True)
class UnitPage:
    """Unit receipts by name; ``next_after`` is ``None`` on the last page."""

    units: tuple[UnitReceipt, ...]
    next_after: str | None
