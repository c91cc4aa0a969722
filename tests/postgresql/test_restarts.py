"""A database that is restarted under a running job, as after a crash: its host goes on, and all happens once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from jobledger import JobContext, JobStore, Policy, State, durable_job
from jobledger.adapters.worker.held import HeldLease
from jobledger.adapters.worker.renewal import Renewals
from jobledger.domain.errors import UnavailableError
from tests.postgresql.server import Server, private_server
from tests.worker.hosting import created, hosted, opened, until

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("restarts")]

SLOW = 60.0
POLICIES = {"brief": Policy(lease=1)}


class Story:
    """A job of two steps that waits between them, and what was done."""

    def __init__(self) -> None:
        self.gate, self.waits = threading.Event(), threading.Event()
        self.done: Counter[str] = Counter()

    def handler(self) -> Any:
        """What the host runs; a later attempt does not wait."""

        @durable_job("story", policy="brief")
        def story(job: JobContext) -> str:
            job.unit("first", partial(self._does, "first"))
            job.checkpoint(1)
            self.waits.set()
            assert self.gate.wait(SLOW)
            job.unit("second", partial(self._does, "second"))
            job.checkpoint(2)
            return "done"

        return story

    def _does(self, name: str) -> str:
        self.done[name] += 1
        return name


@pytest.fixture
def own() -> Iterator[Server]:
    """A server that nobody else uses."""
    with private_server() as server:
        yield server


def outlived(own: Server, *, is_long: bool) -> tuple[JobStore, str, Story]:
    """Restart the server as after a crash while a job runs; ``is_long``: it stays away until the lease ran out."""
    store = JobStore.open(own.url(), policies=POLICIES, migrate=True)
    elsewhere, story = opened(), Story()
    with hosted(store, story.handler(), drain=SLOW):
        job_id = created(store, "story", policy="brief" if is_long else "default")
        assert story.waits.wait(SLOW)
        own.control("stop", "--mode", "immediate")
        if is_long:
            down = datetime.now(UTC)
            until(elsewhere, lambda: (datetime.now(UTC) - down).total_seconds() > 1.5)
        own.control("start")
        if is_long:
            until(store, lambda: _has_come_back(store, job_id), patience=SLOW)
        story.gate.set()
        store.wait(job_id, SLOW)
    return store, job_id, story


def _has_come_back(store: JobStore, job_id: str) -> bool:
    """Whether something happened to the job since its checkpoint: its host renewed late, or somebody began anew."""
    return [event.name for event in store.history(job_id)][-1] != "Checkpointed"


@pytest.mark.parametrize("is_long", [False, True], ids=["a moment", "longer than the lease"])
def test_a_job_outlives_a_restart_of_its_database(own: Server, is_long: bool) -> None:
    """Its attempt goes on: the lease is renewed, late and on record where it had run out; each thing is done once."""
    store, job_id, story = outlived(own, is_long=is_long)
    with store:
        status, names = store.status(job_id), [event.name for event in store.history(job_id)]

        assert (status.state, status.result, status.generation, status.units) == (State.COMPLETE, "done", 1, 2)
        assert story.done == {"first": 1, "second": 1}
        assert names.count("Completed") == 1
        assert "LeaseRenewedLate" in names or not is_long
        assert store.verify(job_id).ok


def test_a_host_that_takes_an_outage_for_a_loss_is_noticed(own: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the same story with a host that gives its lease up when a renewal fails, or comes late."""
    take = Renewals._take  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # the twin changes what is inside

    def hasty(self: Renewals, held: HeldLease, answer: Any, sent_at: float) -> None:
        if isinstance(answer, UnavailableError) or getattr(answer, "late", False):
            self._lose(held, "it could not be renewed")  # pyright: ignore[reportPrivateUsage]  # as above
        else:
            take(self, held, answer, sent_at)

    monkeypatch.setattr(Renewals, "_take", hasty)
    store, job_id, _ = outlived(own, is_long=True)
    with store:
        assert store.status(job_id).generation > 1


def test_a_host_whose_job_was_taken_over_while_the_database_was_away_publishes_nothing(
    own: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever comes first after the restart has the job; it ends once, by that attempt."""
    renew, is_taken = JobStore.renew_many, threading.Event()

    def second(self: JobStore, fences: Any) -> Any:
        assert is_taken.wait(SLOW)
        return renew(self, fences)

    monkeypatch.setattr(JobStore, "renew_many", second)
    story = Story()
    with JobStore.open(own.url(), policies=POLICIES, migrate=True) as store:
        with hosted(store, story.handler(), concurrency=1):  # it has no slot to take its own job over
            job_id = created(store, "story", policy="brief")
            assert story.waits.wait(SLOW)
            own.control("stop", "--mode", "immediate")
            own.control("start")
            until(store, lambda: _is_dead(store, job_id), patience=SLOW)
            other = store.claim(job_id, worker="other", lease=SLOW)
            is_taken.set()
            story.gate.set()
        store.complete(other.fence, result="other")

        status = store.status(job_id)
        assert (status.result, status.generation, status.units) == ("other", 2, 1)
        assert [event.generation for event in store.history(job_id) if event.name == "Completed"] == [2]
        assert store.verify(job_id).ok


def _is_dead(store: JobStore, job_id: str) -> bool:
    lease = store.status(job_id).lease
    return lease is not None and lease.expires_at < datetime.now(UTC)
