"""How queues stand in rows: the folded state and what claims remember as JSON, and the columns beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import TypeAdapter, ValidationError

from jobledger.domain.decisions.claiming import Claimable
from jobledger.domain.errors import HistoryCorruptError
from jobledger.domain.queues.choosing import Usage, share_of
from jobledger.domain.queues.state import QueueState, queue_stream, require_sound

if TYPE_CHECKING:
    from jobledger.domain.job import Job

_STATES: Final = TypeAdapter(QueueState)
_USAGES: Final = TypeAdapter(Usage)


def encode_queue(state: QueueState) -> bytes:
    """The folded state as JSON; fields at their default are left out."""
    return _STATES.dump_json(state, exclude_defaults=True)


def decode_queue(namespace: str, name: str, sequence: int, encoded: bytes) -> QueueState:
    """Read a folded state back.

    Raises:
        HistoryCorruptError: the bytes are no such state, or that of another queue or sequence.
    """
    stream = queue_stream(namespace, name)
    try:
        state = _STATES.validate_json(encoded)
    except (ValidationError, ValueError) as error:
        problem = f"its kept state cannot be read ({type(error).__name__})"
        raise HistoryCorruptError(stream, sequence, problem) from error
    if (state.namespace, state.name, state.sequence) != (namespace, name, sequence):
        raise HistoryCorruptError(stream, sequence, f"its kept state is that of {state.stream} at {state.sequence}")
    return require_sound(state, stream)


def queue_row(state: QueueState, head: str) -> dict[str, object]:
    """The columns of a queue's row."""
    return {
        "namespace": state.namespace,
        "name": state.name,
        "sequence": state.sequence,
        "head": head,
        "share_by": state.limits.share_by,
        "queue": encode_queue(state),
    }


def encode_usage(usage: Usage) -> bytes:
    """What claims remember, as JSON."""
    return _USAGES.dump_json(usage, exclude_defaults=True)


def decode_usage(namespace: str, name: str, encoded: bytes) -> Usage:
    """Read back what claims remember.

    Raises:
        HistoryCorruptError: the bytes are nothing of the kind.
    """
    try:
        return _USAGES.validate_json(encoded)
    except (ValidationError, ValueError) as error:
        problem = f"what its claims remember cannot be read ({type(error).__name__})"
        raise HistoryCorruptError(queue_stream(namespace, name), 0, problem) from error


SHARED: Final = "when_shared"
"""How a job that waits in a divided queue stands to claims once it was assigned to its share."""


def shared_claimable(job: Job, claimable: Claimable, found: object, share: object, share_by: str | None) -> str:
    """What the column of claims has to say of a job, given what stands there and what divides its queue."""
    is_shared = found == SHARED and share_by is not None and share == share_of(job, share_by)
    return SHARED if is_shared and claimable is Claimable.WHEN_READY else claimable
