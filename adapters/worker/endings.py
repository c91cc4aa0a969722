"""How an attempt ends: what a handler returned or raised, put into the words of the store's commands."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from jobledger.adapters.worker.outcomes import Defer, Ending, Partial, Retry, Unavailable
from jobledger.adapters.worker.unwinding import JobCancelled, JobParked, LeaseLost
from jobledger.domain.bounds import error_text
from jobledger.domain.events import Outcome
from jobledger.domain.store.working import Keep
from jobledger.domain.values import Json


@dataclass(frozen=True, slots=True)
class Finish:
    """The job ends with this outcome."""

    outcome: Outcome
    result: Json = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Fail:
    """The attempt failed; the policy says whether there is another one."""

    error: str
    retry_after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Later:
    """The job is given back until an instant, or for a span by the store's clock."""

    until: datetime | timedelta
    state: Json | Keep


@dataclass(frozen=True, slots=True)
class Park:
    """The job is given back at a boundary, for a hold or a drain."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The job ends as cancelled."""

    boundary: Json = None


@dataclass(frozen=True, slots=True)
class Abandon:
    """Nothing may be written any more."""

    reason: str


AttemptEnding = Finish | Fail | Later | Park | Stop | Abandon

NO_RESULT: Final = Finish(Outcome.COMPLETE)
_FINISHED: Final = frozenset({str, int, float, bool, dict, list})
"""Types of values that are results and nothing else; of these, no more is asked."""


def ending_of_value(value: Any) -> AttemptEnding:
    """What a returned value means; one that would still have to run is a mistake of the handler."""
    if value is None:
        return NO_RESULT
    if type(value) in _FINISHED:
        return Finish(Outcome.COMPLETE, value)
    if isinstance(value, Ending):
        return _ending_of_wish(value)
    if inspect.iscoroutine(value) or inspect.isgenerator(value):
        value.close()
    is_unfinished = inspect.isawaitable(value) or inspect.isgenerator(value) or inspect.isasyncgen(value)
    if is_unfinished:
        return Fail(
            f"the handler returned a {type(value).__name__}, which did not run; await it inside an async handler, "
            "or return its result"
        )
    return Finish(Outcome.COMPLETE, value)


def ending_of_error(error: BaseException) -> AttemptEnding:
    """What a raised exception means; all that does not unwind on the host's word is a failure, also ``SystemExit``."""
    match error:
        case Ending():
            return _ending_of_wish(error)
        case JobCancelled(boundary=boundary):
            return Stop(boundary)
        case JobParked():
            return Park()
        case LeaseLost(reason=reason):
            return Abandon(reason)
        case asyncio.CancelledError():
            return Fail("CancelledError: the handler's task was cancelled from inside; nobody asked to cancel the job")
        case _:
            return Fail(told(error))


def told(error: BaseException) -> str:
    """The text of any exception, also of one whose text cannot be made."""
    try:
        return error_text(error)
    except BaseException as problem:  # noqa: BLE001  # an error report must never fail, whatever its __str__ does
        return f"{type(error).__name__}: (its text could not be made: {type(problem).__name__})"


def _ending_of_wish(wish: Ending) -> AttemptEnding:
    match wish:
        case Partial(result=result, reason=reason):
            return Finish(Outcome.PARTIAL, result, reason)
        case Unavailable(reason=reason):
            return Finish(Outcome.UNAVAILABLE, error=reason)
        case Defer(until=datetime() | timedelta() as until, state=state):
            return Later(until, state)
        case Retry(after=timedelta() | None as after):
            return Fail(told(wish.__cause__) if wish.__cause__ is not None else str(wish), after)
        case _:
            return Fail(told(wish))
