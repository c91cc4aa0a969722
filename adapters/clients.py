"""The same engine under two other names: ``DurableJobs`` with submissions, ``JobClient`` without credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from jobledger.adapters.bootstrap import JobStore
from jobledger.adapters.deadlines import Deadline
from jobledger.domain.answers import ExecutionResult, JobStatus, Lease, Renewal
from jobledger.domain.decisions.creating import CONTROLS, JobRequest, job_id_of
from jobledger.domain.events import Outcome
from jobledger.domain.policies import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from jobledger.domain.decisions.working import Effect
    from jobledger.domain.values import Json


class Producer(Protocol):
    """A host as producers see it."""

    def producing(self) -> JobStore:
        """The store to submit to.

        Raises:
            ProducerUnavailableError: the host is not admitted yet, or drains.
        """
        ...

    def request_defaults(self, kind: str) -> tuple[str, tuple[str, ...]]:
        """The policy and controls that a registered kind's jobs get.

        Raises:
            UnknownKindError: the host has no handler of that kind.
        """
        ...


class DurableJobs:
    """Jobs of one owner and kind, by business identity; every call has a deadline (a span, or an aware instant)."""

    def __init__(self, store: JobStore, *, owner: str, kind: str, policy: str = DEFAULT) -> None:
        """Submit and run jobs of this kind for this owner, under the named policy."""
        self._store, self._owner, self._kind, self._policy = store, owner, kind, policy

    def submit(
        self, submission_id: str, job_id: str, payload: Json, deadline: datetime | timedelta | float
    ) -> ExecutionResult:
        """Submit a job under its business identity; the same submission again answers the same job.

        Raises:
            PayloadChangedError: the submission id was used for another identity or payload.
            JobExistsError: another submission made a job of this identity.
            DeadlineExceededError: the outcome is unknown; submitting again is safe.
        """
        request = JobRequest(
            owner=self._owner,
            key=job_id,
            kind=self._kind,
            payload=payload,
            policy=self._policy,
            submission=submission_id,
        )
        return _submitted(self._store, request, Deadline(deadline))

    def status(self, job_id: str, deadline: datetime | timedelta | float) -> ExecutionResult:
        """The state, outcome and result of the job with this identity.

        Raises:
            UnknownJobError: nobody submitted it.
            DeadlineExceededError: the store did not answer in time.
        """
        return _result_of(self._store, self._owner, job_id, Deadline(deadline))

    def claim(self, job_id: str, worker: str, deadline: datetime | timedelta | float) -> Lease:
        """Start the next attempt of the job with this identity; see ``JobStore.claim`` for what refuses it."""
        with Deadline(deadline).waiting_for("the claim") as left:
            return self._store.within(left).claim(self._id_of(job_id), worker=worker)

    def renew(self, lease: Lease, deadline: datetime | timedelta | float) -> Renewal:
        """Keep the lease; see ``JobStore.renew``."""
        with Deadline(deadline).waiting_for("the renewal") as left:
            return self._store.within(left).renew(lease.fence)

    def checkpoint(
        self, lease: Lease, state: Json, deadline: datetime | timedelta | float, *, effects: Sequence[Effect] = ()
    ) -> Renewal:
        """Save application state; see ``JobStore.checkpoint``."""
        with Deadline(deadline).waiting_for("the checkpoint") as left:
            return self._store.within(left).checkpoint(lease.fence, state, effects=effects)

    def complete(
        self,
        lease: Lease,
        result: Json,
        deadline: datetime | timedelta | float,
        *,
        outcome: str = "complete",
        error: str | None = None,
        effects: Sequence[Effect] = (),
    ) -> ExecutionResult:
        """Publish the outcome; see ``JobStore.complete``."""
        with Deadline(deadline).waiting_for("the completion") as left:
            return self._store.within(left).complete(lease.fence, outcome, result, error, effects)

    def _id_of(self, identity: str) -> str:
        return job_id_of(self._store.namespace, self._owner, identity)


class JobClient:
    """A producer of one kind of job: it submits and reads, and never handles a worker's credentials."""

    def __init__(self, host_or_store: Producer | JobStore, kind: str, *, owner: str = "default") -> None:
        """Submit over a host (refused before it is admitted and after it began to drain) or straight to a store."""
        self._target, self._kind, self._owner = host_or_store, kind, owner

    def submit(self, logical_id: str, payload: Json, deadline: datetime | timedelta | float) -> ExecutionResult:
        """Submit a job under its logical id; the same id and payload again answers the same job.

        Raises:
            PayloadChangedError: the id was used with another payload.
            ProducerUnavailableError: the host accepts no work now.
            DeadlineExceededError: the outcome is unknown; submitting again is safe.
        """
        policy: str = DEFAULT
        controls: tuple[str, ...] = CONTROLS
        if not isinstance(self._target, JobStore):
            policy, controls = self._target.request_defaults(self._kind)
        request = JobRequest(
            owner=self._owner, key=logical_id, kind=self._kind, payload=payload, policy=policy, controls=controls
        )
        return _submitted(self._producing(), request, Deadline(deadline))

    def status(self, logical_id: str, deadline: datetime | timedelta | float) -> ExecutionResult:
        """The state, outcome and result of the job with this logical id.

        Raises:
            UnknownJobError: nobody submitted it.
            ProducerUnavailableError: the host accepts no work now.
            DeadlineExceededError: the store did not answer in time.
        """
        return _result_of(self._producing(), self._owner, logical_id, Deadline(deadline))

    def _producing(self) -> JobStore:
        return self._target if isinstance(self._target, JobStore) else self._target.producing()


def _submitted(store: JobStore, request: JobRequest, deadline: Deadline) -> ExecutionResult:
    with deadline.waiting_for("the submission") as left:
        hasty = store.within(left)
        receipt = hasty.create(request)
        return _shown(hasty.status(receipt.job_id), reused=receipt.reused)


def _result_of(store: JobStore, owner: str, key: str, deadline: Deadline) -> ExecutionResult:
    with deadline.waiting_for("the status") as left:
        return _shown(store.within(left).status(job_id_of(store.namespace, owner, key)), reused=False)


def _shown(status: JobStatus, *, reused: bool) -> ExecutionResult:
    return ExecutionResult(
        job_id=status.job_id,
        key=status.key,
        state=status.state,
        outcome=status.outcome,
        result=status.result,
        error=None if status.outcome is Outcome.COMPLETE else status.error,
        generation=status.generation,
        sequence=status.sequence,
        reused=reused,
    )
