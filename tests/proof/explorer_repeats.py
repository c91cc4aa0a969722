"""A command that comes again under its id: the real commands over a store of one job, asked once and then repeated.

The explorer lets copies of carried out commands arrive at any later time and takes it that they change nothing. Here
that is shown, for every kind of order in every kind of situation: the copy appends nothing and is answered like the
first, directly after it and after the job moved on (a repeated claim: with its lease, while its generation is open).
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from jobledger.domain.answers import Lease
from jobledger.domain.decisions.working import Effect
from jobledger.domain.errors import JobledgerError, RefusedError
from jobledger.domain.events import HoldPlaced, Interrupted
from jobledger.domain.job import evolve
from jobledger.domain.lease import Fence
from jobledger.domain.ports import GroupRow, Loaded, UnitRow
from jobledger.domain.steps import Steps
from jobledger.domain.store import KEEP, JobCommands, Setting
from tests.domain.given import JOB_ID, LEASE, token
from tests.proof.explorer_ledger import EPOCH, LATER, NOW, OTHER_STATE, RESOURCE, STATE, STEP, UNIT, VERSION
from tests.proof.explorer_orders import GROUP, WHY

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from jobledger.domain.history import StoredRecord
    from jobledger.domain.job import Job
    from jobledger.domain.ports import Append, Storage
    from tests.proof.explorer_ledger import Ledger
    from tests.proof.explorer_orders import Order

COMMAND: Final = "the one command id"


class OneJob:
    """A storage, session and source of chance in one, for one job as a ledger has it; it remembers every append."""

    connection: Final = None

    def __init__(self, ledger: Ledger) -> None:
        """Start with the ledger's rows."""
        self.job = ledger.job
        self.lease = ledger.standing.lease
        self.first = ledger.first
        self.appends: list[Append] = []

    @contextmanager
    def writing(self, *_: object) -> Generator[OneJob]:
        """A transaction that nobody disturbs."""
        yield self

    def now(self) -> Any:
        """The instant at which every command of the explorer is decided."""
        return NOW

    def load(self, _: Sequence[str]) -> dict[str, Loaded]:
        """The job's rows, as they are now."""
        return {JOB_ID: Loaded(self.job, "", self.lease, EPOCH if self.job.attempt else 0, 1)}

    def caused(self, _: str, command_id: str) -> list[StoredRecord]:
        """The records that a command left."""
        return [each for append in self.appends for each in append.records if each.command_id == command_id]

    def snapshot(self, _: str, upto: int) -> Job | None:
        """The state that a command left, if that is the sequence that is asked for."""
        return next((append.job for append in self.appends if append.job.sequence == upto), None)

    def unit(self, _: str, unit: str) -> UnitRow | None:
        """The first receipt."""
        appended = next((append.unit for append in self.appends if append.unit), None)
        first = self.first
        return appended or (UnitRow(unit, first.receipt, first.generation, first.sequence) if first else None)

    def versions(self, *_: object) -> dict[str, int]:
        """The resource's version, before anything."""
        return {RESOURCE: VERSION}

    def group(self, *_: object) -> GroupRow:
        """The worker group."""
        return GroupRow(EPOCH)

    def queue_rules(self, *_: object) -> dict[str, Any]:
        """No queue is limited or held."""
        return {}

    def append(self, appends: Sequence[Append]) -> list[str | None]:
        """Write."""
        for append in appends:
            self.job, self.lease = append.job, append.lease
        self.appends.extend(appends)
        return [None] * len(appends)

    def new_id(self) -> str:
        """An id."""
        return "some id"

    def new_token(self) -> str:
        """A secret."""
        return "some token"

    def chance(self) -> float:
        """No chance."""
        return 0.0


def misrepeated(ledger: Ledger, order: Order, job: Job) -> list[str]:
    """What is wrong with an order's repetition; ``job`` is what the explorer made of the order itself."""
    store = OneJob(ledger)
    commands = JobCommands(Setting(cast("Storage", store), store))
    first = _asked(commands, ledger, order)
    if isinstance(first, JobledgerError) or len(store.appends) != 1:
        return [f"repeats: the store answered {first!r} where the rules alone had accepted"]
    if store.job != job:
        return ["repeats: the store left another job than the rules alone"]
    return [wrong for later in _later(store) for wrong in _wrong(store, commands, ledger, order, first, later)]


