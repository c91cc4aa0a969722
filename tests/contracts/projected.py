"""What holds of projections in every history: built anew they are the same, and totals add up to the status rows."""

from __future__ import annotations

from collections import Counter

from jobledger import JobStore, State
from jobledger.domain.ports import Storage
from jobledger.projections.folding import Projection
from jobledger.projections.projecting import PROJECTIONS, live_of

ROWS_MAX = 1_000_000


def storage_of(store: JobStore) -> Storage:
    """What a store keeps everything in."""
    return store._setting.storage  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # the engine stands below the store's face


def rows_of(store: JobStore, name: str) -> dict[bytes, bytes]:
    """Every row of the live build of a projection."""
    with storage_of(store).reading() as reader:
        live = live_of(reader, name)
        assert live is not None, f"{name} has never run"
        return dict(reader.projected_between(name, live.build, after=b"", before=b"\xff", limit=ROWS_MAX))


def require_rebuilt_alike(store: JobStore, *projections: Projection) -> dict[str, dict[bytes, bytes]]:
    """Require that each projection is the same when it is built anew; answers the rows."""
    store.run_projections()
    found: dict[str, dict[bytes, bytes]] = {}
    for projection in projections or PROJECTIONS.values():
        kept = rows_of(store, projection.name)
        store.rebuild(projection.name)
        found[projection.name] = rows_of(store, projection.name)
        assert kept == found[projection.name], f"{projection.name} is another one when it is built anew"
    return found


def require_totals_of_states(store: JobStore) -> None:
    """Require that the totals add up to what the status rows say, for everybody and for one owner."""
    for owner in (None, "team"):
        tally: Counter[State] = Counter()
        for total in store.totals(owner=owner).totals:
            tally[State.QUEUED] += total.queued
            tally[State.RUNNING] += total.running
            tally[State.PAUSED] += total.paused
            for outcome, count in total.finished.items():
                tally[State(outcome.value)] += count
            assert total.created == total.queued + total.running + total.paused + sum(total.finished.values())
            assert (total.oldest_ready_at is None) == (not total.queued)
        assert {state: tally[state] for state in State} == store.counts(owner=owner)
