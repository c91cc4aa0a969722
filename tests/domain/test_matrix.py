"""The whole matrix: every standing of a job against every command, in one table that has no empty cell."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest

from jobledger.domain.decisions import create, fork, rerun
from jobledger.domain.decisions.creating import Met
from jobledger.domain.errors import JobledgerError
from tests.domain import when
from tests.domain.given import NOON, fence
from tests.domain.standings import STANDINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobledger.domain.events import JobEvent
    from jobledger.domain.lease import Standing

COMMANDS: Final[dict[str, Callable[[Standing], Sequence[JobEvent]]]] = {
    "create again": lambda now: create(when.request(), Met(job=now.job), now=NOON),
    "create with another payload": lambda now: create(when.request(payload=7), Met(job=now.job), now=NOON),
    "hold": when.hold,
    "hold by another": lambda now: when.hold(now, by="bob"),
    "release_hold": when.release_hold,
    "resume": when.resume,
    "recover": when.recover,
    "request_cancel": when.request_cancel,
    "retry": when.retry,
    "rerun": lambda now: rerun(when.derived(now.job, how="rerun"), now.job, Met(), now=NOON),
    "fork": lambda now: fork(when.derived(now.job, how="fork", from_checkpoint=True), now.job, Met(), now=NOON),
    "claim": when.claim,
    "claim in spite of holds": lambda now: when.claim(now, respect_hold=False),
    "claim of an older epoch": lambda now: when.claim(now, epoch=1, current_epoch=2),
    "renew": when.renew,
    "checkpoint": when.checkpoint,
    "record_unit": when.record_unit,
    "report_progress": when.report_progress,
    "pause": when.pause,
    "defer": when.defer,
    "fail_attempt": when.fail_attempt,
    "cancel": when.cancel,
    "complete": when.complete,
    "complete with another token": lambda now: when.complete(now, fence(1, secret="guess")),
}
"""Operators are ``ann`` unless told otherwise; a worker presents generation 1, the last one wherever there was one."""

NEVER_LEASED: Final = "queued queued-waiting paused-never-leased held-never-leased "
PARKED: Final = "paused-leased paused-deferred held-leased held-by-engine "
LIVE: Final = "running-live running+hold running+cancel "
EXPIRED: Final = "running-expired expired+hold expired+cancel expired-last "
ENDED: Final = "complete partial failed unavailable cancelled "
OPEN: Final = LIVE + EXPIRED + "running-epoch-stale "
UNENDED: Final = NEVER_LEASED + PARKED + OPEN


def _write(*answers: tuple[str, str]) -> dict[str, str]:
    """What holds for every worker's write; ``answers`` are those under a live lease."""
    return dict(answers) | {
        "stale_fence": NEVER_LEASED + PARKED,
        "stale_epoch": "running-epoch-stale",
        "lease_expired": EXPIRED,
        "already_terminal": ENDED,
    }


NOTHING: Final = "nothing"
"""Accepted without an event: asked for before (reused), or a renewal in time."""

