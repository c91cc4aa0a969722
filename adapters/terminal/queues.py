"""Tables of queues for people: all of them, and one with its limits, its hold and its last events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from jobledger.adapters.terminal.showing import event_line, pairs, table
from jobledger.adapters.terminal.texts import dated, span, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from rich.console import RenderableType

    from jobledger.domain.history import RecordedEvent
    from jobledger.domain.queue_events import QueueLimits
    from jobledger.domain.queues.answers import QueueStatus
    from jobledger.projections.queues import QueuePage

SHARES_SHOWN = 10


def limits_text(limits: QueueLimits) -> str:
    """The limits of a queue in a few words; nothing where there are none."""
    return ", ".join(_limits(limits))


def _limits(limits: QueueLimits) -> Iterator[str]:
    if limits.running_max is not None:
        yield f"{limits.running_max:,} running"
    if limits.starts_max is not None and limits.starts_span is not None:
        yield f"{limits.starts_max:,} starts in {span(limits.starts_span)}"
    if limits.share_by is not None:
        each = f", {limits.running_max_per_share:,} running of each" if limits.running_max_per_share else ""
        yield f"shares by {visible(limits.share_by)}{each}"
    if limits.ageing is not None:
        yield f"a priority more each {span(limits.ageing)}"


def queues_table(page: QueuePage) -> tuple[RenderableType, ...]:
    """Queues, one on each line; a held one says so, and the hold of the whole namespace stands first."""
    parts: list[RenderableType] = []
    if (hold := page.namespace.hold) is not None:
        sentence = f"the whole namespace is held by {visible(hold.by)}: {visible(hold.reason)}; nothing starts"
        parts.append(Text(sentence, style="yellow"))
    if not page.queues:
        return (*parts, Text("no queue has jobs, limits or holds"))
    built = table("queue", "running", "queued", "limits", "hold", right=("running", "queued"))
    for status in page.queues:
        held = Text(f"held by {visible(status.hold.by)}", style="yellow") if status.hold else Text("")
        counts = (f"{status.running:,}", f"{status.queued:,}")
        built.add_row(Text(visible(status.name or "")), *counts, Text(limits_text(status.limits)), held)
    return (*parts, built)


def queue_table(status: QueueStatus, recent: Iterable[RecordedEvent], now: datetime) -> tuple[RenderableType, ...]:
    """One queue, or the whole namespace: its limits, its hold, what runs and waits, and its last events."""
    return (pairs(list(_rows(status, now))), Text(""), *(event_line(event) for event in recent))


def _rows(status: QueueStatus, now: datetime) -> Iterator[tuple[str, RenderableType]]:
    named = visible(status.namespace) if status.name is None else visible(status.name)
    yield "namespace" if status.name is None else "queue", Text(named, style="bold")
    for what, hold in (("hold", status.hold), ("hold of all", status.namespace_hold)):
        if hold is not None:
            held = f"by {visible(hold.by)}, {dated(hold.at, now)}: {visible(hold.reason)}; nothing starts"
            yield what, Text(held, style="yellow")
    if status.name is not None:
        yield from _counts(status)
    yield "sequence", Text(f"{status.sequence}")


def _counts(status: QueueStatus) -> Iterator[tuple[str, RenderableType]]:
    yield "limits", Text(limits_text(status.limits) or "none")
    yield "running", Text(f"{status.running:,}")
    yield "queued", Text(f"{status.queued:,}")
    if status.starts_left is not None:
        yield "may start", Text(f"{status.starts_left:,} now")
    if not (status.running or status.queued or status.sequence):
        yield "note", Text("no job waits or runs here, and nobody ever limited or held it: is the name right?")
    most = sorted(status.shares.items(), key=lambda share: (-share[1], share[0]))
    for share, running in most[:SHARES_SHOWN]:
        yield "share", Text(f"{visible(share) or '(none)'}: {running:,} running")
