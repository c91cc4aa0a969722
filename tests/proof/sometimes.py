"""The situations that a simulation has to reach now and then: a harness that never gets there proves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jobledger.domain.answers import Lease
from jobledger.domain.events import (
    AttemptFailed,
    Cancelled,
    CancelRequested,
    Checkpointed,
    Claimed,
    Completed,
    Created,
    HoldPlaced,
    HoldReleased,
    Interrupted,
    LeaseRenewedLate,
    Outcome,
    Paused,
    Resumed,
    RetryRequested,
)
from tests.proof.sometimes_schedules import SCHEDULE_SITUATIONS, situations_of_asking, situations_of_schedule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.proof.history import Entry, History, Operation

SITUATIONS: Final[dict[str, str]] = {
    "stale_fence": "a worker that was replaced is refused",
    "stale_epoch": "work of an epoch that has passed is refused",
    "lease_expired": "a write under an expired lease is refused",
    "out_of_order": "an older write is refused after a newer one",
    "lease_live": "a live lease protects its worker from a claim",
    "effect_conflict": "two attempts write one resource, and the later one is refused",
    "receipt_changed": "another receipt for a recorded unit is refused",
    "budget_exhausted": "a claim is refused because the budget is used up",
    "hold_in_force": "a hold refuses a claim",
    "cancel_pending": "a claim is refused because a cancel is pending",
    "command_changed": "a command id is used for another command",
    "sequence_moved": "an operator's outdated view is refused",
    "payload_changed": "a key is used with another payload",
    "not_ready": "a claim comes before the job is due",
    "control_unavailable": "an operator uses a control that the job does not have",
    "unit_reused": "a unit that was recorded before is recorded again, and its first receipt is answered",
    "create_reused": "a create finds the job that its key made before",
    "rerun_made": "an ended job is run again",
    "fork_made": "a job is forked from a checkpoint",
    "late_renewal": "a renewal comes late and is accepted",
    "write_after_late_renewal": "an attempt goes on writing after a late renewal",
    "takeover": "a claim interrupts a dead attempt and starts the next one",
    "takeover_after_checkpoint": "an attempt is taken over after its checkpoint, and the next one completes the job",
    "completion_beats_cancel": "an attempt completes although a cancel was requested",
    "cancel_beats_completion": "a completion is refused because the job was cancelled",
    "recovery_cancels": "recovery ends an attempt whose cancel was requested",
    "engine_hold": "a crash loop ends under the engine's hold",
    "engine_hold_released": "an operator releases the engine's hold, and work goes on",
    "hold_parks": "a running attempt parks for a hold",
    "hold_defied": "a claim that does not respect holds starts under one",
    "release_while_running": "a hold is released before the attempt has parked",
    "epoch_fences_off": "an attempt is ended because its group's epoch advanced",
    "claim_reply_lost": "a repeated claim is given its lease again",
    "claim_reply_lost_too_long": "a repeated claim learns that its attempt has ended",
    "repeat_after_takeover": "a repeated command is answered after another attempt has started",
    "repeat_after_end": "a repeated command is answered after the job has ended",
    "late_request_refused": "a request that was given up on arrives late, and is refused",
    "late_request_applied": "a request that was given up on arrives late, and is applied",
    "failure_retried": "a failed attempt is followed by another one",
    "failures_used_up": "a job fails for good when its budget of failures is used up",
    "deferred": "an attempt defers its job",
    "drained": "an attempt gives its job back without a hold",
    "parked_with_checkpoint": "an attempt parks with a checkpoint in one command",
    "resumed": "held work that was never leased is resumed",
    "retry_ends_dead_attempt": "a retry interrupts a dead attempt and makes its job due",
    "shared_resource": "two jobs write one resource, one after the other",
    "conflict": "others came in between, and a command was decided on anew",
    "commit_reply_lost": "a transaction commits, its reply is lost, and the command finds its own events",
    "commit_undone": "a transaction is lost before its commit, and the command is decided on anew",
    "clock_set_back": "the store's clock is set back",
    "crash": "a process crashes in the middle of its work",
    "store_down": "a command meets a store that is down",
    **SCHEDULE_SITUATIONS,
}
"""By name; ``tests.proof.simulate`` demands each of them at least ten times in 10,000 seeds."""

CODES: Final = frozenset(
    {
        *("stale_fence", "stale_epoch", "lease_expired", "out_of_order", "lease_live", "effect_conflict"),
        *("receipt_changed", "budget_exhausted", "hold_in_force", "cancel_pending", "command_changed"),
        *("sequence_moved", "payload_changed", "not_ready", "control_unavailable"),
    }
)
CLAIMS_ONLY: Final = frozenset({"lease_live", "hold_in_force", "cancel_pending"})
REUSED: Final = {"create": "create_reused", "record_unit": "unit_reused"}
ONLY_SIMULATED: Final = frozenset({"conflict", "schedule_conflict"})
"""What a real store, which locks, never comes to."""


def situations_of(history: History, noted: Iterable[str]) -> set[str]:
    """The situations that a run has been in; ``noted`` are those that only the harness sees."""
    streams: dict[str, list[Entry]] = {}
    for entry in history.log:
        streams.setdefault(entry.stream, []).append(entry)
    found = set(noted)
    for stream, entries in streams.items():
        is_schedule = stream.startswith("schedule:")
        found.update(situations_of_schedule(entries, streams) if is_schedule else _of_stream(entries))
    caused = {entry.command_id: entry for entry in history.log}
    for operation in history.operations:
        found.update(_of_operation(operation, caused.get(operation.command_id), streams))
    found.update(_of_resources(history.log))
    return found


def _of_operation(operation: Operation, last: Entry | None, streams: dict[str, list[Entry]]) -> Iterator[str]:
    if operation.name.startswith("schedule."):
        yield from situations_of_asking(operation)
        return
    for number, served in enumerate(operation.served):
        if served.result == "ok":
            yield from _of_success(operation, number, last, streams)
        elif served.result == "refused":
            yield from _of_refusal(operation, served.code, streams)


def _of_success(
    operation: Operation, number: int, last: Entry | None, streams: dict[str, list[Entry]]
) -> Iterator[str]:
    served = operation.served[number]
    if getattr(served.answer, "reused", False) and operation.name in REUSED:
        yield REUSED[operation.name]
    if number and isinstance(served.answer, Lease):
        yield "claim_reply_lost"
    if last is not None:
        if operation.ended is None and operation.result == "unknown" and last.position == served.log:
            yield "late_request_applied"
        yield from _of_repeat(last, served.log, streams[last.stream])


def _of_refusal(operation: Operation, code: str, streams: dict[str, list[Entry]]) -> Iterator[str]:
    if code in CODES and (code not in CLAIMS_ONLY or operation.name == "claim"):
        yield code
    if code == "stale_fence":
        if operation.name == "claim":
            yield "claim_reply_lost_too_long"
        elif operation.ended is None and operation.result == "unknown":
            yield "late_request_refused"
    elif code == "already_terminal" and operation.name == "complete" and _is_cancelled(streams, operation.job_id):
        yield "cancel_beats_completion"


def _is_cancelled(streams: dict[str, list[Entry]], job_id: str | None) -> bool:
    return isinstance(streams[job_id or ""][-1].event, Cancelled)


def _of_repeat(last: Entry, log: int, entries: list[Entry]) -> Iterator[str]:
    for entry in entries:
        if last.position < entry.position <= log:
            if isinstance(entry.event, Claimed) and not isinstance(last.event, Created):
                yield "repeat_after_takeover"
            elif isinstance(entry.event, Completed | Cancelled):
                yield "repeat_after_end"


def _of_stream(entries: list[Entry]) -> Iterator[str]:
    past: dict[str, Any] = {}
    previous: Entry | None = None
    for entry in entries:
        leading = previous.event if previous and previous.command_id == entry.command_id else None
        yield from _of_event(entry.event, leading, past)
        previous = entry


def _of_event(  # noqa: C901, PLR0912  # a table with one case for each event
    event: Any, leading: Any, past: dict[str, Any]
) -> Iterator[str]:
    """What one event says, given what came before; ``past`` remembers the attempt, the hold and the request."""
    match event:
        case Created(origin=origin) if origin is not None:
            yield {"rerun": "rerun_made", "fork": "fork_made"}.get(origin.how, "occurrence_made")
        case Claimed():
            yield from _of_claim(leading, past)
        case LeaseRenewedLate():
            past["late"] = event.generation
            yield "late_renewal"
        case Interrupted():
            past["interrupted"] = past.get("checkpoint") == event.generation
            if event.cause == "epoch_advanced":
                yield "epoch_fences_off"
        case Paused():
            yield {"hold": "hold_parks", "deferred": "deferred"}.get(event.cause, "drained")
            if isinstance(leading, Checkpointed):
                yield "parked_with_checkpoint"
        case HoldPlaced():
            past["hold"] = event.by
            if event.by == "engine":
                yield "engine_hold"
        case HoldReleased():
            past["released"] = past.pop("hold", None)
            if past.get("running"):
                yield "release_while_running"
        case AttemptFailed():
            past["failed"] = True
        case CancelRequested():
            past["cancel"] = True
        case Cancelled() if isinstance(leading, Interrupted):
            yield "recovery_cancels"
        case Resumed():
            yield "resumed"
        case RetryRequested() if isinstance(leading, Interrupted):
            yield "retry_ends_dead_attempt"
        case Completed():
            if past.get("cancel"):
                yield "completion_beats_cancel"
            if past.get("taken_over") and event.outcome in (Outcome.COMPLETE, Outcome.PARTIAL):
                yield "takeover_after_checkpoint"
            if event.error == "boom":
                yield "failures_used_up"
        case Checkpointed():
            past["checkpoint"] = event.generation
        case _:
            pass
    if past.get("late") == getattr(event, "generation", 0) and isinstance(event, Checkpointed | Completed):
        yield "write_after_late_renewal"
    past["running"] = isinstance(event, Claimed) or (
        past.get("running", False) and not isinstance(event, Interrupted | Paused | AttemptFailed)
    )


def _of_claim(leading: Any, past: dict[str, Any]) -> Iterator[str]:
    if isinstance(leading, Interrupted):
        past["taken_over"] = past.get("interrupted", False)
        yield "takeover"
    if past.get("hold"):
        yield "hold_defied"
    if past.pop("released", None) == "engine":
        yield "engine_hold_released"
    if past.pop("failed", None):
        yield "failure_retried"


def _of_resources(log: Iterable[Entry]) -> Iterator[str]:
    writers: dict[str, str] = {}
    owners: dict[str, str] = {}
    for entry in log:
        if isinstance(entry.event, Created):
            owners[entry.stream] = entry.event.owner
        for effect in getattr(entry.event, "effects", ()):
            key = f"{owners[entry.stream]}/{effect.resource}"
            if writers.setdefault(key, entry.stream) != entry.stream:
                yield "shared_resource"