MATRIX: Final[dict[str, dict[str, str]]] = {
    "create again": {NOTHING: UNENDED + ENDED},
    "create with another payload": {"payload_changed": UNENDED + ENDED},
    "hold": {
        "HoldPlaced": "queued queued-waiting running-live running-expired running-epoch-stale running+cancel "
        "expired+cancel expired-last paused-never-leased paused-leased paused-deferred",
        NOTHING: "running+hold expired+hold held-never-leased held-leased",
        "hold_in_force": "held-by-engine",
        "already_terminal": ENDED,
    },
    "hold by another": {
        "HoldPlaced": "queued queued-waiting running-live running-expired running-epoch-stale running+cancel "
        "expired+cancel expired-last paused-never-leased paused-leased paused-deferred",
        "hold_in_force": "running+hold expired+hold held-never-leased held-leased held-by-engine",
        "already_terminal": ENDED,
    },
    "release_hold": {
        "HoldReleased": "running+hold expired+hold held-never-leased held-leased held-by-engine",
        "not_held": "queued queued-waiting running-live running-expired running-epoch-stale running+cancel "
        "expired+cancel expired-last paused-never-leased paused-leased paused-deferred",
        "already_terminal": ENDED,
    },
    "resume": {
        "Resumed": "paused-never-leased",
        "HoldReleased Resumed": "held-never-leased",
        "not_resumable": "queued queued-waiting " + PARKED + OPEN,
        "already_terminal": ENDED,
    },
    "recover": {
        "Interrupted": "running-expired running-epoch-stale expired+hold",
        "Interrupted Cancelled": "expired+cancel",
        "Interrupted HoldPlaced": "expired-last",
        "lease_live": LIVE,
        "nothing_to_recover": NEVER_LEASED + PARKED,
        "already_terminal": ENDED,
    },
    "request_cancel": {
        "Cancelled": NEVER_LEASED + PARKED,
        "CancelRequested": "running-live running-expired running-epoch-stale running+hold expired+hold expired-last",
        NOTHING: "running+cancel expired+cancel",
        "already_terminal": ENDED,
    },
    "retry": {
        "RetryRequested": "queued-waiting paused-deferred",
        "Interrupted RetryRequested": "running-expired running-epoch-stale expired-last",
        NOTHING: "queued paused-never-leased paused-leased",
        "lease_live": LIVE,
        "cancel_pending": "expired+cancel",
        "hold_in_force": "expired+hold held-never-leased held-leased held-by-engine",
        "already_terminal": ENDED,
    },
    "rerun": {"Created": ENDED, "not_terminal": UNENDED},
    "fork": {"Created": UNENDED + ENDED},
    "claim": {
        "Claimed": "queued paused-never-leased paused-leased",
        "Interrupted Claimed": "running-expired running-epoch-stale",
        "lease_live": LIVE,
        "cancel_pending": "expired+cancel",
        "hold_in_force": "expired+hold held-never-leased held-leased held-by-engine",
        "budget_exhausted": "expired-last",
        "not_ready": "queued-waiting paused-deferred",
        "already_terminal": ENDED,
    },
    "claim in spite of holds": {
        "Claimed": "queued paused-never-leased paused-leased held-never-leased held-leased",
        "Interrupted Claimed": "running-expired running-epoch-stale expired+hold",
        "lease_live": LIVE,
        "cancel_pending": "expired+cancel",
        "hold_in_force": "held-by-engine",
        "budget_exhausted": "expired-last",
        "not_ready": "queued-waiting paused-deferred",
        "already_terminal": ENDED,
    },
    "claim of an older epoch": {"stale_epoch": UNENDED, "already_terminal": ENDED},
    "renew": {
        NOTHING: LIVE,
        "LeaseRenewedLate": EXPIRED,
        "stale_fence": NEVER_LEASED + PARKED,
        "stale_epoch": "running-epoch-stale",
        "already_terminal": ENDED,
    },
    "checkpoint": _write(("Checkpointed", LIVE)),
    "record_unit": _write(("UnitRecorded", LIVE)),
    "report_progress": _write(("ProgressReported", LIVE)),
    "pause": _write(("Paused", "running-live running+hold"), ("Cancelled", "running+cancel")),
    "defer": _write(("Paused", "running-live running+hold"), ("Cancelled", "running+cancel")),
    "fail_attempt": _write(("AttemptFailed", "running-live running+hold"), ("Cancelled", "running+cancel")),
    "cancel": _write(("cancel_not_requested", "running-live running+hold"), ("Cancelled", "running+cancel")),
    "complete": _write(("Completed", LIVE)),
    "complete with another token": {"stale_fence": UNENDED + ENDED},
}


def expected(command: str, name: str) -> str:
    """The one answer that the table has for a cell."""
    answers = [answer for answer, names in MATRIX[command].items() if name in names.split()]
    assert len(answers) == 1, f"{command} on {name} has {len(answers)} answers in the table, it needs exactly one"
    return answers[0]


def answer_of(command: str, name: str) -> str:
    """What the decision says: the names of its events, or the code of its refusal."""
    try:
        events = COMMANDS[command](STANDINGS[name])
    except JobledgerError as refusal:
        return refusal.code
    return " ".join(when.names(events)) or NOTHING


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", STANDINGS)
def test_each_standing_answers_each_command_as_the_table_says(name: str, command: str) -> None:
    """Accepted events, nothing, or the code of the refusal."""
    assert answer_of(command, name) == expected(command, name)


def test_the_table_is_complete() -> None:
    """Every command has a row, and every name in the table is a standing: nothing is left to chance."""
    named = {name for answers in MATRIX.values() for names in answers.values() for name in names.split()}

    assert set(MATRIX) == set(COMMANDS)
    assert named == set(STANDINGS)


def test_a_missing_cell_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: without its cell a standing has no answer, and with two it has too many."""
    monkeypatch.setitem(MATRIX, "recover", {"lease_live": "queued", "already_terminal": "queued"})

    for name in ("running-expired", "queued"):
        with pytest.raises(AssertionError, match="exactly one"):
            expected("recover", name)


@pytest.mark.parametrize("name", STANDINGS)
def test_each_standing_is_what_its_name_says(name: str) -> None:
    """A table about other standings than those it names would prove nothing."""
    now = STANDINGS[name]
    word = re.split(r"[-+]", name, maxsplit=1)[0]

    assert {"expired": "running", "held": "paused"}.get(word, word) == now.job.state.value
    assert (now.job.hold is not None) == ("hold" in name or "held" in name)
    assert (now.job.cancel is not None) == ("+cancel" in name)
    assert (now.job.generation == 0) == (name in NEVER_LEASED.split())
    assert now.is_live == (name in LIVE.split())
    assert now.is_epoch_stale == (name == "running-epoch-stale")
    assert (now.job.ready_at > now.now) == (name in ("queued-waiting", "paused-deferred"))
