"""``RemoteStore.queues``: limits and holds of queues over HTTP, with the methods of the store's own queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobledger.adapters.remote.calling import ANY, Line
from jobledger.adapters.storage.entropy import SystemEntropy
from jobledger.adapters.wire.histories import EventOut, VerificationOut
from jobledger.adapters.wire.queues import LimitIn, QueueOut, QueuePageOut, QueueReceiptOut, QueueWindowOut
from jobledger.adapters.wire.schedules import MendedOut
from jobledger.domain.bounds import INTEGER_MAX, PAGE_MAX, require_integer, require_text
from jobledger.domain.store.queueing import require_expected_queue

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from jobledger.domain.history import RecordedEvent
    from jobledger.domain.queues.answers import QueueReceipt, QueueStatus
    from jobledger.projections.audit import Verification
    from jobledger.projections.queues import QueuePage, QueueWindow


class RemoteQueues:
    """Limit, hold, release, and every question; raises what ``Queues`` raises."""

    def __init__(self, line: Line) -> None:
        """Send commands over this line."""
        self._line = line
        self._entropy = SystemEntropy()

    # Commands ---------------------------------------------------------------------------------------------------------

    def limit(
        self,
        name: str,
        *,
        by: str,
        reason: str,
        running_max: int | None = None,
        starts_max: int | None = None,
        starts_span: timedelta | float | None = None,
        share_by: str | None = None,
        running_max_per_share: int | None = None,
        ageing: timedelta | float | None = None,
        expected_sequence: int | None = None,
        command_id: str | None = None,
    ) -> QueueReceipt:
        """Give a queue these limits in the place of those that it has; see ``Queues.limit``."""
        limits = {
            "running_max": running_max,
            "starts_max": starts_max,
            "starts_span": starts_span,
            "share_by": share_by,
            "running_max_per_share": running_max_per_share,
            "ageing": ageing,
        }
        body = LimitIn.to_send(by, reason, limits)
        return self._ask("limit", require_text("queue", name), body, expected_sequence, command_id)

    def hold(
        self,
        name: str | None,
        *,
        by: str,
        reason: str,
        expected_sequence: int | None = None,
        command_id: str | None = None,
    ) -> QueueReceipt:
        """Let no attempt of a queue's jobs start; see ``Queues.hold``."""
        return self._ask("hold", name, {"by": by, "reason": reason}, expected_sequence, command_id)

    def release(
        self,
        name: str | None,
        *,
        by: str,
        reason: str,
        expected_sequence: int | None = None,
        command_id: str | None = None,
    ) -> QueueReceipt:
        """Take the hold of a queue away; see ``Queues.release``."""
        return self._ask("release", name, {"by": by, "reason": reason}, expected_sequence, command_id)

    def rebuild(self) -> tuple[str, ...]:
        """Refold every queue's row from its events; see ``Queues.rebuild``."""
        found = self._line.post(MendedOut, "/queues/rebuild", command_id=self._entropy.new_id())
        return tuple(found.mended)

    def _ask(
        self, control: str, name: str | None, body: dict[str, Any], expected: int | None, command_id: str | None
    ) -> QueueReceipt:
        sequence = require_expected_queue(expected)
        answered = self._line.post(
            QueueReceiptOut,
            f"/queue/{control}",
            body,
            query=_named(name),
            command_id=self._entropy.new_id() if command_id is None else command_id,
            headers={"If-Match": ANY if sequence is None else f'"0-{sequence}"'},
        )
        return answered.answer()

    # Questions --------------------------------------------------------------------------------------------------------

    def get(self, name: str | None) -> QueueStatus:
        """A queue now, or the whole namespace; see ``Queues.get``."""
        return self._line.get(QueueOut, "/queue", **_named(name)).answer()

    def list(self, *, after: str | None = None, limit: int = 100) -> QueuePage:
        """Queues by name; see ``Queues.list``."""
        size = min(require_integer("limit", limit, 1, INTEGER_MAX), PAGE_MAX)
        return self._line.get(QueuePageOut, "/queues", after=after, limit=size).answer()

    def events(self, name: str | None, *, after: int = 0, limit: int = 100) -> QueueWindow:
        """A slice of the events of a queue, or of the whole namespace; see ``Queues.events``."""
        size = min(require_integer("limit", limit, 1, INTEGER_MAX), PAGE_MAX)
        query = _named(name) | {"after": require_integer("after", after, 0, INTEGER_MAX), "limit": size}
        return self._line.get(QueueWindowOut, "/queue/events", **query).answer()

    def history(self, name: str | None) -> Iterator[RecordedEvent]:
        """Every event of a queue, or of the whole namespace, streamed; see ``Queues.history``."""
        for line in self._line.lines("/queue/history", **_named(name)):
            yield EventOut.model_validate_json(line, strict=False).answer()

    def verify(self, name: str | None) -> Verification:
        """Check the whole history and the row of a queue; see ``Queues.verify``."""
        return self._line.get(VerificationOut, "/queue/verification", **_named(name)).answer()


def _named(name: str | None) -> dict[str, Any]:
    """The query that names a queue; the whole namespace has no name."""
    return {} if name is None else {"name": require_text("queue", name)}