def _wrong(
    store: OneJob, commands: JobCommands, ledger: Ledger, order: Order, first: Any, later: tuple[str, Job, Any]
) -> Iterator[str]:
    when, store.job, store.lease = later
    again = _asked(commands, ledger, order)
    if len(store.appends) > 1:
        store.appends.pop()
        yield f"repeats: repeated {when}, the command was carried out again"
    elif order.verb == "claim":
        yield from _wrong_lease(store, first, again, when)
    elif again != first:
        yield f"repeats: repeated {when}, the command was answered {again!r} instead of {first!r}"


def _wrong_lease(store: OneJob, first: Lease, again: Any, when: str) -> Iterator[str]:
    """A repeated claim gets its lease as it is now; once its generation has ended it is stale."""
    is_open = store.job.attempt is not None and store.job.generation == first.generation
    if not is_open:
        if not (isinstance(again, RefusedError) and again.code == "stale_fence"):
            yield f"repeats: repeated {when}, the claim was answered {again!r}"
    elif not isinstance(again, Lease):
        yield f"repeats: repeated {when}, the claim was refused: {again!r}"
    elif (again.fence, again.checkpoint) != (first.fence, first.checkpoint):
        yield f"repeats: repeated {when}, the claim was given another lease"


def _later(store: OneJob) -> Iterator[tuple[str, Job, Any]]:
    """The job directly after the command, and after it moved on."""
    job, lease = store.job, store.lease
    yield "at once", job, lease
    if job.is_terminal:
        return
    if job.hold is None:
        yield "under a later hold", evolve(job, HoldPlaced(at=NOW, by="bob", reason=WHY)), lease
    if job.attempt is not None:
        cause = Interrupted(at=NOW, generation=job.generation, expires_at=NOW, cause="lease_expired")
        yield "after its generation ended", evolve(job, cause), None


def _asked(commands: JobCommands, ledger: Ledger, order: Order) -> Any:
    """Ask for an order by the public commands; the answer, or the refusal."""
    try:
        if order.actor == "worker":
            return _written(commands, ledger, order)
        if order.verb == "claim":
            return commands.claim(
                JOB_ID,
                worker="w1",
                lease=LEASE,
                group=GROUP,
                epoch=order.epoch,
                respect_hold=order.respects_hold,
                command_id=COMMAND,
                token=token(ledger.job.generation + 1),
            )
        if order.verb == "recover":
            return commands.recover(JOB_ID, command_id=COMMAND)
        control = getattr(commands, order.verb)
        expected = None if order.expects is None else ledger.job.control_sequence
        return control(JOB_ID, by=order.by, reason=WHY, expected_sequence=expected, command_id=COMMAND)
    except JobledgerError as error:
        return error


def _written(commands: JobCommands, ledger: Ledger, order: Order) -> Any:
    presented = order.presented(ledger)
    if presented is None:
        raise LookupError(order.name)
    fence: Fence = replace(presented, steps=Steps(STEP))
    words = order.name.split()
    state = STATE.value if "x" in words else OTHER_STATE.value if "y" in words else KEEP
    stated: dict[str, Any] = {"command_id": COMMAND, "effects": _effects(order)}
    bare: dict[str, Any] = {"command_id": COMMAND}
    asks: dict[str, Callable[[], Any]] = {
        "renew": lambda: commands.renew(fence, **bare),
        "checkpoint": lambda: commands.checkpoint(fence, state, **stated),
        "record_unit": lambda: commands.record_unit(fence, UNIT, f"receipt {words[1]}", **bare),
        "report_progress": lambda: commands.report_progress(fence, 1, **bare),
        "pause": lambda: commands.pause(fence, state, **stated),
        "defer": lambda: commands.defer(fence, LATER, state, **stated),
        "fail_attempt": lambda: commands.fail_attempt(fence, "boom", **bare),
        "cancel": lambda: commands.cancel(fence, **bare),
        "complete": lambda: _completed(commands, fence, words, stated),
    }
    return asks[order.verb]()


def _effects(order: Order) -> list[Effect]:
    expected = order.effect_expects
    return [] if expected is None else [Effect(resource=RESOURCE, value="new", expected_version=expected)]


def _completed(commands: JobCommands, fence: Fence, words: list[str], stated: dict[str, Any]) -> Any:
    outcome = words[1] if words[1:2] and words[1] != "with" else "complete"
    if outcome in ("failed", "unavailable"):
        return commands.complete(fence, outcome, error="boom", **stated)
    return commands.complete(fence, outcome, STATE.value, **stated)
