"""Walking a stream event by event: every digest, place and rule, whether it stands in a store or in a bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jobledger.domain import events
from jobledger.domain.errors import HistoryCorruptError
from jobledger.domain.history import TOPIC_OF, read
from jobledger.domain.replaying import advance, stands_for_others, state_behind
from jobledger.domain.values import is_body
from jobledger.projections.queue_rules import see_queue
from jobledger.projections.rules import RULES_OF, Step, Walk
from jobledger.projections.schedule_rules import see_schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from jobledger.domain.history import RecordedEvent
    from jobledger.domain.ports import Positioned
    from jobledger.domain.values import Body

    BodyOf = Callable[[str, str], bytes | None]
    """The bytes kept aside by stream and digest, or ``None`` where they are not there."""

JOB: Final = "job"
GROUP: Final = "group"
SCHEDULE: Final = "schedule"
QUEUE: Final = "queue"
UNREADABLE: Final = "readable"
ARCHIVED: Final = TOPIC_OF[events.Archived]

BODIES: Final[Mapping[type[events.Event], tuple[str, ...]]] = {
    events.Created: ("payload", "checkpoint"),
    events.Checkpointed: ("state",),
    events.UnitRecorded: ("receipt",),
    events.Cancelled: ("boundary",),
    events.Completed: ("result",),
}
"""The fields of events whose bytes may be kept aside, beside the values of effects."""

DROPPABLE: Final = frozenset({"state", "checkpoint"})
"""Bodies that are not kept for ever."""


def see(walk: Walk, placed: Positioned, body_of: BodyOf) -> RecordedEvent:
    """Check one record of a stream against everything before it, and remember what the next one is checked against.

    Raises:
        HistoryCorruptError: it cannot be read or folded; nothing behind it can be judged.
    """
    stored = placed.record
    sequence = stored.sequence
    if walk.is_stored and not walk.kind and stored.topic == ARCHIVED:
        _begin_behind(walk, read(stored))
    if sequence != walk.count + 1:
        walk.report(sequence, "contiguous", f"the event follows sequence {walk.count}")
    if placed.position <= walk.position:
        walk.report(sequence, "position", f"it stands at {placed.position}, the event before it at {walk.position}")
    recorded = read(stored)
    if recorded.previous != walk.head:
        walk.report(sequence, "chained", "it does not carry the digest of the event before it")
    if (recorded.command_id or None) != (stored.command_id or None):
        walk.report(sequence, "command", "the command id beside the event is not the one in it")
    _see_command(walk, recorded)
    kind, _, _ = stored.topic.partition(".")
    if kind != (walk.kind or kind):
        walk.report(sequence, "kind", f"a {stored.topic!r} event stands in the stream of a {walk.kind}")
    if walk.at is not None and recorded.at < walk.at:
        walk.report(sequence, "time", f"its time {recorded.at.isoformat()} lies before that of the event before it")
    if kind == (walk.kind or kind):
        _see_kind(walk, kind, recorded, body_of)
    walk.kind, walk.head, walk.count = walk.kind or kind, recorded.digest, sequence
    walk.position, walk.at, walk.leading = placed.position, recorded.at, recorded
    return recorded


def _begin_behind(walk: Walk, recorded: RecordedEvent) -> None:
    """Start from what the event says that stands for those before it: they are not here to be walked."""
    if not stands_for_others(recorded):
        return
    job = state_behind(recorded)
    walk.count, walk.head, walk.at, walk.job = recorded.sequence - 1, recorded.previous, job.updated_at, job
    walk.behind = recorded.sequence
    walk.effects = {effect.resource: effect for effect in getattr(recorded.event, "effects", ())}


def _see_command(walk: Walk, recorded: RecordedEvent) -> None:
    """A command is applied once, all of it together: nothing of it stands behind another command's events."""
    cause = recorded.cause
    if cause is None or (walk.leading is not None and walk.leading.cause == cause):
        return
    if cause.id in walk.commands:
        walk.report(recorded.sequence, "command", f"command {cause.id!r} had been applied before")
    walk.commands.add(cause.id)


def _see_kind(walk: Walk, kind: str, recorded: RecordedEvent, body_of: BodyOf) -> None:
    """Check what the event says by the rules of its kind of stream."""
    if kind == JOB:
        _see_job(walk, recorded, body_of)
    elif kind == SCHEDULE:
        see_schedule(walk, recorded)
    elif kind == QUEUE:
        see_queue(walk, recorded)
    elif isinstance(recorded.event, events.EpochAdvanced):
        if recorded.event.epoch != walk.epoch + 1:
            walk.report(recorded.sequence, "epoch", f"epoch {recorded.event.epoch} follows {walk.epoch}")
        walk.epoch = recorded.event.epoch


def _see_job(walk: Walk, recorded: RecordedEvent, body_of: BodyOf) -> None:
    event, before = recorded.event, walk.job
    if before is None and not isinstance(event, events.Created):
        walk.report(recorded.sequence, "created", "a job is created once, by its first event")
    after = advance(before, recorded)
    leading = walk.leading if recorded.cause is not None and walk.leading is not None else None
    is_same_command = leading is not None and leading.cause == recorded.cause
    owed = walk.owed
    if owed is not None:
        walk.owed = None
        if not (is_same_command and isinstance(event, owed.kinds)):
            walk.report(owed.sequence, "recovery", owed.text)
    step = Step(
        walk, before, recorded, after, leading.event if leading is not None and is_same_command else None, event
    )
    for name, rule in RULES_OF[type(event)]:
        if text := rule(step):
            walk.report(recorded.sequence, name, text)
    if isinstance(event, events.UnitRecorded):
        walk.units[event.unit] = event.receipt
    elif isinstance(event, events.Checkpointed | events.Completed):
        for effect in event.effects:
            walk.effects[effect.resource] = effect
    for name, body in bodies_of(event):
        _check_body(walk, recorded.sequence, name, body, body_of)
    walk.job = after


def end(walk: Walk) -> None:
    """Say what is still owed when no event follows."""
    if walk.owed is not None:
        walk.report(walk.owed.sequence, "recovery", walk.owed.text)
        walk.owed = None


def bodies_of(event: events.Event) -> Iterator[tuple[str, Body]]:
    """The fields of an event whose bytes are kept aside, by their names."""
    for name in BODIES.get(type(event), ()):
        body = getattr(event, name)
        if body is not None and body.digest:
            yield name, body
    if isinstance(event, events.Checkpointed | events.Completed):
        for effect in event.effects:
            if effect.value.digest:
                yield "effect", effect.value


def _check_body(walk: Walk, sequence: int, name: str, body: Body, body_of: BodyOf) -> None:
    """Bytes kept aside must be those of their digest; checkpoints may be dropped, nothing else."""
    encoded = body_of(walk.stream, body.digest)
    if encoded is None:
        if name not in DROPPABLE:
            walk.report(sequence, "body", f"the bytes of its {name} are missing")
    elif len(encoded) != body.size or not is_body(body.digest, encoded):
        walk.report(sequence, "body", f"the bytes of its {name} are not those that were recorded")


def walk_all(walk: Walk, placed: Iterator[Positioned], body_of: BodyOf) -> Iterator[RecordedEvent]:
    """Check every record of a stream, up to the first that cannot be read; yields each as it was read."""
    try:
        for each in placed:
            yield see(walk, each, body_of)
    except HistoryCorruptError as corrupt:
        walk.report(corrupt.sequence, UNREADABLE, corrupt.problem)
    else:
        end(walk)
