"""One simulated world from one seed: actors, a network that loses and delays, a clock that jumps, processes that crash.

All that chance decides is drawn from generators that follow from the seed, so the same seed gives the same history,
byte for byte. The rules are the real ones; ``tests.proof.invariants`` judge each event as it is written, and the run.
"""

from __future__ import annotations

import heapq
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any, Final

from jobledger.domain.answers import ControlReceipt, CreateReceipt, ExecutionResult
from jobledger.domain.job import TERMINAL, evolve
from jobledger.domain.policies import Policy
from jobledger.domain.schedules.answers import FiringReport
from jobledger.domain.schedules.state import evolve_schedule
from tests.proof.actors import LIVES, Actor
from tests.proof.actors_schedules import SCHEDULING_LIVES
from tests.proof.backends import SimulatedBackend
from tests.proof.calls import call
from tests.proof.history import History, Operation, Served, Violation
from tests.proof.invariants import check_answer, check_history, check_log, check_schedule_step, check_step
from tests.proof.mix import Mix
from tests.proof.refusals import Answered
from tests.proof.runs import CountingEntropy, Moment, Run, tight_policy
from tests.proof.simulated import Ending, World
from tests.proof.timetables import ScheduleStep

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobledger.domain.job import Job
    from jobledger.domain.lease import Standing
    from jobledger.domain.ports import Append, Entropy
    from jobledger.domain.schedules.ports import ScheduleAppend
    from jobledger.domain.schedules.state import ScheduleState
    from tests.proof.actors import Life
    from tests.proof.backends import Backend
    from tests.proof.simulated import SimulatedSession

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
STEPS: Final = 300
GAP_EVENTS_MAX: Final = 8
LATENCIES: Final = tuple(
    (there, back, there + back + more) for there in (0, 0, 1, 2) for back in (0, 1) for more in (1, 3)
)
"""How many ticks a request and its reply take, and how long its sender waits for it."""
UNNAMED: Final = frozenset({"read", "claim_next", "recover_expired", "schedule.fire_due", "schedule.backfill"})
"""What is asked without a command id: repeating it is another request."""

Maker = "Callable[[World, Entropy, Mapping[str, Policy]], Backend]"


