"""Any history at all: what clients, operators, workers, clocks and networks do, in any order."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from jobledger import KEEP, Completion, Effect, Fence, JobRequest, Lease, Progress, State
from jobledger.domain.ports import Append
from tests.contracts.faults import Fault
from tests.contracts.lockstep import (
    EMBEDDED,
    GROUPS,
    OPENERS,
    Call,
    Lockstep,
    Opener,
    Refused,
    Side,
    comparable,
    copied,
)
from tests.contracts.strategies import (
    Claim,
    Hand,
    claims,
    controls,
    effects,
    flag,
    hands,
    index,
    outcomes,
    receipts,
    requests,
    states,
)

T = TypeVar("T")


@dataclass(slots=True)
class Deed:
    """A command with its id, as it may come again; ``answer`` is the first one, once it came into effect."""

    call: Call
    command_id: str
    answer: Any = None
    is_claim: bool = False


def _creates(request: JobRequest, side: Side) -> Any:
    return side.store.create(request)


def picked(items: list[T], place: int) -> T:
    """One of them, counted from the newest."""
    return items[-1 - place % len(items)]


class AnyHistory(RuleBasedStateMachine):
    """Whatever clients, operators, workers, clocks and networks do, in any order."""

    openers: dict[str, Opener] = {name: OPENERS[name] for name in EMBEDDED}  # noqa: RUF012  # replaced, never changed

    def __init__(self) -> None:
        super().__init__()
        memory = Path("/dev/shm")  # noqa: S108  # a file system in memory, where there is one: files are synchronised often
        self.folder = Path(tempfile.mkdtemp(prefix="jobledger-", dir=memory if memory.is_dir() else None))
        self.all = Lockstep(self.folder, self.openers)
        self.hands: list[list[Fence]] = []
        self.deeds: list[Deed] = []
        self.is_whole = True

    def teardown(self) -> None:
        """Ask everything once more, unless something failed before."""
        try:
            if self.is_whole:
                self.all.require_equal_reads()
        finally:
            self.all.close()
            shutil.rmtree(self.folder)

    # How every rule acts ----------------------------------------------------------------------------------------------

    def does(self, call: Callable[[Side, str | None], Any], *, named: bool, is_claim: bool = False) -> list[Any]:
        """Let all sides run a command, with an id of its own if it is ``named``; a named one may be repeated later."""
        if not named:
            return self.acts(lambda side: call(side, None))
        command_id = f"command-{len(self.deeds)}"
        deed = Deed(lambda side: call(side, command_id), command_id, is_claim=is_claim)
        self.deeds.append(deed)
        answers = self.acts(deed.call)
        if command_id in self.all.caused:
            deed.answer = comparable(answers[0])
        return answers

    def acts(self, call: Call) -> list[Any]:
        """Let all sides run a command and keep the fences that it gave."""
        self.is_whole = False
        answers = self.all.act(call)
        self.is_whole = True
        for place, answer in enumerate(answers[0] if isinstance(answers[0], list) else answers[:1]):
            if isinstance(answer, Lease):
                leases = [each[place] for each in answers] if isinstance(answers[0], list) else answers
                self.hands.append([lease.fence for lease in leases])
        return answers

    def job(self, place: int) -> str:
        """One of the jobs: mostly one that has not ended, the newest first."""
        going = [job.id for job in self.all.jobs.values() if not job.is_terminal]
        return picked(going if going and place < 6 else list(self.all.jobs), place)

    def holding(self, place: int) -> list[Fence]:
        """The fences that one claim gave: mostly of an attempt that is open."""
        open_ones = [fences for fences in self.hands if self.is_open(fences[0])]
        return picked(open_ones if open_ones and place < 6 else self.hands, place)

    def is_open(self, fence: Fence) -> bool:
        """Whether the attempt of a fence has not ended."""
        job = self.all.jobs[fence.job_id]
        return job.state is State.RUNNING and job.generation == fence.generation

    def hand(self, hand: Hand) -> Callable[[Side], Fence]:
        """A fence that was given once: the worker's own, a copy of it, or one with a wrong token."""
        fences = self.holding(hand.place)
        if hand.is_old:
            fences = [replace(copied(fence)) for fence in fences]
            for fence in fences:
                fence.steps.last = 0
        if hand.is_forged:
            fences = [replace(fence, token="guessed") for fence in fences]
        return lambda side: fences[side.number]

    # Clients ----------------------------------------------------------------------------------------------------------

    @initialize()
    def there_are_two_jobs(self) -> None:
        """One that runs, and one that waits."""
        for key in ("k0", "k1"):
            request = JobRequest(owner="team", kind="index", key=key, policy="quick")
            self.acts(partial(_creates, request))
        self.acts(lambda side: side.store.claim_next(worker="w"))

    @rule(request=requests, later=st.sampled_from([0, 0, 5, 60]), named=flag)
    def a_job_is_created(self, request: JobRequest, later: int, named: bool) -> None:
        if later:
            request = request.model_copy(update={"ready_at": self.all.clock.now() + timedelta(seconds=later)})
        self.does(lambda side, command_id: side.store.create(request, command_id=command_id), named=named)

    @rule(wanted=st.lists(requests, max_size=3))
    def several_jobs_are_created(self, wanted: list[JobRequest]) -> None:
        self.acts(lambda side: side.store.create_many(wanted))

    # Workers ----------------------------------------------------------------------------------------------------------

    def _claim(self, claim: Claim) -> Any:
        job_id, token = self.job(claim.place), f"token-{len(self.hands)}"
        return lambda side, command_id: side.store.claim(
            job_id,
            worker="w",
            group=claim.group,
            epoch=claim.epoch,
            lease=claim.span,
            respect_hold=claim.respects_hold,
            command_id=command_id,
            token=token,
        )

    @precondition(lambda self: self.all.jobs)
    @rule(claim=claims, named=flag)
    def a_worker_claims(self, named: bool, claim: Claim) -> None:
        self.does(self._claim(claim), named=named, is_claim=True)

    @rule(
        limit=st.integers(1, 3), kinds=st.sampled_from([None, None, ["index"]]), epoch=st.sampled_from([None] * 4 + [1])
    )
    def a_worker_claims_what_is_next(self, limit: int, kinds: list[str] | None, epoch: int | None) -> None:
        queues = ("default", "slow")
        self.acts(lambda side: side.store.claim_next(worker="w", queues=queues, kinds=kinds, limit=limit, epoch=epoch))

    @precondition(lambda self: self.hands)
    @rule(hand=hands)
    def a_worker_renews(self, hand: Hand) -> None:
        fence = self.hand(hand)
        self.acts(lambda side: side.store.renew(fence(side)))

    @precondition(lambda self: self.hands)
    @rule()
    def all_workers_renew(self) -> None:
        self.acts(lambda side: side.store.renew_many([fences[side.number] for fences in self.hands]))

    def _saving(self, fence: Any, state: Any, staged: list[Effect], done: int | None) -> Any:
        progress = None if done is None else Progress(done, 3)
        return lambda side, command_id: side.store.checkpoint(
            fence(side), state, effects=staged, progress=progress, command_id=command_id
        )

    @precondition(lambda self: self.hands)
    @rule(hand=hands, state=states, staged=effects, done=st.sampled_from([None, 3]), named=flag)
    def a_worker_saves_its_state(self, state: Any, staged: Any, done: int | None, named: bool, hand: Hand) -> None:
        self.does(self._saving(self.hand(hand), state, staged, done), named=named)

    @precondition(lambda self: self.hands)
    @rule(hand=hands, unit=st.sampled_from(["u0", "u1", "u2"]), receipt=receipts, named=flag)
    def a_worker_proves_a_unit(self, unit: str, receipt: Any, named: bool, hand: Hand) -> None:
        fence = self.hand(hand)
        self.does(
            lambda side, command_id: side.store.record_unit(fence(side), unit, receipt, command_id=command_id),
            named=named,
        )

    @precondition(lambda self: self.hands)
    @rule(hand=hands, done=st.sampled_from([0, 0.5, 3]), named=flag)
    def a_worker_reports_progress(self, done: float, named: bool, hand: Hand) -> None:
        fence = self.hand(hand)
        self.does(
            lambda side, command_id: side.store.report_progress(fence(side), done, 3, command_id=command_id),
            named=named,
        )

    def _stopping(self, fence: Any, how: str, state: Any, staged: list[Effect]) -> Any:
        later = self.all.clock.now() + timedelta(seconds=5)
        with_state = {"state": state, "effects": () if state is KEEP else staged}
        ways: dict[str, Callable[[Side, str | None], Any]] = {
            "pause": lambda side, known: side.store.pause(fence(side), **with_state, command_id=known),
            "defer": lambda side, known: side.store.defer(fence(side), later, **with_state, command_id=known),
            "fail": lambda side, known: side.store.fail_attempt(fence(side), "broke", command_id=known),
            "fail soon": lambda side, known: side.store.fail_attempt(
                fence(side), OSError("broke"), retry_after=1, command_id=known
            ),
            "cancel": lambda side, known: side.store.cancel(fence(side), {"at": 1}, command_id=known),
        }
        return ways[how]

    @precondition(lambda self: self.hands)
    @rule(
        hand=hands,
        how=st.sampled_from(["pause", "defer", "fail", "fail soon", "cancel"]),
        state=st.one_of(st.just(KEEP), states),
        staged=effects,
        named=flag,
    )
    def a_worker_stops(self, how: str, state: Any, staged: list[Effect], named: bool, hand: Hand) -> None:
        self.does(self._stopping(self.hand(hand), how, state, staged), named=named)

    @precondition(lambda self: self.hands)
    @rule(hand=hands, outcome=outcomes, result=states, staged=effects, named=flag)
    def a_worker_ends(self, outcome: str, result: Any, staged: list[Effect], named: bool, hand: Hand) -> None:
        fence = self.hand(hand)
        said: dict[str, Any] = (
            {"result": result, "effects": staged} if outcome in ("complete", "partial") else {"error": "it broke"}
        )
        self.does(
            lambda side, command_id: side.store.complete(fence(side), outcome, **said, command_id=command_id),
            named=named,
        )

    @precondition(lambda self: self.hands)
    @rule(places=st.lists(index, min_size=1, max_size=3), staged=effects)
    def several_workers_end(self, places: list[int], staged: list[Effect]) -> None:
        hands = [self.hand(Hand(place)) for place in places]
        self.acts(
            lambda side: side.store.complete_many(
                [Completion(hand(side), result=1, effects=tuple(staged)) for hand in hands]
            )
        )

    # Operators --------------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.all.jobs)
    @rule(
        place=index,
        control=controls,
        by=st.sampled_from(["ann", "bob"]),
        looked=st.sampled_from([0] * 6 + [1, 2]),
        named=flag,
    )
    def an_operator_asks(self, place: int, control: str, by: str, looked: int, named: bool) -> None:
        job_id = self.job(place)
        seen = self.all.jobs[job_id].control_sequence
        expected = [None, seen, seen + 1][looked]
        self.does(
            lambda side, command_id: getattr(side.store, control)(
                job_id, by=by, reason="r", expected_sequence=expected, command_id=command_id
            ),
            named=named,
        )

    @precondition(lambda self: any(self.is_open(fences[0]) for fences in self.hands))
    @rule(place=index, named=flag)
    def a_job_is_recovered(self, place: int, named: bool) -> None:
        job_id = self.holding(place)[0].job_id
        self.does(lambda side, command_id: side.store.recover(job_id, command_id=command_id), named=named)

    @rule(limit=st.sampled_from([1, 100]))
    def what_expired_is_recovered(self, limit: int) -> None:
        self.acts(lambda side: side.store.recover_expired(limit))

    @precondition(lambda self: self.all.jobs)
    @rule(place=index, key=st.sampled_from(["k3", "k4", "k0"]), at=st.integers(0, 8), on=flag, named=flag)
    def a_job_is_run_again(self, place: int, key: str, at: int, on: bool, named: bool) -> None:
        job_id = self.job(place)
        words: dict[str, Any] = {"by": "ann", "reason": "r", "key": key}
        if at:
            at_sequence = min(at, self.all.jobs[job_id].sequence)
            self.does(
                lambda side, known: side.store.fork(job_id, at_sequence=at_sequence, **words, command_id=known),
                named=named,
            )
        else:
            self.does(
                lambda side, known: side.store.rerun(job_id, from_checkpoint=on, **words, command_id=known), named=named
            )

    @precondition(lambda self: self.hands and max(self.all.epochs.values()) < 3)
    @rule(group=st.sampled_from(GROUPS), named=flag)
    def a_group_moves_on(self, group: str, named: bool) -> None:
        self.does(
            lambda side, command_id: side.store.advance_epoch(group, by="ann", reason="r", command_id=command_id),
            named=named,
        )

    # Clocks and networks ----------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.000001, 1, 2, 3, 6, 31, 700, -4]))
    def time_passes(self, seconds: float) -> None:
        self.all.clock.step(timedelta(seconds=seconds))

    @rule(faults=st.lists(st.sampled_from(["none", "lost", "undone"]), min_size=1, max_size=3))
    def the_next_replies_get_lost(self, faults: list[Fault]) -> None:
        self.all.faults = faults

    @precondition(lambda self: self.deeds)
    @rule(place=index)
    def an_earlier_command_comes_again(self, place: int) -> None:
        deed = picked(self.deeds, place)
        known = self.all.caused.get(deed.command_id)

        answers = self.acts(deed.call)

        if known is None:
            deed.answer = comparable(answers[0]) if deed.command_id in self.all.caused else None
            return
        assert not self.all.news, "a repeated command appended something"
        if not deed.is_claim:
            deed.answer = deed.answer or comparable(answers[0])
            assert comparable(answers[0]) == deed.answer, "a repeated command has another answer"
            return
        stream, generation = known[0].stream, known[-1].generation
        if self.is_open(Fence(stream, generation or 0, "", 0, "")):
            row = self.all.rows[stream].lease
            assert isinstance(answers[0], Lease)
            assert row is not None
            assert (answers[0].generation, answers[0].expires_at) == (generation, row.expires_at)
        else:
            assert isinstance(answers[0], Refused)
            assert answers[0].code == "stale_fence"

    @precondition(lambda self: self.all.caused.keys() & {deed.command_id for deed in self.deeds})
    @rule(place=index, other=st.sampled_from(["hold", "request_cancel", "recover", "claim", "complete"]))
    def an_id_is_used_for_something_else(self, place: int, other: str) -> None:
        deed = picked([deed for deed in self.deeds if deed.command_id in self.all.caused], place)
        stream, command_id = self.all.caused[deed.command_id][0].stream, deed.command_id
        words: dict[str, Any] = {"by": "meddler", "reason": "r", "command_id": command_id}
        guessed = Fence(stream, 1, "default", 1, "guessed")
        ways: dict[str, Call] = {
            "hold": lambda side: side.store.hold(stream, **words),
            "request_cancel": lambda side: side.store.request_cancel(stream, **words),
            "recover": lambda side: side.store.recover(stream, by="meddler", command_id=command_id),
            "claim": lambda side: side.store.claim(stream, worker="meddler", command_id=command_id),
            "complete": lambda side: side.store.complete(replace(guessed), result="meddled", command_id=command_id),
        }
        if stream not in self.all.jobs:
            group = stream.rsplit(":", 1)[1]
            ways = dict.fromkeys(ways, lambda side: side.store.advance_epoch(group, **words))

        answers = self.acts(ways[other])

        assert isinstance(answers[0], Refused)
        assert answers[0].code == "command_changed"

    @precondition(lambda self: self.hands)
    @rule(
        place=index,
        kind=st.sampled_from(["claim", "renew", "save", "stop", "end", "recover"]),
        expired=flag,
        meanwhile=st.sampled_from(["time", "renewal", "clock set back", "epoch", "write", "nothing"]),
        state=states,
        staged=effects,
    )
    def a_decision_is_written_late(
        self, place: int, kind: str, expired: bool, meanwhile: str, state: Any, staged: list[Effect]
    ) -> None:
        """What was decided on is refused when it arrives, unless nothing that it stood on has changed."""
        fence, job_id = self.hand(Hand(place)), self.holding(place)[0].job_id
        ways = self._late_ways(fence, job_id, state, staged)
        if expired:
            self._let_it_expire(job_id)
        self.is_whole = False
        caught = self.all.catch(ways[kind])

        if meanwhile == "time":
            self._let_it_expire(job_id)
        elif meanwhile == "clock set back":
            self.all.clock.step(timedelta(seconds=-1))
            self.all.act(ways["renew"])
        elif meanwhile == "epoch" and max(self.all.epochs.values()) < 4:
            self.all.act(lambda side: side.store.advance_epoch(fence(side).group, by="ann", reason="r"))
        elif meanwhile in ("renewal", "write"):
            self.all.act(ways["renew" if meanwhile == "renewal" else "save"])
        if caught and not any(self._was_renewed_since(append) for append in caught[0]):
            self.all.arrive(caught)
        self.is_whole = True

    def _let_it_expire(self, job_id: str) -> None:
        lease = self.all.rows[job_id].lease
        if lease is not None and lease.expires_at > self.all.clock.now():
            self.all.clock.step(lease.expires_at - self.all.clock.now())

    def _late_ways(self, fence: Any, job_id: str, state: Any, staged: list[Effect]) -> dict[str, Call]:
        saving, stopping = self._saving(fence, state, staged, None), self._stopping(fence, "pause", state, staged)
        return {
            "claim": lambda side: side.store.claim(job_id, worker="late"),
            "renew": lambda side: side.store.renew(fence(side)),
            "save": lambda side: saving(side, None),
            "stop": lambda side: stopping(side, None),
            "end": lambda side: side.store.complete(fence(side), result=state, effects=staged),
            "recover": lambda side: side.store.recover(job_id),
        }

    def _was_renewed_since(self, append: Append) -> bool:
        """A store locks the job from the decision to the write: of renewals, only what ends a lease has to know."""
        row = self.all.rows.get(append.job.id)
        if append.guard.seen_expiry is not None or append.lease is None or row is None or row.lease is None:
            return False
        return append.lease.expires_at < row.lease.expires_at

    @rule()
    def the_feed_is_folded(self) -> None:
        """As far as it reaches at this moment, in a batch of whatever came since the last time."""
        for side in self.all.sides:
            side.store.run_projections()

    @invariant()
    def the_fold_is_what_every_store_keeps(self) -> None:
        """Everything else is checked after each command, where a failure can name it."""
        assert self.all.rows.keys() == self.all.jobs.keys()
