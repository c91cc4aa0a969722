"""Which jobs of a limited queue may start now: counted and chosen from what a store found, under the queue's lock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

from jobledger.domain.events import STORED_SHAPE
from jobledger.domain.queues.state import LABEL_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jobledger.domain.job import Job
    from jobledger.domain.queue_events import QueueLimits

BUCKETS: Final = 100
"""Starts are counted in so many steps of the span: the price of a limit does not grow with it, its wait by 1 %."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that a claim may take, with what decides its turn.

    ``share`` is empty where the queue is not divided; ``is_waiting`` is false of one that would be taken over.
    """

    job_id: str
    priority: int
    ready_at_us: int
    position: int
    share: str = ""
    is_waiting: bool = True


@dataclass(frozen=True, slots=True)
class Usage:
    """What a limited queue remembers from claim to claim; it is liveness, and no history.

    ``starts``: how many attempts started, each with the end of its step of the span in microseconds since 1970.
    ``last_share``: the share that was served last.
    """

    __pydantic_config__: ClassVar[Any] = STORED_SHAPE
    starts: tuple[tuple[int, int], ...] = ()
    last_share: str = ""


def share_of(job: Job, share_by: str | None) -> str:
    """The share that a job belongs to; those without the label share the one without a name."""
    if share_by is None:
        return ""
    if share_by.startswith(LABEL_PREFIX):
        return job.labels.get(share_by.removeprefix(LABEL_PREFIX), "")
    return job.owner if share_by == "owner" else job.kind


def starts_left(limits: QueueLimits, usage: Usage, now: datetime, most: int) -> int:
    """How many attempts may still start, at most ``most``."""
    if limits.starts_max is None or limits.starts_span is None:
        return most
    now_us, span_us = _us(now), limits.starts_span // _MICROSECOND
    counted = sum(count for end_us, count in usage.starts if end_us + span_us > now_us)
    return max(0, min(most, limits.starts_max - counted))


def started(limits: QueueLimits, usage: Usage, now: datetime, count: int) -> Usage:
    """Count starts. Each counts until the end of its step is a whole span ago, so that no window ever holds more."""
    if limits.starts_span is None or not count:
        return usage
    now_us, span_us = _us(now), limits.starts_span // _MICROSECOND
    step_us = max(1, span_us // BUCKETS)
    end_us = (now_us // step_us + 1) * step_us
    kept = [(end, many) for end, many in usage.starts if end + span_us > now_us]
    if kept and kept[-1][0] == end_us:
        kept[-1] = (end_us, kept[-1][1] + count)
    else:
        kept.append((end_us, count))
    return replace(usage, starts=tuple(kept))


def room(limits: QueueLimits, running: Mapping[str, int], most: int) -> int:
    """How many more jobs may run, at most ``most``; one on a dead lease counts until it was recovered."""
    if limits.running_max is None:
        return most
    return max(0, min(most, limits.running_max - sum(running.values())))


def full_shares(limits: QueueLimits, running: Mapping[str, int]) -> tuple[str, ...]:
    """The shares of which no more jobs may run."""
    most = limits.running_max_per_share
    return () if most is None else tuple(sorted(share for share, count in running.items() if count >= most))


def choose(
    limits: QueueLimits,
    usage: Usage,
    *,
    running: Mapping[str, int],
    dead: Sequence[Waiting],
    waiting: Sequence[Waiting],
    wanted: int,
    now: datetime,
) -> list[Waiting]:
    """The jobs whose attempts may start now, in their order.

    What runs on a dead lease goes first: it has its place already, and only the rate holds it back. Then what waits, as
    far as there is room: by its priority, which grows with the wait, or share by share in turn.

    Args:
        limits: of the queue.
        usage: what the queue remembers.
        running: how many jobs run, by share, those on dead leases among them.
        dead: running jobs that a claim may take over.
        waiting: the best of what is due, of each share.
        wanted: how many at most.
        now: the store's time.
    """
    left = starts_left(limits, usage, now, wanted)
    chosen = sorted(dead, key=lambda each: _turn(limits, each))[:left]
    free = room(limits, running, left - len(chosen))
    if limits.share_by is None:
        return chosen + sorted(waiting, key=lambda each: _turn(limits, each))[:free]
    return chosen + list(_in_turn(limits, usage, running, waiting))[:free]


def remember(limits: QueueLimits, usage: Usage, taken: Sequence[Waiting], now: datetime) -> Usage:
    """What is to be remembered of jobs that were taken: that they start, and whose turn it was."""
    shares = [each.share for each in taken if each.is_waiting]
    served = replace(usage, last_share=shares[-1]) if limits.share_by is not None and shares else usage
    return started(limits, served, now, len(taken))


def _turn(limits: QueueLimits, each: Waiting) -> tuple[int, ...]:
    """The place of a job in its queue. With ageing a priority is worth so much waiting, whatever the time is now."""
    order = (-each.priority, each.ready_at_us, each.position)
    if limits.ageing is None:
        return order
    return (each.ready_at_us - each.priority * (limits.ageing // _MICROSECOND), *order)


def _in_turn(
    limits: QueueLimits, usage: Usage, running: Mapping[str, int], waiting: Sequence[Waiting]
) -> Iterator[Waiting]:
    """One job of each share after the other, beginning behind the share that was served last."""
    shares: dict[str, list[Waiting]] = {}
    for each in sorted(waiting, key=lambda each: _turn(limits, each)):
        shares.setdefault(each.share, []).append(each)
    most = limits.running_max_per_share
    if most is not None:
        shares = {share: jobs[: max(0, most - running.get(share, 0))] for share, jobs in shares.items()}
    order = sorted(shares, key=lambda share: (share <= usage.last_share, share))
    for place in range(max((len(jobs) for jobs in shares.values()), default=0)):
        yield from (shares[share][place] for share in order if place < len(shares[share]))


def _us(now: datetime) -> int:
    return (now - _EPOCH) // _MICROSECOND
