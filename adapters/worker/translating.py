"""How an attempt ended, and what it staged, in the words that go from a child process to its host, and back."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from jobledger.adapters.worker.endings import Abandon, AttemptEnding, Fail, Finish, Later, Park, Stop
from jobledger.adapters.worker.messages import Ended, StagedEffect
from jobledger.adapters.worker.staging import Staged
from jobledger.adapters.worker.storable import plain, require_no_giant
from jobledger.domain.answers import Progress
from jobledger.domain.bounds import require_within
from jobledger.domain.decisions.working import Effect
from jobledger.domain.errors import InvalidError, InvalidRequestError, ResultTooLargeError
from jobledger.domain.events import Outcome
from jobledger.domain.store import KEEP
from jobledger.domain.values import encode_json


def effects_of(staged: Staged) -> tuple[StagedEffect, ...]:
    """What was staged, as it is sent.

    Raises:
        InvalidRequestError: there are statements to run inside; no connection reaches another process.
    """
    if staged.statements:
        raise InvalidRequestError(
            "inside", "a handler in a process has no connection to the store; run it with executor='thread'"
        )
    return tuple(StagedEffect(each.resource, each.value, each.expected_version) for each in staged.effects)


def staged_of(effects: tuple[StagedEffect, ...]) -> Staged:
    """What was sent, as it is staged."""
    return Staged(
        tuple(
            Effect(resource=each.resource, value=each.value, expected_version=each.expected_version) for each in effects
        )
    )


def ended_of(
    ending: AttemptEnding, staged: Staged, progress: Progress | None, *, is_idle: bool, result_bytes_max: int
) -> Ended:
    """An ending as it is sent; a value that cannot be stored makes a failure of it, here as in the host."""
    try:
        ended = _ended(ending, staged, result_bytes_max)
    except InvalidError as refusal:
        ended = Ended("fail", text=f"{refusal.code}: {refusal}")
    return replace(ended, progress=progress, is_idle=is_idle)


def _ended(ending: AttemptEnding, staged: Staged, result_bytes_max: int) -> Ended:
    match ending:
        case Finish(outcome=outcome, result=result, error=error):
            require_no_giant(result, result_bytes_max)
            value = plain("result", result)
            require_within(ResultTooLargeError, len(encode_json(value)), result_bytes_max)
            return Ended("finish", outcome=outcome.value, value=value, text=error, effects=effects_of(staged))
        case Fail(error=error, retry_after=after):
            return Ended("fail", text=error, seconds=None if after is None else after.total_seconds())
        case Later(until=until, state=state):
            return Ended(
                "later",
                keeps=state is KEEP,
                value=None if state is KEEP else plain("checkpoint", state),
                instant=until.isoformat() if isinstance(until, datetime) else None,
                seconds=until.total_seconds() if isinstance(until, timedelta) else None,
            )
        case Park():
            return Ended("park")
        case Stop(boundary=boundary):
            return Ended("stop", value=plain("boundary", boundary))
        case Abandon(reason=reason):
            return Ended("abandon", text=reason)


def ending_of(ended: Ended) -> AttemptEnding:
    """An ending as the host publishes it."""
    match ended.ending:
        case "finish":
            return Finish(Outcome(ended.outcome), ended.value, ended.text)
        case "fail":
            after = None if ended.seconds is None else timedelta(seconds=ended.seconds)
            return Fail(ended.text or "the handler failed", after)
        case "later":
            until = datetime.fromisoformat(ended.instant) if ended.instant else timedelta(seconds=ended.seconds or 0)
            return Later(until, KEEP if ended.keeps else ended.value)
        case "park":
            return Park()
        case "stop":
            return Stop(ended.value)
        case "abandon":
            return Abandon(ended.text or "the lease was lost")
