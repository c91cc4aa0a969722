"""What each event makes of the state, said a second time as a table: the fields that it sets, and no others."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

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
    ProgressReported,
    Resumed,
    RetryRequested,
    UnitRecorded,
)
from jobledger.domain.job import Attempt, Job, Reported, Request, State

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobledger.domain.values import Body
    from tests.proof.history import Transition

Fields = dict[str, Any]

NAMES: Final = tuple(field.name for field in fields(Job))
ALL_OF: Final = attrgetter(*NAMES)
PLACED: Final = ("sequence", "control_sequence", "updated_at", "kept")
"""Fields that other invariants look at: the count of events, their time, and which checkpoint bodies are kept."""

COPIED: Final = (
    *("namespace", "owner", "kind", "payload", "fingerprint", "key", "policy_changes", "controls", "queue", "priority"),
    *("labels", "submission", "origin", "ready_at", "checkpoint", "units"),
)
FRESH: Final[Fields] = {
    "state": State.QUEUED,
    "generation": 0,
    "attempt": None,
    "hold": None,
    "cancel": None,
    "released_by": None,
    "interrupts": 0,
    "failures": 0,
    "outcome": None,
    "result": None,
    "error": None,
    "ended_by": None,
    "last_token_digest": "",
}


def an_event_changes_what_it_says(t: Transition) -> str | None:
    """Compare every field after an event with the table; a field that the table does not name must be untouched."""
    if t.before is None:
        return _fresh(t)
    expected = EXPECTED[type(t.event)](t.before, t.event) if type(t.event) in EXPECTED else {}
    old: tuple[Any, ...] = ALL_OF(t.before)
    new: tuple[Any, ...] = ALL_OF(t.after)
    for name, was, now in zip(NAMES, old, new, strict=True):
        if name in expected:
            if now != expected[name]:
                return f"{name} is {now!r}, the event says {expected[name]!r}"
        elif now is not was and now != was and name not in PLACED:
            return f"{name} went from {was!r} to {now!r}, the event does not speak of it"
    return None if t.after.updated_at == t.event.at else "the job does not know when it was changed"


def _fresh(t: Transition) -> str | None:
    event = t.event
    if not isinstance(event, Created):
        return None
    for name, expected in FRESH.items():
        if getattr(t.after, name) != expected:
            return f"a new job's {name} is {getattr(t.after, name)!r}"
    for name in COPIED:
        if getattr(t.after, name) != getattr(event, name):
            return f"{name} is not the one that the job was created with"
    return None


def _renewed(before: Job, event: Any) -> Fields:
    return {"attempt": before.attempt and replace(before.attempt, expires_at=event.expires_at)}


def _stopped(ended_by: str, state: State = State.PAUSED) -> Fields:
    return {"state": state, "attempt": None, "ended_by": ended_by}


def _ended(event: Any, outcome: Outcome, before: Job) -> Fields:
    cleared = {"hold": None, "cancel": None, "outcome": outcome, "result": getattr(event, "result", None)}
    error = before.error if event.error is None else event.error
    return {**_stopped(outcome.value, State(outcome.value)), **cleared, "error": error}


def _same_text(one: Body | None, other: Body) -> bool:
    """Whether two states are the same JSON text."""
    if one is None:
        return False
    return (json.dumps(one.value), one.digest, one.size) == (json.dumps(other.value), other.digest, other.size)


def _claimed(_: Job, event: Claimed) -> Fields:
    attempt = Attempt(
        worker=event.worker,
        group=event.group,
        epoch=event.epoch,
        lease=event.lease,
        token_digest=event.token_digest,
        respects_hold=event.respects_hold,
        expires_at=event.expires_at,
    )
    return {
        "state": State.RUNNING,
        "generation": event.generation,
        "last_token_digest": event.token_digest,
        "ended_by": None,
        "attempt": attempt,
    }


def _checkpointed(before: Job, event: Checkpointed) -> Fields:
    told = {**_renewed(before, event), "checkpoint": event.state, "checkpoint_sequence": before.sequence + 1}
    return told if _same_text(before.checkpoint, event.state) else {**told, "interrupts": 0, "failures": 0}


def _failed(before: Job, event: AttemptFailed) -> Fields:
    state = State.PAUSED if before.hold else State.QUEUED
    told = {"failures": before.failures + 1, "error": event.error, "ready_at": event.retry_at}
    return {**_stopped("attempt_failed", state), **told}


def _held(before: Job, event: HoldPlaced) -> Fields:
    state = State.RUNNING if before.state is State.RUNNING else State.PAUSED
    return {"hold": Request(by=event.by, reason=event.reason, at=event.at), "state": state}


EXPECTED: Final[dict[type, Callable[[Job, Any], Fields]]] = {
    Claimed: _claimed,
    LeaseRenewedLate: _renewed,
    Checkpointed: _checkpointed,
    UnitRecorded: lambda job, event: {
        **_renewed(job, event),
        "units": job.units + 1,
        "interrupts": 0,
        "failures": 0,
    },
    ProgressReported: lambda job, event: {
        **_renewed(job, event),
        "progress": Reported(done=event.done, total=event.total, message=event.message),
    },
    Interrupted: lambda job, event: {
        **_stopped(event.cause),
        "interrupts": job.interrupts + (1 if event.cause == "lease_expired" else 0),
    },
    AttemptFailed: _failed,
    Paused: lambda _, event: {**_stopped("paused"), "ready_at": event.ready_at},
    HoldPlaced: _held,
    HoldReleased: lambda _, event: {"hold": None, "released_by": event.by, "interrupts": 0, "failures": 0},
    Resumed: lambda _, __: {"state": State.QUEUED},
    RetryRequested: lambda _, event: {"ready_at": event.at, "interrupts": 0, "failures": 0},
    CancelRequested: lambda _, event: {"cancel": Request(by=event.by, reason=event.reason, at=event.at)},
    Cancelled: lambda job, event: _ended(event, Outcome.CANCELLED, job),
    Completed: lambda job, event: _ended(event, event.outcome, job),
}
