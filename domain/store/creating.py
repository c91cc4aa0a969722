"""The commands that make jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jobledger.domain import decisions
from jobledger.domain.answers import CreateReceipt, Dropped
from jobledger.domain.bounds import require_batch, require_flag, require_text
from jobledger.domain.decisions.creating import (
    JobRequest,
    Met,
    NewJob,
    derive,
    is_made,
    job_id_of,
    origin_of,
    prepare,
    require_sequence,
)
from jobledger.domain.errors import (
    HistoryArchivedError,
    HistoryCorruptError,
    InvalidRequestError,
    JobledgerError,
    RefusedError,
    UnknownJobError,
    UnknownSequenceError,
)
from jobledger.domain.job import State
from jobledger.domain.ports import Inherit
from jobledger.domain.replaying import require_kept, state_at, value_of
from jobledger.domain.store.base import Commands
from jobledger.domain.store.executing import (
    Call,
    Command,
    Decision,
    Told,
    cause_of,
    require_command_id,
)
from jobledger.domain.values import Body, Kept, derived_id, is_body

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from jobledger.domain.events import Created, Origin
    from jobledger.domain.history import Cause
    from jobledger.domain.job import Job
    from jobledger.domain.lease import Standing
    from jobledger.domain.ports import Reader, Session
    from jobledger.domain.store.base import Setting


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
        return self._run_each(require_batch("requests", requests), lambda request: self._creation(request, None))

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
            UnknownJobError, JobExistsError, NotTerminalError, AdmissionRefusedError: no job was made.
            HistoryArchivedError: its checkpoint and receipts were archived; run it again from the beginning.
        """
        require_text("job_id", job_id)
        require_flag("from_checkpoint", from_checkpoint)
        origin = origin_of(job_id, 0, how="rerun", from_checkpoint=from_checkpoint, by=by, reason=reason)
        return self._again(job_id, origin, key, command_id)

    def fork(
        self, job_id: str, *, at_sequence: int, by: str, reason: str, key: str, command_id: str | None = None
    ) -> CreateReceipt:
        """Start a new job under its own key from the checkpoint and receipts that a job had at a sequence.

        Raises:
            UnknownJobError, JobExistsError, UnknownSequenceError, AdmissionRefusedError: no job was made.
            HistoryArchivedError: its events, checkpoint and receipts were archived.
            InvalidRequestError: the checkpoint of that sequence is not retained any more.
        """
        require_text("job_id", job_id)
        sequence = at_sequence if type(at_sequence) is int else 0
        origin = origin_of(job_id, sequence, how="fork", from_checkpoint=True, by=by, reason=reason)
        return self._again(job_id, origin, key, command_id, at_sequence=at_sequence)

    def _creation(self, request: JobRequest, command_id: str | None) -> Command[CreateReceipt]:
        if not isinstance(request, JobRequest):
            raise InvalidRequestError("request", f"a JobRequest is needed, not {type(request).__name__}")
        known_id, is_given = require_command_id(command_id, self._setting.entropy.new_id)
        namespace = self._setting.namespace
        job_id = self._id_for(request, known_id if is_given else None)
        new = prepare(request, job_id=job_id, namespace=namespace, policies=dict(self._setting.policies))

        def decide(session: Session, standing: Standing | None, now: datetime) -> Decision:
            met = meet(self._setting, session, new, standing)
            return made(decisions.create(new, met, now=now), new)

        arguments = [job_id, new.fingerprint, request.submission]
        return create_command(new, cause_of("create", arguments, known_id), decide, is_given=is_given)

    def _id_for(self, request: JobRequest, given: str | None) -> str:
        namespace, owner = self._setting.namespace, request.owner
        if request.key is not None:
            require_text("owner", owner)
            return job_id_of(namespace, owner, require_text("key", request.key))
        if request.submission is not None:
            submission = require_text("submission", request.submission)
            return derived_id("submission", namespace, require_text("owner", owner), submission)
        if given is not None:
            return derived_id("command", namespace, require_text("owner", owner), given)
        return self._setting.entropy.new_id()

    def _again(
        self,
        job_id: str,
        origin: Origin,
        key: str,
        command_id: str | None,
        *,
        at_sequence: object = None,
    ) -> CreateReceipt:
        """Make the job of an origin; ``at_sequence`` is what a fork asked for."""
        require_text("key", key)
        known_id, is_given = require_command_id(command_id, self._setting.entropy.new_id)
        with self._setting.storage.reading() as reader:
            source, payload, asides, mistaken = self._source(reader, origin, at_sequence)
        linked = origin if mistaken else replace(origin, sequence=source.sequence)
        new = derive(source, payload, aside=asides[0], key=key, origin=linked)
        decision = decisions.rerun if origin.how == "rerun" else decisions.fork
        checkpoint = source.checkpoint if origin.from_checkpoint else None
        kept = Kept(checkpoint, asides[1]) if checkpoint else None

        def decide(session: Session, standing: Standing | None, now: datetime) -> Decision:
            met = meet(self._setting, session, new, standing)
            if mistaken is not None and not is_made(origin, met.job, key):
                raise mistaken
            facts = decision(new, source, met, now=now)
            if facts and origin.from_checkpoint:
                require_kept(session, session.load([job_id])[job_id].job)  # nobody archives it before this has ended
            if facts and kept and kept.body.digest and kept.aside is None:
                raise InvalidRequestError(
                    "at_sequence", "the checkpoint of that sequence is not retained any more; fork at a later one"
                )
            inherit = Inherit(job_id, source.sequence) if origin.from_checkpoint else None
            return made(facts, new, kept, inherit)

        arguments = [job_id, origin.sequence, key, origin.from_checkpoint, origin.by, origin.reason]
        return self._run(create_command(new, cause_of(origin.how, arguments, known_id), decide, is_given=is_given))

    def _source(
        self, reader: Reader, origin: Origin, at_sequence: object
    ) -> tuple[Job, Any, tuple[bytes | None, bytes | None], RefusedError | None]:
        """The job that an origin names as of its sequence, its payload, what is kept aside, and a mistaken sequence.

        Raises:
            UnknownJobError: there is no such job in this namespace.
        """
        loaded = reader.load([origin.of]).get(origin.of)
        if loaded is None or loaded.job.namespace != self._setting.namespace:
            raise UnknownJobError(origin.of)
        source, mistaken = loaded.job, None
        try:
            if origin.from_checkpoint:
                require_kept(reader, source)
            if origin.how == "fork":
                source = state_at(reader, source.id, require_sequence(source, at_sequence))
        except (UnknownSequenceError, HistoryArchivedError) as refusal:
            mistaken = refusal
        payload = value_of(reader, source.id, source.payload)
        if isinstance(payload, Dropped):
            raise HistoryCorruptError(source.id, 1, "the bytes of its payload are missing")
        asides = (_aside(reader, source.id, source.payload), _aside(reader, source.id, source.checkpoint))
        return source, payload, asides, mistaken


