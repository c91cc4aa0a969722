"""What each order makes of each ledger, decided once by the real rules, and checked once against everything."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from jobledger.domain.decisions.working import FirstReceipt, renewed_expiry
from jobledger.domain.errors import RefusedError
from jobledger.domain.events import Checkpointed, Claimed, Completed, JobEvent, UnitRecorded
from jobledger.domain.history import Cause
from jobledger.domain.job import Job, evolve
from jobledger.domain.lease import LeaseRow, require_fence
from jobledger.domain.store import executing
from tests.domain.given import HOUR, JOB_ID, LEASE
from tests.proof.explorer_ledger import (
    EPOCH,
    LONG_AGO,
    NOW,
    Ledger,
    first_ledger,
    fresh,
    moved,
    normal,
    outdated,
    without_controls,
)
from tests.proof.explorer_oracle import misleft
from tests.proof.explorer_orders import (
    BARE,
    CAUTIOUS,
    CLAIMS,
    FOREIGN,
    OPERATORS,
    OVERTAKEN,
    OWN,
    RECOVER,
    Order,
)
from tests.proof.explorer_repeats import misrepeated
from tests.proof.invariants import check_answer, check_step
from tests.proof.refusals import Answered

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from datetime import timedelta

# What a move means to those who wait for answers: bits, so that a move is three small numbers.
CLAIMED: Final = 1
"""A new generation was opened."""
ENDED: Final = 2
"""The generation that was open is not any more."""
WROTE: Final = 4
"""A step was accepted: writes of this attempt that were sent before are overtaken."""
CONTROLLED: Final = 8
"""The control sequence moved: what operators saw is outdated."""
STATE_RENAMED: Final = 16
RECEIPT_RENAMED: Final = 32
"""The other state (or receipt) is the saved one now: the two take each other's name."""
EFFECT: Final = 64
"""The resource's version moved."""
ADVANCED: Final = 128
"""The group's epoch advanced."""


class Move(NamedTuple):
    """A change: the ledger that it leads to, what it means to others, and what made it."""

    target: int
    flags: int
    label: str
    actor: str


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of an order: its facts or its refusal, and the job and lease row that it leaves."""

    facts: Sequence[JobEvent]
    refusal: str | None
    job: Job
    lease: LeaseRow | None


@dataclass(slots=True)
class Row:
    """All moves out of one ledger. ``free``: of operators, the sweeper and the clock; ``sent``: by the order's name."""

    is_running: bool
    is_terminal: bool
    free: tuple[Move, ...] = ()
    claims: tuple[Move, ...] = ()
    own: tuple[Move, ...] = ()
    sent: dict[str, Move] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fault:
    """A ledger and an order of which something does not hold."""

    ledger: int
    order: Order | None
    label: str
    broken: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Clock:
    """How time passes: a whole lease at once; in a fine one half a lease, and the clock may be set back by as much.

    No command is ever decided at a time before the job's last event.
    """

    is_fine: bool

    @property
    def tick(self) -> timedelta:
        """How far the clock moves at once."""
        return LEASE / 2 if self.is_fine else LEASE

    @property
    def passing(self) -> str:
        """That move, in words."""
        return "half a lease passes" if self.is_fine else "a lease's time passes"


