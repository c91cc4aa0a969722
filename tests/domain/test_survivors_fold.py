"""Edges of the fold that examples elsewhere do not reach: first numbers, defaults, and the order of kept bodies."""

from __future__ import annotations

import pytest

from jobledger.domain.events import Checkpointed, Created
from jobledger.domain.job import Job, evolve, fold
from jobledger.domain.values import Body
from tests.domain.given import EXPIRY, NOON, body, claimed, created, replay


def saved(digest: str) -> Checkpointed:
    """A large state was saved."""
    return Checkpointed(at=NOON, generation=1, state=Body(size=9_000, digest=digest), expires_at=EXPIRY)


@pytest.mark.parametrize(("first", "second"), [("a" * 64, "b" * 64), ("b" * 64, "a" * 64)])
def test_a_state_that_comes_again_is_kept_once_and_as_the_newest(first: str, second: str) -> None:
    job = replay([created(), claimed(1), saved(first), saved(second), saved(first)])

    assert job.kept == (second, first)


def test_a_state_that_is_saved_again_is_known_by_its_digest() -> None:
    """The digest of a stored event is another object than that of the state."""
    job = replay([created(), claimed(1), saved("a" * 64), saved("b" * 64), saved("".join(["b"] * 64))])

    assert job.kept == ("a" * 64, "b" * 64)


def test_a_new_job_begins_to_count_at_its_creation() -> None:
    plain, derived = replay([created()]), replay([created(checkpoint=body(4), units=2)])

    assert (plain.sequence, plain.control_sequence, plain.checkpoint_sequence) == (1, 1, None)
    assert (derived.control_sequence, derived.checkpoint_sequence, derived.units) == (1, 1, 2)


def test_a_history_that_starts_elsewhere_is_no_history() -> None:
    with pytest.raises(LookupError):
        evolve(None, claimed(1))
    assert fold([]) is None


def test_what_a_stored_state_leaves_out_is_what_it_always_was() -> None:
    """Defaults are part of the stored shape: a state that was kept by an older version has to be read the same."""
    job = Job(
        id="j",
        namespace="n",
        owner="o",
        kind="k",
        payload=Body(size=4),
        fingerprint="f",
        created_at=NOON,
        updated_at=NOON,
        sequence=1,
        control_sequence=1,
        ready_at=NOON,
    )

    assert (job.priority, job.units, job.generation, job.interrupts, job.failures) == (0, 0, 0, 0, 0)
    assert (job.queue, job.policy_name, job.last_token_digest, job.kept) == ("default", "default", "", ())


def test_what_a_stored_creation_leaves_out_is_what_it_always_was() -> None:
    event = Created(
        at=NOON, job_id="j", namespace="n", owner="o", kind="k", payload=Body(size=4), fingerprint="f", ready_at=NOON
    )

    assert (event.priority, event.units, event.queue, event.policy, event.controls) == (0, 0, "default", "default", ())
