"""Commands with defaults for every argument that a test does not speak of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from jobledger.domain import decisions
from jobledger.domain.bounds import require_text
from jobledger.domain.decisions.creating import JobRequest, NewJob, derive, origin_of, prepare
from jobledger.domain.decisions.working import Effect, FirstReceipt, stage
from jobledger.domain.events import JobEvent, Outcome
from jobledger.domain.lease import token_digest
from jobledger.domain.policies import Policy
from jobledger.domain.values import Json, keep
from tests.domain.given import HOUR, JOB_ID, LEASE, NOON, body, fence, token

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta
    from typing import Literal

    from jobledger.domain.job import Job
    from jobledger.domain.lease import Fence, Standing

POLICIES: Final = {"default": Policy()}

Fact = TypeVar("Fact", bound=JobEvent)

Write = Callable[..., list[JobEvent]]
"""A worker's command: a standing, the fence that is presented (that of generation 1), and ``step``."""


def only(events: Sequence[JobEvent], kind: type[Fact]) -> Fact:
    """The one fact that a command caused, which has to be of this kind."""
    assert [type(event) for event in events] == [kind], f"expected one {kind.__name__}, not {events}"
    fact = events[0]
    assert isinstance(fact, kind)
    return fact


def names(events: Sequence[JobEvent]) -> list[str]:
    """What kinds of facts a command caused."""
    return [type(event).__name__ for event in events]


# Making jobs ----------------------------------------------------------------------------------------------------------


def request(
    *,
    job_id: str = JOB_ID,
    key: str | None = "rebuild-42",
    kind: str = "rebuild",
    payload: Json = None,
    submission: str | None = None,
    policy: Policy | None = None,
    **fields: Any,
) -> NewJob:
    """A request that was checked, ready to be decided on."""
    asked = JobRequest(owner="team-a", kind=kind, key=key, payload=payload, submission=submission, **fields)
    return prepare(asked, job_id=job_id, namespace="default", policies={"default": policy or Policy()})


def derived(
    source: Job,
    *,
    how: Literal["rerun", "fork"],
    key: str = "again",
    from_checkpoint: bool = False,
    by: str = "ann",
    reason: str = "once more",
    payload: Json = None,
) -> NewJob:
    """The request that runs ``source`` again."""
    require_text("key", key)
    origin = origin_of(source.id, source.sequence, how=how, from_checkpoint=from_checkpoint, by=by, reason=reason)
    return derive(source, payload, aside=None, key=key, origin=origin)


# Workers --------------------------------------------------------------------------------------------------------------


def claim(
    standing: Standing,
    *,
    worker: str = "w2",
    generation: int | None = None,
    lease: timedelta = LEASE,
    group: str = "default",
    epoch: int | None = None,
    current_epoch: int | None = None,
    respect_hold: bool = True,
) -> list[JobEvent]:
    """A worker of the current epoch asks for the next generation."""
    current = current_epoch if current_epoch is not None else standing.epoch or 1
    secret = token(generation or standing.job.generation + 1)
    return decisions.claim(
        standing,
        worker=worker,
        lease=lease,
        group=group,
        epoch=current if epoch is None else epoch,
        current_epoch=current,
        token_digest=token_digest(secret),
        respect_hold=respect_hold,
    )


def renew(standing: Standing, presented: Fence | None = None) -> list[JobEvent]:
    """The worker of generation 1 renews."""
    return decisions.renew(standing, presented or fence(1))


def checkpoint(
    standing: Standing,
    presented: Fence | None = None,
    *,
    step: int = 1,
    state: Json = 5,
    effects: Sequence[Effect] = (),
    versions: Mapping[str, int] | None = None,
) -> list[JobEvent]:
    """The worker of generation 1 saves its state."""
    return decisions.checkpoint(
        standing, presented or fence(1), step, state=body(state), effects=stage(effects), versions=versions or {}
    )


def record_unit(
    standing: Standing,
    presented: Fence | None = None,
    *,
    step: int = 1,
    unit: str = "batch-2",
    receipt: Json = "done",
    first: FirstReceipt | None = None,
) -> list[JobEvent]:
    """The worker of generation 1 proves a unit."""
    return decisions.record_unit(standing, presented or fence(1), step, unit=unit, receipt=body(receipt), first=first)


