"""Who waits for what: the workers, what each believes to hold, and the messages that are still on their way.

A message may arrive at any later moment, twice, or never; its sender may have given it up. Workers are alike, so it
does not matter which of them believes what. Messages that nothing can make act again are told apart by why that is so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.proof.explorer_ledger import CONTROL
from tests.proof.explorer_orders import CAUTIOUS, CLAIMS, OPERATORS, OWN, Order
from tests.proof.explorer_rows import (
    ADVANCED,
    CLAIMED,
    CONTROLLED,
    EFFECT,
    ENDED,
    RECEIPT_RENAMED,
    STATE_RENAMED,
    WROTE,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

IDLE: Final = "idle"
ASKING: Final = "asking"
"""It sent a claim and has no answer yet."""
OWNING: Final = "owning"
"""It holds the fence of the generation that is open."""
BELIEVING: Final = "believing"
"""It holds a fence whose generation has ended, and does not know it."""

BARRED: Final = "a write of the open generation that a newer one overtook, or whose effect conflicts"
LATE: Final = "a write of a generation that has ended"
OUTDATED: Final = "an operator's command about what has changed since"
COPY: Final = "a copy of a command that was carried out and answered"
GRANTED: Final = "the claim that opened the open generation, its answer lost"

WRITES: Final = frozenset(order.name for order in OWN)
ASKED: Final = frozenset(order.name for order in CLAIMS)
CONTROLS: Final[dict[str, Order]] = {
    str(order): order for order in (*OPERATORS, *(each for each in CAUTIOUS if each.expects == CONTROL))
}


class Crew(NamedTuple):
    """The workers by what they believe, and the messages: writes in the order of their steps, then the others."""

    workers: tuple[str, ...]
    flight: tuple[str, ...] = ()

    @property
    def owns(self) -> bool:
        """Whether a worker holds the fence of the open generation."""
        return OWNING in self.workers


@dataclass(frozen=True, slots=True)
class Mail:
    """How many messages may be on their way at once, and which commands may be delayed or doubled."""

    most: int
    writes: tuple[str, ...]
    claims: tuple[str, ...]
    controls: tuple[str, ...]


def settled(crew: Crew) -> Crew:
    """The crew in its one order; nobody goes on asking once no claim is left to be answered."""
    workers = list(crew.workers)
    claims = sum(message in ASKED or message == GRANTED for message in crew.flight)
    for _ in range(workers.count(ASKING) - claims):
        workers[workers.index(ASKING)] = IDLE
    writes = [message for message in crew.flight if message in WRITES]
    others = sorted(message for message in crew.flight if message not in WRITES)
    return Crew(tuple(sorted(workers)), (*writes, *others))


def after(crew: Crew, flags: int, *, written: int | None = None) -> Crew:
    """The crew after a move; ``written`` is the place of the message that made it, if it was a write from afar."""
    is_over = bool(flags & (CLAIMED | ENDED))
    workers = tuple(BELIEVING if is_over and worker == OWNING else worker for worker in crew.workers)
    flight = tuple(
        _message_after(message, flags, is_overtaken=written is None or place <= written)
        for place, message in enumerate(crew.flight)
    )
    return Crew(workers, flight)


def _message_after(message: str, flags: int, *, is_overtaken: bool) -> str:
    is_over = bool(flags & (CLAIMED | ENDED))
    if message in WRITES:
        return LATE if is_over else _write_after(message, flags, is_overtaken=is_overtaken)
    if message in (BARRED, GRANTED) and is_over:
        return LATE
    if message in CONTROLS and CONTROLS[message].expects is not None and flags & CONTROLLED:
        return OUTDATED
    if message in ASKED and flags & ADVANCED and "old epoch" not in message:
        return f"{message} of an old epoch"
    return message


def _write_after(message: str, flags: int, *, is_overtaken: bool) -> str:
    """A write that is still of the open generation: overtaken, or what it carries has another name now."""
    if flags & WROTE and is_overtaken and message != "renew":
        return BARRED
    if flags & EFFECT and "effect" in message:
        return BARRED
    if flags & STATE_RENAMED:
        message = swapped(message, "x", "y")
    if flags & RECEIPT_RENAMED:
        message = swapped(message, "a", "b")
    return message


def swapped(message: str, one: str, other: str) -> str:
    """The name of the same write after two values took each other's name."""
    if message.split(maxsplit=1)[0] not in ("checkpoint", "record_unit"):
        return message
    names = {one: other, other: one}
    return " ".join(names.get(word, word) for word in message.split())


def without(crew: Crew, place: int) -> Crew:
    """The crew after a message was lost, or will not come again."""
    return Crew(crew.workers, (*crew.flight[:place], *crew.flight[place + 1 :]))


def instead(crew: Crew, place: int, message: str) -> Crew:
    """The crew with another message in a place."""
    return Crew(crew.workers, (*crew.flight[:place], message, *crew.flight[place + 1 :]))


def joined(crew: Crew, message: str) -> Crew:
    """The crew with one more message on its way."""
    return Crew(crew.workers, (*crew.flight, message))


def turned(crew: Crew, was: str, now: str) -> Crew:
    """The crew after one worker's belief changed."""
    workers = list(crew.workers)
    workers[workers.index(was)] = now
    return Crew(tuple(workers), crew.flight)


def sendings(crew: Crew, mail: Mail) -> Iterator[tuple[str, Crew]]:
    """Messages that somebody may send now and then not wait for; a claim's sender does wait."""
    if len(crew.flight) >= mail.most:
        return
    if crew.owns:
        for name in mail.writes:
            yield f"worker of the last claim sends: {name}", joined(crew, name)
    for name in mail.controls:
        yield f"sends: {name}", joined(crew, name)


def askings(crew: Crew, mail: Mail) -> Iterator[tuple[str, Crew]]:
    """Claims that an idle worker may send."""
    if len(crew.flight) < mail.most and IDLE in crew.workers:
        for name in mail.claims:
            yield f"idle worker sends: {name}", joined(turned(crew, IDLE, ASKING), name)


def losses(crew: Crew) -> Iterator[tuple[str, Crew]]:
    """What may get lost at any moment: messages, and what workers know (they crash, or are told that they are late)."""
    for place, message in enumerate(crew.flight):
        yield f"network: loses {message}", without(crew, place)
    for belief in dict.fromkeys(crew.workers):
        if belief != IDLE:
            yield f"the worker that was {belief} stops", turned(crew, belief, IDLE)
