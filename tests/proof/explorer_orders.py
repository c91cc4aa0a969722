"""Every command that anyone may send to the job in the explorer, decided by the real rules.

An order is a command with its arguments. Workers present fences: that of the last claim, of earlier claims, and forged
ones; and steps: the next one, or one that a newer write overtook.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from jobledger.domain import decisions
from jobledger.domain.decisions.working import Effect, StagedEffect, stage
from jobledger.domain.events import JobEvent, Outcome
from jobledger.domain.lease import Fence, token_digest
from tests.domain.given import JOB_ID, LEASE, token
from tests.proof.explorer_ledger import (
    CONTROL,
    EPOCH,
    GENERATION,
    LATER,
    OTHER_RECEIPT,
    OTHER_STATE,
    RECEIPT,
    RESOURCE,
    STATE,
    STEP,
    UNIT,
    VERSION,
    without_controls,
)
from tests.proof.history import Operation

if TYPE_CHECKING:
    from jobledger.domain.values import Body
    from tests.proof.explorer_ledger import Ledger

Actor = Literal["operator", "sweeper", "claimant", "worker"]
Decide = Callable[["Ledger"], Sequence[JobEvent]]
Write = Callable[["Ledger", Fence, int], Sequence[JobEvent]]

GROUP: Final = "default"
ANN: Final = "ann"
BOB: Final = "bob"
WHY: Final = "a reason"


@dataclass(frozen=True, slots=True)
class Order:
    """A command with all its arguments.

    ``age``: the presented fence is of the job's last claim (0), or of one so many claims earlier. ``is_forged``: its
    token is made up. ``is_mistaken``: its group or epoch is. ``is_overtaken``: a newer step was accepted. ``expects``:
    the control sequence that its operator saw. ``effect_expects``: the version that its effect is to replace.
    """

    name: str
    actor: Actor
    decide: Decide
    fence: Fence | None = None
    step: int | None = None
    age: int = 0
    is_forged: bool = False
    is_mistaken: bool = False
    is_overtaken: bool = False
    by: str = ""
    expects: int | None = None
    epoch: int = EPOCH
    respects_hold: bool = True
    effect_expects: int | None = None

    def presented(self, ledger: Ledger) -> Fence | None:
        """The fence as its worker got it: of the epoch that the group was at when the attempt was claimed."""
        attempt = ledger.job.attempt
        if self.fence is None or self.is_mistaken or attempt is None or attempt.epoch == EPOCH:
            return self.fence
        return replace(self.fence, epoch=attempt.epoch)

    def operation(self, ledger: Ledger) -> Operation:
        """The same as a client's request, for those who judge the answer."""
        arguments = {"by": self.by, "expected_sequence": self.expects, "epoch": self.epoch}
        return Operation(
            client=self.actor,
            name=self.verb,
            job_id=JOB_ID,
            command_id=None,
            arguments=arguments | {"respect_hold": self.respects_hold},
            invoked=0,
            fence=self.presented(ledger),
            step=self.step,
        )

    @property
    def verb(self) -> str:
        """The command's name, without its arguments."""
        return self.name.split()[0]

    def __str__(self) -> str:
        if self.actor == "operator":
            seen = {None: "", CONTROL: ", as seen just now"}.get(self.expects, ", as seen before it changed")
            return f"operator {self.by}: {self.name}{seen}"
        if self.actor != "worker":
            return f"{self.actor}: {self.name}"
        whose = ("the last claim", "the claim before the last", "an early claim")[min(self.age, 2)]
        signed = " with a forged token" if self.is_forged else " with a mistaken fence" if self.is_mistaken else ""
        return f"worker of {whose}{signed}: {self.name}{' (overtaken)' if self.is_overtaken else ''}"


# Workers' writes ------------------------------------------------------------------------------------------------------


def _staged(expected: int | None) -> tuple[StagedEffect, ...]:
    return () if expected is None else stage([Effect(resource=RESOURCE, value="new", expected_version=expected)])


