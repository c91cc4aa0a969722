"""Queues in a store in memory: their rows, and what runs and waits in a limited one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from jobledger.adapters.storage.memory_tables import LEASES, OPEN, QUEUE_USAGE, QUEUES, STATUS, StatusRow, View
from jobledger.adapters.storage.queue_rows import decode_queue, decode_usage
from jobledger.adapters.storage.rows import to_us
from jobledger.domain.decisions.claiming import Claimable
from jobledger.domain.job import State
from jobledger.domain.queues.choosing import Usage, Waiting, share_of
from jobledger.domain.queues.ports import LoadedQueue

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from jobledger.domain.ports import Clock
    from jobledger.domain.queue_events import QueueLimits
    from jobledger.domain.queues.state import QueueState


class MemoryQueueReader:
    """Reads queues in one view."""

    _view: View
    _clock: Clock

    def queues(self, namespace: str, names: Sequence[str]) -> dict[str, LoadedQueue]:
        """Queues by name that were ever limited or held; others are missing."""
        rows = {name: self._view.get(QUEUES, (namespace, name)) for name in names}
        return {
            name: LoadedQueue(decode_queue(namespace, name, row.state.sequence, row.encoded), row.head)
            for name, row in rows.items()
            if row is not None
        }

    def queue_rules(self, namespace: str, group: str, names: Sequence[str]) -> dict[str, QueueState]:
        """What claims of these queues, and of the whole namespace, have to respect: those that have a row."""
        del group  # reading it later costs nothing here
        return {name: loaded.state for name, loaded in self.queues(namespace, ["", *names]).items()}

    def queue_names(self, namespace: str, *, after: str, limit: int) -> list[str]:
        """The names of queues that have jobs, or were ever limited or held, in order from behind ``after``."""
        names = {row.job.queue for _, row in self._view.items(STATUS) if row.job.namespace == namespace}
        names |= {name for (space, name), _ in self._view.items(QUEUES) if space == namespace}
        return sorted(name for name in names if name > after)[:limit]

    def is_queue_found_by(self, state: QueueState, head: str) -> bool:
        """Whether the row that the store finds a queue by is that of this state."""
        row = self._view.get(QUEUES, (state.namespace, state.name))
        return row is not None and (row.state, row.head) == (state, head)

    def queue_usage(self, namespace: str, name: str) -> Usage:
        """What a limited queue remembers."""
        encoded = self._view.get(QUEUE_USAGE, (namespace, name))
        return decode_usage(namespace, name, encoded) if encoded is not None else Usage()

    def running_in(self, namespace: str, queue: str, share_by: str | None) -> dict[str, int]:
        """How many jobs of a queue run, by share, also those on leases that are not live."""
        rows = [self._view.get(STATUS, job_id) for job_id, _ in self._view.items(LEASES)]
        jobs = [row.job for row in rows if row is not None and row.job.state is State.RUNNING]
        mine = [job for job in jobs if (job.namespace, job.queue) == (namespace, queue)]
        return dict(Counter(share_of(job, share_by) for job in mine))

    def dead_in(self, namespace: str, queue: str, kinds: Sequence[str] | None, limit: int) -> list[Waiting]:
        """Running jobs of a queue that a claim may take over, in the order of claims."""
        rows = self._claimable_in(namespace, queue, kinds)
        found = [_waiting(row, "", is_waiting=False) for row in rows if row.claimable is not Claimable.WHEN_READY]
        return sorted(found, key=_order)[:limit]

    def waiting_in(
        self, namespace: str, queue: str, kinds: Sequence[str] | None, limit: int, *, every_priority: bool
    ) -> list[Waiting]:
        """What waits in a queue and is due: all of it, which is no less than what is asked for."""
        del limit, every_priority
        rows = self._claimable_in(namespace, queue, kinds)
        return sorted((_waiting(row, "") for row in rows if row.claimable is Claimable.WHEN_READY), key=_order)

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
        """What waits in the shares of a divided queue that are not full: all of it, likewise."""
        del limit, after
        rows = self._claimable_in(namespace, queue, kinds)
        found = [
            _waiting(row, share_of(row.job, limits.share_by)) for row in rows if row.claimable is Claimable.WHEN_READY
        ]
        return sorted((each for each in found if each.share not in full), key=_order)

    def _claimable_in(self, namespace: str, queue: str, kinds: Sequence[str] | None) -> list[StatusRow]:
        now = self._clock.now()
        return [
            row
            for row in self._open_in(namespace, [queue])
            if (kinds is None or row.job.kind in kinds) and self._is_claimable(row, now)
        ]

    def _open_in(self, namespace: str, queues: Sequence[str]) -> Iterator[StatusRow]:
        rows = (row for _, row in self._view.items(OPEN))
        return (row for row in rows if row.job.namespace == namespace and row.job.queue in queues)

    def _is_claimable(self, row: StatusRow, now: datetime) -> bool:
        raise NotImplementedError


def _waiting(row: StatusRow, share: str, *, is_waiting: bool = True) -> Waiting:
    job = row.job
    return Waiting(job.id, job.priority, to_us(job.ready_at), row.position, share, is_waiting)


def _order(each: Waiting) -> tuple[int, int, int]:
    return (-each.priority, each.ready_at_us, each.position)
