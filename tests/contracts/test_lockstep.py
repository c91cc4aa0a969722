"""In every history all stores give the same answers, keep the same events, and never break a rule of the job."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from jobledger.domain.ports import Append, Session
from tests.contracts.faults import TwinStorage, altering_appends, forgetting_commands
from tests.contracts.histories import AnyHistory
from tests.contracts.lockstep import OPENERS

EXAMPLES = settings().max_examples if "JOBLEDGER_EXAMPLES" in os.environ else 300
EXAMPLES_WITH_A_SERVER = 80
STEPS = 40
HISTORIES_UNTIL_CAUGHT = 500


def settings_of(examples: int, *phases: Phase, derandomize: bool = False) -> settings:
    """Many short histories; a slow machine is no bug."""
    return settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        phases=phases,
        derandomize=derandomize,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_all_stores_keep_every_rule_in_every_history() -> None:
    run_state_machine_as_test(AnyHistory, settings=settings_of(EXAMPLES, Phase.generate, Phase.shrink))


class AnyHistoryOfPostgreSQL(AnyHistory):
    """The same histories on the store that has a server, beside the memory store, which says what is right."""

    openers = {name: OPENERS[name] for name in ("memory", "postgresql")}  # noqa: RUF012  # as in the class it changes


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_postgresql_keeps_every_rule_in_every_history() -> None:
    examples = EXAMPLES if "JOBLEDGER_EXAMPLES" in os.environ else EXAMPLES_WITH_A_SERVER
    run_state_machine_as_test(AnyHistoryOfPostgreSQL, settings=settings_of(examples, Phase.generate, Phase.shrink))


# Twins that break one rule each ---------------------------------------------------------------------------------------


def guarding_less(**forgotten: Any) -> Callable[[Session], dict[str, Callable[..., Any]]]:
    """A twin that does not check some of a guard's preconditions."""
    return altering_appends(lambda append: replace(append, guard=replace(append.guard, **forgotten)))


def forgetting_to_reset(session: Session) -> dict[str, Callable[..., Any]]:
    """A twin whose fold keeps the interruptions that progress should have made good."""

    def with_interrupts_kept(append: Append) -> Append:
        before = session.load([append.job.id]).get(append.job.id)
        kept = before.job.interrupts if before else 0
        return replace(append, job=replace(append.job, interrupts=max(kept, append.job.interrupts)))

    return altering_appends(with_interrupts_kept)(session)


def forgetting_steps(append: Append) -> Append:
    """A twin that does not keep the number of the last write."""
    return replace(append, lease=append.lease and replace(append.lease, step=0))


def forgetting_renewals(append: Append) -> Append:
    """A twin that moves no expiry unless there is an event to write."""
    is_renewal = append.lease is not None and not append.records
    return (
        replace(append, lease=replace(append.lease, expires_at=append.lease.expires_at - timedelta(seconds=1)))
        if is_renewal and append.lease
        else append
    )


TWINS: Mapping[str, Callable[[Session], dict[str, Callable[..., Any]]]] = {
    "an expired lease may write": guarding_less(live_generation=None),
    "a renewal in between is not seen": guarding_less(seen_expiry=None),
    "an old epoch may write": guarding_less(epochs=()),
    "progress renews no budget": forgetting_to_reset,
    "commands are not remembered": forgetting_commands,
    "steps are not remembered": altering_appends(forgetting_steps),
    "renewals are forgotten": altering_appends(forgetting_renewals),
    "effects are not compared": altering_appends(lambda append: replace(append, effects=())),
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("forgotten", TWINS)
def test_a_twin_that_forgets_a_rule_is_found_out(forgotten: str) -> None:
    """The same machine, over a twin of the memory store, must fail: else it would prove nothing of the others."""
    memory = OPENERS["memory"]

    class AnyHistoryOfATwin(AnyHistory):
        openers = {  # noqa: RUF012  # as in the class it changes
            "memory": memory,
            "twin": lambda folder, clock: TwinStorage(memory(folder, clock), TWINS[forgotten]),
        }

    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            AnyHistoryOfATwin, settings=settings_of(HISTORIES_UNTIL_CAUGHT, Phase.generate, derandomize=True)
        )
