"""How an operation of a simulated client becomes a call of the real commands, and its outcome an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jobledger.domain.decisions.creating import JobRequest
from jobledger.domain.errors import JobledgerError, OutcomeUnknownError
from jobledger.domain.lease import Fence
from jobledger.domain.schedules.definition import Schedule
from jobledger.domain.steps import Steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobledger.domain.store import JobCommands
    from jobledger.domain.store.firing import FiringCommands
    from tests.proof.history import Operation, Result

FENCED: Final = frozenset(
    {"renew", "checkpoint", "record_unit", "report_progress", "pause", "defer", "fail_attempt", "cancel", "complete"}
)
"""What a worker asks under its fence."""


def call(commands: JobCommands, schedules: FiringCommands, operation: Operation) -> tuple[Result, str, Any]:
    """Ask the real commands; only errors of jobledger are answers, any other is let through."""
    try:
        if operation.name.startswith("schedule."):
            return "ok", "", _SCHEDULE_CALLS[operation.command](schedules, operation)
        return "ok", "", _CALLS[operation.name](commands, operation)
    except OutcomeUnknownError as unknown:
        return "unknown", unknown.code, None
    except JobledgerError as refusal:
        return "refused", refusal.code, None


def _fence(operation: Operation) -> Fence:
    """The fence as it came over the wire: its next step is the one that its sender drew."""
    held = operation.fence
    if held is None:
        msg = f"{operation.name} needs a fence"
        raise LookupError(msg)
    step = operation.step if operation.step is not None else 1
    return Fence(held.job_id, held.generation, held.group, held.epoch, held.token, Steps(step - 1))


def _create(commands: JobCommands, operation: Operation) -> Any:
    return commands.create(JobRequest(**operation.arguments), command_id=operation.command_id)


def _on_a_job(name: str) -> Callable[[JobCommands, Operation], Any]:
    def ask(commands: JobCommands, operation: Operation) -> Any:
        method = getattr(commands, name)
        return method(operation.job_id, **operation.arguments, command_id=operation.command_id)

    return ask


def _under_a_fence(name: str) -> Callable[[JobCommands, Operation], Any]:
    def ask(commands: JobCommands, operation: Operation) -> Any:
        method = getattr(commands, name)
        return method(_fence(operation), **operation.arguments, command_id=operation.command_id)

    return ask


_CALLS: Final[dict[str, Callable[[Any, Operation], Any]]] = {
    "create": _create,
    "claim_next": lambda commands, operation: commands.claim_next(**operation.arguments),
    "recover_expired": lambda commands, operation: commands.recover_expired(**operation.arguments),
    "advance_epoch": lambda commands, operation: commands.advance_epoch(
        **operation.arguments, command_id=operation.command_id
    ),
    **{
        name: _on_a_job(name)
        for name in (
            *("claim", "hold", "release_hold", "resume", "request_cancel", "retry", "recover", "rerun", "fork"),
        )
    },
    **{name: _under_a_fence(name) for name in FENCED},
}


def _put(schedules: FiringCommands, operation: Operation) -> Any:
    asked = dict(operation.arguments)
    return schedules.put(Schedule(**asked["schedule"]), by=asked["by"], command_id=operation.command_id)


def _on_a_schedule(name: str) -> Callable[[FiringCommands, Operation], Any]:
    def ask(schedules: FiringCommands, operation: Operation) -> Any:
        return getattr(schedules, name)(**operation.arguments, command_id=operation.command_id)

    return ask


_SCHEDULE_CALLS: Final[dict[str, Callable[[Any, Operation], Any]]] = {
    "fire_due": lambda schedules, operation: schedules.fire_due(**operation.arguments),
    "backfill": lambda schedules, operation: schedules.backfill(**operation.arguments),
    "put": _put,
    **{name: _on_a_schedule(name) for name in ("hold", "release", "remove", "trigger")},
}