def meet(setting: Setting, session: Session, new: NewJob, standing: Standing | None, *, drafted: int = 0) -> Met:
    """What a create meets: the job of its key, the job of its submission id, and how deep its queue is.

    ``drafted`` counts jobs of the same queue that were decided on in this transaction and are not written yet.
    """
    request = new.request
    submitted: Job | None = None
    if request.submission is not None:
        submitted_id = session.submitted(new.namespace, request.owner, request.submission)
        submitted = session.peek([submitted_id])[submitted_id].job if submitted_id else None
    if standing is not None:
        return Met(standing.job, submitted)
    depth = new.policy.queue_depth_max if new.policy else None
    queued = session.queued(new.namespace, request.queue, depth) + drafted if depth is not None else 0
    unadmitted = setting.admit(request) if setting.admit is not None else None
    return Met(None, submitted, queued, unadmitted, tuple(sorted(setting.policies)))


def made(facts: list[Created], new: NewJob, checkpoint: Kept | None = None, inherit: Inherit | None = None) -> Decision:
    """What is stored beside the facts of a create (none: it was made before)."""
    if not facts:
        return Decision()
    values = (Kept(new.payload, new.aside),) if new.aside else ()
    return Decision(facts=facts, values=values, checkpoint=checkpoint, inherit=inherit)


def create_command(
    new: NewJob,
    cause: Cause,
    decide: Callable[[Session, Standing | None, datetime], Decision],
    *,
    is_given: bool,
) -> Command[CreateReceipt]:
    """The command that makes a job of a request."""
    depth = new.policy.queue_depth_max if new.policy else None
    return Command(
        job_id=new.job_id,
        namespace=new.namespace,
        cause=cause,
        is_given=is_given,
        decide=decide,
        answer=_receipt,
        looks_around=depth is not None,
        shares=new.request.submission and (new.request.owner, new.request.submission),
    )


def _receipt(told: Told) -> CreateReceipt:
    return CreateReceipt(told.job.id, reused=told.is_reused, sequence=1, state=State.QUEUED)


def _aside(reader: Reader, job_id: str, body: Body | None) -> bytes | None:
    if body is None or not body.digest:
        return None
    encoded = reader.body(job_id, body.digest)
    return encoded if encoded is not None and is_body(body.digest, encoded) else None
