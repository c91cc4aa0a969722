"""``RemoteStore.schedules``: recurring jobs over HTTP, with the methods of the store's own schedules."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from jobledger.adapters.remote.calling import ANY, Line
from jobledger.adapters.storage.entropy import SystemEntropy
from jobledger.adapters.wire.histories import EventOut, VerificationOut
from jobledger.adapters.wire.jobs import CreateReceiptOut
from jobledger.adapters.wire.schedules import (
    BackfillOut,
    DifferenceOut,
    FiringOut,
    MendedOut,
    NextDueOut,
    ScheduleIn,
    ScheduleOut,
    SchedulePageOut,
    ScheduleReceiptOut,
    ScheduleWindowOut,
    UpcomingOut,
)
from jobledger.domain.bounds import PAGE_MAX, require_instant, require_integer, require_text
from jobledger.domain.errors import InvalidRequestError
from jobledger.domain.schedules.definition import Schedule, require_schedule_name
from jobledger.domain.store.base import require_expected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobledger.domain.answers import CreateReceipt
    from jobledger.domain.history import RecordedEvent
    from jobledger.domain.schedules.answers import BackfillReceipt, FiringReport, ScheduleReceipt, ScheduleStatus
    from jobledger.projections.audit import Verification
    from jobledger.projections.schedules import ScheduleDifference, SchedulePage, ScheduleWindow

INTEGER_MAX = 2**63 - 1


class RemoteSchedules:
    """Put, hold, release, remove, trigger, backfill, fire, and every question; raises what ``Schedules`` raises."""

    def __init__(self, line: Line) -> None:
        """Send commands over this line."""
        self._line = line
        self._entropy = SystemEntropy()

    # Commands ---------------------------------------------------------------------------------------------------------

    def put(self, schedule: Schedule, *, by: str, command_id: str | None = None) -> ScheduleReceipt:
        """Begin a schedule, or change it; see ``Schedules.put``."""
        query, body = _definition(schedule)
        query["by"] = require_text("by", by)
        sent_id = self._id(command_id)
        return self._line.put(ScheduleReceiptOut, "/schedule", body, query=query, command_id=sent_id).answer()

    def hold(
        self, name: str, *, by: str, reason: str, expected_sequence: int | None = None, command_id: str | None = None
    ) -> ScheduleReceipt:
        """Place a stop sign; see ``Schedules.hold``."""
        return self._ask("hold", name, by, reason, expected_sequence, command_id)

    def release(
        self, name: str, *, by: str, reason: str, expected_sequence: int | None = None, command_id: str | None = None
    ) -> ScheduleReceipt:
        """Take the stop sign away; see ``Schedules.release``."""
        return self._ask("release", name, by, reason, expected_sequence, command_id)

    def remove(
        self, name: str, *, by: str, reason: str, expected_sequence: int | None = None, command_id: str | None = None
    ) -> ScheduleReceipt:
        """End a schedule; see ``Schedules.remove``."""
        return self._ask("remove", name, by, reason, expected_sequence, command_id)

    def trigger(self, name: str, *, by: str, reason: str, command_id: str | None = None) -> CreateReceipt:
        """Make an occurrence now, beside the plan; see ``Schedules.trigger``."""
        body = {"by": by, "reason": reason}
        sent_id, query = self._id(command_id), _named(name)
        return self._line.post(CreateReceiptOut, "/schedule/trigger", body, query=query, command_id=sent_id).answer()

    def backfill(self, name: str, first: datetime, last: datetime, *, by: str, reason: str) -> BackfillReceipt:
        """Make the jobs of past instants; see ``Schedules.backfill``."""
        body = {
            "first": require_instant("first", first).isoformat(),
            "last": require_instant("last", last).isoformat(),
            "by": by,
            "reason": reason,
        }
        return self._line.post(BackfillOut, "/schedule/backfill", body, query=_named(name), command_id=None).answer()

    def fire_due(self, limit: int = 10_000) -> FiringReport:
        """Settle every schedule that is due; see ``Schedules.fire_due``. It is safe to repeat, and repeated."""
        return self._line.post(FiringOut, "/schedules/fire", {"limit": limit}, command_id=self._id(None)).answer()

    def rebuild(self) -> tuple[str, ...]:
        """Refold every schedule's row from its events; see ``Schedules.rebuild``."""
        return tuple(self._line.post(MendedOut, "/schedules/rebuild", command_id=self._id(None)).mended)

    def _ask(
        self, control: str, name: str, by: str, reason: str, expected: int | None, command_id: str | None
    ) -> ScheduleReceipt:
        sequence = require_expected(expected)
        headers = {"If-Match": ANY if sequence is None else f'"0-{sequence}"'}
        answered = self._line.post(
            ScheduleReceiptOut,
            f"/schedule/{control}",
            {"by": by, "reason": reason},
            query=_named(name),
            command_id=self._id(command_id),
            headers=headers,
        )
        return answered.answer()

    def _id(self, command_id: str | None) -> str:
        return self._entropy.new_id() if command_id is None else command_id

    # Questions --------------------------------------------------------------------------------------------------------

    def get(self, name: str, *, at: int | datetime | None = None) -> ScheduleStatus:
        """A schedule now, or as it was; see ``Schedules.get``."""
        if at is not None and type(at) is not int and not isinstance(at, datetime):
            raise InvalidRequestError("at", f"a sequence or an instant is needed, not {type(at).__name__}")
        place = require_instant("at", at).isoformat() if isinstance(at, datetime) else at
        return self._line.get(ScheduleOut, "/schedule", **_named(name), at=place).answer()

    def list(self, *, owner: str | None = None, after: str | None = None, limit: int = 100) -> SchedulePage:
        """Schedules by name; see ``Schedules.list``."""
        size = min(require_integer("limit", limit, 1, INTEGER_MAX), PAGE_MAX)
        return self._line.get(SchedulePageOut, "/schedules", owner=owner, after=after, limit=size).answer()

    def upcoming(self, schedule: str | Schedule, n: int = 5) -> tuple[datetime, ...]:
        """The next instants, of a schedule by its name or of one that is not put yet; see ``Schedules.upcoming``."""
        if not isinstance(schedule, Schedule):
            return self._line.get(UpcomingOut, "/schedule/upcoming", **_named(schedule), n=n).answer()
        query, body = _definition(schedule)
        sent_id, query = self._id(None), query | {"n": n}
        return self._line.post(UpcomingOut, "/schedule/preview", body, query=query, command_id=sent_id).answer()

    def compare(self, schedule: Schedule) -> ScheduleDifference:
        """What putting this schedule would do now; see ``Schedules.compare``."""
        query, body = _definition(schedule)
        sent_id = self._id(None)
        return self._line.post(DifferenceOut, "/schedule/compare", body, query=query, command_id=sent_id).answer()

    def events(self, name: str, *, after: int = 0, limit: int = 100) -> ScheduleWindow:
        """A slice of a schedule's events; see ``Schedules.events``."""
        size = min(require_integer("limit", limit, 1, INTEGER_MAX), PAGE_MAX)
        query = _named(name) | {"after": require_integer("after", after, 0, INTEGER_MAX), "limit": size}
        return self._line.get(ScheduleWindowOut, "/schedule/events", **query).answer()

    def history(self, name: str) -> Iterator[RecordedEvent]:
        """Every event of a schedule from the first on, streamed; see ``Schedules.history``."""
        for line in self._line.lines("/schedule/history", **_named(name)):
            yield EventOut.model_validate_json(line, strict=False).answer()

    def verify(self, name: str) -> Verification:
        """Check a schedule's whole history, its row and its jobs; see ``Schedules.verify``."""
        return self._line.get(VerificationOut, "/schedule/verification", **_named(name)).answer()

    def next_due(self, *, after: datetime | None = None) -> tuple[datetime | None, datetime]:
        """When the first schedule is due, and the store's own time; see ``Schedules.next_due``."""
        behind = None if after is None else require_instant("after", after).isoformat()
        found = self._line.get(NextDueOut, "/schedules/due", after=behind)
        return found.due_at, found.now


def _named(name: object) -> dict[str, Any]:
    return {"name": require_schedule_name(name)}


def _definition(schedule: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """A schedule as it travels: the query that names it, and the body."""
    if not isinstance(schedule, Schedule):
        raise InvalidRequestError("schedule", f"a Schedule is needed, not {type(schedule).__name__}")
    return _named(schedule.name), ScheduleIn.to_send(schedule)
