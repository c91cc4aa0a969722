"""The story of the demonstration, step by step; every fact in it is read from the store or the index, and checked."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from jobledger.adapters.demo.corpus import BATCHES, batches_of, sources
from jobledger.adapters.demo.jobs import PATROL, POLICY, REBUILD
from jobledger.adapters.demo.processes import Worker, worker
from jobledger.domain.decisions.creating import JobRequest
from jobledger.domain.errors import HoldInForceError, JobledgerError, PayloadChangedError, StaleFenceError
from jobledger.domain.job import State
from jobledger.domain.lease import Fence

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jobledger.adapters.bootstrap import JobStore
    from jobledger.adapters.demo.index import Index
    from jobledger.adapters.demo.telling import Teller
    from jobledger.domain.answers import JobStatus

OWNER: Final = "demo"
OPERATOR: Final = "alice"
KILLED_IN_BATCH: Final = 4
STEP_SECONDS_MAX: Final = 90.0
LOOK_EVERY: Final = timedelta(seconds=0.1)


class MissedError(Exception):
    """Something that the demonstration promises was not to be seen; the text says what."""


@dataclass
class Story:
    """What the demonstration works with, and the facts that it saw on its way."""

    store: JobStore
    url: str
    index: Index
    index_path: Path
    teller: Teller
    facts: dict[str, Any] = field(default_factory=dict)
    job_id: str = ""
    patrol_id: str = ""

    # The steps --------------------------------------------------------------------------------------------------------

    def prepare(self, bytes_max: int) -> None:
        """Plan the batches, and create the job: once, again, and with another payload."""
        found = sources(bytes_max)
        check(len(found) >= BATCHES, "this Python has the source of its library, so that there is something to index")
        self.index.make(batches_of(found))
        megabytes = sum(source.size for source in found) / 1e6
        self.teller.chapter("1. A job is created")
        self.teller.say(
            f"{len(found):,} source files of this Python ({megabytes:,.1f} MB) are to be indexed in {BATCHES} batches."
        )
        request = self._request()
        receipt = self.store.create(request)
        self.job_id = receipt.job_id
        self.teller.say(f"Job {receipt.job_id} is {receipt.state.value}; queuing it started no worker.")
        again = self.store.create(request)
        check(again.reused and again.job_id == receipt.job_id, "the same request again answers the same job")
        self.teller.say("The same request again answers the same job (reused).")
        changed = self._refused(
            PayloadChangedError,
            lambda: self.store.create(request.model_copy(update={"payload": {"partition": "other"}})),
        )
        self.facts |= {"job_id": receipt.job_id, "documents_planned": self.index.planned(), "changed": changed}

    def lose_a_worker(self) -> Fence:
        """Run worker A, kill it between a batch's effect and its checkpoint, and answer the fence that it had."""
        self.teller.chapter("2. Worker A builds four batches, and is killed in the middle of batch four")
        with (
            worker(self.url, "worker-a", stops_in_batch=KILLED_IN_BATCH) as first,
            self.teller.following(BATCHES) as follow,
        ):
            text = self._follow_to_the_handover(first, follow)
            status = self.store.status(self.job_id)
            written = self.index.documents(KILLED_IN_BATCH)
            receipt = self.store.unit(self.job_id, f"batch-{KILLED_IN_BATCH}")
            ended = first.kill()
        check(ended == -signal.SIGKILL, "worker A was killed with SIGKILL")
        check(status.checkpoint == KILLED_IN_BATCH and status.generation == 1, "the last checkpoint says four")
        check(written > 0, "the rows of batch four stand in the index")
        check(receipt is None, "batch four has no receipt yet")
        self.teller.say(
            f"Process {first.pid} was killed (SIGKILL) after the effect of batch four and before its checkpoint:"
        )
        self.teller.say(
            f"the index holds {written} documents of batch four, while the store's checkpoint says {status.checkpoint}."
        )
        self.facts |= {
            "killed": {"pid": first.pid, "checkpoint": status.checkpoint, "documents_of_batch_four": written}
        }
        return Fence.from_token(text)

    def take_over(self, old: Fence, second: Worker) -> None:
        """Follow worker B until the job is complete; on the way, try to complete it under A's old fence."""
        span = self.store.status(self.job_id).limits.lease.total_seconds()
        self.teller.chapter("3. Worker B takes over")
        self.teller.say(
            f"A's lease protects it until it runs out ({span:g} s); then B claims generation 2, from checkpoint four."
        )
        with self.teller.following(BATCHES) as follow:
            self._until("worker B claims the job", second, lambda status: status.generation > 1, self.job_id, follow)
            stale = self._refused(StaleFenceError, lambda: self.store.complete(old, result="from a dead worker"))
            end = self._until(
                "worker B completes the job", second, lambda status: status.is_terminal, self.job_id, follow
            )
        self._check_the_end(end)
        self.facts |= {"stale_fence": stale}

    def _check_the_end(self, end: JobStatus) -> None:
        runs = self.index.runs(KILLED_IN_BATCH)
        others = [run.batch for run in self.index.runs() if run.batch != KILLED_IN_BATCH]
        held, planned = self.index.documents(), self.index.planned()
        check((end.state, end.generation) == (State.COMPLETE, 2), "the job is complete in generation 2")
        check([run.generation for run in runs] == [1, 2], "batch four ran in generation 1 and in generation 2")
        check(runs[0].digest == runs[1].digest, "both runs of batch four left the same documents")
        check(others == [batch for batch in range(BATCHES) if batch != KILLED_IN_BATCH], "every other batch ran once")
        check(held == planned, "every document stands in the index once")
        check(end.units == BATCHES, "every batch has its receipt")
        twice = ", then ".join(f"in generation {run.generation} by {run.worker}" for run in runs)
        self.teller.say(f"Batch four ran twice, {twice}.")
        self.teller.say(f"It left the same {runs[1].documents} documents both times; every other batch ran once.")
        self.teller.say(f"The job is {end.state.value} in generation {end.generation}, with the result {end.result!r};")
        self.teller.say(f"{held:,} of {planned:,} documents stand in the index.")
        self.facts |= {
            "generation": end.generation,
            "state": end.state,
            "batch_four": runs,
            "documents": held,
            "result": end.result,
        }

    # The second job ---------------------------------------------------------------------------------------------------

    def patrol(self, second: Worker) -> None:
        """Hold, release and cancel a job that runs."""
        self.teller.chapter("4. Operators hold, release and cancel a second job")
        payload = {"index": os.fspath(self.index_path), "batches": BATCHES}
        receipt = self.store.create(
            JobRequest(owner=OWNER, key="patrol-1", kind=PATROL, payload=payload, policy=POLICY)
        )
        self.patrol_id = job_id = receipt.job_id
        running = self._until("the patrol runs", second, lambda status: status.checkpoint is not None, job_id)
        self.teller.say(f"Job {job_id} compares the index with its files, for ever; {_worker_of(running)} runs it.")
        asked = self.store.hold(job_id, by=OPERATOR, reason="look at the disk first")
        self.teller.say(
            f"{OPERATOR} asks for a hold: the job is {asked.state.value} until its worker reaches a boundary."
        )
        parked = self._until("the hold parks it", second, lambda status: status.state is State.PAUSED, job_id)
        self.teller.say(
            f"It is {parked.state.value}, with its progress ({parked.checkpoint} comparisons), and nobody may claim it:"
        )
        held = self._refused(HoldInForceError, lambda: self.store.claim(job_id, worker="worker-c"))
        seen = parked.control_sequence
        self.store.release_hold(job_id, by=OPERATOR, reason="the disk is fine", expected_sequence=seen)
        going = self._until(
            "it goes on", second, lambda status: status.generation > 1 and _has_moved(status, parked), job_id
        )
        self.teller.say(f"Released: generation {going.generation} went on from {parked.checkpoint} comparisons.")
        self.store.request_cancel(job_id, by=OPERATOR, reason="enough was seen")
        ended = self._until("the cancel ends it", second, lambda status: status.is_terminal, job_id)
        check(ended.state is State.CANCELLED, "the second job is cancelled")
        self.teller.say(f"{OPERATOR} asks to cancel: the worker stopped at its next boundary and recorded it;")
        self.teller.say(f"the job is {ended.state.value}, and its {ended.checkpoint} comparisons stay on record.")
        self.facts |= {"patrol": {"job_id": job_id, "hold": held, "state": ended.state, "generation": ended.generation}}

    # Waiting and checking ---------------------------------------------------------------------------------------------

    def _request(self) -> JobRequest:
        partition = f"python-{sys.version_info.major}.{sys.version_info.minor}"
        payload = {"partition": partition, "index": os.fspath(self.index_path), "batches": BATCHES}
        return JobRequest(owner=OWNER, key="rebuild-42", kind=REBUILD, payload=payload, policy=POLICY)

    def _follow_to_the_handover(self, first: Worker, follow: Callable[[JobStatus], None]) -> str:
        deadline = time.monotonic() + STEP_SECONDS_MAX
        while (text := first.said(LOOK_EVERY.total_seconds())) is None:
            follow(self.store.status(self.job_id))
            check(not first.has_ended, f"worker A runs until it is killed ({first.complaint()})")
            check(time.monotonic() < deadline, f"worker A reaches batch four within {STEP_SECONDS_MAX:g} s")
        follow(self.store.status(self.job_id))
        check(bool(text), "worker A hands its fence over")
        return text

    def _until(
        self,
        what: str,
        by: Worker,
        has_come: Callable[[JobStatus], bool],
        job_id: str,
        follow: Callable[[JobStatus], None] | None = None,
    ) -> JobStatus:
        deadline = time.monotonic() + STEP_SECONDS_MAX
        while True:
            status = self.store.status(job_id)
            if follow is not None:
                follow(status)
            if has_come(status):
                return status
            check(not status.is_terminal, f"{what} (it ended as {status.state.value}: {status.error})")
            check(not by.has_ended, f"{what} ({by.name} ended: {by.complaint()})")
            check(time.monotonic() < deadline, f"{what} within {STEP_SECONDS_MAX:g} s")
            self.store.wait_for_change(LOOK_EVERY)

    def _refused(self, wanted: type[JobledgerError], attempt: Callable[[], object]) -> dict[str, str]:
        """Make a call that has to be refused, and tell the refusal in its own words."""
        try:
            attempt()
        except wanted as refusal:
            self.teller.refusal(refusal.code, str(refusal))
            return {"code": refusal.code, "message": str(refusal)}
        promise = f"the call is refused as {wanted.code}"
        raise MissedError(promise)


def check(condition: bool, promise: str) -> None:  # noqa: FBT001  # it reads as an assertion
    """Require that something promised is to be seen.

    Raises:
        MissedError: it is not.
    """
    if not condition:
        raise MissedError(promise)


def _worker_of(status: JobStatus) -> str:
    return status.lease.worker if status.lease else "nobody"


def _has_moved(status: JobStatus, before: JobStatus) -> bool:
    return isinstance(status.checkpoint, int) and status.checkpoint > before.checkpoint
