"""What queues need from a storage: rows with their events, and what runs and waits in a limited one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from jobledger.domain.history import StoredRecord
from jobledger.domain.queues.state import QueueState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobledger.domain.queue_events import QueueLimits
    from jobledger.domain.queues.choosing import Usage, Waiting


@dataclass(frozen=True, slots=True)
class LoadedQueue:
    """A queue's row as a storage read it; ``head`` is the digest of its last record."""

    state: QueueState
    head: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAppend:
    """What one command leaves behind in a queue's stream, written together or not at all.

    ``sequence`` is the queue's last one before the records (0: it has none), ``state`` what they fold to.
    """

    sequence: int
    state: QueueState
    records: tuple[StoredRecord, ...]
    head: str


class QueueReader(Protocol):
    """What a consistent view of a store tells of queues. The name of the whole namespace is empty."""

    def queues(self, namespace: str, names: Sequence[str]) -> dict[str, LoadedQueue]:
        """Queues by name that were ever limited or held; others are missing.

        A session locks the names, in their order: no claim of theirs is under way beside it.

        Raises:
            HistoryCorruptError: the row of one cannot be read.
        """
        ...

    def queue_rules(self, namespace: str, group: str, names: Sequence[str]) -> Mapping[str, QueueState]:
        """What claims of these queues, and of the whole namespace, have to respect: those that have a row.

        A session lets nobody change them before it ends, though others may claim beside it; it reads the worker group
        in the same breath, which ``group`` then answers.

        Raises:
            HistoryCorruptError: the row of one cannot be read.
        """
        ...

    def queue_names(self, namespace: str, *, after: str, limit: int) -> list[str]:
        """The names of queues that have jobs, or were ever limited or held, in order from behind ``after``."""
        ...

    def is_queue_found_by(self, state: QueueState, head: str) -> bool:
        """Whether what the store finds this queue by follows from this state."""
        ...

    def queue_usage(self, namespace: str, name: str) -> Usage:
        """What a limited queue remembers. A session takes its turn: the next who asks waits for its end.

        Raises:
            HistoryCorruptError: it cannot be read.
        """
        ...

    def running_in(self, namespace: str, queue: str, share_by: str | None) -> dict[str, int]:
        """How many jobs of a queue run, by share, also those on leases that are not live.

        All of them under an empty name where it is not divided.
        """
        ...

    def dead_in(self, namespace: str, queue: str, kinds: Sequence[str] | None, limit: int) -> list[Waiting]:
        """Running jobs of a queue that a claim may take over, in the order of claims."""
        ...

    def waiting_in(
        self, namespace: str, queue: str, kinds: Sequence[str] | None, limit: int, *, every_priority: bool
    ) -> list[Waiting]:
        """What waits in a queue and is due, and belongs to no share yet: the best ``limit``, for each kind at least.

        ``every_priority``: the earliest ``limit`` of each priority instead.
        """
        ...

    def shared_in(
        self,
        namespace: str,
        queue: str,
        kinds: Sequence[str] | None,
        limit: int,
        *,
        limits: QueueLimits,
        after: str,
        full: Sequence[str],
    ) -> list[Waiting]:
        """What waits in a divided queue and is due: the best ``limit`` of each of ``limit`` shares that are not full.

        Shares are looked at in the order of their names, from behind ``after`` and once around.
        """
        ...


class QueueWriter(Protocol):
    """What a transaction writes of queues."""

    def append_queue(self, append: QueueAppend) -> bool:
        """Write the append if its queue still stands at its sequence; whether it was written."""
        ...

    def rewrite_queue(self, state: QueueState, head: str) -> None:
        """Replace a queue's row by a rebuilt one, or make the row that is missing."""
        ...

    def put_queue_usage(self, namespace: str, name: str, usage: Usage) -> None:
        """Remember for the next claim."""
        ...

    def share_out(self, namespace: str, queue: str, share_by: str, limit: int) -> None:
        """Assign up to ``limit`` waiting jobs of a queue to their shares, if they belong to none yet."""
        ...

    def end_shares(self, namespace: str, queue: str) -> None:
        """Let every waiting job of a queue belong to no share."""
        ...

    def take(self, job_ids: Sequence[str]) -> list[str]:
        """Those of these jobs that no other session is writing, in their order; nobody else may take them now."""
        ...
