"""Checkpoints, units, effects and bodies: what an attempt leaves behind, exactly once."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from jobledger import Dropped, Effect, JobStore, ManualClock, State
from tests.cases.values import Case, cases
from tests.contracts.conftest import LEASE
from tests.contracts.jobs import created, refuses, running, topics, trace

VALUES = [case for case in cases() if case.has_value]


@pytest.mark.parametrize("case", VALUES, ids=lambda case: case.name)
def test_each_value_is_stored_exactly_or_refused_by_name(store: JobStore, case: Case) -> None:
    """Payload, checkpoint, result, receipt and effect follow one rule on every store: equal bytes back, or its name."""
    value = case.make()
    if case.verdict != "stored":
        refuses(case.verdict, created, store, payload=value)
        assert sum(store.counts().values()) == 0
        return

    lease = running(store, payload=value)
    for stored in (lease.payload, store.status(lease.job_id).payload):
        assert json.dumps(stored) == json.dumps(value)
    store.checkpoint(lease.fence, value)
    assert json.dumps(store.status(lease.job_id).checkpoint) == json.dumps(value)
    assert json.dumps(store.complete(lease.fence, result=value).result) == json.dumps(value)
    assert store.verify(lease.job_id).ok


@pytest.mark.parametrize("case", [case for case in VALUES if case.verdict == "unstorable_value"], ids=lambda c: c.name)
def test_an_unstorable_value_is_refused_alike_on_every_path(store: JobStore, case: Case) -> None:
    """Nothing is written and the attempt stays open."""
    lease = running(store)
    value = case.make()
    before = trace(store, lease.job_id)

    refuses("unstorable_value", store.checkpoint, lease.fence, value)
    refuses("unstorable_value", store.pause, lease.fence, value)
    refuses("unstorable_value", store.record_unit, lease.fence, "u", value)
    refuses("unstorable_value", store.complete, lease.fence, result=value)
    effect = Effect(resource="r", value=value, expected_version=0)
    refuses("unstorable_value", store.checkpoint, lease.fence, 1, effects=[effect])

    assert trace(store, lease.job_id) == before


def test_one_size_rule_holds_on_every_path(store: JobStore) -> None:
    """The last byte that fits is stored, one more is refused with both sizes, and nothing is cut."""
    fits, over = "x" * 62, "x" * 63
    refuses("payload_too_large", created, store, policy="small", payload=over)
    lease = running(store, policy="small", payload=fits)
    refuses("checkpoint_too_large", store.checkpoint, lease.fence, over)
    refuses("checkpoint_too_large", store.pause, lease.fence, over)
    refuses("receipt_too_large", store.record_unit, lease.fence, "u", over)
    effect = Effect(resource="r", value=over, expected_version=0)
    refuses("result_too_large", store.checkpoint, lease.fence, 1, effects=[effect])
    error = refuses("result_too_large", store.complete, lease.fence, result=over)

    assert (error.size, error.limit) == (65, 64)  # type: ignore[attr-defined]  # a TooLargeError
    store.checkpoint(lease.fence, fits)
    store.record_unit(lease.fence, "u", fits)
    assert store.complete(lease.fence, result=fits).result == fits


def test_a_unit_is_recorded_once_for_all_generations(store: JobStore, clock: ManualClock) -> None:
    """Byte-equal again: the first receipt. Different: refused, carrying the first."""
    lease = running(store)
    first = store.record_unit(lease.fence, "batch-4", {"rows": 1})
    clock.advance(LEASE)
    newer = store.claim(lease.job_id, worker="w2")

    again = store.record_unit(newer.fence, "batch-4", {"rows": 1})
    error = refuses("receipt_changed", store.record_unit, newer.fence, "batch-4", {"rows": 1.0})

    assert (first.reused, again.reused) == (False, True)
    assert (again.generation, again.sequence, again.receipt) == (1, first.sequence, {"rows": 1})
    assert error.first == {"rows": 1}  # type: ignore[attr-defined]  # a ReceiptChangedError
    assert topics(store, lease.job_id).count("UnitRecorded") == 1
    assert store.status(lease.job_id).units == 1


def test_units_are_paged_by_name(store: JobStore) -> None:
    """Names are compared by code point, on every store alike."""
    lease = running(store)
    names = ["b", "a", "B", "é", "z", "e\u0301", "10", "9"]
    for name in names:
        store.record_unit(lease.fence, name, name)

    first = store.units(lease.job_id, limit=5)
    second = store.units(lease.job_id, after=first.next_after, limit=5)

    assert [unit.unit for unit in (*first.units, *second.units)] == sorted(names)
    assert second.next_after is None


def test_effects_commit_with_their_checkpoint_or_not_at_all(store: JobStore) -> None:
    """A compare-and-set that fails commits nothing of its step; the attempt stays open."""
    lease = running(store)
    store.checkpoint(lease.fence, 1, effects=[Effect(resource="index", value={"rows": 1}, expected_version=0)])
    before = trace(store, lease.job_id)

    stale = [
        Effect(resource="other", value=1, expected_version=0),
        Effect(resource="index", value=2, expected_version=0),
    ]
    error = refuses("effect_conflict", store.checkpoint, lease.fence, 2, effects=stale)

    assert (error.resource, error.expected, error.current) == ("index", 0, 1)  # type: ignore[attr-defined]  # its fields
    assert trace(store, lease.job_id) == before
    assert store.resource("team", "other") is None
    done = [Effect(resource="index", value=[2], expected_version=1)]
    refuses("effect_conflict", store.complete, lease.fence, result=0, effects=stale)
    assert store.complete(lease.fence, result=0, effects=done).state is State.COMPLETE
    resource = store.resource("team", "index")
    assert resource is not None
    assert (resource.value, resource.version, resource.generation) == ([2], 2, 1)
    assert store.resource("stranger", "index") is None


def test_effects_follow_the_step_they_belong_to(store: JobStore) -> None:
    """Two for one resource in a step, effects without a state, or with a failure are refused."""
    lease = running(store)
    effect = Effect(resource="r", value=1, expected_version=0)

    refuses("invalid_request", store.checkpoint, lease.fence, 1, effects=[effect, effect])
    refuses("invalid_request", store.pause, lease.fence, effects=[effect])
    refuses("invalid_request", store.complete, lease.fence, "failed", error="e", effects=[effect])
    assert store.pause(lease.fence, 1, effects=[effect]).state is State.PAUSED
    assert store.resource("team", "r") is not None


def test_an_outcome_carries_what_belongs_to_it(store: JobStore) -> None:
    """Complete and partial a result, failed and unavailable an error; cancelled is another command."""
    outcomes: dict[str, dict[str, Any]] = {
        "complete": {"result": 1},
        "partial": {"result": 1, "error": "half"},
        "failed": {"error": "e"},
        "unavailable": {"error": "later"},
    }
    for number, (outcome, given) in enumerate(outcomes.items()):
        lease = running(store, f"k{number}")
        refuses("invalid_request", store.complete, lease.fence, "cancelled")
        refuses("invalid_request", store.complete, lease.fence, "done")
        refuses("invalid_request", store.complete, lease.fence, "complete", error="e")
        refuses("invalid_request", store.complete, lease.fence, "failed")
        refuses("invalid_request", store.complete, lease.fence, "unavailable", result=1, error="e")
        result = store.complete(lease.fence, outcome, **given)
        assert (result.state.value, result.outcome) == (outcome, outcome)
        refuses("already_terminal", store.complete, lease.fence, outcome, **given)


def test_large_values_are_kept_aside_and_old_checkpoints_let_go(store: JobStore) -> None:
    """The bound of retained checkpoints holds; what was let go is named as dropped, never silently empty."""
    lease = running(store, policy="forgetful", payload=["p" * 9_000])
    states = [str(number) * 9_000 for number in range(4)]
    for state in states:
        store.checkpoint(lease.fence, state)

    shown = [store.status(lease.job_id, at=sequence).checkpoint for sequence in range(3, 7)]

    assert shown[2:] == states[2:]
    assert all(isinstance(value, Dropped) and value.size == 9_002 for value in shown[:2])
    assert store.status(lease.job_id).payload == ["p" * 9_000]
    assert store.verify(lease.job_id).ok
    refuses("invalid_request", store.fork, lease.job_id, at_sequence=3, by="ops", reason="again", key="f")


def test_an_error_report_never_fails(store: JobStore) -> None:
    """NUL and lone surrogates are stored as visible escapes, a huge text is visibly cut."""
    lease = running(store)
    store.fail_attempt(lease.fence, "a\0b\ud800" + "x" * 100_000)

    error = store.status(lease.job_id).error
    assert error is not None
    assert error.startswith("a\\u0000b\\ud800xxx")
    assert "characters cut" in error


def test_only_checkpoints_that_differ_count_as_progress(store: JobStore, clock: ManualClock) -> None:
    """A worker that saves the same state again and again still uses its budget up."""
    lease = running(store, policy="fragile")
    store.checkpoint(lease.fence, 4)
    clock.advance(timedelta(seconds=2))
    lease = store.claim(lease.job_id, worker="w")
    assert store.status(lease.job_id).interrupts == 1
    store.checkpoint(lease.fence, 4)
    assert store.status(lease.job_id).interrupts == 1
    store.checkpoint(lease.fence, 4.0)
    assert store.status(lease.job_id).interrupts == 0


def test_a_deferred_job_waits_and_counts_no_failure(store: JobStore, clock: ManualClock) -> None:
    """It is paused until its time, then continues from its state."""
    lease = running(store)
    store.defer(lease.fence, clock.now() + timedelta(hours=1), {"page": 3})

    status = store.status(lease.job_id)
    assert (status.state, status.failures, status.checkpoint) == (State.PAUSED, 0, {"page": 3})
    refuses("not_ready", store.claim, lease.job_id, worker="w")
    clock.advance(timedelta(hours=1))
    assert store.claim(lease.job_id, worker="w").checkpoint == {"page": 3}


def test_a_pause_under_a_cancel_request_ends_the_job_with_its_last_state(store: JobStore) -> None:
    """One event ends it, after the checkpoint that came along."""
    lease = running(store)
    store.request_cancel(lease.job_id, by="ops", reason="no use")

    assert store.pause(lease.fence, 7).state is State.CANCELLED
    assert topics(store, lease.job_id)[-2:] == ["Checkpointed", "Cancelled"]
    assert store.status(lease.job_id).checkpoint == 7
    assert list(store.history(lease.job_id))[-1].data["checkpoint_sequence"] == 4


def test_a_failure_may_be_tried_again_at_once(store: JobStore) -> None:
    """A wait of no time at all is a wait like any other."""
    lease = running(store)

    store.fail_attempt(lease.fence, "blink", retry_after=timedelta(0))

    assert store.claim(lease.job_id, worker="w").generation == 2
