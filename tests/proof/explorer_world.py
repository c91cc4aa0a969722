"""All the worlds of a scope: a ledger, a crew, and how many generations there were; the ways from one to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tests.proof.explorer_crew import (
    ASKED,
    ASKING,
    COPY,
    GRANTED,
    IDLE,
    OWNING,
    WRITES,
    Crew,
    Mail,
    after,
    askings,
    instead,
    joined,
    losses,
    sendings,
    settled,
    turned,
    without,
)
from tests.proof.explorer_rows import Clock, Move, Row, Rows

if TYPE_CHECKING:
    from collections.abc import Iterator

_GENERATION_BITS: Final = 4
_CREW_BITS: Final = 16


@dataclass(frozen=True, slots=True)
class Scope:
    """How large the world is: workers, generations, messages on their way, and how finely time passes."""

    name: str
    workers: int
    generations: int
    mail: Mail
    clock: Clock


Next = tuple[int, str, Move | None]
"""A world, what happened on the way there, and the move of the ledger, if there was one."""


@dataclass(slots=True)
class _Known:
    """What follows from a crew alone; each answer is worked out once."""

    crew: Crew
    is_idle: bool
    is_owning: bool
    changes: tuple[tuple[int, str], ...] | None = None
    asks: tuple[tuple[int, str], ...] = ()
    moved: dict[int, int] = field(default_factory=dict)
    claimed: dict[int, int] = field(default_factory=dict)
    arrived: dict[tuple[int, int], tuple[tuple[int, str], ...]] = field(default_factory=dict)


class Worlds:
    """Worlds are numbers: the ledger's, the crew's and the generations' packed into one."""

    def __init__(self, scope: Scope) -> None:
        """Start with a new job, and workers that know nothing of it."""
        self.scope = scope
        self.rows = Rows(scope.clock)
        self._crews: list[_Known] = []
        self._numbers: dict[Crew, int] = {}
        self._nobody = self._number(Crew(()))
        crew = self._number(Crew((IDLE,) * scope.workers))
        self.start = self._packed(self.rows.start, crew, 0)

    def __len__(self) -> int:
        """How many crews were met."""
        return len(self._crews)

    def unpacked(self, world: int) -> tuple[int, Crew, int]:
        """The number of the ledger, the crew, and how many generations there were."""
        return self.ledger_of(world), self._crews[self._crew_of(world)].crew, self._generations_of(world)

    @staticmethod
    def ledger_of(world: int) -> int:
        """The number of a world's ledger."""
        return world >> _CREW_BITS + _GENERATION_BITS

    def following(self, world: int) -> list[Next]:
        """All the worlds that may come next, in one order; several ways may lead to the same one."""
        ledger, generations = self.ledger_of(world), self._generations_of(world)
        row = self.rows.row(ledger)
        if row.is_terminal:
            return []
        known = self._crews[self._crew_of(world)]
        may_claim = generations < self.scope.generations
        found: list[Next] = [(self._reached(known, move, generations), "", move) for move in row.free]
        if known.is_owning:
            found += [(self._reached(known, move, generations), "", move) for move in row.own]
        if may_claim and known.is_idle:
            found += [(self._granted(known, move, generations + 1), "", move) for move in row.claims]
        changes = self._changes(known)
        found += [(self._packed(ledger, crew, generations), text, None) for crew, text in changes]
        if may_claim:
            found += [(self._packed(ledger, crew, generations), text, None) for crew, text in known.asks]
        for place, message in enumerate(known.crew.flight):
            found.extend(self._arriving(known, row, place, message, ledger, generations))
        return found

    def _arriving(
        self, known: _Known, row: Row, place: int, message: str, ledger: int, generations: int
    ) -> Iterator[Next]:
        """A message arrives; where it is refused nothing changes, and it may arrive again."""
        if message == GRANTED:
            if ASKING in known.crew.workers:
                for crew, text in self._answered(known, place):
                    yield self._packed(ledger, crew, generations), text, None
            return
        move = row.sent.get(message)
        is_claim = message in ASKED
        if move is None or (is_claim and generations >= self.scope.generations):
            return
        for crew, text in self._carried_out(known, place, message, move):
            yield self._end_or(move.target, crew, generations + is_claim), text, move

    def _carried_out(self, known: _Known, place: int, message: str, move: Move) -> tuple[tuple[int, str], ...]:
        """The crews after a message was carried out: it may arrive again, and a claim's answer may be lost."""
        key = place, move.flags
        if key not in known.arrived:
            crew = known.crew
            gone = after(without(crew, place), move.flags, written=place - 1 if message in WRITES else None)
            stays = after(instead(crew, place, COPY), move.flags, written=place if message in WRITES else None)
            ways = [("arrives at last", gone), ("arrives, and may come again", stays)]
            if message in ASKED:
                lost = joined(gone, GRANTED)
                ways = [("arrives, its answer is lost", lost)]
                if ASKING in crew.workers:
                    ways += [
                        ("arrives and is answered", turned(gone, ASKING, OWNING)),
                        ("arrives, is answered, and may come again", turned(stays, ASKING, OWNING)),
                    ]
            known.arrived[key] = tuple((self._number(way), text) for text, way in ways)
        return known.arrived[key]

    def _answered(self, known: _Known, place: int) -> tuple[tuple[int, str], ...]:
        """A repeated claim is answered with the lease that it opened."""
        key = place, -1
        if key not in known.arrived:
            gone = turned(without(known.crew, place), ASKING, OWNING)
            stays = turned(instead(known.crew, place, COPY), ASKING, OWNING)
            ways = (("the claim is repeated and answered", gone), ("the same, and it may come again", stays))
            known.arrived[key] = tuple((self._number(way), text) for text, way in ways)
        return known.arrived[key]

    def _reached(self, known: _Known, move: Move, generations: int) -> int:
        crew = known.moved.get(move.flags)
        if crew is None:
            crew = known.moved[move.flags] = self._number(after(known.crew, move.flags))
        return self._end_or(move.target, crew, generations)

    def _granted(self, known: _Known, move: Move, generations: int) -> int:
        crew = known.claimed.get(move.flags)
        if crew is None:
            claimed = turned(after(known.crew, move.flags), IDLE, OWNING)
            crew = known.claimed[move.flags] = self._number(claimed)
        return self._end_or(move.target, crew, generations)

    def _end_or(self, ledger: int, crew: int, generations: int) -> int:
        """Where the job has ended every command is refused (that is checked), so nobody needs to be remembered."""
        return self._packed(ledger, self._nobody if self.rows.is_terminal(ledger) else crew, generations)

    def _changes(self, known: _Known) -> tuple[tuple[int, str], ...]:
        """What may happen to the crew alone; what an idle worker may ask for is worked out along with it."""
        if known.changes is None:
            crew, mail = known.crew, self.scope.mail
            changes = (*sendings(crew, mail), *losses(crew))
            known.changes = tuple((self._number(changed), text) for text, changed in changes)
            known.asks = tuple((self._number(changed), text) for text, changed in askings(crew, mail))
        return known.changes

    def _number(self, crew: Crew) -> int:
        crew = settled(crew)
        number = self._numbers.setdefault(crew, len(self._crews))
        if number == len(self._crews):
            self._crews.append(_Known(crew, IDLE in crew.workers, OWNING in crew.workers))
        return number

    def _packed(self, ledger: int, crew: int, generations: int) -> int:
        return (ledger << _CREW_BITS | crew) << _GENERATION_BITS | generations

    @staticmethod
    def _crew_of(world: int) -> int:
        return world >> _GENERATION_BITS & (1 << _CREW_BITS) - 1

    @staticmethod
    def _generations_of(world: int) -> int:
        return world & (1 << _GENERATION_BITS) - 1
