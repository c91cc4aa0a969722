"""How every command runs: load, decide, append, answer; retried on conflict, and safe when a reply was lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from jobledger.domain.bounds import require_text
from jobledger.domain.decisions.claiming import claimable
from jobledger.domain.errors import (
    CommandChangedError,
    HistoryCorruptError,
    JobledgerError,
    OutcomeUnknownError,
    StoreUnavailableError,
    UnknownJobError,
)
from jobledger.domain.events import Claimed, Interrupted, JobEvent, LeaseRenewedLate
from jobledger.domain.history import Cause, read, record_all
from jobledger.domain.job import Job, evolve
from jobledger.domain.lease import Fence, LeaseRow, Standing
from jobledger.domain.ports import (
    Append,
    Guard,
    Inherit,
    Loaded,
    ResourceWrite,
    RolledBackError,
    Session,
    Storage,
    StoredBody,
    UnitRow,
)
from jobledger.domain.replaying import state_at, value_of
from jobledger.domain.values import Body, Json, Kept, encode_json, sha256_hex

if TYPE_CHECKING:
    from jobledger.domain.decisions.working import StagedEffect

Answer = TypeVar("Answer")

_ENDS_OR_REVIVES: Final = (Interrupted, LeaseRenewedLate)

CONFLICTS_MAX: Final = 50
UNKNOWN_MAX: Final = 3


@dataclass(slots=True, kw_only=True)  # not frozen: one is made for each command, at three times the price
class Decision:
    """The facts a command decided on, and what has to be stored beside them.

    No facts: what was asked stands already (``reused``), or only the lease moves (``expires_at``). ``epochs``: the
    groups that must still be where they are when the facts are written.
    """

    facts: Sequence[JobEvent] = ()
    checkpoint: Kept | None = None
    values: tuple[Kept, ...] = ()
    effects: tuple[StagedEffect, ...] = ()
    unit: str | None = None
    inherit: Inherit | None = None
    expires_at: datetime | None = None
    epochs: tuple[tuple[str, int], ...] = ()


@dataclass(slots=True)  # as above
class Told:
    """The job, its lease row and the facts that an answer is made of; ``is_repeated``: as they were the first time."""

    session: Session
    job: Job
    facts: Sequence[Any]
    head: str
    lease: LeaseRow | None
    is_repeated: bool = False

    @property
    def expires_at(self) -> datetime | None:
        """When the open lease ends; ``None`` where no attempt is open."""
        return self.lease.expires_at if self.lease else None

    @property
    def is_reused(self) -> bool:
        """Whether nothing was appended, since it stood already."""
        return not self.facts

    def value(self, body: Body | None) -> Json:
        """The value of a body of this job."""
        return value_of(self.session, self.job.id, body)


@dataclass(slots=True, kw_only=True)  # as above
class Command(Generic[Answer]):
    """One command on one job.

    ``decide`` is given the session, the job's standing (``None``: there is no such job) and the store's time.
    ``is_given``: the caller chose the command id, so it may be a repeated one. ``looks_around``: what it meets
    includes other jobs, so that those before it in a batch have to be written first. ``shares``: a name that only one
    of those that share it can take, so that this holds for the second of them.
    """

    job_id: str
    namespace: str
    cause: Cause
    is_given: bool
    decide: Callable[[Session, Standing | None, datetime], Decision]
    answer: Callable[[Told], Answer]
    fence: Fence | None = None
    step: int | None = None
    looks_around: bool = False
    shares: object = None


@dataclass(slots=True)
class Call:
    """How the commands of one call travel: the caller's own connection or statements, if any."""

    patience: timedelta
    connection: object | None = None
    inside: Callable[[Any], object] | None = None
    has_lost_a_reply: bool = field(default=False, init=False)


class Runner(Protocol):
    """How a single command is run: by itself (``execute_one``), or together with those of other callers."""

    def __call__(self, storage: Storage, command: Command[Answer], call: Call, /) -> Answer:
        """Run a command and answer, or raise its refusal."""
        ...


