"""Finding jobs for a claim: what is free in queues that nobody limits, and what the limits of others let start."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from jobledger.domain.errors import StaleEpochError
from jobledger.domain.queues.choosing import choose, full_shares, remember, room, starts_left
from jobledger.domain.queues.operating import admit, require_unheld

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobledger.domain.job import Job
    from jobledger.domain.lease import Standing
    from jobledger.domain.ports import Reader, Session
    from jobledger.domain.queues.choosing import Waiting
    from jobledger.domain.queues.state import QueueState

SHARED_OUT_MAX: Final = 2_000
"""So many jobs that came since are assigned to their shares by each claim of a divided queue."""


@dataclass(slots=True)
class Search:
    """What a claim looks for, the jobs that it has tried, and how many it took; ``turn`` grows from claim to claim."""

    namespace: str
    group: str
    epoch: int | None
    queues: list[str]
    kinds: list[str] | None
    limit: int
    turn: int
    passed: set[str] = field(default_factory=set[str])
    taken: int = 0
    is_exhausted: bool = False
    """Whether less was free than wanted, so that another look would find nothing; a limited queue never says so."""

    @property
    def wanted(self) -> int:
        """How many more."""
        return self.limit - self.taken


def is_anything_free(reader: Reader, search: Search) -> bool:
    """Whether a claim would find something now; takes no lock.

    Raises:
        StaleEpochError: the group has moved on.
    """
    free, limited = _queues(reader, search)
    return bool(free and _unlimited(reader, search, free, 1)) or any(
        _may_start(reader, search, state) for state in limited
    )


def take_free(session: Session, search: Search) -> list[str]:
    """Jobs that were not tried yet and may be taken now, locked until the session ends; they count as tried.

    A limited queue is asked by itself. Where there are several, claims begin with one after the other, so that none
    waits for another; queues without limits are asked together, in the order of claims.

    Raises:
        StaleEpochError: the group has moved on.
    """
    free, limited = _queues(session, search)
    asked: list[Callable[[int], list[str]]] = [partial(_limited, session, search, state) for state in limited]
    if free:
        asked.append(partial(_unlimited, session, search, free))
    first = search.turn % len(asked) if asked else 0
    found: list[str] = []
    for ask in (*asked[first:], *asked[:first]):
        if search.wanted > len(found):
            found += ask(search.wanted - len(found))
    search.passed.update(found)
    search.is_exhausted = not limited and len(found) < search.wanted
    return found


def _queues(reader: Reader, search: Search) -> tuple[list[str], list[QueueState]]:
    """The queues that are not held: those without limits, and those that have some.

    Raises:
        StaleEpochError: the group has moved on.
    """
    rules = reader.queue_rules(search.namespace, search.group, search.queues)
    current = reader.group(search.namespace, search.group).epoch
    if search.epoch is not None and search.epoch != current:
        raise StaleEpochError(search.group, search.epoch, current)
    if not rules:
        return search.queues, []
    if "" in rules and rules[""].hold is not None:
        return [], []
    limited = [state for name, state in sorted(rules.items()) if name and state.hold is None and state.is_limited]
    passed = {name for name, state in rules.items() if state.hold is not None or state.is_limited}
    return [name for name in search.queues if name not in passed], limited


def _unlimited(reader: Reader, search: Search, queues: list[str], wanted: int) -> list[str]:
    # Those that were refused are asked for too, so that one that cannot be taken hides no other.
    asked = wanted + len(search.passed) - search.taken
    found = reader.candidates(search.namespace, queues=queues, kinds=search.kinds, limit=asked)
    return [job_id for job_id in found if job_id not in search.passed][:wanted]


def _may_start(reader: Reader, search: Search, state: QueueState) -> bool:
    """Whether the queue lets anything start, as far as that is seen without its lock."""
    limits, place = state.limits, (state.namespace, state.name)
    if not starts_left(limits, reader.queue_usage(*place), reader.now(), 1):
        return False
    asked = 1 + len(search.passed)
    if _untried(search, reader.dead_in(*place, search.kinds, asked)):
        return True
    running = reader.running_in(*place, limits.share_by)
    if not room(limits, running, 1):
        return False
    found = reader.waiting_in(*place, search.kinds, asked, every_priority=False)
    if limits.share_by is not None and not found:
        full = full_shares(limits, running)
        found = reader.shared_in(*place, search.kinds, asked, limits=limits, after="", full=full)
    return bool(_untried(search, found))


def _limited(session: Session, search: Search, state: QueueState, wanted: int) -> list[str]:
    """What the limits of a queue let start, under its lock; it counts as started, whatever becomes of it."""
    limits, place = state.limits, (state.namespace, state.name)
    usage = session.queue_usage(*place)
    running = session.running_in(*place, limits.share_by)
    asked = wanted + len(search.passed)
    dead = session.dead_in(*place, search.kinds, asked)
    if limits.share_by is None:
        waiting = session.waiting_in(*place, search.kinds, asked, every_priority=limits.ageing is not None)
    else:
        session.share_out(*place, limits.share_by, SHARED_OUT_MAX)
        full = full_shares(limits, running)
        waiting = session.shared_in(*place, search.kinds, asked, limits=limits, after=usage.last_share, full=full)
    now = session.now()
    chosen = choose(
        limits,
        usage,
        running=running,
        dead=_untried(search, dead),
        waiting=_untried(search, waiting),
        wanted=wanted,
        now=now,
    )
    free = set(session.take([each.job_id for each in chosen]))
    search.passed.update(each.job_id for each in chosen)
    taken = [each for each in chosen if each.job_id in free]
    remembered = remember(limits, usage, taken, now)
    if remembered != usage:
        session.put_queue_usage(*place, remembered)
    return [each.job_id for each in taken]


def _untried(search: Search, found: list[Waiting]) -> list[Waiting]:
    return [each for each in found if each.job_id not in search.passed]


def queue_rules(session: Session, job: Job, group: str) -> Mapping[str, QueueState]:
    """What the claim of one job has to respect; it stands still until the session ends."""
    return session.queue_rules(job.namespace, group, [job.queue])


def await_turn(session: Session, rules: Mapping[str, QueueState], standing: Standing) -> Standing:
    """A job as it stands once no other claim of its queue is under way, where that is limited.

    The clock is read behind that wait: an attempt does not start at a time before the end that made room for it.
    """
    state = rules.get(standing.job.queue)
    if state is None or not state.is_limited:
        return standing
    session.queue_usage(standing.job.namespace, standing.job.queue)
    return replace(standing, now=max(standing.now, session.now()))


def admit_claim(session: Session, rules: Mapping[str, QueueState], standing: Standing, *, respect_hold: bool) -> None:
    """Let the claim of one job in, and remember its start.

    Raises:
        QueueHeldError: its queue or the whole namespace is held, and the claim respects holds.
        QueueLimitedError: a limit is reached.
    """
    job = standing.job
    if respect_hold:
        require_unheld(rules, job)
    state = rules.get(job.queue)
    if state is None or not state.is_limited:
        return
    usage = session.queue_usage(job.namespace, job.queue)
    running = session.running_in(job.namespace, job.queue, state.limits.share_by)
    admitted = admit(state.limits, usage, job, running=running, now=standing.now)
    if admitted != usage:
        session.put_queue_usage(job.namespace, job.queue, admitted)
