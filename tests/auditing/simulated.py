"""Legal histories by the hundred: what the simulator's worlds leave behind in a real store, as bundles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobledger.projections.bundles import Scope, export
from tests.auditing.stories import NOON
from tests.proof.backends import memory_backend
from tests.proof.simulator import Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator


def simulated_bundles(first: int, count: int) -> Iterator[bytes]:
    """The bundle of each seed's world."""
    for seed in range(first, first + count):
        simulation = Simulation(seed, make=memory_backend)
        storage: Any = simulation.backend.storage  # type: ignore[attr-defined]  # a real backend has one
        storage.close = lambda: None  # the run closes its store, which is looked at afterwards
        assert not simulation.run().violations
        parts: list[bytes] = []
        with storage.reading() as reader:
            export(reader, Scope("default"), parts.append, made_by="the simulator", made_at=NOON)
        yield b"".join(parts)