def _checkpoint(state: Body, expected: int | None = None) -> Write:
    effects = _staged(expected)

    def write(ledger: Ledger, fence: Fence, step: int) -> Sequence[JobEvent]:
        return decisions.checkpoint(
            ledger.standing, fence, step, state=state, effects=effects, versions={RESOURCE: VERSION}
        )

    return write


def _unit(receipt: Body) -> Write:
    return lambda ledger, fence, step: decisions.record_unit(
        ledger.standing, fence, step, unit=UNIT, receipt=receipt, first=ledger.first
    )


def _complete(outcome: Outcome, expected: int | None = None) -> Write:
    effects = _staged(expected)
    has_result = outcome in (Outcome.COMPLETE, Outcome.PARTIAL)

    def write(ledger: Ledger, fence: Fence, step: int) -> Sequence[JobEvent]:
        return decisions.complete(
            ledger.standing,
            fence,
            step,
            outcome=outcome,
            result=STATE if has_result else None,
            error=None if has_result else "boom",
            effects=effects,
            versions={RESOURCE: VERSION},
        )

    return write


def _pause(saving: Write | None = None) -> Write:
    return lambda ledger, fence, step: decisions.pause(
        ledger.standing, fence, step, before=saving(ledger, fence, step) if saving else ()
    )


def _defer(saving: Write | None = None) -> Write:
    return lambda ledger, fence, step: decisions.defer(
        ledger.standing, fence, step, ready_at=LATER, before=saving(ledger, fence, step) if saving else ()
    )


CURRENT: Final = VERSION
OUTDATED: Final = VERSION - 1

WRITES: Final[dict[str, tuple[Write, int | None]]] = {
    "renew": (lambda ledger, fence, _: decisions.renew(ledger.standing, fence), None),
    "checkpoint x": (_checkpoint(STATE), None),
    "checkpoint y": (_checkpoint(OTHER_STATE), None),
    "checkpoint x with an effect": (_checkpoint(STATE, CURRENT), CURRENT),
    "checkpoint y with an effect": (_checkpoint(OTHER_STATE, CURRENT), CURRENT),
    "checkpoint y with an outdated effect": (_checkpoint(OTHER_STATE, OUTDATED), OUTDATED),
    "record_unit a": (_unit(RECEIPT), None),
    "record_unit b": (_unit(OTHER_RECEIPT), None),
    "report_progress": (
        lambda ledger, fence, step: decisions.report_progress(
            ledger.standing, fence, step, done=1, total=None, message=None
        ),
        None,
    ),
    "pause": (_pause(), None),
    "pause saving y": (_pause(_checkpoint(OTHER_STATE)), None),
    "pause saving x with an effect": (_pause(_checkpoint(STATE, CURRENT)), CURRENT),
    "pause saving y with an outdated effect": (_pause(_checkpoint(OTHER_STATE, OUTDATED)), OUTDATED),
    "defer": (_defer(), None),
    "defer saving y with an effect": (_defer(_checkpoint(OTHER_STATE, CURRENT)), CURRENT),
    "fail_attempt": (
        lambda ledger, fence, step: decisions.fail_attempt(ledger.standing, fence, step, error="boom", chance=0.0),
        None,
    ),
    "cancel": (lambda ledger, fence, step: decisions.cancel(ledger.standing, fence, step, boundary=None), None),
    "complete": (_complete(Outcome.COMPLETE), None),
    "complete with an effect": (_complete(Outcome.COMPLETE, CURRENT), CURRENT),
    "complete with an outdated effect": (_complete(Outcome.COMPLETE, OUTDATED), OUTDATED),
    "complete partial with an effect": (_complete(Outcome.PARTIAL, CURRENT), CURRENT),
    "complete failed": (_complete(Outcome.FAILED), None),
    "complete unavailable": (_complete(Outcome.UNAVAILABLE), None),
}
"""Every kind of write, and the version that its effect expects, if it has one."""


