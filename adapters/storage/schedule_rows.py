"""How schedules stand in rows: the folded state as JSON, and the columns that a store finds them by."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from pydantic import TypeAdapter, ValidationError

from jobledger.adapters.storage.rows import from_us, to_us
from jobledger.domain.bounds import INSTANT_MIN
from jobledger.domain.errors import HistoryCorruptError
from jobledger.domain.schedules.ports import DueSchedule
from jobledger.domain.schedules.state import ScheduleState, require_sound, schedule_stream
from jobledger.domain.values import require_finite

_STATES: Final = TypeAdapter(ScheduleState)


def encode_schedule(state: ScheduleState) -> bytes:
    """The folded state as JSON; fields at their default are left out."""
    return _STATES.dump_json(state, exclude_defaults=True)


def decode_schedule(namespace: str, name: str, sequence: int, encoded: bytes) -> ScheduleState:
    """Read a folded state back.

    Raises:
        HistoryCorruptError: the bytes are no such state, or that of another schedule or sequence.
    """
    stream = schedule_stream(namespace, name)
    try:
        state = _STATES.validate_json(encoded)
        require_finite(encoded)
    except (ValidationError, ValueError) as error:
        problem = f"its kept state cannot be read ({type(error).__name__})"
        raise HistoryCorruptError(stream, sequence, problem) from error
    if (state.namespace, state.name, state.sequence) != (namespace, name, sequence):
        raise HistoryCorruptError(stream, sequence, f"its kept state is that of {state.stream} at {state.sequence}")
    return require_sound(state, stream)


def due_schedule(due_at_us: object, name: object) -> DueSchedule:
    """A schedule that is due, whatever somebody made of its columns: what its row says is looked at under its lock."""
    due_at = INSTANT_MIN
    if type(due_at_us) is int:
        with suppress(OverflowError):
            due_at = from_us(due_at_us)
    return DueSchedule(due_at, str(name))


def schedule_row(state: ScheduleState, head: str) -> dict[str, object]:
    """The columns of a schedule's row."""
    return {
        "namespace": state.namespace,
        "name": state.name,
        "sequence": state.sequence,
        "head": head,
        "due_at_us": None if state.due_at is None else to_us(state.due_at),
        "waits_for": state.waits_for,
        "is_removed": int(state.is_removed),
        "schedule": encode_schedule(state),
    }
