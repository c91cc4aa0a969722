"""Decisions about a queue: of operators, who limit, hold and release it, and whether a claim of one job is let in."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from jobledger.domain.bounds import require_integer, require_span, require_text
from jobledger.domain.errors import (
    HoldInForceError,
    InvalidRequestError,
    NotHeldError,
    QueueHeldError,
    QueueLimitedError,
    SequenceMovedError,
)
from jobledger.domain.job import State
from jobledger.domain.queue_events import UNLIMITED, QueueEvent, QueueHeld, QueueLimited, QueueLimits, QueueReleased
from jobledger.domain.queues.choosing import Usage, Waiting, remember, room, share_of, starts_left
from jobledger.domain.queues.state import COUNT_MAX, SPAN_MAX, SPAN_MIN, QueueState, is_divider, queue_stream

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from jobledger.domain.job import Job


def require_limits(
    *,
    running_max: int | None = None,
    starts_max: int | None = None,
    starts_span: timedelta | float | None = None,
    share_by: str | None = None,
    running_max_per_share: int | None = None,
    ageing: timedelta | float | None = None,
) -> QueueLimits:
    """Check limits; spans may be numbers of seconds.

    Raises:
        InvalidRequestError: a number or span is out of its range, or one misses the other that it needs.
        UnstorableValueError: the name of a label holds what no store may hold.
    """
    if (starts_max is None) != (starts_span is None):
        raise InvalidRequestError("starts_span", "a rate is a number and a span: give starts_max and starts_span both")
    if share_by is not None:
        require_text("share_by", share_by)
        if not is_divider(share_by):
            problem = f"a queue is divided by 'owner', 'kind' or 'label:NAME', not by {share_by!r:.50}"
            raise InvalidRequestError("share_by", problem)
    elif running_max_per_share is not None:
        raise InvalidRequestError("running_max_per_share", "say by what the queue is divided: give share_by too")
    return QueueLimits(
        running_max=_count("running_max", running_max),
        starts_max=_count("starts_max", starts_max),
        starts_span=_span("starts_span", starts_span),
        share_by=share_by,
        running_max_per_share=_count("running_max_per_share", running_max_per_share),
        ageing=_span("ageing", ageing),
    )


def _count(field: str, given: Any) -> int | None:
    return None if given is None else require_integer(field, given, 1, COUNT_MAX)


def _span(field: str, given: timedelta | float | None) -> timedelta | None:
    return None if given is None else require_span(field, given, SPAN_MIN, SPAN_MAX)


def limit_queue(
    state: QueueState | None,
    limits: QueueLimits,
    *,
    namespace: str,
    name: str,
    by: str,
    reason: str,
    now: datetime,
    expected_sequence: int | None = None,
) -> list[QueueEvent]:
    """Give a queue these limits in the place of those that it has (an empty list: it has just these).

    Raises:
        SequenceMovedError: somebody acted on it meanwhile.
    """
    _require_expected(state, namespace, name, expected_sequence)
    if limits == (state.limits if state else UNLIMITED):
        return []
    return [QueueLimited(at=now, namespace=namespace, queue=name, limits=limits, by=by, reason=reason)]


def hold_queue(
    state: QueueState | None,
    *,
    namespace: str,
    name: str,
    by: str,
    reason: str,
    now: datetime,
    expected_sequence: int | None = None,
) -> list[QueueEvent]:
    """Place a stop sign: no attempt starts until it is released (an empty list: the same operator holds it already).

    Raises:
        HoldInForceError: somebody else holds it; SequenceMovedError: somebody acted on it meanwhile.
    """
    _require_expected(state, namespace, name, expected_sequence)
    if state is not None and state.hold is not None:
        if state.hold.by == by:
            return []
        raise HoldInForceError(state.stream, state.hold.by, state.hold.reason)
    return [QueueHeld(at=now, namespace=namespace, queue=name, by=by, reason=reason)]


def release_queue(
    state: QueueState | None,
    *,
    namespace: str,
    name: str,
    by: str,
    reason: str,
    now: datetime,
    expected_sequence: int | None = None,
) -> list[QueueEvent]:
    """Take the stop sign away (an empty list: the same operator released it last).

    Raises:
        NotHeldError: no hold is in force; SequenceMovedError: somebody acted on it meanwhile.
    """
    _require_expected(state, namespace, name, expected_sequence)
    if state is None or state.hold is None:
        if state is not None and state.released_by == by:
            return []
        raise NotHeldError(queue_stream(namespace, name))
    return [QueueReleased(at=now, namespace=namespace, queue=name, by=by, reason=reason)]


def _require_expected(state: QueueState | None, namespace: str, name: str, expected: int | None) -> None:
    current = state.sequence if state else 0
    if expected is not None and expected != current:
        raise SequenceMovedError(queue_stream(namespace, name), expected, current)


# The claim of one job -------------------------------------------------------------------------------------------------


def require_unheld(rules: Mapping[str, QueueState], job: Job) -> None:
    """Require that neither the job's queue nor its namespace is held.

    Raises:
        QueueHeldError: one of them is.
    """
    for name in ("", job.queue):
        if (state := rules.get(name)) is not None and state.hold is not None:
            raise QueueHeldError(job.id, name, state.hold.by, state.hold.reason)


def admit(limits: QueueLimits, usage: Usage, job: Job, *, running: Mapping[str, int], now: datetime) -> Usage:
    """What is to be remembered of the start of a job's attempt; one that is taken over has its place already.

    Raises:
        QueueLimitedError: a limit of its queue is reached; names it.
    """
    if not starts_left(limits, usage, now, 1):
        raise QueueLimitedError(job.id, job.queue, "starts_max", limits.starts_max or 0)
    share, is_waiting = share_of(job, limits.share_by), job.state is not State.RUNNING
    if is_waiting:
        if not room(limits, running, 1):
            raise QueueLimitedError(job.id, job.queue, "running_max", limits.running_max or 0)
        most = limits.running_max_per_share
        if most is not None and running.get(share, 0) >= most:
            raise QueueLimitedError(job.id, job.queue, "running_max_per_share", most)
    return remember(limits, usage, [Waiting(job.id, job.priority, 0, 0, share, is_waiting)], now)
