"""The host's side of an attempt in a child process: it starts it, makes its calls of the store, and hears its end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from jobledger.adapters.worker.children import Child, Children
from jobledger.adapters.worker.core import AttemptCore
from jobledger.adapters.worker.endings import Abandon, AttemptEnding, Fail, told
from jobledger.adapters.worker.held import HeldLease
from jobledger.adapters.worker.messages import Answer, Ask, Began, Ended, Logged, Refusal, Start, Wishes
from jobledger.adapters.worker.places import Place
from jobledger.adapters.worker.translating import ending_of, staged_of
from jobledger.adapters.worker.unwinding import LeaseLost
from jobledger.adapters.worker.writes import FencedWrites
from jobledger.domain.errors import JobledgerError, StoreUnavailableError
from jobledger.domain.values import Json

LOG: Final = logging.getLogger("jobledger.worker")

START_SECONDS: Final = 60.0
"""How long an interpreter and the handler's module may take to load, before an attempt's run time counts anyway."""
LEFT_BEHIND_SECONDS: Final = 5.0
"""How long processes that a handler left behind may go on, in its slot and under its lease; then they are killed."""


class Serving:
    """One attempt in a child process. The fence never leaves this process; the child asks, and is answered."""

    def __init__(
        self,
        children: Children,
        place: Place,
        core: AttemptCore,
        writes: FencedWrites,
        *,
        is_draining: Callable[[], bool],
        ids: dict[str, Any],
    ) -> None:
        """An attempt that has not begun."""
        self._children, self._place, self._core, self._writes = children, place, core, writes
        self._is_draining, self._ids = is_draining, ids
        self._held: HeldLease = writes.held
        self._child: Child | None = None
        self._told: Wishes | None = None

    def run(self) -> AttemptEnding:
        """Run the attempt to its physical end: its handler's, and that of every process which that one started."""
        try:
            child = self._child = self._children.take()
        except OSError as error:
            return Fail(f"no child process could be started: {told(error)}")
        self._core.begin(grace=START_SECONDS)
        self._told = self._wishes()
        child.say(Start(self._place, self._core.facts, self._told))
        ended = self._serve(child)
        if ended is not None:
            self._child = None
        if ended is None:
            return self._broken(child)
        self._core.leave(staged_of(ended.effects), ended.progress)
        if ended.is_idle:
            self._children.give_back(child)
            return ending_of(ended)
        if not child.leaves_within(LEFT_BEHIND_SECONDS):
            LOG.warning("processes that a handler left behind are killed", extra=self._ids)
            child.kill_left_behind()
        self._children.forget(child)
        return ending_of(ended)

    def look(self) -> None:
        """Tell the child what is asked of it, where that has changed; called every now and then."""
        child, wishes = self._child, self._wishes()
        if child is None:
            return
        if wishes != self._told:
            self._told = wishes
            child.say(wishes)
        if child.has_exited():
            child.kill()  # what it started may hold its pipes open, and would keep this thread listening

    def kill(self) -> None:
        """End the child and all that it started; the attempt is over."""
        if self._child is not None:
            self._child.kill()

    def _serve(self, child: Child) -> Ended | None:
        while True:
            message = child.listen()
            if message is None or isinstance(message, Ended):
                return message
            if isinstance(message, Began):
                self._core.begin()
            elif isinstance(message, Logged):
                logger = logging.getLogger(message.logger)
                logger.log(message.level, "%s", message.text, extra=self._ids)
            else:
                child.say(self._answered(message))

    def _answered(self, ask: Ask) -> Answer:
        value, refusal = None, None
        try:
            value = self._asked(ask)
        except LeaseLost as lost:
            self._held.lose(lost.reason)
        except JobledgerError as error:
            refusal = Refusal.of(error)
        except Exception as error:
            LOG.exception("a call of the store broke", extra=self._ids)
            refusal = Refusal.of(StoreUnavailableError(told(error)))
        self._told = self._wishes()
        return Answer(ask.number, self._told, value, refusal)

    def _asked(self, ask: Ask) -> Json:
        match ask.call:
            case "renew":
                if self._held.is_stale:
                    self._writes.renew()
                self._held.require()
            case "checkpoint":
                self._writes.checkpoint(ask.value, ask.progress, staged_of(ask.effects))
            case "record_unit":
                self._writes.record_unit(ask.name, ask.value)
            case "report_progress":
                if ask.progress is not None:
                    self._writes.report_progress(ask.progress)
            case "unit":
                found = self._writes.unit(ask.name)
                if found is not None:
                    return {
                        "receipt": found.receipt,
                        "generation": found.generation,
                        "sequence": found.sequence,
                        "reused": True,
                    }
        return None

    def _broken(self, child: Child) -> AttemptEnding:
        """The child went away without a word: a crash is a failed attempt, unless the attempt was over before."""
        how = self._children.drop(child)
        if self._held.lost is not None:
            return Abandon(self._held.lost)
        if self._core.is_overdue:
            return Fail(told(self._core.out_of_time))
        LOG.warning("the process of a handler broke: %s", how, extra=self._ids)
        return Fail(f"the handler did not end: {how}")

    def _wishes(self) -> Wishes:
        return Wishes(
            hold=self._held.is_hold_requested,
            cancel=self._held.is_cancel_requested,
            drain=self._is_draining(),
            lost=self._held.lost,
        )