def _presented(
    name: str,
    *,
    age: int = 0,
    forged: dict[str, Any] | None = None,
    is_overtaken: bool = False,
    step: int = STEP + 1,
) -> Order:
    """A write under the fence of a claim, or under one of which something is made up."""
    write, expected = WRITES[name]
    generation = GENERATION - age
    fence = replace(Fence(JOB_ID, generation, GROUP, EPOCH, token(generation)), **(forged or {}))

    def decide(ledger: Ledger) -> Sequence[JobEvent]:
        return write(ledger, order.presented(ledger) or fence, step)

    order = Order(
        name,
        "worker",
        decide,
        fence=fence,
        step=None if name == "renew" else step,
        age=age,
        is_forged=forged is not None and "token" in forged,
        is_mistaken=forged is not None and "token" not in forged,
        is_overtaken=is_overtaken,
        effect_expects=expected,
    )
    return order


OWN: Final = tuple(_presented(name) for name in WRITES)
"""What the worker of the last claim may write next."""
OVERTAKEN: Final = tuple(
    _presented(name, is_overtaken=True, step=step) for name in WRITES if name != "renew" for step in (STEP, STEP - 1)
)
"""The same, arriving after a newer write (or a second time)."""
FOREIGN: Final = (
    *(_presented(name, age=age) for age in (1, 2) for name in WRITES),
    *(_presented(name, forged={"token": "made up"}) for name in WRITES),
    *(_presented(name, forged={"group": "another group"}) for name in WRITES),
    *(_presented(name, forged={"epoch": EPOCH + 1}) for name in WRITES),
)
"""Writes under the fences of earlier claims, and under forged ones."""


# Claims, operators, the sweeper ---------------------------------------------------------------------------------------


def _claim(name: str, *, epoch: int = EPOCH, respects_hold: bool = True) -> Order:
    def decide(ledger: Ledger) -> Sequence[JobEvent]:
        return decisions.claim(
            ledger.standing,
            worker="w1",
            lease=LEASE,
            group=GROUP,
            epoch=epoch,
            current_epoch=EPOCH,
            token_digest=token_digest(token(ledger.job.generation + 1)),
            respect_hold=respects_hold,
        )

    return Order(name, "claimant", decide, epoch=epoch, respects_hold=respects_hold)


CLAIMS: Final = (
    _claim("claim"),
    _claim("claim in spite of holds", respects_hold=False),
    _claim("claim of an old epoch", epoch=EPOCH - 1),
    _claim("claim in spite of holds of an old epoch", respects_hold=False, epoch=EPOCH - 1),
)

CONTROLS: Final = {
    "hold": (ANN, BOB),
    "release_hold": (ANN, BOB),
    "resume": (ANN,),
    "request_cancel": (ANN,),
    "retry": (ANN,),
}


def _control(name: str, by: str, expects: int | None) -> Order:
    def decide(ledger: Ledger) -> Sequence[JobEvent]:
        facts: Sequence[JobEvent] = getattr(decisions, name)(
            ledger.standing, by=by, reason=WHY, expected_sequence=expects
        )
        return facts

    return Order(name, "operator", decide, by=by, expects=expects)


def _uncontrolled(order: Order) -> Order:
    return replace(
        order,
        name=f"{order.name} of a job without controls",
        decide=lambda ledger: order.decide(without_controls(ledger)),
    )


OPERATORS: Final = tuple(_control(name, by, None) for name, people in CONTROLS.items() for by in people)
CAUTIOUS: Final = tuple(_control(name, ANN, expects) for name in CONTROLS for expects in (CONTROL, CONTROL - 1))
"""Operators' commands that must not act on anything but what the operator saw."""
RECOVER: Final = Order("recover", "sweeper", lambda ledger: decisions.recover(ledger.standing))

BARE: Final = tuple(_uncontrolled(_control(name, ANN, None)) for name in CONTROLS)
"""Operators' commands on a job that was created without any control."""

ORDERS: Final = (*OPERATORS, *CAUTIOUS, *BARE, RECOVER, *CLAIMS, *OWN, *OVERTAKEN, *FOREIGN)
