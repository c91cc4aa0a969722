"""Each rule that is broken on purpose is noticed by the simulator: a harness that misses one proves nothing of it."""

from __future__ import annotations

import pytest

from jobledger.domain import decisions
from jobledger.domain.decisions import working
from tests.proof.killing import SEEDS_MAX, kill
from tests.proof.mutants import MUTANTS
from tests.proof.mutating import replaced


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_noticed(name: str) -> None:
    killed = kill(name)

    why = killed.violation or f"{SEEDS_MAX} seeds did not notice: {MUTANTS[name].sentence}"
    assert killed.seed is not None, why


def test_there_are_many_and_each_says_what_is_broken() -> None:
    assert len(MUTANTS) >= 45
    assert len({mutant.sentence for mutant in MUTANTS.values()}) == len(MUTANTS)


def test_a_broken_rule_is_whole_again_afterwards() -> None:
    before = (decisions.claim, working.renewed_expiry)

    for mutant in MUTANTS.values():
        with mutant.applied():
            pass

    assert (decisions.claim, working.renewed_expiry) == before


def test_breaking_what_nobody_knows_is_a_mistake() -> None:
    def unknown() -> None:
        """Known to nobody."""

    with pytest.raises(LookupError, match="nobody knows"), replaced(unknown, unknown):
        pass
