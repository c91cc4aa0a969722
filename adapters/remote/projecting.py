"""What the feed was folded into, asked over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from jobledger.adapters.wire.projections import (
    OperatorsOut,
    PacesOut,
    ProjectionOut,
    ProjectionsOut,
    TotalsOut,
    WorkersOut,
)
from jobledger.domain.bounds import INTEGER_MAX, PAGE_MAX, require_integer, require_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobledger.adapters.remote.calling import Line
    from jobledger.projections.projected import OperatorPage, Paces, TotalsPage, WorkerPage
    from jobledger.projections.standings import ProjectionStatus


class RemoteProjections:
    """The questions of ``JobStore`` to its projections, over a line to a server."""

    _line: Line
    _id: Callable[[str | None], str]

    def totals(
        self,
        *,
        owner: str | None = None,
        queue: str | None = None,
        kind: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> TotalsPage:
        """Totals by queue and kind; see ``JobStore.totals``."""
        asked = _asked(owner=owner, queue=queue, kind=kind)
        return self._line.get(TotalsOut, "/totals", **asked, cursor=cursor, limit=_size(limit)).answer()

    def paces(
        self,
        *,
        per: Literal["minute", "day"] = "minute",
        last: int = 60,
        owner: str | None = None,
        queue: str | None = None,
        kind: str | None = None,
    ) -> Paces:
        """What happened in each of the last minutes or days; see ``JobStore.paces``."""
        asked = _asked(owner=owner, queue=queue, kind=kind)
        return self._line.get(PacesOut, "/totals/paces", per=per, last=last, **asked).answer()

    def workers(
        self, *, owner: str | None = None, holding: bool | None = None, cursor: str | None = None, limit: int = 50
    ) -> WorkerPage:
        """Workers, those that were seen last first; see ``JobStore.workers``."""
        asked = _asked(owner=owner)
        page = self._line.get(WorkersOut, "/workers", **asked, holding=holding, cursor=cursor, limit=_size(limit))
        return page.answer()

    def operators(
        self, *, owner: str | None = None, by: str | None = None, cursor: str | None = None, limit: int = 100
    ) -> OperatorPage:
        """What operators asked, the newest first; see ``JobStore.operators``."""
        asked = _asked(owner=owner, by=by)
        return self._line.get(OperatorsOut, "/operators", **asked, cursor=cursor, limit=_size(limit)).answer()

    def projections(self) -> tuple[ProjectionStatus, ...]:
        """How every projection stands; see ``JobStore.projections``."""
        return tuple(each.answer() for each in self._line.get(ProjectionsOut, "/projections").projections)

    def run_projections(self, name: str | None = None) -> tuple[ProjectionStatus, ...]:
        """Let the server fold what the feed has; see ``JobStore.run_projections``."""
        body = {"projection": name}
        found = self._line.post(ProjectionsOut, "/projections/run", body, command_id=self._id(None))
        return tuple(each.answer() for each in found.projections)

    def release_projection(self, name: str) -> ProjectionStatus:
        """Let a parked projection read on; see ``JobStore.release_projection``."""
        body = {"projection": name}
        return self._line.post(ProjectionOut, "/projections/release", body, command_id=self._id(None)).answer()


def _asked(**filters: str | None) -> dict[str, Any]:
    return {name: value if value is None else require_text(name, value) for name, value in filters.items()}


def _size(limit: int) -> int:
    return min(require_integer("limit", limit, 1, INTEGER_MAX), PAGE_MAX)