class Rows:
    """Every ledger that was met, with a number, and its row once it was asked for."""

    def __init__(self, clock: Clock) -> None:
        """Start from a job that was just created, under such a clock."""
        self._clock = clock
        self.ledgers: list[Ledger] = []
        self.faults: list[Fault] = []
        self.decided = 0
        self._numbers: dict[Hashable, int] = {}
        self._rows: list[Row | None] = []
        self._is_stale: list[bool] = []
        self._repeated: set[Hashable] = set()
        self.start = self._number(first_ledger())

    def __len__(self) -> int:
        """How many ledgers were met."""
        return len(self.ledgers)

    def row(self, number: int) -> Row:
        """The moves out of a ledger."""
        row = self._rows[number]
        if row is None:
            row = self._rows[number] = self._made(number)
        return row

    def is_expanded(self, number: int) -> bool:
        """Whether the moves out of a ledger were asked for."""
        return self._rows[number] is not None

    def is_terminal(self, number: int) -> bool:
        """Whether the job has ended."""
        return self.ledgers[number].job.is_terminal

    def _number(self, ledger: Ledger) -> int:
        known = self._numbers.setdefault(ledger.key, len(self.ledgers))
        if known == len(self.ledgers):
            self.ledgers.append(ledger)
            self._rows.append(None)
            self._is_stale.append(is_own_fence_stale(ledger))
        return known

    def _made(self, number: int) -> Row:
        ledger = self.ledgers[number]
        row = Row(ledger.is_running, ledger.job.is_terminal)
        controls, sweeps = self._moves(number, OPERATORS), self._moves(number, (RECOVER,))
        claims = self._moves(number, CLAIMS)
        own = self._moves(number, OWN) if ledger.job.generation else ()
        cautious = self._moves(number, CAUTIOUS)
        self._judge_without_controls(number)
        if ledger.job.generation:
            self._moves(number, OVERTAKEN)
            self._moves(number, FOREIGN)
        if not row.is_terminal:
            row.free = (*self._passing(number), *controls, *sweeps)
            row.claims, row.own = claims, own
            row.sent = {move.label: move for move in (*claims, *own, *controls, *cautious)}
        return row

    def _moves(self, number: int, orders: Sequence[Order]) -> tuple[Move, ...]:
        found = (self._move(number, order) for order in orders)
        return tuple(move for move in found if move is not None)

    def _move(self, number: int, order: Order) -> Move | None:
        """Decide, judge, and find the ledger that it leads to; ``None`` where nothing changes."""
        ledger = self.ledgers[number]
        taken, broken = self._judged(ledger, order)
        if taken is None or taken.refusal is not None or (not taken.facts and taken.lease == ledger.standing.lease):
            self._found(number, order, broken)
            return None
        after = normal(taken.job, taken.lease, first_after(ledger, taken))
        flags = (
            _flags(ledger, order, taken)
            | after.is_state_renamed * STATE_RENAMED
            | after.is_receipt_renamed * RECEIPT_RENAMED
        )
        target = self._number(after.ledger)
        if self._is_stale[number] and not flags & CLAIMED and not self._is_stale[target]:
            broken.append("a_stale_fence_stays_stale: the fence of an ended attempt is accepted again")
        if not broken:
            broken += self._misrepeated(ledger, order, taken)
        if flags & CLAIMED and self._is_stale[target]:
            broken.append("a_claim_gives_a_fence: the fence that its worker was given is refused")
        self._found(number, order, broken)
        return Move(target, flags, str(order), order.actor) if not broken else None

    def _judge_without_controls(self, number: int) -> None:
        """The same job, created without any control: what is gated is refused. It is judged, and leads nowhere."""
        bare = without_controls(self.ledgers[number])
        for order in BARE:
            self._found(number, order, self._judged(bare, order)[1])

    def _judged(self, ledger: Ledger, order: Order) -> tuple[Taken | None, list[str]]:
        self.decided += 1
        try:
            taken = take(ledger, order)
            return taken, judged(ledger, order, taken)
        except Exception as error:  # noqa: BLE001  # a broken rule may raise anything, and that is a finding
            return None, [f"surprise: {type(error).__name__}: {error}"]

    def _misrepeated(self, ledger: Ledger, order: Order, taken: Taken) -> list[str]:
        """Let the order come a second time; once for each kind of situation, since that takes long."""
        job = ledger.job
        kind = order, job.state, job.hold is None, job.cancel is None, job.checkpoint is None, taken.job.state
        if not taken.facts or kind in self._repeated:
            return []
        self._repeated.add(kind)
        return misrepeated(ledger, order, taken.job)

    def _found(self, number: int, order: Order, broken: list[str]) -> None:
        if broken:
            self.faults.append(Fault(number, order, str(order), tuple(broken)))

    def _passing(self, number: int) -> tuple[Move, ...]:
        """Time passes (a tick, or until the job is due), the clock is set back, and groups advance."""
        ledger = self.ledgers[number]
        job, lease = ledger.job, ledger.standing.lease
        moves: list[Move] = []
        if lease is not None and lease.expires_at > LONG_AGO:
            moves.append(self._timed(ledger, self._clock.tick, self._clock.passing))
        if lease is None and job.ready_at > NOW:
            moves.append(self._timed(ledger, HOUR, "the job is due"))
        if self._clock.is_fine and lease is not None and job.updated_at < NOW:
            moves.append(self._timed(ledger, -self._clock.tick, "is set back by half a lease"))
        target = self._number(outdated(ledger)) if job.attempt and job.attempt.epoch == EPOCH else number
        return (*moves, Move(target, ADVANCED, "operator: advance_epoch", "operator"))

    def _timed(self, ledger: Ledger, span: timedelta, label: str) -> Move:
        after = moved(ledger, span)
        return Move(self._number(after if self._clock.is_fine else fresh(after)), 0, f"clock: {label}", "clock")