def report_progress(
    standing: Standing, presented: Fence | None = None, *, step: int = 1, done: float = 2, total: float | None = None
) -> list[JobEvent]:
    """The worker of generation 1 says how far it is."""
    return decisions.report_progress(standing, presented or fence(1), step, done=done, total=total, message=None)


def pause(
    standing: Standing, presented: Fence | None = None, *, step: int = 1, before: Sequence[JobEvent] = ()
) -> list[JobEvent]:
    """The worker of generation 1 parks."""
    return decisions.pause(standing, presented or fence(1), step, before=before)


def defer(
    standing: Standing,
    presented: Fence | None = None,
    *,
    step: int = 1,
    ready_at: datetime = NOON + HOUR,
    before: Sequence[JobEvent] = (),
) -> list[JobEvent]:
    """The worker of generation 1 gives the job back until later."""
    return decisions.defer(standing, presented or fence(1), step, ready_at=ready_at, before=before)


def fail_attempt(
    standing: Standing,
    presented: Fence | None = None,
    *,
    step: int = 1,
    error: str = "boom",
    chance: float = 0.0,
    retry_after: timedelta | None = None,
) -> list[JobEvent]:
    """The worker of generation 1 reports a failure."""
    return decisions.fail_attempt(
        standing, presented or fence(1), step, error=error, chance=chance, retry_after=retry_after
    )


def cancel(
    standing: Standing, presented: Fence | None = None, *, step: int = 1, boundary: Json = None
) -> list[JobEvent]:
    """The worker of generation 1 records that it stopped."""
    said = None if boundary is None else keep("boundary", boundary)
    return decisions.cancel(standing, presented or fence(1), step, boundary=said)


def complete(
    standing: Standing,
    presented: Fence | None = None,
    *,
    step: int = 1,
    outcome: Outcome = Outcome.COMPLETE,
    result: Json = "indexed",
    error: str | None = None,
    effects: Sequence[Effect] = (),
    versions: Mapping[str, int] | None = None,
) -> list[JobEvent]:
    """The worker of generation 1 publishes an outcome."""
    return decisions.complete(
        standing,
        presented or fence(1),
        step,
        outcome=outcome,
        result=None if result is None else body(result),
        error=error,
        effects=stage(effects),
        versions=versions or {},
    )


REPORTS: Final[dict[str, Write]] = {
    "checkpoint": checkpoint,
    "record_unit": record_unit,
    "report_progress": report_progress,
}
STOPS: Final[dict[str, Write]] = {"pause": pause, "defer": defer, "fail_attempt": fail_attempt}
WRITES: Final[dict[str, Write]] = {**REPORTS, **STOPS, "cancel": cancel, "complete": complete}
"""What a worker does under its live lease: reports that leave the attempt open, and ends of it."""


# Operators ------------------------------------------------------------------------------------------------------------


def hold(standing: Standing, *, by: str = "ann", expected_sequence: int | None = None) -> list[JobEvent]:
    """An operator places a stop sign."""
    return decisions.hold(standing, by=by, reason="look first", expected_sequence=expected_sequence)


def release_hold(standing: Standing, *, by: str = "ann", expected_sequence: int | None = None) -> list[JobEvent]:
    """An operator takes it away."""
    return decisions.release_hold(standing, by=by, reason="looked", expected_sequence=expected_sequence)


def resume(standing: Standing, *, by: str = "ann", expected_sequence: int | None = None) -> list[JobEvent]:
    """An operator puts a job back into its queue."""
    return decisions.resume(standing, by=by, reason="go on", expected_sequence=expected_sequence)


def request_cancel(standing: Standing, *, by: str = "ann", expected_sequence: int | None = None) -> list[JobEvent]:
    """An operator asks for the end."""
    return decisions.request_cancel(standing, by=by, reason="not needed", expected_sequence=expected_sequence)


def retry(standing: Standing, *, by: str = "ann", expected_sequence: int | None = None) -> list[JobEvent]:
    """An operator makes the job due."""
    return decisions.retry(standing, by=by, reason="mended", expected_sequence=expected_sequence)


def recover(standing: Standing) -> list[JobEvent]:
    """The engine parks an attempt that is not live."""
    return decisions.recover(standing)