class _Undone(Exception):  # noqa: N818  # it never leaves this module; it carries an answer out of a rolled back block
    """Rolls a transaction back in which the caller's own statements ran but the command was not accepted."""

    def __init__(self, answers: dict[int, Any]) -> None:
        super().__init__()
        self.answers = answers


def cause_of(name: str, arguments: Json, command_id: str) -> Cause:
    """The identity of a command: its id, name, and the digest of its arguments."""
    return Cause(id=command_id, name=name, arguments=sha256_hex(encode_json(arguments, sort_keys=True)))


def require_command_id(command_id: str | None, fresh: Callable[[], str]) -> tuple[str, bool]:
    """The caller's command id, or a fresh one; and whether the caller gave it."""
    if command_id is None:
        return fresh(), False
    return require_text("command_id", command_id), True


def execute(storage: Storage, commands: Sequence[Command[Answer]], call: Call) -> list[Answer | JobledgerError]:
    """Run commands, each answered for itself, in their order; several for one job run one after the other.

    Never raises for an item: its refusal, or the failure of the store, is its answer.
    """
    answers: dict[int, Answer | JobledgerError] = {}
    waiting = list(range(len(commands)))
    conflicts = unknowns = 0
    while waiting:
        chosen = _first_of_each_job(commands, waiting)
        try:
            settled = _settle(storage, commands, chosen, call)
        except _Undone as undone:
            settled = undone.answers
            conflicts += not settled
        except OutcomeUnknownError as unknown:
            call.has_lost_a_reply = True
            unknowns += 1
            settled = _unknown(commands, waiting, unknown.reason) if unknowns > UNKNOWN_MAX else {}
        except RolledBackError:
            conflicts += 1
            settled = {}
        except StoreUnavailableError as unavailable:
            if call.has_lost_a_reply:
                settled = _unknown(commands, waiting, unavailable.reason)
            else:
                settled = dict.fromkeys(waiting, unavailable)
        else:
            conflicts += not settled
        if conflicts > CONFLICTS_MAX:
            settled = dict.fromkeys(waiting, StoreUnavailableError("others changed the job at every try"))
        answers |= settled
        waiting = [index for index in waiting if index not in answers]
    return [answers[index] for index in range(len(commands))]


def execute_one(storage: Storage, command: Command[Answer], call: Call) -> Answer:
    """Run one command and answer, or raise its refusal."""
    answer = execute(storage, [command], call)[0]
    if isinstance(answer, JobledgerError):
        raise answer
    return answer


def execute_found(
    storage: Storage, find: Callable[[Session], Sequence[Command[Answer]]], call: Call
) -> list[Answer | JobledgerError]:
    """Run commands on distinct jobs that are found in the transaction that carries them out; answers as they come.

    What is found there is locked there, so that nobody else finds it meanwhile. A command that conflicts all the same
    has no answer: its job has moved on.

    Raises:
        JobledgerError: of ``find``, or of the store: nothing was carried out.
    """
    commands: list[Command[Answer]] = []
    for _ in range(CONFLICTS_MAX):
        try:
            with storage.writing(call.patience) as session:
                commands = list(find(session))
                answers = _settled(session, commands, list(range(len(commands))), call) if commands else {}
        except RolledBackError:
            continue
        except OutcomeUnknownError:
            call.has_lost_a_reply = True
            # What let them in was that session's; now each is let in by itself, and sees those before it.
            return execute(storage, [replace(each, looks_around=True) for each in commands], call)
        return list(answers.values())
    reason = "others changed the jobs at every try"
    raise StoreUnavailableError(reason)


def _unknown(commands: Sequence[Command[Any]], waiting: list[int], reason: str) -> dict[int, Any]:
    """Nobody can say what became of these; each names the id under which it may be repeated."""
    return {index: OutcomeUnknownError(reason, commands[index].cause.id) for index in waiting}


def _first_of_each_job(commands: Sequence[Command[Any]], waiting: list[int]) -> list[int]:
    seen: set[str] = set()
    return [
        index
        for index in waiting
        if commands[index].job_id not in seen and not seen.add(commands[index].job_id)  # type: ignore[func-returns-value]  # add answers None
    ]


