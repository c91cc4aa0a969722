"""In every history with limits and holds all stores give the same answers, and no limit is ever exceeded."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from jobledger.domain.ports import Session
from jobledger.domain.queues.choosing import Usage
from tests.contracts.faults import TwinStorage
from tests.contracts.lockstep import OPENERS
from tests.contracts.queue_histories import AnyHistoryOfQueues
from tests.contracts.test_lockstep import settings_of

EXAMPLES = settings().max_examples if "JOBLEDGER_EXAMPLES" in os.environ else 120
EXAMPLES_WITH_A_SERVER = 30
HISTORIES_UNTIL_CAUGHT = 300


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_store_exceeds_a_limit_in_any_history() -> None:
    run_state_machine_as_test(AnyHistoryOfQueues, settings=settings_of(EXAMPLES, Phase.generate, Phase.shrink))


class AnyHistoryOfQueuesOfPostgreSQL(AnyHistoryOfQueues):
    """The same histories on the store that has a server, beside the memory store, which says what is right."""

    openers = {name: OPENERS[name] for name in ("memory", "postgresql")}  # noqa: RUF012  # as in the class it changes


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_postgresql_exceeds_no_limit_in_any_history() -> None:
    examples = EXAMPLES if "JOBLEDGER_EXAMPLES" in os.environ else EXAMPLES_WITH_A_SERVER
    run_state_machine_as_test(
        AnyHistoryOfQueuesOfPostgreSQL, settings=settings_of(examples, Phase.generate, Phase.shrink)
    )


# Each is seen by what happens, not only by an answer that differs: there is no right store beside the twin.
TWINS: Mapping[str, Callable[[Session], dict[str, Callable[..., Any]]]] = {
    "what runs is not counted": lambda _: {"running_in": lambda *_: {}},
    "starts are not remembered": lambda _: {"queue_usage": lambda *_: Usage()},
    "holds are not looked at": lambda session: {
        "queue_rules": lambda namespace, group, names: {
            name: state for name, state in session.queue_rules(namespace, group, names).items() if state.hold is None
        }
    },
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("forgotten", TWINS)
def test_a_twin_that_forgets_a_rule_of_queues_is_found_out(forgotten: str) -> None:
    """The same machine, over a twin of the memory store, must fail: else it would prove nothing of the others."""
    memory = OPENERS["memory"]

    class AnyHistoryOfATwin(AnyHistoryOfQueues):
        openers = {  # noqa: RUF012  # as in the class it changes
            "twin": lambda folder, clock: TwinStorage(memory(folder, clock), TWINS[forgotten]),
        }

    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            AnyHistoryOfATwin, settings=settings_of(HISTORIES_UNTIL_CAUGHT, Phase.generate, derandomize=True)
        )
