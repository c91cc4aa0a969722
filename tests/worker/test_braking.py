"""The brake of sweeps: many leases that run out at once are looked at twice, what nobody may take is not."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobledger import JobStore, State
from jobledger.adapters.worker import braking, keeping
from jobledger.adapters.worker.braking import Brake
from jobledger.domain.decisions.sweeping import Dead
from jobledger.domain.store.sweeping import Survey
from tests.worker.hosting import created, hosted, until
from tests.worker.in_processes import ends as of_another_kind

SPAN = timedelta(seconds=30)


class Clock:
    """The clock of local deadlines, moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(braking, "elapsed", clock)
    return clock


def test_few_dead_leases_are_recovered_at_once(clock: Clock) -> None:
    brake = Brake()

    assert brake.look(Survey(20, 2, SPAN), 0) is Dead.ABANDONED
    assert brake.look(Survey(9, 9, SPAN), 0) is Dead.ABANDONED
    assert clock.now == 1000.0


def test_a_suspicious_share_waits_one_lease_and_is_recovered_then(clock: Clock) -> None:
    brake = Brake()
    assert brake.look(Survey(20, 15, SPAN), 0) is Dead.UNCLAIMABLE

    clock.now += 29.9
    assert brake.look(Survey(20, 15, SPAN), 0) is Dead.UNCLAIMABLE

    clock.now += 0.1
    assert brake.look(Survey(20, 15, SPAN), 0) is Dead.ABANDONED


def test_leases_that_are_renewed_meanwhile_release_the_brake(clock: Clock) -> None:
    """That is what it waits for: the clock was set, or the server was away, and the workers were not."""
    brake = Brake()
    brake.look(Survey(20, 15, SPAN), 0)
    brake.look(Survey(20, 0, SPAN), 0)
    clock.now += 1

    assert brake.look(Survey(20, 1, SPAN), 0) is Dead.ABANDONED


def test_after_an_outage_of_the_store_even_one_dead_lease_waits(clock: Clock) -> None:
    brake = Brake()
    assert brake.look(Survey(3, 1, SPAN), 2) is Dead.UNCLAIMABLE

    clock.now += 30
    assert brake.look(Survey(3, 1, SPAN), 2) is Dead.ABANDONED


def abandoned(store: JobStore, count: int) -> list[str]:
    """Jobs of a kind that the host does not run, with leases of one second that nobody renews."""
    ids = [created(store, "nobody's") for _ in range(count)]
    for job_id in ids:
        store.claim(job_id, worker="killed", lease=1)
    return ids


def test_a_host_recovers_what_nobody_takes_over(memory: JobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control of the one below: a few are parked as soon as claims had their time."""
    monkeypatch.setattr(keeping, "SWEEP_EVERY", 0.1)
    ids = abandoned(memory, 4)
    with hosted(memory, of_another_kind):
        until(memory, lambda: all(memory.status(job_id).state is State.PAUSED for job_id in ids))


def test_a_host_brakes_where_many_leases_ran_out_at_once(
    memory: JobStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(keeping, "SWEEP_EVERY", 0.1)
    ids = abandoned(memory, 12)
    memory.request_cancel(ids[0], by="ann", reason="enough")
    with hosted(memory, of_another_kind):
        until(memory, lambda: "left alone" in caplog.text)
        until(memory, lambda: memory.status(ids[0]).state is State.CANCELLED)
        assert {memory.status(job_id).state for job_id in ids[1:]} == {State.RUNNING}
        until(memory, lambda: all(memory.status(job_id).state is State.PAUSED for job_id in ids[1:]))
