"""Any history in which queues are limited, held and released too; and what never happens then."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from jobledger import Effect, JobRequest, State
from jobledger.domain.events import Claimed
from jobledger.domain.job import Job
from jobledger.domain.queue_events import UNLIMITED, QueueLimits
from jobledger.domain.queues.choosing import share_of
from tests.contracts.histories import AnyHistory
from tests.contracts.lockstep import Call, Side

QUEUES = ("default", "slow")

limits = st.fixed_dictionaries(
    {},
    optional={
        "running_max": st.sampled_from([1, 1, 2]),
        "rate": st.sampled_from([(1, 2), (2, 10), (3, 3600)]),
        "share_by": st.sampled_from(["owner", "kind", "label:l"]),
        "running_max_per_share": st.integers(1, 2),
        "ageing": st.sampled_from([1, 60]),
    },
)


def arguments(drawn: dict[str, Any]) -> dict[str, Any]:
    """What was drawn, as the command takes it: a rate is two numbers, and only a divided queue has limits of shares."""
    given = {name: value for name, value in drawn.items() if name != "rate"}
    if "rate" in drawn:
        given |= dict(zip(("starts_max", "starts_span"), drawn["rate"], strict=True))
    if "share_by" not in given:
        given.pop("running_max_per_share", None)
    return given


class AnyHistoryOfQueues(AnyHistory):
    """Whatever else happens, operators limit and hold queues beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.limits: dict[str, QueueLimits] = {}
        self.held: set[str | None] = set()
        self.seen: list[Claimed] = []
        self.ran: dict[str, Counter[str]] = {}
        self.starts: dict[str, list[datetime]] = {queue: [] for queue in QUEUES}

    @initialize(drawn=limits)
    def a_queue_is_limited_from_the_first(self, drawn: dict[str, Any]) -> None:
        self.a_queue_is_limited("default", drawn)

    @rule(queue=st.sampled_from(QUEUES), drawn=limits)
    def a_queue_is_limited(self, queue: str, drawn: dict[str, Any]) -> None:
        given = arguments(drawn)
        self.acts(lambda side: side.store.queues.limit(queue, by="ann", reason="r", **given))
        status = self.all.sides[0].store.queues.get(queue)
        assert status.limits.running_max == given.get("running_max")
        known = self.limits.get(queue, UNLIMITED)
        if (known.starts_max, known.starts_span) != (status.limits.starts_max, status.limits.starts_span):
            self.starts[queue] = []
        self.limits[queue] = status.limits

    @rule(queue=st.sampled_from([*QUEUES, None]), by=st.sampled_from(["ann", "ann", "bob"]))
    def a_queue_is_held(self, queue: str | None, by: str) -> None:
        self.acts(lambda side: side.store.queues.hold(queue, by=by, reason="r"))
        self.held.add(queue)

    @rule(queue=st.sampled_from([*QUEUES, None]))
    def a_queue_is_released(self, queue: str | None) -> None:
        self.acts(lambda side: side.store.queues.release(queue, by="ann", reason="r"))
        self.held.discard(queue)

    @rule(owner=st.sampled_from(["ann", "bob"]), label=st.sampled_from(["x", "y"]), queue=st.sampled_from(QUEUES))
    def an_owners_jobs_are_created(self, owner: str, label: str, queue: str) -> None:
        request = JobRequest(owner=owner, kind="index", queue=queue, labels={"l": label}, policy="quick")
        self.acts(lambda side: side.store.create_many([request] * 3))

    @rule()
    def a_worker_takes_whatever_it_gets(self) -> None:
        self.acts(lambda side: side.store.claim_next(worker="w", queues=QUEUES, limit=9))

    @invariant()
    def no_limit_is_exceeded(self) -> None:
        """What runs never grows beyond a limit, whatever ran when it was set; and nothing starts in a held queue."""
        running = [job for job in self.all.jobs.values() if job.state is State.RUNNING]
        for queue in QUEUES:
            mine = [job for job in running if job.queue == queue]
            self._require_within(queue, mine)
        for event in self.all.news:
            if isinstance(event.event, Claimed) and event.event not in self.seen:
                self.seen.append(event.event)
                self._require_let_in(self.all.jobs[event.stream].queue, respects_hold=event.event.respects_hold)

    def _late_ways(self, fence: Any, job_id: str, state: Any, staged: list[Effect]) -> dict[str, Call]:
        """A claim and what its queue remembers of it are one transaction, so that the claim alone never comes late."""
        ways = super()._late_ways(fence, job_id, state, staged)
        return ways | {"claim": ways["recover"]}

    def _require_let_in(self, queue: str, *, respects_hold: bool) -> None:
        """An attempt started in the last step."""
        if respects_hold:
            assert not {None, queue} & self.held, "it started in a held queue"
        known, now, starts = self.limits.get(queue, UNLIMITED), self.all.clock.now(), self.starts[queue]
        starts.append(now)
        if known.starts_max is not None and known.starts_span is not None:
            recent = sum(now - known.starts_span < start <= now for start in starts)
            assert recent <= known.starts_max, f"{recent} started in {queue!r} within {known.starts_span}"

    def _require_within(self, queue: str, running: list[Job]) -> None:
        known = self.limits.get(queue, UNLIMITED)
        now = Counter(share_of(job, known.share_by) for job in running)
        before = Counter(share_of(self.all.jobs[job_id], known.share_by) for job_id in self.ran.get(queue, ()))
        if known.running_max is not None:
            assert now.total() <= max(before.total(), known.running_max), f"{now.total()} run in {queue!r}"
        if known.running_max_per_share is not None:
            for share, count in now.items():
                assert count <= max(before[share], known.running_max_per_share), f"{count} run of {share!r}"
        self.ran[queue] = Counter(job.id for job in running)

    def teardown(self) -> None:
        """Ask about queues once more, unless something failed before."""
        if self.is_whole:
            for question in (_told, _listed, _verified):
                answers = [question(side) for side in self.all.sides]
                assert all(answer == answers[0] for answer in answers), "the stores do not agree on their queues"
        super().teardown()


def _told(side: Side) -> Any:
    return [[(each.name, each.data, each.at) for each in side.store.queues.history(name)] for name in (*QUEUES, None)]


def _listed(side: Side) -> Any:
    return [
        (each.name, each.queued, each.running, each.shares, each.starts_left)
        for each in side.store.queues.list().queues
    ]


def _verified(side: Side) -> Any:
    assert side.store.queues.rebuild() == ()
    return [side.store.queues.verify(name).problems for name in (*QUEUES, None)]
