"""What callers get back of queues: receipts, and the status of one; all frozen."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from jobledger.domain.job import Request
from jobledger.domain.queue_events import UNLIMITED, QueueLimits

if TYPE_CHECKING:
    from collections.abc import Mapping


COUNTED_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class QueueReceipt:
    """What a command left behind: the queue's sequence; ``reused``: it stood like that already."""

    name: str | None
    sequence: int
    reused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """A queue now, or the whole namespace (``name`` is ``None``, and nothing is counted).

    ``is_held`` is also true where the whole namespace is, whose hold then is ``namespace_hold``. ``queued`` is counted
    no further than ``COUNTED_MAX``; ``running`` are all that run, also on leases that are not live, and ``shares`` the
    same by share, where the queue is divided. ``starts_left`` is how many attempts its rate lets start now (``None``:
    it has none). ``sequence`` is 0, and ``head`` empty, where it was never limited or held.
    """

    name: str | None
    namespace: str
    limits: QueueLimits = UNLIMITED
    hold: Request | None = None
    namespace_hold: Request | None = None
    queued: int = 0
    running: int = 0
    shares: Mapping[str, int] = field(default_factory=dict[str, int])
    starts_left: int | None = None
    sequence: int = 0
    head: str = ""
    updated_at: datetime | None = None

    @property
    def is_held(self) -> bool:
        """Whether no attempt of its jobs starts."""
        return self.hold is not None or self.namespace_hold is not None
