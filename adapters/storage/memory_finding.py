"""What a store in memory finds for workers and for recovery."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from typing_extensions import override

from jobledger.adapters.storage.memory_reading import MemoryReader
from jobledger.adapters.storage.memory_tables import LEASES, STATUS, LiveRow, StatusRow
from jobledger.domain.decisions.archiving import archive_at
from jobledger.domain.decisions.claiming import Claimable
from jobledger.domain.ports import Due

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime


class MemoryFinder(MemoryReader):
    """Finds jobs among the rows of one view."""

    def candidates(
        self, namespace: str, *, queues: Sequence[str], kinds: Sequence[str] | None, limit: int
    ) -> list[str]:
        """Jobs that a claim may take now: larger priority first, then earlier ``ready_at``, then earlier position."""
        now = self.now()
        rows = [
            row
            for row in self._open_in(namespace, queues)
            if (kinds is None or row.job.kind in kinds) and self._is_claimable(row, now)
        ]
        rows.sort(key=lambda row: (-row.job.priority, row.job.ready_at, row.position))
        return [row.job.id for row in rows[:limit]]

    @override
    def _is_claimable(self, row: StatusRow, now: datetime) -> bool:
        match row.claimable:
            case Claimable.NEVER | Claimable.FINISHED:
                return False
            case Claimable.WHEN_READY:
                return row.job.ready_at <= now
            case Claimable.WHEN_DEAD:
                live = self._view.get(LEASES, row.job.id)
                return live is not None and self._is_dead(row.job.namespace, live, now)
            case Claimable.WHEN_FENCED:
                live = self._view.get(LEASES, row.job.id)
                return live is not None and self._is_epoch_stale(row.job.namespace, live)
            case _:
                assert_never(row.claimable)

    def _is_dead(self, namespace: str, live: LiveRow, now: datetime) -> bool:
        return live.lease.expires_at <= now or self._is_epoch_stale(namespace, live)

    def dead(self, namespace: str, *, after: str, limit: int) -> list[str]:
        """Running jobs whose lease is not live, by id from behind ``after``."""
        now = self.now()
        found = [
            job_id
            for job_id, live in self._view.items(LEASES)
            if job_id > after and live.namespace == namespace and self._is_dead(namespace, live, now)
        ]
        return sorted(found)[:limit]

    def expired(self, namespace: str, *, after: Due | None, limit: int) -> list[Due]:
        """Ended jobs whose ``keep_finished`` is over by the store's clock, the longest first, from behind ``after``."""
        now = self.now()
        rows = (row for _, row in self._view.items(STATUS) if row.claimable is Claimable.FINISHED)
        found = [Due(at, row.job.id) for row in rows if row.job.namespace == namespace and (at := archive_at(row.job))]
        return sorted(due for due in found if due.at <= now and (after is None or due > after))[:limit]

    def ended(self, namespace: str, *, until: datetime, after: int, limit: int) -> list[tuple[int, str]]:
        """Ended jobs that are not archived and had their last event by ``until``, by position from behind ``after``."""
        rows = (row for _, row in self._view.items(STATUS) if row.job.namespace == namespace and row.position > after)
        ended = (row for row in rows if row.job.is_terminal and not row.job.archived and row.job.updated_at <= until)
        return sorted((row.position, row.job.id) for row in ended)[:limit]

    def _is_epoch_stale(self, namespace: str, live: LiveRow) -> bool:
        return self.group(namespace, live.group).epoch != live.epoch
