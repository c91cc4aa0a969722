"""Broken twins of how commands meet a store: preconditions, the lease row, the clock, and repeated commands."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from jobledger.adapters.storage.preconditions import failed_precondition
from jobledger.domain.errors import CommandChangedError
from jobledger.domain.lease import Standing
from jobledger.domain.store import executing
from tests.proof.mutating import Mutant

if TYPE_CHECKING:
    from collections.abc import Callable

_guard: Final = vars(executing)["_guard"]
_repeated: Final = vars(executing)["_repeated"]
_lease_after: Final = vars(executing)["_lease_after"]


def guard_without(**fields: Any) -> dict[Any, Any]:
    """Appends whose guard leaves something open."""
    return {_guard: lambda *args: replace(_guard(*args), **fields)}


def _any_sequence(append: Any, found: Any) -> str | None:
    return failed_precondition(append, replace(found, sequence=append.guard.sequence))


def _any_version(append: Any, found: Any) -> str | None:
    return failed_precondition(append, replace(found, versions={e.name: e.expected_version for e in append.effects}))


def _leased(change: Callable[[Any, Any], Any]) -> dict[Any, Any]:
    def twin(command: Any, decision: Any, standing: Any, job: Any) -> Any:
        row = _lease_after(command, decision, standing, job)
        return change(row, standing) if row is not None and standing is not None and standing.lease else row

    return {_lease_after: twin}


def _same_whatever_is_asked(session: Any, command: Any, loaded: Any) -> Any:
    try:
        return _repeated(session, command, loaded)
    except CommandChangedError:
        known = vars(executing)["read"](session.caused(command.job_id, command.cause.id)[0])
        return _repeated(session, replace(command, cause=known.cause), loaded)


def _told_of_now(session: Any, command: Any, loaded: Any) -> Any:
    told = _repeated(session, command, loaded)
    return told and replace(told, job=loaded.job)


STORE_MUTANTS: Final = (
    Mutant(
        "guard_ignores_the_sequence",
        "Two writers extend the same history.",
        {failed_precondition: _any_sequence},
        "store",
    ),
    Mutant(
        "guard_ignores_the_lease",
        "A lease that ran out while it was decided still writes.",
        guard_without(live_generation=None),
        "store",
    ),
    Mutant(
        "guard_ignores_the_seen_expiry",
        "An attempt that renewed meanwhile is interrupted.",
        guard_without(seen_expiry=None),
        "store",
    ),
    Mutant(
        "guard_ignores_epochs",
        "An epoch that advanced meanwhile does not fence off.",
        guard_without(epochs=()),
        "store",
    ),
    Mutant(
        "guard_ignores_versions",
        "An effect overwrites what came meanwhile.",
        {failed_precondition: _any_version},
        "store",
    ),
    Mutant(
        "the_lease_row_forgets_steps",
        "The last accepted step is not kept.",
        _leased(lambda row, _: replace(row, step=0)),
        "store",
    ),
    Mutant(
        "the_lease_row_is_not_renewed",
        "Renewals are confirmed and not kept.",
        _leased(
            lambda row, s: replace(row, expires_at=s.lease.expires_at) if row.generation == s.lease.generation else row
        ),
        "store",
    ),
    Mutant(
        "time_may_run_back",
        "A clock that was set back is believed.",
        {executing.stand: lambda loaded, clock: Standing(loaded.job, loaded.lease, loaded.epoch, clock)},
        "store",
    ),
    Mutant("repeats_are_not_recognised", "A repeated command is a new one.", {_repeated: lambda *_: None}, "store"),
    Mutant(
        "a_command_id_fits_every_command",
        "A known command id answers whatever is asked.",
        {_repeated: _same_whatever_is_asked},
        "store",
    ),
    Mutant(
        "a_repeat_is_told_of_now",
        "A repeated command is told of the job as it became.",
        {_repeated: _told_of_now},
        "store",
    ),
)