class Simulation(World):
    """One world; ``run`` lets it go on for a number of steps, or until an invariant is broken.

    A step is one thing that happens: an actor goes on, a request arrives, or a reply does.
    """

    def __init__(
        self,
        seed: int,
        *,
        steps: int = STEPS,
        mix: Mix | None = None,
        make: Callable[[World, Entropy, Mapping[str, Policy]], Backend] = SimulatedBackend,
        dropped: frozenset[str] = frozenset(),
        is_told: bool = False,
    ) -> None:
        """Draw the world of ``seed``.

        Args:
            seed: which world.
            steps: how many things happen at most.
            mix: another mix than the seed's own.
            make: the store that it runs over.
            dropped: requests (client and number) that are never sent, and gaps that nobody uses; for shrinking.
            is_told: remember every moment, for a story.
        """
        self.seed, self.steps = seed, steps
        self.mix = mix or Mix.drawn(seed)
        self.random = Random(seed * 32)  # noqa: S311  # a simulation must be repeatable
        self.time, self.skew, self.now = 0, 0, START
        self.jobs: list[str] = []
        self.ended: set[str] = set()
        self.followed: list[int] = []
        self.cursor = 0
        self.operations: list[Operation] = []
        self.violations: list[Violation] = []
        self.moments: list[Moment] = []
        self.noted: set[str] = set()
        self.taken = 0
        self._turn = 0
        self._sent: dict[str, int] = {}
        self._dropped, self._is_told = dropped, is_told
        self._waiting: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0
        self._is_between = False
        self._gaps = 0
        self._serving: Operation | None = None
        self._sessions: list[SimulatedSession] = []
        self._entropy = CountingEntropy(self.random)
        mix = self.mix
        policy = tight_policy(mix.lease, mix.interrupts_max, mix.failures_max)
        self.backend: Backend = make(self, self._entropy, {"tight": policy})
        lives = {**LIVES, **(SCHEDULING_LIVES if mix.schedules else {})}
        self._actors = [
            lives[name](name, self, number) for number, name in enumerate(lives, start=1) if name in mix.actors
        ]

    # Time -------------------------------------------------------------------------------------------------------------

    def run(self) -> Run:
        """Let things happen, then judge the whole."""
        for actor in self._actors:
            self._after(actor.random.randint(0, 5), self._starts, actor)
        waiting = self._waiting
        while waiting and self.taken < self.steps and not self.violations:
            self._step()
        history = self._history()
        if not self.violations:
            self.violations += check_history(history)
        if not isinstance(self.backend, SimulatedBackend) and not self.violations:
            self.violations += check_log(history)
        self.backend.close()
        return Run(self.seed, self.mix, self.taken, history, self.violations, self.moments, frozenset(self.noted))

    def _step(self) -> None:
        self.taken += 1
        time, _, happen, about = heapq.heappop(self._waiting)
        if time > self.time:
            self._pass(time)
        happen(*about)

    def _pass(self, time: int) -> None:
        self.time = max(self.time, time)
        self.now = START + timedelta(seconds=self.time + self.skew)

    def _after(self, ticks: int, happen: Callable[..., None], *about: Any) -> None:
        self._number += 1
        heapq.heappush(self._waiting, (self.time + ticks, self._number, happen, about))

    def _tell(self, what: str, operation: Operation | None = None, by: str = "", told: Any = None) -> None:
        if self._is_told:
            self.moments.append(Moment(self.time, self.now, what, operation, by, told))

    # Processes --------------------------------------------------------------------------------------------------------

    def _starts(self, actor: Actor) -> None:
        self._goes_on(actor, actor.start(), None)

    def _goes_on(self, actor: Actor, life: Life, answered: Operation | None) -> None:
        """An actor goes on, unless it crashes or is held up here; a crashed one hears nothing more."""
        if life is not actor.life:
            return
        mix = self.mix
        if mix.crashes or mix.stops:
            chance = actor.random.random()
            if chance < mix.crashes:
                self.noted.add("crash")
                self._tell("crashed", None, actor.name)
                actor.crash()
                self._after(actor.random.randint(1, mix.lease), self._starts, actor)
                return
            if chance < mix.crashes + mix.stops:
                self._tell("stopped", None, actor.name)
                self._after(actor.random.randint(1, 3 * mix.lease), self._continues, actor, life, answered)
                return
        self._continues(actor, life, answered)

    def _continues(self, actor: Actor, life: Life, answered: Operation | None) -> None:
        if life is not actor.life:
            return
        wanted = life.send(answered)
        if isinstance(wanted, int):
            self._after(wanted, self._goes_on, actor, life, None)
        else:
            self._sends(actor, life, wanted)

    # The network ------------------------------------------------------------------------------------------------------

    def _sends(self, actor: Actor, life: Any, operation: Operation) -> None:
        mix, draw = self.mix, actor.random
        sent = self._sent[actor.name] = self._sent.get(actor.name, 0) + 1
        operation.invoked = self.backend.length()
        there, back, patience = LATENCIES[int(draw.random() * len(LATENCIES))]
        chance = draw.random()
        if self._dropped and f"{actor.name}-{sent}" in self._dropped:
            self._after(patience, self._goes_on, actor, life, operation)
            return
        self.operations.append(operation)
        self._tell("sent", operation, f"{actor.name}-{sent}")
        if chance < (lost := mix.lost_requests):
            self._tell("request lost", operation)
            self._after(patience, self._goes_on, actor, life, operation)
        elif chance < (lost := lost + mix.lost_replies):
            self._after(there, self._arrives, operation, None, None, 0)
            self._tell("reply will be lost", operation)
            self._after(patience, self._goes_on, actor, life, operation)
        elif chance < (lost := lost + mix.late_requests):
            self._after(patience + draw.randint(1, 2 * mix.lease), self._arrives, operation, None, None, 0)
            self._tell("request is late", operation)
            self._after(patience, self._goes_on, actor, life, operation)
        else:
            self._after(there, self._arrives, operation, actor, life, back)
            if chance < lost + mix.twice and operation.command_id is not None:
                self._tell("request goes twice", operation)
                self._after(there + draw.randint(0, 2 * mix.lease), self._arrives, operation, None, None, 0)

    def _arrives(self, operation: Operation, actor: Actor | None, life: Any, back: int) -> None:
        """A request arrives at the store; its reply goes back, if there is anybody to take it."""
        mix = self.mix
        if mix.jumps and self.random.random() < mix.jumps:
            self._jump(2 * mix.lease)
        served = self._serve(operation)
        if actor is not None:
            self._after(back, self._replies, operation, served, actor, life)

    def _jump(self, ticks: int) -> None:
        """Somebody sets the store's clock."""
        jump = self.random.randint(-ticks, ticks)
        self.skew += jump
        self._pass(self.time)
        if jump < 0:
            self.noted.add("clock_set_back")
        self._tell(f"the store's clock is set by {jump} s")

    def _replies(self, operation: Operation, served: Served, actor: Actor, life: Any) -> None:
        operation.result, operation.code, operation.answer = served.result, served.code, served.answer
        operation.ended = self.backend.length()
        self._goes_on(actor, life, operation)

    # The store --------------------------------------------------------------------------------------------------------

    def _serve(self, operation: Operation) -> Served:
        """Run one request against the store; whatever it does beyond its answers is a surprise."""
        entropy, outer = self._entropy, (self._serving, self._sessions)
        self._serving, self._sessions = operation, []
        is_new = self._is_new(operation)
        first, entropy.first = entropy.first, ""
        try:
            if operation.name == "read":
                asked = operation.arguments
                result, code, answer = "ok", "", self.backend.feed(asked["after"], asked["limit"])
            else:
                result, code, answer = call(self.backend.commands, self.backend.schedules, operation)
        except Exception as surprise:  # noqa: BLE001  # whatever a broken rule raises is what is looked for
            result, code, answer = "unknown", type(surprise).__name__, None
            self.surprised(f"{operation.name} raised {type(surprise).__name__}: {surprise}")
        if operation.command_id is None and operation.name not in UNNAMED:
            operation.command_id = entropy.first
        if is_new:
            self._judge_answer(operation, result, code)
        elif isinstance(answer, FiringReport):
            self._judge_firing(answer)
        entropy.first = first
        self._serving, self._sessions = outer
        self._turn += 1
        served = Served(result, code, answer, self.backend.length(), self._turn)  # type: ignore[arg-type]  # one of three
        operation.served.append(served)
        if answer is not None:
            self._learn(answer)
        self._tell("served", operation, "", served)
        return served

    def _is_new(self, operation: Operation) -> bool:
        """Whether the store is asked for the first time, so that nothing but its rules decides on the answer."""
        backend, job_id = self.backend, operation.job_id
        if not isinstance(backend, SimulatedBackend) or job_id is None:
            return False
        return operation.command_id is None or (job_id, operation.command_id) not in backend.storage.by_command

    def _judge_answer(self, operation: Operation, result: str, code: str) -> None:
        """Hold the answer against what its last transaction was decided on."""
        if not self._sessions or result == "unknown" or code in ("store_unavailable", "command_changed"):
            return
        if result == "ok" and len(self._sessions) > 1:
            return
        session = self._sessions[-1]
        if not session.has_written and not self._is_new(operation):
            return  # a copy of the request came in between, and this one was told what that one did
        standing = session.decided(operation.job_id or "")
        if standing is not None:
            group = operation.arguments.get("group")
            epoch = session.epochs_seen.get(group, 0) if group else 0
            self.violations += check_answer(Answered(operation, standing, epoch, code))

    def _judge_firing(self, report: FiringReport) -> None:
        """A scheduler that nobody disturbed, and for which no clock was set, leaves nothing due."""
        last = self._sessions[-1] if self._sessions else None
        if not isinstance(self.backend, SimulatedBackend) or last is None or not last.is_current:
            return
        with self.backend.storage.reading() as reader:
            due = reader.due_schedules("", after=None, limit=10)
        for each in due:
            text = f"it was due at {each.due_at.isoformat()}, and is so still after {report}"
            self.violations.append(Violation("nothing_due", f"schedule {each.name}", text))

    def began(self, session: SimulatedSession) -> None:
        """Remember the transactions of the operation that is served."""
        self._sessions.append(session)

    def before_clock(self) -> None:
        """Others may come in between a load and the reading of the clock."""
        self._others_come_in()

    def before_write(self) -> None:
        """Others may come in between a decision and its append."""
        self._others_come_in()

    def _others_come_in(self) -> None:
        mix, draw = self.mix, self.random
        if not mix.gaps or self._is_between or draw.random() >= mix.gaps:
            return
        until = self.time + draw.randint(0, mix.lease)
        is_clock_set = bool(mix.jumps) and draw.random() < 0.3
        self._gaps += 1
        if self._dropped and f"gap-{self._gaps}" in self._dropped:
            return
        self._is_between = True
        self._tell("others come in before it is written", self._serving, f"gap-{self._gaps}")
        if is_clock_set:
            self._jump(mix.lease)
        for _ in range(GAP_EVENTS_MAX):
            if not self._waiting or self._waiting[0][0] > until or self.violations:
                break
            self._step()
        self._pass(until)
        self._tell("… and it goes on", self._serving)
        self._is_between = False

    def is_down(self) -> bool:
        """Whether the store is down for this transaction."""
        is_down = bool(self.mix.outages) and self.random.random() < self.mix.outages
        if is_down:
            self.noted.add("store_down")
        return is_down

    def ending(self) -> Ending:
        """What becomes of this transaction."""
        mix = self.mix
        if mix.lost_commits or mix.undone_commits:
            chance = self.random.random()
            if chance < mix.lost_commits:
                is_firing = self._serving is not None and self._serving.name == "schedule.fire_due"
                self.noted.add("firing_reply_lost" if is_firing else "commit_reply_lost")
                self._tell("committed, and the connection broke", self._serving)
                return "lost"
            if chance < mix.lost_commits + mix.undone_commits:
                self.noted.add("commit_undone")
                self._tell("the connection broke before the commit", self._serving)
                return "undone"
        return "kept"

    def written(self, append: Append, decided: Standing | None, met: Standing | None) -> None:
        """Judge each event as it is written."""
        records: Any = append.records
        before, leading = (decided.job if decided else None), None
        for place, stored in enumerate(records):
            following = records[place + 1].event if place + 1 < len(records) else None
            after = append.job if following is None and place == 0 else evolve(before, stored.event)
            self.violations += check_step(
                before, stored.event, after, leading=leading, following=following, standing=decided, met=met
            )
            before, leading = after, stored.event
        if records and before != append.job:
            self.violations.append(Violation("rows", append.job.id, "the status row is not the fold of its events"))

    def settled(self, append: ScheduleAppend, before: ScheduleState | None, seen: Mapping[str, Job]) -> None:
        """Judge each event of a schedule as it is written."""
        ended = {job.id: job.updated_at if job.is_terminal else None for job in seen.values()}
        is_put = self._serving is not None and self._serving.name == "schedule.put"
        records: Any = append.records
        for stored in records:
            after = evolve_schedule(before, stored.event)
            self.violations += check_schedule_step(ScheduleStep(before, stored.event, after, ended, is_put))
            before = after
        if before != append.state:
            self.violations.append(Violation("schedule_rows", append.state.stream, "its row is not the fold"))

    def learn_occurrences(self) -> None:
        """Let everybody know the newest job of each schedule."""
        for number in range(1, self.mix.schedules + 1):
            state = self.backend.schedule(f"s{number}")
            job_id = state.last_job_id if state else None
            if job_id is not None and job_id not in self.jobs:
                self.jobs.append(job_id)

    def conflicted(self, precondition: str) -> None:
        """Others came in between."""
        self.noted.add("schedule_conflict" if precondition == "schedule" else "conflict")
        self._tell(f"its precondition {precondition!r} no longer holds: it is decided on anew", self._serving)

    def surprised(self, text: str) -> None:
        """Count what no fault explains as a violation."""
        self.violations.append(Violation("no_surprises", f"step {self.taken}", text))

    def _learn(self, answer: Any) -> None:
        """Let everybody know which jobs there are, and which have ended."""
        if isinstance(answer, CreateReceipt):
            if answer.job_id not in self.jobs:
                self.jobs.append(answer.job_id)
        elif isinstance(answer, ControlReceipt | ExecutionResult) and answer.state in TERMINAL:
            self.ended.add(answer.job_id)

    def _history(self) -> History:
        backend = self.backend
        names = (f"s{number}" for number in range(1, self.mix.schedules + 1))
        schedules = {name: state for name in names if (state := backend.schedule(name)) is not None}
        return History(backend.log(), self.operations, backend.jobs(), backend.resources(), self.followed, schedules)
