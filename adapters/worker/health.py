"""Whether a host does its work: what a probe asks, and how much memory its process has."""

from __future__ import annotations

import os
import resource
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

RED_AFTER: Final = 3
"""A host is not well when no look for work succeeded for that many of the longest intervals between two looks."""

_STATM: Final = Path("/proc/self/statm")


@dataclass(frozen=True, slots=True)
class Health:
    """What a host says of itself. ``is_well``: an orchestrator need not restart it.

    ``problem`` says why it is not. ``running`` counts attempts, ``free`` slots that have none; ``looked_before`` is in
    seconds, since a look for work last succeeded (or none was needed, since no slot was free).
    """

    is_well: bool
    state: str
    problem: str | None
    running: int
    free: int
    looked_before: float | None


def memory_bytes() -> int:
    """The memory of this process that is resident now; where the system does not say, the most that it ever was."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
