"""The rules hold in every reachable world of two small scopes; a rule broken on purpose is found, with a story."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.proof.explorer import SCOPES, explore, summary
from tests.proof.explorer_ledger import normal
from tests.proof.explorer_orders import FOREIGN, OVERTAKEN, OWN, Order
from tests.proof.explorer_rows import Rows, take
from tests.proof.explorer_search import HOPES, Search, quick_policy, traps
from tests.proof.mutants import MUTANTS

ROOT: Final = Path(__file__).parents[2]

STATES: Final = 100_000
"""What continuous integration visits of each scope; ``scripts/explore`` visits them all."""

WRITES: Final = (*OWN, *OVERTAKEN, *FOREIGN)

REPEATS: Final = ["a_repeat_is_told_of_now", "repeats_are_not_recognised", "the_lease_row_forgets_steps"]
"""Rules of the store that a search stands on; the others need two commands at once, which the simulator has."""

BROKEN: Final = [*sorted(name for name, mutant in MUTANTS.items() if mutant.scope == "decision"), *REPEATS]
"""Every rule of the decisions and the fold that is broken on purpose somewhere."""


@pytest.mark.parametrize("scope", ["A", "B"])
def test_no_world_breaks_a_rule(scope: str) -> None:
    report = explore(scope, states_max=STATES)

    assert not report.broken, f"{report.broken}\n{report.story}"
    assert report.progress.states >= STATES
    assert report.decided > 100 * report.ledgers, "every order is tried on every ledger"


def test_a_search_goes_the_same_way_every_time() -> None:
    first, second = explore("B", states_max=5_000), explore("B", states_max=5_000)

    assert (first.progress.states, first.progress.transitions) == (second.progress.states, second.progress.transitions)
    assert (first.decided, first.ledgers, first.crews) == (second.decided, second.ledgers, second.crews)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_found(name: str) -> None:
    """The negative control: each twin of a decision or of the fold is caught, on a way that can be told."""
    report = explore("A", mutant=name, states_max=20_000)

    assert report.broken, f"{MUTANTS[name].sentence} Nobody noticed in {summary(report)}."
    assert "a job was created" in report.story
    assert "BROKEN" in report.story or "impossible" in report.story


def test_enough_rules_are_broken() -> None:
    assert len(BROKEN) >= 20


def test_the_story_is_short_and_says_what_is_wrong() -> None:
    report = explore("A", mutant="claim_ignores_a_live_lease", states_max=20_000)

    assert "Claimed(generation 1, epoch 2, expires_at +30 s, respects_hold True)" in report.story
    assert "BROKEN refusals: it was accepted, the table says lease_live" in report.story
    assert len(report.story.splitlines()) < 20


def test_a_trap_is_a_finding() -> None:
    """The negative control of the hopes: without those who would help, each of them is lost somewhere."""
    with quick_policy():
        rows = Rows(SCOPES["A"].clock)
        number = 0
        while number < len(rows):
            rows.row(number)
            number += 1

        assert not traps(rows)
        assert lost_without(rows, "sweeper") >= {
            "the_dead_are_buried",
            "a_cancel_request_is_carried_out",
            "work_goes_on",
        }
        assert lost_without(rows, "operator") >= {"every_job_can_end"}
        assert lost_without(rows, "worker") >= {"every_job_can_succeed"}


def lost_without(rows: Rows, actor: str) -> set[str]:
    """The hopes that are lost when nobody plays a part; the moves of others stay as they were."""
    moves = {number: (row.free, row.own) for number, row in enumerate(rows.row(n) for n in range(len(rows)))}
    for number, (free, own) in moves.items():
        row = rows.row(number)
        row.free = tuple(move for move in free if move.actor != actor)
        row.own = () if actor == "worker" else own
    lost = {hope.name for hope, _ in traps(rows)}
    for number, (free, own) in moves.items():
        row = rows.row(number)
        row.free, row.own = free, own
    return lost


def test_every_world_leads_back_to_the_start() -> None:
    with quick_policy():
        search = Search(SCOPES["A"])
        search.run(2_000)
        way = search.path(1_999)

    assert way[0][0] == search.worlds.start
    assert way[-1][0] == search.visited[1_999]
    assert all(step is not None for _, step in way[1:])


def test_a_ledger_is_its_own_normal_form() -> None:
    """What was taken away stays away: a ledger that is made comparable again is the same one."""
    with quick_policy():
        rows = Rows(SCOPES["C"].clock)
        for number in range(300):
            rows.row(number)
        for ledger in rows.ledgers:
            again = normal(ledger.job, ledger.standing.lease, ledger.first)
            assert again.ledger.key == ledger.key


def test_every_kind_of_write_is_accepted_somewhere_and_no_foreign_one_anywhere() -> None:
    """A write that is refused everywhere would prove nothing, unless it has to be."""
    with quick_policy():
        rows = Rows(SCOPES["A"].clock)
        accepted: set[Order] = set()
        for number in range(1_000):
            rows.row(number)
            ledger = rows.ledgers[number]
            if ledger.job.generation:
                accepted.update(order for order in WRITES if take(ledger, order).refusal is None)

    outdated = {order for order in OWN if "outdated" in order.name}
    assert accepted == set(OWN) - outdated


def test_every_hope_has_a_name_and_a_sentence() -> None:
    assert len({hope.name for hope in HOPES}) == len(HOPES)
    assert all(hope.sentence.endswith(".") for hope in HOPES)


def started(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The search as ``scripts/explore`` starts it."""
    command = [sys.executable, "-P", "-m", "tests.proof.explorer", *arguments]
    asked = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=asked, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)


def test_the_command_searches_all_scopes_side_by_side() -> None:
    run = started("--states-max", "2000")

    assert run.returncode == 0, run.stderr
    assert "A: 2 workers, 4 generations: 2," in run.stdout
    assert [line[0] for line in run.stdout.splitlines()] == list(SCOPES)


def test_the_command_fails_where_a_rule_is_broken() -> None:
    run = started("--scope", "A", "--states-max", "2000", "--mutant", "fence_ignores_the_token")

    assert run.returncode == 1
    assert "BROKEN refusals" in run.stdout
