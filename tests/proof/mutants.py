"""Every rule that is broken on purpose, by name: the controls of the explorer and the simulator.

``with MUTANTS["claim_ignores_holds"].applied(): …`` breaks a rule for the block. Those of the scope ``decision`` show
in the pure decisions and the fold of one job; the others need creations, or a store.
"""

from __future__ import annotations

from typing import Final

from tests.proof.mutants_fence import CLAIM_MUTANTS, FENCE_MUTANTS, RECOVERY_MUTANTS
from tests.proof.mutants_schedules import SCHEDULE_MUTANTS
from tests.proof.mutants_store import STORE_MUTANTS
from tests.proof.mutants_writes import (
    CREATION_MUTANTS,
    FOLD_MUTANTS,
    OPERATOR_MUTANTS,
    WORKER_MUTANTS,
)
from tests.proof.mutating import Mutant

__all__ = ["MUTANTS", "Mutant"]

MUTANTS: Final[dict[str, Mutant]] = {
    mutant.name: mutant
    for mutant in (
        *FENCE_MUTANTS,
        *CLAIM_MUTANTS,
        *RECOVERY_MUTANTS,
        *WORKER_MUTANTS,
        *OPERATOR_MUTANTS,
        *CREATION_MUTANTS,
        *FOLD_MUTANTS,
        *STORE_MUTANTS,
        *SCHEDULE_MUTANTS,
    )
}
