"""The state of one queue, folded from its events."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta  # pydantic resolves the annotations when it reads stored state
from typing import TYPE_CHECKING, Any, ClassVar, Final, assert_never

from jobledger.domain.errors import HistoryCorruptError
from jobledger.domain.events import STORED_SHAPE
from jobledger.domain.job import Request
from jobledger.domain.queue_events import UNLIMITED, QueueEvent, QueueHeld, QueueLimited, QueueLimits, QueueReleased

if TYPE_CHECKING:
    from jobledger.domain.history import RecordedEvent

COUNT_MAX: Final = 1_000_000
SPAN_MIN: Final = timedelta(milliseconds=100)
SPAN_MAX: Final = timedelta(days=366)
LABEL_PREFIX: Final = "label:"


def queue_stream(namespace: str, name: str) -> str:
    """The name of a queue's own stream; the length keeps two pairs of names from meeting in one."""
    return f"queue:{len(namespace)}:{namespace}:{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """Everything that the rules of one queue look at, as of its ``sequence``; an empty name: the whole namespace."""

    __pydantic_config__: ClassVar[Any] = STORED_SHAPE

    namespace: str
    name: str
    created_at: datetime
    updated_at: datetime
    sequence: int
    limits: QueueLimits = UNLIMITED
    hold: Request | None = None
    released_by: str | None = None

    @property
    def stream(self) -> str:
        """The name of its stream."""
        return queue_stream(self.namespace, self.name)

    @property
    def is_limited(self) -> bool:
        """Whether claims of it take turns."""
        return self.limits != UNLIMITED


def evolve_queue(state: QueueState | None, event: QueueEvent) -> QueueState:
    """Fold one fact into the state. Never refuses: facts have already happened."""
    if state is None:
        state = QueueState(
            namespace=event.namespace, name=event.queue, created_at=event.at, updated_at=event.at, sequence=0
        )
    stamped = replace(state, sequence=state.sequence + 1, updated_at=event.at)
    match event:
        case QueueLimited():
            return replace(stamped, limits=event.limits)
        case QueueHeld():
            return replace(stamped, hold=Request(by=event.by, reason=event.reason, at=event.at))
        case QueueReleased():
            return replace(stamped, hold=None, released_by=event.by)
        case _:
            assert_never(event)


def advance_queue(state: QueueState | None, event: RecordedEvent) -> QueueState:
    """Fold one recorded event.

    Raises:
        HistoryCorruptError: it cannot follow the state.
    """
    if not isinstance(event.event, QueueEvent):
        raise HistoryCorruptError(event.stream, event.sequence, f"a {event.name} is no event of a queue")
    return require_sound(evolve_queue(state, event.event), event.stream)


def require_sound(state: QueueState, stream: str) -> QueueState:
    """Require limits that claims can count with; nothing of jobledger stored others.

    Raises:
        HistoryCorruptError: a number or a span of them is out of its range.
    """
    limits = state.limits
    counts = (limits.running_max, limits.starts_max, limits.running_max_per_share)
    has_counts = all(1 <= count <= COUNT_MAX for count in counts if count is not None)
    has_spans = all(SPAN_MIN <= span <= SPAN_MAX for span in (limits.starts_span, limits.ageing) if span is not None)
    is_whole = (limits.starts_max is None) == (limits.starts_span is None)
    if not (has_counts and has_spans and is_whole and is_divider(limits.share_by)):
        raise HistoryCorruptError(stream, state.sequence, "a number or a span of its limits is out of its range")
    return state


def is_divider(share_by: str | None) -> bool:
    """Whether jobs can be divided by this."""
    if share_by is None or share_by in ("owner", "kind"):
        return True
    return share_by.startswith(LABEL_PREFIX) and len(share_by) > len(LABEL_PREFIX)
