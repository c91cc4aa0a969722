"""The commands that make jobs, and the one that starts attempts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobledger.domain import decisions
from jobledger.domain.answers import CreateReceipt, Lease, status_of
from jobledger.domain.bounds import BATCH_MAX, INTEGER_MAX, require_count, require_integer, require_lease, require_text
from jobledger.domain.decisions.creating import (
    JobRequest,
    Met,
    NewJob,
    derive,
    job_id_of,
    prepare,
    require_sequence,
)
from jobledger.domain.errors import (
    InvalidRequestError,
    JobledgerError,
    RefusedError,
    StaleEpochError,
    StaleFenceError,
    UnknownJobError,
)
from jobledger.domain.events import Claimed
from jobledger.domain.job import State
from jobledger.domain.lease import Fence, token_digest
from jobledger.domain.ports import Inherit
from jobledger.domain.replaying import state_at, value_of
from jobledger.domain.steps import Steps
from jobledger.domain.store.base import Commands
from jobledger.domain.store.executing import (
    Call,
    Command,
    Decision,
    Told,
    cause_of,
    execute,
    require_command_id,
)
from jobledger.domain.values import Body, Kept, derived_id, is_body

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from jobledger.domain.job import Job
    from jobledger.domain.lease import Standing
    from jobledger.domain.ports import Session


class CreateCommands(Commands):
    """Creating and re-creating jobs; queuing claims nothing."""

    def create(
        self, request: JobRequest, *, connection: object | None = None, command_id: str | None = None
    ) -> CreateReceipt:
        """Create a job, or answer the recorded receipt of the one that owner, key and payload made before.

        ``connection`` is the caller's open database connection: the job then commits with the caller's transaction.

        Raises:
            PayloadChangedError, JobExistsError, AdmissionRefusedError: no job was made.
            PayloadTooLargeError, UnstorableValueError, UnknownPolicyError, InvalidRequestError: mend the request.
        """
        return self._run(self._creation(request, command_id), Call(self._setting.patience, connection))

    def create_many(self, requests: Sequence[JobRequest]) -> list[CreateReceipt | JobledgerError]:
        """Create up to ``BATCH_MAX`` jobs at once; one answer per item, in order; one bad item fails alone."""
        require_count("requests", len(requests), BATCH_MAX)
        answers: dict[int, CreateReceipt | JobledgerError] = {}
        commands: dict[int, Command[CreateReceipt]] = {}
        for place, request in enumerate(requests):
            try:
                commands[place] = self._creation(request, None)
            except JobledgerError as invalid:
                answers[place] = invalid
        made = execute(self._setting.storage, list(commands.values()), self._call())
        answers |= dict(zip(commands, made, strict=True))
        return [answers[place] for place in range(len(requests))]

    def rerun(
        self,
        job_id: str,
        *,
        by: str,
        reason: str,
        key: str,
        from_checkpoint: bool = False,
        command_id: str | None = None,
    ) -> CreateReceipt:
        """Run an ended job again as a new job under its own key, on request from its last checkpoint and receipts.

        Raises:
            NotTerminalError, JobExistsError, UnknownJobError: no job was made.
        """
        return self._again(job_id, "rerun", None, key, by, reason, command_id, from_checkpoint=from_checkpoint)

    def fork(
        self, job_id: str, *, at_sequence: int, by: str, reason: str, key: str, command_id: str | None = None
    ) -> CreateReceipt:
        """Start a new job under its own key from the checkpoint and receipts that a job had at a sequence.

        Raises:
            UnknownSequenceError, JobExistsError, UnknownJobError: no job was made.
            InvalidRequestError: the checkpoint of that sequence is not retained any more.
        """
        return self._again(job_id, "fork", at_sequence, key, by, reason, command_id, from_checkpoint=True)

    def _creation(self, request: JobRequest, command_id: str | None) -> Command[CreateReceipt]:
        if not isinstance(request, JobRequest):
            raise InvalidRequestError("request", f"a JobRequest is needed, not {type(request).__name__}")
        known_id, is_given = require_command_id(command_id, self._setting.entropy.new_id)
        namespace = self._setting.namespace
        job_id = self._id_for(request, known_id if is_given else None)
        new = prepare(request, job_id=job_id, namespace=namespace, policies=dict(self._setting.policies))

        def decide(session: Session, standing: Standing | None, now: datetime) -> Decision:
            met = self._met(session, new, standing)
            return _made(decisions.create(new, met, now=now), new)

        arguments = [job_id, new.fingerprint, request.submission]
        return _create_command(new, cause_of("create", arguments, known_id), decide, is_given=is_given)

    def _met(self, session: Session, new: NewJob, standing: Standing | None) -> Met:
        """What a create meets: the job of its key, the job of its submission id, and how deep its queue is."""
        request = new.request
        submitted: Job | None = None
        if request.submission is not None:
            submitted_id = session.submitted(new.namespace, request.owner, request.submission)
            submitted = session.load([submitted_id])[submitted_id].job if submitted_id else None
        depth = new.policy.queue_depth_max
        queued = session.queued(new.namespace, request.queue, depth) if depth is not None and standing is None else 0
        admit = self._setting.admit
        unadmitted = admit(request) if admit is not None and standing is None else None
        return Met(standing.job if standing else None, submitted, queued, unadmitted)

    def _id_for(self, request: JobRequest, given: str | None) -> str:
        namespace, owner = self._setting.namespace, request.owner
        if request.key is not None:
            require_text("owner", owner)
            return job_id_of(namespace, owner, require_text("key", request.key))
        if given is not None:
            return derived_id("command", namespace, require_text("owner", owner), given)
        return self._setting.entropy.new_id()

    def _again(
        self,
        job_id: str,
        how: Any,
        at_sequence: int | None,
        key: str,
        by: str,
        reason: str,
        command_id: str | None,
        *,
        from_checkpoint: bool,
    ) -> CreateReceipt:
        require_text("job_id", job_id)
        known_id, is_given = require_command_id(command_id, self._setting.entropy.new_id)
        with self._setting.storage.reading() as reader:
            loaded = reader.load([job_id]).get(job_id)
            if loaded is None or loaded.job.namespace != self._setting.namespace:
                raise UnknownJobError(job_id)
            source = loaded.job
            if at_sequence is not None:
                source = state_at(reader, job_id, require_sequence(source, at_sequence))
            payload = value_of(reader, job_id, source.payload)
            asides = [_aside(reader, job_id, source.payload), _aside(reader, job_id, source.checkpoint)]
        new = derive(
            source, payload, aside=asides[0], key=key, how=how, from_checkpoint=from_checkpoint, by=by, reason=reason
        )
        decision = decisions.rerun if how == "rerun" else decisions.fork
        checkpoint = source.checkpoint if from_checkpoint else None
        kept = Kept(checkpoint, asides[1]) if checkpoint else None

        def decide(_: Session, standing: Standing | None, now: datetime) -> Decision:
            facts = decision(new, source, Met(job=standing.job if standing else None), now=now)
            if facts and kept and kept.body.digest and kept.aside is None:
                raise InvalidRequestError(
                    "at_sequence", "the checkpoint of that sequence is not retained any more; fork at a later one"
                )
            inherit = Inherit(job_id, source.sequence) if from_checkpoint else None
            return _made(facts, new, kept, inherit)

        cause = cause_of(how, [job_id, source.sequence, key, from_checkpoint, by, reason], known_id)
        return self._run(_create_command(new, cause, decide, is_given=is_given))


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms a worker claims; ``lease`` and ``epoch`` are ``None`` where the policy and the group say."""

    worker: str
    lease: timedelta | None
    group: str
    epoch: int | None
    respect_hold: bool


