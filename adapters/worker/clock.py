"""The clock of local deadlines: it runs on while the machine sleeps, where the system has such a clock."""

from __future__ import annotations

import time
from typing import Final

_BOOTTIME: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)


def elapsed() -> float:
    """Seconds since some fixed moment; never goes back, and on Linux counts the time that the machine was suspended.

    Source: ``CLOCK_BOOTTIME``, else ``time.monotonic``.
    """
    return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)
