"""Who acts in a simulation: clients, operators, workers, a sweeper, a deployer, a follower, each a small endless life.

A life is a generator. It yields a number of ticks to wait, or an operation to send, and is given the operation back
when the reply has come or when it has waited long enough. It may be closed at any of these points: that is a crash.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any, Final

from jobledger.domain.answers import ControlReceipt, ExecutionResult, Lease, Renewal
from jobledger.domain.decisions.working import Effect
from jobledger.domain.job import State
from tests.proof.history import Operation

if TYPE_CHECKING:
    from jobledger.domain.job import Job
    from jobledger.domain.lease import Fence
    from tests.proof.simulator import Simulation

Life = Generator["int | Operation", Any, Any]

REPEATS_MAX: Final = 3
UNITS: Final = ("u1", "u2", "u3")
STATES: Final = (None, 1, 1.0, 2, [1], {"n": 1})
ENDS: Final = ("complete", "complete", "complete", "partial", "failed", "unavailable")


class Actor:
    """One process of the simulation: a name, its own chance, and a life that starts over after a crash."""

    def __init__(self, name: str, simulation: Simulation, number: int) -> None:
        """Live in ``simulation``; the same number draws the same chances."""
        self.name = name
        self.simulation = simulation
        self.mix = simulation.mix
        self.random = Random(simulation.seed * 32 + number)  # noqa: S311  # a simulation must be repeatable
        self.number = 0
        self.starts = 0
        self.life: Life | None = None

    def start(self) -> Life:
        """A new life."""
        self.starts += 1
        self.life = self.lives()
        return self.life

    def crash(self) -> None:
        """End this life, wherever it waits."""
        if self.life is not None:
            self.life.close()
        self.life = None

    def lives(self) -> Life:
        """What this actor does, for ever."""
        raise NotImplementedError

    def operation(self, name: str, job_id: str | None = None, /, **arguments: Any) -> Operation:
        """A new command, under a new id."""
        self.number += 1
        return Operation(self.name, name, job_id, f"{self.name}-{self.number}", arguments, 0)

    def ask(self, operation: Operation) -> Life:
        """Send, and mostly send again under the same id while the outcome is unknown."""
        answered = yield operation
        for _ in range(REPEATS_MAX):
            if answered.result != "unknown" or answered.command_id is None or self.random.random() < 0.2:
                break
            again = replace(operation, served=[], result="unknown", code="", answer=None, ended=None)
            answered = yield again
        return answered

    def a_job(self) -> str | None:
        """One of the jobs, mostly one that has not ended."""
        jobs, ended = self.simulation.jobs, self.simulation.ended
        if not jobs:
            return None
        waiting = [job for job in jobs if job not in ended]
        return self.random.choice(waiting if waiting and self.random.random() < 0.9 else jobs)


class Client(Actor):
    """Creates jobs and repeats itself, under the same keys with the same payload or another."""

    def lives(self) -> Life:
        """Create every now and then."""
        draw = self.random
        while True:
            lack = self.mix.keys - (len(self.simulation.jobs) - len(self.simulation.ended))
            yield draw.randint(0, 2 if lack > 0 else 40)
            controls: tuple[str, ...] = ("pause", "cancel", "retry")
            if draw.random() < self.mix.few_controls:
                controls = draw.choice(((), ("cancel",), ("pause", "retry")))
            asked: dict[str, Any] = {
                "owner": f"o{draw.randint(1, self.mix.owners)}",
                "kind": "build",
                "key": f"k{draw.randint(1, self.mix.keys + len(self.simulation.ended))}",
                "payload": 1 if draw.random() < 0.9 else 2,
                "policy": "tight",
                "controls": controls,
            }
            if draw.random() < 0.2:
                asked["ready_at"] = self.simulation.now + timedelta(seconds=draw.randint(1, 2 * self.mix.lease))
            if draw.random() < 0.2:
                asked["submission"] = f"s{draw.randint(1, 3)}"
            yield from self.ask(self.operation("create", **asked))


class OperatorActor(Actor):
    """Holds, releases, resumes, cancels, retries, reruns and forks; sometimes on what is no longer so."""

    ANYTHING: Final = ("hold", "release_hold", "resume", "request_cancel", "retry", "recover", "rerun", "fork")

    def lives(self) -> Life:
        """Meddle every now and then."""
        draw, last = self.random, None
        while True:
            yield draw.randint(1, max(2, int(30 / self.mix.meddling)))
            job_id = self.a_job()
            if job_id is None:
                continue
            operation = self._wish(job_id)
            is_control = operation.name not in ("rerun", "fork")
            if last is not None and last.job_id == job_id and is_control and draw.random() < self.mix.reused_ids:
                operation.command_id = last.command_id
            last = operation if is_control else None
            yield from self.ask(operation)

    def _wish(self, job_id: str) -> Operation:
        draw, job = self.random, self.simulation.backend.job(job_id)
        name = draw.choice(self.ANYTHING if draw.random() < 0.25 else self._sensible(job))
        if name == "recover":
            return self.operation(name, job_id)
        asked: dict[str, Any] = {"by": self.name, "reason": "so"}
        if name in ("rerun", "fork"):
            asked["key"] = f"again-{draw.randint(1, 2)}"
            if name == "rerun":
                asked["from_checkpoint"] = draw.random() < 0.5
            else:
                asked["at_sequence"] = draw.randint(1, 1 + job.sequence)
        elif draw.random() < 0.4:
            asked["expected_sequence"] = job.control_sequence
        return self.operation(name, job_id, **asked)

    @staticmethod
    def _sensible(job: Job) -> tuple[str, ...]:
        """What an operator who looks at the job might ask."""
        if job.is_terminal:
            return ("rerun", "fork", "hold")
        if job.hold is not None:
            fresh = ("resume", "resume") if job.generation == 0 else ()
            return ("release_hold", "release_hold", "release_hold", "request_cancel", *fresh)
        if job.state is State.RUNNING:
            return ("hold", "hold", "hold", "request_cancel", "recover", "retry", "retry")
        return ("hold", "hold", "retry", "retry", "request_cancel", "fork", "resume", "resume")


class WorkerActor(Actor):
    """Claims, works, and writes under its fence; sometimes long after it has lost it."""

    def __init__(self, name: str, simulation: Simulation, number: int) -> None:
        """Work in the group of its number."""
        super().__init__(name, simulation, number)
        self.group = "gpu" if name == "w3" else "cpu"
        self.step = 0
        self.state = 0

    def lives(self) -> Life:
        """Take jobs, one at a time; the epoch is the one that its group was at when the process started."""
        draw, epoch = self.random, self.simulation.backend.epoch(self.group)
        while True:
            yield draw.randint(0, 6)
            job_id = self._a_promising_job()
            if job_id is None:
                continue
            lease = yield from (self._claims_next(epoch) if draw.random() < 0.4 else self._claims(job_id, epoch))
            if isinstance(lease, Lease):
                is_stale_epoch = yield from self._works(lease)
                if is_stale_epoch:
                    epoch = self.simulation.backend.epoch(self.group)
            elif draw.random() < 0.3:
                epoch = self.simulation.backend.epoch(self.group)

    def _claims(self, job_id: str, epoch: int) -> Life:
        asked: dict[str, Any] = {"worker": self.name, "group": self.group, "epoch": epoch}
        asked["token"] = f"secret-{self.name}-{self.number}"
        asked["respect_hold"] = self.random.random() >= self.mix.defies_holds
        answered = yield from self.ask(self.operation("claim", job_id, **asked))
        return answered.answer

    def _a_promising_job(self) -> str | None:
        """Mostly a job that looks free; now and then any job, or none although there is one."""
        if self.random.random() < 0.15:
            return self.a_job()
        simulation = self.simulation
        free = [job_id for job_id in simulation.jobs if job_id not in simulation.ended and self._looks_free(job_id)]
        return self.random.choice(free) if free else None

    def _looks_free(self, job_id: str) -> bool:
        job = self.simulation.backend.job(job_id)
        if job.hold is not None and self.random.random() < 0.7:
            return False
        return job.attempt is None or job.attempt.expires_at <= self.simulation.now

    def _claims_next(self, epoch: int) -> Life:
        operation = self.operation("claim_next", None, worker=self.name, group=self.group, epoch=epoch)
        operation.command_id = None
        answered = yield operation
        return answered.answer[0] if answered.answer else None

    def _works(self, lease: Lease) -> Life:
        """Work until the attempt ends or is lost; answers whether its epoch has passed."""
        draw, fence, self.step = self.random, lease.fence, lease.fence.steps.last
        wish = None
        while True:
            yield draw.randint(0, max(1, int(self.mix.lease * self.mix.slowness)))
            operation = self._write(fence, wish) if wish or draw.random() < self.mix.patience else self._end(fence)
            answered = yield from self.ask(operation)
            wish = None
            if answered.result == "refused":
                if answered.code == "lease_expired":
                    wish = "renew"
                elif answered.code in ("stale_fence", "already_terminal", "stale_epoch") and draw.random() < 0.8:
                    return answered.code == "stale_epoch"
            elif answered.result == "ok":
                if isinstance(answered.answer, ExecutionResult | ControlReceipt):
                    if draw.random() < 0.9:
                        return False
                elif isinstance(answered.answer, Renewal):
                    wish = self._heeded(answered.answer)

    def _heeded(self, renewal: Renewal) -> str | None:
        """What an attempt does about a hold or a cancel request that it was told of."""
        if renewal.cancel_requested and self.random.random() < 0.7:
            return self.random.choice(("cancel", "cancel", "pause", "defer", "fail_attempt", "complete"))
        return "pause" if renewal.hold_requested and self.random.random() < 0.7 else None

    def _write(self, fence: Fence, wish: str | None) -> Operation:
        draw = self.random
        name = wish or (
            "renew"
            if draw.random() < self.mix.zeal
            else draw.choice(("checkpoint", "checkpoint", "record_unit", "report_progress"))
        )
        asked: dict[str, Any] = {}
        if name == "checkpoint":
            asked = {"state": self._next_state(), "effects": self._effects(fence)}
        elif name == "record_unit":
            asked = {"unit": draw.choice(UNITS), "receipt": 1 if draw.random() < 0.9 else 2}
        elif name == "report_progress":
            asked = {"done": draw.randint(0, 9), "total": 9}
        elif name != "renew":
            return self._end(fence, name)
        return self._fenced(name, fence, asked)

    def _end(self, fence: Fence, wish: str | None = None) -> Operation:
        draw = self.random
        name = wish or draw.choice(("complete", "complete", "complete", "pause", "defer", "fail_attempt", "cancel"))
        asked: dict[str, Any] = {}
        if name == "complete":
            outcome = draw.choice(ENDS)
            asked = {"outcome": outcome}
            if outcome in ("complete", "partial"):
                asked |= {"result": draw.randint(1, 9), "effects": self._effects(fence)}
            else:
                asked["error"] = "could not"
        elif name in ("pause", "defer"):
            if name == "defer":
                asked["ready_at"] = self.simulation.now + timedelta(seconds=draw.randint(0, self.mix.lease))
            if draw.random() < 0.5:
                asked |= {"state": self._next_state(), "effects": self._effects(fence)}
        elif name == "fail_attempt":
            asked = {"error": "boom"}
        return self._fenced(name, fence, asked)

    def _fenced(self, name: str, fence: Fence, asked: dict[str, Any]) -> Operation:
        operation = self.operation(name, fence.job_id, **asked)
        operation.fence = fence
        if self.mix.forgeries and self.random.random() < self.mix.forgeries:
            operation.fence = replace(fence, token="made up")
        if name != "renew":
            if self.random.random() >= self.mix.copied_fences:
                self.step += 1
            operation.step = self.step
        return operation

    def _next_state(self) -> Any:
        """Another state, or the same one again."""
        if self.random.random() < 0.7:
            self.state += 1
        return STATES[self.state % len(STATES)]

    def _effects(self, fence: Fence) -> list[Effect]:
        """Mostly none; else a write of one of few resources, on the version that it has, or had."""
        draw = self.random
        if draw.random() >= self.mix.effects:
            return []
        name = f"r{draw.randint(1, self.mix.resources)}"
        known = self.simulation.backend.version(fence.job_id, name)
        if draw.random() < 0.1:
            known = max(0, known - 1)
        return [Effect(resource=name, value=self.number, expected_version=known)]


class Sweeper(Actor):
    """Recovers what has expired, and now and then what has not."""

    def lives(self) -> Life:
        """Sweep every now and then."""
        draw = self.random
        while True:
            yield draw.randint(2, 5 * self.mix.lease)
            operation = self.operation("recover_expired", limit=draw.randint(1, 3))
            operation.command_id = None
            job_id = self.a_job()
            if job_id is not None and draw.random() < 0.3:
                operation = self.operation("recover", job_id)
            yield from self.ask(operation)


class Deployer(Actor):
    """Starts new epochs of worker groups."""

    def lives(self) -> Life:
        """Deploy rarely, or never."""
        draw = self.random
        while True:
            yield draw.randint(3, 60)
            if draw.random() < self.mix.deploys:
                group = draw.choice(("cpu", "cpu", "gpu"))
                yield from self.ask(self.operation("advance_epoch", group=group, by=self.name, reason="deploy"))


class Follower(Actor):
    """Follows the feed of all jobs; after a crash it goes on behind what it has."""

    def lives(self) -> Life:
        """Read a page at a time."""
        draw = self.random
        while True:
            yield draw.randint(10, 80)
            operation = self.operation("read", after=self.simulation.cursor, limit=draw.randint(1, 12))
            operation.command_id = None
            answered = yield operation
            if answered.result == "ok":
                positions, upto = answered.answer
                self.simulation.followed += positions
                self.simulation.cursor = upto


LIVES: Final[dict[str, type[Actor]]] = {
    "client": Client,
    "ann": OperatorActor,
    "bob": OperatorActor,
    "w1": WorkerActor,
    "w2": WorkerActor,
    "w3": WorkerActor,
    "sweeper": Sweeper,
    "deployer": Deployer,
    "follower": Follower,
}
