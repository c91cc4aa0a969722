"""The facts of a queue: which limits it was given, when it was held and released, by whom and why."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta  # pydantic resolves the annotations when it reads stored events
from typing import Any, ClassVar, Final

from jobledger.domain.events import STORED_SHAPE, Event


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """What may run of a queue at once, over all hosts, and in which order; ``None``: not limited.

    Attributes:
        running_max: so many of its jobs run at once.
        starts_max: so many attempts start within any ``starts_span``.
        starts_span: the span that ``starts_max`` counts in.
        share_by: what divides the queue into shares, which are served in turn: ``owner``, ``kind`` or ``label:NAME``.
        running_max_per_share: so many jobs of each share run at once.
        ageing: a job that waits so long counts as one priority more.
    """

    __pydantic_config__: ClassVar[Any] = STORED_SHAPE
    running_max: int | None = None
    starts_max: int | None = None
    starts_span: timedelta | None = None
    share_by: str | None = None
    running_max_per_share: int | None = None
    ageing: timedelta | None = None


UNLIMITED: Final = QueueLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimited(Event):
    """The queue was given these limits, in the place of those that it had."""

    namespace: str
    queue: str
    limits: QueueLimits
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueHeld(Event):
    """A stop sign was placed: no attempt starts until it is released; what runs goes on.

    ``queue`` is empty where it is of the whole namespace.
    """

    namespace: str
    queue: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReleased(Event):
    """The stop sign was taken away; ``queue`` as in ``QueueHeld``."""

    namespace: str
    queue: str
    by: str
    reason: str


QueueEvent = QueueLimited | QueueHeld | QueueReleased
