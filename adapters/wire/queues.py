"""Queues over HTTP: their limits, holds and counts, and what is asked of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, WithJsonSchema

from jobledger.adapters.wire.base import Instant, Seconds, Wire
from jobledger.adapters.wire.controls import ControlIn
from jobledger.adapters.wire.histories import EventOut
from jobledger.adapters.wire.jobs import RequestOut
from jobledger.domain.bounds import require_span
from jobledger.domain.job import Request
from jobledger.domain.queue_events import QueueLimits
from jobledger.domain.queues.answers import QueueReceipt, QueueStatus
from jobledger.domain.queues.state import COUNT_MAX
from jobledger.projections.queues import QueuePage, QueueWindow

Count = Annotated[int, WithJsonSchema({"type": "integer", "minimum": 1, "maximum": COUNT_MAX})]
LIMITS: dict[str, Any] = {
    "running_max": 20,
    "starts_max": 100,
    "starts_span_s": 60,
    "share_by": "owner",
    "running_max_per_share": 5,
    "ageing_s": None,
}
STANDING: dict[str, Any] = {
    "name": "mail",
    "namespace": "default",
    "limits": LIMITS,
    "hold": None,
    "namespace_hold": None,
    "is_held": False,
    "queued": 140,
    "running": 12,
    "shares": {"team-a": 5, "team-b": 7},
    "starts_left": 31,
    "sequence": 2,
    "head": "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef",
    "updated_at": "2026-06-01T12:00:00Z",
}


class QueueLimitsOut(Wire):
    """What may run of a queue at once over all hosts, and in which order; null: not limited."""

    running_max: int | None
    starts_max: int | None
    starts_span_s: Seconds | None
    share_by: str | None
    running_max_per_share: int | None
    ageing_s: Seconds | None

    @classmethod
    def of(cls, value: object) -> Self:
        """Limits as the store gives them."""
        limits: Any = value
        return cls(
            running_max=limits.running_max,
            starts_max=limits.starts_max,
            starts_span_s=_seconds(limits.starts_span),
            share_by=limits.share_by,
            running_max_per_share=limits.running_max_per_share,
            ageing_s=_seconds(limits.ageing),
        )

    def answer(self) -> QueueLimits:
        """The limits as the store gives them."""
        return QueueLimits(
            running_max=self.running_max,
            starts_max=self.starts_max,
            starts_span=_span(self.starts_span_s),
            share_by=self.share_by,
            running_max_per_share=self.running_max_per_share,
            ageing=_span(self.ageing_s),
        )


class LimitIn(ControlIn):
    """The limits that a queue is given in the place of those that it has; without any, it is not limited."""

    model_config = ConfigDict(json_schema_extra={"examples": [LIMITS | {"reason": "the mail server asks for it"}]})

    running_max: Count | None = None
    starts_max: Count | None = None
    starts_span_s: Seconds | None = None
    share_by: str | None = Field(default=None, description="`owner`, `kind` or `label:NAME`.")
    running_max_per_share: Count | None = None
    ageing_s: Seconds | None = None

    @staticmethod
    def to_send(by: str, reason: str, limits: dict[str, Any]) -> dict[str, Any]:
        """The body that asks for limits; spans are checked here, as they cannot travel as they are.

        Raises:
            InvalidRequestError: a span is none.
        """
        body = {name: value for name, value in limits.items() if name not in _SPANS}
        for name in _SPANS:
            given = limits.get(name)
            body[f"{name}_s"] = None if given is None else require_span(name, given).total_seconds()
        return body | {"by": by, "reason": reason}

    def limits(self) -> dict[str, Any]:
        """The limits as the store takes them."""
        named = {name: getattr(self, name) for name in ("running_max", "starts_max", "share_by")}
        named["running_max_per_share"] = self.running_max_per_share
        return named | {name: getattr(self, f"{name}_s") for name in _SPANS}


_SPANS = ("starts_span", "ageing")


class QueueOut(Wire):
    """A queue now, or the whole namespace (`name` is null, and nothing is counted)."""

    model_config = ConfigDict(json_schema_extra={"examples": [STANDING]})

    name: str | None
    namespace: str
    limits: QueueLimitsOut
    hold: RequestOut | None
    namespace_hold: RequestOut | None
    is_held: bool
    queued: int
    running: int
    shares: dict[str, int]
    starts_left: int | None
    sequence: int
    head: str
    updated_at: Instant | None

    @classmethod
    def of(cls, value: object) -> Self:
        """A status as the store gives it."""
        status: Any = value
        given: dict[str, Any] = {name: getattr(status, name) for name in cls.model_fields}
        given |= {"limits": QueueLimitsOut.of(status.limits), "shares": dict(status.shares)}
        for name in ("hold", "namespace_hold"):
            given[name] = RequestOut.of(given[name]) if given[name] else None
        return cls(**given)

    def answer(self) -> QueueStatus:
        """The status as the store gives it."""
        values: dict[str, Any] = dict(self)
        del values["is_held"]
        values["limits"] = self.limits.answer()
        values["hold"] = Request(**dict(self.hold)) if self.hold else None
        values["namespace_hold"] = Request(**dict(self.namespace_hold)) if self.namespace_hold else None
        return QueueStatus(**values)


class QueuePageOut(Wire):
    """Queues by name; `next_after` is null on the last page; `whole` is the whole namespace itself."""

    queues: list[QueueOut]
    next_after: str | None
    whole: QueueOut

    @classmethod
    def of(cls, value: object) -> Self:
        """A page as the store gives it."""
        page: Any = value
        queues = [QueueOut.of(each) for each in page.queues]
        return cls(queues=queues, next_after=page.next_after, whole=QueueOut.of(page.namespace))

    def answer(self) -> QueuePage:
        """The page as the store gives it."""
        return QueuePage(tuple(each.answer() for each in self.queues), self.next_after, self.whole.answer())


class QueueReceiptOut(Wire):
    """What a command left behind; `reused`: it stood like that already."""

    name: str | None
    sequence: int
    reused: bool

    def answer(self) -> QueueReceipt:
        """The receipt as the store gives it."""
        return QueueReceipt(self.name, self.sequence, self.reused)


class QueueWindowOut(Wire):
    """A slice of a queue's events; `next_after` goes on, `head` is the last sequence."""

    events: list[EventOut]
    next_after: int
    head: int

    @classmethod
    def of(cls, value: object) -> Self:
        """A window as the store gives it."""
        window: Any = value
        events = [EventOut.of(event) for event in window.events]
        return cls(events=events, next_after=window.next_after, head=window.head)

    def answer(self) -> QueueWindow:
        """The window as the store gives it."""
        return QueueWindow(tuple(each.answer() for each in self.events), self.next_after, self.head)


def _seconds(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()


def _span(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
