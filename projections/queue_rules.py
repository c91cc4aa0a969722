"""The rules that one event of a queue's history can break, and what its row has to say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobledger.domain.errors import HistoryCorruptError
from jobledger.domain.queue_events import QueueEvent, QueueHeld, QueueLimited, QueueReleased
from jobledger.domain.queues.state import advance_queue, queue_stream

if TYPE_CHECKING:
    from jobledger.domain.history import RecordedEvent
    from jobledger.domain.ports import Reader
    from jobledger.domain.queues.state import QueueState
    from jobledger.projections.rules import Walk


def see_queue(walk: Walk, recorded: RecordedEvent) -> None:
    """Check one event of a queue against everything before it.

    Raises:
        HistoryCorruptError: it cannot be folded.
    """
    before, after = walk.queue, advance_queue(walk.queue, recorded)
    event = recorded.event
    if not isinstance(event, QueueEvent):  # advancing has refused it already
        return
    if queue_stream(event.namespace, event.queue) != recorded.stream:
        walk.report(recorded.sequence, "queue", "it is of another queue")
    if text := _problem(before, event):
        walk.report(recorded.sequence, "control", text)
    walk.queue = after


def _problem(before: QueueState | None, event: QueueEvent) -> str | None:
    hold = before.hold if before else None
    if isinstance(event, QueueHeld) and hold is not None:
        return f"a hold of {hold.by!r} was in force already"
    if isinstance(event, QueueReleased) and hold is None:
        return "no hold was in force"
    if isinstance(event, QueueLimited) and not event.queue:
        return "limits are of one queue, not of a namespace"
    return None


def check_queue(reader: Reader, walk: Walk) -> None:
    """The row is the fold of the events."""
    state = walk.queue
    if state is None:
        return
    try:
        loaded = reader.queues(state.namespace, [state.name]).get(state.name)
        reader.queue_usage(state.namespace, state.name)
    except HistoryCorruptError as corrupt:
        walk.report(0, "queue_row", corrupt.problem)
        return
    if loaded is None or (loaded.state, loaded.head) != (state, walk.head):
        walk.report(0, "queue_row", "the queue's row is not the fold of the events")
    elif not reader.is_queue_found_by(state, walk.head):
        walk.report(0, "columns", "what the store finds the queue by does not follow from its state")
