"""Records that are never encoded, and quick copies: what a simulation leaves out of the real way, for its speed."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobledger.domain import history
from jobledger.domain import job as job_module
from jobledger.domain.history import Cause, RecordedEvent
from jobledger.domain.policies import Policy
from jobledger.domain.store import executing
from tests.proof.mutating import replaced

if TYPE_CHECKING:
    from collections.abc import Generator

    from jobledger.domain.events import Event


@dataclass(frozen=True, slots=True)
class Plain:
    """A record that was never encoded."""

    stream: str
    sequence: int
    topic: str
    event: Any
    cause: Cause | None
    previous: str
    digest: str
    command_id: str | None
    state: bytes = b""


def record(stream: str, sequence: int, event: Event, *, previous: str, cause: Cause | None) -> Plain:
    """A record whose digest is its place."""
    digest = f"{stream}#{sequence}"
    topic = history.TOPIC_OF[type(event)]
    return Plain(stream, sequence, topic, event, cause, previous, digest, cause.id if cause else None)


def record_all(stream: str, after: int, facts: list[Any], *, previous: str, cause: Cause | None) -> tuple[Plain, ...]:
    """The records of one command."""
    records = []
    for sequence, event in enumerate(facts, start=after + 1):
        records.append(record(stream, sequence, event, previous=previous, cause=cause))
        previous = records[-1].digest
    return tuple(records)


def read(stored: Any) -> RecordedEvent:
    """What a record tells, as it stands."""
    return RecordedEvent(
        stored.stream, stored.sequence, stored.topic, stored.event, stored.cause, stored.previous, stored.digest
    )


def cause_of(name: str, arguments: Any, command_id: str) -> Cause:
    """The identity of a command: its arguments as they read, in the place of their digest."""
    return Cause(id=command_id, name=name, arguments=repr(arguments))


class _RememberedPolicy:
    """Policies are read from their stored form anew at every look; a simulation has one, and looks very often."""

    def __init__(self) -> None:
        self._changes: dict[str, Any] | None = None
        self._policy: Policy | None = None

    def __call__(self, changes: dict[str, Any]) -> Policy:
        if self._policy is None or changes != self._changes:
            self._changes, self._policy = changes, Policy.of_changes(changes)
        return self._policy


@contextmanager
def without_encoding() -> Generator[None]:
    """Let commands record events as they are; only for a ``SimulatedStorage``."""
    policy_of = vars(job_module)["_policy_of"]
    with (
        replaced(history.record, record),
        replaced(history.record_all, record_all),
        replaced(history.read, read),
        replaced(executing.cause_of, cause_of),
        replaced(policy_of, _RememberedPolicy()),
    ):
        yield
