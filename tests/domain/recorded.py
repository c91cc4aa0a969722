"""One event of each topic, with every field filled; ``golden/`` holds each as it was stored when its shape was new."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from jobledger.domain import events, queue_events, schedule_events
from jobledger.domain.events import Event, Origin, Outcome
from jobledger.domain.history import Cause
from jobledger.domain.job import Attempt, Job, Reported, Request, State, told_state
from tests.domain.given import EXPIRY, HOUR, NOON, body

STREAM: Final = "01890a5d-ac96-774b-bcce-b302099a8057"
PREVIOUS: Final = "a" * 64
CAUSE: Final = Cause(id="command-7", name="example", arguments="b" * 64)

_ASIDE: Final = body("x" * 5_000)
_LIMITS: Final = queue_events.QueueLimits(
    running_max=3, starts_max=5, starts_span=HOUR, share_by="owner", running_max_per_share=2, ageing=HOUR
)
_DEFINITION: Final = schedule_events.Definition(
    owner="team-a",
    kind="rebuild",
    payload=body({"day": "${date}", "n": [1, 1.0]}),
    policy="index-jobs",
    queue="slow",
    priority=-3,
    controls=("pause", "cancel"),
    labels={"team": "search"},
    cron="30 2 * * *",
    zone="Europe/Berlin",
    every=timedelta(minutes=90, microseconds=1),
    anchor=NOON,
    start=NOON + HOUR,
    end=NOON + 9 * HOUR,
    jitter=timedelta(minutes=5),
    overlap="queue",
    catch_up="all",
    window=timedelta(days=2),
)
_EFFECT: Final = events.AppliedEffect(resource="index", version=3, value=body({"n": 1.0}))

TRACED: Final = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
_REQUEST: Final = Request(by="ann", reason="look", at=NOON)

ARCHIVED: Final = Job(
    id=STREAM,
    namespace="other",
    owner="team-a",
    kind="rebuild",
    payload=body({"partition": "p7", "n": [1, 1.0, None, True, "é😀"]}),
    fingerprint="c" * 64,
    key="rebuild-42",
    policy_name="index-jobs",
    policy_changes={"keep_finished": "P30D", "backoff": {"factor": 1.5}},
    controls=("pause", "cancel"),
    queue="slow",
    priority=-3,
    labels={"team": "search"},
    submission="s-1",
    origin=Origin(how="rerun", of=STREAM, sequence=4, by="ann", reason="again", from_checkpoint=True, instant=NOON),
    created_at=NOON,
    updated_at=NOON + HOUR,
    sequence=9,
    control_sequence=8,
    state=State.PARTIAL,
    ready_at=NOON + HOUR,
    generation=2,
    attempt=Attempt(
        worker="w1",
        group="gpu",
        epoch=2,
        lease=timedelta(seconds=30),
        token_digest="d" * 64,
        respects_hold=False,
        expires_at=EXPIRY,
    ),
    last_token_digest="d" * 64,
    ended_by="partial",
    hold=_REQUEST,
    released_by="bob",
    cancel=_REQUEST,
    interrupts=1,
    failures=2,
    checkpoint=_ASIDE,
    checkpoint_sequence=7,
    kept=(_ASIDE.digest,),
    units=3,
    progress=Reported(done=1, total=2.5, message="half"),
    outcome=Outcome.PARTIAL,
    result=body([1]),
    error="half of it",
    archived=3,
    traceparent=TRACED,
)
"""A state with every field filled, as no job has it: what stands for a history tells such a one for ever."""

EVENTS: Final[dict[str, Event]] = {
    "job.created": events.Created(
        at=NOON,
        job_id=STREAM,
        namespace="default",
        owner="team-a",
        kind="rebuild",
        payload=body({"partition": "p7", "n": [1, 1.0, None, True, "é😀"]}),
        fingerprint="c" * 64,
        key="rebuild-42",
        policy="index-jobs",
        policy_changes={"lease": "PT5S", "interrupts_max": 1, "backoff": {"cap": "PT1M"}},
        controls=("pause", "cancel"),
        queue="slow",
        priority=-3,
        ready_at=NOON + HOUR,
        labels={"team": "search"},
        submission="submit-42",
        origin=Origin(how="fork", of="0" * 36, sequence=9, by="ann", reason="try again", from_checkpoint=True),
        checkpoint=_ASIDE,
        units=2,
    ),
    "job.claimed": events.Claimed(
        at=NOON,
        generation=1,
        worker="w1",
        group="gpu",
        epoch=7,
        lease=timedelta(seconds=30, microseconds=5),
        expires_at=EXPIRY,
        token_digest="d" * 64,
        respects_hold=False,
    ),
    "job.lease_renewed_late": events.LeaseRenewedLate(
        at=NOON, generation=1, late_by=timedelta(days=400, microseconds=1), expires_at=EXPIRY
    ),
    "job.checkpointed": events.Checkpointed(at=NOON, generation=1, state=_ASIDE, effects=(_EFFECT,), expires_at=EXPIRY),
    "job.unit_recorded": events.UnitRecorded(
        at=NOON, generation=1, unit="batch-1", receipt=body({"rows": 10}), expires_at=EXPIRY
    ),
    "job.progress_reported": events.ProgressReported(
        at=NOON, generation=1, done=4.5, total=10, message="halfway", expires_at=EXPIRY
    ),
    "job.interrupted": events.Interrupted(at=NOON, generation=1, expires_at=EXPIRY, cause="epoch_advanced", by="ann"),
    "job.attempt_failed": events.AttemptFailed(at=NOON, generation=1, error="OSError: disk full", retry_at=EXPIRY),
    "job.paused": events.Paused(at=NOON, generation=1, cause="deferred", ready_at=NOON + HOUR),
    "job.hold_placed": events.HoldPlaced(at=NOON, by="engine", reason="look"),
    "job.hold_released": events.HoldReleased(at=NOON, by="ann", reason="looked"),
    "job.resumed": events.Resumed(at=NOON, by="ann", reason="go on"),
    "job.retry_requested": events.RetryRequested(at=NOON, by="ann", reason="mended"),
    "job.cancel_requested": events.CancelRequested(at=NOON, by="ann", reason="not needed"),
    "job.cancelled": events.Cancelled(
        at=NOON,
        generation=1,
        by="ann",
        reason="not needed",
        checkpoint_sequence=3,
        units=2,
        boundary=body({"batch": 5}),
        error="OSError: disk full",
    ),
    "job.completed": events.Completed(
        at=NOON, generation=1, outcome=Outcome.PARTIAL, result=body([1]), error="half of it", effects=(_EFFECT,)
    ),
    "job.archived": events.Archived(at=NOON, digest="e" * 64, place="archive/2026"),
    "job.erased": events.Erased(at=NOON, digests=("f" * 64,), by="ann", reason="asked by its owner"),
    "group.epoch_advanced": events.EpochAdvanced(at=NOON, epoch=2, by="ann", reason="deploy"),
    "schedule.created": schedule_events.ScheduleCreated(
        at=NOON, namespace="default", name="nightly", definition=_DEFINITION, by="ann", next_at=NOON + HOUR
    ),
    "schedule.changed": schedule_events.ScheduleChanged(at=NOON, definition=_DEFINITION, by="ann", next_at=NOON + HOUR),
    "schedule.held": schedule_events.ScheduleHeld(at=NOON, by="ann", reason="look"),
    "schedule.released": schedule_events.ScheduleReleased(at=NOON, by="ann", reason="looked"),
    "schedule.fired": schedule_events.ScheduleFired(
        at=NOON, instant=NOON - HOUR, job_id=STREAM, how="triggered", next_at=NOON + HOUR, by="ann", reason="now"
    ),
    "schedule.skipped": schedule_events.ScheduleSkipped(
        at=NOON,
        first=NOON - 2 * HOUR,
        last=NOON - HOUR,
        count=2,
        reason="overlap",
        next_at=NOON + HOUR,
        job_id=STREAM,
        detail="the queue is full",
    ),
    "schedule.removed": schedule_events.ScheduleRemoved(at=NOON, by="ann", reason="not needed"),
    "queue.limited": queue_events.QueueLimited(
        at=NOON, namespace="default", queue="index", limits=_LIMITS, by="ann", reason="small"
    ),
    "queue.held": queue_events.QueueHeld(at=NOON, namespace="default", queue="index", by="ann", reason="look"),
    "queue.released": queue_events.QueueReleased(
        at=NOON, namespace="default", queue="index", by="ann", reason="looked"
    ),
}

_CREATED: Any = EVENTS["job.created"]
LATER: Final[dict[str, Event]] = {
    "job.created.2": replace(_CREATED, traceparent=TRACED),
    "job.archived.2": events.Archived(
        at=NOON, digest="e" * 64, place="2026.jsonl.zst", by="ann", state=told_state(ARCHIVED), effects=(_EFFECT,)
    ),
}
"""Events as later versions store them, with the fields that came since; each has a golden record of its own."""