def take(ledger: Ledger, order: Order) -> Taken:
    """Let the real rules decide, fold the facts, and move the lease row as every store does."""
    standing = ledger.standing
    try:
        facts = order.decide(ledger)
    except RefusedError as refusal:
        return Taken((), refusal.code, standing.job, standing.lease)
    is_quiet = order.verb in ("renew", "record_unit")
    if not facts and not is_quiet:
        return Taken((), None, standing.job, standing.lease)
    job = standing.job
    for fact in facts:
        job = evolve(job, fact)
    decision = executing.Decision(facts=facts, expires_at=renewed_expiry(standing) if is_quiet else None)
    lease = executing._lease_after(_command(order), decision, standing, job)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # how every store moves it
    return Taken(facts, None, job, lease)


def judged(ledger: Ledger, order: Order, taken: Taken) -> list[str]:
    """Everything that does not hold of an order and what became of it."""
    refusal = taken.refusal or ""
    if order.is_mistaken:
        is_refused = refusal in ("stale_fence", "already_terminal")
        return [] if is_refused else [f"refusals: it was {refusal or 'accepted'}, but this fence was never given"]
    answered = Answered(order.operation(ledger), ledger.standing, EPOCH, refusal)
    broken = [f"{violation.invariant}: {violation.text}" for violation in check_answer(answered)]
    broken += misleft(ledger, order, refusal, taken.facts)
    job, facts = ledger.job, taken.facts
    for place, fact in enumerate(facts):
        after = evolve(job, fact)
        leading = facts[place - 1] if place else None
        following = facts[place + 1] if place + 1 < len(facts) else None
        violations = check_step(job, fact, after, leading=leading, following=following, standing=ledger.standing)
        broken += [f"{violation.invariant}: {violation.text}" for violation in violations]
        job = after
    if taken.lease is not None and ledger.standing.lease is not None and not _flags(ledger, order, taken) & CLAIMED:
        before, now = ledger.standing.lease, taken.lease
        if now.expires_at < before.expires_at or now.step < before.step:
            broken.append("lease_rows: the lease row moved back")
    if (taken.lease is None) != (taken.job.attempt is None):
        broken.append("lease_rows: a lease row stands exactly while an attempt is open")
    return broken


def is_own_fence_stale(ledger: Ledger) -> bool:
    """Whether the fence of the last claim is refused for good, by the rule itself."""
    if not ledger.job.generation:
        return False
    fence = OWN[0].fence
    if fence is None:
        return False
    try:
        require_fence(ledger.standing, fence, late=True)
    except RefusedError as refusal:
        return refusal.code in ("stale_fence", "already_terminal")
    return False


def first_after(ledger: Ledger, taken: Taken) -> FirstReceipt | None:
    """The receipt that the unit has after an order."""
    for fact in taken.facts:
        if isinstance(fact, UnitRecorded):
            return FirstReceipt(fact.receipt, fact.receipt.value, fact.generation, taken.job.sequence)
    return ledger.first


def _flags(ledger: Ledger, order: Order, taken: Taken) -> int:
    claims = any(isinstance(fact, Claimed) for fact in taken.facts)
    effects = any(fact.effects for fact in taken.facts if isinstance(fact, Checkpointed | Completed))
    return (
        claims * CLAIMED
        | (ledger.is_running and (claims or taken.job.attempt is None)) * ENDED
        | (order.step is not None) * WROTE
        | (taken.job.control_sequence != ledger.job.control_sequence) * CONTROLLED
        | effects * EFFECT
    )


_BASE: Final = executing.Command(
    job_id=JOB_ID,
    namespace="default",
    cause=Cause("", "", ""),
    is_given=False,
    decide=lambda *_: executing.Decision(),
    answer=lambda _: None,
)
_COMMANDS: Final[dict[str, executing.Command[None]]] = {}


def _command(order: Order) -> executing.Command[None]:
    """The command as a store sees it: all that matters here is its fence and its step."""
    known = _COMMANDS.get(str(order) + str(order.step))
    if known is None:
        known = _COMMANDS[str(order) + str(order.step)] = replace(_BASE, fence=order.fence, step=order.step)
    return known