def _settle(storage: Storage, commands: Sequence[Command[Any]], chosen: list[int], call: Call) -> dict[int, Any]:
    """One transaction over commands on distinct jobs; those that conflict are missing from the answers."""
    with storage.writing(call.patience, call.connection) as session:
        return _settled(session, commands, chosen, call)


def _settled(session: Session, commands: Sequence[Command[Any]], chosen: list[int], call: Call) -> dict[int, Any]:
    """The answers of commands on distinct jobs in a session; those that conflict are missing."""
    answers: dict[int, Any] = {}
    if call.inside is not None:
        call.inside(session.connection)
    loaded = _loaded(session, commands, chosen, answers)
    chosen = [index for index in chosen if index not in answers]
    now = session.now()
    drafts: list[tuple[int, Append, Told]] = []
    taken: set[object] = set()
    for index in chosen:
        command = commands[index]
        if command.looks_around or command.shares in taken:
            _write(session, commands, drafts, answers)
        if command.shares is not None:
            taken.add(command.shares)
        try:
            if command.is_given or call.has_lost_a_reply:
                repeated = _repeated(session, command, loaded.get(command.job_id))
                if repeated is not None:
                    answers[index] = command.answer(repeated)
                    continue
            outcome = draft(session, command, loaded.get(command.job_id), now)
            if isinstance(outcome, Told):
                answers[index] = command.answer(outcome)
            else:
                drafts.append((index, *outcome))
        except JobledgerError as refusal:
            answers[index] = refusal
    is_accepted = _write(session, commands, drafts, answers)
    if call.inside is not None and not is_accepted:
        raise _Undone(answers)
    return answers


def _loaded(
    session: Session, commands: Sequence[Command[Any]], chosen: list[int], answers: dict[int, Any]
) -> dict[str, Loaded]:
    """Load the jobs of a batch; one that cannot be read is its own command's answer, and no other's."""
    try:
        return session.load(sorted({commands[index].job_id for index in chosen}))
    except HistoryCorruptError as corrupt:
        if len(chosen) == 1:
            answers[chosen[0]] = corrupt
            return {}
    loaded: dict[str, Loaded] = {}
    for index in sorted(chosen, key=lambda each: commands[each].job_id):
        try:
            loaded |= session.load([commands[index].job_id])
        except HistoryCorruptError as corrupt:
            answers[index] = corrupt
    return loaded


def _write(
    session: Session,
    commands: Sequence[Command[Any]],
    drafts: list[tuple[int, Append, Told]],
    answers: dict[int, Any],
) -> bool:
    """Write what was decided on so far, and answer what was accepted; tells whether anything was."""
    failed = session.append([append for _, append, _ in drafts])
    for (index, _, told), conflict in zip(drafts, failed, strict=True):
        if conflict is None:
            answers[index] = commands[index].answer(told)
    drafts.clear()
    return None in failed


def _repeated(session: Session, command: Command[Any], loaded: Loaded | None) -> Told | None:
    """What the command left behind when it came before: the first answer is made from it, before any guard.

    Raises:
        CommandChangedError: the id belongs to another command, or to other arguments.
    """
    if loaded is None or loaded.job.namespace != command.namespace:
        return None
    left = [read(stored) for stored in session.caused(command.job_id, command.cause.id)]
    if not left:
        return None
    if left[0].cause != command.cause:
        raise CommandChangedError(command.cause.id, command.job_id)
    job = state_at(session, command.job_id, left[-1].sequence)
    lease = LeaseRow(job.generation, job.attempt.expires_at) if job.attempt else None
    return Told(session, job, [each.event for each in left], left[-1].digest, lease, is_repeated=True)


def draft(
    session: Session, command: Command[Any], loaded: Loaded | None, clock: datetime
) -> Told | tuple[Append, Told]:
    """Decide on one command: what is to be appended, with what is then told, or what stands already."""
    standing = stand(loaded, clock) if loaded and loaded.job.namespace == command.namespace else None
    now = standing.now if standing else clock
    decision = command.decide(session, standing, now)
    before = standing.job if standing else None
    if not decision.facts and decision.expires_at is None:
        if before is None or loaded is None:
            raise UnknownJobError(command.job_id)
        return Told(session, before, (), loaded.head, loaded.lease)
    return _draft(session, command, decision, standing, loaded)