def require_terms(
    worker: str, lease: timedelta | float | None, group: str, epoch: int | None, *, respect_hold: bool = True
) -> Terms:
    """Check the terms of a claim.

    Raises:
        InvalidRequestError, UnstorableValueError: a name is empty or too long, a span or epoch out of its range.
    """
    span = None if lease is None else require_lease("lease", lease)
    known = None if epoch is None else require_integer("epoch", epoch, 1, INTEGER_MAX)
    return Terms(require_text("worker", worker), span, require_text("group", group), known, respect_hold)


class ClaimCommands(Commands):
    """Starting attempts."""

    def claim(
        self,
        job_id: str,
        *,
        worker: str,
        lease: timedelta | float | None = None,
        group: str = "default",
        epoch: int | None = None,
        respect_hold: bool = True,
        command_id: str | None = None,
        token: str | None = None,
    ) -> Lease:
        """Start the next attempt of a job; a dead lease is taken over, a live one protects its worker.

        Args:
            job_id: of a job that is due, not held and not ended.
            worker: a name for people.
            lease: the span of the lease, 1 s to 24 h; ``None``: the job's policy says.
            group: the worker's group.
            epoch: the epoch this worker belongs to; ``None``: the group's current one.
            respect_hold: false to work in spite of an operator's hold.
            command_id: for a repeated call; it needs the same ``token``.
            token: the secret of the fence; ``None``: a fresh one.

        Raises:
            AlreadyTerminalError, StaleEpochError, LeaseLiveError, CancelPendingError, HoldInForceError,
            BudgetExhaustedError, NotReadyError: in this order; no attempt was started.
            StaleFenceError: a repeated claim whose attempt has ended.
        """
        terms = require_terms(worker, lease, group, epoch, respect_hold=respect_hold)
        return self._run(self._claim(job_id, terms, command_id, token))

    def claim_next(
        self,
        *,
        worker: str,
        queues: Sequence[str] = ("default",),
        kinds: Sequence[str] | None = None,
        limit: int = 1,
        lease: timedelta | float | None = None,
        group: str = "default",
        epoch: int | None = None,
    ) -> list[Lease]:
        """Start attempts of up to ``limit`` jobs that are due: larger priority, earlier due, earlier created first.

        Raises:
            StaleEpochError: the group is not at ``epoch``; no attempt was started.
        """
        require_integer("limit", limit, 1, BATCH_MAX)
        wanted_queues = [require_text("queues", queue) for queue in queues]
        wanted_kinds = None if kinds is None else [require_text("kinds", kind) for kind in kinds]

        terms = require_terms(worker, lease, group, epoch)
        leases: list[Lease] = []
        passed: set[str] = set()
        while len(leases) < limit:
            try:
                found = self._candidates(terms, wanted_queues, wanted_kinds, limit - len(leases))
            except JobledgerError:
                if leases:
                    return leases
                raise
            fresh = [job_id for job_id in found if job_id not in passed]
            if not fresh:
                break
            passed.update(fresh)
            claims = [self._claim(job_id, terms) for job_id in fresh]
            for answer in execute(self._setting.storage, claims, self._call()):
                if isinstance(answer, Lease):
                    leases.append(answer)
                elif not isinstance(answer, RefusedError):
                    if leases:
                        return leases
                    raise answer
        return leases

    def _candidates(self, terms: Terms, queues: list[str], kinds: list[str] | None, limit: int) -> list[str]:
        """Jobs that a claim on these terms may take now; each claim looks again under the job's lock.

        Raises:
            StaleEpochError: the group has moved on.
        """
        namespace = self._setting.namespace
        with self._setting.storage.reading() as reader:
            current = reader.group(namespace, terms.group).epoch
            if terms.epoch is not None and terms.epoch != current:
                raise StaleEpochError(terms.group, terms.epoch, current)
            return reader.candidates(namespace, queues=queues, kinds=kinds, limit=limit)

    def _claim(
        self, job_id: str, terms: Terms, command_id: str | None = None, token: str | None = None
    ) -> Command[Lease]:
        secret = self._setting.entropy.new_token() if token is None else require_text("token", token)
        digest = token_digest(secret)

        def decide(session: Session, standing: Standing) -> Decision:
            current = session.group(self._setting.namespace, terms.group).epoch
            facts = decisions.claim(
                standing,
                worker=terms.worker,
                lease=terms.lease or standing.job.policy.lease,
                group=terms.group,
                epoch=current if terms.epoch is None else terms.epoch,
                current_epoch=current,
                token_digest=digest,
                respect_hold=terms.respect_hold,
            )
            return Decision(facts=facts, epochs=((terms.group, current),))

        span = None if terms.lease is None else terms.lease.total_seconds()
        arguments = [terms.worker, span, terms.group, terms.epoch, terms.respect_hold, digest]
        return self._command(
            job_id,
            "claim",
            arguments,
            command_id=command_id,
            decide=decide,
            answer=lambda told: _lease(told, secret),
        )


