"""What a host does beside its jobs while it is admitted, each in a thread of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from jobledger.adapters.worker.projecting import Projecting
from jobledger.adapters.worker.scheduling import Scheduling
from jobledger.domain.bounds import require_flag

if TYPE_CHECKING:
    from jobledger.adapters.bootstrap import JobStore


class Companion(Protocol):
    """A thread that begins with the host's admission and ends with its drain."""

    def start(self) -> None:
        """Begin."""
        ...

    def stop(self) -> None:
        """Begin nothing more."""
        ...

    def join(self, timeout: float) -> None:
        """Wait at most ``timeout`` seconds for the thread to end."""
        ...


def companions(store: JobStore, *, name: str, schedules: bool, projections: bool) -> list[Companion]:
    """Those that were asked for.

    Raises:
        InvalidRequestError: a flag is neither true nor false.
    """
    asked: list[Companion] = []
    if require_flag("schedules", schedules):
        asked.append(Scheduling(store, name=name))
    if require_flag("projections", projections):
        asked.append(Projecting(store, name=name))
    return asked