def stand(loaded: Loaded, clock: datetime) -> Standing:
    """A loaded job as the rules see it: time never goes back behind its last event."""
    return Standing(loaded.job, loaded.lease, loaded.epoch, max(clock, loaded.job.updated_at))


def _draft(
    session: Session, command: Command[Any], decision: Decision, standing: Standing | None, loaded: Loaded | None
) -> tuple[Append, Told]:
    before = standing.job if standing else None
    job, snapshots = _folded(before, decision.facts)
    records = record_all(
        job.id,
        before.sequence if before else 0,
        decision.facts,
        previous=loaded.head if before and loaded else "",
        cause=command.cause,
    )
    head = records[-1].digest if records else (loaded.head if loaded else "")
    lease = _lease_after(command, decision, standing, job)
    append = Append(
        guard=_guard(command, decision, standing),
        job=job,
        claimable=claimable(job),
        records=records,
        head=head,
        lease=lease,
        unit=_unit_row(decision, job),
        effects=_writes(decision, job) if decision.effects else (),
        bodies=_bodies(decision),
        dropped=tuple(set(before.kept) - set(job.kept)) if before and before.kept else (),
        snapshots=snapshots,
        inherit=decision.inherit,
    )
    return append, Told(session, job, decision.facts, head, lease)


def _folded(job: Job | None, facts: Sequence[JobEvent]) -> tuple[Job, tuple[Job, ...]]:
    """The state after the facts, and those states on the way from which a window may start."""
    snapshots: list[Job] = []
    for fact in facts:
        job = evolve(job, fact)
        if job.sequence % job.policy.window_step == 0:
            snapshots.append(job)
    if job is None:
        msg = "a new job needs at least its Created"
        raise LookupError(msg)
    return job, tuple(snapshots)


def _lease_after(command: Command[Any], decision: Decision, standing: Standing | None, job: Job) -> LeaseRow | None:
    if job.attempt is None:
        return None
    if decision.facts and isinstance(decision.facts[-1], Claimed):
        return LeaseRow(job.generation, job.attempt.expires_at)
    row = standing.lease if standing else None
    if row is None or command.fence is None:
        return row
    expires_at = decision.expires_at or job.attempt.expires_at
    # A write that appended nothing leaves no step behind: repeated after a lost reply it must not meet itself.
    step = command.step if command.step is not None and decision.facts else row.step
    return LeaseRow(row.generation, max(expires_at, row.expires_at), step)


def _guard(command: Command[Any], decision: Decision, standing: Standing | None) -> Guard:
    """The preconditions under which the decision holds, for the store to check again as it writes."""
    ends_or_revives = any(isinstance(fact, _ENDS_OR_REVIVES) for fact in decision.facts)
    fence = command.fence
    attempt = standing.job.attempt if standing else None
    return Guard(
        sequence=standing.job.sequence if standing else 0,
        live_generation=fence.generation if fence and not ends_or_revives else None,
        seen_expiry=standing.expires_at if standing and ends_or_revives else None,
        epochs=((attempt.group, attempt.epoch),) if fence and attempt else decision.epochs,
        step=command.step,
    )


def _unit_row(decision: Decision, job: Job) -> UnitRow | None:
    if decision.unit is None or not decision.facts:
        return None
    return UnitRow(decision.unit, decision.values[0].body, job.generation, job.sequence)


def _writes(decision: Decision, job: Job) -> tuple[ResourceWrite, ...]:
    return tuple(
        ResourceWrite(
            effect.resource,
            effect.expected_version,
            effect.kept.aside or encode_json(effect.kept.body.value),
            job.generation,
        )
        for effect in decision.effects
    )


def _bodies(decision: Decision) -> tuple[StoredBody, ...]:
    values = (*decision.values, *[effect.kept for effect in decision.effects])
    bodies = [StoredBody(kept.body.digest, kept.aside, is_checkpoint=False) for kept in values if kept.aside]
    if decision.checkpoint and decision.checkpoint.aside:
        bodies.append(StoredBody(decision.checkpoint.body.digest, decision.checkpoint.aside, is_checkpoint=True))
    return tuple(bodies)
