"""The commands that start attempts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from jobledger.domain import decisions
from jobledger.domain.answers import Lease, status_of
from jobledger.domain.bounds import (
    BATCH_MAX,
    INTEGER_MAX,
    require_flag,
    require_integer,
    require_lease,
    require_names,
    require_text,
)
from jobledger.domain.errors import (
    HistoryCorruptError,
    JobledgerError,
    RefusedError,
    StaleFenceError,
)
from jobledger.domain.events import Claimed
from jobledger.domain.lease import Fence, token_digest
from jobledger.domain.replaying import value_of
from jobledger.domain.steps import Steps
from jobledger.domain.store.base import Commands
from jobledger.domain.store.executing import Command, Decision, Told, execute_found
from jobledger.domain.store.finding import (
    Search,
    admit_claim,
    await_turn,
    is_anything_free,
    queue_rules,
    take_free,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from jobledger.domain.job import Job
    from jobledger.domain.lease import Standing
    from jobledger.domain.ports import Session
    from jobledger.domain.store.base import Setting
    from jobledger.domain.values import Body


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
    is_respected = require_flag("respect_hold", respect_hold)
    return Terms(require_text("worker", worker), span, require_text("group", group), known, is_respected)


class ClaimCommands(Commands):
    """Starting attempts."""

    def __init__(self, setting: Setting) -> None:
        """Run commands in this setting."""
        super().__init__(setting)
        self._turns = count()

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
            BudgetExhaustedError, NotReadyError, QueueHeldError, QueueLimitedError: in this order; no attempt was
                started.
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

        What waits in a held queue is passed over; a limited queue is asked by itself, for what its limits let start.

        Raises:
            StaleEpochError: the group is not at ``epoch``; no attempt was started.
        """
        require_integer("limit", limit, 1, BATCH_MAX)
        wanted_queues = require_names("queues", queues)
        wanted_kinds = None if kinds is None else require_names("kinds", kinds)

        terms = require_terms(worker, lease, group, epoch)
        namespace, turn = self._setting.namespace, next(self._turns)
        search = Search(namespace, terms.group, terms.epoch, wanted_queues, wanted_kinds, limit, turn)
        leases: list[Lease] = []
        while len(leases) < limit and self._takes_more(search, terms, leases):
            search.taken = len(leases)
        return leases

    def _takes_more(self, search: Search, terms: Terms, leases: list[Lease]) -> bool:
        """Take what is free now; tells whether another look may find more.

        Raises:
            JobledgerError: the store failed, and there is no lease yet that the worker would lose by it.
        """
        tried = len(search.passed)

        def claims(session: Session) -> list[Command[Lease]]:
            return [self._claim(job_id, terms, found_in=session) for job_id in take_free(session, search)]

        try:
            with self._setting.storage.reading() as reader:  # an idle worker's look takes no lock of a writer
                if not is_anything_free(reader, search):
                    return False
            for answer in execute_found(self._setting.storage, claims, self._call()):
                if isinstance(answer, Lease):
                    leases.append(answer)
                elif not isinstance(answer, RefusedError | HistoryCorruptError):
                    raise answer
        except JobledgerError:
            if not leases:
                raise
            return False
        return len(search.passed) > tried and not search.is_exhausted

    def _claim(
        self,
        job_id: str,
        terms: Terms,
        command_id: str | None = None,
        token: str | None = None,
        *,
        found_in: Session | None = None,
    ) -> Command[Lease]:
        """The claim of one job; its queue has let it in already where it was found, and in that session alone."""
        secret = self._setting.entropy.new_token() if token is None else require_text("token", token)
        digest = token_digest(secret)

        def decide(session: Session, standing: Standing) -> Decision:
            _require_bodies(session, standing.job)
            rules = None if session is found_in else queue_rules(session, standing.job, terms.group)
            if rules:
                standing = await_turn(session, rules, standing)
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
            if rules:
                admit_claim(session, rules, standing, respect_hold=terms.respect_hold)
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


def _require_bodies(session: Session, job: Job) -> None:
    """Require what the attempt would start from: a job whose input or state is gone is stopped, not run without it.

    Raises:
        HistoryCorruptError: the bytes of its payload or of its current checkpoint are missing.
    """
    for what, body, sequence in (("payload", job.payload, 1), ("checkpoint", job.checkpoint, job.checkpoint_sequence)):
        if body is not None and body.digest and session.body(job.id, body.digest) is None:
            raise HistoryCorruptError(job.id, sequence or 1, f"the bytes of its {what} are missing")


def _lease(told: Told, secret: str) -> Lease:
    """The lease of a claim: as it is now, also when the claim is a repeated one.

    Raises:
        StaleFenceError: the attempt that the repeated claim started has ended.
    """
    claimed = next(fact for fact in told.facts if isinstance(fact, Claimed))
    job, head, row = told.job, told.head, told.lease
    if told.is_repeated:
        loaded = told.session.load([job.id])[job.id]
        job, head, row = loaded.job, loaded.head, loaded.lease
    if job.generation != claimed.generation or job.attempt is None or row is None:
        raise StaleFenceError(job.id, claimed.generation, job.generation, job.ended_by)
    fence = Fence(job.id, claimed.generation, claimed.group, claimed.epoch, secret, Steps(row.step))

    def value(job_id: str, body: Body | None) -> Any:
        return value_of(told.session, job_id, body)

    status = status_of(job, head=head, expires_at=row.expires_at, value_of=value)
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