def _made(facts: Any, new: NewJob, checkpoint: Kept | None = None, inherit: Inherit | None = None) -> Decision:
    if not facts:
        return Decision()
    values = (Kept(new.payload, new.aside),) if new.aside else ()
    return Decision(facts=facts, values=values, checkpoint=checkpoint, inherit=inherit)


def _create_command(new: NewJob, cause: Any, decide: Any, *, is_given: bool) -> Command[CreateReceipt]:
    looks_around = new.request.submission is not None or new.policy.queue_depth_max is not None
    return Command(
        job_id=new.job_id,
        namespace=new.namespace,
        cause=cause,
        is_given=is_given,
        decide=decide,
        answer=_receipt,
        looks_around=looks_around,
    )


def _receipt(told: Told) -> CreateReceipt:
    return CreateReceipt(told.job.id, reused=told.is_reused, sequence=1, state=State.QUEUED)


def _aside(reader: Any, job_id: str, body: Body | None) -> bytes | None:
    if body is None or not body.digest:
        return None
    encoded: bytes | None = reader.body(job_id, body.digest)
    return encoded if encoded is not None and is_body(body.digest, encoded) else None


def _lease(told: Told, secret: str) -> Lease:
    """The lease of a claim: as it is now, also when the claim is a repeated one.

    Raises:
        StaleFenceError: the attempt that the repeated claim started has ended.
    """
    claimed = next(fact for fact in told.facts if isinstance(fact, Claimed))
    loaded = told.session.load([told.job.id])[told.job.id]
    job, row = loaded.job, loaded.lease
    if job.generation != claimed.generation or job.attempt is None or row is None:
        raise StaleFenceError(job.id, claimed.generation, job.generation, job.ended_by)
    fence = Fence(job.id, claimed.generation, claimed.group, claimed.epoch, secret, Steps(row.step))

    def value(job_id: str, body: Body | None) -> Any:
        return value_of(told.session, job_id, body)

    status = status_of(job, head=loaded.head, expires_at=row.expires_at, value_of=value)
    return Lease(
        fence=fence,
        job_id=job.id,
        payload=status.payload,
        checkpoint=status.checkpoint,
        generation=claimed.generation,
        expires_at=row.expires_at,
        span=claimed.lease,
        status=status,
    )
